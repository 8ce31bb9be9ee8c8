"""What was played, piece by piece, against a tape on which every tick has an owner."""

from __future__ import annotations

from itertools import groupby

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
)

from glyphoxa_trio.npc.playback import Playback

PIECES = st.sampled_from("abc")
TICKS = st.integers(1, 9)  # whole numbers, so that sums are exact


class PlaybackMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.playback = Playback()
        self.tape: list[str] = []
        self.head = 0
        self.order: dict[str, None] = {}
        self.forgotten = 0  # ticks at the beginning of the tape

    @rule(piece=PIECES, ticks=TICKS)
    def add(self, piece: str, ticks: int) -> None:
        self.playback.add(piece, float(ticks))
        self.tape += [piece] * ticks
        self.order.setdefault(piece)

    @rule(ticks=st.integers(-3, 60))
    def play(self, ticks: int) -> None:
        self.playback.played(float(ticks))
        self.head = max(self.head, min(ticks, len(self.tape)))

    @rule()
    def flush(self) -> None:
        self.playback.flush()
        self.tape, self.head, self.order = [], 0, {}
        self.forgotten = 0

    @rule()
    def forget(self) -> None:
        self.playback.forget()
        runs = [list(run) for _, run in groupby(self.tape)]
        at = 0
        for run in runs[:-1]:
            if at + len(run) > self.head:
                break
            at += len(run)
        self.forgotten = at
        self.order = dict.fromkeys(self.tape[at:])

    @invariant()
    def every_tick_counts_once(self) -> None:
        assert self.playback.given == len(self.tape)
        assert self.playback.left == len(self.tape) - self.head
        for piece in "abcd":
            known = slice(self.forgotten, None)
            assert self.playback.length(piece) == self.tape[known].count(piece)
            played = slice(self.forgotten, self.head)
            assert self.playback.heard(piece) == self.tape[played].count(piece)

    @invariant()
    def pieces_are_in_the_order_in_which_they_began(self) -> None:
        assert self.playback.pieces == tuple(self.order)


TestPlayback = PlaybackMachine.TestCase
