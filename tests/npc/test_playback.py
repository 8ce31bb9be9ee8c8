"""What was played, piece by piece, against a tape on which every tick has an owner."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
)

from glyphoxa_trio.npc.playback import Playback

PIECES = st.sampled_from("abc")
TICKS = st.integers(0, 9)  # whole numbers, so that sums are exact


class PlaybackMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.playback = Playback()
        self.tape: list[str] = []
        self.head = 0
        self.order: dict[str, None] = {}

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

    @invariant()
    def every_tick_counts_once(self) -> None:
        assert self.playback.given == len(self.tape)
        assert self.playback.left == len(self.tape) - self.head
        for piece in "abcd":
            assert self.playback.length(piece) == self.tape.count(piece)
            assert self.playback.heard(piece) == self.tape[: self.head].count(piece)

    @invariant()
    def pieces_are_in_the_order_in_which_they_began(self) -> None:
        assert self.playback.pieces == tuple(self.order)


TestPlayback = PlaybackMachine.TestCase
