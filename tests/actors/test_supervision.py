"""Supervision: typed events in order, growing backoff, and a last restart."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock

from glyphoxa_trio.actors import (
    Backoff,
    Failed,
    GaveUp,
    Inbox,
    Request,
    Restarting,
    Started,
    SupervisionEvent,
    spawn,
    supervise,
)
from glyphoxa_trio.errors import ActorGone, RestartsExhausted

STEADY = Backoff(first=1, factor=2, ceiling=4, jitter=0, max_restarts=3, period=60)


class Died(Exception):
    pass


def lives(*uptimes: float) -> Callable[[], Awaitable[None]]:
    """A child that dies after each of ``uptimes``, and then ends well."""
    remaining = iter(uptimes)

    async def child() -> None:
        uptime = next(remaining, None)
        if uptime is not None:
            await trio.sleep(uptime)
            raise Died(f"after {uptime:g}")

    return child


async def test_a_child_that_ends_well_is_not_restarted(
    autojump_clock: MockClock,
) -> None:
    events: list[SupervisionEvent] = []
    await supervise(lives(), STEADY, name="server", on_event=events.append)
    assert events == [Started(name="server", life=1)]


async def test_events_tell_of_each_life_failure_and_restart(
    autojump_clock: MockClock,
) -> None:
    events: list[tuple[float, SupervisionEvent]] = []

    def on_event(event: SupervisionEvent) -> None:
        events.append((trio.current_time(), event))

    await supervise(lives(0.5, 2), STEADY, name="server", on_event=on_event)
    (_, first), (_, second) = [e for e in events if isinstance(e[1], Failed)]
    assert isinstance(first, Failed)
    assert isinstance(second, Failed)
    assert [str(first.error), str(second.error)] == ["after 0.5", "after 2"]
    assert events == [
        (0.0, Started(name="server", life=1)),
        (0.5, Failed(name="server", life=1, error=first.error, uptime=0.5)),
        (0.5, Restarting(name="server", delay=1.0, failures=1)),
        (1.5, Started(name="server", life=2)),
        (3.5, Failed(name="server", life=2, error=second.error, uptime=2.0)),
        (3.5, Restarting(name="server", delay=2.0, failures=2)),
        (5.5, Started(name="server", life=3)),
    ]


async def test_too_many_failures_end_it_with_the_last_as_the_cause(
    autojump_clock: MockClock,
) -> None:
    # D17
    events: list[SupervisionEvent] = []
    with pytest.raises(
        RestartsExhausted, match=r"^server: 4 failures in 60s$"
    ) as exhausted:
        await supervise(
            lives(0, 0, 0, 0.5), STEADY, name="server", on_event=events.append
        )
    assert isinstance(exhausted.value.__cause__, Died)
    assert str(exhausted.value.__cause__) == "after 0.5"
    assert trio.current_time() == 1 + 2 + 4 + 0.5
    assert isinstance(events[-2], Failed)
    assert events[-2].life == 4
    assert events[-1] == GaveUp(name="server", failures=4)


async def test_no_restarts_allowed_is_one_life(autojump_clock: MockClock) -> None:
    with pytest.raises(RestartsExhausted, match="child: 1 failures"):
        await supervise(lives(1), Backoff(max_restarts=0))
    assert trio.current_time() == 1


async def test_uptime_forgives(autojump_clock: MockClock) -> None:
    # D17: the failure count is a sliding window by time.
    events: list[SupervisionEvent] = []
    await supervise(lives(0, 0, 0, 61, 0, 0), STEADY, on_event=events.append)
    restarts = [event for event in events if isinstance(event, Restarting)]
    # Failures at 0, 1, 3 are older than a minute at 68; the next are counted anew.
    assert [(event.failures, event.delay) for event in restarts] == [
        (1, 1.0),
        (2, 2.0),
        (3, 4.0),
        (1, 1.0),
        (2, 2.0),
        (3, 4.0),
    ]


async def test_the_window_slides_and_does_not_start_anew(
    autojump_clock: MockClock,
) -> None:
    backoff = Backoff(first=1, factor=1, jitter=0, max_restarts=2, period=10)
    events: list[SupervisionEvent] = []
    # Failures at 0, 6, 12, 18: never more than two within ten seconds.
    await supervise(lives(0, 5, 5, 5), backoff, on_event=events.append)
    restarts = [event for event in events if isinstance(event, Restarting)]
    assert [event.failures for event in restarts] == [1, 2, 2, 2]
    # At exactly the period's length a failure still counts: 0, 5, 10.
    with pytest.raises(RestartsExhausted, match="3 failures in 10s"):
        await supervise(lives(0, 4, 4), backoff)


async def test_a_failure_that_is_excused_costs_no_delay_and_lengthens_none(
    autojump_clock: MockClock,
) -> None:  # D17
    answers = iter([True, False, False, True, False])
    events: list[SupervisionEvent] = []
    await supervise(
        lives(0, 0, 0, 61, 0),
        STEADY,
        at_once=answers.__next__,
        on_event=events.append,
    )
    restarts = [event for event in events if isinstance(event, Restarting)]
    # It counts towards the limit all the same.
    assert [(event.failures, event.delay) for event in restarts] == [
        (1, 0.0),
        (2, 1.0),
        (3, 2.0),
        (1, 0.0),
        (2, 1.0),
    ]
    assert trio.current_time() == 1 + 2 + 61 + 1


async def test_nobody_is_asked_for_an_excuse_of_the_last_failure(
    autojump_clock: MockClock,
) -> None:
    asked: list[float] = []

    def at_once() -> bool:
        asked.append(trio.current_time())
        return True

    with pytest.raises(RestartsExhausted, match="4 failures in 60s"):
        await supervise(lives(1, 1, 1, 1), STEADY, at_once=at_once)
    assert asked == [1, 2, 3]


async def test_what_is_done_between_two_lives_is_up_to_the_caller(
    autojump_clock: MockClock,
) -> None:
    idled: list[float] = []

    async def idle(seconds: float) -> None:
        idled.append(seconds)

    await supervise(lives(0, 0, 0), STEADY, idle=idle)
    assert idled == [1.0, 2.0, 4.0]
    assert trio.current_time() == 0


async def test_a_group_of_errors_is_a_failure_like_any_other(
    autojump_clock: MockClock,
) -> None:
    events: list[SupervisionEvent] = []
    dies, number = lives(0.5), count()

    async def child() -> None:
        if next(number) == 0:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(dies)
                nursery.start_soon(trio.sleep_forever)

    await supervise(child, STEADY, on_event=events.append)
    assert isinstance(events[1], Failed)
    assert isinstance(events[1].error, ExceptionGroup)
    assert events[-1] == Started(name="child", life=2)


@pytest.mark.parametrize("when", [0.5, 1.5], ids=["in a life", "between two"])
async def test_cancellation_is_not_a_failure(
    when: float, autojump_clock: MockClock
) -> None:
    events: list[SupervisionEvent] = []
    with trio.move_on_after(when) as scope:
        await supervise(lives(1), STEADY, on_event=events.append)
    assert scope.cancelled_caught
    assert sum(isinstance(event, Failed) for event in events) == (when > 1)
    assert trio.current_time() == when


class Ping(Request["Ping", str]):
    pass


async def test_what_fails_while_it_is_cancelled_is_cancelled(
    autojump_clock: MockClock,
) -> None:
    # A child with tasks of its own: one fails as the other hears of the end.
    async def fails_in_the_end() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise Died("of the end")

    async def child() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails_in_the_end)
            nursery.start_soon(trio.sleep_forever)

    events: list[SupervisionEvent] = []
    with trio.move_on_after(1) as scope:
        await supervise(child, STEADY, name="server", on_event=events.append)
    assert scope.cancelled_caught
    assert events == [Started(name="server", life=1)]


async def test_an_actor_that_is_given_up_strands_nobody(
    autojump_clock: MockClock,
) -> None:
    events: list[SupervisionEvent] = []
    answers: list[tuple[str, float]] = []

    async def doomed(inbox: Inbox[Ping]) -> None:
        async for call in inbox:
            with call.answering():
                await trio.sleep(1)
                raise Died

    async def ask() -> None:
        with trio.CancelScope(shield=True):
            with pytest.raises(ActorGone) as gone:
                await ref.ask(Ping(), within=100)
            answers.append((str(gone.value), trio.current_time()))

    backoff = Backoff(first=2, jitter=0, max_restarts=1)
    with pytest.RaisesGroup(RestartsExhausted):
        async with trio.open_nursery() as nursery:
            ref = spawn(nursery, doomed, restart=backoff, on_event=events.append)
            for _ in range(3):
                nursery.start_soon(ask)
    assert sorted(answers) == [
        ("doomed stopped", 4.0),
        ("no answer to Ping", 1.0),
        ("no answer to Ping", 4.0),
    ]
    assert [type(event) for event in events] == [
        Started,
        Failed,
        Restarting,
        Started,
        Failed,
        GaveUp,
    ]
    assert {event.name for event in events} == {"doomed"}


async def test_an_actor_stopped_between_two_lives_still_answers(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    number = count(1)

    async def shaky(inbox: Inbox[Ping]) -> None:
        life = next(number)
        async for call in inbox:
            with call.answering():
                if life == 1:
                    raise Died
                call.reply(f"life {life}")

    ref = spawn(nursery, shaky, restart=STEADY, on_event=lambda _: None)
    assert ref.tell(Ping())
    answers: list[str] = []

    async with trio.open_nursery() as askers:

        @askers.start_soon
        async def ask() -> None:
            answers.append(await ref.ask(Ping(), within=10))

        await trio.sleep(0.5)
        assert await ref.stop(within=10)
    assert answers == ["life 2"]
    assert trio.current_time() == 1


class Drawn(random.Random):
    """Draws what it was told to."""

    def __init__(self, value: float) -> None:
        self.value = value

    def random(self) -> float:
        return self.value


def test_delays_grow_to_the_ceiling() -> None:
    delays = [STEADY.delay(failures) for failures in range(1, 6)]
    assert delays == [1, 2, 4, 4, 4]
    assert STEADY.delay(10_000) == 4, "however many failures, there is no overflow"


async def test_jitter_is_a_share_of_the_delay(autojump_clock: MockClock) -> None:
    backoff = Backoff(first=8, jitter=0.25)
    assert backoff.delay(1, Drawn(0)) == 8
    assert backoff.delay(1, Drawn(0.5)) == 7
    assert backoff.delay(1, Drawn(1)) == 6
    await supervise(lives(0), backoff, rng=Drawn(0.5))
    assert trio.current_time() == 7


@given(
    first=st.floats(0.001, 10),
    factor=st.floats(1, 10),
    ceiling=st.floats(0.001, 100),
    jitter=st.floats(0, 1),
    failures=st.integers(1, 10_000),
    rng=st.randoms(use_true_random=False),
)
def test_a_delay_stays_within_its_bounds(
    first: float,
    factor: float,
    ceiling: float,
    jitter: float,
    failures: int,
    rng: random.Random,
) -> None:
    backoff = Backoff(first=first, factor=factor, ceiling=ceiling, jitter=jitter)
    steady = Backoff(first=first, factor=factor, ceiling=ceiling, jitter=0)
    full = steady.delay(failures)
    assert min(first, ceiling) <= full <= ceiling
    assert full <= steady.delay(failures + 1)
    assert full * (1 - jitter) <= backoff.delay(failures, rng) <= full


@given(
    uptimes=st.lists(st.integers(0, 6), max_size=12),
    max_restarts=st.integers(0, 3),
    period=st.integers(1, 12),
)
def test_it_gives_up_at_the_first_crowded_window(
    uptimes: list[int], max_restarts: int, period: int
) -> None:
    """Against a list of all failures, counted from the start each time."""
    backoff = Backoff(
        first=1, factor=1, jitter=0, max_restarts=max_restarts, period=period
    )
    expected: list[float] = []
    now, exhausted = 0.0, False
    for uptime in uptimes:
        now += uptime
        expected.append(now)
        exhausted = sum(now - failed <= period for failed in expected) > max_restarts
        if exhausted:
            break
        now += 1

    async def main() -> None:
        failures: list[float] = []

        def on_event(event: SupervisionEvent) -> None:
            if isinstance(event, Failed):
                failures.append(trio.current_time())

        try:
            await supervise(lives(*uptimes), backoff, on_event=on_event)
            gave_up = False
        except RestartsExhausted:
            gave_up = True
        assert gave_up is exhausted
        assert failures == expected
        assert trio.current_time() == now

    trio.run(main, clock=MockClock(autojump_threshold=0))
