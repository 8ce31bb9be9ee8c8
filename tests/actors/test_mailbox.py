"""The mailbox's promises: answers, time limits, cancellation, no waiter left behind."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import pairwise
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.actors import (
    Backoff,
    Call,
    Failed,
    Inbox,
    MailboxStatistics,
    Ref,
    Request,
    SupervisionEvent,
    crash_report,
    spawn,
)
from glyphoxa_trio.errors import (
    ActorGone,
    DeadlineExceeded,
    GlyphoxaError,
    MessageNotUnderstood,
)


@attrs.frozen
class Work(Request["Work", str]):
    """Takes ``seconds``, then does what ``manner`` says."""

    seconds: float
    manner: str = "reply"


class TooSilly(GlyphoxaError):
    pass


class Bug(Exception):
    pass


async def perform(call: Call[Work]) -> None:
    work = call.request
    assert isinstance(work, Work)
    seconds, manner = work.seconds, work.manner
    if manner == "careless":
        raise Bug
    with call.answering():
        with trio.CancelScope(shield=manner == "stubborn"):
            await trio.sleep(seconds)
        if manner == "refuse":
            raise TooSilly
        if manner == "crash":
            raise Bug
        if manner != "forget":
            call.reply(f"done at {trio.current_time():g}")


async def worker(inbox: Inbox[Work]) -> None:
    async for call in inbox:
        await perform(call)


@pytest.fixture(name="ref")
def one_worker(nursery: trio.Nursery) -> Ref[Work]:
    return spawn(nursery, worker, capacity=1)


class Stranger: ...


@attrs.frozen
class Strange(Request[Stranger, None]):
    """A message for another actor."""


async def test_a_message_for_another_actor_is_refused(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def picky(inbox: Inbox[Work]) -> None:
        async for call in inbox:
            with call.answering():
                match call.request:
                    case Work():
                        call.reply("done")

    ref = spawn(nursery, picky)
    with pytest.raises(
        MessageNotUnderstood, match="Strange is a message for another actor"
    ):
        # A type checker has refused it before: an ignore without need is an error.
        await ref.ask(Strange(), within=1)  # type: ignore[arg-type]
    assert await ref.ask(Work(0), within=1) == "done"


async def test_an_ask_returns_the_reply(
    ref: Ref[Work], autojump_clock: MockClock
) -> None:
    assert await ref.ask(Work(0.2), within=1) == "done at 0.2"


async def test_patience_ends_on_time_and_frees_the_actor(
    ref: Ref[Work], autojump_clock: MockClock
) -> None:
    with pytest.raises(DeadlineExceeded, match=r"^worker: no answer within 0\.500s$"):
        await ref.ask(Work(60), within=0.5)
    assert trio.current_time() == 0.5
    # The abandoned work was cancelled, so the actor is free at once.
    assert await ref.ask(Work(0), within=0.5) == "done at 0.5"


async def test_patience_covers_the_mailbox_and_its_door(
    ref: Ref[Work], nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    nursery.start_soon(partial(ref.ask, Work(1), within=10))
    ends: list[float] = []

    async def ask(within: float) -> None:
        with pytest.raises(DeadlineExceeded):
            await ref.ask(Work(0), within=within)
        ends.append(trio.current_time())

    await wait_all_tasks_blocked()
    async with trio.open_nursery() as askers:
        askers.start_soon(ask, 0.5)  # in the mailbox
        await wait_all_tasks_blocked()
        askers.start_soon(ask, 0.25)  # at its door
    assert ends == [0.25, 0.5]


@pytest.mark.parametrize("patience", [0.0, -0.1])
async def test_no_patience_left_is_a_deadline_exceeded_at_once(
    ref: Ref[Work], patience: float, autojump_clock: MockClock
) -> None:
    # What is left of a turn may be a little less than nothing (D3).
    with pytest.raises(DeadlineExceeded):
        await ref.ask(Work(1), within=patience)
    assert trio.current_time() == 0
    assert await ref.ask(Work(0), within=1)


async def test_an_actor_that_shields_itself_does_not_hold_its_asker(
    ref: Ref[Work], autojump_clock: MockClock
) -> None:
    with pytest.raises(DeadlineExceeded):
        await ref.ask(Work(5, "stubborn"), within=0.5)
    assert trio.current_time() == 0.5
    assert await ref.ask(Work(0), within=10) == "done at 5"


async def test_work_that_nobody_waits_for_is_never_begun(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    begun: list[float] = []

    async def diary(inbox: Inbox[Work]) -> None:
        async for call in inbox:
            assert isinstance(call.request, Work)
            begun.append(call.request.seconds)
            await perform(call)

    ref = spawn(nursery, diary)
    async with trio.open_nursery() as askers:
        askers.start_soon(partial(ref.ask, Work(2), within=3))
        await wait_all_tasks_blocked()
        with pytest.raises(DeadlineExceeded):
            await ref.ask(Work(1), within=0.5)
    assert await ref.ask(Work(0), within=1) == "done at 2"
    assert begun == [2, 0]


async def test_cancelling_the_asker_cancels_the_work(
    ref: Ref[Work], autojump_clock: MockClock
) -> None:
    with trio.move_on_after(0.1):
        await ref.ask(Work(60), within=100)
    assert await ref.ask(Work(0), within=1) == "done at 0.1"


@pytest.mark.parametrize("leave", ["patience", "cancelled"])
async def test_leaving_cancels_the_work_through_any_number_of_hops(
    leave: str, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    last = spawn(nursery, worker, name="last")

    def hop(to: Ref[Work]) -> Callable[[Inbox[Work]], Awaitable[None]]:
        async def forward(inbox: Inbox[Work]) -> None:
            async for call in inbox:
                with call.answering():
                    call.reply(await to.ask(call.request, within=100))

        return forward

    front = last
    for number in range(5):
        front = spawn(nursery, hop(front), name=f"hop {number}")
    with trio.move_on_after(0.3 if leave == "cancelled" else 100) as scope:
        with pytest.raises(DeadlineExceeded, match=r"^hop 4: "):
            await front.ask(Work(60), within=0.3 if leave == "patience" else 100)
    assert scope.cancelled_caught is (leave == "cancelled")
    assert trio.current_time() == 0.3
    assert await last.ask(Work(0), within=1) == "done at 0.3"
    assert await front.ask(Work(0), within=1) == "done at 0.3"


async def test_an_error_on_purpose_is_an_answer_and_the_actor_lives_on(
    ref: Ref[Work], autojump_clock: MockClock
) -> None:
    with pytest.raises(TooSilly):
        await ref.ask(Work(0.5, "refuse"), within=1)
    assert await ref.ask(Work(0), within=1) == "done at 0.5"


async def test_errors_on_purpose_in_a_group_are_an_answer(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def fail() -> None:
        raise TooSilly("first")

    async def crowd(inbox: Inbox[Work]) -> None:
        async for call in inbox:
            with call.answering():
                async with trio.open_nursery() as outer, trio.open_nursery() as inner:
                    inner.start_soon(fail)
                    outer.start_soon(trio.sleep_forever)

    ref = spawn(nursery, crowd)
    for _ in range(2):
        with pytest.raises(TooSilly, match="first"):
            await ref.ask(Work(0), within=1)


async def test_a_bug_beside_an_error_on_purpose_is_still_a_bug(
    autojump_clock: MockClock,
) -> None:
    async def raises(error: Exception) -> None:
        raise error

    async def crowd(inbox: Inbox[Work]) -> None:
        async for call in inbox:
            with call.answering():
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(raises, TooSilly())
                    nursery.start_soon(raises, Bug())

    with pytest.RaisesGroup(pytest.RaisesGroup(TooSilly, Bug)):
        async with trio.open_nursery() as nursery:
            ref = spawn(nursery, crowd)
            with trio.CancelScope(shield=True), pytest.raises(ActorGone):
                await ref.ask(Work(0), within=1)


async def test_an_error_on_purpose_during_cancellation_stays_with_its_call(
    autojump_clock: MockClock,
) -> None:
    # The owner cancels the actor; a helper of the call then says no on its way
    # out. That is the asker's to know, and must not leave the owner's nursery.
    async def says_no_when_cancelled() -> None:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            raise TooSilly from None

    async def crowd(inbox: Inbox[Work]) -> None:
        async for call in inbox:
            with call.answering():
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(says_no_when_cancelled)
                    nursery.start_soon(trio.sleep_forever)

    async def ask() -> None:
        with pytest.raises(TooSilly):
            await ref.ask(Work(0), within=60)
        assert trio.current_time() == 1

    async with trio.open_nursery() as askers:
        async with trio.open_nursery() as owner:
            ref = spawn(owner, crowd)
            askers.start_soon(ask)
            await trio.sleep(1)
            owner.cancel_scope.cancel()


async def test_a_bug_crashes_the_actor_and_strands_nobody(
    autojump_clock: MockClock,
) -> None:
    ends: list[tuple[str, float]] = []

    async def ask() -> None:
        with trio.CancelScope(shield=True):  # outlive the owner's own cancellation
            with pytest.raises(ActorGone) as gone:
                await ref.ask(Work(1, "crash"), within=60)
        ends.append((str(gone.value), trio.current_time()))

    with pytest.RaisesGroup(Bug):
        async with trio.open_nursery() as nursery:
            ref = spawn(nursery, worker, capacity=1)
            for _ in range(3):  # one in work, one in the mailbox, one at its door
                nursery.start_soon(ask)
    assert sorted(ends) == [("no answer to Work", 1.0), *[("worker stopped", 1.0)] * 2]


@pytest.mark.parametrize("restart", [None, Backoff(first=30, jitter=0)])
async def test_a_crash_before_the_answering_begins_strands_nobody(
    restart: Backoff | None, autojump_clock: MockClock
) -> None:
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            ref = spawn(nursery, worker, restart=restart, on_event=lambda _: None)
            with trio.CancelScope(shield=True):
                with pytest.raises(ActorGone):
                    await ref.ask(Work(0, "careless"), within=60)
            assert trio.current_time() == 0
            assert await ref.ask(Work(0), within=60) == "done at 30"
            nursery.cancel_scope.cancel()

    if restart is None:
        with pytest.RaisesGroup(Bug):
            await main()
    else:
        await main()


async def test_calls_kept_for_later_are_refused_when_the_actor_ends(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def collector(inbox: Inbox[Work]) -> None:
        kept = [call async for call in inbox]
        kept[0].reply("the first")

    ref = spawn(nursery, collector)
    answers: list[str] = []

    async def ask() -> None:
        try:
            answers.append(await ref.ask(Work(0), within=60))
        except ActorGone:
            answers.append("gone")

    async with trio.open_nursery() as askers:
        for _ in range(2):
            askers.start_soon(ask)
            await wait_all_tasks_blocked()
        await trio.sleep(1)
        assert await ref.stop(within=1)
    assert sorted(answers) == ["gone", "the first"]
    assert trio.current_time() == 1


async def test_an_answer_may_come_from_a_task_that_outlives_the_actor(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def delegate(inbox: Inbox[Work]) -> None:
        async for call in inbox:
            nursery.start_soon(perform, call)

    ref = spawn(nursery, delegate)
    async with trio.open_nursery() as askers:

        @askers.start_soon
        async def ask() -> None:
            assert await ref.ask(Work(2), within=60) == "done at 2"

        await trio.sleep(1)
        assert await ref.stop(within=0.5)


async def test_a_body_that_says_nothing_is_no_answer(
    ref: Ref[Work], autojump_clock: MockClock
) -> None:
    with pytest.raises(
        MessageNotUnderstood, match="Work is a message for another actor"
    ):
        await ref.ask(Work(0.5, "forget"), within=60)
    assert trio.current_time() == 0.5


async def test_answering_twice_is_a_bug_of_the_actor(
    autojump_clock: MockClock,
) -> None:
    async def chatterbox(inbox: Inbox[Work]) -> None:
        async for call in inbox:
            with call.answering():
                call.reply("one")
                call.reply("two")

    with pytest.RaisesGroup(pytest.RaisesExc(AssertionError, match="answered twice")):
        async with trio.open_nursery() as nursery:
            ref = spawn(nursery, chatterbox)
            with trio.CancelScope(shield=True):
                assert await ref.ask(Work(0), within=1) == "one"


async def test_an_answer_that_looks_like_a_closed_channel_is_still_an_answer(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def broken(inbox: Inbox[Work]) -> None:
        async for call in inbox:
            call.refuse(trio.BrokenResourceError("the pipe"))

    with pytest.raises(trio.BrokenResourceError, match="the pipe"):
        await spawn(nursery, broken).ask(Work(0), within=1)


async def test_a_stopped_actor_answers_what_it_has_and_refuses_the_rest(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    ref = spawn(nursery, worker, capacity=2)
    ends: list[tuple[str, float]] = []

    async def ask() -> None:
        try:
            ends.append((await ref.ask(Work(1), within=60), trio.current_time()))
        except ActorGone as gone:
            ends.append((str(gone), trio.current_time()))

    async with trio.open_nursery() as askers:
        for _ in range(4):  # one in work, two in the mailbox, one at its door
            askers.start_soon(ask)
            await wait_all_tasks_blocked()
        await trio.sleep(0.5)
        assert await ref.stop(within=10)
        assert trio.current_time() == 3
        with pytest.raises(ActorGone, match="worker stopped"):
            await ref.ask(Work(0), within=60)
        assert not ref.tell(Work(0))
    assert ends == [
        ("worker stopped", 0.5),
        ("done at 1", 1.0),
        ("done at 2", 2.0),
        ("done at 3", 3.0),
    ]
    assert trio.current_time() == 3


async def test_stop_tells_of_an_actor_that_does_not_end(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def deaf(inbox: Inbox[Work]) -> None:
        await trio.sleep(5)

    ref = spawn(nursery, deaf)
    assert not await ref.stop(within=1)
    assert trio.current_time() == 1
    assert await ref.stop(within=10)  # stopping twice is waiting twice
    assert trio.current_time() == 5


async def test_an_actor_that_returns_refuses_what_it_did_not_read(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def once(inbox: Inbox[Work]) -> None:
        await perform(await inbox.receive())

    ref = spawn(nursery, once, capacity=1)
    answers: list[str] = []

    async def ask() -> None:
        try:
            answers.append(await ref.ask(Work(1), within=60))
        except ActorGone:
            answers.append("gone")

    async with trio.open_nursery() as askers:
        for _ in range(3):
            askers.start_soon(ask)
    assert sorted(answers) == ["done at 1", "gone", "gone"]
    assert trio.current_time() == 1


async def test_an_actor_may_close_its_own_inbox(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    async def shy(inbox: Inbox[Work]) -> None:
        await trio.sleep(1)
        inbox.close()

    ref = spawn(nursery, shy)
    with pytest.raises(ActorGone):
        await ref.ask(Work(0), within=60)
    assert trio.current_time() == 1
    assert await ref.stop(within=0)


async def test_cancelling_the_owner_ends_every_wait(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        ref = spawn(nursery, worker)
        nursery.cancel_scope.cancel()
    with pytest.raises(ActorGone, match="worker stopped"):
        await ref.ask(Work(0), within=60)
    assert await ref.stop(within=0)
    assert trio.current_time() == 0


async def test_a_ref_outlives_a_crash_and_so_does_the_mailbox(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    lives: list[SupervisionEvent] = []
    ref = spawn(
        nursery, worker, restart=Backoff(first=2, jitter=0), on_event=lives.append
    )
    answers: list[str] = []

    async def ask() -> None:
        answers.append(await ref.ask(Work(1), within=60))

    async with trio.open_nursery() as askers:

        @askers.start_soon
        async def crash() -> None:
            with pytest.raises(ActorGone) as gone:
                await ref.ask(Work(1, "crash"), within=60)
            assert isinstance(gone.value.__cause__, Bug)

        await wait_all_tasks_blocked()
        askers.start_soon(ask)
    assert answers == ["done at 4"]  # crashed at 1, restarted at 3
    (failed,) = [event for event in lives if isinstance(event, Failed)]
    said = crash_report(failed)
    assert said.startswith("worker crashed and is started anew: ")
    assert "in perform\n" in said, "the traceback says where"


async def test_nobody_restarts_in_silence(nursery: trio.Nursery) -> None:
    with pytest.raises(TypeError, match="on_event"):
        spawn(nursery, worker, restart=Backoff())
    await trio.lowlevel.checkpoint()
    assert not nursery.child_tasks


async def test_a_tell_is_work_that_nobody_waits_for(
    ref: Ref[Work], autojump_clock: MockClock
) -> None:
    assert ref.tell(Work(3, "refuse"))  # its error has no asker and ends here
    await wait_all_tasks_blocked()
    assert ref.tell(Work(4))
    assert not ref.tell(Work(5)), "a full mailbox drops, and says so"
    assert trio.current_time() == 0
    assert await ref.ask(Work(0), within=60) == "done at 7"


async def test_statistics_count_what_happened(
    ref: Ref[Work], nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    assert repr(ref) == "<Ref worker: running, 0 waiting>"
    nursery.start_soon(partial(ref.ask, Work(1), within=10))
    await wait_all_tasks_blocked()
    ref.tell(Work(0))
    ref.tell(Work(0))
    expected = MailboxStatistics(
        name="worker",
        capacity=1,
        waiting=1,
        peak=1,
        asked=1,
        told=1,
        dropped=1,
        abandoned=0,
    )
    assert ref.statistics() == expected
    with pytest.raises(DeadlineExceeded):
        await ref.ask(Work(0), within=0.5)
    assert ref.statistics() == attrs.evolve(expected, asked=2, abandoned=1)
    assert repr(ref) == "<Ref worker: running, 1 waiting>"
    assert await ref.stop(within=10)
    # Who was turned away did not leave.
    with pytest.raises(ActorGone):
        await ref.ask(Work(0), within=1)
    assert ref.statistics() == attrs.evolve(expected, waiting=0, asked=3, abandoned=1)
    assert repr(ref) == "<Ref worker: stopped, 0 waiting>"


async def test_a_tell_that_was_handled_leaves_nothing_behind(
    nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    handled: list[weakref.ref[Call[Work]]] = []

    async def counter(inbox: Inbox[Work]) -> None:
        async for call in inbox:
            handled.append(weakref.ref(call))
            del call

    ref = spawn(nursery, counter)
    for _ in range(3):
        assert ref.tell(Work(0))
    await wait_all_tasks_blocked()
    assert len(handled) == 3
    gc.collect()
    assert [call() for call in handled] == [None] * 3


# -- random schedules against a queue with one server, simulated by hand --------

DOWN = 2.0  # seconds between a crash and the next life


@attrs.frozen
class Message:
    """An ask, or a tell if ``patience`` is infinite."""

    arrives: float
    patience: float
    work: Work

    @property
    def told(self) -> bool:
        return self.patience == float("inf")

    @property
    def deadline(self) -> float:
        return self.arrives + self.patience


@attrs.frozen
class Schedule:
    capacity: int
    messages: list[Message]
    closes: float


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """No two things at one time: every message has fractions of its own.

    A message arrives at whole seconds and ``2n/1024``, its deadline is at whole
    seconds and ``(2n+1)/1024``; work takes whole seconds. All are exact floats.
    """
    whole = st.integers(0, 8).map(float)
    manners = ["reply", "reply", "refuse", "crash", "careless", "forget", "stubborn"]
    drawn = draw(
        st.lists(
            st.tuples(
                whole, whole, whole, st.sampled_from(manners), st.sampled_from("aat")
            ),
            max_size=9,
        )
    )
    messages = [
        Message(
            arrives + 2 * number / 1024,
            float("inf") if kind == "t" else patience + 1 / 1024,
            Work(seconds, manner),
        )
        for number, (arrives, patience, seconds, manner, kind) in enumerate(drawn)
    ]
    closes = draw(whole) * 3 + 0.999
    return Schedule(
        draw(st.integers(1, 3)), sorted(messages, key=lambda m: m.arrives), closes
    )


Ends = dict[int, tuple[str, float]]


def simulate(schedule: Schedule) -> tuple[Ends, list[int]]:
    """How each ask ends and when, and which messages are begun, in order."""
    messages, ends, begun = schedule.messages, Ends(), list[int]()
    box: list[int] = []
    door: list[int] = []
    free_at: float | None = None  # None: the actor waits for a message
    in_work: int | None = None
    closed = False

    def end(number: int, how: str, when: float) -> None:
        if not messages[number].told and number not in ends:
            ends[number] = (how, when)

    def pull(now: float) -> None:
        nonlocal free_at, in_work
        free_at = in_work = None
        while box and free_at is None:
            number = box.pop(0)
            if door:
                box.append(door.pop(0))
            if number in ends:  # abandoned
                continue
            begun.append(number)
            if messages[number].work.manner == "careless":
                end(number, "gone", now)
                free_at = now + DOWN
            else:
                in_work, free_at = number, now + messages[number].work.seconds

    events = [(m.arrives, "arrival", n) for n, m in enumerate(messages)]
    events += [(m.deadline, "deadline", n) for n, m in enumerate(messages)]
    events += [(schedule.closes, "close", -1)]
    events = sorted(event for event in events if event[0] < float("inf"))
    while events or free_at is not None:
        if free_at is not None and (not events or free_at < events[0][0]):
            now = free_at
            if in_work is not None:
                manner = messages[in_work].work.manner
                how = {"refuse": "refused", "crash": "gone", "forget": "gone"}
                end(in_work, how.get(manner, "answered"), now)
                in_work = None
                if manner == "crash":
                    free_at = now + DOWN
                    continue
            pull(now)
            continue
        now, kind, number = events.pop(0)
        if kind == "close":
            closed = True
            for waiting in door:
                end(waiting, "gone", now)
            door.clear()
        elif kind == "arrival":
            if closed:
                end(number, "gone", now)
            elif len(box) < schedule.capacity:
                box.append(number)
                if free_at is None:
                    pull(now)
            elif not messages[number].told:
                door.append(number)
        elif number not in ends:
            end(number, "late", now)
            if number in door:
                door.remove(number)
            if number == in_work and messages[number].work.manner != "stubborn":
                pull(now)
    return ends, begun


async def play(schedule: Schedule) -> tuple[Ends, list[int], MailboxStatistics]:
    ends, begun = Ends(), list[int]()
    numbers = {id(message.work): n for n, message in enumerate(schedule.messages)}

    async def diary(inbox: Inbox[Work]) -> None:
        async for call in inbox:
            begun.append(numbers[id(call.request)])
            await perform(call)

    async def arrive(number: int, message: Message) -> None:
        await trio.sleep_until(message.arrives)
        if message.told:
            ref.tell(message.work)
            return
        try:
            await ref.ask(message.work, within=message.patience)
            how = "answered"
        except TooSilly:
            how = "refused"
        except DeadlineExceeded:
            how = "late"
        except (ActorGone, MessageNotUnderstood):
            how = "gone"
        assert number not in ends
        ends[number] = (how, trio.current_time())

    patient = Backoff(
        first=DOWN, factor=1, ceiling=DOWN, jitter=0, max_restarts=99, period=1e6
    )
    async with trio.open_nursery() as nursery:
        ref = spawn(
            nursery,
            diary,
            capacity=schedule.capacity,
            restart=patient,
            on_event=lambda _: None,
        )
        for number, message in enumerate(schedule.messages):
            nursery.start_soon(arrive, number, message)
        await trio.sleep_until(schedule.closes)
        assert await ref.stop(within=1e6)
    return ends, begun, ref.statistics()


def run_virtually(main: Callable[..., Awaitable[Any]], *args: Any) -> Any:
    return trio.run(main, *args, clock=MockClock(autojump_threshold=0))


@given(schedules())
def test_a_random_schedule_ends_like_a_queue_with_one_server(
    schedule: Schedule,
) -> None:
    times = [m.arrives for m in schedule.messages]
    assert all(before < after for before, after in pairwise(times))
    ends, begun, statistics = run_virtually(play, schedule)
    expected_ends, expected_begun = simulate(schedule)
    # Accepted work is begun in order and exactly once: tells are among it.
    assert begun == expected_begun
    # Every ask ends in exactly one way, at exactly its time.
    assert ends == expected_ends
    late = sum(how == "late" for how, _ in ends.values())
    told = sum(message.told for message in schedule.messages)
    assert statistics.abandoned == late
    assert statistics.asked == len(schedule.messages) - told
    assert statistics.told + statistics.dropped == told
    assert statistics.waiting == 0
    assert statistics.peak <= schedule.capacity


@given(
    cancel_at=st.integers(0, 6),
    capacity=st.integers(0, 2),
    asks=st.lists(
        st.tuples(
            st.integers(0, 4), st.integers(0, 4), st.sampled_from(["reply", "forget"])
        ),
        max_size=8,
    ),
)
def test_nobody_waits_longer_than_the_owner_lives(
    cancel_at: int, capacity: int, asks: list[tuple[int, int, str]]
) -> None:
    """Whole seconds, so that everything happens at once, in any order."""

    async def main() -> None:
        ended = 0

        async def ask(arrives: int, seconds: int, manner: str) -> None:
            nonlocal ended
            await trio.sleep(arrives)
            patience = 3
            try:
                answer = await ref.ask(Work(seconds, manner), within=patience)
                assert answer == f"done at {trio.current_time():g}"
            except DeadlineExceeded:
                assert trio.current_time() == arrives + patience
            except (ActorGone, MessageNotUnderstood):
                pass
            assert trio.current_time() <= min(
                arrives + patience, max(arrives, cancel_at)
            )
            ended += 1

        async with trio.open_nursery() as askers:
            async with trio.open_nursery() as owner:
                ref = spawn(owner, worker, capacity=capacity)
                for each in asks:
                    askers.start_soon(ask, *each)
                await trio.sleep(cancel_at)
                owner.cancel_scope.cancel()
        assert ended == len(asks)
        assert ref.statistics().waiting == 0

    run_virtually(main)


async def answer_at_once(inbox: Inbox[Work]) -> None:
    async for call in inbox:
        with call.answering():
            call.reply("done")


async def test_time_in_which_the_loop_is_blocked_does_not_count(
    mock_clock: MockClock,
) -> None:
    """Twenty callers, each of which blocks the loop for longer than it waits."""
    answers: list[str] = []

    async def ask(ref: Ref[Work]) -> None:
        mock_clock.jump(0.1)
        answers.append(await ref.ask(Work(0), within=0.05))

    async with trio.open_nursery() as nursery:
        ref = spawn(nursery, answer_at_once)
        async with trio.open_nursery() as callers:
            for _ in range(20):
                callers.start_soon(ask, ref)
        nursery.cancel_scope.cancel()
    assert answers == ["done"] * 20


async def test_a_loop_that_is_always_blocked_ends_the_wait_all_the_same(
    mock_clock: MockClock,
) -> None:
    async def block() -> None:
        while True:
            mock_clock.jump(0.1)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        ref = spawn(nursery, worker)
        nursery.start_soon(block)
        with pytest.raises(
            DeadlineExceeded, match=r"^worker: no answer within 0\.050s"
        ):
            await ref.ask(Work(60), within=0.05)
        assert trio.current_time() < 6
        nursery.cancel_scope.cancel()
