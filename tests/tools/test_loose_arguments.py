"""Arguments that are almost JSON are taken for what they mean, if that is sure."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.tools.arguments import InvalidArguments, load, text_of
from glyphoxa_trio.tools.loose_arguments import almost_json, fitted
from glyphoxa_trio.tools.schema import ArgumentSchema

KEYS = st.from_regex(r"[a-z_][a-z0-9_]{0,6}", fullmatch=True)
SCALARS = (
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=12)
    | st.integers(-(10**12), 10**12)
    | st.booleans()
    | st.none()
)
VALUES = st.recursive(
    SCALARS,
    lambda x: st.lists(x, max_size=3) | st.dictionaries(KEYS, x, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(KEYS, VALUES, min_size=1, max_size=4)


def quoted(value: dict[str, Any]) -> str:
    return json.dumps(json.dumps(value))


def fenced(value: dict[str, Any]) -> str:
    return f"```json\n{json.dumps(value, indent=1)}\n```"


def of_python(value: dict[str, Any]) -> str:
    return repr(value)


def with_a_comma(value: dict[str, Any]) -> str:
    return json.dumps(value)[:-1] + ",}"


def fenced_and_quoted(value: dict[str, Any]) -> str:
    return f"```\n{json.dumps(json.dumps(json.dumps(value)))}\n```"


@pytest.mark.parametrize(
    "form", [quoted, fenced, of_python, with_a_comma, fenced_and_quoted, json.dumps]
)
@given(value=OBJECTS)
def test_what_means_an_object_is_read_as_it(form: Any, value: dict[str, Any]) -> None:
    text = form(value)
    if "\\" in text and form in (of_python, with_a_comma):
        return  # the escapes of Python and of JSON are not the same
    assert load(text) == value
    assert load(text_of(text)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{dice: '2d6', open: true, who: null}", {"dice": "2d6", "open": True}),
        ("null", {}),
        ('""', {}),
        ('{"note": "two\nlines"}', {"note": "two\nlines"}),
    ],
)
def test_forms_that_templates_write(text: str, value: dict[str, Any]) -> None:
    assert {x: y for x, y in load(text).items() if y is not None} == value


@pytest.mark.parametrize(
    "text",
    [
        '{"dice": "2d6"',
        "{'it's': 1}",
        "roll two dice",
        '{"a": 1, "a": 2}',
        "{'a': 1, 'a': 2}",
        "[]",
        "[1]",
        "5",
        "{'a': __import__('os')}",
        "{'a': 1 + 1}",
        '{"a": 1} {"a": 2}',
        "{" * 500,
        "{'a': " * 300,
    ],
)
def test_what_is_not_sure_is_left_to_the_model(text: str) -> None:
    with pytest.raises(InvalidArguments):
        load(text)
    told = json.loads(text_of(text))
    assert told == {"invalid_arguments": text}


@given(text=st.text(max_size=60))
def test_any_text_is_an_object_or_refused(text: str) -> None:
    assert isinstance(json.loads(text_of(text)), dict)
    with suppress(InvalidArguments):
        assert isinstance(load(text), dict)


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "minimum": 1},
        "weight": {"type": "number"},
        "open": {"type": "boolean"},
        "name": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "place": {"$ref": "#/$defs/place"},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    },
    "required": ["count"],
    "additionalProperties": False,
    "$defs": {"place": {"type": "object", "properties": {"x": {"type": "integer"}}}},
}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"count": "3"}, {"count": 3}),
        ({"count": " 3 "}, {"count": 3}),
        ({"count": "3.0"}, {"count": 3}),
        ({"count": 3, "weight": "2.5"}, {"count": 3, "weight": 2.5}),
        ({"count": 3, "open": "True"}, {"count": 3, "open": True}),
        ({"count": 3, "tags": "red"}, {"count": 3, "tags": ["red"]}),
        ({"count": 3, "tags": '["a", "b"]'}, {"count": 3, "tags": ["a", "b"]}),
        ({"count": 3, "place": '{"x": "4"}'}, {"count": 3, "place": {"x": 4}}),
        ({"count": 3, "maybe": "5"}, {"count": 3, "maybe": 5}),
        ({"count": 3, "maybe": "null"}, {"count": 3, "maybe": None}),
        ({"count": 3, "name": None}, {"count": 3}),
    ],
)
def test_values_get_the_types_of_their_schema(written: Any, meant: Any) -> None:
    assert ArgumentSchema(SCHEMA).parse(json.dumps(written)) == meant


@pytest.mark.parametrize(
    "written",
    [
        {"count": "three"},
        {"count": "2.5"},
        {"count": "0"},
        {"count": None},
        {"count": 3, "name": 7},
        {"count": 3, "open": "yes"},
        {"count": "3", "other": 1},
        {"count": "1e400"},
    ],
)
def test_what_does_not_fit_is_refused_with_its_own_words(written: Any) -> None:
    with pytest.raises(InvalidArguments) as caught:
        ArgumentSchema(SCHEMA).parse(json.dumps(written))
    assert str(caught.value)


@given(value=OBJECTS, schema=OBJECTS)
def test_any_schema_and_any_value_are_looked_at(value: Any, schema: Any) -> None:
    fitted(value, schema)
    fitted(value, {"properties": schema, "required": 3, "anyOf": [schema, 1]})


@given(value=VALUES)
def test_what_fits_stays_as_it_is(value: Any) -> None:
    kinds = {str: "string", int: "integer", bool: "boolean", type(None): "null"}
    kinds |= {list: "array", dict: "object"}
    assert fitted(value, {"type": kinds[type(value)]}) == value


def test_a_long_text_is_not_looked_at() -> None:
    with pytest.raises(ValueError, match="no object"):
        almost_json("{'a': '" + "x" * 70_000 + "'}")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{class: "wizard", from: "inn"}', {"class": "wizard", "from": "inn"}),
        (r"{'re': '\\d+'}", {"re": r"\d+"}),
        ('{}{"what": "gold"}', {"what": "gold"}),
        ("{'a': 'x\u2028y', b: 'z'}", {"a": "x\u2028y", "b": "z"}),
    ],
)
def test_bare_keys_may_be_words_of_python(text: str, value: dict[str, Any]) -> None:
    assert load(text) == value


@pytest.mark.parametrize(
    "text",
    [
        '{"items": ["sword" "shield"]}',
        "{'text': 'it''s'}",
        '{"a": 1, # "b": 2\n "c": 3}',
        '{"a": -True}',
        "```" + " " * 60_000 + "x",
    ],
)
def test_what_python_would_read_otherwise_is_refused(text: str) -> None:
    with pytest.raises(InvalidArguments):
        load(text)


@pytest.mark.parametrize(
    ("field", "written", "meant"),
    [
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "5", "5"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "null", "null"),
        ({"oneOf": [{"type": "string"}, {"type": "boolean"}]}, "true", "true"),
        ({"type": "integer"}, "9007199254740993.0", 9007199254740993),
    ],
)
def test_a_value_that_fits_is_not_changed_for_another_field(
    field: dict[str, Any], written: Any, meant: Any
) -> None:
    count = {"type": "integer"}
    schema = {"type": "object", "properties": {"x": field, "count": count}}
    text = json.dumps({"x": written, "count": "3"})
    assert ArgumentSchema(schema).parse(text) == {"x": meant, "count": 3}


@pytest.mark.parametrize(
    "text", ["[NaN]", "[1e400]", '[{"a": 1, "a": 2}]', '["\\ud800"]', "[" * 200]
)
def test_json_in_a_text_has_the_limits_of_all_arguments(text: str) -> None:
    schema = {"type": "object", "properties": {"rows": {"type": "array"}}}
    with pytest.raises(InvalidArguments):
        ArgumentSchema(schema).parse(json.dumps({"rows": text}))
