"""Plain schemas against `jsonschema`, which they stand in for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from glyphoxa_trio.tools.arguments import InvalidArguments
from glyphoxa_trio.tools.plain import DIALECTS, plain
from glyphoxa_trio.tools.schema import ArgumentSchema, BadSchema
from glyphoxa_trio.tools.validators import as_text, checked

NAMES = st.sampled_from(["a", "b", "c"])
# Few values, at and around the bounds below, and pairs that Python takes for one.
SOME_NUMBERS = [-1, 0, 1, 2, 3, 0.5, 1.5, 2**60, 1e300]
SOME_SCALARS = [None, False, True, *SOME_NUMBERS, "", "a", "1", "é", "ab", "abc"]
SOME_ARRAYS = [[], [1], ["a"], [1, True], [1, "a"], [1, 2, 3], [[1]], [{"a": 1}]]
SOME_OBJECTS = [{}, {"a": 1}, {"a": "a"}, {"b": 1}, {"a": 1, "b": "x"}, {"c": None}]
SOME_VALUES = [*SOME_SCALARS, *SOME_ARRAYS, *SOME_OBJECTS]
NUMBERS = st.sampled_from(SOME_NUMBERS)
SCALARS = st.sampled_from(SOME_SCALARS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3)
    ),
    max_leaves=8,
)
TYPE_NAMES = ["string", "integer", "number", "boolean", "null", "object", "array"]
TYPES = st.sampled_from(TYPE_NAMES)
SOME_COUNTS = [0, 1, 2, 2.0, 3]
COUNTS = st.sampled_from(SOME_COUNTS)


def few(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """At most three keywords: with more of them, hardly anything fits."""
    keywords = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
        "enum": st.lists(VALUES, max_size=4),
        "const": VALUES,
        "minimum": NUMBERS,
        "maximum": NUMBERS,
        "exclusiveMinimum": NUMBERS,
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
        "items": inner,
        "anyOf": st.lists(inner, min_size=1, max_size=3),
        "title": st.just("Title"),
        "description": st.just("Words."),
        "default": VALUES,
        "format": st.just("date"),
        "pattern": st.sampled_from(["^a", "b$"]),
        "multipleOf": st.sampled_from([2, 0.5]),
        "not": inner,
        "uniqueItems": st.booleans(),
    }
    some = st.lists(st.sampled_from(sorted(keywords)), max_size=3, unique=True)
    return some.flatmap(
        lambda names: st.fixed_dictionaries({name: keywords[name] for name in names})
    )


SCHEMAS = st.recursive(st.booleans() | few(st.booleans()), few, max_leaves=6)


def outcome_of(schema: ArgumentSchema, text: str) -> Any:
    try:
        return schema.parse(text)
    except (InvalidArguments, BadSchema) as error:
        return type(error), str(error)


def without_shortcut(schema: dict[str, Any], foreign: bool) -> ArgumentSchema:
    slow = ArgumentSchema(schema, foreign)
    slow.warm()
    slow._plain = None
    return slow


EACH_KEYWORD: dict[str, list[Any]] = {
    "type": [*TYPE_NAMES, ["integer", "null"], ["string", "array"]],
    "enum": [[], [1, "a"], [True, None], [0, False], [[1], {"a": 1}], [1.5, "1"]],
    "const": [None, True, 0, 1, 1.5, "", "a", [1], {"a": 1}],
    "minimum": SOME_NUMBERS,
    "maximum": SOME_NUMBERS,
    "exclusiveMinimum": SOME_NUMBERS,
    "exclusiveMaximum": SOME_NUMBERS,
    "minLength": SOME_COUNTS,
    "maxLength": SOME_COUNTS,
    "minItems": SOME_COUNTS,
    "maxItems": SOME_COUNTS,
    "minProperties": SOME_COUNTS,
    "maxProperties": SOME_COUNTS,
    "properties": [{}, {"a": {"type": "integer"}}, {"a": False}, {"b": True}],
    "required": [[], ["a"], ["b"], ["a", "b"]],
    "additionalProperties": [True, False, {}, {"type": "integer"}],
    "items": [True, False, {}, {"type": "integer"}, {"items": {"type": "integer"}}],
    "anyOf": [
        [True],
        [False],
        [{"type": "string"}, {"type": "null"}],
        [{"minimum": 1}, {"maximum": 3}],
        [{"type": "array", "items": {"type": "integer"}}, {"required": ["a"]}],
    ],
}


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
@pytest.mark.parametrize("keyword", EACH_KEYWORD)
def test_every_keyword_lets_the_same_values_through(keyword: str, dialect: str) -> None:
    let_through = 0
    for wanted in EACH_KEYWORD[keyword]:
        schema = {"properties": {"x": {keyword: wanted}}, "$schema": dialect}
        quick, slow = ArgumentSchema(schema), without_shortcut(schema, False)
        for value in SOME_VALUES:
            text = json.dumps({"x": value})
            assert outcome_of(quick, text) == outcome_of(slow, text)
            let_through += quick._plain is not None and quick._plain.fits({"x": value})
    assert let_through


@pytest.mark.parametrize("properties", EACH_KEYWORD["properties"])
@pytest.mark.parametrize("additional", EACH_KEYWORD["additionalProperties"])
def test_what_is_not_named_is_held_against_its_own_schema(
    properties: dict[str, Any], additional: Any
) -> None:
    schema = {"properties": properties, "additionalProperties": additional}
    quick, slow = ArgumentSchema(schema), without_shortcut(schema, False)
    for value in SOME_OBJECTS:
        text = json.dumps(value)
        assert outcome_of(quick, text) == outcome_of(slow, text)


@given(
    properties=st.dictionaries(NAMES, SCHEMAS, max_size=3),
    more=few(SCHEMAS),
    values=st.lists(st.dictionaries(NAMES, VALUES, max_size=3), min_size=1, max_size=4),
    dialect=st.sampled_from([None, *sorted(DIALECTS)]),
    foreign=st.booleans(),
)
def test_arguments_end_as_they_would_with_jsonschema_alone(
    properties: dict[str, Any],
    more: dict[str, Any],
    values: list[dict[str, Any]],
    dialect: str | None,
    foreign: bool,
) -> None:
    schema = {"properties": properties} | more
    if dialect is not None:
        schema["$schema"] = dialect
    quick = ArgumentSchema(schema, foreign)
    try:
        slow = without_shortcut(schema, foreign)
    except BadSchema:
        assume(False)
    for value in values:
        text = json.dumps(value)
        assert outcome_of(quick, text) == outcome_of(slow, text)


@given(schema=SCHEMAS, values=st.lists(VALUES, min_size=1, max_size=5))
def test_no_value_is_charged_more_than_its_work(schema: Any, values: list[Any]) -> None:
    found = ArgumentSchema({"properties": {"x": {"items": schema}}})
    found.warm()
    assume(found._plain is not None)
    assert charged(found, {"x": values}) <= work(found) * values_in({"x": values})


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"enum": [*range(800), "a"]}, "a"),
        ({"required": [str(n) for n in range(80)]}, {}),
        ({"properties": {str(n): {"minimum": n} for n in range(80)}}, {"a": 1}),
        ({"anyOf": [{"type": "string", "minLength": n} for n in range(99)]}, 1),
        ({"anyOf": [{"anyOf": [False, {"enum": [1] * 80}]}, {"const": 2}]}, 2),
        ({"type": ["string"], "description": "a", "format": "date"}, "a"),
    ],
)
def test_long_keywords_are_charged_by_their_length(schema: Any, value: Any) -> None:
    # A thousand of them in a row, so that what is charged once does not hide them.
    found = ArgumentSchema({"properties": {"x": {"items": schema}}})
    found.warm()
    spent = charged(found, {"x": [value] * 1000})
    assert spent > 1000
    assert spent <= work(found) * 1002


def work(schema: ArgumentSchema) -> int:
    assert schema._plain is not None
    return schema._plain.work


def charged(schema: ArgumentSchema, arguments: dict[str, Any]) -> int:
    """What `jsonschema` is charged for a check, without a limit."""
    validator = schema.validator()
    schema._meter.left = 10**9
    for _ in validator.iter_errors(arguments):
        pass
    return 10**9 - schema._meter.left


def values_in(value: Any) -> int:
    inner = list(value.values()) if isinstance(value, dict) else value
    return 1 + (sum(map(values_in, inner)) if isinstance(inner, list) else 0)


PYDANTIC = {
    "type": "object",
    "title": "move_token",
    "properties": {
        "token": {"type": "string", "minLength": 1, "description": "Whose."},
        "square": {
            "type": "object",
            "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
            "required": ["x", "y"],
            "additionalProperties": False,
        },
        "speed": {"type": "number", "exclusiveMinimum": 0, "maximum": 60},
        "mood": {"enum": ["calm", "angry", None]},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {}]},
        "done": {"type": ["boolean", "null"]},
    },
    "required": ["token"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "arguments",
    [
        {"token": "Gerd"},
        {"token": "Gerd", "square": {"x": 1, "y": -2.0}, "speed": 30.5},
        {"token": "Gerd", "mood": None, "note": None, "tags": ["a"], "done": False},
    ],
)
def test_what_usual_schemas_ask_for_never_reaches_jsonschema(
    arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = ArgumentSchema(PYDANTIC)
    schema.warm()
    compiled = type(schema.validator())

    def refuse(*_: object) -> None:
        raise AssertionError("jsonschema was asked")

    monkeypatch.setattr(compiled, "iter_errors", refuse)
    assert schema.parse(json.dumps(arguments)) == arguments
    with pytest.raises(BadSchema, match="jsonschema was asked"):  # nor is it in vain
        schema.parse('{"token": ""}')


@pytest.mark.parametrize(
    "more",
    [
        {"$ref": "#/$defs/token"},
        {"allOf": [{}]},
        {"oneOf": [{}]},
        {"not": {}},
        {"pattern": "^a"},
        {"multipleOf": 2},
        {"uniqueItems": True},
        {"patternProperties": {"^a": {}}},
        {"propertyNames": {}},
        {"prefixItems": [{}]},
        {"unevaluatedProperties": False},
        {"if": {}},
        {"$id": "https://example.org/x"},
        {"somebody-elses": 1},
        {"anyOf": [{"items": {}}], "items": {}},
        {"anyOf": [{"properties": {}}, {"required": ["a"]}]},
    ],
)
def test_whatever_else_a_schema_says_is_left_to_jsonschema(
    more: dict[str, Any],
) -> None:
    (dialect,) = (name for name in DIALECTS if "2020" in name)
    assert plain({"properties": {"x": more}}, dialect, foreign=False) is None


def test_another_dialect_is_left_to_jsonschema() -> None:
    # In draft 4, `exclusiveMinimum` is true or false.
    four = {"$schema": "http://json-schema.org/draft-04/schema#", "type": "object"}
    *_, shortcut = checked(as_text(four), False)
    assert shortcut is None
    # In draft 7, a list in `items` is a tuple.
    seven = {"$schema": "http://json-schema.org/draft-07/schema#"}
    pair = {"items": [{"type": "integer"}, {"type": "string"}]}
    *_, shortcut = checked(as_text(seven | {"properties": {"x": pair}}), False)
    assert shortcut is None


def test_what_is_too_much_to_check_is_so_with_a_plain_schema_too() -> None:
    # Only the last of these fits an empty string, and all before it are charged.
    forms = [{"type": "string", "minLength": n} for n in range(499, -1, -1)]
    schema = ArgumentSchema({"properties": {"x": {"items": {"anyOf": forms}}}})
    assert schema.parse('{"x": [""]}') == {"x": [""]}
    with pytest.raises(InvalidArguments, match="too much to check"):
        schema.parse(json.dumps({"x": [""] * 1000}))
