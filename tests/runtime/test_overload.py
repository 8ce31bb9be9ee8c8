"""Overload: the rule that refuses turns, without a loop or a clock."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from glyphoxa_trio.config import Config, OverloadConfig
from glyphoxa_trio.runtime.overload import BLOCKED, CALM, FLOOR, Overload

LATE, ON_TIME = 0.2, 0.001


def overload(**config: Any) -> Overload:
    return Overload(attrs.evolve(OverloadConfig(), **config))


def look(
    rule: Overload, lag: float, *, elapsed: float, running: int, used: float = 1.0
) -> None:
    """One sample; ``used`` is how much of a processor the process had meanwhile."""
    rule.sample(lag, elapsed=elapsed, running=running, spent=used * elapsed)


def feed(
    rule: Overload, lag: float, times: int, *, running: int = 100, used: float = 1.0
) -> None:
    for _ in range(times):
        look(rule, lag, elapsed=0.05 + lag, running=running, used=used)


def busy(rule: Overload) -> Overload:
    """It has used a processor for a while, and was on time."""
    feed(rule, ON_TIME, 100, running=100)
    return rule


def test_by_default_100_ms_are_late_and_turns_are_not_counted() -> None:
    assert Config().overload == OverloadConfig(
        enabled=True, max_turns=None, max_lag=0.1
    )


def test_one_pause_is_no_overload_however_long_it_was() -> None:
    rule = overload()
    look(rule, 60.0, elapsed=60.05, running=100)
    assert (rule.shedding, rule.refusal(10_000)) == (False, "")


def test_a_pause_now_and_then_is_none_either() -> None:
    rule = overload()
    for _ in range(1000):  # as a collector of garbage does with a large heap
        feed(rule, 0.3, 1)
        feed(rule, ON_TIME, 7)
    assert (rule.shedding, rule.episodes) == (False, 0)


def test_five_late_samples_in_a_row_are_an_overload() -> None:
    rule = busy(overload())
    limits = []
    for _ in range(5):
        feed(rule, LATE, 1)
        limits.append(rule.limit)
    assert limits == [None] * 4 + [70]
    assert (rule.shedding, rule.episodes) == (True, 1)
    assert rule.refusal(69) == ""
    assert rule.refusal(70) == (
        "this machine is late by up to 200 ms with 70 turns,"
        " and takes no more than 70 now"
    )
    assert rule.shed == 1


def test_the_limit_itself_is_not_yet_late() -> None:
    rule = overload(max_lag=LATE)
    feed(rule, LATE, 50)
    assert not rule.shedding


def test_while_more_run_than_may_that_they_are_late_does_not_lower_the_limit() -> None:
    rule = overload()
    feed(rule, LATE, 30, running=100)
    assert rule.limit == 70
    feed(rule, LATE, 30, running=71)
    assert rule.limit == 70
    feed(rule, LATE, 2, running=70)
    assert rule.limit == 70  # two samples say as little of this limit as of any
    feed(rule, LATE, 1, running=70)
    assert rule.limit == 49


def test_a_limit_that_was_just_set_has_its_chance() -> None:
    rule = busy(overload())
    feed(rule, LATE, 5, running=100)
    feed(rule, LATE, 2, running=70)
    assert rule.limit == 70
    feed(rule, LATE, 1, running=70)
    assert rule.limit == 49


def test_four_pauses_of_a_fifth_of_a_second_are_none() -> None:
    """Within a second, whether they took the processor or not."""
    for used in (0.3, 1.0):
        rule = overload()
        feed(rule, ON_TIME, 100, running=30, used=0.3)
        for _ in range(4):
            feed(rule, LATE, 1, running=30, used=used)
        feed(rule, ON_TIME, 100, running=30, used=0.3)
        assert (rule.shedding, rule.episodes) == (False, 0)


def test_late_with_an_idle_processor_is_an_overload_only_after_three_seconds() -> None:
    rule = overload()
    feed(rule, LATE, 4, used=0.1)  # until it is late for half of the time
    over = 0.0
    while not rule.shedding:
        feed(rule, LATE, 1, used=0.1)
        over += 0.15  # a sample counts for no more
    assert BLOCKED <= over <= BLOCKED + 0.2


def test_when_the_processor_is_idle_again_it_is_over_within_a_second() -> None:
    rule = busy(overload())
    feed(rule, LATE, 5)
    assert rule.refusal(100)
    passed = 0.0
    while rule.shedding:
        rule.refusal(100)  # people come all the same
        look(rule, ON_TIME, elapsed=0.05, running=10, used=0.1)
        passed += 0.05
    assert passed <= 1.0
    assert rule.refusal(10_000) == ""


def test_a_few_turns_are_never_the_cause() -> None:
    rule = overload()
    feed(rule, LATE, 100, running=FLOOR)
    assert rule.limit is None
    feed(rule, LATE, 1, running=FLOOR + 1)
    feed(rule, LATE, 100, running=FLOOR)
    assert rule.limit == FLOOR
    assert rule.refusal(FLOOR - 1) == ""


def test_when_it_was_late_before_they_came_it_is_not_because_of_them() -> None:
    rule = overload()
    feed(rule, LATE, 100, running=0)
    feed(rule, ON_TIME, 1, running=100)
    assert rule.limit is None


def test_the_limit_grows_while_it_holds_somebody_up_and_nothing_is_late() -> None:
    rule = busy(overload())
    feed(rule, LATE, 5, running=1000)
    assert rule.limit == 700
    look(rule, ON_TIME, elapsed=1.0, running=700)
    assert rule.limit == 700  # nobody was turned away, so it is not known to be low
    rule.refusal(700)
    look(rule, ON_TIME, elapsed=1.0, running=700)
    assert rule.limit == 770
    rule.refusal(770)
    look(rule, LATE, elapsed=1.0, running=770)
    assert rule.limit == 770
    rule.refusal(770)
    look(rule, ON_TIME, elapsed=60.0, running=770)  # nobody looked for a minute
    assert rule.limit == 847


def test_without_anybody_to_turn_away_it_ends_after_a_while() -> None:
    rule = busy(overload())
    feed(rule, LATE, 5)
    rule.refusal(70)
    look(rule, ON_TIME, elapsed=0.05, running=60)
    for _ in range(4):
        look(rule, ON_TIME, elapsed=CALM / 4 - 0.001, running=60)
    assert rule.shedding
    look(rule, ON_TIME, elapsed=0.01, running=60)
    assert (rule.shedding, rule.limit, rule.refusal(10_000)) == (False, None, "")
    assert (rule.episodes, rule.shed_lately) == (1, 1)


def test_a_number_of_turns_that_is_configured_holds_however_well_it_goes() -> None:
    rule = overload(max_turns=3)
    feed(rule, 0.0, 10, running=3)
    assert rule.refusal(2) == ""
    assert rule.refusal(3) == "3 turns run, and overload.max_turns allows 3"
    assert rule.shedding
    assert rule.refusal(2) == ""  # at once, when one has ended


def test_what_can_wait_waits_from_the_first_late_sample_on() -> None:
    rule = overload()
    assert not rule.busy
    look(rule, LATE, elapsed=0.05, running=0)
    assert rule.busy
    look(rule, ON_TIME, elapsed=0.05, running=0)
    assert not rule.busy
    feed(busy(rule), LATE, 5)
    look(rule, ON_TIME, elapsed=0.05, running=0)
    assert rule.busy  # turns are turned away: this is no time for anything else


def test_switched_off_it_turns_nobody_away() -> None:
    rule = overload(enabled=False, max_turns=1)
    feed(rule, LATE, 50)
    assert (rule.refusal(10_000), rule.shedding) == ("", False)


@pytest.mark.parametrize("better", [{"enabled": False}, {"max_lag": 1.0}])
def test_another_configuration_counts_at_once(better: dict[str, Any]) -> None:
    rule = busy(overload())
    feed(rule, LATE, 5)
    rule.adopt(OverloadConfig())  # the same: nothing is forgotten
    assert rule.limit == 70
    rule.adopt(attrs.evolve(OverloadConfig(), **better))
    assert (rule.shedding, rule.busy, rule.refusal(10_000)) == (False, False, "")


class Machine(RuleBasedStateMachine):
    """Any history, against what must hold in each step of it."""

    @initialize(
        enabled=st.booleans(), most=st.none() | st.integers(min_value=1, max_value=40)
    )
    def begin(self, enabled: bool, most: int | None) -> None:
        self.rule = overload(enabled=enabled, max_turns=most)
        self.calm = self.well = 0.0
        self.pressed = False
        self.shed = self.episodes = 0

    @rule(running=st.integers(min_value=0, max_value=200))
    def ask(self, running: int) -> None:
        was, limit = self.rule.shedding, self.rule.limit
        most = self.rule.config.max_turns
        bounds = [bound for bound in (most, limit) if bound is not None]
        no = self.rule.config.enabled and any(running >= bound for bound in bounds)
        assert bool(self.rule.refusal(running)) == no
        if no:
            self.shed += 1
            self.pressed, self.calm = True, 0.0
            self.episodes += not was
            assert self.rule.shedding
        assert self.rule.limit == limit

    @rule(
        lag=st.sampled_from([0.0, 0.1, 0.101, 3.0]),
        pause=st.sampled_from([0.0, 0.02, 0.08, 1.0, 6.0]),
        running=st.integers(min_value=0, max_value=200),
        used=st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0, 2.0]),
    )
    def look(self, lag: float, pause: float, running: int, used: float) -> None:
        was, before, late = self.rule.shedding, self.rule._limit, lag > 0.1
        look(self.rule, lag, elapsed=lag + pause, running=running, used=used)
        self.well = 0.0 if late else self.well + lag + pause
        after = self.rule._limit
        if not self.rule.config.enabled:
            assert after is None
            assert not self.rule.shedding
            return
        quiet = not late and not self.pressed
        self.calm = self.calm + lag + pause if quiet else 0.0
        if after is not None and (before is None or after < before):
            assert late
            assert running > FLOOR
            assert before is None or running <= before
            assert after == max(FLOOR, 0.7 * running)
            self.episodes += not was
            assert self.rule.shedding
        elif after is not None and before is not None and after > before:
            assert not late
            assert self.pressed
            most = before + max(1.0, 0.1 * before) * min(lag + pause, 1.0)
            assert after <= most + 1e-9
        idle = self.well >= 0.5 and self.rule.used < 0.5
        if after is None:
            assert before is None or self.calm >= CALM or idle
        assert self.rule.shedding or self.calm >= CALM or not was or idle
        assert not (self.rule.shedding and self.calm >= CALM)
        self.pressed = False

    @invariant()
    def what_always_holds(self) -> None:
        rule = self.rule
        assert 0.0 <= rule.late <= 1.0
        assert 0.0 <= rule.used <= 1.0
        assert rule.limit is None or (rule.limit >= FLOOR and rule.shedding)
        assert not rule.shedding or rule.busy
        assert (rule.shed, rule.episodes) == (self.shed, self.episodes)
        assert rule.shed_lately <= rule.shed
        assert rule.statistics().shed == rule.shed


TestMachine = Machine.TestCase
