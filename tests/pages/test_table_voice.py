"""Speech at the table page: a microphone that plays a file of `espeak-ng`, the real
recognizer, the real synthesizer, and a browser that plays what comes."""

from __future__ import annotations

import json
import time
import wave
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from playwright.sync_api import Page, WebSocket, expect

import trio

from ..providers.spoken import spoken
from .conftest import launched
from .support import LIMIT, Table, opened_table
from .test_table import say, sit_down

RATE = 48_000
PHRASES = ["Tell me a story.", "Open the door!", "What is the price of a horse?"]
LEAD = 8.0  # seconds in which the page is prepared, once the microphone is open
SPEECH = {
    "synthesis": {"provider": "espeak"},
    "recognition": {"provider": "pocketsphinx", "phrases": PHRASES},
}

# What goes to the loudspeaker passes by a meter; `loud()` is its loudest sample now.
METER = """
    const connect = AudioNode.prototype.connect;
    AudioNode.prototype.connect = function (to, ...more) {
      if (!(to instanceof AudioDestinationNode)) return connect.call(this, to, ...more);
      const meter = new AnalyserNode(this.context);
      window.loud = () => {
        const samples = new Float32Array(meter.fftSize);
        meter.getFloatTimeDomainData(samples);
        return Math.max(...samples.map(Math.abs));
      };
      connect.call(this, meter);
      return connect.call(meter, to, ...more);
    };
"""

pytestmark = [
    pytest.mark.border,
    pytest.mark.alone,
    pytest.mark.usefixtures("espeak"),
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Generator[Table]:
    """A service whose NPCs hear and speak."""
    folder = tmp_path_factory.mktemp("voices")
    with opened_table(folder, {}, speech=SPEECH, memory={"store": "off"}) as table:
        yield table


def recorded(file: Path, *said: tuple[float, str]) -> Path:
    """A file of these texts, each with the seconds of silence before it, and a minute
    of silence in the end."""

    async def whole() -> bytes:
        return b"".join([await spoken(text, RATE, before=x) for x, text in said])

    with wave.open(str(file), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE)
        out.writeframes(trio.run(whole) + bytes(60 * RATE * 2))
    return file


@attrs.define
class Wire:
    """What the page and the service said to each other about audio, in seconds."""

    given: float = 0.0  # of all speech that came
    reports: list[float] = attrs.field(factory=list)  # of what was played
    frames: int = 0  # of the microphone

    def follow(self, socket: WebSocket) -> None:
        socket.on("framesent", lambda payload: self._sent(payload))
        socket.on("framereceived", lambda payload: self._received(payload))

    def _sent(self, payload: str | bytes) -> None:
        if isinstance(payload, bytes):
            self.frames += 1
        elif (played := json.loads(payload).get("played_ms")) is not None:
            self.reports.append(played / 1000)

    def _received(self, payload: str | bytes) -> None:
        if isinstance(payload, bytes):
            return
        for event in json.loads(payload).get("events", ()):
            if event["event"] == "Speech":
                self.given += event["bytes"] / 2 / event["rate"]


@contextmanager
def microphone(file: Path, *, allowed: bool = True) -> Generator[tuple[Page, Wire]]:
    """A page whose microphone plays this file once."""
    flags = ["--use-fake-device-for-media-stream"]
    flags += [f"--use-file-for-fake-audio-capture={file}%noloop"]
    flags += ["--autoplay-policy=user-gesture-required"]
    if allowed:
        flags += ["--use-fake-ui-for-media-stream"]
    with launched(*flags) as browser:
        context = browser.new_context()
        context.set_default_timeout(LIMIT * 1000)
        page = context.new_page()
        page.add_init_script(METER)
        errors: list[Any] = []
        page.on("pageerror", lambda error: errors.append(error))
        page.on(
            "console",
            lambda told: errors.append(told.text) if "Policy" in told.text else None,
        )
        wire = Wire()
        page.on("websocket", lambda socket: wire.follow(socket))
        yield page, wire
        assert not errors


def heard(page: Page, holds: Callable[[], bool]) -> None:
    """Wait, while the page goes on telling what it does."""
    end = time.monotonic() + 2 * LIMIT  # what is played takes its time
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        page.wait_for_timeout(50)


def test_a_player_speaks_while_a_key_is_held_and_hears_the_answer(
    table: Table, tmp_path: Path, pictures: Path | None
) -> None:
    file = recorded(tmp_path / "said.wav", (LEAD, "What is the price of a horse?"))
    with microphone(file) as (page, wire):
        sit_down(page, table.url, table="held")
        page.get_by_role("radio", name="Bo", exact=True).check()
        page.get_by_role("button", name="Microphone").click()
        expect(page.locator("#mic-told")).to_contain_text("hold F2")
        assert wire.frames == 0  # nobody speaks yet
        page.keyboard.down("F2")
        said = page.locator("#talk li.said")
        expect(said).to_contain_text("the price of a horse")
        page.keyboard.up("F2")
        answer = page.locator("#talk li.answer")
        expect(answer).to_contain_text("So it is.")
        if pictures:
            page.screenshot(path=pictures / "table-voice.png")
        frames = wire.frames
        heard(page, lambda: wire.given > 1 and max(wire.reports) > wire.given - 0.05)
        assert max(wire.reports) < wire.given + 0.05
        assert wire.reports[0] == 0
        assert wire.frames - frames < 5  # no more than was on its way
        page.get_by_role("button", name="Microphone").click()
        expect(page.get_by_role("button", name="Hold to talk")).to_be_hidden()


@pytest.mark.long
def test_a_player_who_speaks_interrupts_what_is_heard(
    table: Table, tmp_path: Path
) -> None:
    file = recorded(
        tmp_path / "said.wav", (LEAD, "Tell me a story."), (5.0, "Open the door!")
    )
    with microphone(file) as (page, wire):
        sit_down(page, table.url, table="open")
        page.get_by_role("radio", name="Bo", exact=True).check()
        page.get_by_role("button", name="Microphone").click()
        page.get_by_label("always open").check()
        answers = page.locator("#talk li.answer")
        expect(answers.first).to_contain_text("number 1")
        expect(answers.first).to_contain_text("interrupted")
        before = wire.given
        assert 0 < max(wire.reports) < before  # the rest was never heard
        heard(page, lambda: wire.reports[-1] < max(wire.reports))  # counted anew
        expect(answers.nth(1)).to_contain_text("open the door")
        page.keyboard.press("Escape")


@pytest.mark.long
def test_what_is_written_is_answered_aloud_until_it_is_stopped(
    table: Table, tmp_path: Path
) -> None:
    with microphone(recorded(tmp_path / "said.wav")) as (page, wire):
        sit_down(page, table.url, table="written")
        story = say(page, "Tell me a story.")
        heard(page, lambda: bool(wire.reports) and wire.reports[-1] > 1)
        heard(page, lambda: page.evaluate("loud()") > 0.01)
        page.get_by_role("button", name="Stop").click()
        expect(story).to_contain_text("interrupted")
        page.wait_for_timeout(100)
        assert page.evaluate("loud()") == 0
        reports = len(wire.reports)
        page.wait_for_timeout(500)
        assert len(wire.reports) - reports <= 1
        assert wire.reports[-1] < wire.given
        page.get_by_label("hear the NPCs").uncheck()
        given = wire.given
        expect(say(page, "Hello!")).to_contain_text("So it is.")
        assert wire.given == given


def test_what_is_wrong_with_a_microphone_is_told(table: Table, tmp_path: Path) -> None:
    quiet = recorded(tmp_path / "said.wav")
    told = "#mic-told"
    with microphone(quiet, allowed=False) as (page, _):
        sit_down(page, table.url, table="refused")
        page.get_by_role("button", name="Microphone").click()
        expect(page.locator(told)).to_contain_text("Allow it in the settings")
        page.add_init_script(
            "Object.defineProperty(navigator, 'mediaDevices', {value: undefined})"
        )
        page.reload()  # as on a page of another machine without TLS
        page.get_by_role("button", name="Microphone").click()
        expect(page.locator(told)).to_contain_text("over TLS (https://)")
    (tmp_path / "deaf").mkdir()
    with opened_table(tmp_path / "deaf", {}, memory={"store": "off"}) as deaf:
        with microphone(quiet) as (page, _):
            sit_down(page, deaf.url)
            page.get_by_role("button", name="Microphone").click()
            expect(page.locator(told)).to_contain_text("speech.recognition")
            expect(page.get_by_role("button", name="Hold to talk")).to_be_hidden()
