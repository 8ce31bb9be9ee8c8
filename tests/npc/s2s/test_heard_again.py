"""What was said to a socket that died before it told a word of it is heard by the next
one, once, and is one turn. Virtual time; a test plays the server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.config.voices import Engine, S2SConfig
from glyphoxa_trio.npc import TurnDone, TurnEnd
from glyphoxa_trio.npc.s2s import RealtimeConversation
from glyphoxa_trio.npc.s2s.sockets import LiveSettings
from glyphoxa_trio.npc.s2s.unanswered import BEFORE, LONGEST, Unanswered
from glyphoxa_trio.providers.s2s import (
    Committed,
    Event,
    Heard,
    Respond,
    ResponseStarted,
    SendAudio,
    SpeechBegins,
    SpeechEnds,
    SpeechStarted,
    SpeechStopped,
)

from ..support import Table, open_table
from .support import ASKS, Links, live, lost

BOB = NpcConfig(name="Bob", engine=Engine.S2S, fallback=("Hm?",))
RATE = ASKS.input_rate
PIECES = [bytes([n]) * (RATE // 50 * 2) for n in range(1, 31)]  # 0.6 s


@attrs.define
class Talk:
    table: Table
    links: Links
    live: RealtimeConversation

    def ends(self) -> list[TurnEnd]:
        return [event.end for event in self.table.events.all(TurnDone)]

    def again(self) -> list[bytes]:
        return [x.pcm for x in self.links.last.all(SendAudio) if x.again]

    def hear(self, pieces: list[bytes]) -> None:
        for piece in pieces:
            self.live.hear(piece)

    async def says(self, *events: Event) -> None:
        self.links.last.push(*events)
        await wait_all_tasks_blocked()

    async def cut(self, wait: float = 1.0) -> None:
        self.links.last.push(lost())
        await trio.sleep(wait)


@asynccontextmanager
async def open_talk(*, automatic: bool = True) -> AsyncIterator[Talk]:
    links = Links(ASKS)
    conversation = live(links)
    if not automatic:
        settings = LiveSettings(backoff=conversation._sockets.settings.backoff)
        conversation = RealtimeConversation(
            provider=links, automatic=False, settings=settings
        )
    config = S2SConfig(route=False, automatic=automatic)
    async with open_table([], live=conversation, npc=BOB, s2s=config) as table:
        conversation.open()
        await wait_all_tasks_blocked()
        yield Talk(table, links, conversation)
    assert not links.faults


async def test_what_nobody_has_told_a_word_of_is_heard_again_and_is_one_turn(
    autojump_clock: MockClock,
) -> None:  # P2-8 of the findings: it was lost, and answered by a fallback
    async with open_talk() as talk:
        talk.hear(PIECES[:10])
        await talk.says(SpeechStarted())
        talk.hear(PIECES[10:])
        await talk.says(SpeechStopped("i1"), Committed("i1"))
        await talk.cut()
        assert talk.again() == PIECES
        talk.hear([b"live"])
        assert talk.links.last.all(SendAudio)[-1] == SendAudio(b"live")
        assert talk.ends() == []
        await talk.says(SpeechStarted())
        assert talk.ends() == []  # that is not somebody who goes on
        await talk.says(SpeechStopped("i2"), Committed("i2"))
        talk.links.last.speak("r1", "Nobody.", heard="i2")
        await talk.says(Heard("Who is there?", True, "i2"))
        assert talk.ends() == [TurnEnd.COMPLETED]
        (done,) = talk.table.events.all(TurnDone)
        assert done.text == "Nobody."
        past = talk.table.session.memory.conversation._past
        assert [x.text for x in past] == ["Who is there?"]
        # And after that it is over with it.
        await talk.cut()
        talk.live.open()
        await trio.sleep(5)
        assert talk.again() == []


async def test_somebody_who_still_speaks_is_heard_from_the_beginning(
    autojump_clock: MockClock,
) -> None:
    async with open_talk() as talk:
        talk.hear(PIECES[:10])
        await talk.says(SpeechStarted())
        talk.links.last.push(lost())
        await wait_all_tasks_blocked()
        talk.hear(PIECES[10:])
        await trio.sleep(1)
        assert [x.pcm for x in talk.links.last.all(SendAudio)] == PIECES
        await talk.says(SpeechStarted(), SpeechStopped("i2"))
        talk.links.last.speak("r1", "Nobody.", heard="i2")
        await wait_all_tasks_blocked()
        assert talk.ends() == [TurnEnd.COMPLETED]


async def test_a_model_that_is_asked_hears_it_again_and_is_asked_after_that(
    autojump_clock: MockClock,
) -> None:
    async with open_talk(automatic=False) as talk:
        talk.live.speech_begins()
        talk.hear(PIECES)
        talk.live.speech_ends()
        await trio.sleep(0.1)  # its words are waited for
        await talk.cut(5.0)
        commands = [command for _, command in talk.links.last.sent]
        kinds = [type(x) for x in commands]
        wanted = [SpeechBegins, *[SendAudio] * len(PIECES), SpeechEnds, Respond]
        assert [x for x in kinds if x in wanted] == wanted
        await talk.says(Committed("i2"))
        talk.links.last.speak("r1", "Nobody.", heard="i2")
        await wait_all_tasks_blocked()
        assert talk.ends() == [TurnEnd.COMPLETED]


async def test_what_is_said_without_a_socket_begins_before_and_ends_after_it(
    autojump_clock: MockClock,
) -> None:
    async with open_talk(automatic=False) as talk:
        talk.links.last.push(lost())
        await wait_all_tasks_blocked()
        assert not talk.live.statistics().connected
        talk.live.speech_begins()
        talk.hear(PIECES)
        talk.live.speech_ends()
        await trio.sleep(5.0)
        kinds = [type(command) for _, command in talk.links.last.sent]
        wanted = [SpeechBegins, *[SendAudio] * len(PIECES), SpeechEnds]
        assert [x for x in kinds if x in wanted] == wanted


@pytest.mark.parametrize(
    "told",
    [
        (SpeechStopped("i1"), Heard("Who is there?", True, "i1")),
        (SpeechStopped("i1"), ResponseStarted("r1", "i1")),
        (),
    ],
    ids=["words", "answer", "nothing was said"],
)
async def test_what_was_understood_or_answered_is_not_heard_again(
    autojump_clock: MockClock, told: tuple[Event, ...]
) -> None:
    async with open_talk() as talk:
        talk.hear(PIECES)
        await talk.says(*(SpeechStarted(),) * bool(told), *told)
        await talk.cut()
        talk.live.open()
        await trio.sleep(5)
        assert len(talk.links.opened) > 1
        assert talk.again() == []


async def test_a_turn_whose_sockets_die_each_time_is_given_up(
    autojump_clock: MockClock,
) -> None:
    async with open_talk() as talk:
        talk.hear(PIECES)
        await talk.says(SpeechStarted(), SpeechStopped("i1"))
        for item in ("i2", "i3"):
            await talk.cut(5.0)
            assert talk.again() == PIECES  # once on each socket, whole
            await talk.says(SpeechStarted(), SpeechStopped(item))
            assert talk.ends() == []
        await talk.cut(5.0)
        assert talk.ends() == [TurnEnd.FAILED]


async def test_what_nobody_waits_for_any_more_is_not_heard_again(
    autojump_clock: MockClock,
) -> None:
    async with open_talk() as talk:
        talk.hear(PIECES)
        await talk.says(SpeechStarted(), SpeechStopped("i1"))
        talk.links.last.push(lost())
        await wait_all_tasks_blocked()
        await talk.table.npc.interrupt()
        await trio.sleep(5)
        assert len(talk.links.opened) == 2
        assert talk.again() == []
        assert talk.ends() == [TurnEnd.INTERRUPTED]


@given(
    st.lists(
        st.one_of(
            st.floats(0.02, 5.0),
            st.sampled_from(["begin", "settle", "take"]),
        ),
        max_size=40,
    )
)
def test_it_keeps_what_was_said_last_within_a_bound(steps: list[float | str]) -> None:
    unanswered, rate = Unanswered(1000), 1000
    heard: list[bytes] = []
    for number, step in enumerate(steps):
        match step:
            case "begin":
                unanswered.begin()
            case "settle":
                unanswered.settle()
            case "take":
                waited = unanswered.waits
                taken = list(unanswered.take())
                assert taken == (heard[-len(taken) :] if taken else [])
                assert waited or not taken
                assert unanswered.take() == ()
                heard.clear()
            case float():
                piece = bytes([number]) * int(step * rate) * 2
                heard.append(piece)
                unanswered.hear(piece)
        most = LONGEST if unanswered.waits else BEFORE
        kept = list(unanswered._pieces)
        assert len(kept) <= 1 or sum(map(len, kept)) <= most * rate * 2
