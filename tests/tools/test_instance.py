"""Arguments made up for probes: small, valid, or none at all (D9)."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.tools.arguments import load
from glyphoxa_trio.tools.instance import NoInstance, minimal_instance
from glyphoxa_trio.tools.schema import ArgumentSchema, BadSchema


def having(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        **more,
    }


def made(schema: Any, **more: Any) -> Any:
    return minimal_instance(having({"x": schema}, **more))["x"]


def test_only_what_is_required_is_there() -> None:
    schema = having({"a": {"type": "string"}}) | {
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}}
    }
    assert minimal_instance(schema) == {"a": "a"}
    assert minimal_instance({"type": "object"}) == {}


def test_what_the_schema_says_itself_comes_first_in_this_order() -> None:
    schema = {
        "type": "string",
        "default": "default",
        "examples": ["example"],
        "enum": ["enum", "default", "example", "const"],
    }
    assert made(schema) == "default"
    del schema["default"]
    assert made(schema) == "example"
    del schema["examples"]
    assert made(schema | {"const": "const"}) == "const"
    assert made(schema) == "enum"


def test_the_whole_may_have_an_example_too() -> None:
    example = {"dice": [{"sides": 6}]}
    schema = {"type": "object", "examples": [example]}
    instance = minimal_instance(schema)
    assert instance == example
    instance["dice"][0]["sides"] = 7
    assert example == {"dice": [{"sides": 6}]}  # a copy, the schema stays as it is


def test_a_default_that_does_not_fit_is_passed_over() -> None:
    # Generators write `default: null` for a string that may be left out.
    assert made({"type": "string", "default": None, "examples": [1, "x"]}) == "x"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, "a"),
        ({"type": "string", "maxLength": 0}, ""),
        ({"type": "string", "minLength": 3}, "aaa"),
        ({"type": "string", "format": "date"}, "2000-01-01"),
        ({"type": "string", "pattern": "^[0-9]{4}$"}, "0000"),
        ({"type": "string", "pattern": "^[A-Z]+$"}, "A"),
        ({"type": "string", "pattern": "^tavern$"}, "tavern"),
        ({"type": "integer"}, 1),
        ({"type": "integer", "minimum": 3}, 3),
        ({"type": "integer", "exclusiveMinimum": 3}, 4),
        ({"type": "integer", "maximum": -3}, -3),
        ({"type": "integer", "exclusiveMaximum": -3}, -4),
        ({"type": "integer", "minimum": 2.5, "maximum": 3.5}, 3),
        ({"type": "integer", "minimum": 11, "multipleOf": 5}, 15),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.5}, 0.25),
        ({"type": "number", "minimum": 0.25, "maximum": 0.45, "multipleOf": 0.1}, 0.4),
        ({"type": "number", "exclusiveMinimum": 7}, 8),
        ({"type": "boolean"}, False),
        ({"type": "null"}, None),
        ({"type": ["integer", "null"]}, 1),
        ({"type": "array"}, []),
        ({"type": "array", "minItems": 2, "items": {"type": "boolean"}}, [False] * 2),
        ({"type": "array", "minItems": 3, "uniqueItems": True}, ["a", "aa", "aaa"]),
        (
            {"minItems": 2, "uniqueItems": True, "items": {"enum": ["a", "a", "b"]}},
            ["a", "b"],
        ),
        (
            {"minItems": 2, "prefixItems": [{"type": "null"}], "items": {"const": 1}},
            [None, 1],
        ),
        ({"type": "object", "minProperties": 1, "properties": {"a": {}}}, {"a": "a"}),
        (
            {
                "type": "object",
                "required": ["n"],
                "additionalProperties": {"type": "integer"},
            },
            {"n": 1},
        ),
        ({"properties": {"a": {"const": 1}}, "required": ["a"]}, {"a": 1}),
        ({"minimum": 5}, 5),
        ({"not": {"type": "string"}}, 1),
        ({}, "a"),
        (True, "a"),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, None),
        ({"oneOf": [{"type": "integer"}, {"maximum": 3}]}, 4),  # others fit both
        ({"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 2}]}, 1),
        ({"anyOf": [False, {"type": "null"}]}, None),
        ({"type": "string", "anyOf": [{"minLength": 2}, {"const": "a"}]}, "aa"),
        ({"allOf": [{"type": "integer"}, {"minimum": 400}, {"minimum": 2}]}, 400),
        ({"allOf": [{"maximum": -400}, {"type": "integer", "maximum": 2}]}, -400),
        (
            {
                "allOf": [
                    {"required": ["a"], "properties": {"a": {"type": "integer"}}},
                    {"required": ["b"], "properties": {"a": {"minimum": 7}}},
                    {"type": "object"},
                ]
            },
            {"a": 7, "b": "a"},
        ),
        ({"allOf": [{"enum": ["a", "b"]}, {"enum": ["b", "c"]}]}, "b"),
        (
            {
                "allOf": [
                    {"anyOf": [{"type": "integer"}]},
                    {"anyOf": [{"type": "integer", "minimum": 3}]},
                ]
            },
            3,
        ),
    ],
)
def test_the_least_of_its_kind(schema: Any, value: Any) -> None:
    assert made(schema) == value
    assert type(made(schema)) is type(value)


def test_local_references_are_followed() -> None:
    definitions: dict[str, Any] = {"$defs": {"a/b~c d": {"type": "integer"}}}
    assert made({"$ref": "#/$defs/a~1b~0c%20d", "minimum": 4}, **definitions) == 4
    definitions = {"$defs": {"s": {"prefixItems": [{"const": "x"}]}}}
    assert made({"$ref": "#/$defs/s/prefixItems/0"}, **definitions) == "x"


def test_a_recursive_schema_takes_the_branch_that_ends() -> None:
    node = having({"child": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}})
    assert made({"$ref": "#/$defs/node"}, **{"$defs": {"node": node}}) == {
        "child": None
    }


def test_a_schema_that_never_ends_has_no_instance() -> None:
    node = having({"child": {"$ref": "#/$defs/node"}})
    with pytest.raises(NoInstance):
        made({"$ref": "#/$defs/node"}, **{"$defs": {"node": node}})
    with pytest.raises(NoInstance):
        minimal_instance(having({"self": {"$ref": "#"}}))


@pytest.mark.parametrize(
    "schema",
    [
        False,
        {"type": "integer", "minimum": 3, "maximum": 2},
        {"type": "string", "pattern": "^[a-z]+-[0-9]+$"},
        {"allOf": [{"type": "string"}, {"type": "integer"}]},
        {"enum": []},
        {"type": "array", "minItems": 2, "items": False},
        {"type": "array", "minItems": 3, "uniqueItems": True, "items": {"enum": [1]}},
        {"type": "array", "minItems": 10**9, "items": {"type": "integer"}},
        {"type": "array", "minItems": 10**9},
        {"default": float("nan"), "const": float("nan")},
        {"contains": {"const": 1}, "type": "array"},
    ],
)
def test_what_cannot_be_made_is_said(schema: Any) -> None:
    with pytest.raises(NoInstance):
        made(schema)


def test_a_string_that_no_call_could_carry_is_not_even_built() -> None:
    with pytest.raises(NoInstance, match="nothing that was tried"):
        made({"type": "string", "minLength": 10**15})


def test_a_broken_schema_is_not_mistaken_for_an_impossible_one() -> None:
    with pytest.raises(BadSchema):
        made({"type": "nonsense"})


def test_a_schema_that_grows_beyond_reason_is_given_up() -> None:
    # Thirty levels of two: a thousand million strings, all of them required.
    definitions: dict[str, Any] = {
        str(n): having({side: {"$ref": f"#/$defs/{n + 1}"} for side in "ab"})
        for n in range(30)
    }
    definitions["30"] = {"type": "string"}
    with pytest.raises(NoInstance, match="too long"):
        made({"$ref": "#/$defs/0"}, **{"$defs": definitions})


def test_a_foreign_pattern_is_not_run() -> None:
    evil = {"type": "string", "pattern": "^(a+)+$", "default": "a" * 40 + "!"}
    schema = having({"x": evil})
    assert minimal_instance(schema, foreign=True) == {"x": "a" * 40 + "!"}


# --- schemas of a sensible family


def _bounded(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    def schema(low: int, room: int, step: int | None, exclusive: bool) -> Any:
        # With room for two steps there is always a number inside.
        name = "exclusiveMinimum" if exclusive else "minimum"
        found = {"type": kind, name: low, "maximum": low + room + 2 * (step or 1)}
        return found | ({} if step is None else {"multipleOf": step})

    return st.builds(
        schema,
        st.integers(-50, 50),
        st.integers(0, 5),
        st.none() | st.integers(1, 7),
        st.booleans(),
    )


STRINGS = st.builds(
    lambda least, room: {
        "type": "string",
        "minLength": least,
        "maxLength": least + room,
    },
    st.integers(0, 5),
    st.integers(0, 5),
)
LEAVES: st.SearchStrategy[Any] = (
    STRINGS
    | _bounded("integer")
    | _bounded("number")
    | st.just({"type": "boolean"})
    | st.just({"type": "null"})
    | st.just({})
    | st.just(True)
    | st.builds(
        lambda values: {"enum": values},
        st.lists(st.integers() | st.text(), min_size=1, max_size=3),
    )
    | st.builds(lambda value: {"const": value}, st.integers() | st.text())
    | st.just({"$ref": "#/$defs/name"})
)


def _object(properties: dict[str, Any], needed: bool, closed: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object", "properties": properties}
    if needed:
        found["required"] = list(properties)
    return found | ({"additionalProperties": False} if closed else {})


def _compound(
    inner: st.SearchStrategy[Any],
) -> st.SearchStrategy[dict[str, Any]]:
    return (
        st.builds(
            _object,
            st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, max_size=3),
            st.booleans(),
            st.booleans(),
        )
        | st.builds(
            lambda items, least: {"type": "array", "items": items, "minItems": least},
            inner,
            st.integers(0, 3),
        )
        | st.builds(
            lambda branches: {"anyOf": branches},
            st.lists(inner, min_size=1, max_size=3),
        )
        | st.builds(lambda part: {"allOf": [part]}, inner)
    )


@given(st.dictionaries(st.text("xyz", min_size=1), st.recursive(LEAVES, _compound)))
def test_a_made_instance_is_valid_and_survives_the_way_of_a_call(
    properties: dict[str, Any],
) -> None:
    schema = having(properties, **{"$defs": {"name": {"type": "string"}}})
    try:
        instance = minimal_instance(schema)
    except NoInstance as error:  # the work is bounded; only a large one may exceed it
        if "takes too long" in str(error) and len(json.dumps(schema)) > 2_000:
            return
        raise
    text = json.dumps(instance)
    assert ArgumentSchema(schema).parse(text) == instance == load(text)
    assert instance.keys() == properties.keys()


@given(st.from_regex(r"\A[a-c]{1,3}[0-9]?\Z"))
def test_a_literal_pattern_is_met(literal: str) -> None:
    assert made({"type": "string", "pattern": f"^{re.escape(literal)}$"}) == literal
