"""Servers as they are: odd lists, odd answers, and what is made of each (N1, N23).

The servers are played in this process, and say raw JSON; see `odd`.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock

from glyphoxa_trio import Outcome
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.outcome import Effect, Status
from glyphoxa_trio.tools.repair import repaired_schema, text_of_blob

from .odd import OddServer, Wrong, greeting, odd_table, tool

LIST, CALL, READ = "tools/list", "tools/call", "resources/read"
EMPTY: dict[str, Any] = {"type": "object", "properties": {}}
REMEDY = "update the server, or report it to its author"


def text(*texts: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": x} for x in texts], **more}


# ------------------------------------------------------------ lists of tools


@pytest.mark.parametrize(
    "php",
    [
        {"inputSchema": {"type": "object", "properties": []}},
        {"inputSchema": {"type": "object", "properties": [], "required": {}}},
        {"inputSchema": {"type": "object", "properties": {}, "required": None}},
        {"inputSchema": []},
        {"inputSchema": None},
        {"inputSchema": {}},
        {"inputSchema": {"properties": []}},
        {"annotations": [], "_meta": [], "outputSchema": [], "description": None},
        {"annotations": None, "_meta": None, "outputSchema": None, "title": None},
        {"outputSchema": {}, "icons": {}, "execution": []},
    ],
)
async def test_an_empty_list_is_an_empty_object_wherever_one_belongs(
    monkeypatch: pytest.MonkeyPatch, php: dict[str, Any]
) -> None:
    tools = [tool("plain"), tool(**php), tool("other")]
    script = {LIST: {"tools": tools}, CALL: text("said")}
    async with odd_table(monkeypatch, script) as table:
        assert table.tools == ["ask", "other", "plain"]
        assert table.warnings == []
        assert (await table.call()).message == "said"


async def test_a_server_without_a_schema_of_its_tool_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # N1
    script = {LIST: {"tools": [{"name": "ask"}]}, CALL: text("said")}
    async with odd_table(monkeypatch, script) as table:
        assert (await table.call()).ok
        assert table.warnings == []


async def test_nested_schemas_are_repaired_and_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = {"type": "object", "properties": [], "required": {}}
    schema = {
        "type": "object",
        "properties": {
            "place": place,
            "any": [],
            "many": {"type": "array", "items": []},
            "kind": {"anyOf": {"0": {"type": "string"}, "2": []}},
            "count": {"type": "integer", "default": None, "description": None},
        },
        "required": {"1": "count"},
        "$defs": [],
        "additionalProperties": False,
    }
    script = {LIST: {"tools": {"1": tool(inputSchema=schema)}}, CALL: text("said")}
    async with odd_table(monkeypatch, script) as table:
        assert table.warnings == []
        fine = await table.call(place={}, many=[1, "a"], kind="x", count=1)
        assert fine.ok
        missing = await table.call(place={})
        assert missing.status is Status.INVALID_ARGUMENTS
        assert "count" in missing.message


ODD_TOOLS = {
    "a schema of another kind": (
        tool("odd", inputSchema={"type": "object", "properties": ["a"]}),
        "inputSchema.properties",
    ),
    "names that are none": (
        tool("odd", inputSchema={"type": "object", "required": [1]}),
        "inputSchema.required",
    ),
    "a keyword of the wrong type": (
        tool("odd", inputSchema={"type": "object", "properties": {"a": {"type": 5}}}),
        "inputSchema",
    ),
    "a schema that is a text": (tool("odd", inputSchema="none"), "inputSchema"),
    "no name": ({"title": "odd", "inputSchema": EMPTY}, "name"),
    "no tool": ("odd", ""),
}


@pytest.mark.parametrize("kind", ODD_TOOLS)
async def test_an_odd_tool_costs_itself_and_is_named_with_the_field_and_the_remedy(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    odd, field = ODD_TOOLS[kind]
    tools = [tool("first"), odd, tool("last")]
    async with odd_table(monkeypatch, {LIST: {"tools": tools}}) as table:
        assert table.tools == ["first", "last"]
        (warning,) = table.warnings
        assert field in warning
        assert REMEDY in warning
        assert "odd" in warning or kind == "no name"
        assert "validation error" not in warning


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("annotations", {"readOnlyHint": "perhaps"}),
        ("annotations", 7),
        ("description", 7),
        ("title", ["a"]),
        ("_meta", "x"),
        ("outputSchema", {"type": "array"}),
        ("execution", "now"),
    ],
)
async def test_a_tool_is_used_without_the_member_that_is_odd(
    monkeypatch: pytest.MonkeyPatch, member: str, value: Any
) -> None:
    tools = [tool("first"), tool("odd", **{member: value})]
    script = {LIST: {"tools": tools}, CALL: text("said")}
    async with odd_table(monkeypatch, script) as table:
        assert table.tools == ["first", "odd"]
        assert (await table.call("odd")).message == "said"
        (warning,) = table.warnings
        assert "'odd'" in warning or warning.startswith("odd: ")
        assert member in warning
        assert REMEDY in warning


@pytest.mark.parametrize("nothing", [[], {}, None])
async def test_a_list_of_nothing_is_an_empty_list(
    monkeypatch: pytest.MonkeyPatch, nothing: Any
) -> None:
    page = {"tools": nothing, "_meta": [], "nextCursor": None}
    async with odd_table(monkeypatch, {LIST: page}) as table:
        assert table.tools == []
        assert table.warnings == []


async def test_a_cursor_that_is_none_ends_a_list_with_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = {"tools": [tool()], "nextCursor": 7}
    async with odd_table(monkeypatch, {LIST: page}) as table:
        assert table.tools == ["ask"]
        (warning,) = table.warnings
        assert "nextCursor" in warning


@pytest.mark.parametrize(
    "said",
    [
        greeting() | {"capabilities": {"tools": []}},
        greeting() | {"capabilities": []},
        greeting() | {"capabilities": None, "serverInfo": [], "instructions": None},
        greeting() | {"serverInfo": {"name": "php"}, "_meta": []},
        {"protocolVersion": "2025-06-18"},
    ],
)
async def test_a_greeting_with_empty_lists_is_a_greeting(
    monkeypatch: pytest.MonkeyPatch, said: dict[str, Any]
) -> None:
    script = {"initialize": said, LIST: {"tools": [tool()]}, CALL: text("said")}
    async with odd_table(monkeypatch, script) as table:
        assert (await table.call()).message == "said"


def _as_php(value: Any) -> Any:
    """Write a schema as PHP writes it: every empty object as a list."""
    if isinstance(value, dict):
        return {k: _as_php(v) for k, v in value.items()} or []
    return [_as_php(x) for x in value] if isinstance(value, list) else value


_NAMES = st.sampled_from(["a", "b", "properties", "required", "enum"])
_SCHEMAS = st.recursive(
    st.sampled_from([{}, {"type": "string"}, {"enum": [[], None]}, {"const": None}]),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(_NAMES, inner, max_size=3),
            "$defs": st.dictionaries(_NAMES, inner, max_size=2),
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "additionalProperties": st.booleans() | inner,
            "required": st.lists(_NAMES, max_size=2, unique=True),
            "default": st.sampled_from([None, [], 5]),
        },
    ),
    max_leaves=8,
)


@given(_SCHEMAS)
def test_a_sound_schema_stays_and_phps_spelling_of_it_means_the_same(
    schema: dict[str, Any],
) -> None:
    assert repaired_schema(schema) == schema
    if schema:
        assert repaired_schema(_as_php(schema)) == schema


# ------------------------------------------------------------------- blobs


def blob(data: bytes, mime: str | None) -> dict[str, Any]:
    coded = base64.b64encode(data).decode()
    named = {} if mime is None else {"mimeType": mime}
    return {"uri": "file:///note", "blob": coded, **named}


NOTE = "Grüße from the mill."


@pytest.mark.parametrize(
    ("mime", "data", "shown"),
    [
        ("text/plain", NOTE.encode(), NOTE),
        ("text/markdown; charset=utf-8", NOTE.encode(), NOTE),
        ('text/plain;charset="ISO-8859-1"', NOTE.encode("latin-1"), NOTE),
        ("TEXT/CSV; header=present; charset=windows-1252", b"a,\x80", "a,€"),
        ("text/plain; charset=utf-16", NOTE.encode("utf-16"), NOTE),
        ("application/json", b'"mugwort"', '"mugwort"'),
        ("application/ld+json; charset=utf-8", b'"x"', '"x"'),
        ("application/xml", b"<a/>", "<a/>"),
        ("image/svg+xml", b"<svg/>", "<svg/>"),
        ("application/yaml", b"a: 1", "a: 1"),
        ("application/x-yaml", b"a: 1", "a: 1"),
        ("text/plain", b"\xef\xbb\xbfmarked", "marked"),
        ("text/plain", b"\xff\xfe\xfd", "[resource: text/plain, 3 B]"),
        ("text/plain", b"a\x00b", "[resource: text/plain, 3 B]"),
        (
            "text/plain; charset=rot13",
            b"abc",
            "[resource: text/plain; charset=rot13, 3 B]",
        ),
        ("image/png", b"abc", "[resource: image/png, 3 B]"),
        (
            "application/octet-stream",
            b"abc",
            "[resource: application/octet-stream, 3 B]",
        ),
        (None, b"abc", "[resource: unknown, 3 B]"),
    ],
)
async def test_text_that_is_sent_as_a_blob_is_read(
    monkeypatch: pytest.MonkeyPatch, mime: str | None, data: bytes, shown: str
) -> None:
    part = blob(data, mime)
    script = {
        "initialize": greeting(tools={}, resources={}),
        LIST: {"tools": [tool()]},
        CALL: {"content": [{"type": "resource", "resource": part}]},
        READ: {"contents": [part]},
        "resources/list": {"resources": [{"uri": "file:///note", "name": "note"}]},
    }
    async with odd_table(monkeypatch, script) as table:
        for outcome in (
            await table.call(),
            await table.call("read_resource", uri="file:///note"),
        ):
            assert outcome.ok
            assert outcome.message == shown or outcome.data == json.loads(shown)


async def test_a_secret_in_a_blob_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    part = blob(b"the word is sesame-9-sesame", "text/plain")
    answer = {"content": [{"type": "resource", "resource": part}]}
    script = {LIST: {"tools": [tool()]}, CALL: answer}
    env = {"TOKEN": Secret("sesame-9-sesame")}
    async with odd_table(monkeypatch, script, env=env) as table:
        outcome = await table.call()
        assert "sesame" not in outcome.message
        assert outcome.message.startswith("the word is ")


@given(st.text(), st.sampled_from(["utf-8", "utf-16", "utf-32", "utf-16-le"]))
def test_any_text_survives_its_blob(words: str, charset: str) -> None:
    try:
        data = words.encode(charset)
    except UnicodeEncodeError:
        return
    found = text_of_blob(
        f"text/plain; charset={charset}", base64.urlsafe_b64encode(data).decode()
    )
    assert found is None or found == words.removeprefix("\ufeff")


# ----------------------------------------------------------------- answers

GOLD = {
    "type": "object",
    "properties": {"gold": {"type": "integer"}},
    "required": ["gold"],
}


def held_against(answer: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {LIST: {"tools": [tool(outputSchema=GOLD, **more)]}, CALL: answer}


def reads(outcome: Outcome) -> str:
    return json.dumps(outcome.data)


@pytest.mark.parametrize(
    ("structured", "why"),
    [
        ({}, "no structuredContent"),
        ({"structuredContent": None}, "no structuredContent"),
        ({"structuredContent": {"gold": "three"}}, "$.gold: expected integer"),
        ({"structuredContent": {}}, "missing"),
        ({"structuredContent": [3]}, "structuredContent"),
    ],
)
@pytest.mark.parametrize("size", [1, pytest.param(300_000, marks=pytest.mark.border)])
async def test_an_answer_without_what_its_schema_promised_keeps_its_text(
    monkeypatch: pytest.MonkeyPatch, structured: dict[str, Any], why: str, size: int
) -> None:
    words = "You have three coins." + " " * (size - 1) + "."
    async with odd_table(monkeypatch, held_against(text(words, **structured))) as table:
        outcome = await table.call()
        assert (outcome.status, outcome.effect) == (Status.OK, Effect.DONE)
        assert outcome.message.startswith("You have three coins.")
        assert "schema" not in outcome.message  # it is spoken
        assert "You have three coins." in reads(outcome)
        assert why in reads(outcome).replace('\\"', '"')


async def test_an_answer_with_nothing_of_what_it_promised_has_had_its_effect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = {"content": [], "structuredContent": {"gold": "three"}}
    async with odd_table(monkeypatch, held_against(answer)) as table:
        outcome = await table.call()
        assert (outcome.status, outcome.effect) == (Status.TOOL_ERROR, Effect.DONE)
        assert "$.gold" in outcome.message
        assert REMEDY in outcome.message


@pytest.mark.parametrize(
    ("answer", "data"),
    [
        ({"structuredContent": {"gold": 3}}, {"gold": 3}),
        ({"content": None, "structuredContent": {"gold": 3}}, {"gold": 3}),
        ({"content": {}, "structuredContent": {"gold": 3}}, {"gold": 3}),
        ({"content": "three"}, "three"),
        ({"content": {"type": "text", "text": "three"}}, "three"),
        ({"content": ["three"], "_meta": []}, "three"),
        (
            {"content": [{"type": "text", "text": "three", "annotations": []}]},
            "three",
        ),
        (
            {"content": [{"type": "text", "text": "three", "_meta": None}]},
            "three",
        ),
    ],
)
async def test_what_can_be_used_of_an_answer_is_used(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], data: Any
) -> None:
    async with odd_table(
        monkeypatch, {LIST: {"tools": [tool()]}, CALL: answer}
    ) as table:
        outcome = await table.call()
        assert outcome.ok, outcome
        assert outcome.data == data


@pytest.mark.parametrize(
    ("answer", "field"),
    [
        ({}, "content: is missing"),
        ([], "content: is missing"),
        ({"text": "three"}, "content: is missing"),
        ({"content": 3}, "content"),
        ({"content": [{"type": "text"}]}, "content.0.text: is missing"),
        ({"content": [{"type": "video", "data": ""}]}, "content.0.type"),
        ({"content": [], "structuredContent": "x"}, "structuredContent"),
        ({"content": [], "isError": "perhaps"}, "isError"),
        ({"content": [], "_meta": 7}, "_meta"),
    ],
)
async def test_what_is_refused_of_an_answer_says_where_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, answer: Any, field: str
) -> None:
    async with odd_table(
        monkeypatch, {LIST: {"tools": [tool()]}, CALL: answer}
    ) as table:
        outcome = await table.call()
        assert outcome.status is Status.TOOL_ERROR
        assert outcome.message.startswith("odd's answer to tools/call is not usable: ")
        assert field in outcome.message
        assert REMEDY in outcome.message
        assert "ValidationError" not in outcome.message


async def test_a_faulty_block_costs_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = text("three", "coins")
    answer["content"][1:1] = [{"type": "text"}, {"type": "hologram"}]
    async with odd_table(
        monkeypatch, {LIST: {"tools": [tool()]}, CALL: answer}
    ) as table:
        outcome = await table.call()
        assert outcome.ok
        assert outcome.message == "three\ncoins"
        assert "content.1.text: is missing" in reads(outcome)


async def test_an_error_without_words_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with odd_table(
        monkeypatch, {LIST: {"tools": [tool()]}, CALL: {"isError": True}}
    ) as table:
        assert (await table.call()).status is Status.TOOL_ERROR


PYDANTIC = (
    "1 validation error for askArguments\nplace\n  Field required [type=missing,"
    " input_value={}, input_type=dict]"
)


async def test_no_method_says_a_fault_without_its_field(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offers = {"initialize": greeting(tools={}, resources={})}
    wrong: dict[str, dict[str, Any]] = {
        "initialize": {"initialize": greeting() | {"capabilities": 7}},
        "tools/list": {LIST: {"tools": "none"}},
        "a server's own words": {LIST: Wrong(PYDANTIC)},
    }
    fields = {
        "initialize": ("initialize", "capabilities"),
        "tools/list": ("tools/list", "tools"),
        "a server's own words": ("place",),
    }
    for method, faulty in wrong.items():
        async with odd_table(monkeypatch, faulty) as table:
            said = " ".join(table.warnings)
            assert all(word in said for word in fields[method]), said
            assert "ValidationError" not in said
    answers: tuple[tuple[str, Any, str], ...] = (
        (CALL, Wrong(PYDANTIC), "place"),
        (READ, {"contents": [{"uri": "a:b"}]}, "contents.0"),
        (READ, {}, "contents"),
        ("resources/list", {"resources": 7}, "resources"),
    )
    listed = {"resources/list": {"resources": [{"uri": "a:b", "name": "b"}]}}
    for method, answer, field in answers:
        script: dict[str, Any] = (
            offers | listed | {LIST: {"tools": [tool()]}, method: answer}
        )
        async with odd_table(monkeypatch, script) as table:
            if method == CALL:
                outcome = await table.call()
            elif method == READ:
                outcome = await table.call("read_resource", uri="a:b")
            else:
                outcome = await table.call("list_resources")
            assert not outcome.ok
            assert field in outcome.message, outcome.message
            assert method in outcome.message or method == CALL
            assert "ValidationError" not in outcome.message


async def test_an_odd_resource_costs_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [{"uri": "a:b", "name": "b", "annotations": []}, {"uri": "a:c"}, "a:d"]
    script = {
        "initialize": greeting(tools={}, resources={}),
        LIST: {"tools": []},
        "resources/list": {"resources": entries},
        "resources/templates/list": {"resourceTemplates": {}},
    }
    async with odd_table(monkeypatch, script) as table:
        outcome = await table.call("list_resources")
        assert [x["uri"] for x in outcome.data["structured"]["resources"]] == ["a:b"]
        assert "resources.1.name: is missing" in reads(outcome)


# --------------------------------------------- resources that are announced

RESOURCES = {"initialize": greeting(tools={}, resources={"listChanged": True})}
BOTH = ["list_resources", "read_resource"]
NONE: dict[str, Any] = {
    "resources/list": {"resources": []},
    "resources/templates/list": {"resourceTemplates": []},
}
TEMPLATE = {"uriTemplate": "book://{number}", "name": "book"}


@pytest.mark.parametrize(
    ("answers", "added"),
    [
        (NONE, []),
        ({"resources/list": {"resources": {}}}, []),
        ({}, []),
        ({"resources/list": {"resources": [{"uri": "a:b", "name": "b"}]}}, BOTH),
        (NONE | {"resources/templates/list": {"resourceTemplates": [TEMPLATE]}}, BOTH),
        ({"resources/list": {"resources": [], "nextCursor": "more"}}, BOTH),
        ({"resources/list": Wrong("not now", -32603)}, BOTH),
    ],
)
async def test_resources_that_are_announced_add_tools_only_where_there_are_some(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any], added: list[str]
) -> None:  # N24
    tools = [tool(f"t{number:02}") for number in range(14)]
    script = {**RESOURCES, LIST: {"tools": tools}, **answers}
    async with odd_table(monkeypatch, script) as table:
        assert table.tools == sorted([*added, *(x["name"] for x in tools)])
        assert table.warnings == []


@pytest.mark.parametrize("version", ["2023-01-01", "2030-01-01", "1.0", "x" * 999])
async def test_a_version_that_is_not_known_is_named(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    script = {"initialize": greeting() | {"protocolVersion": version}}
    async with odd_table(monkeypatch, script) as table:
        first, *_ = table.warnings
        assert first == (
            f"it speaks version {version[:40]} of MCP, and not one from 2024-11-05 to"
            " 2025-11-25; update the server, or report it to its author"
        )


async def test_a_link_without_a_name_is_called_by_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    link = {"type": "resource_link", "uri": "a://b"}
    script = {LIST: {"tools": [tool()]}, CALL: {"content": [link]}}
    async with odd_table(monkeypatch, script) as table:
        assert (await table.call()).message == "[link: a://b, a://b]"


async def test_a_server_that_does_not_say_what_it_has_to_read_costs_two_seconds(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    async def never(params: Any, server: OddServer) -> None:
        await trio.sleep_forever()

    hello = greeting(tools={}, resources={}, prompts={})
    script: dict[str, Any] = {LIST: {"tools": [tool()]}, "initialize": hello}
    script |= {"resources/list": never, "prompts/list": never}
    async with odd_table(monkeypatch, script) as table:
        assert table.tools == sorted(["ask", *BOTH])
        assert 2.0 <= trio.current_time() < 3.0


async def test_what_there_is_to_read_may_come_later(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    script = {**RESOURCES, LIST: {"tools": [tool()]}, **NONE}
    async with odd_table(monkeypatch, script) as table:
        assert table.tools == ["ask"]
        entries = [{"uri": "a:b", "name": "b"}]
        table.server.script["resources/list"] = {"resources": entries}
        await table.server.send(method="notifications/resources/list_changed")
        await trio.sleep(1)
        assert table.tools == sorted(["ask", *BOTH])


# --------------------------------------------------------- byte order marks


@pytest.mark.parametrize("much", [False, pytest.param(True, marks=pytest.mark.border)])
async def test_a_byte_order_mark_before_a_line_is_ignored(
    monkeypatch: pytest.MonkeyPatch, much: bool
) -> None:
    huge = text("x" * 300_000)

    async def say(params: Any, server: OddServer) -> Any:
        return huge if params["arguments"].get("much") else text("said")

    script = {LIST: {"tools": [tool()]}, CALL: say}
    async with odd_table(monkeypatch, script, prefix=b"\xef\xbb\xbf") as table:
        assert (await table.call()).message == "said"
        assert (await table.call(much=much)).truncated == much
