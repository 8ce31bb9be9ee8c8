"""Each way in which a call ends, as an `Outcome` (D6): pure, no clock."""

from __future__ import annotations

from typing import Any

import outcome
import pytest

from glyphoxa_trio.actors import SharedTaskCancelled
from glyphoxa_trio.errors import ActorGone
from glyphoxa_trio.host import call_outcome
from glyphoxa_trio.host.call_outcome import PendingCall
from glyphoxa_trio.host.catalogue import CatalogueEntry
from glyphoxa_trio.tools.definition import (
    ConnectionLost,
    ToolError,
    ToolUnavailable,
)
from glyphoxa_trio.tools.estimate import Estimate, EstimateSource
from glyphoxa_trio.tools.gate import Reason, Refusal
from glyphoxa_trio.tools.outcome import (
    Effect,
    Limit,
    Outcome,
    Status,
    ToolCall,
    ToolResult,
)
from glyphoxa_trio.tools.schema import ArgumentSchema
from glyphoxa_trio.tools.tier import Tier

from .fakes import Bug, fake

NOTHING = Estimate(
    seconds=0.01,
    tier=Tier.FAST,
    source=EstimateSource.DECLARED,
    p50=None,
    p99=None,
    samples=0,
    degraded=None,
    tier_by_number=None,
)
CALL = ToolCall("c1", "act")


def slot(
    *, was_started: bool = True, begun: float | None = 1.0, **definition: Any
) -> PendingCall:
    tool = fake("act", **definition)
    schema = ArgumentSchema(tool.definition.parameters)
    listing = CatalogueEntry(tool=tool, exposed="act", estimate=NOTHING, schema=schema)
    return PendingCall(0, CALL, listing=listing, begun=begun, was_started=was_started)


def end(status: Status, **rest: Any) -> Outcome:
    expected: dict[str, Any] = {"call": CALL, "tool": "fake.act", "elapsed": 0.5}
    return Outcome(status=status, **expected | rest)


def test_a_call_that_was_stopped_says_so() -> None:
    """Found: the tool's key was all that the model read."""
    said = call_outcome.to_outcome(
        slot(), outcome.Error(SharedTaskCancelled("fake.act")), 1.5
    )
    text = "act was stopped before it had answered"
    assert said == end(Status.UNAVAILABLE, message=text, effect=Effect.UNKNOWN)


def test_an_answer_is_what_the_tool_said() -> None:
    result = ToolResult(text=("It is open.",), structured={"open": True})
    assert call_outcome.answered(slot(), result, 1.5) == end(
        Status.OK,
        effect=Effect.DONE,
        message="It is open.",
        data={"text": "It is open.", "structured": {"open": True}},
    )


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("is_error", [False, True])
@pytest.mark.parametrize("read_only", [False, True])
def test_only_a_write_that_was_made_is_done(
    read_only: bool, is_error: bool, cached: bool
) -> None:
    result = ToolResult(text=("so",), is_error=is_error)
    said = call_outcome.answered(slot(read_only=read_only), result, 1.5, cached=cached)
    done = not (read_only or is_error or cached)
    assert said.effect is (Effect.DONE if done else Effect.NONE)
    assert said.status is (Status.TOOL_ERROR if is_error else Status.OK)
    assert (said.cached, said.shared) == (cached, False)


@pytest.mark.parametrize(
    ("error", "status", "effect"),
    [
        (ToolError("no"), Status.TOOL_ERROR, Effect.NONE),
        (ToolUnavailable("no"), Status.UNAVAILABLE, Effect.NONE),  # never sent
        (ConnectionLost("no"), Status.UNAVAILABLE, Effect.UNKNOWN),  # sent
        (ActorGone("no"), Status.UNAVAILABLE, Effect.UNKNOWN),
        (Bug("no"), Status.CRASHED, Effect.UNKNOWN),
        (ExceptionGroup("no", [Bug()]), Status.CRASHED, Effect.UNKNOWN),
    ],
)
def test_errors_have_their_status(
    error: Exception, status: Status, effect: Effect
) -> None:
    said = call_outcome.to_outcome(slot(), outcome.Error(error), 1.5)
    assert (said.status, said.effect, said.elapsed) == (status, effect, 0.5)
    assert "no" in said.message


def test_a_bug_is_told_by_name_and_cut_short() -> None:
    said = call_outcome.to_outcome(slot(), outcome.Error(Bug("x" * 9999)), 1.5)
    assert said.message.startswith("Bug: xxx")
    assert len(said.message) == 500


def test_a_plain_value_is_a_result() -> None:
    said = call_outcome.to_outcome(
        slot(), outcome.Value({"rolls": [4]}), 1.5, shared=True
    )
    assert (said.status, said.data, said.shared) == (Status.OK, {"rolls": [4]}, True)


@pytest.mark.parametrize(
    ("server", "own", "limit"),
    [
        (None, 2.0, Limit.TOOL),
        (2.0, None, Limit.SERVER),
        (1.0, 2.0, Limit.SERVER),
        (2.0, 1.0, Limit.TOOL),
    ],
)
def test_an_own_limit_is_the_earlier_of_two(
    server: float | None, own: float | None, limit: Limit
) -> None:
    late = slot(server_timeout=server, max_duration=own)
    assert call_outcome.timed_out(late, 1.5).limit is limit


def test_a_timeout_tells_how_long_it_waited_and_for_whose_limit() -> None:
    assert call_outcome.timed_out(slot(), 1.5, limit=Limit.TURN) == end(
        Status.TIMEOUT,
        effect=Effect.UNKNOWN,
        limit=Limit.TURN,
        message="no answer after 500 ms, the turn's tool time was reached",
    )


def test_a_cut_call_is_a_timeout_or_was_never_made() -> None:
    assert call_outcome.cut(slot(), 1.5).status is Status.TIMEOUT
    assert call_outcome.cut(slot(was_started=False, begun=None), 1.5) == end(
        Status.SKIPPED,
        limit=Limit.TURN,
        message="the turn's tool time ended before this call could begin",
        elapsed=0.0,
    )


@pytest.mark.parametrize("goes_on", [False, True])
def test_an_interrupted_call_says_whether_it_goes_on(goes_on: bool) -> None:
    stopped = slot()
    stopped.goes_on = goes_on
    assert call_outcome.interrupted(stopped, 1.5) == end(
        Status.CANCELLED,
        effect=Effect.UNKNOWN,
        message="interrupted; it goes on by itself" if goes_on else "interrupted",
    )


@pytest.mark.parametrize("was_started", [False, True])
@pytest.mark.parametrize("read_only", [False, True])
def test_only_a_write_that_flew_has_an_unknown_effect(
    was_started: bool, read_only: bool
) -> None:
    said = call_outcome.interrupted(
        slot(was_started=was_started, read_only=read_only), 1.5
    )
    assert (said.effect is Effect.UNKNOWN) is (was_started and not read_only)


def test_a_refusal_and_a_mistake_are_told_as_they_are() -> None:
    no = Refusal(reason=Reason.OVER_BUDGET, text="needs about 800 ms, 120 ms left")
    assert call_outcome.refused(PendingCall(0, CALL), no, 1.5) == end(
        Status.SKIPPED, tool=None, message=no.text, elapsed=0.0
    )
    assert call_outcome.invalid(slot(was_started=False), "$: missing x", 1.5) == end(
        Status.INVALID_ARGUMENTS, message="$: missing x"
    )


def test_a_call_of_nothing_has_no_effect_that_could_be_unknown() -> None:
    assert (
        call_outcome.interrupted(PendingCall(0, CALL, was_started=True), 1.5).effect
        is Effect.NONE
    )
