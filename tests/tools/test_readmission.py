"""`Readmission`: the way back of a tool that was hidden for being slow. D1a, D7."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from glyphoxa_trio.tools.readmission import WAITS, Readmission
from glyphoxa_trio.tools.tier import Tier


def test_the_first_trial_is_after_a_minute_the_second_after_two_then_every_four() -> (
    None
):
    hidden = Readmission(Tier.FAST)
    for minutes in (1, 2, 4, 4, 4):
        assert hidden.left == 60 * minutes
        assert not hidden.wait(60 * minutes - 1)
        assert hidden.wait(1)  # told once
        assert not hidden.wait(1)
        hidden.called()
        assert not hidden.judge(good=False)


def test_one_good_call_is_enough_whoever_made_it() -> None:
    assert Readmission(Tier.FAST).judge(good=True)


def test_calls_that_are_still_slow_make_a_trial_superfluous() -> None:
    """Other tiers use it, so there is nothing to find out."""
    hidden = Readmission(Tier.FAST)
    hidden.wait(59)
    hidden.judge(good=False)
    assert hidden.left == 60


def test_a_relapse_takes_twice_as_many_good_calls_in_a_row() -> None:
    hidden = Readmission(Tier.FAST, needed=4)
    assert hidden.wait(3600)
    for _ in range(3):
        hidden.called()
        assert not hidden.judge(good=True)
        assert hidden.open  # the next one may follow at once
    hidden.called()
    assert not hidden.judge(good=False)
    assert not hidden.open
    for _ in range(3):
        assert not hidden.judge(good=True)
    assert hidden.judge(good=True)
    assert hidden.again() == 8


@pytest.mark.parametrize(("needed", "minutes"), [(1, 1), (2, 2), (4, 4), (8, 8)])
def test_each_time_it_waits_twice_as_long(needed: int, minutes: int) -> None:
    assert Readmission(Tier.FAST, needed).left == 60 * minutes


@given(st.integers(0, 12))
def test_there_is_an_end_to_it(times: int) -> None:
    hidden = Readmission(Tier.FAST)
    for _ in range(times):
        hidden = Readmission(Tier.FAST, hidden.again())
    assert hidden.needed <= 32
    assert hidden.left <= 32 * WAITS[0]


class WaysBack(RuleBasedStateMachine):
    """Against a list of all that was said to it."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = Readmission(Tier.FAST, needed=2)
        self.waited = 0.0
        self.trials = 0
        self.row = 0
        self.shown = False
        self.trying = False
        self.back = False

    @precondition(lambda self: not self.back)
    @rule(seconds=st.floats(0, 100))
    def talk(self, seconds: float) -> None:
        due = (120.0, 240.0, 480.0)[min(self.trials, 2)]  # twice, as it needs two
        self.waited += seconds
        opens = not self.shown and self.waited >= due
        assert self.hidden.wait(seconds) is opens
        self.shown |= opens

    @precondition(lambda self: not self.back)
    @rule()
    def call(self) -> None:
        self.hidden.called()
        if self.shown:
            self.shown, self.waited, self.trials = False, 0.0, self.trials + 1
            self.trying = True

    @precondition(lambda self: not self.back)
    @rule(good=st.booleans())
    def end(self, good: bool) -> None:
        self.row = self.row + 1 if good else 0
        self.back = self.row >= 2
        assert self.hidden.judge(good=good) is self.back
        if not good:
            self.waited = 0.0
        elif not self.back:
            self.shown |= self.trying  # the next one may follow at once
        self.trying = False

    @precondition(lambda self: not self.back)
    @rule()
    def end_without_a_word(self) -> None:
        if self.trying:
            self.shown, self.trials = True, self.trials - 1
        self.trying = False
        self.hidden.said_nothing()

    @precondition(lambda self: self.back)
    @rule()
    def hide_again(self) -> None:
        self.hidden = Readmission(Tier.FAST, needed=2)
        self.waited, self.trials, self.row = 0.0, 0, 0
        self.shown = self.trying = self.back = False

    @invariant()
    def it_is_shown_when_its_time_has_come(self) -> None:
        if not self.back:
            assert self.hidden.open is self.shown
            assert (self.hidden.left == 0) >= self.shown


TestWaysBack = WaysBack.TestCase
