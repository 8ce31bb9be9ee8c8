"""`Breaker` against a restatement that remembers every call. D7."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from glyphoxa_trio.tools.breaker import Breaker, BreakerState, Ticket

CLOSED, OPEN, TRIAL = BreakerState


def begun(breaker: Breaker, now: float) -> Ticket:
    ticket = breaker.begin(now)
    assert ticket is not None
    return ticket


def opened(now: float = 0.0, *, pause: float = 10.0) -> Breaker:
    """A breaker that has opened at ``now``."""
    breaker = Breaker(pause=pause)
    for _ in range(5):
        assert not breaker.record(begun(breaker, now), ok=False, now=now)
    assert breaker.state is OPEN
    return breaker


@attrs.define(eq=False)
class Call:
    ticket: Ticket
    counts: bool = True  # whether what it says will be heard
    trial: bool = False


class BreakerMachine(RuleBasedStateMachine):
    """Calls overlap. The model marks, at each change, whose word counts no more."""

    @initialize(threshold=st.integers(1, 3))
    def close(self, threshold: int) -> None:
        self.breaker = Breaker(threshold, pause=4.0)
        self.running: list[Call] = []
        self.heard: list[bool] = []  # what closed calls said since it closed
        self.closed = True
        self.may_try_at = 0.0
        self.suspected_until = 0.0
        self.now = 0.0

    def trial_runs(self) -> bool:
        return any(call.trial for call in self.running)

    def shut_ears(self) -> None:
        for call in self.running:
            call.counts = False

    @rule(seconds=st.sampled_from([0.5, 1.0, 3.0, 4.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def begin(self) -> None:
        may = self.closed or (self.now >= self.may_try_at and not self.trial_runs())
        assert self.breaker.admits(self.now) is may
        ticket = self.breaker.begin(self.now)
        assert (ticket is not None) is may
        if ticket is not None:
            self.running.append(Call(ticket, trial=not self.closed))

    @rule()
    def suspect(self) -> None:
        self.breaker.suspect(self.now)
        if self.closed:
            self.suspected_until = self.now + 4

    @rule(which=st.integers(0, 99), ok=st.booleans())
    def end(self, which: int, ok: bool) -> None:
        if not self.running:
            return
        call = self.running.pop(which % len(self.running))
        closes = self.breaker.record(call.ticket, ok=ok, now=self.now)
        assert closes is (call.trial and ok)
        if call.trial:
            self.closed, self.heard = ok, []
            self.may_try_at = self.now + 4
        elif call.counts:
            self.heard.append(ok)
            many = self.breaker.threshold if self.now >= self.suspected_until else 1
            if self.heard[-many:] == [False] * many:
                self.closed = False
                self.may_try_at = self.now + 4
                self.shut_ears()

    @rule(which=st.integers(0, 99))
    def release(self, which: int) -> None:
        if not self.running:
            return
        call = self.running.pop(which % len(self.running))
        self.breaker.release(call.ticket, self.now)
        if call.trial:
            self.may_try_at = self.now

    @invariant()
    def looks_as_it_should(self) -> None:
        trial = self.trial_runs()
        expected = CLOSED if self.closed else TRIAL if trial else OPEN
        assert self.breaker.state is expected
        waiting = expected is OPEN and self.now < self.may_try_at
        assert self.breaker.retry_in(self.now) == (
            self.may_try_at - self.now if waiting else 0.0
        )
        assert self.breaker.admits(self.now) is not (waiting or expected is TRIAL)

    @invariant()
    def at_most_one_trial_runs(self) -> None:
        assert sum(call.trial for call in self.running) <= 1


TestBreaker = BreakerMachine.TestCase


def test_five_failures_in_a_row_open_it() -> None:
    breaker = Breaker()
    for _ in range(4):
        breaker.record(begun(breaker, 0), ok=False, now=0)
    assert breaker.state is CLOSED
    breaker.record(begun(breaker, 0), ok=True, now=0)  # the row is broken
    for _ in range(4):
        breaker.record(begun(breaker, 0), ok=False, now=0)
    assert breaker.state is CLOSED
    breaker.record(begun(breaker, 0), ok=False, now=0)
    assert breaker.state is OPEN


def test_a_call_that_says_nothing_does_not_break_the_row() -> None:
    breaker = Breaker()
    for _ in range(4):
        breaker.record(begun(breaker, 0), ok=False, now=0)
    breaker.release(begun(breaker, 0), now=0)
    breaker.record(begun(breaker, 0), ok=False, now=0)
    assert breaker.state is OPEN


def test_a_suspected_breaker_opens_at_the_first_failure() -> None:
    breaker = Breaker(pause=10.0)
    breaker.suspect(now=0)
    breaker.record(begun(breaker, 9), ok=True, now=9)
    assert breaker.state is CLOSED
    breaker.record(begun(breaker, 9), ok=False, now=9.9)
    assert breaker.state is OPEN


def test_a_suspicion_ends_after_a_pause_and_none_begins_while_open() -> None:
    breaker = Breaker(pause=10.0)
    breaker.suspect(now=0)
    breaker.record(begun(breaker, 9), ok=False, now=10.0)
    assert breaker.state is CLOSED
    breaker = opened(0.0)
    breaker.suspect(now=9.9)  # it is open itself
    assert breaker.record(begun(breaker, 10), ok=True, now=10)
    breaker.record(begun(breaker, 10), ok=False, now=10)
    assert breaker.state is CLOSED


def test_an_open_breaker_refuses_until_its_pause_is_over() -> None:
    breaker = opened(100.0)
    assert breaker.retry_in(103.0) == 7.0
    assert breaker.begin(109.5) is None
    assert breaker.admits(110.0)
    assert breaker.retry_in(110.0) == 0.0


def test_looking_does_not_take_the_trial() -> None:
    breaker = opened()
    assert [breaker.admits(10) for _ in range(3)] == [True] * 3
    assert breaker.state is OPEN
    assert breaker.begin(10) is not None


def test_one_call_is_the_trial_and_the_others_wait_for_it() -> None:
    breaker = opened()
    trial = begun(breaker, 10)
    assert breaker.state is TRIAL
    assert not breaker.admits(10)
    assert breaker.begin(1000) is None
    assert breaker.record(trial, ok=True, now=11) is True  # tells: health anew
    assert breaker.state is CLOSED


def test_a_trial_that_fails_pauses_again() -> None:
    breaker = opened()
    assert not breaker.record(begun(breaker, 10), ok=False, now=12)
    assert breaker.state is OPEN
    assert breaker.retry_in(12) == 10.0


def test_a_closed_breaker_starts_counting_from_nothing() -> None:
    breaker = opened()
    breaker.record(begun(breaker, 10), ok=True, now=10)
    for _ in range(4):
        breaker.record(begun(breaker, 10), ok=False, now=10)
    assert breaker.state is CLOSED


def test_a_trial_that_says_nothing_frees_its_place_at_once() -> None:
    breaker = opened()
    breaker.release(begun(breaker, 10), now=11)
    assert breaker.state is OPEN
    assert breaker.retry_in(11) == 0.0
    again = begun(breaker, 11)
    assert breaker.record(again, ok=True, now=12)


@pytest.mark.parametrize("ok", [False, True])
def test_a_call_from_before_is_not_the_trials_result(ok: bool) -> None:
    breaker = Breaker()
    late = begun(breaker, 0)
    for _ in range(5):
        breaker.record(begun(breaker, 0), ok=False, now=0)
    trial = begun(breaker, 10)
    assert not breaker.record(late, ok=ok, now=11)
    breaker.release(late, now=11)
    assert breaker.state is TRIAL
    assert breaker.record(trial, ok=True, now=12)


def test_late_failures_do_not_prolong_the_pause_or_open_it_again() -> None:
    breaker = Breaker()
    late = [begun(breaker, 0) for _ in range(10)]
    for ticket in late[:5]:
        breaker.record(ticket, ok=False, now=0)
    breaker.record(late[5], ok=False, now=6)
    assert breaker.retry_in(6) == 4.0
    assert breaker.record(begun(breaker, 10), ok=True, now=10)
    for ticket in late[5:]:
        breaker.record(ticket, ok=False, now=11)
    assert breaker.state is CLOSED


def test_the_answer_of_an_earlier_trial_is_not_the_answer_of_this_one() -> None:
    breaker = opened()
    first = begun(breaker, 10)
    breaker.release(first, now=10)
    begun(breaker, 10)
    assert not breaker.record(first, ok=True, now=11)
    breaker.release(first, now=11)
    assert breaker.state is TRIAL
