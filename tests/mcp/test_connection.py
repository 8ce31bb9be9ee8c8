"""The connection against a scripted server, on virtual time."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.actors import Failed, GaveUp, Ref, Restarting, Started
from glyphoxa_trio.config import RestartConfig, ServerSpec
from glyphoxa_trio.errors import ActorGone, DeadlineExceeded
from glyphoxa_trio.mcp import CallTool, ServerState, spawn_connection
from glyphoxa_trio.mcp.messages import NOTICE, Drain
from glyphoxa_trio.tools.definition import (
    CallContext,
    ConnectionLost,
    SessionClaim,
    ToolError,
    ToolUnavailable,
)
from glyphoxa_trio.tools.outcome import ToolResult

from .fakes import TOOLS, FakeServer, listing
from .support import Watcher, asked, both_ways

__all__ = ["both_ways"]

pytestmark = pytest.mark.usefixtures("both_ways")

STARTING, READY = ServerState.STARTING, ServerState.READY
RESTARTING, FAILED = ServerState.RESTARTING, ServerState.FAILED
STOPPED = ServerState.STOPPED


class _NoJitter(random.Random):
    def random(self) -> float:
        return 0.0


def spec(**options: Any) -> ServerSpec:
    options.setdefault("restart", RestartConfig(backoff=1.0, max_restarts=3))
    options.setdefault("timeout", 5.0)
    return ServerSpec(name="rules", command=("rules",), **options)


@asynccontextmanager
async def connected(
    server: FakeServer, of: ServerSpec | None = None
) -> AsyncGenerator[tuple[Ref[Any], Watcher]]:
    watcher = Watcher()
    async with trio.open_nursery() as nursery:
        ref = spawn_connection(
            nursery,
            of or spec(),
            publish=watcher.publish,
            warn=watcher.warn,
            report=watcher.report,
            on_event=watcher.events.append,
            open_session=server.open,
            rng=_NoJitter(),
        )
        yield ref, watcher
        nursery.cancel_scope.cancel()


async def test_tools_are_published_once_they_are_listed(
    autojump_clock: MockClock,
) -> None:  # N18, N19
    server = FakeServer(listing_takes=0.5)
    async with connected(server) as (_, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        assert trio.current_time() == 0.5
        assert tuple(watcher.tools("rules")) == TOOLS
        assert watcher.states("rules") == [STARTING, READY]
        status = watcher.statuses["rules"]
        assert (status.tools, status.restarts, status.pid) == (TOOLS, 0, 4711)
        assert (status.since, status.last_error) == (0.5, None)


async def test_calls_run_in_parallel_over_one_session(
    autojump_clock: MockClock,
) -> None:  # N20, G26
    server = FakeServer()
    async with connected(server) as (_, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        async with trio.open_nursery() as askers:
            for _ in range(30):  # more than the mailbox holds
                askers.start_soon(partial(watcher.call, "rules", "sleep", seconds=2))
        assert trio.current_time() == 2
        assert server.attempts == [0]


async def test_a_server_is_told_how_long_the_answer_is_of_use(
    autojump_clock: MockClock,
) -> None:
    server = FakeServer()
    async with connected(server) as (_, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        await watcher.call("rules", "echo", deadline=0.4)
        await watcher.call("rules", "echo", deadline=30)  # its own limit is 5
    metas = [meta for _, _, meta in server.received]
    key = "glyphoxa/remaining_ms"
    assert metas == [{key: 400}, {key: 5000}]


async def test_a_server_is_told_the_claim_of_a_session_also_on_a_second_try(
    autojump_clock: MockClock,
) -> None:
    server = FakeServer()
    async with connected(server) as (ref, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        for session in ("one", "two"):
            claim = SessionClaim.of("studio", session, 7)
            context = CallContext(deadline=9, claim=claim)
            await asked(watcher.tools("rules")["echo"], {}, context)
            await ref.ask(CallTool("echo", {}, claim=claim), within=5)  # its mailbox
        context = CallContext(claim=SessionClaim.of("studio", "one", 0))
        await asked(watcher.tools("rules")["echo"], {}, context)
    metas = [meta for _, _, meta in server.received]
    assert [x.get("glyphoxa/epoch") for x in metas] == [7, 7, 7, 7, None]
    one, again, two, _, none = (x.get("glyphoxa/session") for x in metas)
    assert one == again != two
    assert one is not None
    assert int(one, 16)  # no name
    assert none is None


async def test_a_call_during_the_start_waits_for_the_server(
    autojump_clock: MockClock,
) -> None:  # D5
    server = FakeServer(listing_takes=3)
    async with connected(server) as (ref, _):
        result = await ref.ask(CallTool("echo", {}), within=5)
        assert result == ToolResult(text=("{}",))
        assert trio.current_time() == 3


async def test_a_waiting_call_leaves_when_its_askers_patience_ends(
    autojump_clock: MockClock,
) -> None:
    server = FakeServer(["hang"])
    async with connected(server) as (ref, _):
        with pytest.raises(DeadlineExceeded):
            await ref.ask(CallTool("echo", {}), within=0.25)
        assert trio.current_time() == 0.25
        assert server.received == []


async def test_restarts_wait_ever_longer_and_then_once_a_minute(
    autojump_clock: MockClock,
) -> None:  # D17, A26, A42
    server = FakeServer(["refuse"] * 6)
    async with connected(server) as (_, watcher):
        await watcher.until(lambda: watcher.state("rules") is FAILED, within=60)
        assert server.attempts == [0, 1, 3, 7]
        assert trio.current_time() == 7
        await watcher.until(lambda: watcher.state("rules") is READY, within=600)
        assert server.attempts == [0, 1, 3, 7, 67, 127, 187]
        assert watcher.states("rules") == [STARTING, RESTARTING, FAILED, READY]
        kinds = [type(event) for event in watcher.events[:11]]
        once = [Started, Failed, Restarting]
        assert kinds == [*once, *once, *once, Started, Failed]
        assert isinstance(watcher.events[11], GaveUp)


async def test_a_failed_server_refuses_at_once(
    autojump_clock: MockClock,
) -> None:  # D5
    server = FakeServer(["refuse"] * 9)
    async with connected(server) as (ref, watcher):
        async with trio.open_nursery() as askers:

            async def ask() -> None:
                with pytest.raises(ToolUnavailable, match="rules has failed: refused"):
                    await ref.ask(CallTool("echo", {}), within=600)
                assert trio.current_time() == 7  # not a moment of hope too long

            askers.start_soon(ask)
        assert watcher.state("rules") is FAILED
        with pytest.raises(ToolUnavailable):
            await ref.ask(CallTool("echo", {}), within=600)
        assert trio.current_time() == 7


async def test_a_failed_server_is_refused_during_its_slow_attempts_too(
    autojump_clock: MockClock,
) -> None:
    server = FakeServer(["refuse"] * 4 + ["hang"])
    async with connected(server, spec(start_timeout=10)) as (ref, watcher):
        await trio.sleep(70)  # the attempt of t=67 hangs
        assert server.attempts[-1] == 67
        assert watcher.state("rules") is FAILED
        with pytest.raises(ToolUnavailable):
            await ref.ask(CallTool("echo", {}), within=600)
        assert trio.current_time() == 70


async def test_a_server_that_came_back_gets_its_restarts_back(
    autojump_clock: MockClock,
) -> None:
    # Fails, comes back at t=67 for 5 s, is lost, and is restarted quickly.
    server = FakeServer(["refuse"] * 4 + [5.0, "refuse"])
    async with connected(server) as (_, watcher):
        await trio.sleep(76)
        assert server.attempts == [0, 1, 3, 7, 67, 72, 73]
        assert watcher.states("rules") == [
            *[STARTING, RESTARTING, FAILED],
            *[READY, RESTARTING, READY],
        ]


async def test_uptime_forgives(autojump_clock: MockClock) -> None:  # D17
    # Lost every 30 s, ten times: never more than 2 failures in a minute.
    server = FakeServer([30.0] * 10)
    async with connected(server) as (_, watcher):
        await trio.sleep(400)
        assert len(server.attempts) == 11
        assert FAILED not in watcher.states("rules")
        assert watcher.statuses["rules"].restarts == 10


async def test_a_server_that_crashes_on_every_start_fails(
    autojump_clock: MockClock,
) -> None:
    server = FakeServer([0.1] * 100)
    async with connected(server) as (_, watcher):
        await watcher.until(lambda: watcher.state("rules") is FAILED)
        assert server.attempts == pytest.approx([0, 0.1, 1.2, 3.3])


async def test_without_restarts_the_first_failure_is_the_last(
    autojump_clock: MockClock,
) -> None:
    server = FakeServer(["refuse"])
    off = spec(restart=RestartConfig(enabled=False))
    async with connected(server, off) as (ref, watcher):
        await trio.sleep(600)
        assert watcher.state("rules") is FAILED
        assert server.attempts == [0]
        with pytest.raises(ToolUnavailable):
            await ref.ask(CallTool("echo", {}), within=1)


async def test_calls_in_flight_fail_at_once_when_the_server_is_lost(
    autojump_clock: MockClock,
) -> None:  # D6, T2
    # Ending the process takes 2 s more: that is on nobody's path.
    server = FakeServer([3.0], closing_takes=2.0)
    async with connected(server) as (_, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        with pytest.raises(ConnectionLost):
            await watcher.call("rules", "sleep", seconds=4)
        assert trio.current_time() == 3
        await wait_all_tasks_blocked()
        assert watcher.state("rules") is RESTARTING
        # The next call waits for the next life: 2 s to close.
        await watcher.call("rules", "echo")
        assert trio.current_time() == 5
        assert tuple(watcher.tools("rules")) == TOOLS  # they stay visible (D5)


async def test_one_calls_error_leaves_the_others_their_session(
    autojump_clock: MockClock,
) -> None:  # T2
    server = FakeServer()
    async with connected(server) as (_, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        async with trio.open_nursery() as askers:
            askers.start_soon(partial(watcher.call, "rules", "sleep", seconds=2))
            for _ in range(5):
                with pytest.raises(ToolError):
                    await watcher.call("rules", "refuse")
        assert server.attempts == [0]
        assert watcher.statuses["rules"].restarts == 0


async def test_what_breaks_the_session_is_lost_and_never_sent_again(
    autojump_clock: MockClock,
) -> None:  # D12
    server = FakeServer()
    async with connected(server) as (_, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        with pytest.raises(ConnectionLost):
            await watcher.call("rules", "break")
        await watcher.call("rules", "echo")
        assert trio.current_time() == 0
        assert [name for _, name, _ in server.received] == ["break", "echo"]


async def test_a_call_that_never_arrived_is_sent_over_the_next_session(
    autojump_clock: MockClock,
) -> None:  # D12
    server = FakeServer()
    async with connected(server) as (_, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        await watcher.call("rules", "miss", sessions=2)
        assert [at for at, _, _ in server.received] == [0, 0, 1]


async def test_a_server_that_no_call_reaches_fails_like_any_other(
    autojump_clock: MockClock,
) -> None:
    server = FakeServer()
    async with connected(server) as (ref, _):
        with pytest.raises(ToolUnavailable):
            await ref.ask(CallTool("miss", {"sessions": 99}), within=60)
        assert [at for at, _, _ in server.received] == [0, 0, 1, 3]


async def test_a_changed_list_is_read_and_published_again(
    autojump_clock: MockClock,
) -> None:  # T10
    server = FakeServer()
    async with connected(server) as (_, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        server.tools = listing("echo", "new")
        assert server.changed is not None
        for _ in range(100):  # one reading is enough for a burst
            server.changed()
        await watcher.until(lambda: "new" in watcher.tools("rules"))
        assert watcher.statuses["rules"].tools == ("echo", "new")
        published = len(watcher.published)
        await trio.sleep(60)
        assert len(watcher.published) == published


async def test_a_changed_list_that_cannot_be_read_leaves_the_old_one(
    autojump_clock: MockClock,
) -> None:
    server = FakeServer()
    async with connected(server, spec(start_timeout=2)) as (_, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        server.listing_takes = 3600
        assert server.changed is not None
        server.changed()
        await watcher.until(lambda: bool(watcher.warnings))
        assert trio.current_time() == 2
        assert "no list of tools within 2000 ms" in watcher.warnings[0].text
        assert tuple(watcher.tools("rules")) == TOOLS
        assert watcher.state("rules") is READY


async def test_a_list_that_takes_too_long_fails_the_start(
    autojump_clock: MockClock,
) -> None:  # siblings.md: 003, fault 4
    server = FakeServer(listing_takes=3600)
    async with connected(server, spec(start_timeout=2)) as (_, watcher):
        await watcher.until(lambda: watcher.state("rules") is RESTARTING)
        assert trio.current_time() == 2
        assert watcher.statuses["rules"].last_error == (
            "no list of tools within 2000 ms"
        )


async def test_the_operator_is_warned_once_an_outage_and_told_what_was_said(
    autojump_clock: MockClock,
) -> None:  # N23
    server = FakeServer(["refuse", "refuse", "ok"])
    async with connected(server) as (_, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        (warning,) = watcher.warnings
        assert warning.server == "rules"
        assert warning.text == "refused\n  the cellar is flooded"
        assert server.session is not None
        server.session.loss.report("it died")
        await watcher.until(lambda: len(watcher.warnings) == 2)
        assert watcher.warnings[1].text == "it died"


async def test_giving_up_is_a_warning_of_its_own(autojump_clock: MockClock) -> None:
    async with connected(FakeServer(["refuse"] * 8)) as (_, watcher):
        await trio.sleep(300)
        texts = [warning.text.splitlines()[0] for warning in watcher.warnings]
        assert texts == ["refused", "has failed, and is retried once a minute: refused"]


async def test_nonsense_of_the_server_is_warned_of_once(
    autojump_clock: MockClock,
) -> None:
    odd = listing("echo", "echo", warnings=("its list does not end",))
    async with connected(FakeServer([1.0, 1.0], tools=odd)) as (_, watcher):
        await trio.sleep(10)
        texts = [warning.text for warning in watcher.warnings]
        assert texts.count("echo: offered twice, the first one counts") == 1
        assert texts.count("its list does not end") == 1


async def test_stopping_says_goodbye_and_ends_calls_with_a_meaning(
    autojump_clock: MockClock,
) -> None:  # A43, N22
    server = FakeServer(closing_takes=2.0)
    async with connected(server) as (ref, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        echo = watcher.tools("rules")["echo"]
        async with trio.open_nursery() as askers:

            async def ask() -> None:
                with pytest.raises(ConnectionLost):
                    await watcher.call("rules", "sleep", seconds=60)
                assert trio.current_time() == 0

            askers.start_soon(ask)
            await wait_all_tasks_blocked()
            assert await ref.stop(within=5)
        assert trio.current_time() == 2
        assert watcher.published[-1] == ("rules", STOPPED, ())
        with pytest.raises(ActorGone):
            await ref.ask(CallTool("echo", {}), within=1)
        result = asked(echo, {}, CallContext())
        with pytest.raises(ToolUnavailable):
            await result
        assert trio.current_time() == 2


@pytest.mark.parametrize(("takes", "said", "end"), [(0.5, [0.5], 0.5), (9.0, [], 1.0)])
async def test_a_goodbye_may_take_a_second(
    autojump_clock: MockClock, takes: float, said: list[float], end: float
) -> None:  # A43: an HTTP server is told that the session is over
    server = FakeServer(goodbye_takes=takes)
    async with connected(server) as (ref, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        assert await ref.stop(within=5)
        assert trio.current_time() == end
    assert server.goodbyes == said


async def test_stopping_does_not_wait_for_a_server_that_is_starting(
    autojump_clock: MockClock,
) -> None:
    async with connected(FakeServer(["hang"])) as (ref, watcher):
        async with trio.open_nursery() as askers:

            async def ask() -> None:
                with pytest.raises(ToolUnavailable, match="being stopped"):
                    await ref.ask(CallTool("echo", {}), within=60)

            askers.start_soon(ask)
            await wait_all_tasks_blocked()
            assert await ref.stop(within=1)
        assert trio.current_time() == 0
        assert watcher.state("rules") is STOPPED


async def _call_in_vain(watcher: Watcher, times: int) -> None:
    """Calls that their turn cuts after a second, one after the other."""
    for _ in range(times):
        with trio.move_on_after(1):
            await watcher.call("rules", "sleep", deadline=1, seconds=3600)
        await wait_all_tasks_blocked()  # the connection has heard of it


async def test_a_server_that_hangs_is_found_out_by_pings_and_started_again(
    autojump_clock: MockClock,
) -> None:  # stopped, or open at one end only: no call can tell
    server = FakeServer()
    async with connected(server, spec(timeout=5)) as (_, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        await wait_all_tasks_blocked()
        server.pings.clear()
        server.ping_takes = 3600
        await _call_in_vain(watcher, 1)  # nobody calls it again
        await watcher.until(lambda: watcher.state("rules") is RESTARTING)
        assert trio.current_time() == 5
        assert server.pings == [1, 2, 3, 4]
        await watcher.until(lambda: bool(watcher.warnings))
        assert watcher.warnings[-1].text == (
            "it does not answer any more: 4 pings in a row, each unanswered for 1000 ms"
        )
        await watcher.until(lambda: watcher.state("rules") is READY)
        assert trio.current_time() == 5  # it had served: the next life begins at once


async def test_three_pings_are_waited_for_however_short_the_timeout_is(
    autojump_clock: MockClock,
) -> None:
    server = FakeServer()
    async with connected(server, spec(timeout=0.5)) as (_, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        server.ping_takes = 3600
        await _call_in_vain(watcher, 1)
        await watcher.until(lambda: watcher.state("rules") is RESTARTING)
        assert trio.current_time() == 4


@pytest.mark.parametrize("knows_pings", [True, False])  # a no is an answer
async def test_a_server_with_slow_tools_is_only_looked_at(
    autojump_clock: MockClock, knows_pings: bool
) -> None:
    server = FakeServer(knows_pings=knows_pings)
    async with connected(server, spec(timeout=5)) as (_, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        await wait_all_tasks_blocked()
        server.ping_takes = 0.9
        server.pings.clear()
        await _call_in_vain(watcher, 20)
        # An answer counts for every call that was sent before it.
        assert server.pings == list(range(1, 21, 2))
        assert server.attempts == [0]
        assert watcher.warnings == []


async def test_a_server_that_does_one_thing_at_a_time_may_be_busy(
    autojump_clock: MockClock,
) -> None:  # no call of it takes longer than its timeout: so long it may be silent
    server = FakeServer()
    async with connected(server, spec(timeout=10)) as (_, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        server.ping_takes = 3600
        await _call_in_vain(watcher, 8)
        server.ping_takes = 0
        await trio.sleep(60)
        assert server.attempts == [0]


@pytest.mark.parametrize("tool", ["echo", "refuse"])  # a no is an answer
async def test_an_answer_in_between_ends_all_doubt(
    autojump_clock: MockClock, tool: str
) -> None:
    server = FakeServer()
    async with connected(server, spec(timeout=5)) as (_, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        server.ping_takes = 3600
        await _call_in_vain(watcher, 3)
        with suppress(ToolError):
            await watcher.call("rules", tool)
        await trio.sleep(60)
        assert server.attempts == [0]


async def test_an_interruption_says_nothing_of_the_server(
    autojump_clock: MockClock,
) -> None:  # nor does a call that goes on after its turn
    server = FakeServer()
    async with connected(server) as (_, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        await wait_all_tasks_blocked()
        server.pings.clear()
        with trio.move_on_after(0.5):
            await watcher.call("rules", "sleep", deadline=1, seconds=3600)
        context = CallContext(deadline=4, awaited_until=1)
        result = asked(watcher.tools("rules")["sleep"], {"seconds": 3}, context)
        await result
        await trio.sleep(60)
        assert server.pings == []


async def test_a_new_life_begins_without_doubt(autojump_clock: MockClock) -> None:
    server = FakeServer([2.5])
    async with connected(server, spec(timeout=5)) as (_, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        server.ping_takes = 3600
        await _call_in_vain(watcher, 2)
        await watcher.until(lambda: watcher.state("rules") is RESTARTING)
        await watcher.until(lambda: watcher.state("rules") is READY)
        await trio.sleep(60)
        assert len(server.attempts) == 2


def _round_trips(watcher: Watcher) -> set[float]:
    tools = watcher.tools("rules").values()
    return {round(x.definition.round_trip, 6) for x in tools}


async def test_the_fastest_ping_is_a_servers_round_trip_and_delays_nothing(
    autojump_clock: MockClock,
) -> None:
    server = FakeServer(knows_pings=True, ping_takes=0.01)
    async with connected(server) as (_, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        assert trio.current_time() == 0
        before = watcher.tools("rules")["echo"].definition
        assert _round_trips(watcher) == {0.05}
        await trio.sleep(1)
        assert server.pings == [0, 0.01, 0.02]
        assert _round_trips(watcher) == {0.01}
        assert watcher.tools("rules")["echo"].definition == before  # for all else
        server.tools = listing("echo", "new")
        assert server.changed is not None
        server.changed()
        await watcher.until(lambda: "new" in watcher.tools("rules"))
        assert _round_trips(watcher) == {0.01}


@pytest.mark.parametrize(
    ("knows_pings", "takes"), [(False, 0.001), (True, 0.06), (True, 3600)]
)
async def test_a_ping_that_is_refused_or_slow_counts_as_50_ms(
    autojump_clock: MockClock, knows_pings: bool, takes: float
) -> None:
    server = FakeServer(knows_pings=knows_pings, ping_takes=takes)
    async with connected(server) as (_, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        await trio.sleep(60)
        assert server.pings == [0]
        assert _round_trips(watcher) == {0.05}
        assert server.attempts == [0]


async def test_a_server_that_dies_of_a_ping_is_not_pinged_again(
    autojump_clock: MockClock,
) -> None:
    server = FakeServer(dies_of_pings=True)
    async with connected(server) as (_, watcher):
        await trio.sleep(60)
        assert server.attempts == [0, 0]
        assert server.pings == [0]
        assert watcher.state("rules") is READY
        await _call_in_vain(watcher, 5)  # slow ones: it may hang, and is not asked
        await trio.sleep(60)
        assert server.pings == [0]
        assert server.attempts == [0, 0]


@pytest.mark.parametrize("how", ["between pings", "forgotten", "far away"])
async def test_a_session_that_is_lost_beside_a_ping_may_be_pinged_again(
    how: str, autojump_clock: MockClock
) -> None:
    server = FakeServer(knows_pings=True, ping_takes=0.01)
    async with connected(server) as (_, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        assert server.session is not None
        if how == "far away":
            server.session.pid = None  # we do not start it: it is the way that broke
        await trio.sleep(0.025 if how != "between pings" else 1.0)
        server.session.loss.report("lost", forgotten=how == "forgotten")
        await trio.sleep(60)
        assert len(server.attempts) == 2
        assert len(server.pings) == 6


async def test_while_a_server_restarts_it_is_known_when_it_should_be_ready(
    autojump_clock: MockClock,
) -> None:  # D17
    server = FakeServer([5.0, "refuse"], starting_takes=1.2)
    async with connected(server) as (_, watcher):
        assert watcher.ready_at == []
        await watcher.until(lambda: watcher.state("rules") is READY)
        assert watcher.ready_at == [None, None]  # nobody knew of the first one
        await watcher.until(lambda: watcher.state("rules") is RESTARTING)
        status = watcher.statuses["rules"]
        assert status.ready_at == watcher.ready_at[-1] == pytest.approx(6.2 + 1.2)
        # That one was refused at once: a delay of 1 s, and the start.
        await trio.sleep_until(6.3)
        assert watcher.statuses["rules"].ready_at == pytest.approx(6.2 + 1 + 1.2)
        context = CallContext(awaited_until=7.2 + NOTICE)
        with pytest.raises(ToolUnavailable) as caught:
            result = asked(watcher.tools("rules")["echo"], {}, context)
            await result
        assert str(caught.value) == (
            "rules is restarting, ready in about 1.2 s, and the call was not sent"
        )
        await watcher.until(lambda: watcher.state("rules") is READY)
        assert trio.current_time() == pytest.approx(8.4)
        assert watcher.statuses["rules"].ready_at is None


async def test_a_start_that_may_be_faster_alone_is_told_and_refuses_nothing(
    autojump_clock: MockClock,
) -> None:  # the first one, in which the SDK is loaded, and other servers start
    server = FakeServer([5.0, 5.0], starting_takes=1.2, timed=False)
    async with connected(server) as (ref, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        server.starting_takes, server.timed = 0.7, True
        await watcher.until(lambda: watcher.state("rules") is RESTARTING)
        assert watcher.statuses["rules"].ready_at is None
        patience = trio.current_time() + 0.2 + NOTICE
        with pytest.raises(ToolUnavailable, match=r", ready in about 1\.0 s, and the"):
            await ref.ask(CallTool("echo", {}, awaited_until=patience), within=5)
        await watcher.until(lambda: watcher.state("rules") is READY)
        await watcher.until(lambda: watcher.state("rules") is RESTARTING)
        # It has started alone meanwhile. This is its second death in a minute.
        now = trio.current_time()
        assert watcher.statuses["rules"].ready_at == pytest.approx(now + 0.7)
        await trio.sleep(0.01)
        now = trio.current_time()
        assert watcher.statuses["rules"].ready_at == pytest.approx(now + 0.99 + 0.7)


async def test_the_first_death_in_a_minute_costs_no_delay_and_the_others_do(
    autojump_clock: MockClock,
) -> None:  # D17
    server = FakeServer([1.0, 1.0, 1.0, 100.0, 1.0])
    async with connected(server) as (_, watcher):
        await trio.sleep(120)
        # Served for 1 s, thrice, then for 100 s, which is forgiven, and for 1 s.
        assert server.attempts == [0, 1, 3, 6, 106, 108]
        assert FAILED not in watcher.states("rules")


async def test_over_http_a_list_that_does_not_come_is_the_end_of_the_session(
    autojump_clock: MockClock,
) -> None:  # nothing else tells of a connection that is open at one end only
    server = FakeServer()
    remote = ServerSpec(name="rules", url="http://localhost:1/mcp", start_timeout=2)
    async with connected(server, remote) as (_, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        server.listing_takes = 3600
        assert server.changed is not None
        server.changed()
        await watcher.until(lambda: watcher.state("rules") is RESTARTING)
        assert trio.current_time() == 2


async def test_a_list_that_changes_all_the_time_is_read_ten_times_a_second(
    autojump_clock: MockClock,
) -> None:
    server = FakeServer()
    async with connected(server) as (_, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        told = len(watcher.published)
        for _ in range(100):
            assert server.changed is not None
            server.changed()
            await trio.sleep(0.01)
        assert 9 <= len(watcher.published) - told <= 11


_scripts = st.lists(
    st.sampled_from(["ok", "refuse", "hang", 0.0, 0.5, 3.0, 70.0]), max_size=12
)
_calls = st.lists(
    st.tuples(
        st.floats(0, 300),
        st.sampled_from(TOOLS),
        st.sampled_from([0.0, 0.5, 5.0, 90.0]),
    ),
    max_size=8,
)


@given(_scripts, _calls)
def test_whatever_the_server_does_every_call_ends_in_time(
    script: list[str | float], calls: list[tuple[float, str, float]]
) -> None:  # T1
    async def main() -> None:
        ended = 0
        async with connected(FakeServer(script)) as (ref, watcher):

            async def ask(at: float, tool: str, within: float) -> None:
                nonlocal ended
                await trio.sleep_until(at)
                arguments = {"seconds": 1.0, "sessions": 3}
                with suppress(
                    ToolError, ToolUnavailable, ConnectionLost, DeadlineExceeded
                ):
                    await ref.ask(CallTool(tool, arguments), within=within)
                assert trio.current_time() <= at + within + 1e-6
                ended += 1

            async with trio.open_nursery() as askers:
                for call in calls:
                    askers.start_soon(ask, *call)
            assert ended == len(calls)
            # Whatever the script was, there is an end to it, and then it is ready.
            await watcher.until(lambda: watcher.state("rules") is READY, within=2000)

    trio.run(main, clock=MockClock(autojump_threshold=0))


async def test_a_call_that_could_not_be_sent_says_so_before_its_deadline(
    autojump_clock: MockClock,
) -> None:
    # D5, D7: it waited for a server that restarts, and did nothing
    async with connected(FakeServer(["hang"])) as (ref, _):
        began = trio.current_time()
        request = CallTool("echo", {}, awaited_until=began + 0.5)
        with pytest.raises(ToolUnavailable, match="was not sent"):
            await ref.ask(request, within=5)
        assert trio.current_time() - began == 0.49


async def test_a_call_that_comes_while_the_server_ends_did_nothing(
    autojump_clock: MockClock,
) -> None:  # D6: it was never sent, so its effect is known
    server = FakeServer(closing_takes=1.0)
    async with connected(server) as (ref, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        ref.close()
        await wait_all_tasks_blocked()
        with pytest.raises(ToolUnavailable):
            await watcher.call("rules", "echo")
        assert server.received == []


async def test_a_connection_that_crashed_begins_anew(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A fault of ours, in the middle of calls: nothing of the old life is left.
    monkeypatch.setattr(FakeServer, "at_once", False)
    server = FakeServer(tools=listing("sleep", "nonsense"))
    async with connected(server) as (ref, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        sleep = watcher.tools("rules")["sleep"]

        async def ask() -> None:
            with pytest.raises(ConnectionLost):
                await watcher.call("rules", "sleep", seconds=60)

        async with trio.open_nursery() as askers:
            askers.start_soon(ask)
            await wait_all_tasks_blocked()
            with pytest.raises(ConnectionLost):  # which breaks every rule there is
                await watcher.call("rules", "nonsense")
        await watcher.until(lambda: watcher.state("rules") is STOPPED)
        assert watcher.published[-1] == ("rules", STOPPED, ())
        await watcher.until(lambda: bool(watcher.warnings))
        said = watcher.warnings[-1].text
        assert "crashed and is started anew: AttributeError: " in said
        assert "Traceback" in said
        result = asked(sleep, {}, CallContext())
        with pytest.raises(ToolUnavailable, match="is stopped"):
            await result
        await watcher.until(lambda: watcher.state("rules") is READY)
        assert len(server.attempts) == 2
        await ref.ask(Drain(), within=1)
        assert trio.current_time() == server.attempts[1]  # nothing is in flight
        assert (await watcher.call("rules", "sleep")).text == ("{}",)


async def test_a_thousand_schemas_are_compiled_on_nobodys_time(
    autojump_clock: MockClock,
) -> None:  # T1: others run in between
    names = [f"t{number}" for number in range(50)]
    async with connected(FakeServer(tools=listing(*names))) as (_, watcher):
        ran = 0
        while watcher.state("rules") is not READY:
            await trio.lowlevel.cancel_shielded_checkpoint()
            ran += 1
        assert ran > len(names)
