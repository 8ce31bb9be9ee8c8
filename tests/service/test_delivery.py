"""Events on their way to a client: numbers, credit, what counts as delivered, and what
travels together."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.npc import (
    ContextAdded,
    Flush,
    Sentence,
    Speech,
    TextDelta,
    TurnDone,
    TurnEnd,
    TurnEvent,
)
from glyphoxa_trio.npc.events import Timings
from glyphoxa_trio.service import protocol as p
from glyphoxa_trio.service.delivery import MOST_AUDIO, WINDOW, Delivery
from glyphoxa_trio.service.outbox import MOST_WAITING, TOGETHER, Outbox
from glyphoxa_trio.service.player_view import for_player

OF: dict[str, Any] = {"npc": "Bo", "turn": 1}
DONE = TurnDone(
    **OF,
    end=TurnEnd.COMPLETED,
    text="",
    outcomes=(),
    timings=Timings(model=0.0, tools=0.0, total=0.0),
    rounds=1,
)


def text(number: int) -> TextDelta:
    return TextDelta(**OF, text=f"{number}")


def sentence(number: int) -> Sentence:
    return Sentence(**OF, text=f"{number}", round=0)


def nothing() -> None:
    pytest.fail("too much waits")


@attrs.define
class Wire:
    """What was sent, and when."""

    frames: list[tuple[float, Any]] = attrs.field(factory=list)

    async def send(self, frame: str | bytes) -> None:
        await trio.lowlevel.checkpoint()
        told = frame if isinstance(frame, bytes) else json.loads(frame)
        self.frames.append((round(trio.current_time(), 4), told))

    @property
    def events(self) -> list[dict[str, Any]]:
        told = [x for _, x in self.frames if isinstance(x, dict)]
        return [y for x in told if x["type"] == "events" for y in x["events"]]


async def sending(outbox: Outbox, wire: Wire, work: Callable[[], Any]) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.run, wire.send)
        await wait_all_tasks_blocked()
        await work()
        await trio.sleep(1)
        nursery.cancel_scope.cancel()


async def test_events_travel_together_and_urgent_ones_at_once(
    autojump_clock: MockClock,
) -> None:
    wire, outbox = Wire(), Outbox(nothing)
    delivery = Delivery("a", outbox, nothing)

    async def work() -> None:
        for number in range(3):
            delivery.take(text(number))
            await trio.sleep(0.001)
        await trio.sleep(0.1)
        delivery.take(text(3))
        delivery.take(sentence(4))  # the first one
        await trio.sleep(0.1)
        delivery.take(text(5))
        delivery.take(sentence(6))
        await trio.sleep(0.001)
        delivery.take(DONE)

    await sending(outbox, wire, work)
    assert [(at, len(x["events"])) for at, x in wire.frames] == [
        (TOGETHER, 3),
        (0.103, 2),
        (0.204, 3),
    ]
    assert [x["n"] for x in wire.events] == [*range(1, 9)]


async def test_messages_and_audio_keep_their_order(autojump_clock: MockClock) -> None:
    wire, outbox = Wire(), Outbox(nothing)
    delivery = Delivery("a", outbox, nothing)

    async def work() -> None:
        delivery.take(text(0))
        outbox.put(p.PongReply())
        delivery.take(Speech(**OF, pcm=b"12", rate=8000))
        delivery.take(text(1))
        delivery.take(Speech(**OF, pcm=b"3456", rate=8000))
        await trio.lowlevel.checkpoint()

    await sending(outbox, wire, work)
    kinds = [x if isinstance(x, bytes) else x["type"] for _, x in wire.frames]
    assert kinds == ["events", "pong", "events", b"12", b"3456"]
    speech = [x for x in wire.events if x["event"] == "Speech"]
    assert [(x["bytes"], x["rate"]) for x in speech] == [(2, 8000), (4, 8000)]
    assert not any("pcm" in x for x in speech)


async def test_a_client_that_wants_no_audio_gets_none(
    autojump_clock: MockClock,
) -> None:
    wire, outbox = Wire(), Outbox(nothing)
    delivery = Delivery("a", outbox, nothing, voiced=False)

    async def work() -> None:
        delivery.take(Speech(**OF, pcm=b"12", rate=8000))
        await trio.lowlevel.checkpoint()

    await sending(outbox, wire, work)
    assert [x["bytes"] for x in wire.events] == [0]
    assert len(wire.frames) == 1


def test_too_many_events_or_too_much_audio_overflow() -> None:
    told: list[str] = []
    outbox = Outbox(lambda: told.append("outbox"))
    for _ in range(MOST_WAITING + 5):
        outbox.put(p.PongReply())
    assert told == ["outbox"]
    told.clear()
    delivery = Delivery("a", Outbox(nothing), lambda: told.append("delivery"))
    piece = Speech(**OF, pcm=bytes(MOST_AUDIO // 8), rate=8000)
    for _ in range(8):
        delivery.take(piece)
    assert not told
    delivery.take(piece)
    assert told == ["delivery"]


async def test_what_arrived_is_waited_for_no_longer_than_it_is_reported(
    autojump_clock: MockClock,
) -> None:
    delivery = Delivery("a", Outbox(nothing), nothing)
    for number in range(3):
        delivery.take(text(number))
    left = [3.0]

    async def report() -> None:
        for number in range(1, 4):
            await trio.sleep(4)
            delivery.ack(number)
        await trio.sleep(4)
        left.clear()  # all of it was played
        delivery.ack(3)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(report)
        await delivery.wait_arrived(5, lambda: bool(left))
        assert trio.current_time() == 16
    delivery.take(text(9))
    await delivery.wait_arrived(5)
    assert trio.current_time() == 21


async def test_a_flush_is_known_once_it_was_acknowledged() -> None:
    delivery = Delivery("a", Outbox(nothing), nothing)
    delivery.take(text(0))
    assert delivery.knows_flush(0)
    delivery.take(Flush(**OF, reason="somebody speaks"))
    assert not delivery.knows_flush(1)
    assert delivery.knows_flush(2)
    for number in range(WINDOW):
        delivery.take(text(number))
    delivery.take(Flush(**OF, reason="somebody speaks"))
    assert not delivery.knows_flush(2)
    assert delivery.knows_flush(WINDOW + 1)


# -- against two lists --------------------------------------------------------------

STEPS = st.one_of(
    st.tuples(st.just("take"), st.integers(1, 40)),
    st.tuples(st.just("hidden"), st.integers(1, 3)),
    st.tuples(st.just("ack"), st.integers(-2, 70)),
    st.tuples(st.just("flush"), st.just(1)),
)


@given(steps=st.lists(STEPS, max_size=40))
def test_step_by_step_it_is_a_list_and_a_window(steps: list[tuple[str, int]]) -> None:
    async def play() -> None:
        wire, outbox = Wire(), Outbox(nothing)
        delivery = Delivery("a", outbox, nothing, view=for_player)
        arrived: list[TurnEvent] = []
        delivery.tell(lambda *events: arrived.extend(events))
        taken: list[TurnEvent] = []
        sent = acked = 0  # of taken
        numbers: list[int] = []  # of each one that was sent
        for step, amount in steps:
            unlimited = False
            match step:
                case "take" | "hidden":
                    for _ in range(amount):
                        event: TurnEvent = text(len(taken))
                        if step == "hidden":
                            event = ContextAdded(**OF, lines=("secret",))
                        taken.append(event)
                        delivery.take(event)
                case "flush":
                    flush = Flush(**OF, reason="somebody speaks")
                    delivery.take(flush)
                    waiting = [x for x in taken[sent:] if not isinstance(x, TextDelta)]
                    taken[sent:] = [*waiting, flush]
                    unlimited = True
                case _:
                    last = numbers[-1] if numbers else 0
                    n = last - amount
                    delivery.ack(n)
                    while acked < sent and numbers[acked] <= n:
                        acked += 1
            while sent < len(taken) and (unlimited or sent - acked < WINDOW):
                visible = isinstance(taken[sent], TextDelta | Flush)
                numbers.append((numbers[-1] if numbers else 0) + visible)
                sent += 1
            await outbox.flush(wire.send)
            shown = [x for x in taken[:sent] if isinstance(x, TextDelta | Flush)]
            assert [x.get("text") for x in wire.events] == [
                getattr(x, "text", None) for x in shown
            ]
            assert [x["n"] for x in wire.events] == [*range(1, len(shown) + 1)]
            assert arrived == taken[:acked]

    trio.run(play)
