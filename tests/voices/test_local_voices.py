"""NPCs with voices and ears behind open protocols, from a file, over real sockets: what
is heard when all is well, and what when a server is away, slow, mad or dies.

Sockets and `espeak-ng` are real, so nothing is timed; each test has an absolute end.
"""

from __future__ import annotations

import textwrap
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

import trio

from glyphoxa_trio import Npc, Runtime, open_runtime
from glyphoxa_trio.npc import Sentence, TurnDone
from glyphoxa_trio.npc.events import Speech, SpeechFailed, Transcript, TurnEvent
from glyphoxa_trio.providers.audio import bytes_of
from glyphoxa_trio.providers.espeak import Espeak
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.providers.speech import VoiceStyle
from glyphoxa_trio.testing.http_server import CloseConnection, Pieces, StatusReply
from glyphoxa_trio.testing.speech_server import open_speech_server
from glyphoxa_trio.testing.wyoming_server import (
    CutConnection,
    ReportError,
    SendBytes,
    Step,
    WyomingSentence,
    WyomingUtterance,
    open_wyoming_server,
)

from ..npc.support import ScriptedLLM
from ..providers.spoken import spoken

ROOT: Final = Path(__file__).parents[2]
ENGLISH = VoiceStyle(language="en-GB")
KEY = "sk-very-secret"
ONE, TWO = "The lock gives way.", "Beyond it lies a stair."
MICROPHONE = 16_000

pytestmark = [pytest.mark.border, pytest.mark.usefixtures("espeak")]


def answer(request: LLMRequest) -> list[str]:
    return [f"{ONE} ", TWO]


async def said(text: str, how: VoiceStyle = ENGLISH) -> bytes:
    """What `espeak-ng` makes of it."""
    async with Espeak().speak(text, how) as pieces:
        return b"".join([piece async for piece in pieces])


def config(folder: Path, synthesis: str, more: str = "") -> Path:
    path = folder / "glyphoxa.yaml"
    path.write_text(
        "speech:\n  synthesis:\n"
        + textwrap.indent(textwrap.dedent(synthesis), "    ")
        + more
        + "npcs: [{name: Greymantle, voice: {language: en-GB}}]\n"
    )
    return path


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[tuple[Runtime, Npc]]:
    with trio.fail_after(60):
        async with open_runtime(path, llm=ScriptedLLM(answer)) as runtime:
            yield runtime, runtime.npc("Greymantle")


async def asked(npc: Npc) -> list[TurnEvent]:
    async with npc.say("Well?") as turn:
        return [event async for event in turn]


def heard(events: Sequence[TurnEvent]) -> bytes:
    return b"".join(x.pcm for x in events if isinstance(x, Speech) and not x.filler)


@pytest.fixture
async def both() -> dict[str, bytes]:
    return {text: await said(text) for text in (ONE, TWO)}


# Well.


async def test_an_npc_is_asked_and_answers_by_programs_of_ones_own(
    monkeypatch: pytest.MonkeyPatch, both: dict[str, bytes]
) -> None:
    """The example of the documentation, as it stands."""

    def hear(utterance: WyomingUtterance) -> list[Step]:
        return ["What is ", "What is behind the door?"]

    async def ask() -> None:
        pcm = await spoken("What is behind the door?", MICROPHONE)
        size = bytes_of(0.02, MICROPHONE)
        for at in range(0, len(pcm), size):
            voice.hear(pcm[at : at + size])
            await trio.lowlevel.checkpoint()

    def speak(sentence: WyomingSentence) -> list[Step]:
        return [both[sentence.text]]

    events: list[object] = []
    async with (
        open_wyoming_server(speak=speak, streams=True) as mouth,
        open_wyoming_server(hear=hear, streams=True) as ears,
    ):
        monkeypatch.setenv("PIPER", mouth.address)
        monkeypatch.setenv("WHISPER", ears.address)
        path = ROOT / "config" / "local-voices.yaml"
        async with opened(path) as (runtime, npc):
            async with (
                npc.voice(speaker="Ann", rate=MICROPHONE) as voice,
                trio.open_nursery() as nursery,
            ):
                nursery.start_soon(ask)
                async for event in voice:
                    events.append(event)
                    if isinstance(event, TurnDone):
                        break
                nursery.cancel_scope.cancel()
            assert list(runtime.warnings) == []
    transcripts = [x.text for x in events if isinstance(x, Transcript)]
    assert transcripts[0] == "What is"
    assert transcripts[-1] == "What is behind the door?"
    pcm = b"".join(x.pcm for x in events if isinstance(x, Speech))
    assert pcm == both[ONE] + both[TWO]
    (utterance,) = ears.utterances
    assert utterance.language == "en"
    assert utterance.names == ("Greymantle", "Hollow Hill")
    assert mouth.refused == ears.refused == []


# Not well: who fails before the first audio is followed by the next.


WYOMING = """
provider: wyoming
base_url: {address}
timeout_ms: 60000
fallbacks: [{{provider: espeak}}]
"""
OPENAI = """
provider: openai_speech
model: scripted-voice
base_url: {address}
api_key: sk-very-secret
voice: alloy
rate_hz: 22050
timeout_ms: 60000
fallbacks: [{{provider: espeak}}]
"""


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (SendBytes(b"SSH-2.0-OpenSSH_9.9\r\n"), "not the Wyoming protocol: SSH"),
        (ReportError("no such voice"), "no such voice"),
        (CutConnection(), "it has closed the connection"),
        (600.0, "no audio within 0.3 s"),
    ],
    ids=str,
)
async def test_a_wyoming_voice_that_fails_is_followed_by_the_next(
    tmp_path: Path, both: dict[str, bytes], step: Step, why: str
) -> None:
    async with open_wyoming_server(speak=lambda _: [step]) as server:
        text = WYOMING.format(address=server.address)
        if isinstance(step, float):
            text = text.replace("60000", "300")
        async with opened(config(tmp_path, text)) as (runtime, npc):
            events = await asked(npc)
            assert heard(events) == both[ONE] + both[TWO]
            assert not [x for x in events if isinstance(x, SpeechFailed)]
            assert f"{server.address}: {why}" in runtime.warnings[0].text
            assert runtime.warnings[0].text.count(server.address) == 1


@pytest.mark.parametrize(
    ("reply", "key", "why"),
    [
        (StatusReply(503, body=b"busy"), KEY, "HTTP 503: busy"),
        (b"RIFF of nothing at all", KEY, "not a WAV file"),
        (CloseConnection(), KEY, "127.0.0.1"),
        (b"", KEY, "ended without audio"),
        (b"aa", "sk-another", "HTTP 401: Incorrect API key provided"),
    ],
    ids=str,
)
async def test_a_voice_over_http_that_fails_is_followed_by_the_next(
    tmp_path: Path,
    both: dict[str, bytes],
    caplog: pytest.LogCaptureFixture,
    reply: bytes | StatusReply | CloseConnection,
    key: str,
    why: str,
) -> None:
    caplog.set_level("DEBUG")
    async with open_speech_server([reply], key=key) as server:
        path = config(tmp_path, OPENAI.format(address=server.base_url))
        async with opened(path) as (runtime, npc):
            events = await asked(npc)
            assert heard(events) == both[ONE] + both[TWO]
            assert not [x for x in events if isinstance(x, SpeechFailed)]
            warnings = "".join(x.text for x in runtime.warnings)
    assert why in warnings
    assert KEY not in warnings + caplog.text


async def test_a_server_that_is_away_is_followed_by_the_next(
    tmp_path: Path, both: dict[str, bytes]
) -> None:
    async with open_wyoming_server(speak=lambda _: []) as server:
        gone = server.address
    async with opened(config(tmp_path, WYOMING.format(address=gone))) as (runtime, npc):
        for _ in range(3):
            assert heard(await asked(npc)) == both[ONE] + both[TWO]
        first, last = (x.text for x in runtime.warnings)
    assert gone in first
    assert "it keeps failing, and is not asked for 10 s" in last


# In mid-word.


async def test_who_dies_in_a_word_ends_that_sentence_and_the_next_voice_goes_on(
    tmp_path: Path, both: dict[str, bytes]
) -> None:
    begun = both[ONE][:6_000]
    async with open_wyoming_server(speak=lambda _: [begun, CutConnection()]) as server:
        path = config(tmp_path, WYOMING.format(address=server.address))
        async with opened(path) as (_, npc):
            events = await asked(npc)
    assert heard(events) == begun + both[TWO]
    (failed,) = (x for x in events if isinstance(x, SpeechFailed))
    assert failed.text == ONE
    assert [x.text for x in events if isinstance(x, Sentence)] == [ONE, TWO]
    assert [x.text for x in server.sentences] == [ONE]


async def _left_in_a_word(path: Path) -> None:
    async with opened(path) as (runtime, npc):
        async with npc.say("Well?") as turn:
            async for event in turn:
                if isinstance(event, Speech):
                    break
        assert list(runtime.warnings) == []


async def test_who_is_interrupted_in_a_word_is_hung_up_on(tmp_path: Path) -> None:
    def endless() -> Pieces:
        return Pieces(lambda: iter(lambda: bytes(2_000), None))

    begun: list[Step] = [bytes(2_000), 600.0]
    with trio.fail_after(60):
        async with open_wyoming_server(speak=lambda _: begun) as server:
            text = WYOMING.format(address=server.address)
            await _left_in_a_word(config(tmp_path, text))
            await server.wait(lambda: server.left == 1)
            assert len(server.sentences) == 1
        async with open_speech_server([endless()]) as http:
            text = OPENAI.format(address=http.base_url)
            await _left_in_a_word(config(tmp_path, text))
            await http.http.wait(lambda: http.http.hangups == 1)
            assert len(http.sentences) == 1


# Ears.


EARS = """
  recognition:
    provider: wyoming
    base_url: {first}
    timeout_ms: 60000
    fallbacks: [{{provider: wyoming, base_url: "{second}", model: small}}]
"""


async def test_an_utterance_is_heard_by_the_next_when_one_fails(
    tmp_path: Path,
) -> None:
    said_: list[Transcript] = []
    async with (
        open_wyoming_server(hear=lambda _: [CutConnection()]) as first,
        open_wyoming_server(hear=lambda _: ["Who is there?"]) as second,
    ):
        ears = EARS.format(first=first.address, second=second.address)
        async with opened(config(tmp_path, "provider: espeak\n", ears)) as (_, npc):
            async with npc.voice(speaker="Ann", rate=MICROPHONE) as voice:
                voice.hear(await spoken("Who is there?", MICROPHONE))
                async for event in voice:
                    if isinstance(event, Transcript):
                        said_.append(event)
                    if isinstance(event, TurnDone):
                        break
    assert said_[-1].text == "Who is there?"
    assert first.utterances[0].pcm == second.utterances[0].pcm
    assert second.utterances[0].model == "small"
