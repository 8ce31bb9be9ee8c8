"""Transcripts come whenever they like: late, crossed and doubled, before, in and after
the turns whose words they are. They fill in words; the turns are the same without them.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.npc import Flush, TurnDone
from glyphoxa_trio.npc.events import Transcript
from glyphoxa_trio.providers.s2s import (
    AudioOut,
    Capabilities,
    Committed,
    Event,
    Heard,
    InteractionEnded,
    Interrupted,
    ResponseEnd,
    ResponseEnded,
    ResponseStarted,
    SpeechStarted,
    SpeechStopped,
    Spoken,
)

from .support import ANSWERS, ASKS
from .test_spoken import conversation
from .test_turns import open_voice

STEP = 0.1  # seconds between two moments


def evening(wire: Capabilities, barges: list[bool]) -> list[list[Event]]:
    """What the server says, moment by moment, but for the words: one utterance after
    another; those that barge in come before the answer to the one before has ended."""
    moments: list[list[Event]] = []
    for number, _ in enumerate(barges):
        item, response = f"u{number}", f"r{number}"
        barged = number > 0 and barges[number - 1]
        if wire is ASKS:
            moments.append([SpeechStarted()])
            if barged:
                moments[-1].append(ended(f"r{number - 1}", ResponseEnd.CANCELLED))
            moments.append([SpeechStopped(item), Committed(item)])
            moments.append([ResponseStarted(response)])
        else:
            if barged:
                cut = ended(f"r{number - 1}", ResponseEnd.CANCELLED)
                moments.append([Interrupted(), cut])
            moments.append([ResponseStarted(response, heard=item)])
        audio = bytes(wire.output_rate // 10 * 2)
        text = f"Answer {number}."
        moments.append([Spoken(response, f"{response}.i", text)])
        moments.append([AudioOut(response, f"{response}.i", audio)])
        if not barges[number]:
            moments.append([ended(response, ResponseEnd.COMPLETED)])
            if wire is not ASKS:
                moments[-1].append(InteractionEnded())
    return moments


def ended(response: str, end: ResponseEnd) -> ResponseEnded:
    return ResponseEnded(response=response, end=end)


async def play(
    wire: Capabilities, moments: list[list[Event]]
) -> tuple[list[Any], int, dict[str, list[str]], list[str]]:
    """The turns, how often a listener was told to stop, the words that were told of
    each turn, and what is remembered of the players."""
    async with open_voice(wire, None) as (table, links):
        conversation(table).hear(bytes(960))
        await wait_all_tasks_blocked()
        for moment in moments:
            links.last.push(*moment)
            await trio.sleep(STEP)
        await trio.sleep(30)
        turns = [
            (done.turn, done.end, done.text) for done in table.events.all(TurnDone)
        ]
        words: dict[str, list[str]] = {}
        for told in table.events.all(Transcript):
            if told.final:
                words.setdefault(f"u{told.turn - 1}", []).append(told.text)
        said = [x.text for x in conversation(table).history() if x.role == "user"]
        return turns, len(table.events.all(Flush)), words, said


@pytest.mark.parametrize("wire", [ASKS, ANSWERS], ids=["asks", "answers"])
@given(data=st.data())
def test_words_change_no_turn(wire: Capabilities, data: st.DataObject) -> None:
    # A13, A35: not one phantom turn, and nobody is cut off
    barges = data.draw(st.lists(st.booleans(), min_size=1, max_size=4))
    barges[-1] = False
    moments = evening(wire, barges)
    told: list[list[Event]] = [list(moment) for moment in moments]
    told += [[] for _ in range(40)]
    for number in range(len(barges)):
        for _ in range(data.draw(st.integers(0, 3), label="times")):
            at = data.draw(st.integers(0, len(told) - 1), label="at")
            first = data.draw(st.booleans(), label="first in its moment")
            final = data.draw(st.booleans(), label="final")
            text = f"Words {number}." if final else f"Words {number}"
            told[at].insert(
                0 if first else len(told[at]), Heard(text, final, f"u{number}")
            )
        # And all of them in the end.
        told[-1].append(Heard(f"Words {number}.", True, f"u{number}"))

    async def both() -> None:
        silent = await play(wire, moments)
        heard = await play(wire, told)
        assert heard[0] == silent[0]
        assert heard[1] == silent[1]
        assert len(heard[0]) == len(barges)
        # Each turn is told its own words, and once; the history has them in order.
        each = {f"u{number}": [f"Words {number}."] for number in range(len(barges))}
        assert heard[2] == each
        assert heard[3] == [f"Words {number}." for number in range(len(barges))]

    trio.run(both, clock=MockClock(autojump_threshold=0))
