"""Schemas of other people: sound or refused, and never more work than was counted."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jsonschema.validators import Draft202012Validator, extend

from glyphoxa_trio.tools.arguments import InvalidArguments, load
from glyphoxa_trio.tools.looks import BUDGET
from glyphoxa_trio.tools.output import OutputSchema
from glyphoxa_trio.tools.schema import ArgumentSchema, BadSchema, problem_of, sound
from glyphoxa_trio.tools.validators import (
    MOST_BYTES,
    MOST_VALUES,
    compiled,
    values_in,
)

NAMES = st.sampled_from(["a", "b", "c"])
# Few values, at and around the bounds below, and pairs that Python takes for one.
NUMBERS = st.sampled_from([-1, 0, 1, 2, 3, 0.5, 1.5, 2**60, 1e300])
SCALARS = st.sampled_from([None, False, True, "", "a", "1", "é", "ab", "abc"]) | NUMBERS
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3)
    ),
    max_leaves=8,
)
TYPES = st.sampled_from(
    ["string", "integer", "number", "boolean", "null", "object", "array"]
)
COUNTS = st.sampled_from([0, 1, 2, 3])
REFERENCES = st.sampled_from([f"#/$defs/{name}" for name in "abc"])


def few(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """At most three keywords: with more of them, hardly anything fits."""
    keywords = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=4),
        "const": VALUES,
        "minimum": NUMBERS,
        "exclusiveMaximum": NUMBERS,
        "minLength": COUNTS,
        "maxLength": COUNTS,
        "minItems": COUNTS,
        "maxItems": COUNTS,
        "minProperties": COUNTS,
        "maxProperties": COUNTS,
        "properties": st.dictionaries(NAMES, inner, max_size=3),
        "required": st.lists(NAMES, max_size=2, unique=True),
        "additionalProperties": inner,
        "propertyNames": inner,
        "items": inner,
        "prefixItems": st.lists(inner, min_size=1, max_size=2),
        "contains": inner,
        "anyOf": st.lists(inner, min_size=1, max_size=3),
        "allOf": st.lists(inner, min_size=1, max_size=3),
        "oneOf": st.lists(inner, min_size=1, max_size=3),
        "not": inner,
        "if": inner,
        "then": inner,
        "dependentSchemas": st.dictionaries(NAMES, inner, max_size=2),
        "uniqueItems": st.booleans(),
        "$ref": REFERENCES,
    }
    some = st.lists(st.sampled_from(sorted(keywords)), max_size=3, unique=True)
    return some.flatmap(
        lambda names: st.fixed_dictionaries({name: keywords[name] for name in names})
    )


SCHEMAS = st.recursive(st.booleans() | few(st.booleans()), few, max_leaves=6)
DEFINED = st.fixed_dictionaries(dict.fromkeys("abc", SCHEMAS))


def as_python(value: Any) -> Any:
    """As arguments are read: 1.0 is 1."""
    return load(json.dumps({"x": value}))["x"]


class Counting:
    """`jsonschema`, counting the keywords that it looks at a value with."""

    def __init__(self, schema: Any) -> None:
        self.looks = 0
        checks = {
            name: self._counted(check)
            for name, check in Draft202012Validator.VALIDATORS.items()
        }
        kind = cast(Any, extend)(Draft202012Validator, checks)
        kind.check_schema(schema)
        self.validator = kind(schema)

    def _counted(self, check: Any) -> Any:
        def counted(validator: Any, wanted: Any, value: Any, schema: Any) -> Any:
            self.looks += 1
            return check(validator, wanted, value, schema)

        return counted


@given(schema=few(SCHEMAS), defined=DEFINED, values=st.lists(VALUES, min_size=1))
def test_schemas_mean_what_they_mean_elsewhere(
    schema: dict[str, Any], defined: dict[str, Any], values: list[Any]
) -> None:
    whole = schema | {"$defs": defined}
    try:
        ours = compiled(whole, foreign=False)
    except Exception:  # a circle
        assume(False)
    theirs = Counting(whole)
    for value in map(as_python, values):
        theirs.looks = 0
        fits = not list(theirs.validator.iter_errors(value))
        assert ours.validator.is_valid(value) == fits
        assert (problem_of(ours, value) is None) == fits or ours.work is None
        # All keywords of all the looks that were counted, and no more.
        if ours.work is not None:
            assert theirs.looks <= ours.work * values_in(value, 10_000) * 2


def doubling(levels: int, keyword: str = "allOf") -> dict[str, Any]:
    """Every definition looks twice at the next one."""
    definitions: dict[str, Any] = {
        str(n): {keyword: [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(levels)
    }
    return {"$ref": "#/$defs/0", "$defs": definitions | {str(levels): {}}}


def deepening(levels: int) -> dict[str, Any]:
    """Every level of a value is looked at twice as often as the one above."""
    once = {"items": {"$ref": "#"}}
    return {"anyOf": [once, {**once, "minItems": levels}]}


@pytest.mark.parametrize(
    "schema",
    [
        doubling(60),
        doubling(60, "anyOf"),
        doubling(60, "oneOf"),
        deepening(1),
        {"dependentSchemas": {"a": doubling(60)}, **doubling(60)},
        {"properties": {"x": doubling(60) | {"$id": "https://example.org/x"}}},
        {"$dynamicRef": "#n", "$defs": {"n": {"$dynamicAnchor": "n", **doubling(60)}}},
        {"$ref": "far", "$defs": doubling(60)["$defs"] | {"y": {"$id": "far"}}}
        | {"allOf": [doubling(60)]},
    ],
)
def test_what_doubles_is_not_begun(schema: dict[str, Any]) -> None:
    try:
        found = sound(schema, foreign=True)
    except BadSchema:
        return  # a reference inside an $id leads elsewhere
    assert found.work is None
    assert problem_of(found, {"x": 1}) == "$: too much to check, send less"
    assert OutputSchema(schema).wrong == "it takes too much work to check"
    assert OutputSchema(schema).problem({"x": 1}) is None


def test_a_value_that_is_looked_at_often_must_be_small() -> None:
    often = {"items": {"anyOf": [{"const": n} for n in range(500)]}}
    schema = ArgumentSchema({"properties": {"x": often}}, foreign=True)
    assert schema.parse('{"x": [499]}')
    many = json.dumps({"x": [499] * (BUDGET // 500)})
    with pytest.raises(InvalidArguments, match="too much to check"):
        schema.parse(many)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"description": "x" * MOST_BYTES}, f"at most {MOST_BYTES} are read"),
        ({"required": [str(n) for n in range(MOST_VALUES)]}, "more than 3000 values"),
        ({"properties": {str(n): {} for n in range(MOST_VALUES)}}, "3000 values"),
        ({"properties": {"x": {"enum": list(range(4000))}}}, "3000 values"),
    ],
)
def test_a_schema_that_is_too_large_says_by_what(schema: Any, why: str) -> None:
    for _ in range(2):  # seen before, it is as bad
        with pytest.raises(BadSchema, match=why):
            ArgumentSchema(schema, foreign=True).warm()
    wrong = OutputSchema(schema).wrong
    assert wrong is not None
    assert why in wrong


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


def test_a_schema_that_is_too_deep_says_so() -> None:
    sound(nested(60), foreign=True)
    with pytest.raises(BadSchema, match="nested more than 64 levels"):
        sound(nested(70), foreign=True)
    with pytest.raises(BadSchema):
        sound(nested(100_000 // 20), foreign=True)


@pytest.mark.parametrize(
    "reference",
    [
        "http://127.0.0.1:9/s",
        "file:///etc/passwd",
        "urn:other",
        "other.json#/x",
        "#/$defs/missing",
        "#anchor",
        "../x",
    ],
)
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
def test_references_that_lead_away_are_refused(keyword: str, reference: str) -> None:
    for extra in ({}, {"$id": "http://127.0.0.1:9/base/x"}):
        with pytest.raises(BadSchema):
            sound({"properties": {"x": {keyword: reference}}, **extra}, foreign=True)


def test_a_schema_may_refer_to_its_parts_by_name() -> None:
    # As TypeBox writes them.
    schema = {
        "$defs": {"T": {"$id": "T", "type": "integer"}},
        "properties": {"x": {"$ref": "T"}, "y": {"$ref": "#here"}},
        "anyOf": [{"$anchor": "here"}],
    }
    found = sound(schema, foreign=True)
    assert problem_of(found, {"x": 1}) is None
    assert problem_of(found, {"x": "a"}) == '$.x: expected integer, got "a"'


def test_values_are_not_schemas() -> None:
    same = {"pattern": "a", "$schema": "b", "patternProperties": {}}
    for keyword, wanted in (("const", same), ("enum", [same]), ("default", same)):
        found = sound({"properties": {"x": {keyword: wanted}}}, foreign=True)
        assert problem_of(found, {"x": same}) is None
        assert found.schema["properties"]["x"][keyword] == wanted


def test_a_pattern_of_our_own_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    # Looking ahead needs an engine that goes back, and this would go back for ever.
    evil = {"properties": {"x": {"pattern": r"^(?=(a|aa)+$)(a|aa)+\1b$"}}}
    schema = ArgumentSchema(evil)
    with pytest.raises(InvalidArguments):
        schema.parse(json.dumps({"x": "a" * 5000 + "!"}))


@given(VALUES, st.integers(0, 20))
def test_values_are_counted_up_to_a_bound(value: Any, most: int) -> None:
    def count(one: Any) -> int:
        if isinstance(one, dict):
            return 1 + sum(map(count, one.values()))
        return 1 + sum(map(count, one)) if isinstance(one, list) else 1

    assert values_in(value, most) == min(count(value), most + 1)


def test_what_is_wrong_in_a_large_value_is_said_once() -> None:
    found = sound({"items": {"type": "string"}}, foreign=True)
    said = problem_of(found, [1] * 5000)
    assert said == "$[0]: expected string, got 1"


def test_an_output_schema_of_nothing_fits_everything() -> None:
    assert OutputSchema(None).problem(1) is None
    assert OutputSchema(None).wrong is None
