"""The budget of second attempts against what it promises, and who may stand in. D12."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from glyphoxa_trio.tools.definition import Tool, ToolDefinition
from glyphoxa_trio.tools.hedging import (
    NO_HEDGING,
    HedgeBudget,
    HedgingRules,
    hedgeable,
    may_stand_in,
)
from glyphoxa_trio.tools.outcome import ToolResult


class BudgetMachine(RuleBasedStateMachine):
    """The promise itself, for every stretch of the history, as the model.

    A second attempt is made exactly if afterwards no stretch of calls, from whenever
    up to now, has had more than it may: its share, and what was saved before it.
    """

    @initialize(
        extra=st.sampled_from([0.05, 0.07, 0.3, 1 / 3, 0.5, 1.0, 1e-3]),
        span=st.integers(0, 12),
    )
    def open(self, extra: float, span: int) -> None:
        self.budget = HedgeBudget(extra, span)
        self.share = Fraction(extra)
        self.savings = max(Fraction(1), span * self.share)
        self.history: list[bool] = []  # True is a call, False its second attempt

    def permitted(self) -> bool:
        """Whether one more second attempt breaks the promise nowhere."""
        for start in range(len(self.history) + 1):
            stretch = self.history[start:]
            calls, seconds = stretch.count(True), stretch.count(False)
            before = self.savings if start else 0
            if seconds + 1 > self.share * calls + before:
                return False
        return True

    @rule(times=st.integers(1, 25))
    def call(self, times: int) -> None:
        for _ in range(times):
            self.budget.called()
            self.history.append(True)

    @rule()
    def take(self) -> None:
        may = self.permitted()
        assert self.budget.take() is may
        if may:
            self.history.append(False)

    @invariant()
    def never_more_than_its_share_of_all_calls(self) -> None:
        seconds = self.history.count(False)
        assert seconds <= self.share * self.history.count(True)


TestBudget = BudgetMachine.TestCase


def test_one_in_twenty_and_not_one_sooner() -> None:
    budget = HedgeBudget(0.05)
    taken = []
    for call in range(1, 101):
        budget.called()
        if budget.take():
            taken.append(call)
    assert taken == [20, 40, 60, 80, 100]


def test_good_days_do_not_pay_for_a_bad_one() -> None:
    budget = HedgeBudget(0.05)
    for _ in range(1_000_000):
        budget.called()
    assert [budget.take() for _ in range(6)] == [True] * 5 + [False]


def test_a_small_share_still_buys_one() -> None:
    budget = HedgeBudget(0.001)
    for _ in range(999):
        budget.called()
    assert not budget.take()
    budget.called()
    assert budget.take()


@pytest.mark.parametrize("extra", [0, -0.1, 1.01, float("nan")])
def test_a_share_is_more_than_nothing_and_not_more_than_all(extra: float) -> None:
    with pytest.raises(ValueError, match="more than 0 and at most 1"):
        HedgeBudget(extra)
    with pytest.raises(ValueError, match="more than 0 and at most 1"):
        HedgingRules(extra_calls=extra)


# Rules


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"replicas": (("a",),)}, r"two or more different servers, got \[a\]"),
        ({"replicas": ((),)}, r"two or more different servers, got \[\]"),
        ({"replicas": (("a", "a"),)}, "two or more different"),
        ({"replicas": (("a", "b", "a"),)}, "two or more different"),
        ({"replicas": (("a", "b"), ("c", "b"))}, "'b' is in two lists"),
        ({"min_samples": 0}, "must be 1 to 100"),
        ({"min_samples": 101}, "must be 1 to 100"),
        ({"enabled": True}, "enabled, but replicas names no servers"),
    ],
)
def test_what_does_not_fit_is_said(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        HedgingRules(**fields)


def test_partners_are_the_others_of_the_list_if_it_is_on() -> None:
    lists = (("a", "b", "c"), ("x", "y"))
    rules = HedgingRules(enabled=True, replicas=lists)
    assert list(rules.partners("b")) == ["a", "c"]
    assert list(rules.partners("x")) == ["y"]
    assert list(rules.partners("z")) == []
    assert list(HedgingRules(replicas=lists).partners("b")) == []
    assert list(NO_HEDGING.partners("b")) == []


# Who may stand in


SCHEMA = {"type": "object", "properties": {"x": {"type": "integer", "minimum": 1}}}


def tool(group: str, *, blocking: bool = False, **definition: Any) -> Tool:
    async def handler(*_: Any) -> ToolResult:
        return ToolResult()

    fields: dict[str, Any] = {"name": "look", "parameters": SCHEMA, "read_only": True}
    fields |= definition
    made = ToolDefinition(group=group, **fields)
    return Tool(definition=made, handler=handler, blocking=blocking)


def test_the_same_name_and_schema_however_they_are_written() -> None:
    other = {
        "properties": {"x": {"minimum": 1.0, "type": "integer"}},
        "type": "object",
    }
    assert may_stand_in(tool("b", parameters=other, description="Else."), tool("a"))


@pytest.mark.parametrize(
    "other",
    [
        tool("b", name="peek"),
        tool("b", parameters={**SCHEMA, "required": ["x"]}),
        tool("b", parameters={**SCHEMA, "minimum": True}),
        tool("b", parameters={**SCHEMA, "odd": object()}),
        tool("b", read_only=False),
        tool("b", read_only=False, idempotent=True),
        tool("b", blocking=True),
    ],
)
def test_another_tool_does_not_stand_in(other: Tool) -> None:
    assert not may_stand_in(other, tool("a"))


@pytest.mark.parametrize(
    ("asked", "may"),
    [
        (tool("a"), True),
        (tool("a", idempotent=True), True),
        # D12: at another server it is another write.
        (tool("a", read_only=False, idempotent=True), False),
        (tool("a", read_only=False), False),
        (tool("a", blocking=True), False),
    ],
)
def test_only_what_changes_nothing_and_stops_is_asked_twice(
    asked: Tool, may: bool
) -> None:
    assert hedgeable(asked) is may
