"""Speech synthesis by the real `espeak-ng`, and by programs that misbehave.

Processes are real, so nothing is timed; each test has an absolute end.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio

from glyphoxa_trio.providers.audio import level, seconds_of
from glyphoxa_trio.providers.espeak import Espeak, link
from glyphoxa_trio.providers.espeak.wire import options, said
from glyphoxa_trio.providers.speech import SpeechError, VoiceStyle
from glyphoxa_trio.providers.wav import WavReader
from glyphoxa_trio.providers.wording import replaced

pytestmark = pytest.mark.border

real = pytest.mark.usefixtures("espeak")


async def spoken(
    text: str, voice: VoiceStyle | None = None, *, program: str = "espeak-ng"
) -> bytes:
    with trio.fail_after(30):
        async with Espeak(program=program).speak(text, voice or VoiceStyle()) as pieces:
            return b"".join([piece async for piece in pieces])


def program(folder: Path, body: str) -> str:
    path = folder / "speaker"
    path.write_text(f"#!{sys.executable}\nimport os, sys, time\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@real
async def test_a_sentence_is_spoken_as_the_program_does_by_itself(
    no_children: Callable[[], bool],
) -> None:
    text = "The lock gives way."
    alone = await trio.run_process(
        ["espeak-ng", "--stdin", "--stdout", "-v", "en"],
        stdin=text.encode(),
        capture_stdout=True,
    )
    pcm = await spoken(text)
    assert pcm == WavReader().feed(alone.stdout)
    assert seconds_of(pcm, Espeak().rate) > 0.5
    assert level(pcm) > -40
    assert no_children()


@real
async def test_voice_language_speed_and_pronunciation_are_heard() -> None:
    text = "Greymantle opens the door."
    plain = await spoken(text)
    fast = await spoken(text, VoiceStyle(speed=2.0))
    assert len(fast) < 0.7 * len(plain)
    others = [
        VoiceStyle(name="+f3"),
        VoiceStyle(name="en-us"),
        VoiceStyle(language="de"),
        VoiceStyle(pronunciation={"greymantle": "[[gr'eI m'ant@l]]"}),
    ]
    ways = [plain, *[await spoken(text, voice) for voice in others]]
    assert len(set(ways)) == len(ways)


@real
async def test_text_is_no_option_and_no_phonemes() -> None:
    # By stdin, so that a model cannot write a file with what it says.
    assert await spoken("--help") == await spoken("--help ")
    assert await spoken("[[h@loU]]") == await spoken("[ [h@loU]]")
    assert await spoken("one\0two\x1b[2J") == await spoken("one two [2J")
    assert await spoken("") == b""
    assert await spoken("Caf\xe9, \u2026 \U0001f409 \ud800")


@real
async def test_leaving_kills_the_process_at_once(
    no_children: Callable[[], bool],
) -> None:
    with trio.fail_after(30):
        async with Espeak().speak("A long story. " * 5_000, VoiceStyle()) as pieces:
            assert await anext(aiter(pieces))
    assert no_children()


@real
async def test_cancelled_it_is_killed_as_well(no_children: Callable[[], bool]) -> None:
    with trio.fail_after(30):
        with trio.CancelScope() as scope:
            async with Espeak().speak("A long story. " * 5_000, VoiceStyle()) as pieces:
                async for _ in pieces:
                    scope.cancel()
    assert scope.cancelled_caught
    assert no_children()


@real
async def test_sentences_can_be_spoken_at_once() -> None:
    texts = [f"Sentence number {number}." for number in range(8)]
    alone = [await spoken(text) for text in texts]
    together: dict[int, bytes] = {}

    async def speak(number: int) -> None:
        together[number] = await spoken(texts[number])

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(speak, number)
    assert [together[number] for number in range(8)] == alone


@real
async def test_a_voice_that_does_not_exist_is_an_error_in_its_words() -> None:
    with pytest.raises(SpeechError, match="voice does not exist"):
        await spoken("Hello", VoiceStyle(name="marin"))


async def test_a_missing_program_says_how_to_install_it() -> None:
    with pytest.raises(SpeechError, match="apt install espeak-ng"):
        await spoken("Hello", program="no-such-program")


async def test_a_name_that_no_command_line_can_hold_is_an_error(
    tmp_path: Path,
) -> None:
    with pytest.raises(SpeechError, match="cannot be started"):
        await spoken("Hello", VoiceStyle(name="a\0b"), program=program(tmp_path, ""))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("sys.stdout.write('hello, I am no speech program')", "not a WAV file"),
        ("sys.exit(3)", "status 3"),
        ("os.write(2, b'no data\\n folder\\n'); sys.exit(1)", "no data folder"),
        ("os.kill(os.getpid(), 9)", "status -9"),
    ],
)
async def test_a_program_that_fails_is_an_error(
    no_children: Callable[[], bool], body: str, why: str, tmp_path: Path
) -> None:
    with pytest.raises(SpeechError, match=why):
        await spoken("Hello", program=program(tmp_path, body))
    assert no_children()


async def test_a_program_that_says_nothing_does_not_hold_us_up(
    no_children: Callable[[], bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "PATIENCE", 0.2)
    with pytest.raises(SpeechError, match=r"silent for 0\.2 s"):
        await spoken("Hello", program=program(tmp_path, "time.sleep(600)"))
    assert no_children()


async def test_one_that_ignores_signals_and_speaks_through_another_is_killed(
    no_children: Callable[[], bool],
    tmp_path: Path,
) -> None:
    body = (
        "import signal, subprocess; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "sleep = [sys.executable, '-c', 'import time; time.sleep(600)']\n"
        "child = subprocess.Popen(sleep)\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid))\n"
        "os.write(1, b'RIFF' + bytes(4) + b'WAVEfmt ' + bytes([16, 0, 0, 0, 1, 0, 1, 0,"
        "0x22, 0x56, 0, 0, 0x44, 0xac, 0, 0, 2, 0, 16, 0]) + b'data' + b'\\xff' * 99)\n"
        "time.sleep(600)"
    )
    with trio.fail_after(30):
        speaker = Espeak(program=program(tmp_path, body))
        async with speaker.speak("Hello", VoiceStyle()) as pieces:
            assert await anext(aiter(pieces))
            child = os.pidfd_open(int((tmp_path / "pid").read_text()))
        await trio.lowlevel.wait_readable(child)  # it has ended
        os.close(child)
    assert no_children()


async def test_it_gets_little_of_our_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLYPHOXA_KEY", "secret")
    body = "os.write(2, ' '.join(os.environ).encode()); sys.exit(1)"
    with pytest.raises(SpeechError) as caught:
        await spoken("Hello", program=program(tmp_path, body))
    assert "PATH" in str(caught.value)
    assert "GLYPHOXA_KEY" not in str(caught.value)


@pytest.mark.parametrize(
    ("voice", "name", "speed"),
    [
        (VoiceStyle(), "en", "175"),
        (VoiceStyle(language="en-GB"), "en-gb", "175"),
        (VoiceStyle(language="de", name="en-us"), "en-us", "175"),
        (VoiceStyle(language="de", name="+f3"), "de+f3", "175"),
        (VoiceStyle(speed=1.2), "en", "210"),
        (VoiceStyle(speed=0.01), "en", "80"),
        (VoiceStyle(speed=100), "en", "450"),
    ],
)
def test_a_voice_becomes_options(voice: VoiceStyle, name: str, speed: str) -> None:
    told = options(voice)
    assert told[told.index("-v") + 1] == name
    assert told[told.index("-s") + 1] == speed


def test_words_are_replaced_whole_and_once() -> None:
    ways = {"Bree": "Brie", "Brie": "cheese", "St.": "Saint", "Bree Hill": "the hill"}
    assert replaced("Bree, BREEZE; bree-folk", ways) == "Brie, BREEZE; Brie-folk"
    assert replaced("Bree Hill, St. Bree.", ways) == "the hill, Saint Brie."
    assert replaced("nothing", {"": "all"}) == "nothing"


@given(st.text("[] a\0"), st.dictionaries(st.text(), st.text()))
def test_any_text_can_be_said(text: str, ways: dict[str, str]) -> None:
    assert "[[" not in said(text, {}).decode()
    said(text, ways)
