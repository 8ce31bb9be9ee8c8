"""Retries of calls, against a scripted server, on virtual time."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock

from glyphoxa_trio.config import RestartConfig, ServerSpec, ToolOverride
from glyphoxa_trio.mcp import ServerState, spawn_connection
from glyphoxa_trio.mcp.transport import ToolListing
from glyphoxa_trio.tools.definition import (
    CallContext,
    ConnectionLost,
    ToolError,
    ToolUnavailable,
)
from glyphoxa_trio.tools.outcome import ToolResult

from .fakes import FakeServer, listing
from .support import Watcher, asked, both_ways

__all__ = ["both_ways"]

pytestmark = pytest.mark.usefixtures("both_ways")


class _NoJitter(random.Random):
    def random(self) -> float:
        return 0.0


@asynccontextmanager
async def connected(
    server: FakeServer, *, twice_is_once: bool | None
) -> AsyncGenerator[Watcher]:
    """A ready connection whose tools are idempotent, or not. Restarts after 1 s."""
    names = ("play", "break", "stumble", "busy", "miss", "sleep", "refuse")
    spec = ServerSpec(
        name="rules",
        command=("rules",),
        timeout=30.0,
        restart=RestartConfig(backoff=1.0, max_restarts=5),
        tools={name: ToolOverride(idempotent=twice_is_once) for name in names},
    )
    watcher = Watcher()
    async with trio.open_nursery() as nursery:
        spawn_connection(
            nursery,
            spec,
            publish=watcher.publish,
            warn=watcher.warn,
            report=watcher.report,
            open_session=server.open,
            rng=_NoJitter(),
        )
        await watcher.until(lambda: watcher.state("rules") is ServerState.READY)
        yield watcher
        nursery.cancel_scope.cancel()


async def call(
    watcher: Watcher, tool: str, awaited: float = 1e9, **arguments: Any
) -> ToolResult:
    """Call as a host does, on behalf of somebody who waits for so many seconds."""
    until = trio.current_time() + awaited
    context = CallContext(deadline=until, awaited_until=until)
    result = asked(watcher.tools("rules")[tool], arguments, context)
    return await result


def times(server: FakeServer) -> list[float]:
    return [at for at, _, _ in server.received]


async def test_an_idempotent_call_is_sent_once_more_over_the_next_session(
    autojump_clock: MockClock,
) -> None:  # D12, A42
    server = FakeServer()
    async with connected(server, twice_is_once=True) as watcher:
        await call(watcher, "break", times=1)
        assert times(server) == [0, 0]
        await call(watcher, "break", times=3)
        assert times(server) == [0, 0, 0, 1]  # another one costs a delay


async def test_one_that_broke_off_alone_is_sent_again_at_once(
    autojump_clock: MockClock,
) -> None:  # D12
    server = FakeServer()
    async with connected(server, twice_is_once=True) as watcher:
        await call(watcher, "stumble", times=1)
        assert times(server) == [0, 0]
        assert len(server.attempts) == 1  # over the same session


async def test_a_forgotten_session_is_followed_by_the_next_one_at_once(
    autojump_clock: MockClock,
) -> None:  # a web server that was idle, or restarted: no backoff, no failure
    server = FakeServer()
    async with connected(server, twice_is_once=False) as watcher:
        await trio.sleep(60)
        await call(watcher, "forget", awaited=0.5)
        assert trio.current_time() == 60
        assert server.attempts == [0, 60]
        assert not [w for w in watcher.warnings if "session" in w.text]
        assert watcher.statuses["rules"].restarts == 0


async def test_a_server_that_forgets_every_session_fails_like_any_other(
    autojump_clock: MockClock,
) -> None:
    server = FakeServer()
    async with connected(server, twice_is_once=False) as watcher:
        with pytest.raises(ToolUnavailable):
            await call(watcher, "forget", awaited=20, sessions=99)
        assert server.attempts == [0, 0, 1, 3, 7, 15]  # with ever longer pauses


async def test_it_is_sent_again_once_and_no_more(autojump_clock: MockClock) -> None:
    # D12
    server = FakeServer()
    async with connected(server, twice_is_once=True) as watcher:
        with pytest.raises(ConnectionLost, match="it broke"):
            await call(watcher, "stumble", times=2)
        assert times(server) == [0, 0]


async def test_a_call_with_side_effects_is_never_sent_twice(
    autojump_clock: MockClock,
) -> None:  # D12, D6
    server = FakeServer()
    async with connected(server, twice_is_once=False) as watcher:
        with pytest.raises(ConnectionLost):
            await call(watcher, "break", times=1)
        with pytest.raises(ConnectionLost):
            await call(watcher, "stumble", times=1)
        assert [name for _, name, _ in server.received] == ["break", "stumble"]


async def test_what_is_known_of_the_first_call_stands_when_there_is_no_time_for_more(
    autojump_clock: MockClock,
) -> None:  # D6: it may have had an effect, so it is not "was not asked"
    server = FakeServer(closing_takes=1)
    async with connected(server, twice_is_once=True) as watcher:
        with pytest.raises(ConnectionLost, match="it broke"):
            await call(watcher, "break", awaited=0.5, times=1)
        assert trio.current_time() == 0.49  # the server would be back at 1
        assert times(server) == [0]


async def test_a_servers_own_word_that_twice_is_as_good_as_once_is_not_believed(
    autojump_clock: MockClock,
) -> None:  # D12
    hinted = {
        "name": "stumble",
        "inputSchema": {"type": "object"},
        "annotations": {"idempotentHint": True},
    }
    server = FakeServer(tools=ToolListing((hinted,)))
    async with connected(server, twice_is_once=None) as watcher:
        with pytest.raises(ConnectionLost):
            await call(watcher, "stumble", times=1)
        assert times(server) == [0]


async def test_a_call_says_each_time_that_it_is_sent(
    autojump_clock: MockClock,
) -> None:  # a sample of latency begins then, and not while a server starts
    server = FakeServer(["ok", "ok"], starting_takes=2.0)
    sent: list[float] = []
    async with connected(server, twice_is_once=True) as watcher:
        tool = watcher.tools("rules")["break"]
        context = CallContext(sent=lambda: sent.append(trio.current_time()))
        result = asked(tool, {"times": 1}, context)
        await result
        assert sent == times(server) == [2, 4]


async def test_a_busy_server_is_asked_again_when_it_said(
    autojump_clock: MockClock,
) -> None:  # it did not run the call, so any tool may be sent again
    server = FakeServer()
    async with connected(server, twice_is_once=False) as watcher:
        await call(watcher, "busy", times=1, retry_after=2.5)
        assert times(server) == [0, 2.5]


async def test_a_busy_server_is_not_waited_for_beyond_the_callers_patience(
    autojump_clock: MockClock,
) -> None:
    server = FakeServer()
    async with connected(server, twice_is_once=False) as watcher:
        with pytest.raises(ToolUnavailable, match="too many requests"):
            await call(watcher, "busy", awaited=2.0, times=1, retry_after=2.5)
        assert trio.current_time() == 0
        with pytest.raises(ToolUnavailable):
            await call(watcher, "busy", times=9)  # it did not say when
        assert trio.current_time() == 0


async def test_a_server_that_stays_busy_is_asked_twice(
    autojump_clock: MockClock,
) -> None:
    server = FakeServer()
    async with connected(server, twice_is_once=False) as watcher:
        with pytest.raises(ToolUnavailable):
            await call(watcher, "busy", retry_after=1.0)
        assert times(server) == [0, 1]


@pytest.mark.parametrize("script", [["lost", "busy", "ok"], ["busy", "lost", "ok"]])
async def test_one_retry_is_for_all_that_may_go_wrong(
    autojump_clock: MockClock, script: list[str]
) -> None:  # D12
    server = FakeServer(tools=listing("play"))
    async with connected(server, twice_is_once=True) as watcher:
        with pytest.raises(ConnectionLost, match="it broke"):
            await call(watcher, "play", script=script)
        assert len(server.received) == 2


async def test_a_call_that_could_not_be_sent_over_a_session_that_lives_is_refused(
    autojump_clock: MockClock,
) -> None:
    server = FakeServer(tools=listing("play"))
    async with connected(server, twice_is_once=True) as watcher:
        with pytest.raises(ToolUnavailable, match="a full pipe"):
            await call(watcher, "play", script=["never", "ok"])


@given(
    st.lists(
        st.tuples(
            st.floats(0, 20),
            st.sampled_from(["break", "stumble", "busy", "miss", "sleep", "refuse"]),
            st.floats(0, 10),
            st.integers(0, 3),
        ),
        max_size=10,
    ),
    st.lists(st.sampled_from(["ok", "refuse", 0.5, 3.0]), max_size=8),
    st.booleans(),
)
def test_whatever_happens_no_call_is_run_more_often_than_its_tool_allows(
    calls: list[tuple[float, str, float, int]],
    script: list[str | float],
    twice_is_once: bool,
) -> None:  # D12: the server counts how often it began to run each of them
    async def main() -> None:
        server = FakeServer(["ok", *script])
        begun: list[str] = []

        async with connected(server, twice_is_once=twice_is_once) as watcher:
            tools = watcher.tools("rules")

            async def ask(at: float, name: str, awaited: float, times: int) -> None:
                await trio.sleep_until(at)
                until = trio.current_time() + awaited
                context = CallContext(deadline=until, awaited_until=until)
                arguments = {
                    "times": times,
                    "retry_after": 0.5,
                    "seconds": 1.0,
                    "sessions": times,
                }
                result = asked(tools[name], arguments, context)
                begun.append(name)
                with (
                    trio.move_on_at(until),
                    suppress(ToolError, ToolUnavailable, ConnectionLost),
                ):
                    await result

            async with trio.open_nursery() as askers:
                for one in calls:
                    askers.start_soon(ask, *one)
        for name in set(begun):
            allowed = 2 if twice_is_once else 1
            assert server.ran.count(name) <= allowed * begun.count(name)

    trio.run(main, clock=MockClock(autojump_threshold=0))
