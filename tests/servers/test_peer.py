"""One client and its requests: order, bounds, cancellation, what is owed at the end.

In memory and on virtual time; whatever waits ends at an exact time.
"""

from __future__ import annotations

from typing import Any

import pytest

import trio
import trio.testing

from glyphoxa_trio import tool
from glyphoxa_trio.actors import SharedTasks
from glyphoxa_trio.servers.definition import ServerDefinition
from glyphoxa_trio.servers.dispatch import Dispatch
from glyphoxa_trio.servers.in_flight import MOST_REQUESTS, MOST_RUNNING
from glyphoxa_trio.servers.peer import GRACE, Peer

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


OFFER = ServerDefinition(
    name="t", title="T", instructions="Wait.", tools=(wait, resist)
)


@tool(group="t", read_only=True)
async def say(much: str) -> str:
    """A lot."""
    return "y" * 10**5


SAYS = ServerDefinition(name="t", tools=(say,))


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
        assert trio.current_time() == 1.5  # its limit, and half a second in line
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


async def test_a_second_introduction_agrees_anew() -> None:
    async with served(OFFER) as client:
        await client.shake_hands("2024-11-05")
        again = await client.shake_hands("2025-06-18")
        assert again["protocolVersion"] == "2025-06-18"


async def test_an_unknown_version_is_answered_by_the_newest() -> None:
    async with served(OFFER) as client:
        assert (await client.shake_hands("1999-01-01"))["protocolVersion"] == (
            "2025-11-25"
        )


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"protocolVersion": 3},
        {"protocolVersion": "2025-11-25", "capabilities": []},
        {"protocolVersion": "2025-11-25", "clientInfo": "me"},
    ],
)
async def test_an_introduction_must_make_sense(params: dict[str, Any]) -> None:
    async with served(OFFER) as client:
        answer = await client.ask("initialize", 1, **params)
        assert answer["error"]["code"] == -32602
        await client.shake_hands()


async def test_who_has_not_said_who_it_is_is_only_told_that_we_live() -> None:
    async with served(OFFER) as client:
        assert (await client.ask("ping"))["result"] == {}
        assert (await client.ask("tools/list"))["error"]["code"] == -32602
        assert (await client.ask("tools/dance"))["error"]["code"] == -32601
        assert (await client.ask("resources/list"))["error"]["code"] == -32601
        await client.shake_hands()


async def test_batches_are_for_the_version_that_has_them() -> None:
    batch = (
        b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"},7,'
        b'{"jsonrpc":"2.0","id":2,"method":"initialize","params":{}}]'
    )
    async with served(OFFER) as client:
        await client.shake_hands("2025-03-26")
        await client.write(batch)
        assert (await client.read())["result"] == {}
        wrong = [await client.read(), await client.read()]
        assert [(it["id"], it["error"]["code"]) for it in wrong] == [
            (None, -32600),
            (2, -32600),
        ]
    async with served(OFFER) as client:
        await client.shake_hands("2025-06-18")
        await client.write(batch)
        assert (await client.read())["error"]["code"] == -32600


async def test_more_requests_than_may_run_wait_for_their_turn(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with served(OFFER) as client:
        await client.shake_hands()
        for ident in range(MOST_RUNNING + 1):
            await call(client, ident, "wait", seconds=1)
        for _ in range(MOST_RUNNING):
            assert "result" in await client.read()
        assert trio.current_time() == 1
        assert "result" in await client.read()
        assert trio.current_time() == 2


async def test_what_waits_for_its_turn_can_be_taken_back(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with served(OFFER) as client:
        await client.shake_hands()
        for ident in range(MOST_RUNNING + 2):
            await call(client, ident, "wait", seconds=1)
        await client.send("notifications/cancelled", requestId=MOST_RUNNING)
        found = {(await client.read())["id"] for _ in range(MOST_RUNNING + 1)}
        assert found == {*range(MOST_RUNNING), MOST_RUNNING + 1}


async def test_a_client_that_does_not_read_is_not_read_from(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Everything that is taken from it is bounded: what it asks, what waits for it."""
    written = 0

    async def write_for_ever(client: LineClient) -> None:
        nonlocal written
        padding = "x" * 1000
        while True:
            params = {"name": "say", "arguments": {"much": padding}}
            await client.send("tools/call", written, **params)
            written += 1

    async with served(SAYS, lockstep=True) as client:
        await client.shake_hands()
        with trio.move_on_after(3600):
            await write_for_ever(client)
        # Answers of 100 kB each; none of them was read.
        assert 40 < written < MOST_REQUESTS + MOST_RUNNING + 100
        answered = [await client.read() for _ in range(10)]
        assert all(len(it["result"]["content"][0]["text"]) == 10**5 for it in answered)


async def test_a_line_that_is_too_long_is_answered_and_the_next_one_too() -> None:
    async with served(OFFER) as client:
        await client.shake_hands()
        text = b'"' + b"x" * 20 * 2**20 + b'"'
        await client.write(b'{"id":5,"method":"a","params":{"b":' + text + b"}}")
        answer = await client.read()
        assert (answer["id"], answer["error"]["code"]) == (5, -32600)
        assert (await client.ask("ping", 6))["result"] == {}


async def test_the_last_line_needs_no_end() -> None:
    async with served(OFFER) as client:
        await client.shake_hands()
        await client.stream.send_all(b'{"jsonrpc":"2.0","id":3,"method":"ping"}')
        await client.hang_up()
        assert (await client.read())["id"] == 3


async def test_a_line_that_is_cut_off_is_answered() -> None:
    async with served(OFFER) as client:
        await client.shake_hands()
        await client.stream.send_all(b'{"jsonrpc":"2.0","id":3,"method":"tools/ca')
        await client.hang_up()
        answer = await client.read()
        assert (answer["id"], answer["error"]["code"]) == (3, -32700)


async def test_a_client_that_is_gone_ends_everything(
    autojump_clock: trio.testing.MockClock,
) -> None:
    ended: list[str] = []
    offer = ServerDefinition(name="t", tools=(wait,), ended=ended.append)
    async with served(offer) as client:
        await client.shake_hands()
        await call(client, 1, "wait", seconds=5)
        await call(client, 2, "wait", seconds=500)
        await client.stream.receive_stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
    assert ended == ["stdio"]
    assert trio.current_time() < 10


async def test_cancelled_it_answers_what_is_owed() -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    client = LineClient(ours)
    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as flights:
            dispatch = Dispatch(OFFER, SharedTasks(flights))
            nursery.start_soon(Peer(dispatch, "1").serve, theirs, theirs)
            await client.shake_hands()
            await call(client, 1, "wait", seconds=500)
            assert (await client.ask("ping", 2))["result"] == {}
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                answer = await client.read()
                assert (answer["id"], answer["error"]["code"]) == (1, -32000)
            flights.cancel_scope.cancel()
