"""Speech recognition by the real pocketsphinx, of what the real `espeak-ng` says.

Its worker is a real process, so nothing is timed; each test has an absolute end.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest

import trio

from glyphoxa_trio import process
from glyphoxa_trio.providers.endpointing import RATE
from glyphoxa_trio.providers.pocketsphinx import Pocketsphinx, link, wire
from glyphoxa_trio.providers.speech import Began, Partial, SpeechError

from .spoken import final, spoken, understood

pytestmark = pytest.mark.border

real = pytest.mark.usefixtures("espeak")

PHRASES = (
    "What is the price of a horse?",
    "Tell me about the dragon.",
    "Open the door!",
    "yes",
    "no",
)


@real
async def test_it_understands_what_espeak_says(no_children: Callable[[], bool]) -> None:
    with trio.fail_after(60):
        (events,) = await understood(Pocketsphinx(), "What is the price of a horse?")
    said = final(events).split()
    assert events[0] == Began(1)
    assert len(set(said) & {"what", "is", "the", "price", "of"}) >= 4, said
    partials = [event.text for event in events if isinstance(event, Partial)]
    assert partials
    assert len(set(partials)) == len(partials)
    assert no_children()


@real
async def test_it_understands_phrases_that_it_was_told_to_expect() -> None:
    recognizer = Pocketsphinx(phrases=PHRASES)
    with trio.fail_after(60):
        found = await understood(recognizer, *PHRASES[:4])
    assert [final(events) for events in found] == [
        "what is the price of a horse",
        "tell me about the dragon",
        "open the door",
        "yes",
    ]


@real
async def test_silence_is_nothing_and_costs_the_worker_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with trio.fail_after(60):
        async with Pocketsphinx(phrases=PHRASES).listen() as listening:
            packets: list[bytes] = []
            monkeypatch.setattr(link, "packet", packets.append)
            for _ in range(500):
                listening.hear(bytes(640))
            with trio.move_on_after(0.2) as patience:
                await anext(listening.events())
            assert patience.cancelled_caught
            assert packets == []


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> list[trio.Process]:
    """The processes that were started."""
    started: list[trio.Process] = []

    async def start(*args: Any, **options: Any) -> trio.Process:
        started.append(await process.start(*args, **options))
        return started[-1]

    monkeypatch.setattr(link, "start", start)
    return started


@real
async def test_a_worker_that_dies_is_an_error(
    no_children: Callable[[], bool], workers: list[trio.Process]
) -> None:
    pcm = await spoken("Open the door!", RATE)
    with trio.fail_after(60):
        async with Pocketsphinx(phrases=PHRASES).listen() as listening:
            workers[0].kill()
            listening.hear(pcm)
            with pytest.raises(SpeechError, match="status -9"):
                async for event in listening.events():
                    assert event == Began(1)
    assert no_children()


@real
async def test_a_worker_that_is_stopped_is_given_up_and_killed(
    no_children: Callable[[], bool],
    monkeypatch: pytest.MonkeyPatch,
    workers: list[trio.Process],
) -> None:
    monkeypatch.setattr(link, "_PATIENCE", 0.3)
    pcm = await spoken("Open the door!", RATE)
    with trio.fail_after(60):
        async with Pocketsphinx(phrases=PHRASES).listen() as listening:
            workers[0].send_signal(signal.SIGSTOP)
            for _ in range(9):
                listening.hear(pcm)
            with pytest.raises(
                SpeechError, match=r"no longer reads audio|find the words"
            ):
                async for event in listening.events():
                    assert event == Began(1)
    assert no_children()


async def test_leaving_and_cancelling_leave_no_process(
    no_children: Callable[[], bool],
) -> None:
    with trio.fail_after(60):
        async with Pocketsphinx().listen():
            pass
        assert no_children()
        with trio.CancelScope() as scope:
            async with Pocketsphinx().listen():
                scope.cancel()
                await trio.sleep_forever()
        assert no_children()
        with trio.move_on_after(0.05):  # while the model is loaded
            async with Pocketsphinx().listen():
                await trio.sleep_forever()
        assert no_children()


async def test_a_phrase_with_a_word_that_nobody_knows_is_an_error(
    no_children: Callable[[], bool],
) -> None:
    recognizer = Pocketsphinx(phrases=("Greymantle, open the door",))
    with trio.fail_after(60):
        with pytest.raises(SpeechError, match="know the words greymantle"):
            async with recognizer.listen():
                raise AssertionError("it listens")
    assert no_children()


async def test_a_worker_that_cannot_start_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with trio.fail_after(60):
        monkeypatch.setattr(link, "WORKER", "no_such_module")
        with pytest.raises(SpeechError, match="No module named no_such_module"):
            async with Pocketsphinx().listen():
                raise AssertionError("it listens")
        monkeypatch.setattr(sys, "executable", "/no/such/python")
        with pytest.raises(SpeechError, match="cannot be started"):
            async with Pocketsphinx().listen():
                raise AssertionError("it listens")


def test_phrases_become_a_grammar() -> None:
    assert wire.grammar(["Open the door!", "Don\u2019t", "open, the DOOR", "?"]) == (
        "#JSGF V1.0; grammar phrases; public <phrase> = open the door | don't;"
    )
    with pytest.raises(ValueError, match="no phrase"):
        wire.grammar(["?", "; 12"])
    with pytest.raises(ValueError, match="no phrase"):
        Pocketsphinx(phrases=("...",))


def test_the_wire_is_packets_one_way_and_lines_the_other() -> None:
    assert wire.packet(b"abcd") == b"\4\0\0\0abcd"
    assert wire.END == b"\0\0\0\0"
    assert json.loads(wire.line(final="a\nb")) == {"final": "a\nb"}
    assert wire.line(final="a\nb").count(b"\n") == 1
