"""Which tools may be called although no model asked for it, in the plainest words.

This judges `glyphoxa_trio.tools.consent`, so it calls none of its code, and none that
reads a server's hints: it looks at what the server really listed. The word of the
operator counts, and that of the author of a tool in this process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from glyphoxa_trio.simulation.promises.fake_world import Performance
from glyphoxa_trio.simulation.promises.rights import GrantLedger
from glyphoxa_trio.tools.definition import ToolDefinition


@attrs.frozen
class Nature:
    """The effects that one run of a tool may have, as declared by trusted sources.

    Args:
      reads: it changes nothing.
      stays: it reaches nothing beyond this machine.
      twice_is_once: a second call does no more than the first, as the operator says, or
        the author of a tool in this process.
      probe: the operator configured arguments to measure it with.
    """

    reads: bool
    stays: bool
    twice_is_once: bool
    probe: bool


def nature(run: Performance, definition: ToolDefinition, ledger: GrantLedger) -> Nature:
    """The nature of a run, by the tool as it was when it ran."""
    if run.listed is None:  # in this process, where the author's word counts
        return Nature(
            reads=definition.read_only,
            stays=not definition.open_world,
            twice_is_once=definition.read_only or definition.idempotent,
            probe=definition.probe is not None,
        )
    hints = run.listed.get("annotations")
    hints = hints if isinstance(hints, Mapping) else {}
    words = ledger.overrides(run.key)

    def said(what: str) -> list[Any]:
        return [getattr(x, what) for x in words if getattr(x, what) is not None]

    reads = (
        hints.get("readOnlyHint") is True and hints.get("destructiveHint") is not True
    )
    stays = hints.get("openWorldHint") is False
    reads = any(said("read_only")) if said("read_only") else reads
    stays = not all(said("open_world")) if said("open_world") else stays
    return Nature(
        reads=reads,
        stays=stays,
        twice_is_once=reads or any(said("idempotent")),
        probe=bool(said("probe")),
    )


def why_not_unasked(
    what: Nature, *, granted: bool, probed: bool, ahead: bool
) -> str | None:
    """Return why a run without a call must not have happened; None if it may have.

    Args:
      granted: some NPC may use the tool without an approval.
      probed: tools are measured at a start.
      ahead: tools may be called before they are asked for, or a second time while the
        first call is slow.
    """
    if what.probe and probed:
        return None
    if not what.reads:
        return "may change something"
    if not granted:
        return "no NPC may use it without asking"
    if ahead or (probed and what.stays):
        return None
    return "may reach beyond this machine" if probed else "was not to be measured"
