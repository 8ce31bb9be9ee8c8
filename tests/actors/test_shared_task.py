"""Shared tasks: foreign code never delays a caller, and is counted when it lingers.

Threads run in real time here, ordered by events; nothing sleeps.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import outcome
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.actors import (
    SharedTask,
    SharedTaskCancelled,
    SharedTasks,
    SharedTaskStatistics,
    TaskResult,
)
from glyphoxa_trio.actors.shared_task import SharedTaskEnded
from glyphoxa_trio.errors import TooManyFlights


class Bug(Exception):
    pass


async def nap(seconds: float) -> str:
    await trio.sleep(seconds)
    return f"woke at {trio.current_time():g}"


async def deaf_nap(seconds: float) -> str:
    """Foreign code at its worst: it shields itself."""
    with trio.CancelScope(shield=True):
        await trio.sleep(seconds)
    return f"woke at {trio.current_time():g}"


async def fail(seconds: float) -> str:
    await trio.sleep(seconds)
    raise Bug("broken")


async def fails_on_the_way_out() -> None:
    """Cancelled, it ends in a group of a cancellation and an error."""

    async def untidy() -> None:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            raise Bug("in the clean-up") from None

    async with trio.open_nursery() as nursery:
        nursery.start_soon(untidy)
        nursery.start_soon(trio.sleep_forever)


async def ride(flight: SharedTask[Any], patience: float) -> Any:
    """Wait for the result as a caller does: at most ``patience`` seconds."""
    flight.add_waiter()
    try:
        with trio.move_on_after(patience):
            return await flight.result()
    finally:
        flight.release()
    return "left"


@asynccontextmanager
async def open_flights(**options: Any) -> AsyncGenerator[SharedTasks]:
    """Shared tasks in a nursery that is cancelled at the end, as a host's is."""
    async with trio.open_nursery() as owner:
        yield SharedTasks(owner, **options)
        owner.cancel_scope.cancel()


@pytest.fixture
def flights(nursery: trio.Nursery) -> SharedTasks:
    return SharedTasks(nursery)


async def test_a_passenger_gets_the_result(
    flights: SharedTasks, autojump_clock: MockClock
) -> None:
    await trio.sleep(1)
    flight = flights.start("tool", nap, 0.2)
    assert flight.started == 1
    assert not flight.done
    assert await ride(flight, 60) == "woke at 1.2"
    assert flight.done
    assert not flight.cancelled
    assert flights.statistics() == SharedTaskStatistics(
        started=1, running=0, lingering={}
    )


async def test_an_exception_of_the_work_belongs_to_its_passengers(
    flights: SharedTasks, autojump_clock: MockClock
) -> None:
    flight = flights.start("tool", fail, 0.2)
    for _ in range(2):  # every waiter gets it, also a late one
        with pytest.raises(Bug, match="broken"):
            await ride(flight, 60)
    assert isinstance(await flight.settled(), outcome.Error)
    assert trio.current_time() == 0.2


async def test_every_passenger_of_a_shared_flight_gets_the_result(
    flights: SharedTasks, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    # D11: twenty who ask the same thing make one call.
    flight = flights.start("tool", nap, 0.5)
    results: list[str] = []

    async def ask() -> None:
        results.append(await ride(flight, 60))

    async with trio.open_nursery() as passengers:
        for _ in range(20):
            passengers.start_soon(ask)
    assert results == ["woke at 0.5"] * 20
    assert await ride(flight, 60) == "woke at 0.5"
    assert flights.statistics().started == 1


async def test_one_passenger_leaving_does_not_stop_it_for_others(
    flights: SharedTasks, autojump_clock: MockClock
) -> None:
    # D11
    flight = flights.start("tool", nap, 2)
    flight.add_waiter()
    assert await ride(flight, 0.5) == "left"
    assert not flight.cancelled
    assert await flight.result() == "woke at 2"
    assert not flight.release(), "nothing is left to cancel"
    assert not flight.cancelled


async def test_the_last_passenger_out_cancels_the_flight(
    flights: SharedTasks, autojump_clock: MockClock
) -> None:
    ended: list[float] = []

    async def work() -> None:
        try:
            await trio.sleep(60)
        finally:
            ended.append(trio.current_time())

    flight = flights.start("tool", work)
    flight.add_waiter()
    flight.add_waiter()
    assert not flight.release()
    await trio.sleep(0.5)
    assert flight.release()
    assert flight.cancelled
    with pytest.raises(SharedTaskCancelled, match="tool"):  # joined too late
        await ride(flight, 60)
    assert ended == [0.5]
    assert flights.statistics() == SharedTaskStatistics(
        started=1, running=0, lingering={}
    )


async def test_cancelling_the_caller_cancels_the_work(
    flights: SharedTasks, autojump_clock: MockClock
) -> None:
    flight = flights.start("tool", nap, 60)
    with trio.move_on_after(0.1) as scope:
        await ride(flight, 60)
    assert scope.cancelled_caught
    with pytest.raises(SharedTaskCancelled):
        await flight.result()
    assert trio.current_time() == 0.1


async def test_a_flight_that_nobody_boarded_flies_on(
    flights: SharedTasks, autojump_clock: MockClock
) -> None:
    # D12a: what may finish after an interruption.
    results: list[outcome.Maybe[str]] = []
    flights.start("tool", nap, 2, on_result=results.append)
    await trio.sleep(3)
    assert results == [outcome.Value("woke at 2")]


async def test_on_result_is_told_before_the_waiters_and_not_of_a_cancelled_end(
    flights: SharedTasks, autojump_clock: MockClock
) -> None:
    told: list[str] = []

    def tell(result: outcome.Maybe[str]) -> None:
        assert not flight.done
        told.append(type(result).__name__)

    for work in (nap, fail, deaf_nap):
        flight = flights.start(work.__name__, work, 1, on_result=tell)
        flight.add_waiter()
        if work is deaf_nap:
            assert flight.release()
        await flight.settled()
    assert told == ["Value", "Error"]


async def test_work_that_shields_itself_never_holds_the_caller(
    flights: SharedTasks, autojump_clock: MockClock
) -> None:
    # D3a: measured otherwise, a plain fan-out is held by its whole length.
    flight = flights.start("tool", deaf_nap, 5)
    assert await ride(flight, 0.5) == "left"
    assert trio.current_time() == 0.5
    assert flights.statistics().running == 1
    await flight.settled()
    assert trio.current_time() == 5
    assert flights.statistics() == SharedTaskStatistics(
        started=1, running=0, lingering={}
    )


async def test_cancelled_work_lingers_only_after_a_grace(
    flights: SharedTasks, autojump_clock: MockClock
) -> None:
    assert await ride(flights.start("tool", deaf_nap, 5), 1) == "left"
    assert flights.lingering("tool") == 0
    await trio.sleep(0.09)
    assert flights.lingering("tool") == 0
    await trio.sleep(0.02)
    assert flights.lingering("tool") == 1
    assert flights.statistics().lingering == {"tool": 1}


async def test_too_many_strays_refuse_their_key_until_one_ends(
    flights: SharedTasks, autojump_clock: MockClock
) -> None:
    # D3a: counted, shown, bounded per tool (default 2).
    for seconds in (3, 5):
        await ride(flights.start("deaf", deaf_nap, seconds), 0)
    await trio.sleep(1)
    assert flights.statistics() == SharedTaskStatistics(
        started=2, running=2, lingering={"deaf": 2}
    )
    with pytest.raises(TooManyFlights, match=r"^deaf: 2 earlier calls do not stop$"):
        flights.start("deaf", nap, 1)
    assert flights.statistics().started == 2
    assert await ride(flights.start("other", nap, 1), 60) == "woke at 2"
    await trio.sleep(1.25)  # at 3 the first lingering task ends
    assert flights.lingering("deaf") == 1
    assert await ride(flights.start("deaf", nap, 0.5), 60) == "woke at 3.75"
    await trio.sleep(2)
    assert flights.statistics() == SharedTaskStatistics(
        started=4, running=0, lingering={}
    )
    assert flights._lingering.by_key == {}, "a key that is done is forgotten"


async def test_who_joins_a_stray_and_leaves_does_not_renew_its_grace(
    flights: SharedTasks, autojump_clock: MockClock
) -> None:
    stray = flights.start("deaf", deaf_nap, 5)
    assert await ride(stray, 1) == "left"
    await trio.sleep(1)
    stray.add_waiter()
    assert not stray.release(), "it was cancelled before"
    assert flights.lingering("deaf") == 1


async def test_an_error_during_cancellation_does_not_reach_the_owner(
    autojump_clock: MockClock,
) -> None:
    # D3a: whatever foreign code does when it is cancelled, the host goes on.
    async with open_flights() as flights:
        flight = flights.start("tool", fails_on_the_way_out)
        assert await ride(flight, 0.5) == "left"
        await flight.settled()
        assert await ride(flights.start("other", nap, 1), 60) == "woke at 1.5"
        # The owner is cancelled over this one.
        last = flights.start("tool", fails_on_the_way_out)
        last.add_waiter()
        await wait_all_tasks_blocked()
    with pytest.raises(Bug, match="in the clean-up"):
        await last.result()
    assert flights.statistics().running == 0


async def test_the_owners_end_ends_every_wait(autojump_clock: MockClock) -> None:
    async def ask(flight: SharedTask[str]) -> None:
        with pytest.raises(SharedTaskCancelled):
            await ride(flight, 60)
        assert trio.current_time() == 1

    async with trio.open_nursery() as passengers:
        async with open_flights() as flights:
            passengers.start_soon(ask, flights.start("tool", nap, 5))
            await trio.sleep(1)
    assert flights.statistics().running == 0


async def test_a_launch_after_the_owners_end_fails_and_is_not_counted(
    autojump_clock: MockClock,
) -> None:
    async with open_flights() as flights:
        pass
    with pytest.raises(RuntimeError, match="closed"):
        flights.start("tool", nap, 1)
    assert flights.statistics() == SharedTaskStatistics(
        started=0, running=0, lingering={}
    )


@given(
    duration=st.integers(0, 6),
    patiences=st.lists(st.integers(0, 6), min_size=1, max_size=5),
    deaf=st.booleans(),
)
def test_a_flight_lives_as_long_as_its_most_patient_passenger(
    duration: int, patiences: list[int], deaf: bool
) -> None:
    async def main() -> None:
        lasts, longest = duration + 0.5, max(patiences)
        ended: list[float] = []

        async def work() -> str:
            try:
                return await (deaf_nap if deaf else nap)(lasts)
            finally:
                ended.append(trio.current_time())

        async def passenger(patience: float) -> None:
            answer = await ride(flight, patience)
            assert trio.current_time() == min(patience, lasts)
            assert answer == (f"woke at {lasts}" if patience > lasts else "left")

        async with open_flights() as flights:
            flight = flights.start("tool", work)
            async with trio.open_nursery() as passengers:
                for patience in patiences:
                    passengers.start_soon(passenger, patience)
            await flight.settled()
            assert flight.cancelled is (longest < lasts)
            assert ended == [lasts if deaf else min(longest, lasts)]
            assert flights.statistics() == SharedTaskStatistics(
                started=1, running=0, lingering={}
            )

    trio.run(main, clock=MockClock(autojump_threshold=0))


# -- without a task: whoever knows the end says it -------------------------------


@attrs.define(eq=False)
class Begun:
    """Work without a task. ``begin`` is for `SharedTasks.launch`."""

    landing: TaskResult[str] | None = None
    left: int = 0

    def begin(self, landing: TaskResult[str]) -> Callable[[], None]:
        self.landing = landing
        return self._leave

    def _leave(self) -> None:
        self.left += 1

    def land(self, text: str) -> None:
        assert self.landing is not None
        self.landing.set(outcome.Value(text))

    def go_on(self, seconds: float) -> None:
        assert self.landing is not None
        self.landing.continue_with(partial(nap, seconds))


async def never() -> str:
    raise AssertionError("it was begun without a task")


async def test_what_needs_no_task_lands_when_somebody_says_so(
    flights: SharedTasks, autojump_clock: MockClock
) -> None:
    work = Begun()
    told: list[Any] = []
    tasks = trio.lowlevel.current_statistics().tasks_living
    flight = flights.start("tool", never, begin=work.begin, on_result=told.append)
    assert trio.lowlevel.current_statistics().tasks_living == tasks
    flight.add_waiter()
    flight.add_waiter()
    assert flights.statistics().running == 1
    work.land("here")
    assert told == [outcome.Value("here")]
    assert [await flight.result(), await flight.result()] == ["here", "here"]
    work.land("again")
    assert not flight.release()
    assert not flight.release()
    assert (work.left, told) == (0, [outcome.Value("here")])
    assert flights.statistics() == SharedTaskStatistics(
        started=1, running=0, lingering={}
    )


async def test_who_leaves_it_last_leaves_nothing_behind(
    flights: SharedTasks, autojump_clock: MockClock
) -> None:
    work = Begun()
    stopped: list[Any] = []
    told: list[Any] = []
    flights.when_lingering_stops(stopped.append)
    flight = flights.start("tool", never, begin=work.begin, on_result=told.append)
    assert await ride(flight, 2) == "left"
    assert (flight.done, flight.cancelled, work.left) == (True, True, 1)
    work.land("too late")
    with pytest.raises(SharedTaskCancelled):
        await flight.result()
    await trio.sleep(1)
    assert (stopped, told) == (["tool"], [])
    assert flights.statistics() == SharedTaskStatistics(
        started=1, running=0, lingering={}
    )


async def test_it_may_turn_out_to_need_a_task(
    flights: SharedTasks, autojump_clock: MockClock
) -> None:
    work = Begun()
    assert (
        await ride(flights.start("tool", nap, 3, begin=lambda landing: None), 9)
        == "woke at 3"
    )
    for patience, end in ((9, "woke at 4"), (0.5, "left")):
        flight = flights.start("tool", never, begin=work.begin)
        work.go_on(1)
        assert await ride(flight, patience) == end
    assert work.left == 0
    gone = flights.start("tool", never, begin=work.begin)
    assert await ride(gone, 1) == "left"
    work.go_on(1)  # nobody waits for it
    await trio.sleep(2)
    assert flights.statistics() == SharedTaskStatistics(
        started=4, running=0, lingering={}
    )


async def test_the_owners_end_ends_what_has_no_task(autojump_clock: MockClock) -> None:
    work, gone = Begun(), Begun()
    async with open_flights() as flights:
        flight = flights.start("tool", never, begin=work.begin)
        flight.add_waiter()
        flights.close()
        with pytest.raises(SharedTaskCancelled):
            await flight.result()
        assert work.left == 1
    with pytest.raises(RuntimeError, match="closed"):
        flights.start("tool", never, begin=gone.begin)
    assert gone.landing is None


@given(
    steps=st.lists(
        st.sampled_from(["board", "leave", "land", "go on", "wait"]), max_size=12
    )
)
def test_a_flight_without_a_task_ends_once_whatever_comes_first(
    steps: list[str],
) -> None:
    async def main() -> None:
        work = Begun()
        told: list[Any] = []
        async with open_flights() as flights:
            flight = flights.start(
                "tool", never, begin=work.begin, on_result=told.append
            )
            passengers, in_task, end = 0, 0.0, ""  # the model
            for step in steps:
                if in_task and trio.current_time() >= in_task:
                    end = end or f"woke at {in_task:g}"
                match step:
                    case "board":
                        flight.add_waiter()
                        passengers += 1
                    case "leave" if passengers:
                        passengers -= 1
                        last = not passengers and not end
                        assert flight.release() is last
                        end = "left" if last else end
                    case "land" if not in_task:
                        work.land("landed")
                        end = end or "landed"
                    case "go on" if not in_task and not end:
                        work.go_on(1.5)
                        in_task = trio.current_time() + 1.5
                    case "wait":
                        await trio.sleep(1)
            if in_task and not end:
                await trio.sleep(2)
                end = f"woke at {in_task:g}"
            await wait_all_tasks_blocked()
            assert flight.done is bool(end)
            assert flight.cancelled is (end == "left")
            if end:
                result = await flight.settled()
                came = [] if end == "left" else [outcome.Value(end)]
                assert told == came
                assert came in ([], [result])
            assert work.left == (end == "left" and not in_task)
            assert flights.statistics().running == (not end)
            assert flights.statistics().lingering == {}

    trio.run(main, clock=MockClock(autojump_threshold=0))


# -- threads: real time, a thread is held by an event ---------------------------


class Held:
    """A blocking function that tells when it runs, and ends when let go."""

    def __init__(self) -> None:
        self.running = trio.Event()
        self.go = threading.Event()

    def __call__(self, *args: object) -> tuple[object, ...]:
        trio.from_thread.run_sync(self.running.set)
        assert self.go.wait(10), "nobody let this thread go"
        return args


async def test_a_thread_lands_like_any_other_work(flights: SharedTasks) -> None:
    told: list[outcome.Maybe[Any]] = []
    held = Held()
    held.go.set()
    flight = flights.start_in_thread("tool", held, 1, 2, on_result=told.append)
    assert await ride(flight, 10) == (1, 2)
    assert told == [outcome.Value((1, 2))]
    with pytest.raises(ZeroDivisionError):
        await ride(flights.start_in_thread("tool", divmod, 1, 0), 10)
    assert flights.statistics() == SharedTaskStatistics(
        started=2, running=0, lingering={}
    )


async def test_a_thread_that_ignores_cancellation_never_holds_the_caller() -> None:
    # D3a
    first, second = Held(), Held()
    with trio.fail_after(10):
        async with open_flights(threads=2, grace=0.0) as flights:
            for held in (first, second):
                flight = flights.start_in_thread("deaf", held)
                flight.add_waiter()
                await held.running.wait()
                assert flight.release()
                with pytest.raises(SharedTaskCancelled):
                    await flight.result()  # lands at once, though its thread runs
            assert flights.statistics() == SharedTaskStatistics(
                started=2, running=0, lingering={"deaf": 2}
            )
            with pytest.raises(TooManyFlights, match="deaf: 2"):
                flights.start_in_thread("deaf", divmod, 7, 2)
            # Both threads are busy: the next ends once a lingering task has ended.
            other = flights.start_in_thread("other", divmod, 7, 2)
            await wait_all_tasks_blocked()
            assert not other.done
            first.go.set()
            assert await ride(other, 10) == (3, 1)
            assert flights.lingering("deaf") == 1
            again = flights.start_in_thread("deaf", divmod, 7, 2)
            assert await ride(again, 10) == (3, 1)
            second.go.set()
            while flights.lingering("deaf"):  # until its seat is given back
                await ride(flights.start_in_thread("other", int), 10)
            assert flights.statistics().lingering == {}


async def test_a_caller_cancelled_while_waiting_for_a_thread_leaves_no_stray() -> None:
    held = Held()
    with trio.fail_after(10):
        async with open_flights(threads=1, grace=0.0) as flights:
            holder = flights.start_in_thread("holder", held)
            await held.running.wait()
            ran: list[bool] = []
            waiting = flights.start_in_thread("waiting", partial(ran.append, True))
            waiting.add_waiter()
            await wait_all_tasks_blocked()
            assert waiting.release()
            await waiting.settled()
            assert flights.statistics() == SharedTaskStatistics(
                started=2, running=1, lingering={}
            )
            held.go.set()
            assert await ride(holder, 10) == ()
            assert ran == []


async def test_the_end_of_the_owner_does_not_wait_for_a_thread() -> None:
    held = Held()
    with trio.fail_after(10):
        async with open_flights() as flights:
            flights.start_in_thread("deaf", held)
            await held.running.wait()
    assert not held.go.is_set()
    assert flights.statistics().running == 0
    held.go.set()


async def test_what_ends_a_program_ends_only_its_flight(nursery: trio.Nursery) -> None:
    # D3a: a handler that calls sys.exit must not end its host
    async def leaves() -> None:
        raise SystemExit(3)

    flight = SharedTasks(nursery).start("a", leaves)
    flight.add_waiter()
    with pytest.raises(SharedTaskEnded, match=r"SystemExit\(3\)"):
        await flight.result()


async def test_a_lone_error_of_the_works_own_nursery_is_that_error(
    nursery: trio.Nursery,
) -> None:
    async def fails() -> None:
        async with trio.open_nursery() as inner:
            inner.start_soon(trio.sleep_forever)
            raise ToolSaysNo

    flight = SharedTasks(nursery).start("a", fails)
    flight.add_waiter()
    with pytest.raises(ToolSaysNo):
        await flight.result()


class ToolSaysNo(Exception):
    pass


async def test_one_key_does_not_take_every_thread() -> None:
    # D3a: real time; the threads are held by an event
    release = threading.Event()
    async with open_flights(threads=3, threads_per_key=2) as flights:
        held = [flights.start_in_thread("deaf", release.wait) for _ in range(5)]
        for flight in held:
            flight.add_waiter()
        with trio.fail_after(10):
            other = flights.start_in_thread("good", lambda: "answered")
            other.add_waiter()
            assert await other.result() == "answered"
        release.set()
        for flight in held:
            assert await flight.result()
