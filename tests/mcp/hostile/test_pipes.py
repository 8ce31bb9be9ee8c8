"""Servers that misuse their pipes: what gets through, and what a call ends as."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio import Outcome, Tier
from glyphoxa_trio.tools.outcome import Effect, Limit, Status

from .support import (
    FAILED,
    FAST,
    LIMIT,
    ONCE,
    PATIENCE,
    READY,
    beside,
    pass_time,
)

pytestmark = pytest.mark.border

# ------------------------------------------------------------------- deaf


async def test_calls_to_a_server_that_stops_reading_end_at_the_turns_limit(
    mock_clock: MockClock,
) -> None:
    # Together they are more than its stdin holds, so some cannot even be written.
    async with beside("stops_reading", timeout=LIMIT) as table:
        ended: list[Outcome] = []

        async def call(tool: str) -> None:
            outcome = await table.call(tool, Tier.FAST, say="x" * 50_000)
            ended.append(outcome)

        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(call, "echo")
                nursery.start_soon(call, "write")
            await table.good()
            await wait_all_tasks_blocked(0.01)
            pass_time(FAST)
        assert {(x.status, x.limit) for x in ended} == {(Status.TIMEOUT, Limit.TURN)}
        effects = {(x.tool, x.effect) for x in ended}
        assert effects == {
            ("stops_reading.echo", Effect.NONE),
            ("stops_reading.write", Effect.UNKNOWN),
        }
        assert table.row().state is READY


async def test_a_server_that_closes_its_stdin_is_replaced() -> None:
    async with beside("closes_its_stdin") as table:
        first = table.pid
        assert (await table.call("bad")).ok
        # The next one finds out, and is answered by the server that comes after.
        assert (await table.call("echo")).ok
        assert table.pid != first
        assert table.warnings == ["closed its stdin\n  deaf"]


async def test_a_server_that_closes_its_stdout_loses_the_call_and_is_replaced() -> None:
    async with beside("closes_its_stdout", writes=1) as table:
        first = table.pid
        outcome = await table.call("bad")
        assert (outcome.status, outcome.effect) == (Status.UNAVAILABLE, Effect.UNKNOWN)
        assert (await table.call("echo")).ok
        assert table.pid != first
        assert table.warnings == ["closed its stdout"]


# ---------------------------------------------------------------- garbage


@pytest.mark.parametrize("where", ["before", "between"])
@pytest.mark.parametrize("what", ["prints_garbage", "prints_binary"])
async def test_what_is_no_message_on_stdout_costs_nothing(
    what: str, where: str
) -> None:
    async with beside(what, where=where) as table:
        for _ in range(3):
            assert (await table.call("echo", say="hi")).data == {"say": "hi"}
        assert table.warnings == []
        assert table.row().restarts == 0


@pytest.mark.parametrize("what", ["prints_garbage", "prints_binary"])
async def test_garbage_in_place_of_an_answer_is_a_timeout_of_that_call(
    mock_clock: MockClock,
    what: str,
) -> None:
    async with beside(what, where="instead", timeout=PATIENCE) as table:
        outcome = await table.in_vain("bad")
        assert (outcome.status, outcome.limit) == (Status.TIMEOUT, Limit.SERVER)
        assert (await table.call("echo")).ok
        assert table.row().restarts == 0


async def test_what_it_printed_is_shown_when_it_is_lost(
    mock_clock: MockClock,
) -> None:
    # A41: printable and in one place, beside what it wrote to stderr.
    async with beside("prints_garbage", where="instead", timeout=PATIENCE) as table:
        await table.in_vain("bad")
        # What it said after that comes after its garbage.
        assert (await table.call("echo")).ok
        os.kill(table.pid, signal.SIGKILL)
        await table.until(lambda: bool(table.warnings))
        assert "stdout: warming up ..." in table.warnings[0]
        assert "\x1b" not in table.warnings[0]


# --------------------------------------------------------------- too much

TOO_LONG = "it wrote a line of more than 16 MB"


async def test_a_line_of_50_mb_before_anything_else_is_a_failed_start() -> None:
    options: dict[str, Any] = {"where": "before", "restart": ONCE}
    async with beside("prints_a_long_line", **options) as table:
        await table.until(lambda: table.row().state is FAILED)
        assert table.warnings[0] == TOO_LONG


async def test_a_line_of_50_mb_in_place_of_an_answer_costs_the_connection() -> None:
    async with beside("prints_a_long_line", where="instead", writes=1) as table:
        outcome = await table.call("bad")
        assert outcome.status is Status.UNAVAILABLE
        assert TOO_LONG in outcome.message
        assert (await table.call("echo")).ok
        assert (table.row().restarts, table.warnings) == (1, [TOO_LONG])


async def test_a_line_of_1_mb_between_answers_is_only_garbage() -> None:
    async with beside("prints_a_long_line", where="between", mb=1) as table:
        assert (await table.call("echo")).ok
        assert (table.row().restarts, table.warnings) == (0, [])


async def test_a_line_without_an_end_is_cut_off() -> None:
    async with beside("never_ends_a_line", restart=ONCE) as table:
        await table.until(lambda: table.row().state is FAILED)
        assert table.warnings[0].startswith(TOO_LONG)
        assert len(table.warnings[0]) < 5000


@pytest.mark.parametrize(
    "what", [pytest.param("lines", marks=pytest.mark.long), "empty", "messages"]
)
async def test_a_flood_on_stdout_delays_no_other_server(what: str) -> None:
    async with beside("floods_stdout", what=what) as table:
        await table.good_many_times()
        outcome = await table.call("echo", say="hi")
        assert outcome.data == {"say": "hi"}
        assert table.row().restarts == 0


async def test_a_flood_on_stderr_delays_nobody_and_is_not_kept() -> None:
    # A41: it is read for ever, or the server would hang on its own stderr.
    async with beside("floods_stderr") as table:
        await table.good_many_times()
        for _ in range(5):
            assert (await table.call("echo", say="hi")).data == {"say": "hi"}
        assert (table.row().restarts, table.warnings) == (0, [])


async def test_an_answer_that_drips_is_put_together() -> None:
    async with beside("drips", ms=1) as table:
        assert (await table.call("bad", say="hi")).data == {"say": "hi"}


async def test_an_answer_that_drips_too_slowly_is_a_timeout(
    mock_clock: MockClock,
) -> None:
    async with beside("drips", ms=50, timeout=PATIENCE) as table:
        outcome = await table.in_vain("bad", say="hi")
        assert (outcome.status, outcome.limit) == (Status.TIMEOUT, Limit.SERVER)
