"""Whole turns in audio through cloud vendors, over real sockets: `espeak-ng` asks,
a Deepgram server understands, an NPC answers, an ElevenLabs server says it.

Nothing is timed; each test has an absolute end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path, PurePath

import attrs
import pytest

import trio

from glyphoxa_trio import Config, ConfigError, Npc, Runtime, open_runtime
from glyphoxa_trio.config.load import load_text
from glyphoxa_trio.npc import Sentence, TurnDone, TurnEnd
from glyphoxa_trio.npc.events import (
    Flush,
    HearingFailed,
    Speech,
    SpeechFailed,
    Transcript,
)
from glyphoxa_trio.npc.voice import Voice
from glyphoxa_trio.providers.audio import bytes_of
from glyphoxa_trio.testing.deepgram_server import DeepgramServer, open_deepgram_server
from glyphoxa_trio.testing.elevenlabs_server import (
    Drop,
    ElevenLabsServer,
    On,
    Refuse,
    open_elevenlabs_server,
    sound_of,
)
from glyphoxa_trio.testing.transcription_server import open_transcription_server

from ..npc.support import HANG, Script, ScriptedLLM
from ..providers.spoken import spoken

pytestmark = pytest.mark.border

ROOT = Path(__file__).parents[2]
HORSE = "What is the price of a horse?"
STOP = "Stop!"
PRICE = "Seventy-five gold pieces."
MICROPHONE = 48_000
RATE = 24_000
YAML = """
mcp: {{remember: false}}
overload: {{enabled: false}}
npcs: [{{name: Moira, voice: {{language: en-GB}}}}]
speech:
  recognition:
    provider: deepgram
    base_url: "{ears}"
    api_key: dg-key
    fallbacks: [{spare_ears}]
  synthesis:
    provider: elevenlabs
    base_url: "{mouth}"
    api_key: el-key
    voice: Rachel
    timeout_ms: 5000
    fallbacks: [{fallback}]
"""


def config(ears: str, mouth: str, fallback: str = "", spare_ears: str = "") -> Config:
    text = YAML.format(ears=ears, mouth=mouth, fallback=fallback, spare_ears=spare_ears)
    return load_text(text, source=PurePath("t.yaml"), env={})


@attrs.define
class Table:
    """An NPC with a vendor's ears and another one's mouth."""

    runtime: Runtime
    ears: DeepgramServer
    mouth: ElevenLabsServer
    llm: ScriptedLLM

    @property
    def npc(self) -> Npc:
        return self.runtime.npc("Moira")


@asynccontextmanager
async def open_table(
    script: Script,
    *,
    heard: Sequence[str] = (HORSE, STOP),
    fallback: str = "",
    spare_ears: str = "",
    pace: float = 0.0,
    traps: Sequence[On] = (),
    ear_traps: Sequence[On] = (),
    refusals: Sequence[Refuse | None] = (),
    ear_refusals: Sequence[Refuse | None] = (),
) -> AsyncIterator[Table]:
    with trio.fail_after(120):
        async with (
            open_deepgram_server(
                heard, key="dg-key", traps=ear_traps, handshakes=ear_refusals
            ) as ears,
            open_elevenlabs_server(
                key="el-key", pace=pace, traps=traps, handshakes=refusals
            ) as mouth,
        ):
            llm = ScriptedLLM(script)
            settings = config(ears.base_url, mouth.base_url, fallback, spare_ears)
            async with open_runtime(settings, llm=llm) as runtime:
                yield Table(runtime, ears, mouth, llm)
            assert ears.violations == []
            assert mouth.violations == []


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
    words: list[str] = attrs.field(factory=list)
    sentences: list[str] = attrs.field(factory=list)
    failures: list[str] = attrs.field(factory=list)
    flushes: int = 0
    done: TurnDone | None = None


async def hear_out(voice: Voice) -> Heard:
    heard = Heard()
    async for event in voice:
        match event:
            case Speech(pcm=pcm) if not event.filler:
                assert event.rate == RATE
                heard.pcm += pcm
            case Sentence(text=text):
                heard.sentences.append(text)
            case SpeechFailed(detail=detail) | HearingFailed(detail=detail):
                heard.failures.append(detail)
            case Transcript(text=text):
                heard.words.append(text)
            case Flush():
                heard.flushes += 1
            case TurnDone():
                heard.done = event
                break
    return heard


@pytest.mark.usefixtures("espeak")
async def test_a_question_in_audio_is_answered_in_audio() -> None:
    async with open_table([[PRICE + " Or a song."]]) as table:
        async with table.npc.voice(speaker="Ann", rate=MICROPHONE) as voice:
            await ask(voice, HORSE)
            heard = await hear_out(voice)
        (session,) = table.ears.sessions
        # English is asked for by its own model, which takes no hint.
        assert "model=flux-general-en&" in session.wire.path
        assert [x.voice for x in table.mouth.sessions] == ["Rachel", "Rachel"]
        assert table.mouth.sessions[0].query["language_code"] == ["en"]
    assert heard.words[-1] == HORSE
    assert heard.sentences == [PRICE, "Or a song."]
    assert heard.pcm == b"".join(sound_of(f"{x} ", RATE) for x in heard.sentences)
    assert heard.done is not None
    assert heard.done.end is TurnEnd.COMPLETED
    assert heard.failures == []


@pytest.mark.usefixtures("espeak")
async def test_of_an_answer_that_is_cut_the_words_are_remembered_that_were_heard() -> (
    None
):
    long = "It began in the winter of the long frost, when the wolves came."
    async with open_table([[long + " And", HANG], ["Yes."]], pace=0.5) as table:
        async with table.npc.voice(speaker="Ann", rate=MICROPHONE) as voice:
            voice.played(0)
            await ask(voice, HORSE)
            given = b""
            async for event in voice:
                if isinstance(event, Speech):
                    given += event.pcm
                if len(given) > bytes_of(1.0, RATE):
                    break
            # Four words of this voice. A share of the usual time would be one.
            voice.played(620)
            await ask(voice, STOP)
            cut = await hear_out(voice)
            # The socket is closed with the turn, and not when the sentence is over.
            await table.mouth.sessions[0].wire.closed.wait()
            assert cut.flushes == 1
            assert sound_of(long, RATE).startswith(given + cut.pcm)
            answer = await hear_out(voice)
            assert answer.pcm == sound_of("Yes. ", RATE)
        assert cut.done is not None
        assert cut.done.end is TurnEnd.INTERRUPTED
        remembered = [m.content for m in table.llm.requests[-1].messages]
        assert "It began in the" in remembered
        sent = table.mouth.sessions[0].wire.sent
        assert not any(message.get("isFinal") for message in sent)


@pytest.mark.usefixtures("espeak")
@pytest.mark.parametrize("after", [0, 2])
async def test_a_voice_that_breaks_off_is_followed_by_the_next_sentence(
    after: int,
) -> None:
    trap = On("audio", Drop(), sent=True, skip=after, socket=0)
    async with open_table([[PRICE + " Or a song."]], traps=[trap]) as table:
        async with table.npc.voice(speaker="Ann", rate=MICROPHONE) as voice:
            await ask(voice, HORSE)
            heard = await hear_out(voice)
    (failure,) = heard.failures
    assert "eleven_flash_v2_5" in failure
    assert heard.pcm.endswith(sound_of("Or a song. ", RATE))
    whole = len(sound_of(f"{PRICE} ", RATE) + sound_of("Or a song. ", RATE))
    assert len(heard.pcm) < whole


@pytest.mark.usefixtures("espeak")
async def test_a_voice_that_refuses_is_replaced_by_the_next_one() -> None:
    refusals = [Refuse(401, {"detail": {"message": "no such key el-key"}})]
    async with open_table(
        [[PRICE]], fallback="{provider: espeak}", refusals=refusals
    ) as table:
        async with table.npc.voice(speaker="Ann", rate=MICROPHONE) as voice:
            await ask(voice, HORSE)
            heard = await hear_out(voice)
    assert heard.failures == []
    assert heard.pcm
    assert heard.pcm != sound_of(f"{PRICE} ", RATE)


@pytest.mark.usefixtures("espeak")
async def test_an_ear_that_breaks_in_a_word_hears_it_again() -> None:
    trap = On("Update", Drop(), sent=True, skip=3, socket=0)
    async with open_table([[PRICE]], ear_traps=[trap]) as table:
        async with table.npc.voice(speaker="Ann", rate=MICROPHONE) as voice:
            await ask(voice, HORSE)
            heard = await hear_out(voice)
        assert len(table.ears.sessions) == 2
        assert len(table.llm.requests) == 1
    assert heard.words[-1] == HORSE
    assert heard.pcm == sound_of(f"{PRICE} ", RATE)


@pytest.mark.usefixtures("espeak")
async def test_an_ear_that_refuses_is_replaced_by_the_next_one() -> None:
    async with open_transcription_server(["What is the price?"]) as spare:
        another = (
            f"{{provider: transcriptions, model: {spare.model}, "
            f'base_url: "{spare.base_url}"}}'
        )
        async with open_table(
            [[PRICE], [PRICE]],
            spare_ears=another,
            ear_refusals=[Refuse(402, {"err_msg": "pay first"})],
        ) as table:
            async with table.npc.voice(speaker="Ann", rate=MICROPHONE) as voice:
                await ask(voice, HORSE)
                first = await hear_out(voice)
                await ask(voice, HORSE)
                second = await hear_out(voice)
        assert len(spare.uploads) == 1
    assert first.words[-1] == "What is the price?"
    assert second.words[-1] == HORSE
    assert first.failures == second.failures == []


@pytest.mark.usefixtures("espeak")
async def test_the_configuration_of_the_page_hears_and_speaks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GLYPHOXA_DATA", str(tmp_path))
    monkeypatch.setenv("DEEPGRAM_API_KEY", "dg-key")
    monkeypatch.setenv("ELEVENLABS_API_KEY", "el-key")
    with trio.fail_after(120):
        async with (
            open_deepgram_server([HORSE], key="dg-key") as ears,
            open_elevenlabs_server(key="el-key") as mouth,
        ):
            monkeypatch.setenv("DEEPGRAM_URL", ears.base_url)
            monkeypatch.setenv("ELEVENLABS_URL", mouth.base_url)
            async with open_runtime(ROOT / "config" / "cloud-voices.yaml") as runtime:
                npc = runtime.npc("Greymantle")
                async with npc.voice(speaker="Ann", rate=MICROPHONE) as voice:
                    await ask(voice, HORSE)
                    heard = await hear_out(voice)
                assert list(runtime.warnings) == []
            assert (
                "&keyterm=Greymantle&keyterm=Hollow+Hill" in ears.sessions[0].wire.path
            )
            assert ears.violations == mouth.violations == []
    assert heard.words[-1] == HORSE
    assert heard.pcm == b"".join(sound_of(f"{x} ", RATE) for x in heard.sentences)


def test_what_no_request_can_carry_is_said_with_its_place() -> None:
    async def main() -> None:
        broken = config("http://127.0.0.1:1", "http://127.0.0.1:1")
        synthesis = attrs.evolve(broken.speech.synthesis, rate_hz=8_000)
        speech = attrs.evolve(broken.speech, synthesis=synthesis)
        async with open_runtime(
            attrs.evolve(broken, speech=speech), llm=ScriptedLLM([])
        ):
            pass

    with pytest.raises(ConfigError, match=r"rate must be one of .* @ speech.synthesis"):
        trio.run(main)
