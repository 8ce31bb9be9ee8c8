"""What `talk` shows: a latency as a bar, a level, and lines for people and programs."""

from __future__ import annotations

import io
import json
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.cli.console import SafeConsole
from glyphoxa_trio.cli.talk_latency import LatencyMeter, TurnLatency
from glyphoxa_trio.cli.talk_view import (
    TalkLines,
    TalkScreen,
    latency_line,
    level_bar,
)
from glyphoxa_trio.npc.events import (
    Flush,
    HearingFailed,
    Sentence,
    Speech,
    TextDelta,
    Transcript,
)

BO: dict[str, Any] = {"npc": "Bo", "turn": 1}
PAUSE = TurnLatency(
    **BO, detected=0.5, recognized=0.1, model=0.2, voice=None, device=0.2, total=1.0
)


def test_a_latency_is_a_bar_with_a_piece_for_each_part() -> None:
    line = latency_line(PAUSE, 20)
    assert line.plain == (
        f"   1000 ms {'█' * 20} detected 500 ms recognized 100 ms model 200 ms"
        " device 200 ms"
    )
    lengths = [span.end - span.start for span in line.spans]
    assert lengths[:4] == [10, 2, 4, 4]


@given(st.floats(-200, 0), st.integers(1, 60))
def test_a_level_is_never_longer_than_its_bar(decibels: float, columns: int) -> None:
    assert len(level_bar(decibels, columns)) == columns


@pytest.mark.parametrize(
    ("decibels", "full"), [(0, 20), (-30, 10), (-60, 0), (-inf, 0)]
)
def test_a_level_is_full_where_it_is_loudest(decibels: float, full: int) -> None:
    assert level_bar(decibels, 20).count("▮") == full


def test_people_read_lines_and_nothing_steers_their_terminal() -> None:
    out = io.StringIO()
    screen = TalkScreen(SafeConsole(file=out, width=80))
    with screen.shown():
        screen.event(Transcript(**BO, speaker="Ann", text="is it", final=False))
        screen.state(-20, "listens")  # no terminal, no level
        screen.event(Transcript(**BO, speaker="Ann", text="is it open", final=True))
        screen.event(Sentence(**BO, text="No.\x1b[2J[red]", round=0))
        screen.event(Flush(**BO, reason="the speaker began to speak"))
        screen.event(HearingFailed(**BO, speaker="Ann", detail="too loud"))
        screen.counts(overflows=0, underflows=2, gaps=0)
    lines = out.getvalue().splitlines()
    assert lines[0] == "Ann: is it open"
    assert lines[1].startswith("Bo: No.")
    assert "\x1b" not in lines[1]
    assert "[red]" in lines[1]
    assert lines[2:] == [
        "(interrupted: the speaker began to speak)",
        "! not understood: too loud",
        "2 times did the loudspeaker get its audio too late",
    ]


def test_programs_read_json(capsys: pytest.CaptureFixture[str]) -> None:
    lines = TalkLines()
    with lines.shown():
        lines.event(TextDelta(**BO, text="No"))  # the sentence has it
        lines.event(Sentence(**BO, text="No.", round=0))
        lines.latency(PAUSE)
        lines.state(-20, "listens")
        lines.counts(overflows=1, underflows=0, gaps=0)
    sentence, latency, counts = map(json.loads, capsys.readouterr().out.splitlines())
    assert sentence["text"] == "No."
    assert latency == {
        "event": "TurnLatency",
        **BO,
        "detected_ms": 500,
        "recognized_ms": 100,
        "model_ms": 200,
        "device_ms": 200,
        "total_ms": 1000,
    }
    assert counts == {"event": "Devices", "overflows": 1, "underflows": 0, "gaps": 0}


def speech(turn: int = 1, *, filler: bool = False) -> Speech:
    return Speech(npc="Bo", turn=turn, pcm=b"\0\0", rate=1, filler=filler)


def test_a_model_that_speaks_has_no_voice_of_its_own_and_fillers_are_no_answer() -> (
    None
):
    meter = LatencyMeter()
    meter.begins()
    meter.speaks(10)
    meter.over(10.5)
    meter.event(speech(filler=True), 10.6, 0)
    assert meter.heard(10.7, 0.1) == []
    meter.event(speech(), 11, 1.0)
    assert meter.heard(11.1, 1.0) == []  # the filler is played
    meter.event(Sentence(npc="Bo", turn=1, text="No.", round=0), 11.15, 2)  # too late
    (found,) = meter.heard(11.3, 1.1)
    assert dict(found.parts) == pytest.approx(
        {"detected": 0.5, "model": 0.5, "device": 0.2}
    )
    assert found.total == pytest.approx(1.2)
    assert meter.heard(11.4, 1.2) == []


def test_an_answer_that_was_flushed_before_it_was_heard_has_no_latency() -> None:
    meter = LatencyMeter()
    meter.speaks(10)
    meter.event(speech(), 11, 0)
    meter.event(Flush(npc="Bo", turn=1, reason=""), 11.1, 0)
    assert meter.heard(11.2, 5) == []


def test_a_turn_that_nobody_asked_for_has_none() -> None:
    meter = LatencyMeter()
    meter.event(speech(), 11, 0)
    assert meter.heard(11.2, 5) == []
    meter.speaks(12)
    meter.event(speech(), 12.5, 6)  # goes on
    meter.event(speech(2), 13, 7)  # and this one answers
    assert [x.turn for x in meter.heard(14, 7.5)] == [2]
