"""May a tool be called although no model has asked for it? One rule for all of that.

Nothing is called unasked that nobody granted and approved. Unasked are the probes at a
start, a connect and a reload, the calls that speculation begins before a player has
finished, the second call of a hedge, and the repetition of a call whose answer was
lost. A server's hints are only what it says of itself, so they open no door by
themselves: they count for tools that an NPC was granted and that were approved for it.

What the operator or the embedder asks for by name (`glyphoxa calibrate TOOL`,
`ToolHost.calibrate(keys=...)`) is not unasked.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from .definition import ToolDefinition
from .gate import Grant


class Purpose(StrEnum):
    """Why a tool would be called without being asked for."""

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
    """Why the tool may not be called for ``purpose``, in words; None if it may.

    Args:
      grants: those on whose behalf it would be called. One that covers and approves
        the tool is enough. Not looked at for a retry, whose first call was admitted.
      exposed: the name that models see, which grants may use.
      agreed: a person approved the tool as it is, for all.
    """
    if purpose is Purpose.RETRY:
        if definition.repeatable:
            return None
        return "a second call may do its work twice"
    if purpose is Purpose.PROBE and definition.probe is not None:
        return None  # the operator wrote down what to call it with
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
    """True if an operator need not be asked before it is called: it only reads, and
    only what is here."""
    return definition.read_only and not definition.open_world


def measured_unnamed(definition: ToolDefinition) -> bool:
    """True if a person who asks to measure, and names no tool, means this one as well:
    it is harmless, or the operator wrote down what to call it with."""
    return harmless(definition) or definition.probe is not None
