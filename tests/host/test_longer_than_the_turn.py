"""Calls whose caller lets them take longer than its turn. Virtual time."""

from __future__ import annotations

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.host import open_host
from glyphoxa_trio.tools.definition import OnInterrupt
from glyphoxa_trio.tools.outcome import Limit, Outcome, Status, ToolCall
from glyphoxa_trio.tools.tier import Tier

from .fakes import Log, fake, statuses
from .test_trials import turn

DEEP = Tier.DEEP


async def test_what_reaches_the_end_of_the_turn_goes_on(
    autojump_clock: MockClock,
) -> None:  # G16, D23d
    log, late = Log(), list[Outcome]()
    async with open_host() as host:
        host.register(fake("read", 6.0, log=log, read_only=True))
        (end,) = await turn(host, "read", tier=DEEP, longest=30.0, on_late=late.append)
        assert (end.status, trio.current_time()) == (Status.PENDING, 4.0)
        await trio.sleep_until(6.0)
        await wait_all_tasks_blocked()
        assert [x.status for x in late] == [Status.OK]
        assert log.cancelled == []


async def test_what_is_known_to_take_longer_is_waited_for_in_no_time(
    autojump_clock: MockClock,
) -> None:  # D23d: and the others are waited for
    log, late = Log(), list[Outcome]()
    at: dict[int, float] = {}

    def ended(slot: int, _: Outcome) -> None:
        at[slot] = trio.current_time()

    async with open_host() as host:
        host.register(
            fake("long", 20.0, log=log, estimated_duration=10.0),
            fake("quick", 0.5, log=log),
        )
        ends = await turn(
            host,
            *("long", "quick"),
            tier=DEEP,
            longest=30.0,
            on_late=late.append,
            on_outcome=ended,
        )
        assert statuses(ends) == ["pending", "ok"]
        assert at == {0: 0.0, 1: 0.5}
        await trio.sleep_until(20.0)
        await wait_all_tasks_blocked()
        assert [x.status for x in late] == [Status.OK]


async def test_no_call_takes_longer_than_its_caller_lets_it(
    autojump_clock: MockClock,
) -> None:
    log, late = Log(), list[Outcome]()
    async with open_host() as host:
        host.register(fake("read", 60.0, log=log))
        await turn(host, "read", tier=DEEP, longest=10.0, on_late=late.append)
        await trio.sleep_until(10.0)
        await wait_all_tasks_blocked()
        (end,) = late
        assert (end.status, end.limit) == (Status.TIMEOUT, Limit.HOST)
        assert log.cancelled == [("read", 10.0)]
        # Also if that is before the end of the turn; then it is not left at all.
        (end,) = await turn(host, "read", tier=DEEP, longest=1.0)
        assert (end.status, end.limit) == (Status.TIMEOUT, Limit.HOST)
        assert trio.current_time() == 11.0


async def test_its_own_limit_holds_wherever_it_goes_on(
    autojump_clock: MockClock,
) -> None:
    late: list[Outcome] = []
    async with open_host() as host:
        host.register(fake("read", 60.0, max_duration=7.0))
        await turn(host, "read", tier=DEEP, longest=30.0, on_late=late.append)
        await trio.sleep_until(7.0)
        await wait_all_tasks_blocked()
        assert [(x.status, x.limit) for x in late] == [(Status.TIMEOUT, Limit.TOOL)]


async def test_a_write_that_was_interrupted_is_not_made_again_until_it_was_told(
    autojump_clock: MockClock,
) -> None:  # D6, D12a, D23d
    log, pending = Log(), dict[tuple[str, str], ToolCall]()
    write = fake("write", 3.0, log=log, on_interrupt=OnInterrupt.FINISH_SILENTLY)
    async with open_host() as host:
        host.register(write)
        with trio.move_on_after(0.5):
            await turn(host, "write", tier=DEEP, pending=pending)
        assert [key for key, _ in pending] == ["fake.write"]
        (again,) = await turn(host, "write", tier=DEEP, pending=pending)
        assert again.status is Status.DENIED
        assert "still working" in again.message
        await trio.sleep_until(3.0)
        pending.clear()
        (again,) = await turn(host, "write", tier=DEEP, pending=pending)
        assert again.status is Status.OK
    assert [x for x, _ in log.began] == ["write", "write"]
