"""One client and its requests: order, bounds, cancellation, what is owed at the end.

In memory and on virtual time; whatever waits ends at an exact time.
"""

from __future__ import annotations

from typing import Any

import pytest

import trio
import trio.testing

from glyphoxa_trio import tool
from glyphoxa_trio.servers.offer import Offer
from glyphoxa_trio.servers.peer import GRACE

from .support import LineClient, served


@tool(group="t", read_only=True)
async def wait(seconds: float) -> str:
    """Take so long."""
    await trio.sleep(seconds)
    return f"{seconds:g}"


@tool(group="t", max_duration_ms=1000)
async def resist() -> str:
    """Does not let itself be cancelled for a minute."""
    with trio.CancelScope(shield=True):
        await trio.sleep(60)
    return "late"


OFFER = Offer(name="t", title="T", instructions="Wait.", tools=(wait, resist))


async def call(client: LineClient, ident: Any, name: str, **arguments: Any) -> None:
    await client.send("tools/call", ident, name=name, arguments=arguments)


async def test_who_introduces_itself_is_told_who_answers() -> None:  # F1
    async with served(OFFER) as client:
        assert await client.shake_hands() == {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "t", "title": "T", "version": "1.0"},
            "instructions": "Wait.",
        }


async def test_the_oldest_clients_way_is_understood() -> None:  # F12
    async with served(OFFER) as client:
        said = {"protocolVersion": "2024-11-05", "clientInfo": {"name": "a"}}
        answer = await client.ask("initialize", 1, **said)
        assert answer["result"]["protocolVersion"] == "2024-11-05"
        await client.send("initialized")
        assert len((await client.ask("tools/list", 2))["result"]["tools"]) == 2


async def test_what_follows_the_handshake_need_not_wait_for_its_answer() -> None:
    async with served(OFFER) as client:
        await client.send("initialize", 1, protocolVersion="2025-06-18")
        await client.send("tools/list", 2)
        assert [(await client.read())["id"], (await client.read())["id"]] == [1, 2]


async def test_requests_run_side_by_side(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with served(OFFER) as client:
        await client.shake_hands()
        await call(client, "slow", "wait", seconds=2)
        await call(client, "quick", "wait", seconds=1)
        assert (await client.read())["id"] == "quick"
        assert (await client.read())["id"] == "slow"
        assert trio.current_time() == 2


@pytest.mark.parametrize("meant", [7, "7"])
async def test_what_is_taken_back_is_not_answered(
    autojump_clock: trio.testing.MockClock, meant: object
) -> None:
    async with served(OFFER) as client:
        await client.shake_hands()
        await call(client, 7, "wait", seconds=2)
        await client.send("notifications/cancelled", requestId=meant)
        await call(client, 8, "wait", seconds=3)
        assert (await client.read())["id"] == 8
        assert trio.current_time() == 3


async def test_a_handler_that_resists_does_not_hold_its_answer_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with served(OFFER) as client:
        await client.shake_hands()
        await call(client, 1, "resist")
        answer = await client.read()
        assert trio.current_time() == 1
        said = answer["result"]["structuredContent"]["error"]
        assert said["code"] == "DeadlineExceeded"


async def test_an_id_is_used_once_at_a_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with served(OFFER) as client:
        await client.shake_hands()
        await call(client, 1, "wait", seconds=1)
        await call(client, 1, "wait", seconds=1)
        assert (await client.read())["error"]["code"] == -32600
        assert "result" in await client.read()
        await call(client, 1, "wait", seconds=1)
        assert "result" in await client.read()
        assert trio.current_time() == 2


async def test_who_hangs_up_still_gets_what_is_done_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with served(OFFER) as client:
        await client.shake_hands()
        await call(client, 1, "wait", seconds=GRACE / 2)
        await call(client, 2, "wait", seconds=60)
        await client.hang_up()
        assert (await client.read())["id"] == 1
        last = await client.read()
        assert (last["id"], last["error"]["code"]) == (2, -32000)
        assert trio.current_time() == GRACE
        with pytest.raises(trio.EndOfChannel):
            await client.read()
