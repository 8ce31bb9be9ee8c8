"""The same requests to our loop and to the SDK's own server, with the same tools.

What differs on purpose is listed, and nothing else differs. Both run in this process;
behind the SDK's protocol are the handlers that are behind ours.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio
import mcp_types as types
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from pydantic import BaseModel

import trio
import trio.testing

from glyphoxa_trio import tool
from glyphoxa_trio.servers.definition import ServerDefinition
from glyphoxa_trio.servers.dispatch import Client, ClientRequest, Dispatch, RpcError
from glyphoxa_trio.tools.definition import ToolError

from .support import ENVELOPE, Notes, served

SENTINEL: Final = "sentinel"
Answers = list[dict[str, Any]]


class Refusal(ToolError):
    code = "FailedPrecondition"


@tool(
    group="t",
    title="Echo",
    estimated_duration_ms=40,
    max_duration_ms=200,
    read_only=True,
)
async def echo(word: str, times: int = 1) -> dict[str, Any]:
    """Say it again."""
    return {"said": [word] * min(times, 5)}


@tool(group="t")
async def refuse() -> str:
    """No."""
    raise Refusal("not now")


def offer() -> ServerDefinition:
    return ServerDefinition(
        name="t",
        title="T",
        instructions="Be brief.",
        tools=(echo, refuse),
        resources=Notes({"a": "A", "b": "B", "c": "C"}),
    )


async def ours(lines: list[bytes]) -> list[Answers]:
    """The messages that come for each line."""
    async with served(offer()) as client:
        found: list[Answers] = []
        for line in lines:
            await client.write(line)
            await trio.testing.wait_all_tasks_blocked()
            await client.write(_sentinel(lines))
            answers: Answers = []
            while (message := await client.read()).get("id") != SENTINEL:
                answers.append(message)
            found.append(answers)
        return found


async def theirs(lines: list[bytes]) -> list[Answers]:
    """As `ours`, from the SDK's server."""
    to_server, read_stream = anyio.create_memory_object_stream[
        SessionMessage | Exception
    ](10)
    write_stream, from_server = anyio.create_memory_object_stream[SessionMessage](10)
    server = _sdk_server(Dispatch(offer()))
    options = server.create_initialization_options(
        NotificationOptions(resources_changed=True)
    )
    found: list[Answers] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.run, read_stream, write_stream, options)
        for line in lines:
            await to_server.send(_parsed(line))
            await trio.testing.wait_all_tasks_blocked()
            await to_server.send(_parsed(_sentinel(lines)))
            answers: Answers = []
            async for sent in from_server:
                text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                message = json.loads(text)
                if message.get("id") == SENTINEL:
                    break
                answers.append(message)
            found.append(answers)
        to_server.close()
    from_server.close()
    return found


def _parsed(line: bytes) -> SessionMessage | Exception:
    """As the SDK's own ``stdio_server`` does."""
    try:
        return SessionMessage(
            types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        )
    except Exception as error:
        return error


def _sentinel(lines: list[bytes]) -> bytes:
    """A request that every connection answers, in whichever way it speaks."""
    modern = any(b"io.modelcontextprotocol/protocolVersion" in line for line in lines)
    params = (
        {"_meta": ENVELOPE} if modern and lines[0].find(b'"initialize"') < 0 else {}
    )
    method = "no/such/method" if params else "ping"
    call = {"jsonrpc": "2.0", "id": SENTINEL, "method": method, "params": params}
    return json.dumps(call).encode()


def _sdk_server(dispatch: Dispatch) -> Server[Any]:
    listen = ListenHandler(InMemorySubscriptionBus())
    server: Server[Any] = Server(
        "t",
        version="1.0",
        title="T",
        instructions="Be brief.",
        on_subscriptions_listen=listen,
    )

    def handler(
        method: str, answered: type[BaseModel]
    ) -> Callable[[Any, Any], Awaitable[BaseModel]]:
        async def handle(ctx: Any, params: Any) -> BaseModel:
            request = ClientRequest(
                method=method,
                params=ctx.params or {},
                client=Client(session="x"),
                channel=None,  # type: ignore[arg-type]  # nothing here tells anything
            )
            try:
                return answered.model_validate(await dispatch.answer(request))
            except RpcError as error:
                retired = error.code == -32002 and ctx.protocol_version > "2026"
                code = -32602 if retired else error.code
                raise MCPError(code, str(error), error.data) from None

        return handle

    for method, kind, answered in (
        ("tools/list", types.PaginatedRequestParams, types.ListToolsResult),
        ("tools/call", types.CallToolRequestParams, types.CallToolResult),
        ("resources/list", types.PaginatedRequestParams, types.ListResourcesResult),
        (
            "resources/templates/list",
            types.PaginatedRequestParams,
            types.ListResourceTemplatesResult,
        ),
        ("resources/read", types.ReadResourceRequestParams, types.ReadResourceResult),
        ("resources/subscribe", types.SubscribeRequestParams, types.EmptyResult),
        ("resources/unsubscribe", types.UnsubscribeRequestParams, types.EmptyResult),
    ):
        server.add_request_handler(method, kind, handler(method, answered))
    return server


def _line(method: str, ident: Any = 1, /, **params: Any) -> bytes:
    call = {"jsonrpc": "2.0", "id": ident, "method": method, "params": params}
    return json.dumps(call).encode()


def _initialize(version: Any = "2025-11-25", **more: Any) -> bytes:
    about = {"clientInfo": {"name": "x", "version": "1"}, "capabilities": {}}
    return _line("initialize", 0, protocolVersion=version, **{**about, **more})


INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
OLD = [_initialize(), INITIALIZED]


def _modern(method: str, ident: Any = 1, /, **params: Any) -> bytes:
    return _line(method, ident, _meta=ENVELOPE, **params)


def _plain(answers: Answers) -> Answers:
    """Answers without what may differ on purpose: the words of an error and what comes
    with it, and how long an answer stays good (nothing says so in the SDK)."""
    found: Answers = []
    for answer in answers:
        answer = json.loads(json.dumps(answer))
        if "error" in answer:
            answer["error"] = answer["error"]["code"]
        result = answer.get("result", {})
        for field in ("ttlMs", "cacheScope"):
            result.pop(field, None)
        # Absent is False; and without a handshake the SDK promises it of all lists.
        result.get("capabilities", {}).get("tools", {}).pop("listChanged", None)
        if result.get("isError") is False:
            del result["isError"]
        found.append(answer)
    return found


CASES: dict[str, list[bytes]] = {
    "handshake": OLD,
    "older handshake": [_initialize("2024-11-05"), INITIALIZED],
    "unknown version": [_initialize("1999-01-01"), INITIALIZED],
    "version is no text": [_initialize(3)],
    "version of the other way": [_initialize("2026-07-28")],
    "capabilities are no object": [_initialize(capabilities=[])],
    "client is no object": [_initialize(clientInfo="me")],
    "twice": [*OLD, _initialize("2025-06-18")],
    "not introduced": [_line("tools/list")],
    "not introduced, unknown": [_line("tools/dance")],
    "not introduced, ping": [_line("ping"), _initialize()],
    "ping": [*OLD, _line("ping", "x")],
    "unknown": [*OLD, _line("tools/dance")],
    "of the other way": [*OLD, _line("server/discover"), _modern("tools/list", 2)],
    "list": [*OLD, _line("tools/list")],
    "list, odd cursor": [*OLD, _line("tools/list", cursor=3)],
    "call": [*OLD, _line("tools/call", name="echo", arguments={"word": "hm"})],
    "call, wrong": [*OLD, _line("tools/call", name="echo", arguments={"word": 3})],
    "call, nothing": [*OLD, _line("tools/call", name="echo")],
    "call, null": [*OLD, _line("tools/call", name="echo", arguments=None)],
    "call, list": [*OLD, _line("tools/call", name="echo", arguments=[1])],
    "call, no name": [*OLD, _line("tools/call", arguments={})],
    "call, name is no text": [*OLD, _line("tools/call", name=7)],
    "call, unknown": [*OLD, _line("tools/call", name="dance")],
    "call, refused": [*OLD, _line("tools/call", name="refuse")],
    "call, odd meta": [*OLD, _line("tools/call", name="echo", _meta=7)],
    "resources": [
        *OLD,
        _line("resources/list"),
        _line("resources/list", cursor="b"),
        _line("resources/list", cursor="zz"),
        _line("resources/templates/list"),
        _line("resources/read", uri="note://a"),
        _line("resources/read", uri="note://x"),
        _line("resources/read"),
        _line("resources/subscribe", uri="note://a"),
        _line("resources/subscribe", uri=None),
        _line("resources/unsubscribe", uri="note://a"),
    ],
    "notifications": [
        *OLD,
        b'{"jsonrpc":"2.0","method":"notifications/dance","params":{"a":1}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled"}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}',
        b'{"jsonrpc":"2.0","id":77,"result":{}}',
        b'{"jsonrpc":"2.0","id":77,"error":{"code":1,"message":"?"}}',
    ],
    "modern": [
        _modern("server/discover"),
        _modern("tools/list"),
        _modern("tools/call", name="echo", arguments={"word": "hm"}),
        _modern("tools/call", name="refuse"),
        _modern("tools/call", name="dance"),
        _modern("resources/list"),
        _modern("resources/templates/list"),
        _modern("resources/read", uri="note://a"),
    ],
    "modern, what is gone": [
        _modern("server/discover"),
        _modern("ping"),
        _modern("resources/subscribe", uri="note://a"),
        _modern("logging/setLevel", level="info"),
        _modern("tools/dance"),
        _initialize(),
    ],
    "modern, odd": [
        _modern("tools/list"),
        _line("tools/list"),
        _line("tools/list", _meta={}),
        _line("tools/list", _meta=ENVELOPE | dict.fromkeys(ENVELOPE, 7)),
        _line("tools/list", _meta={next(iter(ENVELOPE)): "2026-07-28"}),
        _line("tools/list", _meta=ENVELOPE | {next(iter(ENVELOPE)): "2031-01-01"}),
        _modern("subscriptions/listen"),
        _modern("subscriptions/listen", notifications=[]),
    ],
}


@pytest.mark.parametrize("name", CASES)
async def test_we_answer_as_the_sdk_does(name: str) -> None:
    lines = CASES[name]
    with trio.fail_after(20):
        for line, mine, other in zip(
            lines, await ours(lines), await theirs(lines), strict=True
        ):
            assert _plain(mine) == _plain(other), line


# Line, what we answer, what the SDK answers: nothing, where a client would wait.
ON_PURPOSE: dict[str, tuple[bytes, Any, Any]] = {
    "no capabilities (seed 002)": (
        _line("initialize", 0, protocolVersion="2025-11-25", clientInfo={"name": "x"}),
        "result",
        -32602,
    ),
    "no JSON": (b"hello", -32700, None),
    "no object": (b"7", -32600, None),
    "a batch": (b"[]", -32600, None),
    "an id that is null": (b'{"jsonrpc":"2.0","id":null,"method":"x"}', -32600, None),
    "an id that is true": (b'{"jsonrpc":"2.0","id":true,"method":"x"}', -32600, None),
    "an id that is 1.5": (b'{"jsonrpc":"2.0","id":1.5,"method":"x"}', -32600, None),
    "params in a list": (
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":[]}',
        -32602,
        None,
    ),
    "another jsonrpc": (b'{"jsonrpc":"1.0","id":1,"method":"x"}', -32600, None),
    "half a character": (
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"\\ud800"}}',
        -32700,
        None,
    ),
}


@pytest.mark.parametrize("name", ON_PURPOSE)
async def test_where_we_answer_otherwise_it_is_on_purpose(name: str) -> None:
    line, we_say, sdk_says = ON_PURPOSE[name]

    def said(answers: Answers) -> Any:
        (plain,) = _plain(answers) or [{"error": None}]
        return plain.get("error", "result")

    with trio.fail_after(20):
        assert said((await ours([line]))[0]) == we_say
        assert said((await theirs([line]))[0]) == sdk_says


ODD = st.sampled_from([None, True, 0, -1, 1.5, "", "x", [], {}, ["a"], {"a": 1}])
PARAMS = st.dictionaries(
    st.sampled_from(["name", "arguments", "uri", "_meta", "extra"]), ODD
)
METHODS = st.sampled_from(
    ["ping", "tools/call", "resources/read", "resources/subscribe", "x"]
)


@example("x", {"_meta": True}, 0, False)
@given(METHODS, PARAMS, st.integers(0, 9) | st.text("ab"), st.booleans())
@settings(max_examples=30)
def test_wrong_types_are_refused_alike(
    method: str, params: dict[str, Any], ident: int | str, modern: bool
) -> None:
    if modern:
        lines = [_modern("tools/list"), _modern(method, ident, **_without_meta(params))]
    else:
        lines = [*OLD, _line(method, ident, **params)]

    async def main() -> None:
        mine, other = await ours(lines), await theirs(lines)
        assert [_plain(it) for it in mine] == [_plain(it) for it in other]

    trio.run(main)


def _without_meta(params: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in params.items() if key != "_meta"}
