"""Speech that is reported to a model, and coughs, which are not. Virtual
time, the runtime's own ear, and a server that a test plays."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio import Config, open_runtime
from glyphoxa_trio.config import McpConfig, NpcConfig, OverloadConfig
from glyphoxa_trio.config.voices import Engine, S2SConfig, TurnTakingConfig
from glyphoxa_trio.npc import Hold, Resume, TurnDone, TurnEnd
from glyphoxa_trio.npc.events import Flush, Speech
from glyphoxa_trio.npc.voice import Voice
from glyphoxa_trio.providers import endpointing
from glyphoxa_trio.providers.s2s import AudioOut as Audio
from glyphoxa_trio.providers.s2s import (
    Heard,
    ResponseStarted,
    SendAudio,
    SpeechBegins,
    SpeechEnds,
    Spoken,
    Truncate,
)

from ..support import ScriptedLLM
from .support import ASKS, Links, ScriptedLink

RATE = endpointing.RATE
PIECE = RATE // 50 * 2  # 20 ms
LOUD, SILENT = b"ab" * (PIECE // 2), bytes(PIECE)


@attrs.define
class Talk:
    links: Links
    voice: Voice
    heard: list[tuple[float, Any]] = attrs.field(factory=list)

    @property
    def link(self) -> ScriptedLink:
        return self.links.last

    async def listen(self) -> None:
        async for event in self.voice:
            self.heard.append((trio.current_time(), event))

    async def make(self, seconds: float, sound: bytes = LOUD) -> None:
        """Into the microphone, as time goes by."""
        for _ in range(round(seconds * 50)):
            self.voice.hear(sound)
            await trio.sleep(0.02)

    async def ask(self, response: str, seconds: float) -> None:
        """Say something, and be answered with so much audio at once."""
        await self.make(0.6)
        await self.make(0.7, SILENT)
        self.link.push(
            Heard("Who is there?", True),
            ResponseStarted(response),
            Spoken(response, f"{response}.item", "A long story."),
            Audio(response, f"{response}.item", bytes(int(24_000 * seconds) * 2)),
        )
        await wait_all_tasks_blocked()

    def when(self, kind: type[Any]) -> list[float]:
        return [at for at, event in self.heard if isinstance(event, kind)]

    def ends(self) -> list[TurnEnd]:
        return [event.end for _, event in self.heard if isinstance(event, TurnDone)]


@asynccontextmanager
async def open_talk(
    monkeypatch: pytest.MonkeyPatch, interrupt: float = 0.5
) -> AsyncIterator[Talk]:
    monkeypatch.setattr(endpointing, "detector", lambda: any)  # what is not silent
    links = Links(attrs.evolve(ASKS, input_rate=RATE))
    config = Config(
        npcs=(NpcConfig(name="Siri", engine=Engine.S2S),),
        mcp=McpConfig(remember=False),
        overload=OverloadConfig(enabled=False),
        s2s=S2SConfig(automatic=False),
        turn_taking=TurnTakingConfig(interrupt=interrupt),
    )
    async with open_runtime(config, llm=ScriptedLLM([]), s2s=links) as runtime:
        async with (
            runtime.npc("Siri").voice(speaker="Ann", rate=RATE) as voice,
            trio.open_nursery() as nursery,
        ):
            await wait_all_tasks_blocked()
            talk = Talk(links, voice)
            nursery.start_soon(talk.listen)
            voice.played(0)
            yield talk
            nursery.cancel_scope.cancel()
    assert not links.faults


async def test_a_cough_is_not_told_to_the_model(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_talk(monkeypatch) as talk:
        await talk.ask("r1", 20.0)
        talk.voice.played(1000)
        sent = len(talk.link.sent)
        at = trio.current_time()
        await talk.make(0.3)
        await talk.make(0.8, SILENT)
        # With 0.15 s of it, a frame of which began in the silence before.
        assert talk.when(Hold) == [pytest.approx(at + 0.12)]
        (resumed,) = talk.when(Resume)
        assert at + 0.3 + 0.5 <= resumed <= at + 0.3 + 0.6
        assert not talk.when(Flush)
        assert talk.link.sent[sent:] == []  # not a byte of it
        assert talk.ends() == []
        # What it says from then on is heard.
        before = len(talk.when(Speech))
        talk.link.push(Audio("r1", "r1.item", bytes(4800)))
        await wait_all_tasks_blocked()
        assert len(talk.when(Speech)) == before + 1


async def test_who_goes_on_interrupts_and_nothing_of_it_is_lost(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_talk(monkeypatch) as talk:
        await talk.ask("r1", 20.0)
        talk.voice.played(1000)
        sent, at = len(talk.link.sent), trio.current_time()
        await talk.make(1.0)
        assert talk.when(Hold) == [pytest.approx(at + 0.12)]
        (flushed,) = talk.when(Flush)
        assert at + 0.46 <= flushed <= at + 0.52
        assert not talk.when(Resume)
        await talk.make(0.8, SILENT)
        commands = [command for _, command in talk.link.sent[sent:]]
        kinds = [type(x) for x in commands if not isinstance(x, SendAudio)]
        assert SpeechBegins in kinds
        assert SpeechEnds in kinds
        assert Truncate("r1.item", 1000) in commands
        audio = b"".join(x.pcm for x in commands if isinstance(x, SendAudio))
        assert audio.count(b"ab") >= RATE  # the whole second, from its beginning
        assert talk.ends() == [TurnEnd.INTERRUPTED]


async def test_a_microphone_that_is_left_off_in_a_cough_ends_it(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_talk(monkeypatch) as talk:
        await talk.ask("r1", 20.0)
        talk.voice.played(1000)
        at = trio.current_time()
        await talk.make(0.3)
        await trio.sleep(2)
        assert talk.when(Resume) == [pytest.approx(at + 0.28 + 0.6)]
        assert not talk.when(Flush)


async def test_without_a_minimum_it_is_interrupted_at_once(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_talk(monkeypatch, interrupt=0.0) as talk:
        await talk.ask("r1", 20.0)
        talk.voice.played(1000)
        at = trio.current_time()
        await talk.make(0.3)
        assert talk.when(Flush) == [pytest.approx(at + 0.12)]
        assert not talk.when(Hold)


async def test_a_short_answer_to_silence_is_heard(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_talk(monkeypatch, interrupt=2.0) as talk:
        await talk.make(0.3)
        await talk.make(0.8, SILENT)
        kinds = [type(command) for _, command in talk.link.sent]
        assert kinds.count(SpeechBegins) == kinds.count(SpeechEnds) == 1
