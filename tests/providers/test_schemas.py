"""Tools as each vendor takes them: whatever comes in, nothing refused goes out."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from glyphoxa_trio.config import ModelConfig, Provider
from glyphoxa_trio.providers.anthropic.wire import RequestOptions as AnthropicOptions
from glyphoxa_trio.providers.anthropic.wire import request_body as anthropic_body
from glyphoxa_trio.providers.chat_completions.wire import RequestOptions, request_body
from glyphoxa_trio.providers.llm import LLMRequest, Message, ToolSpec
from glyphoxa_trio.providers.openai_realtime.encoding import tools_of
from glyphoxa_trio.providers.s2s import Calling, S2STool
from glyphoxa_trio.providers.schemas.forms import SchemaForm
from glyphoxa_trio.runtime.models import link_of
from glyphoxa_trio.testing.gemini.shapes import schema as strict

HELLO = (Message(role="user", content="hello"),)


def sent(
    parameters: Any, form: SchemaForm = SchemaForm.PLAIN, description: str = "Find."
) -> Any:
    """The tool in a request of chat completions, without what is around it."""
    spec = ToolSpec(name="find", description=description, parameters=parameters)
    request = LLMRequest(messages=HELLO, tools=(spec,))
    body = request_body(request, "m", options=RequestOptions(schemas=form))
    return json.loads(json.dumps(body["tools"][0]["function"], allow_nan=False))


def to_anthropic(parameters: Any) -> Any:
    spec = ToolSpec(name="find", description="Find.", parameters=parameters)
    request = LLMRequest(messages=HELLO, tools=(spec,))
    body = anthropic_body(request, "m", options=AnthropicOptions())
    return body["tools"][0]


def realtime(parameters: Any) -> Any:
    spec = ToolSpec(name="find", description="Find.", parameters=parameters)
    return tools_of([S2STool(spec=spec, calling=Calling.BLOCKING)])[0]


# What becomes of schemas that were refused


UNION = {
    "type": "object",
    "properties": {"content": {"type": "string"}, "source_url": {"type": "string"}},
    "anyOf": [{"required": ["content"]}, {"required": ["source_url"]}],
}


def test_a_union_at_the_root_is_said_in_words_to_every_vendor() -> None:
    plain = {"type": "object", "properties": UNION["properties"]}
    told = "Find. Give one of: content, source_url."
    for tool in (sent(UNION), realtime(UNION)):
        assert (tool["parameters"], tool["description"]) == (plain, told)
    tool = to_anthropic(UNION)
    assert (tool["input_schema"], tool["description"]) == (plain, told)
    tool = sent(UNION, SchemaForm.GEMINI)
    assert (tool["parameters"], tool["description"]) == (plain, told)


TEXT = {"type": "string"}
ANYTHING = {
    "type": ["string", "number", "integer", "boolean", "object", "array", "null"],
    "items": {},
}
KINDS = {
    "oneOf": [
        {"properties": {"kind": {"const": "a"}, "n": TEXT}, "required": ["kind", "n"]},
        {"$ref": "#/$defs/b"},
    ],
    "$defs": {"b": {"properties": {"kind": {"const": "b"}}, "required": ["kind"]}},
}


@pytest.mark.parametrize(
    ("parameters", "becomes", "told"),
    [
        pytest.param(
            KINDS,
            {
                "properties": {
                    "kind": {"type": "string", "enum": ["a", "b"]},
                    "n": TEXT,
                },
                "required": ["kind"],
            },
            'Give one of: kind = "a" with n, kind = "b".',
            id="forms that are told apart by a field",
        ),
        pytest.param(
            {"allOf": [{"properties": {"a": TEXT}}, {"required": ["a"]}]},
            {"properties": {"a": TEXT}, "required": ["a"]},
            "",
            id="parts",
        ),
        pytest.param({}, {"properties": {}}, "", id="no parameters"),
        pytest.param(
            {"properties": {"list": {"type": "array"}, "any": True}},
            {
                "properties": {
                    "list": {"type": "array", "items": {}},
                    "any": ANYTHING,
                }
            },
            "",
            id="an array of anything",
        ),
        pytest.param(
            {
                "properties": {"größe": TEXT, "x" * 65: TEXT, "a": TEXT},
                "required": ["größe", "a"],
                "additionalProperties": False,
            },
            {"properties": {"a": TEXT}, "required": ["a"]},
            f'It also needs "größe". It also takes "{"x" * 65}".',
            id="names of fields that are refused",
        ),
        pytest.param(
            {"not": {"required": ["a", "b"]}, "properties": {"a": TEXT}},
            {"properties": {"a": TEXT}},
            'It must also fit {"not": {"required": ["a", "b"]}}.',
            id="a form that is forbidden",
        ),
        pytest.param(
            {
                "properties": {
                    "day": {
                        "type": "string",
                        "description": "When.",
                        "pattern": r"\d",
                        "format": "uri",
                        "maxLength": 4000,
                    }
                }
            },
            {
                "properties": {
                    "day": {
                        "type": "string",
                        "description": (
                            r"When. Characters: 4000 at most. Format: uri. Pattern: \d"
                        ),
                    }
                }
            },
            "",
            id="what no grammar can be made of",
        ),
        pytest.param(
            {
                "properties": {
                    "n": {"minimum": "3", "exclusiveMaximum": 5, "type": "number"},
                    "m": {"minimum": 1, "exclusiveMinimum": True, "type": "integer"},
                    "k": {"type": "any", "enum": [], "title": 7, "required": True},
                    "l": {"type": "string", "minLength": -1, "maxLength": "9"},
                }
            },
            {
                "properties": {
                    "n": {"type": "number", "exclusiveMaximum": 5},
                    "m": {"type": "integer", "exclusiveMinimum": 1},
                    "k": ANYTHING,
                    "l": TEXT,
                }
            },
            "",
            id="keywords with values of the wrong type",
        ),
    ],
)
def test_a_schema_is_made_plain(parameters: Any, becomes: Any, told: str) -> None:
    tool = sent(parameters, description="")
    assert tool["parameters"] == {"type": "object"} | becomes
    assert tool["description"] == told


def test_a_tree_ends_where_it_contains_itself() -> None:
    tree = {
        "type": ["object", "null"],
        "properties": {"left": {"$ref": "#/$defs/tree"}},
    }
    node = sent(
        {"properties": {"t": {"$ref": "#/$defs/tree"}}, "$defs": {"tree": tree}}
    )
    found = node["parameters"]["properties"]["t"]
    assert found["properties"]["left"] == {"type": ["object", "null"]}


STEPS = {
    f"s{i}": {"properties": {key: {"$ref": f"#/$defs/s{i + 1}"} for key in "ab"}}
    for i in range(64)
}
WIDE = {f"p{i}": {"type": "string"} for i in range(20_000)}
FORMS = [{"properties": {f"p{i}": {"const": i}}, "title": str(i)} for i in range(9_000)]
HUGE = {"patternProperties": WIDE, "type": "object"}
HOSTILE = {
    "doubling": {"properties": {"x": {"$ref": "#/$defs/s0"}}, "$defs": STEPS},
    "wide": {"properties": WIDE, "required": [*WIDE]},
    "forms at the root": {"oneOf": FORMS},
    "forms": {"properties": {"x": {"anyOf": FORMS}}},
    "parts": {"allOf": FORMS},
    "repeated": {
        "properties": {name: {"$ref": "#/$defs/x"} for name in WIDE},
        "$defs": {"x": HUGE},
    },
}


@pytest.mark.parametrize("form", SchemaForm)
@pytest.mark.parametrize("parameters", HOSTILE.values(), ids=HOSTILE)
def test_a_schema_that_is_too_large_keeps_a_bounded_part(
    parameters: Any, form: SchemaForm
) -> None:
    tool = sent(parameters, form)
    assert len(json.dumps(tool)) < 500_000
    if form is SchemaForm.PLAIN:
        assert list(wrong(tool["parameters"])) == []


def test_google_gets_no_schema_of_a_tool_without_parameters() -> None:
    assert sent({"type": "object"}, SchemaForm.GEMINI) == {
        "name": "find",
        "description": "Find.",
    }


@pytest.mark.parametrize(
    ("config", "form"),
    [
        (ModelConfig(provider=Provider.GEMINI, model="m"), SchemaForm.GEMINI),
        (
            ModelConfig(provider=Provider.OPENROUTER, model="google/gemini-3-flash"),
            SchemaForm.GEMINI,
        ),
        (
            ModelConfig(
                provider=Provider.CHAT_COMPLETIONS,
                model="m",
                base_url="https://generativelanguage.googleapis.com/v1beta/openai",
            ),
            SchemaForm.GEMINI,
        ),
        (ModelConfig(provider=Provider.OPENAI, model="gpt"), SchemaForm.PLAIN),
        (ModelConfig(provider=Provider.OLLAMA, model="llama3.2"), SchemaForm.PLAIN),
    ],
)
def test_the_model_decides_the_form(config: ModelConfig, form: SchemaForm) -> None:
    link: Any = link_of(config)
    assert link.options.schemas is form


# Any JSON


KEYWORDS = [
    *("type", "$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "enum"),
    *("const", "properties", "required", "items", "prefixItems", "patternProperties"),
    *("additionalProperties", "minLength", "maxLength", "pattern", "format", "minimum"),
    *("exclusiveMinimum", "multipleOf", "minItems", "uniqueItems", "description"),
    *("title", "default", "examples", "nullable", "$defs"),
]
NAMES = ["a", "b", "größe", "a b", "x" * 65, "$top", ""]
NAME = st.sampled_from(NAMES)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from(["string", "array", "object", "null", "#", "#/$defs/a", "\ud800"])
)
ANY_JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=4)
        | st.dictionaries(NAME, inner, max_size=3)
        | st.fixed_dictionaries(
            {
                "type": st.sampled_from(
                    ["object", "array", ["string", "null"], "string"]
                )
            },
            optional={
                "properties": st.dictionaries(
                    st.sampled_from(NAMES), inner, max_size=3
                ),
                "items": inner,
                "anyOf": st.lists(inner, max_size=3),
                "required": st.lists(NAME, max_size=2),
            },
        )
    ),
    max_leaves=30,
).filter(lambda x: isinstance(x, dict))


@given(ANY_JSON)
def test_any_schema_becomes_one_that_each_vendor_takes(parameters: Any) -> None:
    before = copy.deepcopy(parameters)
    node = sent(parameters)["parameters"]
    assert repr(parameters) == repr(before)  # NaN is not itself
    assert list(wrong(node)) == []
    assert sent(node)["parameters"] == node
    if (google := sent(parameters, SchemaForm.GEMINI).get("parameters")) is not None:
        strict(google, "parameters")


def wrong(root: Any) -> Iterator[str]:
    """What OpenAI, Anthropic, xAI and llama.cpp would refuse, as they document it."""
    Draft202012Validator.check_schema(root)
    if root.get("type") != "object" or not isinstance(root.get("properties"), dict):
        yield "OpenAI: the root is no object with properties"
    for key in ("oneOf", "anyOf", "allOf", "enum", "const", "not", "$ref"):
        if key in root:
            yield f"OpenAI and Anthropic: {key} at the root"
    for node in nodes(root):
        for key in ("$ref", "$defs", "allOf", "oneOf", "not", "if", "prefixItems"):
            if key in node:
                yield f"OpenAI: {key}"
        kinds = node.get("type", ())
        if "array" in kinds and "items" not in node:
            yield "OpenAI: an array without items"
        if not node.keys() & {"type", "enum", "anyOf", "properties"} and node:
            yield f"llama.cpp: unrecognized schema {node}"
        if "pattern" in node:
            yield "llama.cpp: a pattern"
        for key in ("minLength", "maxLength", "minItems", "maxItems"):
            if key in node:
                yield f"xAI, and llama.cpp if it is large: {key}"
        for name in node.get("properties", ()):
            if not re.fullmatch("[a-zA-Z0-9_.-]{1,64}", name):
                yield f"Anthropic: the name {name!r}"
        for number in (x for x in node.values() if isinstance(x, int | float)):
            if abs(number) >= 2**63:
                yield "the number is too large for most"
        if re.search("[\ud800-\udfff]", json.dumps(node, ensure_ascii=False)):
            yield "half a character"


def nodes(node: Any) -> Iterator[dict[str, Any]]:
    yield node
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from nodes(node[key])
    for each in (*node.get("anyOf", ()), *node.get("properties", {}).values()):
        yield from nodes(each)


# Arguments


def texts(value: str) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {"type": st.sampled_from(["string", ["string", "null"]])},
        optional={
            "minLength": st.integers(0, len(value)),
            "maxLength": st.sampled_from([len(value), 100_000]),
            "pattern": st.just(f"^{re.escape(value)}$"),
            "format": st.sampled_from(["uri", "date"]),
            "enum": st.just([value, "other"]),
            "const": st.just(value),
            "default": st.none(),
        },
    )


def numbers(value: int) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number", ["integer", "string"]])},
        optional={
            "minimum": st.integers(-9, value),
            "exclusiveMaximum": st.integers(value + 1, 99),
            "enum": st.just([value, 1000]),
            "not": st.just({"const": "never"}),
        },
    )


Pair = tuple[Any, Any]  # a schema, and a value that fits it


@st.composite
def pairs(draw: st.DrawFn, defs: dict[str, Any], depth: int = 0) -> Pair:
    kinds = ["text", "number", "null", "any"]
    inner = ["object", "array", "tuple", "union", "reference", "parts"]
    match draw(st.sampled_from(kinds + inner * (depth < 3))):
        case "text":
            word = draw(st.sampled_from(["", "ale", "a.b"]))
            return draw(texts(word)), word
        case "number":
            count = draw(st.integers(-5, 5))
            return draw(numbers(count)), count
        case "null":
            return {"type": "null"}, None
        case "any":
            return draw(st.sampled_from([True, {}, {"title": "X"}])), "thing"
        case "array":
            schema, value = draw(pairs(defs, depth + 1))
            many = draw(st.integers(0, 2))
            return {"type": "array", "items": schema}, [value] * many
        case "tuple":
            first, last = draw(pairs(defs, depth + 1)), draw(pairs(defs, depth + 1))
            rests: list[Any] = [{}, {"items": False}, {"maxItems": 2}]
            rest = draw(st.sampled_from(rests))
            schema = {"type": "array", "prefixItems": [first[0], last[0]], **rest}
            return schema, [first[1], last[1]]
        case "union":
            schema, value = draw(pairs(defs, depth + 1))
            other, _ = draw(pairs(defs, depth + 1))
            key = draw(st.sampled_from(["anyOf", "oneOf"]))
            return {key: draw(st.permutations([schema, other]))}, value
        case "reference":
            schema, value = draw(pairs(defs, depth + 1))
            name = f"d{len(defs)}"
            defs[name] = schema
            return {"$ref": f"#/$defs/{name}"}, value
        case "parts":
            one, other = draw(objects(defs, depth + 1)), draw(objects(defs, depth + 1))
            for schema, _ in (one, other):
                schema.pop("additionalProperties", None)
            return {"allOf": [one[0], other[0]]}, {**other[1], **one[1]}
    return draw(objects(defs, depth + 1))


@st.composite
def objects(draw: st.DrawFn, defs: dict[str, Any], depth: int = 0) -> Pair:
    names = draw(st.lists(NAME, unique=True, max_size=3))
    fields = {name: draw(pairs(defs, depth + 1)) for name in names}
    given_ = draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    schema: Any = {"type": "object", "properties": {n: x[0] for n, x in fields.items()}}
    schema |= draw(
        st.fixed_dictionaries(
            {},
            optional={
                "required": st.just(given_),
                "additionalProperties": st.booleans(),
                "patternProperties": st.just({"^z": {"type": "integer"}}),
            },
        )
    )
    value = {name: fields[name][1] for name in given_}
    if depth < 3 and draw(st.booleans()):
        forms = [draw(objects(defs, depth + 1)) for _ in range(2)]
        for form, _ in forms:
            form.pop("additionalProperties", None)
        schema.pop("additionalProperties", None)
        schema[draw(st.sampled_from(["anyOf", "oneOf"]))] = [x[0] for x in forms]
        value = forms[0][1] | value
        # Another form might fit only because it says nothing about a field.
        chosen = {"allOf": [schema, forms[0][0]], "$defs": defs}
        assume(Draft202012Validator(chosen).is_valid(value))
    return schema, value


@given(st.data())
def test_arguments_that_fit_the_schema_fit_the_one_that_is_sent(
    data: st.DataObject,
) -> None:
    defs: dict[str, Any] = {}
    schema, value = data.draw(objects(defs))
    schema["$defs"] = defs
    assume(Draft202012Validator(schema).is_valid(value))
    Draft202012Validator(sent(schema)["parameters"]).validate(value)
