"""Sounds that may be interruptions: the state, step by step and at random."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from glyphoxa_trio.npc.barge_in import BargeIn, BargeInAction, Minimum, UtteranceState

HALF = Minimum(seconds=0.5)
WORDS = Minimum(seconds=0.3, words=2)


def test_who_asks_nothing_of_it_is_interrupted_by_any_sound() -> None:
    barge_in = BargeIn()
    assert barge_in.begins(1, busy=True) is BargeInAction.INTERRUPT
    assert barge_in.sounds(1, 0.15) is BargeInAction.NOTHING
    assert barge_in.sounds(1, 0.2, over=True) is BargeInAction.NOTHING
    assert barge_in.standing(1) is UtteranceState.COUNTS


def test_where_nobody_is_interrupted_every_utterance_counts() -> None:
    barge_in = BargeIn(WORDS)
    assert barge_in.begins(1, busy=False) is BargeInAction.INTERRUPT
    assert barge_in.sounds(1, 0.15, over=True) is BargeInAction.NOTHING
    assert barge_in.understood(1, 1, final=True) is BargeInAction.NOTHING
    assert barge_in.standing(1) is UtteranceState.COUNTS


def test_what_is_long_enough_interrupts_and_what_is_not_is_a_cough() -> None:
    barge_in = BargeIn(HALF)
    assert barge_in.begins(1, busy=True) is BargeInAction.HOLD
    assert barge_in.sounds(1, 0.15) is BargeInAction.NOTHING
    assert barge_in.sounds(1, 0.48) is BargeInAction.NOTHING
    assert barge_in.sounds(1, 0.48, over=True) is BargeInAction.RESUME
    assert barge_in.standing(1) is UtteranceState.COUGH
    # Whatever a recognizer makes of it.
    assert barge_in.understood(1, 3, final=True) is BargeInAction.NOTHING
    assert barge_in.standing(1) is UtteranceState.COUGH

    assert barge_in.begins(2, busy=True) is BargeInAction.HOLD
    assert barge_in.sounds(2, 0.5) is BargeInAction.INTERRUPT
    assert barge_in.sounds(2, 0.7, over=True) is BargeInAction.NOTHING
    assert barge_in.standing(2) is UtteranceState.COUNTS


def test_words_are_waited_for_if_they_are_asked_for() -> None:
    barge_in = BargeIn(WORDS)
    assert barge_in.begins(1, busy=True) is BargeInAction.HOLD
    assert barge_in.understood(1, 1, final=False) is BargeInAction.NOTHING
    assert (
        barge_in.sounds(1, 0.6, over=True) is BargeInAction.NOTHING
    )  # how many words?
    assert barge_in.held
    assert barge_in.understood(1, 2, final=True) is BargeInAction.INTERRUPT
    assert barge_in.begins(2, busy=True) is BargeInAction.HOLD
    assert barge_in.sounds(2, 0.6, over=True) is BargeInAction.NOTHING
    assert barge_in.understood(2, 1, final=True) is BargeInAction.RESUME


def test_without_any_sound_words_are_what_counts() -> None:
    # A recognizer that says when somebody begins, and nothing more of what it hears.
    barge_in = BargeIn(HALF)
    assert barge_in.begins(1, busy=True) is BargeInAction.HOLD
    assert barge_in.understood(1, 0, final=True) is BargeInAction.RESUME
    assert barge_in.begins(2, busy=True) is BargeInAction.HOLD
    assert barge_in.understood(2, 1, final=False) is BargeInAction.INTERRUPT


def test_a_second_sound_while_the_first_is_not_understood_yet() -> None:
    barge_in = BargeIn(WORDS)
    assert barge_in.begins(1, busy=True) is BargeInAction.HOLD
    assert barge_in.sounds(1, 0.6, over=True) is BargeInAction.NOTHING
    assert barge_in.begins(2, busy=True) is BargeInAction.NOTHING  # it is held already
    assert (
        barge_in.understood(1, 1, final=True) is BargeInAction.NOTHING
    )  # and still is
    assert barge_in.standing(1) is UtteranceState.COUGH
    assert barge_in.sounds(2, 0.2, over=True) is BargeInAction.RESUME


def test_who_interrupts_leaves_nothing_to_be_interrupted() -> None:
    barge_in = BargeIn(WORDS)
    barge_in.begins(1, busy=True)
    barge_in.sounds(1, 0.6, over=True)
    barge_in.begins(2, busy=True)
    assert barge_in.understood(1, 2, final=True) is BargeInAction.INTERRUPT
    assert barge_in.standing(2) is UtteranceState.COUNTS
    assert not barge_in.held


def test_nobody_is_held_for_words_that_do_not_come() -> None:
    barge_in = BargeIn(WORDS)
    barge_in.begins(1, busy=True)
    barge_in.sounds(1, 0.6, over=True)
    assert barge_in.waits_no_longer() is BargeInAction.RESUME
    assert barge_in.waits_no_longer() is BargeInAction.NOTHING
    # They may come all the same.
    assert barge_in.understood(1, 2, final=True) is BargeInAction.INTERRUPT


class Interrupting(RuleBasedStateMachine):
    """Utterances that come, grow, end and are understood in any order: a listener who
    does what it is told is always told what becomes of what it holds."""

    @initialize(
        seconds=st.sampled_from([0.0, 0.3, 0.5]),
        words=st.sampled_from([0, 0, 2]),
    )
    def starts(self, seconds: float, words: int) -> None:
        self.minimum = Minimum(seconds=seconds, words=words)
        self.barge_in = BargeIn(self.minimum)
        self.count = 0
        self.over: set[int] = set()
        self.holding = False
        self.said: dict[int, float] = {}

    def hears(self, what: BargeInAction) -> None:
        if what is BargeInAction.HOLD:
            assert not self.holding
            self.holding = True
        elif what is BargeInAction.RESUME:
            assert self.holding
            self.holding = False
        elif what is BargeInAction.INTERRUPT:
            self.holding = False

    @rule(busy=st.booleans())
    def begins(self, busy: bool) -> None:
        self.count += 1
        self.said[self.count] = 0.15
        self.hears(self.barge_in.begins(self.count, busy=busy or self.holding))

    @rule(seconds=st.sampled_from([0.03, 0.2, 0.4]), over=st.booleans())
    @precondition(lambda self: self.count and self.count not in self.over)
    def sounds(self, seconds: float, over: bool) -> None:
        self.said[self.count] += seconds
        if over:
            self.over.add(self.count)
        found = self.barge_in.sounds(self.count, self.said[self.count], over=over)
        self.hears(found)

    @rule(back=st.integers(0, 3), words=st.integers(0, 3), final=st.booleans())
    @precondition(lambda self: self.count)
    def understood(self, back: int, words: int, final: bool) -> None:
        which = max(1, self.count - back)
        was = self.barge_in.standing(which)
        self.hears(self.barge_in.understood(which, words, final=final))
        now = self.barge_in.standing(which)
        if was in (UtteranceState.COUNTS, UtteranceState.COUGH):
            assert now is was  # for good
        elif final and which in self.over:
            assert now in (UtteranceState.COUNTS, UtteranceState.COUGH)

    @rule()
    def time_passes(self) -> None:
        self.hears(self.barge_in.waits_no_longer())
        assert not self.holding

    @invariant()
    def it_is_held_as_long_as_something_may_interrupt(self) -> None:
        assert self.barge_in.held == self.holding

    @invariant()
    def a_short_sound_alone_interrupts_nobody(self) -> None:
        for which in self.over:
            if self.barge_in.standing(which) is UtteranceState.HELD:
                # It is long enough, and its words are waited for.
                assert self.said[which] >= self.minimum.seconds
                assert self.minimum.words


TestInterrupting = Interrupting.TestCase
TestInterrupting.settings = settings(stateful_step_count=30)
