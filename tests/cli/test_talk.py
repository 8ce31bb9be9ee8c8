"""``glyphoxa talk`` as a process: WAV files, PortAudio on null devices, bad input."""

from __future__ import annotations

import json
import signal
import wave
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

import trio

from glyphoxa_trio.providers.audio import Resampler, level
from glyphoxa_trio.providers.endpointing import RATE
from glyphoxa_trio.providers.espeak import Espeak
from glyphoxa_trio.providers.pocketsphinx import Pocketsphinx
from glyphoxa_trio.providers.speech import Final, VoiceStyle
from glyphoxa_trio.providers.wav import wav
from glyphoxa_trio.testing.model_server import SayText, open_model_server
from glyphoxa_trio.testing.realtime_server import Speak, open_realtime_server

from .support import COMMAND, LIMIT, environment, run, terminal, written

EXAMPLE = Path(__file__).parents[2] / "config" / "talk.yaml"
QUESTION = "What does blinded mean?"
ANSWER = "Good morning."
PHRASES = [QUESTION, "What does charmed mean?", ANSWER]
PARTS = ("detected", "recognized", "model", "voice", "device")


def with_voice(folder: Path) -> Path:
    return written(
        folder,
        npcs=[{"name": "Bo"}, {"name": "Ada"}],
        speech={"recognition": {"provider": "pocketsphinx", "phrases": PHRASES}},
    )


async def spoken(text: str, rate: int) -> bytes:
    """A text, spoken."""
    espeak, resampler = Espeak(), Resampler(Espeak().rate, rate)
    async with espeak.speak(text, VoiceStyle(name="en-us", speed=0.85)) as pieces:
        pcm = b"".join([resampler.feed(piece) async for piece in pieces])
    return pcm + resampler.end()


async def asked(path: Path) -> Path:
    """A file with the question."""
    await trio.Path(path).write_bytes(wav(await spoken(QUESTION, 22_050), 22_050))
    return path


async def understood(path: Path) -> str:
    """What a recognizer that expects the phrases makes of a file that is no silence."""
    with wave.open(str(path)) as file:
        rate, pcm = file.getframerate(), file.readframes(file.getnframes())
    assert level(pcm) > -40
    resampler, silence = Resampler(rate, RATE), bytes(RATE)
    pcm = silence + resampler.feed(pcm) + resampler.end() + 2 * silence
    async with Pocketsphinx(phrases=tuple(PHRASES)).listen() as recognition:
        recognition.hear(pcm)
        async for event in recognition.events():
            if isinstance(event, Final):
                return event.text
    raise AssertionError("nothing was heard")


async def talked(*words: str | Path) -> tuple[int, list[dict[str, Any]], str]:
    """Its status, the lines of JSON that it wrote, and its complaints."""
    with trio.fail_after(3 * LIMIT):
        done = await trio.run_process(
            [COMMAND, "talk", *words, "--json"],
            capture_stdout=True,
            capture_stderr=True,
            env=environment(),
            check=False,
        )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return done.returncode, lines, done.stderr.decode()


async def interrupted(words: Sequence[str | Path], env: dict[str, str]) -> list[Any]:
    """Run it until it has begun, press Ctrl-C; the lines that it wrote."""
    async with trio.open_nursery() as nursery:
        start = partial(
            trio.run_process,
            [COMMAND, "talk", *words, "--json"],
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=environment(**env),
            check=False,
        )
        process: trio.Process = await nursery.start(start)
        assert process.stdout is not None
        assert process.stderr is not None
        with trio.fail_after(3 * LIMIT):
            written = b""
            while b"Ctrl-C leaves" not in written:
                piece = await process.stdout.receive_some()
                assert piece, (written, bytes(await process.stderr.receive_some()))
                written += piece
            process.send_signal(signal.SIGINT)
            while piece := await process.stdout.receive_some():
                written += piece
            assert await process.wait() == 130
            assert await process.stderr.receive_some() == b""
    return [json.loads(line) for line in written.splitlines()]


def events(lines: Sequence[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["event"] == kind]


@pytest.mark.long
@pytest.mark.usefixtures("espeak")
async def test_a_spoken_question_is_answered_aloud(tmp_path: Path) -> None:
    question = await asked(tmp_path / "question.wav")
    answer, kept = tmp_path / "answer.wav", tmp_path / "kept.session"
    async with open_model_server(lambda _: SayText(ANSWER)) as server:
        model = ("--model", "m", "--base-url", server.base_url)
        files = ("--file-in", question, "--file-out", answer)
        status, lines, complaints = await talked(
            EXAMPLE, "grey", *model, *files, "--as", "Ann", "--session", kept
        )
    assert (status, complaints) == (0, "")
    said = [x for x in events(lines, "Transcript") if x["final"]]
    assert [(x["speaker"], x["text"]) for x in said] == [
        ("Ann", "what does blinded mean")
    ]
    assert [x["text"] for x in events(lines, "Sentence")] == [ANSWER]
    (latency,) = events(lines, "TurnLatency")
    assert latency["npc"] == "Greymantle the Sage"
    total = sum(latency[f"{part}_ms"] for part in PARTS)
    assert abs(total - latency["total_ms"]) <= len(PARTS)  # each is rounded
    assert lines[-1].keys() == {"event", "overflows", "underflows", "gaps"}
    assert await understood(answer) == "good morning"
    assert kept.stat().st_size > 0


@pytest.mark.long
@pytest.mark.usefixtures("espeak")
async def test_a_model_that_speaks_hears_nothing_but_speech(tmp_path: Path) -> None:
    question = await asked(tmp_path / "question.wav")
    answer = tmp_path / "answer.wav"
    speaks = Speak(ANSWER, audio=await spoken(ANSWER, 24_000))
    async with open_realtime_server(lambda _: speaks, hears=[QUESTION]) as server:
        path = written(
            tmp_path,
            npcs=[{"name": "Bo", "engine": "s2s"}],
            s2s={
                "provider": "openai_realtime",
                "model": "gpt-realtime-2",
                "base_url": server.base_url,
                "api_key": "none",
            },
        )
        files = ("--file-in", question, "--file-out", answer)
        status, lines, complaints = await talked(path, *files)
        heard = bytes(server.sessions[0].hearing.audio)
    assert (status, complaints, server.violations) == (0, "", [])
    assert [x["text"] for x in events(lines, "Sentence")] == [ANSWER]
    (latency,) = events(lines, "TurnLatency")
    assert latency["total_ms"] > 0
    assert "recognized_ms" not in latency
    assert await understood(answer) == "good morning"
    second = 2 * 24_000
    assert level(heard[-second:]) < -90  # the NPC does not hear itself


@pytest.mark.long
async def test_portaudio_is_opened_and_ctrl_c_closes_it_and_keeps_the_session(
    tmp_path: Path, portaudio: dict[str, str]
) -> None:
    devices = ("--microphone", "quiet", "--loudspeaker", "QUI")
    path, kept = with_voice(tmp_path), tmp_path / "kept.session"
    lines = await interrupted([path, "bo", *devices, "--session", kept], portaudio)
    (note,) = events(lines, "Note")
    assert note["text"] == "Bo: heard by quiet, speaking by quiet; Ctrl-C leaves"
    assert lines[-1]["event"] == "Devices"
    assert kept.stat().st_size > 0


@pytest.mark.long
def test_the_level_and_the_state_are_on_the_screen(tmp_path: Path) -> None:
    null = ("--microphone", "null", "--loudspeaker", "null")
    with terminal("talk", with_voice(tmp_path), *null) as screen:
        screen.expect("Bo, Ada: heard by a null device")
        screen.expect("\N{WHITE VERTICAL RECTANGLE}  the NPC listens")
        screen.press_ctrl_c()
        assert screen.ends() == 130
        assert "listens" not in screen.screen  # nothing of it stays


def test_the_devices_of_the_machine_are_listed(portaudio: dict[str, str]) -> None:
    listed = run("talk", "--list-devices", "--json", env=portaudio)
    assert (listed.returncode, listed.stderr) == (0, "")
    devices = {one["name"]: one for one in json.loads(listed.stdout)["devices"]}
    assert devices["default"]["default_for"] == ["microphone", "loudspeaker"]
    assert devices["quiet"]["inputs"] > 0


def test_devices_are_shown_to_people_as_a_table(portaudio: dict[str, str]) -> None:
    shown = run("talk", "--list-devices", env=portaudio).stdout.splitlines()
    assert "microphone" in shown[0]
    (quiet,) = [line for line in shown if "quiet" in line]
    assert quiet.split()[2:] == ["ALSA", "yes", "yes", "44100"]


def test_a_wrong_device_is_refused_with_those_that_there_are(
    tmp_path: Path, portaudio: dict[str, str]
) -> None:
    path = with_voice(tmp_path)
    refused = run("talk", path, "--microphone", "shouter", env=portaudio)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "no microphone is called 'shouter'; there is " in refused.stderr
    assert "quiet" in refused.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--file-in", "table.json"], "table.json: not a WAV file"),
        (["--file-in", "none.wav"], "none.wav: No such file or directory"),
        (["Cy", "--microphone", "null"], "no NPC 'Cy', there is Bo, Ada"),
        (
            ["--file-in", "x.wav", "--microphone", "1"],
            "takes the place of --microphone",
        ),
        (["--detector", "ears"], "not one of 'webrtc', 'silero'"),
    ],
    ids=["garbage", "no file", "no NPC", "both", "no detector"],
)
def test_bad_input_is_one_line(tmp_path: Path, words: list[str], said: str) -> None:
    path = with_voice(tmp_path)
    refused = run("talk", path, *words, "--loudspeaker", "null", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    (line,) = refused.stderr.splitlines()
    assert said in line


def test_a_configuration_is_needed() -> None:
    refused = run("talk")
    assert refused.returncode == 2
    assert "CONFIG" in refused.stderr
