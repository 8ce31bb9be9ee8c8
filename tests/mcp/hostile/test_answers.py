"""Servers that answer late, twice, to somebody else, or with nonsense."""

from __future__ import annotations

import json

import pytest

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio import Outcome, Tier
from glyphoxa_trio.tools.gate import Reason, Refusal
from glyphoxa_trio.tools.outcome import Effect, Limit, Status
from glyphoxa_trio.tools.speech import outcome_text

from .support import FAST, LIMIT, PATIENCE, READY, beside

pytestmark = pytest.mark.border


async def test_a_call_that_is_never_answered_ends_at_its_servers_limit(
    mock_clock: MockClock,
) -> None:
    async with beside("never_answers", timeout=PATIENCE) as table:
        outcome = await table.in_vain("bad")
        assert outcome.elapsed == pytest.approx(PATIENCE, abs=1e-3)
        assert (outcome.status, outcome.limit) == (Status.TIMEOUT, Limit.SERVER)
        assert "its server's limit was reached" in outcome.message
        assert (await table.call("echo")).ok
        assert table.row().state is READY


async def test_a_fast_turn_does_not_wait_for_a_server_longer_than_it_may(
    mock_clock: MockClock,
) -> None:
    async with beside("never_answers", timeout=LIMIT) as table:
        outcome = await table.in_vain("bad", Tier.FAST)
        assert (outcome.status, outcome.limit) == (Status.TIMEOUT, Limit.TURN)
        assert outcome.elapsed == pytest.approx(FAST, abs=1e-3)
        assert (await table.call("echo")).ok


async def test_a_server_that_never_answers_is_left_alone_after_five_times(
    mock_clock: MockClock,
) -> None:
    async with beside("never_answers", timeout=PATIENCE) as table:
        for _ in range(5):
            assert (await table.in_vain("bad")).status is Status.TIMEOUT
        outcome = await table.call("bad")
        assert outcome.status is Status.UNAVAILABLE
        assert "it failed repeatedly" in outcome.message
        assert (await table.call("echo")).ok  # its other tools are another matter


async def test_a_server_that_never_answers_is_hidden_where_turns_cut_it(
    mock_clock: MockClock,
) -> None:
    # As with the default timeout, which is longer than any turn: no breaker opens.
    async with beside("never_answers", timeout=LIMIT) as table:
        why: dict[str, Refusal | None] = {}
        while not why.get("never_answers.bad"):
            outcome = await table.in_vain("bad", Tier.FAST)
            assert (outcome.status, outcome.limit) == (Status.TIMEOUT, Limit.TURN)
            await wait_all_tasks_blocked()
            explained = table.runtime.host.explain(Tier.FAST)
            why = {listing.key: no for listing, no in explained}
        assert why["never_answers.echo"] is None
        refusal = why["never_answers.bad"]
        assert refusal is not None
        assert refusal.reason in (Reason.OVER_TIER, Reason.OVER_BUDGET)
        assert "it is tried again after about 1 min of talk" in refusal.remedy


async def test_an_answer_that_comes_too_late_is_nobody_elses(
    mock_clock: MockClock,
) -> None:
    async with beside("answers_late", ms=200, timeout=PATIENCE) as table:
        late = await table.in_vain("bad", number=1)
        assert (late.status, late.limit) == (Status.TIMEOUT, Limit.SERVER)
        for number in range(30):  # the late answer comes in between these
            outcome = await table.call("echo", number=number)
            assert outcome.data == {"number": number}
            await wait_all_tasks_blocked(0.01)
        assert table.warnings == []


async def test_the_second_answer_to_a_call_is_nobodys() -> None:
    async with beside("answers_twice") as table:
        ended: dict[int, Outcome] = {}

        async def call(number: int) -> None:
            ended[number] = await table.call("echo", number=number)

        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(call, number)
        assert {n: x.data for n, x in ended.items()} == {
            n: {"number": n} for n in range(50)
        }
        assert (table.row().restarts, table.warnings) == (0, [])


@pytest.mark.parametrize("kind", ["unknown", "type", "null", "absent", "object"])
async def test_an_answer_to_nobody_is_a_timeout_of_the_call(
    mock_clock: MockClock,
    kind: str,
) -> None:
    async with beside("answers_with_a_wrong_id", kind=kind, timeout=PATIENCE) as table:
        outcome = await table.in_vain("bad")
        assert (outcome.status, outcome.limit) == (Status.TIMEOUT, Limit.SERVER)
        assert (await table.call("echo", say="hi")).data == {"say": "hi"}
        assert table.row().restarts == 0


async def test_a_text_in_place_of_a_list_of_blocks_is_read() -> None:
    async with beside("answers_with_nonsense", kind="content") as table:
        assert (await table.call("bad")).ok
        assert table.row().restarts == 0


@pytest.mark.parametrize("kind", ["nothing", "both", "result", "block", "error"])
async def test_an_answer_that_cannot_be_used_fails_that_call_at_once(kind: str) -> None:
    async with beside("answers_with_nonsense", kind=kind, timeout=LIMIT) as table:
        outcome = await table.call("bad")
        assert outcome.status is Status.TOOL_ERROR
        assert outcome.message
        assert (await table.call("echo", say="hi")).data == {"say": "hi"}
        assert table.row().restarts == 0


async def test_an_answer_that_cannot_be_used_leaves_the_effect_of_a_write_unknown() -> (
    None
):
    # D6: it was executed for all anybody knows; that is not the tool saying no
    async with beside("answers_with_nonsense", writes=1) as table:
        outcome = await table.call("bad")
        assert outcome.effect is Effect.UNKNOWN


@pytest.mark.parametrize("kind", ["array", "version"])
async def test_what_is_no_json_rpc_is_no_answer(
    mock_clock: MockClock,
    kind: str,
) -> None:
    async with beside("answers_with_nonsense", kind=kind, timeout=PATIENCE) as table:
        outcome = await table.in_vain("bad")
        assert outcome.status in (Status.TIMEOUT, Status.TOOL_ERROR)
        assert (await table.call("echo", say="hi")).data == {"say": "hi"}
        assert table.row().restarts == 0


async def test_an_answer_of_15_mb_arrives_and_is_cut_for_the_model() -> None:
    async with beside("answers_at_length", mb=15) as table:
        outcome = await table.call("bad")
        assert outcome.ok
        assert len(outcome.message) <= 1000
        assert table.row().restarts == 0


async def test_an_answer_of_17_mb_costs_its_call_and_nothing_else() -> None:
    async with beside("answers_at_length", mb=17, writes=1) as table:
        outcome = await table.call("bad")
        assert (outcome.status, outcome.effect) == (Status.TOOL_ERROR, Effect.UNKNOWN)
        assert "16 MB" in outcome.message
        assert (await table.call("echo")).ok
        assert table.row().restarts == 0


@pytest.mark.parametrize("levels", [50, 1_000, 100_000])
async def test_an_answer_however_deep_ends_the_call_and_nothing_else(
    mock_clock: MockClock,
    levels: int,
) -> None:
    async with beside("answers_deeply", levels=levels, timeout=PATIENCE) as table:
        # What cannot be read is no answer.
        outcome = await (table.call if levels == 50 else table.in_vain)("bad")
        assert outcome.ok is (levels == 50)
        assert outcome.status is not Status.CRASHED, outcome
        assert (await table.call("echo", say="hi")).data == {"say": "hi"}
        assert table.row().restarts == 0


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "digits"])
async def test_what_is_no_number_ends_the_call_and_nothing_else(number: str) -> None:
    async with beside("answers_with_no_number", number=number) as table:
        outcome = await table.call("bad")
        assert outcome.status in (Status.OK, Status.TOOL_ERROR), outcome
        # Whatever a model is told of it is JSON.
        json.loads(outcome_text(outcome), parse_constant=pytest.fail)
        assert (await table.call("echo", say="hi")).data == {"say": "hi"}
        assert table.row().restarts == 0
