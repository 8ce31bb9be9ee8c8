"""The clocks of a turn against the plain sum of their stretches."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from glyphoxa_trio.npc.turn import Clock


def test_a_clock_that_stands_still_spends_nothing() -> None:
    clock = Clock(1.5)
    assert not clock.running
    assert (clock.spent(100), clock.remaining(100)) == (0, 1.5)
    assert clock.stop(100) == 0


def test_stretches_add_up_and_the_rest_is_what_is_left() -> None:
    # D3: sequential rounds add up
    clock = Clock(1.5)
    assert clock.start(10) == 11.5
    assert clock.stop(10.5) == 0.5
    assert clock.start(20) == 21
    assert clock.running
    assert (clock.spent(20.25), clock.remaining(20.25)) == (0.75, 0.75)
    assert clock.stop(21) == 1
    assert clock.remaining(21) == 0


def test_what_is_left_is_never_less_than_nothing() -> None:
    clock = Clock(0.5)
    clock.start(0)
    assert clock.stop(2) == 2
    assert (clock.spent(2), clock.remaining(2)) == (2, 0)
    assert clock.start(7) == 7  # at once


def test_a_running_clock_cannot_be_started() -> None:
    clock = Clock(1)
    clock.start(0)
    with pytest.raises(ValueError, match="runs already"):
        clock.start(0.5)
    assert clock.stop(1) == 1


class ClockMachine(RuleBasedStateMachine):
    """The model: a list of stretches, the last one open."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = 4.0
        self.clock = Clock(self.budget)
        self.now = 1000.0
        self.stretches: list[float] = []
        self.since: float | None = None

    def spent(self) -> float:
        return sum(self.stretches) + (
            0 if self.since is None else self.now - self.since
        )

    # Multiples of 1/64, so that sums of floats are exact.
    @rule(ticks=st.integers(0, 200))
    def time_passes(self, ticks: int) -> None:
        self.now += ticks / 64

    @precondition(lambda self: self.since is None)
    @rule()
    def start(self) -> None:
        end = self.clock.start(self.now)
        assert end == self.now + max(0, self.budget - sum(self.stretches))
        self.since = self.now

    @precondition(lambda self: self.since is not None)
    @rule()
    def start_again(self) -> None:
        with pytest.raises(ValueError, match="runs already"):
            self.clock.start(self.now)

    @rule()
    def stop(self) -> None:
        stretch = 0 if self.since is None else self.now - self.since
        assert self.clock.stop(self.now) == stretch
        if self.since is not None:
            self.stretches.append(stretch)
            self.since = None

    @invariant()
    def it_is_a_plain_sum(self) -> None:
        assert self.clock.running is (self.since is not None)
        assert self.clock.spent(self.now) == self.spent()
        assert self.clock.remaining(self.now) == max(0, self.budget - self.spent())


TestClock = ClockMachine.TestCase
