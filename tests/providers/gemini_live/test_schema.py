"""JSON schemas as Gemini takes them: whatever comes in, nothing refused goes out."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from glyphoxa_trio.providers.schemas.gemini import (
    MAX_CHARACTERS,
    MAX_DEPTH,
    reduced,
)
from glyphoxa_trio.testing.gemini.shapes import schema as strict
from glyphoxa_trio.tools.instance import NoInstance, minimal_instance

ONLY_FOR = {
    "STRING": {"enum", "format", "pattern", "minLength", "maxLength", "default"},
    "INTEGER": {"minimum", "maximum", "format", "default"},
    "NUMBER": {"minimum", "maximum", "format", "default"},
    "BOOLEAN": {"default"},
    "ARRAY": {"items", "minItems", "maxItems"},
    "OBJECT": {"properties", "required"},
}
# An object of which nothing can be said.
ANYTHING = {
    "type": "OBJECT",
    "properties": {"example": {"type": "STRING", "description": "One of any fields."}},
}


def refused(node: dict[str, Any], depth: int = 0) -> list[str]:
    """What Gemini would not take, in words."""
    found: list[str] = []
    if depth > MAX_DEPTH + 1:
        found.append("too deep")
    if "anyOf" in node:
        if node.keys() != {"anyOf"} or len(node["anyOf"]) < 2:
            found.append("anyOf is not alone, or alone in itself")
        return found + [
            why for form in node["anyOf"] for why in refused(form, depth + 1)
        ]
    own = ONLY_FOR[node["type"]] | {"type", "description", "nullable"}
    found += [f"{key} of {node['type']}" for key in node.keys() - own]
    if node["type"] == "ARRAY":
        found += refused(node["items"], depth + 1)
    if "enum" in node and not all(isinstance(v, str) and v for v in node["enum"]):
        found.append("an enum of other than text")
    properties = node.get("properties", {})
    if node["type"] == "OBJECT" and not properties:
        found.append("no properties")
    found += [f"requires {n}" for n in node.get("required", ()) if n not in properties]
    return found + [
        why for one in properties.values() for why in refused(one, depth + 1)
    ]


def of(schema: Any) -> Any:
    """What becomes of a schema as the one property of the parameters."""
    node = reduced({"type": "object", "properties": {"x": schema}})
    assert node is not None
    assert types.Schema.model_validate(node)
    assert strict(node, "parameters")
    assert refused(node) == []
    return node["properties"]["x"]


def test_types_are_in_upper_case_and_unknown_keywords_are_gone() -> None:
    node = reduced(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$comment": "no",
            "title": "Roll",
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "expression": {
                    "type": "string",
                    "description": "Such as 2d6.",
                    "minLength": 2,
                    "pattern": "^[0-9]+d",
                    "examples": ["1d20"],
                    "contentEncoding": "utf-8",
                }
            },
            "required": ["expression", "expression", "gone"],
            "patternProperties": {"^x": {}},
            "if": {},
            "not": {"required": ["y"]},
        }
    )
    assert node == {
        "type": "OBJECT",
        "properties": {
            "expression": {
                "type": "STRING",
                "description": "Such as 2d6.",
                "minLength": 2,
                "pattern": "^[0-9]+d",
            }
        },
        "required": ["expression"],
    }


def test_without_parameters_there_is_no_schema() -> None:
    assert reduced({}) is None
    assert reduced({"type": "object", "properties": {}}) is None
    assert reduced({"type": "object", "properties": {"not-a-name": {}}}) is None
    assert reduced({"properties": {"x": False}}) is None


@pytest.mark.parametrize(
    ("schema", "node"),
    [
        ({"const": "up"}, {"type": "STRING", "enum": ["up"]}),
        ({"const": 3}, {"type": "INTEGER", "description": "One of: 3."}),
        ({"const": None}, {"type": "STRING", "nullable": True}),
        (
            {"type": "integer", "enum": [1, 2], "description": "How many."},
            {"type": "INTEGER", "description": "How many. One of: 1, 2."},
        ),
        (
            {"enum": ["a", "", None]},
            {"type": "STRING", "enum": ["a"], "nullable": True},
        ),
        (
            {"enum": ["auto", 5]},
            {
                "anyOf": [
                    {"type": "STRING", "enum": ["auto"]},
                    {"type": "INTEGER", "description": "One of: 5."},
                ]
            },
        ),
        ({"type": ["string", "null"]}, {"type": "STRING", "nullable": True}),
        ({"type": "string", "nullable": True}, {"type": "STRING", "nullable": True}),
        (
            {"anyOf": [{"type": "null"}, {"type": "integer"}], "description": "Level."},
            {"type": "INTEGER", "description": "Level.", "nullable": True},
        ),
        (
            {"oneOf": [{"type": "string"}, {"type": "boolean"}, {"type": "string"}]},
            {"anyOf": [{"type": "STRING"}, {"type": "BOOLEAN"}]},
        ),
        (
            {"type": ["string", "integer", "null"], "minimum": 1},
            {
                "anyOf": [
                    {"type": "STRING", "nullable": True},
                    {"type": "INTEGER", "minimum": 1},
                ]
            },
        ),
        ({"type": ["integer", "number"]}, {"type": "NUMBER"}),
        ({"type": "string", "anyOf": [{"minLength": 1}]}, {"type": "STRING"}),
        ({"type": "array"}, {"type": "ARRAY", "items": {"type": "STRING"}}),
        (
            {"prefixItems": [{"type": "number"}, {"type": "number"}], "maxItems": 2},
            {"type": "ARRAY", "items": {"type": "NUMBER"}, "maxItems": 2},
        ),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "INTEGER", "minimum": 1}),
        (
            {"type": "integer", "minimum": 5, "exclusiveMinimum": True},
            {"type": "INTEGER", "minimum": 6},
        ),
        (
            {"type": "integer", "maximum": 20, "exclusiveMaximum": 10.5},
            {"type": "INTEGER", "maximum": 10},
        ),
        ({"type": "number", "exclusiveMinimum": 0}, {"type": "NUMBER"}),
        (
            {"type": "string", "format": "uri"},
            {"type": "STRING", "description": "Format: uri."},
        ),
        (
            {"type": "string", "format": "date-time"},
            {"type": "STRING", "format": "date-time"},
        ),
        (
            {"type": "integer", "format": "int64"},
            {"type": "INTEGER", "format": "int64"},
        ),
        ({"type": "string", "pattern": "(?=a)b"}, {"type": "STRING"}),
        (True, {"type": "STRING"}),
        ({}, {"type": "STRING"}),
        ({"properties": {}}, ANYTHING),
        ({"type": "object", "additionalProperties": {"type": "string"}}, ANYTHING),
        ({"default": 2.5}, {"type": "NUMBER", "default": 2.5}),
        ({"type": "boolean", "default": None}, {"type": "BOOLEAN"}),
        ({"type": "string", "minLength": "3", "maxLength": -1}, {"type": "STRING"}),
        (
            {"description": "half \ud83d"},
            {"type": "STRING", "description": "half \ufffd"},
        ),
    ],
)
def test_what_gemini_does_not_know_is_said_in_its_words(
    schema: Any, node: dict[str, Any]
) -> None:
    assert of(schema) == node


def test_references_are_written_out() -> None:
    node = reduced(
        {
            "type": "object",
            "properties": {
                "at": {"$ref": "#/$defs/place", "description": "Where to."},
                "far": {"$ref": "https://elsewhere.example/schema"},
                "lost": {"$ref": "#/$defs/nothing"},
                "odd": {"$ref": "#/$defs/a~1b%25"},
            },
            "$defs": {
                "place": {"type": "object", "properties": {"x": {"type": "integer"}}},
                "a/b%": {"type": "boolean"},
            },
        }
    )
    assert node == {
        "type": "OBJECT",
        "properties": {
            "at": {
                "type": "OBJECT",
                "description": "Where to.",
                "properties": {"x": {"type": "INTEGER"}},
            },
            "far": {"type": "STRING"},
            "lost": {"type": "STRING"},
            "odd": {"type": "BOOLEAN"},
        },
    }


def test_a_reference_inside_itself_is_only_its_type() -> None:
    tree = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
        },
    }
    node = reduced(
        {"properties": {"root": {"$ref": "#/$defs/tree"}}, "$defs": {"tree": tree}}
    )
    assert node is not None
    root = node["properties"]["root"]
    assert root["properties"]["children"]["items"] == ANYTHING
    assert of({"$ref": "#"}) == ANYTHING


def test_all_of_is_one_schema() -> None:
    schema = {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "number", "minimum": 1}}},
            {
                "properties": {"a": {"type": "integer", "minimum": 3}, "b": True},
                "required": ["a"],
            },
        ]
    }
    assert of(schema) == {
        "type": "OBJECT",
        "properties": {"a": {"type": "INTEGER", "minimum": 3}, "b": {"type": "STRING"}},
        "required": ["a"],
    }


def test_an_object_may_hold_what_any_of_its_forms_holds() -> None:
    node = reduced(
        {
            "type": "object",
            "properties": {"kind": {"type": "string"}},
            "oneOf": [
                {
                    "properties": {"kind": {"const": "a"}, "n": {"type": "integer"}},
                    "required": ["kind", "n"],
                },
                {"properties": {"kind": {"const": "b"}}, "required": ["kind"]},
            ],
        }
    )
    assert node == {
        "type": "OBJECT",
        "description": 'Give one of: kind = "a" with n, kind = "b".',
        "properties": {"kind": {"type": "STRING"}, "n": {"type": "INTEGER"}},
        "required": ["kind"],
    }


def test_a_schema_that_doubles_at_every_step_ends() -> None:
    steps = {
        f"s{i}": {
            "type": "object",
            "properties": {
                "left": {"$ref": f"#/$defs/s{i + 1}"},
                "right": {"allOf": [{"$ref": f"#/$defs/s{i + 1}"}] * 2},
            },
        }
        for i in range(64)
    }
    node = reduced({"properties": {"x": {"$ref": "#/$defs/s0"}}, "$defs": steps})
    assert node is not None
    assert len(json.dumps(node)) < 2 * MAX_CHARACTERS
    assert refused(node) == []


def test_a_schema_that_is_too_wide_keeps_its_beginning() -> None:
    wide = {f"p{i}": {"type": "string", "description": "x" * 400} for i in range(5000)}
    node = reduced({"properties": wide, "required": list(wide)})
    assert node is not None
    assert list(node["properties"]) == node["required"]
    assert 40 < len(node["required"]) < 80


def test_allof_inside_allof_inside_allof_ends() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(400):
        schema = {"allOf": [schema], "anyOf": [schema]}
    assert of(schema)["type"] == "STRING"


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats()
    | st.sampled_from(["", "a", "string", "#", "#/properties/a", "#/$defs/b", "int32"])
    | st.text(max_size=5)
)
NAMES = st.sampled_from(["a", "b", "$c", "d e", "_f"])
TYPES = st.sampled_from(
    ["string", "number", "integer", "boolean", "array", "object", "null", "STRING", "x"]
)

NUMERIC = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]
NUMERIC += ["minItems", "maxItems", "minLength", "maxLength", "minProperties"]


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, max_size=3)
    named = st.dictionaries(NAMES, inner, max_size=3)
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": TYPES | st.lists(TYPES, max_size=3) | inner,
        "properties": named | inner,
        "required": st.lists(NAMES | SCALARS, max_size=3) | inner,
        "items": inner | some,
        "prefixItems": some,
        "anyOf": some | inner,
        "oneOf": some,
        "allOf": some | inner,
        "$ref": st.sampled_from(["#", "#/properties/a", "#/$defs/b", "#/x/0"]) | inner,
        "$defs": named,
        "enum": st.lists(SCALARS, max_size=4) | inner,
        "const": SCALARS | inner,
        "nullable": SCALARS,
        "default": inner,
        "description": st.text(max_size=600) | inner,
        "format": st.sampled_from(["enum", "date-time", "int64", "float", "uri"])
        | inner,
        "pattern": SCALARS,
        "not": inner,
        **dict.fromkeys(NUMERIC, SCALARS),
    }
    return st.fixed_dictionaries({}, optional=keywords) | some


@given(
    st.dictionaries(st.text(max_size=3), SCALARS, max_size=2)
    | st.recursive(SCALARS, schemas, max_leaves=30).filter(
        lambda schema: isinstance(schema, dict)
    )
    | st.recursive(SCALARS, schemas, max_leaves=30).map(
        lambda schema: {"properties": {"a": schema, "b": schema}}
    )
)
def test_any_json_schema_becomes_one_that_gemini_takes(schema: dict[str, Any]) -> None:
    before = copy.deepcopy(schema)
    node = reduced(schema)
    assert repr(schema) == repr(before)  # NaN is not itself
    if node is None:
        return
    assert node["type"] == "OBJECT"
    assert refused(node) == []
    assert types.Schema.model_validate(node)
    assert strict(node, "parameters")
    assert len(json.dumps(node, allow_nan=False)) < 2 * MAX_CHARACTERS
    assert reduced(node) == node


def plain(kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas of definite types, that nothing needs to be left out of."""
    named = st.dictionaries(st.sampled_from("abc"), kinds, min_size=1, max_size=3)
    return (
        st.builds(lambda items: {"type": "array", "items": items, "minItems": 1}, kinds)
        | named.map(lambda p: {"type": "object", "properties": p, "required": list(p)})
        | st.builds(lambda *forms: {"oneOf": list(forms)}, kinds, kinds)
        | st.builds(lambda one, two: {"allOf": [one, two]}, kinds, kinds)
    )


LEAVES: st.SearchStrategy[Any] = st.sampled_from(
    [
        {"type": "string", "minLength": 2},
        {"type": "integer", "exclusiveMinimum": 3, "maximum": 9},
        {"type": "number", "minimum": 0.5},
        {"type": ["boolean", "null"]},
        {"const": "yes"},
        {"enum": [1, 2]},
        {"anyOf": [{"type": "null"}, {"type": "string"}]},
    ]
)


@given(st.recursive(LEAVES, plain, max_leaves=6))
def test_what_the_original_takes_is_not_forbidden(leaf: Any) -> None:
    schema = {"type": "object", "properties": {"x": leaf}, "required": ["x"]}
    try:
        instance = minimal_instance(schema)
    except NoInstance:
        return  # parts that contradict each other
    node = reduced(schema)
    assert node is not None
    Draft202012Validator(as_json_schema(node)).validate(instance)


def as_json_schema(node: Any) -> Any:
    """A reduced schema in the words of JSON Schema."""
    if isinstance(node, list):
        return [as_json_schema(part) for part in node]
    if not isinstance(node, dict):
        return node
    schema = {key: as_json_schema(value) for key, value in node.items()}
    if isinstance(kind := schema.get("type"), str):
        null = ["null"] if schema.pop("nullable", False) else []
        schema["type"] = [kind.lower(), *null]
        if null and "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
    return schema
