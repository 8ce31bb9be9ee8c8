"""The clocks of a turn against the plain sum of their stretches."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from glyphoxa_trio.npc.clock import Clock


def test_a_clock_that_stands_still_spends_nothing() -> None:
    clock = Clock(1.5)
    assert not clock.running
    assert (clock.spent(100), clock.remaining(100)) == (0, 1.5)
    clock.stop(100)
    assert (clock.spent(100), clock.running) == (0, False)


def test_stretches_add_up_and_the_rest_is_what_is_left() -> None:
    # D3: sequential rounds add up
    clock = Clock(1.5)
    assert clock.start(10) == 11.5
    clock.stop(10.5)
    assert clock.start(20) == 21
    assert clock.running
    assert (clock.spent(20.25), clock.remaining(20.25)) == (0.75, 0.75)
    clock.stop(21)
    assert clock.remaining(21) == 0


def test_what_is_left_is_never_less_than_nothing() -> None:
    clock = Clock(0.5)
    clock.start(0)
    clock.stop(2)
    assert (clock.spent(2), clock.remaining(2)) == (2, 0)
    assert clock.start(7) == 7  # at once


def test_of_stretches_that_overlap_the_time_counts_once() -> None:
    clock = Clock(2)
    assert clock.start(0) == 2
    assert clock.start(0.5) == 2
    clock.stop(1)
    assert clock.running
    clock.stop(1.5)
    assert (clock.running, clock.spent(3)) == (False, 1.5)


class ClockMachine(RuleBasedStateMachine):
    """The model: a list of stretches, and when the open ones began."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = 4.0
        self.clock = Clock(self.budget)
        self.now = 1000.0
        self.stretches: list[float] = []
        self.open: list[float] = []

    def spent(self) -> float:
        return sum(self.stretches) + (self.now - self.open[0] if self.open else 0)

    # Multiples of 1/64, so that sums of floats are exact.
    @rule(ticks=st.integers(0, 200))
    def time_passes(self, ticks: int) -> None:
        self.now += ticks / 64

    @rule()
    def start(self) -> None:
        end = self.clock.start(self.now)
        assert end == self.now + max(0, self.budget - self.spent())
        self.open.append(self.now)

    @rule()
    def stop(self) -> None:
        self.clock.stop(self.now)
        if len(self.open) == 1:
            self.stretches.append(self.now - self.open[0])
        self.open[-1:] = []  # the first one says since when

    @invariant()
    def it_is_a_plain_sum(self) -> None:
        assert self.clock.running is bool(self.open)
        assert self.clock.spent(self.now) == self.spent()
        assert self.clock.remaining(self.now) == max(0, self.budget - self.spent())


TestClock = ClockMachine.TestCase
