"""Leaving a fan-out interrupts it; running calls follow their policy (D12a)."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.host import ToolHost, open_host
from glyphoxa_trio.host.executor import LONGEST_FLIGHT
from glyphoxa_trio.tools.definition import OnInterrupt
from glyphoxa_trio.tools.outcome import Effect, Limit, Outcome, Status

from .fakes import Does, Log, fake, fan_out, messages, statuses

CANCEL, SILENTLY, SPEAK = OnInterrupt


@attrs.define
class Heard:
    """What an interrupted caller was told, and when."""

    ends: list[tuple[int, Outcome, float]] = attrs.field(factory=list)
    late: list[tuple[Outcome, float]] = attrs.field(factory=list)

    def on_outcome(self, index: int, outcome: Outcome) -> None:
        self.ends.append((index, outcome, trio.current_time()))

    def on_late(self, outcome: Outcome) -> None:
        self.late.append((outcome, trio.current_time()))

    def statuses(self) -> list[str]:
        """In call order."""
        ordered = sorted(self.ends, key=lambda end: end[0])
        return statuses(outcome for _, outcome, _ in ordered)


async def interrupted(
    host: ToolHost, *calls: str, after: float = 0.1, **caller: Any
) -> Heard:
    heard = Heard()
    with trio.move_on_after(after) as turn:
        await fan_out(
            host, *calls, on_outcome=heard.on_outcome, on_late=heard.on_late, **caller
        )
        pytest.fail("the turn was interrupted")
    assert turn.cancelled_caught
    await wait_all_tasks_blocked()
    return heard


@pytest.mark.parametrize("more", [(), ("look", "look")], ids=["alone", "beside others"])
async def test_a_read_is_cancelled_with_its_turn(
    more: tuple[str, ...], autojump_clock: MockClock
) -> None:
    # Found: of several calls none was reported, and the history had no answers.
    log = Log()
    async with open_host() as host:
        host.register(fake("look", 3, read_only=True, log=log))
        heard = await interrupted(host, "look", *more)
        assert log.cancelled == [("look", 0.1)] * (1 + len(more))
        await trio.sleep(5)
    assert heard.statuses() == ["cancelled"] * (1 + len(more))
    assert {(outcome.message, at) for _, outcome, at in heard.ends} == {
        ("interrupted", 0.1)
    }
    assert heard.late == []


@pytest.mark.parametrize("policy", [SILENTLY, SPEAK])
async def test_a_call_that_may_finish_does_and_is_reported_late(
    policy: OnInterrupt, autojump_clock: MockClock
) -> None:
    log = Log()
    async with open_host() as host:
        host.register(fake("act", 3, on_interrupt=policy, log=log))
        heard = await interrupted(host, "act")
        ((_, end, _),) = heard.ends
        assert (end.status, end.effect) == (Status.CANCELLED, Effect.UNKNOWN)
        assert end.message == "interrupted; it goes on by itself"
        await trio.sleep(5)
    assert log.ended == [("act", 3)]
    ((late, at),) = heard.late
    assert (late.status, late.effect, late.message, at) == (
        Status.OK,
        Effect.DONE,
        "act",
        3,
    )
    assert heard.statuses() == ["cancelled"]  # once, whatever came later


async def test_the_default_is_to_cancel_reads_and_to_finish_writes(
    autojump_clock: MockClock,
) -> None:
    log = Log()
    async with open_host() as host:
        host.register(fake("act", 3, log=log), fake("look", 3, read_only=True, log=log))
        await interrupted(host, "act", "look")
        await trio.sleep(5)
    assert (log.ended, log.cancelled) == ([("act", 3)], [("look", 0.1)])


async def test_a_write_may_be_cancelled_too_and_its_effect_is_unknown(
    autojump_clock: MockClock,
) -> None:
    log, unknown = Log(), set[tuple[str, str]]()
    async with open_host() as host:
        host.register(fake("act", 3, on_interrupt=CANCEL, log=log))
        heard = await interrupted(host, "act", unknown_effects=unknown)
    ((_, end, _),) = heard.ends
    assert (end.effect, end.message) == (Effect.UNKNOWN, "interrupted")
    assert log.cancelled == [("act", 0.1)]
    assert unknown == {("fake.act", "{}")}


async def test_every_call_is_reported_once_whatever_had_become_of_it(
    autojump_clock: MockClock,
) -> None:
    log = Log()
    async with open_host() as host:
        host.register(
            fake("quick", 0.05, read_only=True),
            fake("first", 3, on_interrupt=CANCEL),
            fake("second", log=log),
        )
        heard = await interrupted(host, "quick", "first", "second", "nonsense")
    assert heard.statuses() == ["ok", "cancelled", "cancelled", "denied"]
    second = next(outcome for index, outcome, _ in heard.ends if index == 2)
    assert (second.tool, second.effect) == ("fake.second", Effect.NONE)
    assert log.began == []  # it had waited for the first


async def test_a_turn_that_is_over_already_begins_nothing(
    autojump_clock: MockClock,
) -> None:
    # Found: a handler ran up to its first checkpoint, a write for good.
    log = Log()
    async with open_host() as host:
        host.register(fake("act", 1, log=log), fake("look", read_only=True, log=log))
        heard = await interrupted(host, "act", "look", after=0)
        assert heard.statuses() == ["cancelled"] * 2
        assert {end.effect for _, end, _ in heard.ends} == {Effect.NONE}
        await trio.sleep(5)
    assert (log.began, heard.late) == ([], [])


@pytest.mark.parametrize(
    ("does", "status"),
    [
        (Does.SAY_NO, Status.TOOL_ERROR),
        (Does.CRASH, Status.CRASHED),
        (Does.LOSE, Status.UNAVAILABLE),
    ],
)
async def test_a_late_end_may_be_a_bad_one(
    does: Does, status: Status, autojump_clock: MockClock
) -> None:
    async with open_host() as host:
        host.register(fake("act", 1, does))
        heard = await interrupted(host, "act")
        await trio.sleep(5)
    ((late, at),) = heard.late
    assert (late.status, at) == (status, 1)


@pytest.mark.parametrize(
    ("limits", "limit", "at"),
    [
        ({"max_duration": 2.0}, Limit.TOOL, 2),
        ({"max_duration": 2.0, "server_timeout": 1.0}, Limit.SERVER, 1),
        ({}, Limit.HOST, LONGEST_FLIGHT),  # nobody limited it, so we do
        ({"max_duration": 45.0}, Limit.TOOL, 45),
    ],
)
async def test_a_call_that_may_finish_has_its_own_limits_still(
    limits: dict[str, float], limit: Limit, at: float, autojump_clock: MockClock
) -> None:
    log = Log()
    async with open_host() as host:
        host.register(fake("act", 0, Does.HANG, log=log, **limits))
        heard = await interrupted(host, "act")
        await trio.sleep(60)
    assert log.cancelled == [("act", at)]
    ((late, heard_at),) = heard.late
    assert (late.status, late.limit, late.effect) == (
        Status.TIMEOUT,
        limit,
        Effect.UNKNOWN,
    )
    assert heard_at == at


async def test_a_call_that_the_turns_time_cut_does_not_go_on(
    autojump_clock: MockClock,
) -> None:
    # D3: the clock is not an interruption
    log = Log()
    async with open_host() as host:
        host.register(fake("act", 3, on_interrupt=SPEAK, log=log))
        (outcome,) = await fan_out(host, "act")
        await trio.sleep(5)
    assert (outcome.status, outcome.limit) == (Status.TIMEOUT, Limit.TURN)
    assert log.cancelled == [("act", 0.5)]


async def test_an_interruption_as_the_time_is_up_promises_nothing(
    autojump_clock: MockClock,
) -> None:
    # Found: the call was cut, and said to go on.
    async with open_host() as host:
        host.register(fake("act", 3))
        with trio.move_on_after(0.5):
            heard = Heard()
            await fan_out(
                host, "act", on_outcome=heard.on_outcome, on_late=heard.on_late
            )
        await trio.sleep(60)
    ((_, end, at),) = heard.ends
    assert (end.effect, at) == (Effect.UNKNOWN, 0.5)
    assert ("goes on" in end.message) is bool(heard.late)


async def test_a_call_that_goes_on_can_be_shared(autojump_clock: MockClock) -> None:
    log = Log()
    async with open_host() as host:
        host.register(
            fake("light", 1, idempotent=True, cacheable=60, log=log, on_interrupt=SPEAK)
        )
        heard = await interrupted(host, "light")
        outcomes = await fan_out(host, "light", within=4)
        assert trio.current_time() == 1
    assert messages(outcomes) == ["light"]
    assert log.began == [("light", 0)]
    assert len(heard.late) == 1


async def test_closing_the_host_ends_what_goes_on(autojump_clock: MockClock) -> None:
    log = Log()
    async with open_host() as host:
        host.register(fake("act", 0, Does.HANG, log=log))
        heard = await interrupted(host, "act")
    assert log.cancelled == [("act", 0.1)]
    assert heard.late == []
