"""The tools that each NPC can use, and warnings for an operator about the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from glyphoxa_trio.config import Config, NpcConfig
from glyphoxa_trio.config.mcp_json import MCP_JSON
from glyphoxa_trio.host import ToolHost
from glyphoxa_trio.tools.definition import ToolDefinition
from glyphoxa_trio.tools.remedies import Places
from glyphoxa_trio.tools.usability import Usability, Use, judge

from .grants import GrantProblem, HiddenToolProblem, Problem, grant_of, section_of

# A warning names at most so many tools, and counts the rest.
_NAMED: Final = 3


def usability_of(
    npcs: Iterable[NpcConfig],
    config: Config,
    host: ToolHost,
    *,
    approver: bool,
    builtin: Collection[str],
    granted: bool = True,
) -> Iterator[Usability]:
    """Yield a judgement of each tool that each of these NPCs is granted, or of all
    tools.

    Args:
      approver: True if a person can be asked about tools that are not approved.
      builtin: the keys of the tools that the configuration can change under ``tools``.
      granted: False adds the tools that the NPC is not granted.
    """
    candidates = host.candidates()
    for npc in npcs:
        grant = grant_of(npc, config, approver=approver)
        section = section_of(npc)
        trust = ("trust",) if npc.trust is None else (section, npc.name, "trust")
        for listing, candidate in candidates:
            definition = candidate.definition
            if granted and not grant.covers(definition, listing.exposed):
                continue
            yield judge(
                candidate,
                grant,
                npc.budget_tier,
                config.tiers,
                unknown=config.calibration.unknown,
                places=Places(
                    npcs=section,
                    trust=trust,
                    tool=_place(definition, config, builtin),
                ),
            )


def _place(
    definition: ToolDefinition, config: Config, builtin: Collection[str]
) -> tuple[str, ...] | None:
    """Return the keys under which a tool is configured; None if it is not configured.

    They are in the configuration, or in the ``.mcp.json``.
    """
    if not definition.external:
        return ("tools", definition.key) if definition.key in builtin else None
    server = definition.group
    if (below := config.mcp.from_mcp_json.get(server)) is not None:
        return MCP_JSON, below, server, "tools", definition.name
    if all(spec.name != server for spec in config.mcp.servers):
        return None  # `Runtime.add_server` added it
    return "mcp", "servers", server, "tools", definition.name


def hidden_tools(
    npcs: Iterable[NpcConfig], judged: Iterable[Usability]
) -> Iterator[HiddenToolProblem]:
    """Yield the tools that NPCs are not shown for now, and that come back by
    themselves. Those of a server that is not there are told with the server."""
    sections = {npc.name: section_of(npc) for npc in npcs}
    for one in judged:
        if one.use is Use.LATER and not one.server_absent:
            yield HiddenToolProblem(
                one.npc, one.tool, one.comes_back, sections[one.npc]
            )


def warnings_of(
    npcs: Iterable[NpcConfig],
    judged: Sequence[Usability],
    problems: Sequence[Problem],
) -> Iterator[str]:
    """Yield a warning for each NPC that cannot use any tool, or can never use some."""
    for npc in npcs:
        own = [x for x in judged if x.npc == npc.name]
        idle = [f"{x.tool}: {x.short}" for x in own if not x.usable]
        never = [f"{x.tool}: {x.short}" for x in own if x.use is Use.NEVER]
        # Granted names without a tool count too: the NPC may have no others.
        missing = [
            problem.text
            for problem in problems
            if problem.npc == npc.name and isinstance(problem, GrantProblem)
        ]
        if len(idle) == len(own) and (told := [*idle, *missing]):
            yield f"{npc.name} can use none of the tools it is granted: {_first(told)}"
        elif never:
            yield (
                f"{npc.name} can never use {len(never)} of the {len(own)} tools it is"
                f" granted: {_first(never)}"
            )


def _first(told: Sequence[str]) -> str:
    more = len(told) - _NAMED
    rest = f"; and {more} more, see glyphoxa tools --npc" if more > 0 else ""
    return "; ".join(told[:_NAMED]) + rest
