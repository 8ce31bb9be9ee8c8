"""The one rule for calls that no model has asked for.

These are probes at a start, a connect and a reload, calls that speculation starts
before a player has finished speaking, the second call of a hedge, and the repetition of
a call whose answer was lost. A tool is called like that only if an NPC was granted it
and it was approved for that NPC. A server's hints are its own claims, so they alone are
not enough: they count for granted and approved tools only.

A tool that the operator or the embedder names (`glyphoxa calibrate TOOL`,
`ToolHost.calibrate(keys=...)`) has been asked for, so the rule does not apply.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from .definition import ToolDefinition
from .gate import Grant


class Purpose(StrEnum):
    """The purpose of a call that no model has asked for."""

    PROBE = "probe"  # to measure it
    SPECULATION = "speculation"  # a turn may ask for it when the player has finished
    HEDGE = "hedge"  # another server's tool is slow to answer the same question
    RETRY = "retry"  # it was asked for, and the answer was lost


def unasked(
    definition: ToolDefinition,
    purpose: Purpose,
    grants: Iterable[Grant] = (),
    *,
    exposed: str = "",
    agreed: bool = False,
) -> str | None:
    """Return why the tool may not be called for ``purpose``; None if it may.

    Args:
      grants: those on whose behalf it would be called. One that covers and approves
        the tool is enough. Ignored for a retry, whose first call was admitted.
      exposed: the name that models see, which grants may use.
      agreed: a person approved the tool as it is, for all NPCs.
    """
    if purpose is Purpose.RETRY:
        if definition.repeatable:
            return None
        return "a second call may do its work twice"
    if purpose is Purpose.PROBE and definition.probe is not None:
        return None  # the operator has configured the arguments to call it with
    if not definition.read_only:
        return "it may change something"
    if purpose is Purpose.PROBE and definition.open_world:
        return "it may reach beyond this machine"
    if not any(
        grant.covers(definition, exposed)
        and (agreed or grant.approves(definition, exposed))
        for grant in grants
    ):
        return "no NPC is granted it and approved for it"
    return None


def harmless(definition: ToolDefinition) -> bool:
    """Return True if it may be called without asking an operator: it only reads, and
    only local data."""
    return definition.read_only and not definition.open_world


def measured_unnamed(definition: ToolDefinition) -> bool:
    """Return True if a request to measure without naming tools includes this one: it is
    harmless, or the operator has configured arguments to call it with."""
    return harmless(definition) or definition.probe is not None
