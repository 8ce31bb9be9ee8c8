"""A turn that the machine cannot serve: told at once, in character, in an event."""

from __future__ import annotations

from typing import Any

import attrs

import trio
from trio.testing import MockClock

from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.npc import (
    Fallback,
    FellBack,
    Queued,
    Sentence,
    Shed,
    TextDelta,
    Timings,
    TurnDone,
    TurnEnd,
)
from glyphoxa_trio.npc.activity import Activity
from glyphoxa_trio.providers.llm import LLMRequest

from .support import Reply, Table, open_table, protocol_faults

WHY = "this is all it can do"


@attrs.define
class Doorkeeper:
    """Lets in ``most``; ``closed`` nobody."""

    most: int = 1000
    closed: bool = False
    asked: list[int] = attrs.field(factory=list)

    @property
    def busy(self) -> bool:
        return self.closed

    def refusal(self, running: int) -> str:
        self.asked.append(running)
        return WHY if self.closed or running >= self.most else ""


def slow(_: LLMRequest) -> Reply:
    return [1.0, "Well. Hello."]


async def hear(table: Table, text: str, *, speaker: str = "player") -> TurnDone:
    async with table.npc.say(text, speaker=speaker) as turn:
        return await turn.finish()


async def test_a_turn_is_turned_away_at_once_in_the_npcs_words_and_every_event_is_there(
    autojump_clock: MockClock,
) -> None:
    door = Doorkeeper(closed=True)
    async with open_table(slow, activity=Activity(door)) as table:
        async with table.npc.say("Hello?", speaker="Ann") as turn:
            heard = [(trio.current_time(), event) async for event in turn]
        of: dict[str, Any] = {"npc": "Bob", "turn": 1}
        assert [event for _, event in heard] == [
            Shed(**of, reason=WHY, speaker="Ann", text="Hello?"),
            FellBack(**of, reason=Fallback.OVERLOADED),
            TextDelta(**of, text="Hm?"),
            Sentence(**of, text="Hm?", round=0),
            TurnDone(
                **of,
                end=TurnEnd.SHED,
                text="Hm?",
                outcomes=(),
                timings=Timings(model=0.0, tools=0.0, total=0.0),
                rounds=0,
                tier=None,
                error=WHY,
            ),
        ]
        assert {at for at, _ in heard} == {0.0}
        assert table.events.of(1) == [event for _, event in heard]
        assert (turn.delivered, table.llm.requests) == ("Hm?", [])
        assert table.session.services.activity.running == 0


async def test_what_was_said_is_remembered_so_that_it_need_not_be_said_again(
    autojump_clock: MockClock,
) -> None:
    door = Doorkeeper(closed=True)
    async with open_table(slow, activity=Activity(door)) as table:
        await hear(table, "Where is the key?")
        door.closed = False
        done = await hear(table, "Well?")
        assert done.end is TurnEnd.COMPLETED
        assert table.llm.told() == [
            ("user", "Where is the key?"),
            ("assistant", "Hm?"),
            ("user", "Well?"),
        ]
        assert protocol_faults(table.llm.requests[-1].messages) == []


async def test_a_turn_that_runs_is_not_touched(autojump_clock: MockClock) -> None:
    door = Doorkeeper()
    async with open_table(slow, activity=Activity(door)) as table:
        async with table.npc.say("Hello?") as turn:
            await trio.sleep(0.5)
            door.closed = True
            done = await turn.finish()
        assert (done.end, done.timings.total) == (TurnEnd.COMPLETED, 1.0)
        assert door.asked == [0]


async def test_whoever_waits_is_told_when_it_is_their_turn(
    autojump_clock: MockClock,
) -> None:
    door = Doorkeeper()
    async with open_table(slow, activity=Activity(door)) as table:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hear, table, "Hello?")
            await trio.sleep(0.5)
            door.closed = True
            # Bob speaks: he cannot say something else to somebody else meanwhile.
            async with table.npc.say("And me?", speaker="Ann") as turn:
                heard = [(trio.current_time(), type(event)) async for event in turn]
        assert heard == [
            (0.5, Queued),
            *((1.0, kind) for kind in (Shed, FellBack, TextDelta, Sentence, TurnDone)),
        ]


async def test_who_interrupts_is_heard_and_takes_the_place_that_becomes_free(
    autojump_clock: MockClock,
) -> None:
    door = Doorkeeper(most=1)
    async with open_table(slow, activity=Activity(door)) as table:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hear, table, "Hello?")
            await trio.sleep(0.5)
            done = await hear(table, "No, wait.")
        assert (done.end, trio.current_time()) == (TurnEnd.COMPLETED, 1.5)
        ends = [(event.turn, event.end) for event in table.events.all(TurnDone)]
        assert ends == [(1, TurnEnd.INTERRUPTED), (2, TurnEnd.COMPLETED)]
        assert door.asked == [0, 0]


async def test_a_machine_that_is_late_does_not_serve_who_interrupts_either(
    autojump_clock: MockClock,
) -> None:
    door = Doorkeeper()
    async with open_table(slow, activity=Activity(door)) as table:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hear, table, "Hello?")
            await trio.sleep(0.5)
            door.closed = True  # or asking again and again would keep it late
            done = await hear(table, "No, wait.")
        assert (done.end, trio.current_time()) == (TurnEnd.SHED, 0.5)
        assert table.events.all(TurnDone)[0].end is TurnEnd.INTERRUPTED
        assert table.session.services.activity.running == 0


async def test_what_its_speaker_gave_up_before_it_began_is_not_asked_about(
    autojump_clock: MockClock,
) -> None:
    door = Doorkeeper()
    async with open_table(slow, activity=Activity(door)) as table:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hear, table, "Hello?")
            await trio.sleep(0.5)
            nursery.start_soon(hear, table, "No,")
            nursery.start_soon(hear, table, "wait.")
        assert len(door.asked) == 2
        assert len(table.events.all(TurnDone)) == 3


async def test_after_a_turn_that_was_turned_away_the_next_configuration_is_taken_over(
    autojump_clock: MockClock,
) -> None:
    door = Doorkeeper(closed=True)
    async with open_table(slow, activity=Activity(door)) as table:
        with_one_line = NpcConfig(name="Bob", fallback=("Not now.",))
        async with table.npc.say("Hello?") as turn:
            await table.reload(npc=with_one_line)
            await turn.finish()
        assert (await hear(table, "Hello?")).text == "Not now."
