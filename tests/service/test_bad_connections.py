"""Connections that misbehave: any bytes, any messages, slow, half-open, and too large.

Whatever a client does, others are served, and nothing is left behind.
"""

from __future__ import annotations

import gc
import json
import os
import random
import zlib
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trio

from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.service.limits import ServiceLimits
from glyphoxa_trio.service.options import service_options

from ..npc.support import HANG
from .support import CONFIG, Served, raw_client, serving, until
from .test_rights import MESSAGES

UPGRADE = (
    "GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
    "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


async def connected(served: Served) -> trio.SocketStream:
    port = int(served.url.rpartition(":")[2])
    return await trio.open_tcp_stream("127.0.0.1", port)


async def upgraded(served: Served, more: str = "") -> trio.SocketStream:
    stream = await connected(served)
    await stream.send_all(f"{UPGRADE}{more}\r\n".encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += await stream.receive_some(4096)
    assert answer.startswith(b"HTTP/1.1 101")
    assert b"extensions" not in answer.lower()
    return stream


def frame(payload: bytes, *, opcode: int = 1, reserved: int = 0) -> bytes:
    """A masked frame of a client."""
    size = len(payload)
    head = bytes([0x80 | reserved << 4 | opcode])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 65536:
        head += bytes([0x80 | 126]) + size.to_bytes(2, "big")
    else:
        head += bytes([0x80 | 127]) + size.to_bytes(8, "big")
    return head + b"\0\0\0\0" + payload


SLOW = {"type": "say", "id": "a", "npc": "Bo", "text": "slow"}
HELLO = frame(b'{"type": "hello", "protocol": 1}')


async def drained(stream: trio.SocketStream) -> bytes:
    """Everything until the service closes the connection."""
    read = b""
    with trio.fail_after(60):
        try:
            while piece := await stream.receive_some(65536):
                read += piece
        except trio.BrokenResourceError:
            pass
    return read


async def is_served(served: Served, *, crowded: bool = False) -> bool:
    """Say something, and get the answer; in a crowd it may be that there is no time,
    which the NPC says. Returns True if it was the answer."""
    async with raw_client(served) as client:
        await client.send(type="say", id="a", npc="Bo", text="Hail", session="good")
        done = await client.until_event("TurnDone")
        answers = {"You said Hail. So it is."}
        if crowded:
            answers |= set(served.runtime.config.turn.fallback)
        assert done["text"] in answers
        await client.send(type="ack", id="a", n=done["n"])
        return bool(done["text"] == "You said Hail. So it is.")


@pytest.mark.border
@given(data=st.binary(max_size=400), after=st.sampled_from(["", "upgrade", "hello"]))
@settings(max_examples=60)
def test_any_bytes_end_their_connection_only(data: bytes, after: str) -> None:
    async def play() -> None:
        limits = ServiceLimits(goodbye=0.2)
        async with serving(limits=limits) as served:
            stream = await (upgraded(served) if after else connected(served))
            async with stream:
                if after == "hello":
                    await stream.send_all(HELLO)
                try:
                    await stream.send_all(data)
                    await stream.send_eof()
                except trio.BrokenResourceError:
                    pass
                answer = await drained(stream)
                assert b"Traceback" not in answer
            await is_served(served)
            await until(lambda: not served.service.connections)

    trio.run(play)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=10), inner, max_size=3)
    ),
    max_leaves=8,
)
# Each of some six messages: `make fuzz` has 2,000 of them.
LISTS = int(os.environ.get("FUZZ_LISTS", "60"))
FIELDS = sorted({name for _, fields in MESSAGES.values() for name in fields} | {"to"})


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    """A message of the protocol, with some fields that are wrong."""
    kind = draw(st.sampled_from(sorted(MESSAGES)))
    id_ = draw(st.sampled_from(["a", "b", "c"]))
    message: dict[str, Any] = {"type": kind, "id": id_}
    message |= MESSAGES[kind][1]
    for name in draw(st.lists(st.sampled_from(FIELDS), max_size=2)):
        message[name] = draw(JSON)
    return message


@pytest.mark.border
@given(sent=st.lists(messages(), max_size=12), operates=st.booleans())
@settings(max_examples=LISTS)
def test_any_messages_are_answered_and_nothing_is_left(
    sent: list[dict[str, Any]], operates: bool
) -> None:
    async def play() -> None:
        async with serving(limits=ServiceLimits(ack_within=0.05)) as served:
            token = served.service.token
            assert token is not None
            shown = token.reveal() if operates else None
            async with raw_client(served, token=shown) as client:
                for message in sent:
                    await client.socket.send_message(json.dumps(message))
                await client.send(type="ping", id="last")
                await client.until("pong", id="last")
            await is_served(served)
            await until(lambda: not served.service.connections)

    trio.run(play)


async def test_a_compressed_bomb_is_refused_unread(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as served:
        offer = "Sec-WebSocket-Extensions: permessage-deflate\r\n"
        async with await upgraded(served, offer) as stream:
            await stream.send_all(HELLO)
            squeeze = zlib.compressobj(wbits=-15)
            bomb = squeeze.compress(bytes(50_000_000)) + squeeze.flush()
            await stream.send_all(frame(bomb, reserved=4))
            assert len(await drained(stream)) < 1000
        await is_served(served)
    assert not caplog.records


async def test_a_frame_that_says_it_is_huge_is_not_waited_for() -> None:
    async with serving() as served:
        async with await upgraded(served) as stream:
            await stream.send_all(HELLO)
            head = bytes([0x82, 0xFF]) + (2**40).to_bytes(8, "big") + b"\0\0\0\0"
            await stream.send_all(head)
            with pytest.raises(trio.BrokenResourceError):
                for _ in range(10_000):
                    await stream.send_all(bytes(65536))
        await is_served(served)


async def test_half_a_head_holds_nobody_up() -> None:
    async with serving() as served:
        streams = [await connected(served) for _ in range(50)]
        for stream in streams:
            await stream.send_all(b"GET /ws HTTP/1.1\r\nHos")
        await is_served(served)
        for stream in streams:
            await trio.aclose_forcefully(stream)


async def test_a_client_that_does_not_read_is_closed() -> None:
    many = tuple(NpcConfig(name=f"{n:0150}") for n in range(100))
    options = service_options(http="127.0.0.1:0")
    limits = attrs.evolve(options.http.limits, write_within=0.5)
    http = attrs.evolve(options.http, limits=limits)
    options = attrs.evolve(options, http=http)
    config = attrs.evolve(CONFIG, npcs=(*CONFIG.npcs, *many))
    async with serving(config=config, options=options) as served:
        stream = await upgraded(served)
        await stream.send_all(HELLO)
        await until(lambda: bool(served.service.connections))
        with pytest.raises(trio.BrokenResourceError):
            while True:
                await stream.send_all(frame(b'{"type": "join"}'))
        await until(lambda: not served.service.connections)
        await trio.aclose_forcefully(stream)
        await is_served(served)


@pytest.mark.long
async def test_five_hundred_bad_connections_leave_nothing_behind() -> None:
    def slow(request: LLMRequest) -> list[Any]:
        last = request.messages[-1].content
        return (
            ["One.\n", HANG] if last == "slow" else [f"You said {last}.", " So it is."]
        )

    chance = random.Random(7)
    limits = ServiceLimits(hello_within=3.0, heartbeat=4.0, ack_within=0.3)

    async def misbehave(served: Served, number: int) -> None:
        kind = number % 6
        stream = await (connected(served) if kind == 0 else upgraded(served))
        async with stream:
            try:
                match kind:
                    case 0:  # half a head
                        await stream.send_all(b"GET /ws HT")
                    case 1:  # no hello
                        pass
                    case 2:  # a turn, and gone
                        said = {**SLOW, "session": f"{number}"}
                        await stream.send_all(HELLO + frame(json.dumps(said).encode()))
                    case 3:  # no pong, and no word
                        await stream.send_all(HELLO)
                        await trio.sleep(1)
                    case 4:  # garbage
                        await stream.send_all(HELLO + chance.randbytes(300))
                    case 5:  # a huge frame
                        await stream.send_all(HELLO + frame(bytes(300_000), opcode=2))
                await trio.sleep(chance.random())
            except trio.BrokenResourceError:
                pass
            await trio.aclose_forcefully(stream)

    async with serving(slow, limits=limits) as served:
        await is_served(served)
        gc.collect()
        files = len(os.listdir("/proc/self/fd"))
        tasks = trio.lowlevel.current_statistics().tasks_living
        async with trio.open_nursery() as nursery:
            for number in range(500):
                nursery.start_soon(misbehave, served, number)
                await trio.sleep(0.002)
            # Others are served meanwhile.
            assert any([await is_served(served, crowded=True) for _ in range(20)])
        await is_served(served)
        await until(lambda: not served.service.connections)
        for key in served.runtime.sessions:
            await served.runtime.session(key.id).end()
        await until(
            lambda: trio.lowlevel.current_statistics().tasks_living <= tasks + 2
        )
        gc.collect()
        # A thread may still close one.
        await until(lambda: len(os.listdir("/proc/self/fd")) <= files + 2)
