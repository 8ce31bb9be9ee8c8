"""Three calls that held the loop within ten minutes, and the way back. Row G20."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from glyphoxa_trio.tools.holding import STRIKES, WITHIN, Holding
from glyphoxa_trio.tools.readmission import WAITS


def refused(now: float = 0.0) -> Holding:
    holding = Holding()
    for number in range(STRIKES):
        assert holding.refused() is None
        assert holding.held(now, "a.py:1 in f", 0.2) == (number == STRIKES - 1)
    return holding


def test_the_third_one_within_ten_minutes_refuses_it() -> None:
    no = refused().refused()
    assert no is not None
    assert no.next_trial == WAITS[0]
    assert "a.py:1 in f" in no.text


def test_three_in_more_than_ten_minutes_do_not() -> None:
    holding = Holding()
    for number in range(20):
        assert not holding.held(number * (WITHIN / 2 + 1), "a.py:1 in f", 0.2)
    assert holding.refused() is None


def test_it_is_shown_for_one_call_and_a_good_one_brings_it_back() -> None:
    holding = refused()
    holding.wait(WAITS[0] - 1)
    assert holding.refused() is not None
    holding.wait(1)
    assert holding.refused() is None
    assert holding.begun()
    assert holding.refused() is not None  # for everybody else
    holding.ended(100.0, well=None)  # cut: it is still to be tried
    assert holding.refused() is None
    assert holding.begun()
    holding.ended(101.0, well=True)
    assert holding.refused() is None
    assert not holding.begun()


def test_one_that_holds_it_again_waits_longer() -> None:
    holding = refused()
    for wait in (*WAITS, WAITS[-1]):
        no = holding.refused()
        assert no is not None
        assert no.next_trial == wait
        holding.wait(wait)
        assert holding.begun()
        holding.held(1.0, "a.py:1 in f", 0.2)


def test_one_that_is_refused_again_within_an_hour_needs_two() -> None:
    holding = refused()
    holding.wait(WAITS[0])
    holding.begun()
    holding.ended(0.0, well=True)
    for _ in range(STRIKES):
        holding.held(60.0, "a.py:1 in f", 0.2)
    holding.wait(2 * WAITS[0])
    assert holding.begun()
    holding.ended(70.0, well=True)
    assert holding.refused() is None  # the second may follow at once
    assert holding.begun()
    holding.ended(71.0, well=True)
    assert holding.refused() is None
    assert not holding.begun()


class Strikes(RuleBasedStateMachine):
    """Against the dumbest model: a list of moments, and a number of seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.holding = Holding()
        self.now = 0.0
        self.moments: list[float] = []
        self.is_refused = False
        self.trying = False

    @rule(seconds=st.floats(0, 2 * WITHIN))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: not self.is_refused)
    @rule()
    def hold(self) -> None:
        self.moments.append(self.now)
        last = self.moments[-STRIKES:]
        expected = len(last) == STRIKES and last[-1] - last[0] <= WITHIN
        assert self.holding.held(self.now, "a.py:1 in f", 0.2) == expected
        if expected:
            self.is_refused, self.moments = True, []

    @precondition(lambda self: self.is_refused and self.trying)
    @rule()
    def hold_in_the_trial(self) -> None:
        assert not self.holding.held(self.now, "a.py:1 in f", 0.2)
        self.trying = False
        assert self.holding.refused() is not None

    @precondition(lambda self: self.is_refused)
    @rule(seconds=st.floats(0, 300))
    def talk(self, seconds: float) -> None:
        self.holding.wait(seconds)

    @rule()
    def call(self) -> None:
        shown = self.holding.refused() is None
        begun = self.holding.begun()
        assert begun == (self.is_refused and shown)
        self.trying |= begun

    @precondition(lambda self: self.trying)
    @rule(well=st.sampled_from([True, None]))
    def end(self, well: bool | None) -> None:
        self.holding.ended(self.now, well=well)
        self.trying = False
        if well and not self.holding.begun() and self.holding.refused() is None:
            self.is_refused = False

    @invariant()
    def one_that_is_well_is_never_refused(self) -> None:
        if not self.is_refused:
            assert self.holding.refused() is None

    @precondition(lambda self: self.is_refused and not self.trying)
    @rule()
    def it_comes_back_in_the_end(self) -> None:
        for _ in range(100):
            if self.holding.refused() is not None:
                self.holding.wait(10_000)
            if not self.holding.begun():
                break
            self.holding.ended(self.now, well=True)
        assert self.holding.refused() is None
        assert not self.holding.begun()
        self.is_refused = False


TestStrikes = Strikes.TestCase
TestStrikes.settings = settings(stateful_step_count=30)
