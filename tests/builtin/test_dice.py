"""Expressions against the grammar, rolls against arithmetic, and the two tools."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.builtin.dice import Dice, Expression, parse, roll, tools
from glyphoxa_trio.tools.definition import CallContext, Tool, ToolError
from glyphoxa_trio.tools.outcome import ToolResult


class Scripted(random.Random):
    """Falls as told."""

    def __init__(self, *faces: int) -> None:
        super().__init__()
        self.faces = list(faces)

    def randint(self, a: int, b: int) -> int:
        face = self.faces.pop(0)
        assert a <= face <= b
        return face


def dice(count: int, sides: int, keep: int | None = None, **other: Any) -> Dice:
    return Dice(count=count, sides=sides, keep=count if keep is None else keep, **other)


async def run(tool: Tool, **arguments: Any) -> Any:
    """Through the handler, as the host does."""
    result = tool.handler(arguments, CallContext())
    if not isinstance(result, ToolResult):
        result = await result
    return result.structured


# -- reading: G3, D20 ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2d6+3", Expression(dice=(dice(2, 6),), modifier=3)),
        ("1d20", Expression(dice=(dice(1, 20),))),
        ("4d8-1", Expression(dice=(dice(4, 8),), modifier=-1)),
        ("d%", Expression(dice=(dice(1, 100),))),
        ("2D6", Expression(dice=(dice(2, 6),))),
        ("\t2 d 6\u00a0+ 3 ", Expression(dice=(dice(2, 6),), modifier=3)),
        ("2d6+1d4-1", Expression(dice=(dice(2, 6), dice(1, 4)), modifier=-1)),
        ("4d6kh3", Expression(dice=(dice(4, 6, 3),))),
        ("4d6KL", Expression(dice=(dice(4, 6, 1, highest=False),))),
        ("1d20adv", Expression(dice=(dice(2, 20, 1),))),
        ("d20 dis", Expression(dice=(dice(2, 20, 1, highest=False),))),
        ("d20 adv+5", Expression(dice=(dice(2, 20, 1),), modifier=5)),
        ("3-2d4", Expression(dice=(dice(2, 4, sign=-1),), modifier=3)),
        ("-1d4+10+2", Expression(dice=(dice(1, 4, sign=-1),), modifier=12)),
        ("+d6", Expression(dice=(dice(1, 6),))),
        ("1000d10000", Expression(dice=(dice(1000, 10_000),))),
        ("d1", Expression(dice=(dice(1, 1),))),
    ],
)
def test_an_expression_is_read_term_by_term(text: str, expected: Expression) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "character", "problem"),
    [
        ("", 1, "expected dice"),
        ("   ", 4, "expected dice"),
        ("2d6++3", 5, "expected dice"),
        ("2d6+", 5, "expected dice"),
        ("2d6 3", 5, "expected '+', '-' or the end"),
        ("1d2 0", 5, "expected '+', '-' or the end"),
        ("2d6k3", 4, "expected '+', '-' or the end"),
        ("2d", 3, "number of sides after 'd'"),
        ("2d+1", 3, "number of sides after 'd'"),
        ("2x6", 2, "expected '+', '-' or the end"),
        ("2d6*2", 4, "'*' has no meaning"),
        ("1d20+½", 6, "'½' has no meaning"),
        ("1d٣", 3, "'٣' has no meaning"),
        ("0d6", 1, "number of dice must be from 1 to 1000"),
        ("1+1001d6", 3, "number of dice must be from 1 to 1000"),
        ("999d6+1d20adv", 7, "more than 1000 dice in all"),
        ("1d0", 3, "number of sides must be from 1 to 10000"),
        ("1d6+1d10001", 7, "number of sides must be from 1 to 10000"),
        ("2d20adv", 5, "'adv' goes with one die, not with 2"),
        ("2d6kh3", 6, "'kh' must keep from 1 to 2 dice"),
        ("2d6kl0", 6, "'kl' must keep from 1 to 2 dice"),
        ("1d20advadv", 5, "expected '+', '-' or the end"),
        ("1d6+1000001", 5, "a number above 1000000"),
        ("5", 1, "no dice in it"),
        ("-3+2", 1, "no dice in it"),
    ],
)
def test_a_mistake_is_refused_with_its_place(
    text: str, character: int, problem: str
) -> None:
    with pytest.raises(ToolError) as caught:
        parse(text)
    assert f"{text!r}, character {character}: " in str(caught.value)
    assert problem in str(caught.value)


def test_an_endless_expression_is_refused_unread() -> None:
    with pytest.raises(ToolError, match="at most 200 characters"):
        parse("+".join(["1d6"] * 100_000))


@given(st.text(alphabet="0123456789dDkKhHlLaAvViIsS%+- x", max_size=40))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    try:
        expression = parse(text)
    except ToolError:
        return
    assert 1 <= sum(dice.count for dice in expression.dice) <= 1000


# -- throwing: D20 ------------------------------------------------------------------


@st.composite
def expressions(draw: st.DrawFn) -> Expression:
    terms = []
    for _ in range(draw(st.integers(1, 5))):
        count = draw(st.integers(1, 30))
        terms.append(
            Dice(
                count=count,
                sides=draw(st.integers(1, 10_000)),
                keep=draw(st.integers(1, count)),
                highest=draw(st.booleans()),
                sign=draw(st.sampled_from((1, -1))),
            )
        )
    return Expression(dice=tuple(terms), modifier=draw(st.integers(-50, 50)))


def written(expression: Expression) -> str:
    text = ""
    for term in expression.dice:
        keep = f"k{'h' if term.highest else 'l'}{term.keep}"
        text += f"{'+' if term.sign > 0 else '-'}{term.count}d{term.sides}{keep}"
    return f"{text}{expression.modifier:+}"


@given(expressions())
def test_what_is_written_is_what_is_read(expression: Expression) -> None:
    def plain(some: Expression) -> list[tuple[int, ...]]:
        # Keeping all the dice is the same from either end.
        return [
            (d.sign, d.count, d.sides, d.keep, d.highest or d.keep == d.count)
            for d in some.dice
        ]

    read = parse(written(expression))
    assert read.modifier == expression.modifier
    assert plain(read) == plain(expression)


@given(expressions(), st.randoms(use_true_random=False))
def test_the_total_is_the_dice_that_count_and_the_modifier(
    expression: Expression, rng: random.Random
) -> None:
    rolled = roll(expression, rng)
    assert rolled.total == sum(rolled.rolls) + expression.modifier
    rolls, dropped = list(rolled.rolls), list(rolled.dropped)
    for term in expression.dice:
        kept = [term.sign * rolls.pop(0) for _ in range(term.keep)]
        left = [term.sign * dropped.pop(0) for _ in range(term.count - term.keep)]
        assert all(1 <= face <= term.sides for face in kept + left)
        if left and term.highest:
            assert min(kept) >= max(left)
        elif left:
            assert max(kept) <= min(left)
    assert rolls == dropped == []


@given(expressions(), st.integers())
def test_the_same_chance_falls_the_same(expression: Expression, seed: int) -> None:
    first = roll(expression, random.Random(seed))
    assert roll(expression, random.Random(seed)) == first


def test_dice_stay_in_the_order_they_fell_and_of_equals_the_first_counts() -> None:
    rolled = roll(parse("5d6kh3"), Scripted(2, 6, 2, 1, 2))
    assert (rolled.rolls, rolled.dropped) == ((2, 6, 2), (1, 2))


def test_dice_of_a_subtracted_term_are_negative() -> None:
    rolled = roll(parse("1d6-2d4kl1+1"), Scripted(5, 3, 2))
    assert (rolled.rolls, rolled.dropped, rolled.total) == ((5, -2), (-3,), 4)


def test_every_face_comes_up() -> None:
    rolled = roll(parse("1000d6"), random.Random(1))
    assert set(rolled.rolls) == {1, 2, 3, 4, 5, 6}


# -- the tools: G3, G4, G15, G29 ----------------------------------------------------


async def test_roll_answers_with_the_seeds_fields_and_the_modifier() -> None:  # G3
    roll_tool, _ = tools(Scripted(4, 2))
    assert await run(roll_tool, expression="2d6+3") == {
        "expression": "2d6+3",
        "rolls": [4, 2],
        "total": 9,
        "modifier": 3,
    }


async def test_roll_shows_dropped_dice_only_when_there_are_any() -> None:
    roll_tool, _ = tools(Scripted(17, 4, 9))
    assert (await roll_tool("1d20dis"))["dropped"] == [17]
    assert "dropped" not in await roll_tool("1d20")


async def test_roll_refuses_a_mistake_as_an_answer_for_the_model() -> None:
    roll_tool, _ = tools()
    with pytest.raises(ToolError, match="character 4"):
        await run(roll_tool, expression="2d six")


async def test_without_a_source_the_systems_chance_is_used() -> None:
    roll_tool, table_tool = tools()
    rolled = {(await roll_tool("1d10000"))["total"] for _ in range(20)}
    assert len(rolled) > 1
    assert (await table_tool("wild_magic"))["table"] == "wild_magic"


@pytest.mark.parametrize("name", ["wild_magic", "treasure_hoard", "random_encounter"])
async def test_every_entry_of_a_shipped_table_can_be_rolled(name: str) -> None:  # G4
    results = []
    for number in range(1, 21):
        _, table_tool = tools(Scripted(number))
        answer = await run(table_tool, table_name=name)
        assert (answer["table"], answer["roll"]) == (name, number)
        results.append(answer["result"])
    assert len(set(results)) == 20
    assert all(len(result) > 20 for result in results)


async def test_the_last_entry_of_a_table_is_its_highest_number() -> None:
    class Highest(random.Random):
        def randint(self, a: int, b: int) -> int:
            return b

    _, table_tool = tools(Highest(), tables={"weather": ["sun", "rain", "frogs"]})
    answer = await table_tool("weather")
    assert answer == {"table": "weather", "roll": 3, "result": "frogs"}


async def test_tables_may_be_added_and_replaced() -> None:
    _, table_tool = tools(Scripted(1), tables={"wild_magic": ["Nothing happens."]})
    assert (await table_tool("wild_magic"))["result"] == "Nothing happens."
    _, table_tool = tools(tables={"weather": ("sun",)})
    names = ["wild_magic", "treasure_hoard", "random_encounter", "weather"]
    assert table_tool.definition.parameters["properties"]["table_name"]["enum"] == names
    assert "weather" in table_tool.definition.description


@pytest.mark.parametrize("table", [[], "not a list"])
def test_a_table_without_entries_is_refused(table: Any) -> None:
    with pytest.raises(ValueError, match="'weather' needs a list"):
        tools(tables={"weather": table})


async def test_an_unknown_table_is_refused_with_the_known_ones() -> None:
    _, table_tool = tools()
    with pytest.raises(ToolError, match="no table 'names'; there are wild_magic"):
        await run(table_tool, table_name="names")


def test_the_definitions_say_what_the_seeds_say() -> None:
    roll_tool, table_tool = tools()
    assert [roll_tool.key, table_tool.key] == ["dice.roll", "dice.roll_table"]
    for definition in (roll_tool.definition, table_tool.definition):
        assert definition.estimated_duration == 0.005
        assert definition.max_duration == 0.02
        assert definition.read_only
        assert not definition.idempotent
        assert definition.cacheable == 0
    assert roll_tool.definition.parameters["required"] == ["expression"]
    assert table_tool.definition.parameters["properties"]["table_name"]["enum"] == [
        "wild_magic",
        "treasure_hoard",
        "random_encounter",
    ]


async def test_the_examples_work() -> None:  # D9
    roll_tool, _ = tools()
    for example in roll_tool.definition.examples:
        assert (await run(roll_tool, **example))["rolls"]
