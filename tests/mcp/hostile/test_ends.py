"""Servers that will not go, go too early, or leave somebody behind.

That nothing survives and that the end was in time is checked by `beside`.
"""

from __future__ import annotations

import os
import signal
from functools import partial

import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio import Outcome, Tier
from glyphoxa_trio.testing import hostile
from glyphoxa_trio.tools.outcome import Effect, Limit, Status

from ..support import gone
from .support import FAST, LIMIT, ONCE, PATIENCE, READY, RESTARTING, beside, restarts

pytestmark = pytest.mark.border

# ----------------------------------------------------------- will not go


async def test_a_server_that_ignores_goodbye_and_sigterm_is_killed_in_time(
    mock_clock: MockClock,
) -> None:
    # A43
    async with beside("ignores_goodbye") as table:
        pid = table.pid
        assert (await table.call("echo")).ok
    await gone(pid)


async def test_eight_servers_that_resist_end_together(
    mock_clock: MockClock,
) -> None:
    # A43, N22
    others = tuple(
        hostile.server("ignores_goodbye", name=f"other_{number}") for number in range(4)
    ) + tuple(
        hostile.server("stops_itself", when="listed", name=f"stopped_{number}")
        for number in range(3)
    )
    async with beside("ignores_goodbye", extra=others) as table:
        rows = table.runtime.servers()
        assert {row.state for row in rows} == {READY}


async def test_a_server_stopped_in_a_call_times_out_and_is_killed_at_the_end(
    mock_clock: MockClock,
) -> None:
    async with beside("stops_itself", when="call", timeout=PATIENCE) as table:
        pid = table.pid
        outcome = await table.in_vain("bad")
        assert (outcome.status, outcome.limit) == (Status.TIMEOUT, Limit.SERVER)
        outcome = await table.in_vain("echo", Tier.FAST)
        assert outcome.status is Status.TIMEOUT
        assert table.row().state is READY  # nobody can tell it from a slow one
    await gone(pid)


async def test_a_server_that_is_continued_answers_again(
    mock_clock: MockClock,
) -> None:
    async with beside("stops_itself", when="call", timeout=PATIENCE) as table:
        assert (await table.in_vain("bad")).status is Status.TIMEOUT
        os.kill(table.pid, signal.SIGCONT)
        assert (await table.call("echo", say="hi")).data == {"say": "hi"}


# ------------------------------------------------------- leaves somebody


@pytest.mark.parametrize("where", ["group", "session", "orphan"])
async def test_a_child_that_would_outlive_its_server_does_not(where: str) -> None:
    async with beside("leaves_a_child", where=where) as table:
        children = [int((await table.call("bad")).message) for _ in range(3)]
        for child in children:
            os.kill(child, 0)
    for child in children:
        await gone(child)


@pytest.mark.parametrize("where", ["group", "session", "orphan"])
async def test_a_child_of_a_server_that_was_killed_does_not_outlive_it(
    where: str,
) -> None:
    # It holds stdout open, so the end of the server is not the end of the pipe.
    async with beside("leaves_a_child", where=where) as table:
        child = int((await table.call("bad")).message)
        os.kill(table.pid, signal.SIGKILL)
        assert (await table.call("echo", say="hi")).data == {"say": "hi"}
        assert table.row().restarts == 1
        await gone(child)
        assert table.warnings == ["was ended by SIGKILL"]


# ------------------------------------------------------------ too early


async def test_a_server_that_exits_after_three_calls_is_replaced_each_time() -> None:
    async with beside("exits_after", calls=3) as table:
        for number in range(12):
            outcome = await table.call("echo", number=number)
            assert outcome.data == {"number": number}
        assert table.row().restarts >= 3
        assert set(table.warnings) == {"exited with status 0"}


@pytest.mark.parametrize(
    ("by", "why"),
    [
        ("KILL", "was ended by SIGKILL"),
        ("SEGV", "was ended by SIGSEGV"),
        ("exit", "exited with status 1"),
    ],
)
async def test_a_call_that_kills_its_server_is_lost_and_never_sent_again(
    by: str, why: str
) -> None:
    async with beside("crashes", by=by, writes=1) as table:
        outcome = await table.call("bad")
        assert (outcome.status, outcome.effect) == (Status.UNAVAILABLE, Effect.UNKNOWN)
        assert why in outcome.message
        assert (await table.call("echo", say="hi")).data == {"say": "hi"}
        assert table.row().restarts == 1
        (warning,) = table.warnings
        assert warning.startswith(why)
        if by == "exit":
            assert "RuntimeError: a bug in the server" in warning


async def test_a_read_that_kills_its_server_is_tried_once_more_and_then_lost() -> None:
    async with beside("crashes") as table:  # D12
        outcome = await table.call("bad")
        assert (outcome.status, outcome.effect) == (Status.UNAVAILABLE, Effect.NONE)
        assert (await table.call("echo", say="hi")).data == {"say": "hi"}
        assert table.row().restarts == 2


async def test_calls_beside_one_that_kills_the_server_all_have_an_outcome() -> None:
    async with beside("crashes", writes=1) as table:
        ended: list[Outcome] = []

        async def call(tool: str, number: int) -> None:
            ended.append(await table.call(tool, id=str(number), ms=5))

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(call, "write", number)
            nursery.start_soon(call, "bad", 20)
        assert len(ended) == 21
        for outcome in ended:
            done = (outcome.status, outcome.effect)
            assert done in {
                (Status.OK, Effect.DONE),
                (Status.UNAVAILABLE, Effect.UNKNOWN),
                (Status.UNAVAILABLE, Effect.NONE),
            }, outcome


async def test_one_death_is_one_failure_however_many_calls_were_under_way() -> None:
    # Or a server that is back in 100 ms would be refused for ten seconds (D7).
    async with beside("answers_late", ms=300, writes=1) as table:
        ended: list[Outcome] = []

        async def call() -> None:
            ended.append(await table.call("bad"))

        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(call)
            # It has answered what was written after them, so it has read them all.
            await trio.testing.wait_all_tasks_blocked()
            assert (await table.call("echo")).ok
            os.kill(table.pid, signal.SIGKILL)
        # More failures in a row than open a breaker.
        assert [(x.status, x.effect) for x in ended] == 8 * [
            (Status.UNAVAILABLE, Effect.UNKNOWN)
        ]
        again = await table.call("bad")
        assert again.ok, again


async def test_a_server_that_dies_of_everything_is_failed_and_says_so() -> None:
    # A42: quick restarts have an end, and then nobody waits for it any more
    restart = restarts(backoff=0.001, max_restarts=2)
    async with beside("exits_after", calls=1, restart=restart) as table:
        for _ in range(3):
            await table.call("echo")
        await table.until(lambda: str(table.row().state) == "failed")
        assert table.warnings[-1].startswith("has failed, and is retried once a minute")
        outcome = await table.call("echo")
        assert outcome.status is Status.UNAVAILABLE
        assert "is down" in outcome.message


async def test_a_call_waits_for_a_server_that_restarts_only_as_long_as_it_may(
    mock_clock: MockClock,
) -> None:
    async with beside("crashes", writes=1, restart=restarts(backoff=25)) as table:
        for _ in range(2):  # the first death in a minute costs no delay
            assert (await table.call("echo")).ok
            await table.call("bad")
        await table.until(lambda: table.row().state is RESTARTING)
        assert "echo" in table.tools  # it stays visible (D5)
        outcome = await table.in_vain("echo", Tier.FAST)
        assert outcome.elapsed <= FAST
        assert (outcome.status, outcome.effect) == (Status.UNAVAILABLE, Effect.NONE)
        # Where its last start could be timed, it is known that waiting is no use.
        told = ("its server is starting, about", "was not sent")
        assert any(text in outcome.message for text in told), outcome


async def test_without_restarts_a_server_that_died_is_refused_at_once() -> None:
    async with beside("crashes", writes=1, restart=ONCE) as table:
        await table.call("bad")
        await table.until(lambda: len(table.warnings) == 2)
        assert table.warnings[1].startswith("has failed, and is not retried")
        outcome = await table.call("echo")
        assert outcome.status is Status.UNAVAILABLE


@pytest.mark.parametrize("how", ["exits", "closes"])
async def test_half_an_answer_is_none_and_the_server_is_replaced(how: str) -> None:
    async with beside("stops_mid_message", how=how, writes=1) as table:
        outcome = await table.call("bad")
        assert (outcome.status, outcome.effect) == (Status.UNAVAILABLE, Effect.UNKNOWN)
        assert (await table.call("echo", say="hi")).data == {"say": "hi"}
        assert table.row().restarts == 1


async def test_half_an_answer_that_never_goes_on_is_a_timeout(
    mock_clock: MockClock,
) -> None:
    async with beside("stops_mid_message", how="waits", timeout=PATIENCE) as table:
        outcome = await table.in_vain("bad")
        assert (outcome.status, outcome.limit) == (Status.TIMEOUT, Limit.SERVER)


# -------------------------------------------------------- the end itself


async def test_the_end_does_not_wait_for_calls_in_flight() -> None:
    async with beside("never_answers", timeout=LIMIT) as table:
        began = trio.Event()

        async def call() -> None:
            began.set()
            await table.call("bad")

        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(call)
            await began.wait()
            await table.good()
            nursery.cancel_scope.cancel()


async def test_removing_a_server_that_resists_delays_no_call_of_another() -> None:
    # Closing is never on a call's path.
    async with beside("ignores_goodbye") as table:
        pid = table.pid
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(table.runtime.remove_server, table.name))
            for _ in range(20):
                await table.good()
            assert table.tools == set()
        await gone(pid)
