"""Plain values become results, and outcomes say how a call ended (D6, D18)."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.tools.outcome import (
    Effect,
    Limit,
    Outcome,
    Status,
    ToolCall,
    ToolResult,
)


def test_text_stays_text_and_nothing_is_nothing() -> None:
    assert ToolResult.of("Rain.") == ToolResult(text=("Rain.",))
    assert ToolResult.of("") == ToolResult(text=("",))
    assert ToolResult.of(None) == ToolResult()


@pytest.mark.parametrize("value", [0, False, 2.5, [], {}, {"a": [1, None]}])
def test_any_other_value_is_structured_content(value: Any) -> None:
    assert ToolResult.of(value) == ToolResult(structured=value)


def test_a_result_is_taken_as_it_is() -> None:
    refusal = ToolResult(text=("No.",), is_error=True)
    assert ToolResult.of(refusal) is refusal


@pytest.mark.parametrize("value", [object(), {1, 2}, b"x", {"a": object()}])
def test_a_value_that_is_not_json_fails_in_the_tools_own_call(value: object) -> None:
    with pytest.raises(TypeError):
        ToolResult.of(value)


@given(st.sampled_from(Status))
def test_only_ok_is_ok(status: Status) -> None:
    outcome = Outcome(call=ToolCall("1", "roll"), tool="dice.roll", status=status)
    assert outcome.ok == (status is Status.OK)


def test_the_words_of_an_outcome_are_those_of_the_decisions() -> None:  # D6
    assert [str(status) for status in Status] == [
        "ok",
        "tool_error",
        "invalid_arguments",
        "timeout",
        "cancelled",
        "denied",
        "skipped",
        "unavailable",
        "crashed",
        "pending",
    ]
    assert [str(effect) for effect in Effect] == ["none", "done", "unknown"]
    assert [str(limit) for limit in Limit] == ["tool", "server", "turn", "host"]


def test_an_outcome_promises_nothing_by_default() -> None:
    outcome = Outcome(call=ToolCall("1", "x"), tool=None, status=Status.DENIED)
    assert outcome.effect is Effect.NONE
    assert (outcome.message, outcome.data, outcome.limit) == ("", None, None)
    assert (outcome.elapsed, outcome.cached, outcome.shared) == (0.0, False, False)


def test_calls_results_and_outcomes_do_not_change() -> None:
    call = ToolCall("1", "roll")
    assert call.arguments == "{}"
    for frozen in (call, ToolResult(), Outcome(call=call, tool=None, status=Status.OK)):
        field = attrs.fields(type(frozen))[0].name
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(frozen, field, "other")
