"""What a server sends in many small parts holds nobody up.

Counted, not timed: how often others have a turn while so many bytes are read.
"""

from __future__ import annotations

import pytest

import trio

from glyphoxa_trio.providers.chat_completions import ChatCompletions
from glyphoxa_trio.providers.llm import LLMRequest, Message, TextChunk
from glyphoxa_trio.testing.loopback import open_loopback

ASK = LLMRequest(messages=(Message(role="user", content="hello"),))
SIZE = 256 * 1024
HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
HI = b'data: {"choices":[{"delta":{"content":"Hi."},"finish_reason":"stop"}]}\n\n'
WHOLE = b"%x\r\n%s\r\n0\r\n\r\n" % (len(HI), HI)
GO_ON = b"HTTP/1.1 100 \r\n\r\n"
PIECE = b"1\r\n:\r\n"


@pytest.mark.parametrize(
    "said",
    [
        GO_ON * (SIZE // len(GO_ON)) + HEAD + WHOLE,
        HEAD + PIECE * (SIZE // len(PIECE)) + b"1\r\n\n\r\n" + WHOLE,
    ],
    ids=["100 Continue", "pieces of one byte"],
)
async def test_others_have_their_turn_in_between(said: bytes) -> None:
    turns = 0

    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some(65536)
        await stream.send_all(said)

    async def count() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    with trio.fail_after(20):
        async with open_loopback(serve) as origin:
            model = ChatCompletions(model="m", base_url=f"{origin}/v1")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(count)
                async with model.stream(ASK) as events:
                    text = [x.text async for x in events if isinstance(x, TextChunk)]
                nursery.cancel_scope.cancel()
            await model.aclose()
    assert text == ["Hi."]
    assert turns > SIZE / 2048  # before, some dozens


async def test_a_server_that_only_says_go_on_has_no_more_time_than_any() -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some(65536)
        with pytest.raises(trio.BrokenResourceError):
            while True:
                await stream.send_all(GO_ON * 1000)

    with trio.fail_after(20):
        async with open_loopback(serve) as origin:
            model = ChatCompletions(model="m", base_url=f"{origin}/v1")
            with trio.move_on_after(0.3) as limit:  # as a turn has one
                async with model.stream(ASK):
                    pass
            assert limit.cancelled_caught
            await model.aclose()
