"""Tools of servers that have a connection for each session: what fails in one session
is held against no other."""

from __future__ import annotations

from typing import Any

import attrs

import trio

from glyphoxa_trio import Tier, Tool, open_host, tool
from glyphoxa_trio.host import Caller, ToolHost
from glyphoxa_trio.tools.definition import CallContext, ConnectionLost
from glyphoxa_trio.tools.gate import EVERYTHING
from glyphoxa_trio.tools.outcome import Outcome, Status, ToolCall, ToolResult


def broken_in(session: str, *, apart: bool = True) -> Tool:
    """A tool whose connection dies in that session."""

    @tool(group="diary", estimated_duration_ms=1, read_only=True)
    async def read() -> str:
        """Read the diary."""
        return ""

    async def handler(arguments: Any, context: CallContext) -> ToolResult:
        await trio.sleep(0.01)
        if context.session == session:
            raise ConnectionLost("its server is gone")
        return ToolResult(text=(f"Of {context.tenant} {context.session}.",))

    return attrs.evolve(read, handler=handler, per_session=apart)


async def call(host: ToolHost, session: str, tenant: str = "") -> Outcome:
    caller = Caller(grant=EVERYTHING, npc="Bo", session=session, tenant=tenant)
    (outcome,) = await host.fan_out(
        [ToolCall("c", "read", "{}")], caller, deadline=trio.current_time() + 1
    )
    return outcome


def shown(host: ToolHost, session: str) -> bool:
    return bool(host.tools(Tier.DEEP, whose=("", session)))


async def break_in(host: ToolHost, session: str) -> None:
    for _ in range(5):
        assert (await call(host, session)).status is Status.UNAVAILABLE
        await trio.sleep(0.1)


async def test_a_breaker_is_that_of_one_session(
    autojump_clock: trio.testing.MockClock,
) -> None:  # D29
    async with open_host() as host:
        host.register(broken_in("one"))
        await break_in(host, "one")
        refused = await call(host, "one")
        assert "it failed repeatedly" in refused.message
        assert not shown(host, "one")
        assert shown(host, "two")
        assert (await call(host, "two")).ok
        assert (await call(host, "one", tenant="guild")).status is Status.UNAVAILABLE
        # Another of that name has another connection, and nothing is held against it.
        host.leave_session("", "one")
        assert shown(host, "one")
        again = await call(host, "one")
        assert "it failed repeatedly" not in again.message


async def test_a_breaker_of_a_shared_connection_is_everybodys(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_host() as host:
        host.register(broken_in("one", apart=False))
        await break_in(host, "one")
        assert not shown(host, "two")
        assert "it failed repeatedly" in (await call(host, "two")).message
        host.leave_session("", "one")
        assert not shown(host, "two")


async def test_what_a_tool_was_is_forgotten_in_all_sessions(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_host() as host:
        host.register(broken_in("one"))
        await break_in(host, "one")
        host.deregister("diary.read")
        host.register(broken_in("three"))
        assert shown(host, "one")
        assert (await call(host, "one")).ok
