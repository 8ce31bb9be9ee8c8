"""Arguments against a tool's schema: messages a model can act on, bounded work."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from glyphoxa_trio.tools.arguments import InvalidArguments
from glyphoxa_trio.tools.schema import ArgumentSchema, BadSchema

DICE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "dice": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"sides": {"type": "integer", "minimum": 1}},
                "required": ["sides"],
                "additionalProperties": False,
            },
        },
        "note": {"type": ["string", "null"]},
    },
    "required": ["dice"],
    "additionalProperties": False,
}


def having(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


def refusal(schema: dict[str, Any], arguments: Any) -> str:
    with pytest.raises(InvalidArguments) as caught:
        ArgumentSchema(schema).parse(json.dumps(arguments))
    return str(caught.value)


def test_arguments_that_fit_are_returned() -> None:
    schema = ArgumentSchema(DICE)
    assert schema.parse('{"dice": [{"sides": 6.0}]}') == {"dice": [{"sides": 6}]}
    assert schema.parse('{"dice": [], "note": null}') == {"dice": [], "note": None}


def test_empty_text_is_held_against_the_schema_too() -> None:
    assert ArgumentSchema(having({})).parse("") == {}
    with pytest.raises(InvalidArguments, match='missing "dice"'):
        ArgumentSchema(DICE).parse("")


def test_text_that_is_not_json_is_refused_before_the_schema() -> None:
    with pytest.raises(InvalidArguments, match="not valid JSON"):
        ArgumentSchema(DICE).parse("{")
    with pytest.raises(InvalidArguments, match="more than 32768 values"):
        ArgumentSchema(DICE).parse("[" * 200_000)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, '$: missing "dice"'),
        ({"dice": [{}]}, '$.dice[0]: missing "sides"'),
        (
            {"dice": [{"sides": 0}]},
            "$.dice[0].sides: 0 is less than the minimum of 1",
        ),
        ({"dice": 5}, "$.dice: expected array, got 5"),
        ({"dice": {}}, "$.dice: expected array, got an object"),
        ({"dice": [], "note": 1}, "$.note: expected string or null, got 1"),
        ({"dice": [], "nott": 1}, '$: unknown "nott"; known: "dice", "note"'),
        (
            {"dice": [{"sides": True}]},
            "$.dice[0].sides: expected integer, got true",
        ),
    ],
)
def test_a_problem_is_named_with_its_place(arguments: Any, said: str) -> None:
    assert refusal(DICE, arguments) == said


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        ({"enum": ["a", 1]}, "b", '"b" is not one of "a", 1'),
        ({"const": 1}, 2, "2 is not 1"),
        ({"exclusiveMaximum": 3}, 3, "3 is not less than 3"),
        ({"multipleOf": 5}, 7, "7 is not a multiple of 5"),
        ({"minLength": 3}, "é", '"é" has fewer characters than 3'),
        ({"maxItems": 1}, [1, 2], "an array has more items than 1"),
        ({"uniqueItems": True}, [1, 1.0], "has items that are the same"),
        ({"pattern": "^a+$"}, "b", '"b" does not match "^a+$"'),
        ({"not": {}}, 1, "1 should not be valid under {}"),
        (
            {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "x",
            '"x" fits none of the allowed forms',
        ),
        (
            {"anyOf": [{"type": "null"}, {"minimum": 3, "type": "integer"}]},
            1,
            "1 is less than the minimum of 3",
        ),
    ],
)
def test_a_keyword_has_words_of_its_own(schema: Any, value: Any, said: str) -> None:
    assert refusal(having({"x": schema}), {"x": value}) == f"$.x: {said}"


def test_a_forbidden_field_is_named_by_its_value() -> None:
    assert refusal(having({"x": False}), {"x": 1}) == "$.x: 1 is not allowed"


def test_an_unusual_key_is_quoted_in_the_path() -> None:
    schema = having({}, additionalProperties={"type": "string"})
    assert refusal(schema, {"a b.c": 1}) == '$["a b.c"]: expected string, got 1'


def test_true_and_one_are_different_items() -> None:
    schema = ArgumentSchema(having({"x": {"uniqueItems": True}}))
    assert schema.parse('{"x": [1, true, "1"]}') == {"x": [1, True, "1"]}


def test_five_problems_are_named_and_the_sixth_is_announced() -> None:
    five = refusal(DICE, {"dice": list(range(5))})
    assert five.count("expected object") == 5
    assert "and more" not in five
    six = refusal(DICE, {"dice": list(range(6))})
    assert six.count("expected object") == 5
    assert six.endswith("; and more")


def test_a_message_is_never_long() -> None:
    names = {f"{'long' * 20}{n}": 1 for n in range(100)}
    assert len(refusal(DICE, {"dice": [names] * 10, **names})) <= 600
    huge = "x" * 30_000
    assert len(refusal(having({"x": {"not": {"type": "string"}}}), {"x": huge})) <= 600


def test_a_schema_with_half_a_character_is_bad() -> None:
    with pytest.raises(BadSchema):
        ArgumentSchema(having({"x": {"enum": ["\ud800"]}})).warm()


# --- schemas


@pytest.mark.parametrize(
    "properties",
    [
        {"x": {"type": "nonsense"}},
        {"x": {"minimum": "one"}},
        {"x": {"pattern": "("}},
        {"x": {"$ref": "#/$defs/missing"}},
        {"x": {"items": {"$ref": "#/nowhere"}}},
        {"x": 5},
    ],
)
def test_a_broken_schema_is_found_when_warmed(properties: dict[str, Any]) -> None:
    with pytest.raises(BadSchema):
        ArgumentSchema(having(properties)).warm()


def test_a_schema_nested_beyond_reason_is_bad() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"not": deep}
    with pytest.raises(BadSchema, match="RecursionError"):
        ArgumentSchema(having({"x": deep})).warm()


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
def test_nothing_is_ever_fetched(keyword: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr("urllib.request.urlopen", lambda *args: asked.append(args))
    schema = ArgumentSchema(having({"x": {keyword: "http://127.0.0.1:9/s#a"}}))
    with pytest.raises(BadSchema, match="Unresolvable"):
        schema.parse('{"x": 1}')
    assert asked == []


def test_a_property_may_be_called_like_a_keyword() -> None:
    schema = ArgumentSchema(
        having({"$ref": {"type": "integer"}, "$schema": {"type": "integer"}})
    )
    assert schema.parse('{"$ref": 1, "$schema": 2}') == {"$ref": 1, "$schema": 2}
    with pytest.raises(InvalidArguments):
        schema.parse('{"$schema": "x"}')


def test_a_schema_of_schemas_may_be_referred_to() -> None:
    dialect = "https://json-schema.org/draft/2020-12/schema"
    schema = ArgumentSchema(having({"x": {"$ref": dialect}}))
    assert schema.parse('{"x": {"type": "string"}}')
    with pytest.raises(InvalidArguments, match=r"\$\.x\.type"):
        schema.parse('{"x": {"type": 3}}')


def test_the_dialect_is_honoured() -> None:
    # A list in `items` is a tuple in draft 7 and nonsense in 2020-12.
    pair = having({"x": {"items": [{"type": "integer"}, {"type": "string"}]}})
    draft7 = ArgumentSchema(
        {"$schema": "http://json-schema.org/draft-07/schema#"} | pair
    )
    with pytest.raises(InvalidArguments, match=r"\$\.x\[1\]: expected string"):
        draft7.parse('{"x": [1, 2]}')
    with pytest.raises(BadSchema):
        ArgumentSchema(pair).warm()


def test_an_unknown_dialect_is_read_as_the_current_one() -> None:
    schema = ArgumentSchema({"$schema": "https://example.org/own"} | DICE)
    with pytest.raises(InvalidArguments, match='missing "dice"'):
        schema.parse("{}")


# --- bounded work


def doubling(levels: int) -> dict[str, Any]:
    """Every definition refers twice to the next one."""
    definitions: dict[str, Any] = {
        str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(levels)
    }
    return having(
        {"x": {"$ref": "#/$defs/0"}}, **{"$defs": definitions | {str(levels): {}}}
    )


@pytest.mark.parametrize(
    "dialect", [{}, {"$schema": "https://json-schema.org/draft/2020-12/schema"}]
)
def test_references_that_double_do_not_stop_the_table(dialect: dict[str, str]) -> None:
    bomb = doubling(60) | dialect  # two to the sixtieth steps
    with pytest.raises(InvalidArguments, match="too much to check"):
        ArgumentSchema(bomb).parse('{"x": 1}')


def test_a_dialect_further_in_does_not_switch_the_bound_off() -> None:
    bomb = doubling(60)
    for definition in bomb["$defs"].values():
        definition["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    with pytest.raises(InvalidArguments, match="too much to check"):
        ArgumentSchema(bomb).parse('{"x": 1}')


def test_every_check_has_the_whole_budget() -> None:
    schema = ArgumentSchema(doubling(11))
    for _ in range(20):
        assert schema.parse('{"x": 1}') == {"x": 1}


def test_thousands_of_small_objects_are_within_the_budget() -> None:
    dice = [{"sides": 6}] * 3000
    assert ArgumentSchema(DICE).parse(json.dumps({"dice": dice})) == {"dice": dice}


def test_a_reference_to_itself_is_a_bad_schema() -> None:
    loop = having(
        {"x": {"$ref": "#/$defs/a"}}, **{"$defs": {"a": {"$ref": "#/$defs/a"}}}
    )
    with pytest.raises(BadSchema, match="leads back to itself"):
        ArgumentSchema(loop).warm()


def test_recursive_schemas_work_down_to_the_deepest_arguments() -> None:
    node: dict[str, Any] = having(
        {"child": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}},
        additionalProperties=False,
    )
    text = '{"child":' * 31 + '{"child":null}' + "}" * 31
    assert ArgumentSchema(node).parse(text)
    with pytest.raises(InvalidArguments):
        ArgumentSchema(node).parse(text.replace("null", "1"))


def test_unique_items_of_objects_are_checked_in_linear_time() -> None:
    # Pairwise these would be twelve million comparisons.
    schema = ArgumentSchema(having({"x": {"uniqueItems": True}}))
    items = [{"a": n} for n in range(5000)]
    assert schema.parse(json.dumps({"x": items})) == {"x": items}
    with pytest.raises(InvalidArguments, match="the same"):
        schema.parse(json.dumps({"x": [*items, {"a": 4999.0}]}))


# --- foreign schemas


def test_a_foreign_pattern_cannot_stop_the_table() -> None:
    # Forty letters and this expression take longer than the campaign.
    evil = {"type": "string", "pattern": "^(a+)+$"}
    text = json.dumps({"x": "a" * 40 + "!"})
    assert ArgumentSchema(having({"x": evil}), foreign=True).parse(text)
    keyed = having({}, patternProperties={"^(a+)+$": {}}, additionalProperties=False)
    keyed_text = json.dumps({"a" * 40 + "!": 1})
    assert ArgumentSchema(keyed, foreign=True).parse(keyed_text)
    unevaluated = keyed | {"unevaluatedProperties": False}
    assert ArgumentSchema(unevaluated, foreign=True).parse(keyed_text)


def test_a_foreign_pattern_may_be_in_another_dialect() -> None:
    javascript = having({"x": {"type": "string", "pattern": r"^\p{L}+$"}})
    schema = ArgumentSchema(javascript, foreign=True)
    assert schema.parse('{"x": "a"}') == {"x": "a"}
    with pytest.raises(InvalidArguments, match="expected string"):
        schema.parse('{"x": 1}')
    strange = having({"x": {"type": "string", "pattern": r"^(?<!a+)$"}})
    assert ArgumentSchema(strange, foreign=True).parse('{"x": "a"}') == {"x": "a"}


def test_a_foreign_schema_is_checked_in_all_else() -> None:
    with pytest.raises(InvalidArguments, match='unknown "nott"'):
        ArgumentSchema(DICE, foreign=True).parse('{"dice": [], "nott": 1}')
    with pytest.raises(BadSchema):
        ArgumentSchema(having({"x": {"minimum": "one"}}), foreign=True).warm()


# --- costs


@pytest.mark.border
def test_importing_the_room_does_not_import_the_validators() -> None:
    code = (
        "import sys, glyphoxa_trio.tools.schema, glyphoxa_trio.tools.instance;"
        "print('jsonschema_rs' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_a_schema_is_compiled_once() -> None:
    schema = ArgumentSchema(DICE)
    compiled = schema.compiled()
    schema.warm()
    schema.parse('{"dice": []}')
    assert schema.compiled() is compiled
