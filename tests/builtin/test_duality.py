"""Duality: the seed's examples word for word, the odds against counting by hand, and
dice that fall again from their seed."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from hashlib import sha256
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.builtin.duality import (
    ALGORITHM,
    MAX_SEED,
    InvalidRoll,
    RollOutcome,
    Seeded,
    evaluate,
    probability,
    tools,
)
from glyphoxa_trio.config import Config
from glyphoxa_trio.config.builtin import BuiltinConfig, DualityConfig
from glyphoxa_trio.runtime.assembly import builtin_tools
from glyphoxa_trio.tools.arguments import InvalidArguments
from glyphoxa_trio.tools.definition import CallContext, Tool
from glyphoxa_trio.tools.outcome import ToolResult
from glyphoxa_trio.tools.schema import ArgumentSchema
from glyphoxa_trio.tools.tier import Tier

TOOLS = {tool.definition.name: tool for tool in tools()}
FACES = st.integers(1, 12)


async def call(name: str, /, **arguments: Any) -> Any:
    """Through schema and handler, as the host does and a server."""
    return await through(TOOLS[name], arguments)


async def through(tool: Tool, arguments: dict[str, Any]) -> Any:
    text = json.dumps(arguments)
    checked = ArgumentSchema(tool.definition.parameters).parse(text)
    result = tool.handler(checked, CallContext())
    if not isinstance(result, ToolResult):
        result = await result
    return result.structured


# -- the seed's examples ------------------------------------------------------------


async def test_the_rules_are_those_of_the_seed() -> None:  # F35, F43
    assert await call("duality_rules_version") == {
        "system": "Daggerheart",
        "module": "Duality",
        "rules_version": "1.0.0",
        "dice_model": "DUALITY_D12_V1",
        "total_formula": "hope + fear + modifier",
        "crit_rule": "HOPE_EQUALS_FEAR_IS_CRITICAL",
        "difficulty_rule": "TOTAL_MEETS_OR_EXCEEDS_DIFFICULTY",
        "outcomes": [
            "ROLL_WITH_HOPE",
            "ROLL_WITH_FEAR",
            "SUCCESS_WITH_HOPE",
            "SUCCESS_WITH_FEAR",
            "FAILURE_WITH_HOPE",
            "FAILURE_WITH_FEAR",
            "CRITICAL_SUCCESS",
        ],
    }


SEED_OUTCOME = {
    "hope": 8,
    "fear": 5,
    "modifier": 2,
    "difficulty": 15,
    "total": 15,
    "is_crit": False,
    "meets_difficulty": True,
    "outcome": "SUCCESS_WITH_HOPE",
}
SEED_STEPS = [
    {
        "code": "SUM_DICE",
        "message": "Sum hope and fear dice",
        "data": {"hope": 8, "fear": 5, "base_total": 13},
    },
    {
        "code": "APPLY_MODIFIER",
        "message": "Apply modifier to base total",
        "data": {"base_total": 13, "modifier": 2, "total": 15},
    },
    {
        "code": "CHECK_CRIT",
        "message": "Check for critical outcome",
        "data": {"hope": 8, "fear": 5, "is_crit": False},
    },
    {
        "code": "CHECK_DIFFICULTY",
        "message": "Compare total against difficulty",
        "data": {"total": 15, "difficulty": 15, "meets_difficulty": True},
    },
    {
        "code": "SELECT_OUTCOME",
        "message": "Select final outcome based on roll",
        "data": {"outcome": "SUCCESS"},
    },
]


async def test_an_outcome_is_that_of_the_seed() -> None:  # F37
    found = await call("duality_outcome", hope=8, fear=5, modifier=2, difficulty=15)
    assert list(found.items()) == list(SEED_OUTCOME.items())  # its order, too


async def test_an_explanation_is_that_of_the_seed() -> None:  # F38, F39, F40
    found = await call(
        "duality_explain",
        hope=8,
        fear=5,
        modifier=2,
        difficulty=15,
        request_id="req_123",
    )
    assert found == SEED_OUTCOME | {
        "rules_version": "1.0.0",
        "intermediates": {
            "base_total": 13,
            "total": 15,
            "is_crit": False,
            "meets_difficulty": True,
            "hope_gt_fear": True,
            "fear_gt_hope": False,
        },
        "steps": SEED_STEPS,
    }


async def test_a_roll_says_what_an_outcome_of_its_dice_says() -> None:  # F36
    rolled = await call("duality_action_roll", modifier=2, difficulty=15)
    known = {name: rolled[name] for name in ("hope", "fear", "modifier", "difficulty")}
    assert rolled == await call("duality_outcome", **known)


async def test_pools_are_rolled_in_their_order() -> None:  # F42
    class Rising(random.Random):
        last = 0

        def randint(self, a: int, b: int) -> int:
            self.last += 1
            assert a == 1
            return min(self.last, b)

    pools = [{"sides": 20, "count": 2}, {"sides": 2, "count": 1}]
    tool = next(x for x in tools(Rising()) if x.definition.name == "roll_dice")
    assert await through(tool, {"dice": pools}) == {
        "rolls": [
            {"sides": 20, "results": [1, 2], "total": 3},
            {"sides": 2, "results": [2], "total": 2},
        ],
        "total": 5,
    }


# -- what a roll means --------------------------------------------------------------


@pytest.mark.parametrize(
    ("hope", "fear", "difficulty", "meets", "outcome", "verdict"),
    [
        (1, 1, 15, True, "CRITICAL_SUCCESS", "CRITICAL_SUCCESS"),  # over everything
        (1, 1, None, False, "CRITICAL_SUCCESS", "CRITICAL_SUCCESS"),
        (7, 6, None, False, "ROLL_WITH_HOPE", "ROLL"),
        (6, 7, None, False, "ROLL_WITH_FEAR", "ROLL"),
        (7, 6, 13, True, "SUCCESS_WITH_HOPE", "SUCCESS"),
        (6, 7, 14, False, "FAILURE_WITH_FEAR", "FAILURE"),
        (6, 7, 0, True, "SUCCESS_WITH_FEAR", "SUCCESS"),  # 0 is a difficulty
        (7, 6, 14, False, "FAILURE_WITH_HOPE", "FAILURE"),
    ],
)
async def test_what_a_roll_means(
    hope: int,
    fear: int,
    difficulty: int | None,
    meets: bool,
    outcome: str,
    verdict: str,
) -> None:  # F37
    found = await call("duality_explain", hope=hope, fear=fear, difficulty=difficulty)
    assert found["meets_difficulty"] is meets
    assert found["outcome"] == outcome
    assert found["steps"][4]["data"] == {"outcome": verdict}
    given = {} if difficulty is None else {"difficulty": difficulty}
    checked = {"total": hope + fear, "meets_difficulty": meets} | given
    assert found["steps"][3]["data"] == checked
    assert ("difficulty" in found) is bool(given)


@given(FACES, FACES, st.integers(-60, 60), st.none() | st.integers(0, 90))
def test_outcomes_hold_together(
    hope: int, fear: int, modifier: int, difficulty: int | None
) -> None:
    roll = evaluate(hope, fear, modifier, difficulty)
    mirror = evaluate(fear, hope, modifier, difficulty)
    assert roll.total == mirror.total
    swapped = {"HOPE": "FEAR", "FEAR": "HOPE"}
    words = roll.outcome.value.split("_")
    assert mirror.outcome.value.split("_") == [swapped.get(x, x) for x in words]
    assert [step["code"] for step in roll.steps()] == [
        "SUM_DICE",
        "APPLY_MODIFIER",
        "CHECK_CRIT",
        "CHECK_DIFFICULTY",
        "SELECT_OUTCOME",
    ]


# -- odds ---------------------------------------------------------------------------


def test_odds_are_what_counting_gives() -> None:  # F41
    pairs = [(a + b, a - b) for a, b in product(range(1, 13), repeat=2)]
    for modifier, difficulty in product(range(-30, 31), range(0, 61, 2)):
        needed = difficulty - modifier
        crits = sum(lead == 0 for _, lead in pairs)
        hope = sum(lead > 0 and total >= needed for total, lead in pairs)
        fear = sum(lead < 0 and total >= needed for total, lead in pairs)
        found = probability(modifier, difficulty)
        counts = [(row["outcome"], row["count"]) for row in found["outcome_counts"]]
        assert counts == [
            ("CRITICAL_SUCCESS", 12),
            ("SUCCESS_WITH_HOPE", hope),
            ("SUCCESS_WITH_FEAR", fear),
            ("FAILURE_WITH_HOPE", 66 - hope),
            ("FAILURE_WITH_FEAR", 66 - fear),
        ]
        assert crits == found["crit_count"] == 12
        assert found["success_count"] == 12 + hope + fear
        assert found["failure_count"] == 132 - hope - fear
        assert found["total_outcomes"] == 144


@pytest.mark.parametrize(
    ("modifier", "difficulty", "success", "counts"),
    [
        (2, 15, 84, [12, 36, 36, 30, 30]),  # where the seed's figures cannot be
        (0, 10, 112, [12, 50, 50, 16, 16]),
        (0, 15, 62, [12, 25, 25, 41, 41]),
        (2, 16, 72, [12, 30, 30, 36, 36]),
    ],
)
async def test_odds_that_were_checked_elsewhere(
    modifier: int, difficulty: int, success: int, counts: list[int]
) -> None:  # F41
    found = await call("duality_probability", modifier=modifier, difficulty=difficulty)
    assert found["success_count"] == success
    assert found["failure_count"] == 144 - success
    assert [row["count"] for row in found["outcome_counts"]] == counts


# -- bad arguments ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "place"),
    [
        ("duality_outcome", {"hope": 0, "fear": 5}, "hope"),
        ("duality_outcome", {"hope": 5, "fear": 13}, "fear"),
        ("duality_outcome", {"hope": 5}, "fear"),
        ("duality_explain", {"hope": 5, "fear": 5, "difficulty": -1}, "difficulty"),
        ("duality_action_roll", {"difficulty": -1}, "difficulty"),
        ("duality_action_roll", {"modifier": 10**9}, "modifier"),
        ("duality_action_roll", {"modifier": "two"}, "modifier"),
        ("duality_action_roll", {"modifier": True}, "modifier"),
        ("duality_probability", {"modifier": 2}, "difficulty"),
        ("duality_probability", {"difficulty": None}, "difficulty"),
        ("roll_dice", {}, "dice"),
        ("roll_dice", {"dice": []}, "dice"),
        ("roll_dice", {"dice": [{"sides": 0, "count": 1}]}, "sides"),
        ("roll_dice", {"dice": [{"sides": 10_001, "count": 1}]}, "sides"),
        ("roll_dice", {"dice": [{"sides": 6, "count": 0}]}, "count"),
        ("roll_dice", {"dice": [{"sides": 6, "count": 1001}]}, "count"),
        ("roll_dice", {"dice": [{"sides": 6, "count": 501}] * 2}, "dice"),
        ("roll_dice", {"dice": [{"sides": 6}]}, "count"),
        ("roll_dice", {"dice": [], "rng": {"seed": -1}}, "seed"),
        ("duality_action_roll", {"rng": {"seed": MAX_SEED + 1}}, "seed"),
        ("duality_action_roll", {"rng": {"roll_mode": "REPLAY"}}, "seed"),
        ("duality_action_roll", {"rng": {"roll_mode": "LIVE", "seed": 1}}, "seed"),
        ("duality_action_roll", {"rng": {"roll_mode": "AGAIN"}}, "roll_mode"),
    ],
)
async def test_an_argument_out_of_bounds_is_named(
    name: str, arguments: dict[str, Any], place: str
) -> None:
    with pytest.raises((InvalidArguments, InvalidRoll), match=place):
        await call(name, **arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("duality_outcome", {"hope": 0, "fear": 5}, "hope must be from 1 to 12, got 0"),
        ("duality_action_roll", {"difficulty": -1}, "difficulty must be from 0 to"),
        ("duality_action_roll", {"rng": {"roll_mode": "X"}}, "must be LIVE or REPLAY"),
        ("duality_action_roll", {"rng": {"seed": -1}}, "rng.seed must be from 0 to"),
        ("roll_dice", {"dice": []}, "dice must name at least one pool"),
        ("roll_dice", {"dice": [{"sides": 0, "count": 1}]}, r"dice\[0\].sides must be"),
        ("roll_dice", {"dice": [{"sides": 6, "count": 0}]}, r"dice\[0\].count must be"),
        ("roll_dice", {"dice": [{"sides": 6, "count": 501}] * 2}, "at most 1000 in"),
    ],
)
async def test_whoever_has_no_schema_is_refused_with_a_code(
    name: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRoll, match=message) as refusal:
        await TOOLS[name](**arguments)
    assert refusal.value.code == "InvalidArgument"


@given(st.integers(), st.integers(), st.integers(), st.none() | st.integers())
def test_dice_that_cannot_be_are_refused(
    hope: int, fear: int, modifier: int, difficulty: int | None
) -> None:
    sound = hope in range(1, 13) and fear in range(1, 13) and abs(modifier) <= 10**6
    if sound and (difficulty is None or 0 <= difficulty <= 10**6):
        evaluate(hope, fear, modifier, difficulty)
    else:
        with pytest.raises(InvalidRoll, match="must be from"):
            evaluate(hope, fear, modifier, difficulty)


# -- chance -------------------------------------------------------------------------


def by_the_book(seed: int, sides: list[int]) -> list[int]:
    """The algorithm as it is written down, once more and differently."""
    label = b"SHA256_CTR_V1" + seed.to_bytes(8, "big")
    stream = b"".join(sha256(label + i.to_bytes(8, "big")).digest() for i in range(300))
    words = [int.from_bytes(stream[i : i + 8], "big") for i in range(0, 9600, 8)]
    faces = []
    for side in sides:
        while (word := words.pop(0)) >= 2**64 // side * side:
            pass
        faces.append(word % side + 1)
    return faces


@given(st.integers(0, MAX_SEED), st.lists(st.integers(1, 10_000), max_size=50))
def test_seeded_dice_fall_as_it_is_written(seed: int, sides: list[int]) -> None:
    face = Seeded(seed)
    assert [face(side) for side in sides] == by_the_book(seed, sides)


# These stay as they are for ever: sessions that were kept are replayed with them.
GOLDEN = {
    0: [6, 2, 4, 8, 7, 3, 11, 17, 19, 3, 1890, 6374, 2757],
    1: [6, 5, 9, 4, 2, 10, 12, 13, 16, 11, 6957, 305, 1349],
    3: [12, 5, 7, 8, 12, 2, 13, 15, 4, 19, 9136, 5873, 710],
    MAX_SEED: [2, 6, 10, 2, 9, 4, 9, 7, 13, 20, 7568, 8496, 156],
}
SIDES = [12] * 6 + [20] * 4 + [10_000] * 3


@pytest.mark.parametrize("seed", GOLDEN)
def test_a_seed_has_always_the_same_dice(seed: int) -> None:
    face = Seeded(seed)
    assert [face(sides) for sides in SIDES] == GOLDEN[seed]


@pytest.mark.border
def test_a_seed_has_the_same_dice_in_another_process() -> None:
    code = (
        "from glyphoxa_trio.builtin.duality import Seeded\n"
        "face = Seeded(3)\n"
        f"print([face(sides) for sides in {SIDES}])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={"PYTHONHASHSEED": "77"},
    )
    assert json.loads(ran.stdout) == GOLDEN[3]


async def test_a_roll_tells_its_seed_if_it_is_asked_to() -> None:  # F36
    assert "rng" not in await call("duality_action_roll", modifier=1)
    first = await call("duality_action_roll", modifier=1, rng={})
    said = first.pop("rng")
    assert said["seed_source"] == "SERVER"
    assert said["roll_mode"] == "LIVE"
    assert said["rng_algo"] == ALGORITHM == "SHA256_CTR_V1"
    again = await call(
        "duality_action_roll",
        modifier=1,
        rng={"seed": said["seed_used"], "roll_mode": "REPLAY"},
    )
    assert again.pop("rng") == said | {"seed_source": "CLIENT", "roll_mode": "REPLAY"}
    assert again == first


async def test_a_pool_falls_again_from_its_seed() -> None:  # F42
    pools = [{"sides": 20, "count": 3}, {"sides": 6, "count": 2}]
    rng = {"seed": 1, "roll_mode": "REPLAY"}
    found = await call("roll_dice", dice=pools, rng=rng)
    assert found == {
        "rolls": [
            {"sides": 20, "results": by_the_book(1, [20] * 3), "total": 28},
            {"sides": 6, "results": by_the_book(1, [20] * 3 + [6] * 2)[3:], "total": 6},
        ],
        "total": 34,
        "rng": {
            "seed_used": 1,
            "rng_algo": "SHA256_CTR_V1",
            "seed_source": "CLIENT",
            "roll_mode": "REPLAY",
        },
    }
    assert found == await call("roll_dice", dice=pools, rng={"seed": 1})


def chi_square(faces: list[Any], cells: int) -> float:
    expected = len(faces) / cells
    counts = Counter(faces)
    seen = sum((count - expected) ** 2 / expected for count in counts.values())
    return seen + (cells - len(counts)) * expected


# The bounds are those of one in a thousand; the seeds are fixed, so it is always
# or never.
@pytest.mark.parametrize(("sides", "bound"), [(6, 20.5), (12, 31.3), (100, 148.3)])
def test_dice_of_one_seed_are_fair(sides: int, bound: float) -> None:
    face = Seeded(20_250_115)
    assert chi_square([face(sides) for _ in range(200 * sides)], sides) < bound


def test_hope_and_fear_are_fair_together_from_seed_to_seed() -> None:
    def roll(seed: int) -> tuple[int, int]:
        face = Seeded(seed)
        return face(12), face(12)

    assert chi_square([roll(seed) for seed in range(7200)], 144) < 199.6


async def test_live_dice_are_fair() -> None:
    chance = random.Random(11)
    tool = next(x for x in tools(chance) if x.definition.name == "duality_action_roll")
    rolls = [await tool() for _ in range(7200)]
    assert chi_square([(roll["hope"], roll["fear"]) for roll in rolls], 144) < 199.6
    assert {roll["outcome"] for roll in rolls} == {
        RollOutcome.ROLL_WITH_HOPE,
        RollOutcome.ROLL_WITH_FEAR,
        RollOutcome.CRITICAL_SUCCESS,
    }


# -- as tools -----------------------------------------------------------------------

ROLLS = {"duality_action_roll", "roll_dice"}


def test_what_the_tools_promise() -> None:  # G20
    assert list(TOOLS) == [
        "duality_rules_version",
        "duality_action_roll",
        "duality_outcome",
        "duality_explain",
        "duality_probability",
        "roll_dice",
    ]
    for name, tool in TOOLS.items():
        definition = tool.definition
        assert definition.key == f"duality.{name}"
        assert definition.title
        assert definition.estimated_duration is not None
        assert definition.estimated_duration <= 0.5
        assert definition.min_tier is Tier.FAST
        assert definition.read_only
        assert not definition.destructive
        assert not definition.open_world
        assert definition.idempotent is (name not in ROLLS)
        assert bool(definition.cacheable) is (name not in ROLLS)


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
async def test_the_examples_of_a_tool_are_answered(tool: Tool) -> None:
    for example in tool.definition.examples:
        assert await call(tool.definition.name, **example)


def test_npcs_have_duality_where_it_is_asked_for() -> None:
    on = Config(builtin=BuiltinConfig(duality=DualityConfig(enabled=True)))

    def found(config: Config) -> set[str]:
        return {tool.definition.group for tool in builtin_tools(config)[0]}

    rolls = [x for x in builtin_tools(on)[0] if x.definition.name in ROLLS]
    assert len(rolls) == 2
    for one in rolls:  # a model would give the same seed again and again
        assert "rng" not in one.definition.parameters["properties"]
    usual = {"dice", "rules", "memory", "sessions"}
    assert found(Config()) == usual
    assert found(on) == usual | {"duality"}
