"""Real audio, end to end: `espeak-ng` asks, a recognizer understands, an NPC answers,
`espeak-ng` says it; and every byte is accounted for.

Processes are real, so nothing is timed; each test has an absolute end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import attrs
import pytest

import trio

from glyphoxa_trio import Config, Npc, open_runtime
from glyphoxa_trio.config import McpConfig, NpcConfig, OverloadConfig
from glyphoxa_trio.config.voices import (
    RecognitionConfig,
    RecognitionProvider,
    SpeechConfig,
    SynthesisConfig,
    SynthesisProvider,
)
from glyphoxa_trio.npc import Sentence, TierSelected, TurnDone, TurnEnd
from glyphoxa_trio.npc.events import Flush, Speech, Transcript
from glyphoxa_trio.npc.voice import Voice
from glyphoxa_trio.providers.audio import bytes_of
from glyphoxa_trio.providers.espeak import Espeak
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.providers.speech import VoiceStyle as Sound
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing.transcription_server import open_transcription_server

from ..npc.support import HANG, Reply, ScriptedLLM
from ..providers.spoken import spoken

pytestmark = [pytest.mark.border, pytest.mark.usefixtures("espeak")]

HORSE = "What is the price of a horse?"
DRAGON = "Tell me about the dragon."
ANSWERS = {
    "horse": "Seventy-five gold pieces. Or a good song.",
    "dragon": "It sleeps below the hill.",
}
MICROPHONE = 48_000


def answer(request: LLMRequest) -> Reply:
    """By what was understood, so that it must have been."""
    asked = request.messages[-1].content
    words = [word for word in ANSWERS if word in asked]
    return [ANSWERS[words[0]]] if words else ["Pardon?"]


def config(recognition: RecognitionConfig) -> Config:
    return Config(
        npcs=(NpcConfig(name="Moira"),),
        mcp=McpConfig(remember=False),
        overload=OverloadConfig(enabled=False),
        speech=SpeechConfig(
            synthesis=SynthesisConfig(provider=SynthesisProvider.ESPEAK),
            recognition=recognition,
        ),
    )


PHRASES = RecognitionConfig(
    provider=RecognitionProvider.POCKETSPHINX, phrases=(HORSE, DRAGON)
)


async def said(*sentences: str) -> bytes:
    """What these sound like, one after the other."""
    audio = b""
    for sentence in sentences:
        async with Espeak().speak(sentence, Sound()) as pieces:
            audio += b"".join([piece async for piece in pieces])
    return audio


async def ask(voice: Voice, question: str) -> None:
    """Into the microphone, in pieces of 20 ms."""
    pcm = await spoken(question, MICROPHONE)
    size = bytes_of(0.02, MICROPHONE)
    for at in range(0, len(pcm), size):
        voice.hear(pcm[at : at + size])
        await trio.lowlevel.checkpoint()


@attrs.define
class Heard:
    """What somebody heard of a voice, up to the end of a turn."""

    pcm: bytes = b""
    transcripts: list[Transcript] = attrs.field(factory=list)
    sentences: list[str] = attrs.field(factory=list)
    flushes: list[int] = attrs.field(factory=list)
    done: TurnDone | None = None


async def hear_out(voice: Voice) -> Heard:
    heard = Heard()
    async for event in voice:
        match event:
            case Speech(pcm=pcm):
                heard.pcm += pcm
            case Sentence(text=text):
                heard.sentences.append(text)
            case Transcript():
                heard.transcripts.append(event)
            case Flush(turn=turn):
                heard.flushes.append(turn)
            case TurnDone():
                heard.done = event
                break
    return heard


@asynccontextmanager
async def at(npc: Npc) -> AsyncIterator[tuple[Voice, trio.Nursery]]:
    async with (
        npc.voice(speaker="Ann", rate=MICROPHONE) as voice,
        trio.open_nursery() as nursery,
    ):
        yield voice, nursery
        nursery.cancel_scope.cancel()


async def test_a_question_in_audio_is_answered_in_audio() -> None:
    with trio.fail_after(120):
        async with open_runtime(config(PHRASES), llm=ScriptedLLM(answer)) as runtime:
            async with at(runtime.npc("Moira")) as (voice, nursery):
                for question, subject in ((HORSE, "horse"), (DRAGON, "dragon")):
                    nursery.start_soon(ask, voice, question)
                    heard = await hear_out(voice)
                    final = heard.transcripts[-1]
                    assert final.final
                    assert final.text == question.lower().strip("?.")
                    assert not all(x.final for x in heard.transcripts)
                    assert " ".join(heard.sentences) == ANSWERS[subject]
                    assert heard.pcm == await said(*heard.sentences)
                    assert heard.done is not None
                    assert heard.done.end is TurnEnd.COMPLETED


async def test_the_same_through_a_transcription_server() -> None:
    with trio.fail_after(120):
        async with open_transcription_server([HORSE], key="k") as server:
            recognition = RecognitionConfig(
                provider=RecognitionProvider.TRANSCRIPTIONS,
                model=server.model,
                base_url=server.base_url,
                api_key=Secret("k"),
            )
            llm = ScriptedLLM(answer)
            async with open_runtime(config(recognition), llm=llm) as runtime:
                async with at(runtime.npc("Moira")) as (voice, nursery):
                    nursery.start_soon(ask, voice, HORSE)
                    heard = await hear_out(voice)
        assert heard.pcm == await said(*heard.sentences)
        assert " ".join(heard.sentences) == ANSWERS["horse"]
        (upload,) = server.uploads
        # It got what was said, resampled, and little of the silence.
        assert upload.rate == 16_000
        question = await spoken(HORSE, 16_000, before=0, after=0)
        assert abs(upload.seconds - len(question) / 32_000) < 1.0


async def test_an_interruption_in_audio_cuts_the_audio() -> None:
    # D12a: the bytes that arrive, minus what was truncated, are those that were made.
    long = "It began in the winter of the long frost, when the wolves came. "

    def tale(request: LLMRequest) -> Reply:
        if "dragon" in request.messages[-1].content:
            return [long * 5, HANG]
        return answer(request)

    llm = ScriptedLLM(tale)
    with trio.fail_after(120):
        async with open_runtime(config(PHRASES), llm=llm) as runtime:
            async with at(runtime.npc("Moira")) as (voice, nursery):
                voice.played(0)
                nursery.start_soon(ask, voice, DRAGON)
                heard = Heard()
                async for event in voice:
                    if isinstance(event, Speech):
                        heard.pcm += event.pcm
                        if len(heard.pcm) > bytes_of(3.0, event.rate):
                            break
                voice.played(1_500)
                nursery.start_soon(ask, voice, HORSE)
                cut = await hear_out(voice)
                assert cut.flushes == [1]
                assert cut.done is not None
                assert cut.done.end is TurnEnd.INTERRUPTED
                truncated = heard.pcm + cut.pcm
                whole = await said(*[long.strip()] * 5)
                assert whole.startswith(truncated)
                assert len(truncated) < len(whole)
                second = await hear_out(voice)
                assert second.pcm == await said(*second.sentences)
    # A second and a half of four: that many words are remembered, and no more.
    remembered = llm.requests[-1].messages[-2].content
    assert long.startswith(remembered)
    assert 2 <= len(remembered.split()) <= 8


async def test_two_players_speak_at_once_and_each_is_answered() -> None:
    with trio.fail_after(120):
        async with open_runtime(config(PHRASES), llm=ScriptedLLM(answer)) as runtime:
            npc = runtime.npc("Moira")
            found: dict[str, Heard] = {}

            async def player(speaker: str, question: str) -> None:
                async with (
                    npc.voice(speaker=speaker, rate=MICROPHONE) as voice,
                    trio.open_nursery() as nursery,
                ):
                    nursery.start_soon(ask, voice, question)
                    found[speaker] = await hear_out(voice)

            seen: list[TierSelected] = []
            with runtime.events.subscribe(only=TierSelected) as selected:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(partial(player, "Ann", HORSE))
                    nursery.start_soon(partial(player, "Bea", DRAGON))
                for _ in range(2):
                    event = await anext(selected)
                    assert isinstance(event, TierSelected)
                    seen.append(event)
    assert {event.speaker for event in seen} == {"Ann", "Bea"}
    assert " ".join(found["Ann"].sentences) == ANSWERS["horse"]
    assert " ".join(found["Bea"].sentences) == ANSWERS["dragon"]
    for heard in found.values():
        assert heard.pcm == await said(*heard.sentences)
        assert heard.flushes == []
