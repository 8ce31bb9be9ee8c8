"""What a definition refuses, and what follows from what it says (G20, D1, D12a)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.tools.definition import (
    CallContext,
    ConnectionLost,
    OnInterrupt,
    Tool,
    ToolDefinition,
    ToolError,
    ToolUnavailable,
)
from glyphoxa_trio.tools.outcome import ToolResult
from glyphoxa_trio.tools.tier import Tier


def defined(**fields: Any) -> ToolDefinition:
    return ToolDefinition(**{"name": "roll", "group": "dice", **fields})


def test_the_key_is_group_and_name() -> None:  # D13
    assert defined().key == "dice.roll"
    assert ToolDefinition(name="roll").key == "custom.roll"


def test_nothing_is_claimed_that_was_not_said() -> None:
    plain = defined()
    assert plain.parameters == {"type": "object", "properties": {}}
    assert plain.estimated_duration is None  # D1: nothing unproven is FAST
    assert plain.min_tier is Tier.FAST
    assert plain.side_effects
    assert not plain.repeatable
    assert not plain.external
    assert plain.own_limit == float("inf")


def test_two_definitions_do_not_share_their_parameters() -> None:
    assert defined().parameters is not defined().parameters


@pytest.mark.parametrize(
    "field", ["estimated_duration", "max_duration", "server_timeout"]
)
@pytest.mark.parametrize("value", [0, -1.0, float("inf"), float("nan")])
def test_a_duration_is_positive_and_finite(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"dice\.roll: {field}"):
        defined(**{field: value})


@pytest.mark.parametrize("group", ["my tools!", "a*", "ä", "x" * 65, " dice", "a\n"])
def test_a_group_that_no_grant_could_name_is_refused(group: str) -> None:
    with pytest.raises(ValueError, match="letters, digits, _ or -"):
        defined(group=group)


@pytest.mark.parametrize("fields", [{"name": ""}, {"group": ""}])
def test_a_tool_without_a_name_or_group_is_refused(fields: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="a name and a group"):
        defined(**fields)


@pytest.mark.parametrize("value", [-1, float("inf"), float("nan")])
def test_a_result_stays_good_for_a_finite_time(value: float) -> None:
    with pytest.raises(ValueError, match=r"dice\.roll: cacheable"):
        defined(cacheable=value, read_only=True)


def test_only_what_changes_nothing_twice_may_be_cached() -> None:  # D11
    with pytest.raises(ValueError, match="neither read-only nor idempotent"):
        defined(cacheable=60)
    assert defined(cacheable=60, read_only=True).cacheable == 60
    assert defined(cacheable=60, idempotent=True).cacheable == 60


@pytest.mark.parametrize("parameters", [{}, {"type": "string"}, {"properties": {}}])
def test_parameters_are_the_schema_of_an_object(parameters: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="schema of an object"):
        defined(parameters=parameters)


def test_reading_has_no_side_effects_and_idempotence_alone_has() -> None:
    reading, repeatable = defined(read_only=True), defined(idempotent=True)
    assert (reading.side_effects, reading.repeatable) == (False, True)
    assert (repeatable.side_effects, repeatable.repeatable) == (True, True)


def test_an_interruption_cancels_reading_and_lets_writing_finish() -> None:  # D12a
    assert defined(read_only=True).interruption is OnInterrupt.CANCEL
    assert defined().interruption is OnInterrupt.FINISH_SILENTLY
    assert defined(idempotent=True).interruption is OnInterrupt.FINISH_SILENTLY


@pytest.mark.parametrize("policy", OnInterrupt)
@pytest.mark.parametrize("read_only", [True, False])
def test_a_stated_policy_wins(policy: OnInterrupt, read_only: bool) -> None:
    tool = defined(on_interrupt=policy, read_only=read_only)
    assert tool.interruption is policy


LIMITS = st.none() | st.floats(0.01, 60)


@given(LIMITS, LIMITS)
def test_the_earlier_limit_holds(tool: float | None, server: float | None) -> None:
    stated = [limit for limit in (tool, server) if limit is not None]
    definition = defined(max_duration=tool, server_timeout=server)
    assert definition.own_limit == min([*stated, float("inf")])


def test_errors_of_tools_are_answers_not_crashes() -> None:
    for kind in (ToolError, ToolUnavailable, ConnectionLost):
        assert issubclass(kind, GlyphoxaError)


def test_a_tool_without_a_function_cannot_be_called_plainly() -> None:
    tool = Tool(definition=defined(), handler=lambda arguments, context: ToolResult())
    assert tool.key == "dice.roll"
    with pytest.raises(TypeError, match=r"dice\.roll was not made from a function"):
        tool()


def test_a_context_has_no_deadline_unless_given_one() -> None:
    assert CallContext().deadline == float("inf")
