"""Clients that do anything, made up by Hypothesis: lines that are almost right, and
requests that come, end and are taken back in any order.

In this process, on virtual time, through the whole loop.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
from hypothesis import example, given
from hypothesis import strategies as st
from mcp_types import JSONRPCError, JSONRPCResponse, jsonrpc_message_adapter

import trio
import trio.testing

from glyphoxa_trio import tool
from glyphoxa_trio.servers.definition import ServerDefinition
from glyphoxa_trio.servers.jsonrpc import RpcCall, read
from glyphoxa_trio.servers.peer import GRACE

from .support import ENVELOPE, STATELESS, LineClient, Notes, served


@tool(group="t", read_only=True)
async def wait(seconds: float) -> str:
    """Take so long."""
    await trio.sleep(seconds)
    return "done"


@tool(group="t", read_only=True)
async def echo(word: str, times: int = 1) -> dict[str, Any]:
    """Say it again."""
    return {"said": [word] * min(times, 5)}


def offer() -> ServerDefinition:
    notes = Notes({"a": "A", "b": "B", "c": "C"})
    return ServerDefinition(name="t", tools=(wait, echo), resources=notes)


def on_virtual_time(main: Callable[[], Awaitable[None]]) -> None:
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


INTRODUCTION = {
    "protocolVersion": "2025-11-25",
    "clientInfo": {"name": "x", "version": "1"},
    "capabilities": {"roots": {}},
}
VALID: list[dict[str, Any]] = [
    {"id": 1, "method": "initialize", "params": INTRODUCTION},
    {"method": "notifications/initialized"},
    {"id": 2, "method": "ping"},
    {"id": 3, "method": "tools/list", "params": {"cursor": None}},
    {
        "id": "4",
        "method": "tools/call",
        "params": {"name": "echo", "arguments": {"word": "hm", "times": 2}},
    },
    {"id": 5, "method": "resources/list", "params": {}},
    {"id": 6, "method": "resources/read", "params": {"uri": "note://a"}},
    {"id": 7, "method": "resources/subscribe", "params": {"uri": "note://a"}},
    {"id": 8, "method": "resources/templates/list"},
    {"method": "notifications/cancelled", "params": {"requestId": 3, "reason": ""}},
    {"id": 9, "result": {"roots": []}},
    {"id": 10, "method": "server/discover", "params": {"_meta": ENVELOPE}},
    {
        "id": 11,
        "method": "subscriptions/listen",
        "params": {"_meta": ENVELOPE, "notifications": {"resourcesListChanged": True}},
    },
    {
        "id": 12,
        "method": "tools/call",
        "params": {"_meta": ENVELOPE, "name": "echo", "arguments": {"word": ""}},
    },
]
ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    10**30,
    1e300,
    float("nan"),
    float("inf"),
    "",
    "\x00",
    "\ud800",
    "\U0001f409" * 50,
    [],
    {},
    [[[[]]]],
    {"": {}},
    "x" * 5000,
]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A valid message with one thing wrong with it, or none, or many bytes."""
    message = {"jsonrpc": "2.0", **draw(st.sampled_from(VALID))}
    message = json.loads(json.dumps(message))
    match draw(st.sampled_from(["as is", "value", "key", "more", "bytes", "nested"])):
        case "value":
            holder, key = draw(st.sampled_from(_places(message)))
            holder[key] = draw(st.sampled_from(ODD))
        case "key":
            holder, key = draw(st.sampled_from(_places(message)))
            del holder[key]
        case "more":
            message[draw(st.text(max_size=3))] = draw(st.sampled_from(ODD))
        case "bytes":
            line = bytearray(json.dumps(message).encode())
            for _ in range(draw(st.integers(1, 3))):
                at = draw(st.integers(0, len(line)))
                cut = draw(st.integers(0, 4))
                line[at : at + cut] = draw(st.binary(max_size=3))
            return bytes(line).replace(b"\n", b" ")
        case "nested":
            depth = draw(st.sampled_from([100, 200_000]))
            start = json.dumps(message).encode()[:-1]
            return start + b',"deep":' + b"[" * depth + b"]" * depth + b"}"
    return json.dumps(message).encode()


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a message, as what holds it and its key."""
    found: list[tuple[Any, Any]] = []
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in entries:
        found.append((value, key))
        if isinstance(inner, dict | list):
            found += _places(inner)
    return found


@given(st.lists(mutated(), max_size=8), st.sampled_from(["old", "new", "none"]))
@example([b"[" * 200_000, b'{"id":1', b"\xff"], "old")
def test_almost_right_is_answered_and_nothing_breaks(
    lines: list[bytes], session: str
) -> None:
    async def main() -> None:
        async with served(offer()) as client:
            if session == "old":
                await client.shake_hands()
            elif session == "new":
                await client.ask("tools/list", 0, _meta=ENVELOPE)
            for line in lines:
                await client.write(line)
            await client.hang_up()
            answers = await _rest(client)
        owed: dict[int | str, int] = {}
        for line in lines:
            said = read(line)
            if isinstance(said, RpcCall):
                owed[said.id] = owed.get(said.id, 0) + 1
        for answer in answers:
            # As the SDK judges it, which a client is likely to use.
            text = json.dumps(answer)
            message = jsonrpc_message_adapter.validate_json(text, by_name=False)
            if (
                isinstance(message, JSONRPCResponse | JSONRPCError)
                and message.id in owed
            ):
                owed[message.id] -= 1
        taken_back = any(b"notifications/cancelled" in line for line in lines)
        assert taken_back or not any(count > 0 for count in owed.values())

    on_virtual_time(main)


async def _rest(client: LineClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    try:
        while True:
            found.append(await client.read())
    except trio.EndOfChannel:
        return found


@attrs.frozen
class Start:
    ident: int
    whole: int  # seconds; it ends a quarter later, when nothing else happens


@attrs.frozen
class TakeBack:
    ident: int


@attrs.frozen
class Pass:
    seconds: int


STEPS = st.lists(
    st.builds(Start, st.integers(1, 4), st.integers(0, 3))
    | st.builds(TakeBack, st.integers(1, 4))
    | st.builds(Pass, st.integers(1, 2)),
    max_size=30,
)


def model(steps: list[Start | TakeBack | Pass]) -> list[tuple[float, int, str]]:
    """When which id is answered, and how, by the plainest bookkeeping."""
    now = 0.0
    ends: dict[int, float] = {}
    said: list[tuple[float, int, str]] = []

    def until(time: float) -> None:
        for ident, end in list(ends.items()):
            if end <= time:
                said.append((end, ident, "result"))
                del ends[ident]

    for step in steps:
        match step:
            case Start(ident, _) if ident in ends:
                said.append((now, ident, "in use"))
            case Start(ident, whole):
                ends[ident] = now + whole + 0.25
            case TakeBack(ident):
                ends.pop(ident, None)
            case Pass(seconds):
                now += seconds
                until(now)
    until(now + GRACE)
    left = [(now + GRACE, ident, "ending") for ident in ends]
    return sorted(said + left)


@given(STEPS)
def test_requests_come_end_and_are_taken_back_in_any_order(
    steps: list[Start | TakeBack | Pass],
) -> None:
    async def main() -> None:
        said: list[tuple[float, int, str]] = []

        async def listen(client: LineClient) -> None:
            while True:
                try:
                    message = await client.read()
                except trio.EndOfChannel:
                    return
                how = {-32600: "in use", -32000: "ending"}
                code = message.get("error", {}).get("code")
                when = trio.current_time() - begun
                said.append((when, message["id"], how.get(code, "result")))

        async with served(offer()) as client:
            await client.shake_hands()
            begun = trio.current_time()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(listen, client)
                for step in steps:
                    match step:
                        case Start(ident, whole):
                            arguments = {"seconds": whole + 0.25}
                            await client.send(
                                "tools/call", ident, name="wait", arguments=arguments
                            )
                        case TakeBack(ident):
                            await client.send(
                                "notifications/cancelled", requestId=ident
                            )
                        case Pass(seconds):
                            await trio.sleep(seconds)
                    # What is written is read before the next step.
                    await trio.testing.wait_all_tasks_blocked()
                await client.hang_up()
        assert sorted(said) == model(steps)

    on_virtual_time(main)


def test_the_versions_are_those_of_the_sdk() -> None:
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

    from glyphoxa_trio.servers import protocol_versions

    assert sorted(protocol_versions.HANDSHAKE) == sorted(HANDSHAKE_PROTOCOL_VERSIONS)
    assert protocol_versions.STATELESS == MODERN_PROTOCOL_VERSIONS == (STATELESS,)
