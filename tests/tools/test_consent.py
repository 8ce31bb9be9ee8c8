"""`unasked`: what may be called although no model has asked for it. D9, D12; G21."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.tools.consent import Purpose, harmless, unasked
from glyphoxa_trio.tools.definition import ToolDefinition
from glyphoxa_trio.tools.gate import Grant, TrustMode

OFFERED = Grant(npc="Stan", tools=("notes.read",))  # named in full: approved
PATTERN = Grant(npc="Stan", tools=("notes.*",))  # granted, and approved by nobody
TRUSTED = Grant(npc="Stan", tools=("notes",), trust=TrustMode.FULL)
OTHER = Grant(npc="Bo", tools=("dice",))


def read(**fields: Any) -> ToolDefinition:
    given: dict[str, Any] = {"read_only": True, "external": True}
    return ToolDefinition(name="read", group="notes", **(given | fields))


@pytest.mark.parametrize(
    ("definition", "grants", "why_not"),
    [
        (read(), [OFFERED], ""),
        (read(), [OTHER, TRUSTED], ""),
        (read(external=False), [PATTERN], ""),  # ours need no approval
        (read(), [], "no NPC is granted it"),
        (read(), [OTHER], "no NPC is granted it"),
        (read(), [PATTERN], "no NPC is granted it and approved for it"),
        (read(open_world=True), [TRUSTED], "reach beyond"),
        (read(read_only=False), [TRUSTED], "may change something"),
        # An idempotent write overwrites a file as well as any other.
        (read(read_only=False, idempotent=True), [TRUSTED], "may change something"),
        # The operator wrote down what to call it with.
        (read(read_only=False, open_world=True, probe={}), [], ""),
    ],
)
def test_a_probe_needs_a_reader_that_was_granted_and_approved(
    definition: ToolDefinition, grants: list[Grant], why_not: str
) -> None:  # G21
    no = unasked(definition, Purpose.PROBE, grants, exposed="mcp__notes__read")
    assert (why_not in no) if no else not why_not


@pytest.mark.parametrize("purpose", [Purpose.SPECULATION, Purpose.HEDGE])
def test_speculation_and_hedges_may_ask_the_open_world_and_nothing_that_writes(
    purpose: Purpose,
) -> None:
    assert unasked(read(open_world=True), purpose, [TRUSTED]) is None
    assert unasked(read(), purpose, [PATTERN])
    assert unasked(read(read_only=False, idempotent=True), purpose, [TRUSTED])
    assert unasked(read(read_only=False, probe={}), purpose, [TRUSTED])


def test_a_lost_answer_is_asked_for_again_if_that_does_no_more() -> None:  # D12
    assert unasked(read(), Purpose.RETRY) is None
    assert unasked(read(read_only=False, idempotent=True), Purpose.RETRY) is None
    assert unasked(read(read_only=False), Purpose.RETRY)


@given(
    *itertools.repeat(st.booleans(), 4),
    st.sampled_from(Purpose),
    st.lists(st.sampled_from([OFFERED, PATTERN, TRUSTED, OTHER])),
)
def test_nothing_that_writes_is_called_without_the_operators_word(
    reads: bool,
    reaches_out: bool,
    destroys: bool,
    external: bool,
    purpose: Purpose,
    grants: list[Grant],
) -> None:
    definition = read(
        read_only=reads,
        open_world=reaches_out,
        destructive=destroys,
        external=external,
    )
    if unasked(definition, purpose, grants) is None:
        assert reads
        assert harmless(definition) or purpose is not Purpose.PROBE
        if purpose is not Purpose.RETRY:
            assert any(grant.covers(definition, "") for grant in grants)
