"""Servers that ask their client: politely refused, and never at a caller's cost."""

from __future__ import annotations

import pytest

import trio

from .support import READY, beside

pytestmark = pytest.mark.border


async def test_a_ping_during_a_call_is_answered() -> None:
    async with beside("asks", what="ping") as table:
        assert (await table.call("bad")).data == {"result": {}}


@pytest.mark.parametrize("what", ["roots", "sampling", "elicitation", "unknown"])
async def test_what_nobody_offers_is_refused_and_the_call_goes_on(what: str) -> None:
    async with beside("asks", what=what) as table:
        outcome = await table.call("bad")
        assert outcome.ok
        error = outcome.data["error"]
        assert error["code"] in (-32601, -32600), error
        assert error["message"]
        assert (await table.call("echo", say="hi")).data == {"say": "hi"}


async def test_a_request_that_is_broken_is_refused_and_the_call_goes_on() -> None:
    async with beside("asks", what="broken") as table:
        outcome = await table.call("bad")
        assert outcome.ok
        assert outcome.data["error"]["code"] < 0
        assert table.row().restarts == 0


@pytest.mark.parametrize(
    "what",
    [
        "sampling",
        *(pytest.param(x, marks=pytest.mark.long) for x in ("ping", "unknown")),
    ],
)
async def test_a_flood_of_requests_delays_nobody(what: str) -> None:
    async with beside("floods_requests", what=what) as table:
        await table.good_many_times()
        for number in range(2):
            outcome = await table.call("echo", number=number)
            assert outcome.data == {"number": number}
        assert table.row().restarts == 0


async def test_a_flood_of_requests_whose_answers_nobody_reads_fills_no_memory() -> None:
    # Its stdin is full and stays so: what is not written must not pile up here.
    async with beside("floods_requests", what="ping", reading="no") as table:
        assert table.row().state is READY
        most = 0
        for _ in range(100):
            await table.good()
            most = max(most, trio.lowlevel.current_statistics().tasks_living)
        assert most < 200


async def test_a_flood_of_progress_delays_nobody() -> None:
    async with beside("floods_progress") as table:
        await table.good_many_times()
        for number in range(2):
            outcome = await table.call("echo", number=number)
            assert outcome.data == {"number": number}
        assert table.row().restarts == 0
