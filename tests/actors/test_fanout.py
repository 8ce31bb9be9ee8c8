"""A fan-out is never late, keeps what is done, and has one slot per job."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from functools import partial

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.actors import (
    LATE,
    FanOut,
    Inbox,
    Late,
    Request,
    SharedTasks,
    spawn,
)

Job = Callable[[], Awaitable[str]]


async def nap(seconds: float) -> str:
    await trio.sleep(seconds)
    return f"{seconds:g}"


def naps(*durations: float) -> list[Job]:
    return [partial(nap, seconds) for seconds in durations]


async def at_once() -> str:
    return "at once"


async def test_results_come_in_call_order_and_cost_the_slowest(
    autojump_clock: MockClock,
) -> None:
    # G16, G26: parallel calls cost the maximum.
    fan_out: FanOut[str] = FanOut(0.5)
    assert await fan_out.run(naps(0.2, 0.015, 0.08)) == ["0.2", "0.015", "0.08"]
    assert trio.current_time() == 0.2
    assert not fan_out.time_is_up


async def test_rounds_one_after_the_other_add_up(autojump_clock: MockClock) -> None:
    # G26
    for _ in range(2):
        await FanOut[str](trio.current_time() + 4).run(naps(0.25, 0.5))
    assert trio.current_time() == 1


@pytest.mark.parametrize("others", [[], [0.1, 0.2]], ids=["alone", "beside others"])
async def test_time_up_keeps_what_is_done_and_marks_the_rest_late(
    others: list[float], autojump_clock: MockClock
) -> None:
    # D3; one job alone takes a path of its own
    fan_out: FanOut[str] = FanOut(0.5)
    done = [f"{seconds:g}" for seconds in others]
    assert await fan_out.run(naps(3, *others)) == [LATE, *done]
    assert trio.current_time() == 0.5
    assert fan_out.time_is_up


async def test_no_jobs_take_no_time(autojump_clock: MockClock) -> None:
    assert await FanOut[str](5).run([]) == []
    assert trio.current_time() == 0


@pytest.mark.parametrize("jobs", [1, 3])
async def test_a_deadline_that_has_passed_still_keeps_what_needs_no_time(
    jobs: int, autojump_clock: MockClock
) -> None:
    await trio.sleep(2)
    assert await FanOut[str](1).run([at_once] * jobs) == ["at once"] * jobs
    assert await FanOut[str](1).run(naps(*[0.1] * jobs)) == [LATE] * jobs
    assert trio.current_time() == 2


@pytest.mark.parametrize("jobs", [1, 3])
async def test_the_callers_cancel_cancels_every_job(
    jobs: int, autojump_clock: MockClock
) -> None:
    whose: list[bool] = []

    async def observer() -> str:
        try:
            return await nap(3)
        except trio.Cancelled:
            whose.append(fan_out.time_is_up)
            raise

    for deadline, patience in ((0.5, 0.1), (0.6, 9)):
        fan_out: FanOut[str] = FanOut(deadline)
        with trio.move_on_after(patience) as turn:
            assert await fan_out.run([observer] * jobs) == [LATE] * jobs
        assert turn.cancelled_caught is (patience < deadline)
    # The first was cancelled by its caller, the second by its own deadline.
    assert whose == [False] * jobs + [True] * jobs
    assert trio.current_time() == 0.6


async def test_a_job_may_answer_instead_of_being_late(
    autojump_clock: MockClock,
) -> None:
    # This is how a job reports which limit ended it (D3, D6).
    async def polite() -> str:
        try:
            return await nap(3)
        except trio.Cancelled:
            if not fan_out.time_is_up:
                raise
            return "out of time"

    fan_out: FanOut[str] = FanOut(0.5)
    assert await fan_out.run([polite, partial(nap, 3)]) == ["out of time", LATE]
    assert await FanOut[str](0.75).run([partial(nap, 3)]) == [LATE]
    assert trio.current_time() == 0.75


async def test_an_exception_of_a_job_ends_the_fan_out(
    autojump_clock: MockClock,
) -> None:
    async def fail() -> str:
        await trio.sleep(0.1)
        raise ValueError("no such spell")

    with pytest.raises(ValueError, match="no such spell"):
        await FanOut[str](0.5).run([fail])
    with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="no such spell")):
        await FanOut[str](0.5).run([*naps(0.3), fail])
    assert trio.current_time() == 0.2


@attrs.frozen
class Work(Request["Work", str]):
    seconds: float


async def test_its_deadline_cancels_the_work_that_its_jobs_asked_for(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    ended: list[float] = []

    async def server(inbox: Inbox[Work]) -> None:
        async for call in inbox:
            with call.answering():
                try:
                    assert isinstance(call.request, Work)
                    call.reply(await nap(call.request.seconds))
                finally:
                    ended.append(trio.current_time())

    refs = [spawn(nursery, server) for _ in range(2)]
    jobs = [partial(ref.ask, Work(5), within=60) for ref in refs]
    assert await FanOut[str](0.5).run(jobs) == [LATE, LATE]
    await wait_all_tasks_blocked()
    assert ended == [0.5, 0.5]


async def test_foreign_code_that_shields_itself_does_not_hold_it(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    # D3a: the job waits for a shared task, which may ignore its cancellation.
    flights = SharedTasks(nursery)

    async def deaf() -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(7)
        return "at last"

    async def job() -> str:
        flight = flights.start("deaf", deaf)
        flight.add_waiter()
        try:
            return await flight.result()
        finally:
            flight.release()

    assert await FanOut[str](0.5).run([job, partial(nap, 0.1), job]) == [
        LATE,
        "0.1",
        LATE,
    ]
    assert trio.current_time() == 0.5
    assert flights.statistics().running == 2


async def test_a_thread_that_ignores_cancellation_does_not_hold_it(
    nursery: trio.Nursery,
) -> None:
    # D3a, in real time: the thread runs when the fan-out's time is up.
    running, go = trio.Event(), threading.Event()

    def held() -> str:
        trio.from_thread.run_sync(running.set)
        assert go.wait(10), "nobody let this thread go"
        return "let go"

    flight = SharedTasks(nursery).start_in_thread("deaf", held)

    async def job() -> str:
        flight.add_waiter()
        try:
            return await flight.result()
        finally:
            flight.release()

    with trio.fail_after(10):
        await running.wait()
        assert await FanOut[str](trio.current_time()).run([job, at_once]) == [
            LATE,
            "at once",
        ]
    assert not go.is_set()
    go.set()


# Times are whole, the deadline is not, so that no result is exactly on time.
@settings(max_examples=settings().max_examples * 4)
@given(
    durations=st.lists(st.integers(0, 9), max_size=8),
    whole=st.integers(-1, 9),
    patience=st.integers(0, 30),
)
def test_it_is_never_late_and_never_loses_a_finished_result(
    durations: list[int], whole: int, patience: int
) -> None:
    # D3
    deadline = whole + 0.5
    finished: list[int] = []

    async def job(slot: int, seconds: int) -> int:
        await trio.sleep(seconds)
        finished.append(slot)
        return slot

    async def main() -> None:
        results: list[int | Late] | None = None
        slowest = max(durations, default=0)
        with trio.move_on_after(patience + 0.25) as turn:
            results = await FanOut[int](deadline).run(
                [partial(job, slot, seconds) for slot, seconds in enumerate(durations)]
            )
        ends = min(slowest, max(deadline, 0), turn.deadline)
        assert trio.current_time() == ends
        assert turn.cancelled_caught is (results is None)
        # A deadline in the past leaves no time even for a job of no length.
        in_time = [seconds <= ends and deadline > 0 for seconds in durations]
        assert set(finished) == {slot for slot, kept in enumerate(in_time) if kept}
        if results is not None:
            assert results == [
                slot if slot in finished else LATE for slot in range(len(durations))
            ]

    trio.run(main, clock=MockClock(autojump_threshold=0))
