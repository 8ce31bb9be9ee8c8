"""Real audio through a speech-to-speech NPC: espeak-ng speaks, the fake model hears it,
and what it says comes back as it was sent. Real time on loopback, within limits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from glyphoxa_trio.npc import Npc, TierSelected, TurnDone, TurnEnd, TurnEvent
from glyphoxa_trio.npc.events import EngineSwitched, Flush, Speech
from glyphoxa_trio.npc.voice import Voice
from glyphoxa_trio.providers.audio import Resampler
from glyphoxa_trio.providers.espeak import Espeak
from glyphoxa_trio.providers.speech import VoiceStyle as Sound
from glyphoxa_trio.testing.realtime_server import (
    ModelTurn,
    RealtimeServer,
    Reply,
    Speak,
    Transcription,
)
from glyphoxa_trio.tools.tier import Tier

from .support import heard_whole
from .test_turns import OPENAI, done_of, one_turn, open_voices

pytestmark = [pytest.mark.border, pytest.mark.usefixtures("espeak")]


async def spoken(text: str) -> bytes:
    """What espeak-ng makes of it, at its own rate."""
    async with Espeak().speak(text, Sound(language="en")) as pieces:
        return b"".join([piece async for piece in pieces])


def frames(pcm: bytes, rate: int) -> Iterator[bytes]:
    """In pieces of 20 ms."""
    size = rate // 50 * 2
    for at in range(0, len(pcm), size):
        yield pcm[at : at + size]


def resampled(pcm: bytes, rate: int, to: int) -> bytes:
    resampler = Resampler(rate, to)
    return b"".join([resampler.feed(piece) for piece in frames(pcm, rate)])


async def test_what_is_said_arrives_and_what_is_answered_comes_back() -> None:
    rate = Espeak().rate
    question = await spoken("Who is there, and what do you want?")
    quiet = bytes(rate * 2)
    answer = resampled(await spoken("Nobody you know."), rate, 24_000)

    def script(turn: ModelTurn) -> Reply:
        return Speak("Nobody you know.", audio=answer)

    hears = [Transcription("Who is there, and what do you want?")]
    async with open_voices(OPENAI, script, hears=hears) as (runtime, fake):
        npc = runtime.npc("Bartok")
        await greeted(npc)
        async with npc.voice(speaker="Ann", rate=rate) as voice:
            for frame in frames(question + quiet, rate):
                voice.hear(frame)
            events = await one_turn(voice)
        assert isinstance(fake, RealtimeServer)
        said = resampled(question + quiet, rate, 24_000)
        assert heard_whole(fake, said, 24_000)
    assert b"".join(e.pcm for e in events if isinstance(e, Speech)) == answer
    assert done_of(events).text == "Nobody you know."


async def greeted(npc: Npc) -> None:
    """The socket is there, so nothing of the microphone is kept back or dropped."""
    async with npc.say("Hello") as turn:
        await turn.finish()


async def listen(voice: Voice, until: float) -> list[TurnEvent]:
    """Play what comes, up to so many seconds of it; then report it."""
    heard: list[TurnEvent] = []
    played = 0.0
    voice.played(0)
    async for event in voice:
        heard.append(event)
        if isinstance(event, Speech):
            played = min(until, played + event.seconds)
            voice.played(1000 * played)
        if isinstance(event, TurnDone):
            break
    return heard


async def test_what_was_truncated_was_not_heard() -> None:
    rate = Espeak().rate
    question = await spoken("Tell me everything about the king.")
    stop = await spoken("Stop it, please.")
    quiet = bytes(rate * 2)
    story = resampled(
        await spoken("The king is dead, long live the king."), rate, 24_000
    )

    def script(turn: ModelTurn) -> Reply:
        if turn.number == 1:
            return Speak("The king is dead, long live the king.", audio=story)
        return Speak("Very well.")

    hears = [
        Transcription("Tell me everything about the king."),
        Transcription("Stop it, please."),
    ]
    async with open_voices(OPENAI, script, hears=hears) as (runtime, fake):
        npc = runtime.npc("Bartok")
        await greeted(npc)
        async with npc.voice(speaker="Ann", rate=rate) as voice:
            for frame in frames(question + quiet, rate):
                voice.hear(frame)
            first = await listen(voice, until=1.0)
            for frame in frames(stop + quiet, rate):
                voice.hear(frame)
            second = await listen(voice, until=9.0)
        assert isinstance(fake, RealtimeServer)
        items = fake.sessions[0].conversation.items
        told = [str(x.wire) for x in items if x.wire.get("role") == "assistant"]
    assert b"".join(e.pcm for e in first if isinstance(e, Speech)) == story
    assert any(isinstance(event, Flush) for event in second)
    # The server does not remember the words that nobody heard.
    assert len(told) == 4  # greeting, answer, story, and the last
    assert not any("long live" in words for words in told)
    assert done_of(second).text == "Very well."


async def test_a_session_that_is_asked_chooses_its_way_by_the_words() -> None:
    # G37, D23b: not automatic, so the tier comes first, for speech as well.
    rate = Espeak().rate
    question = await spoken("Think carefully, and tell me about the conspiracy.")
    quiet = bytes(rate * 2)

    def script(turn: ModelTurn) -> Reply:
        return Speak("As far as I know.")

    said = "Think carefully, and tell me about the conspiracy."
    hears = [
        Transcription(said, late=False)
    ]  # within the time that they are waited for
    async with open_voices(
        OPENAI, script, hears=hears, automatic=False, tier=Tier.DEEP
    ) as (runtime, _):
        npc = runtime.npc("Bartok")
        await greeted(npc)
        async with npc.voice(speaker="Ann", rate=rate) as voice:
            for frame in frames(question + quiet, rate):
                voice.hear(frame)
            events = await one_turn(voice)
    (selected,) = [e for e in events if isinstance(e, TierSelected)]
    assert selected.selected is selected.tier is Tier.DEEP
    assert selected.text.startswith("Think carefully")
    assert not [e for e in events if isinstance(e, EngineSwitched)]  # no slow tools
    assert done_of(events).end is TurnEnd.COMPLETED
    assert done_of(events).text == "As far as I know."
