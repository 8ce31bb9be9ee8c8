"""The tools that an NPC may use, called through the host as the NPC calls them.

The gate, the budget, the approvals and the breakers are those of its turns: what is
refused to the NPC is refused to the client, with the same words.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import partial
from itertools import count
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.host.executor import Caller
from glyphoxa_trio.runtime import Runtime
from glyphoxa_trio.tools.definition import CallContext, Tool
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.outcome import Outcome, ToolCall, ToolResult
from glyphoxa_trio.tools.tier import Tier

from .scope import ServedNpcs

_IDS: Final = count(1)


def granted_tools(
    scope: ServedNpcs, taken: Collection[str]
) -> tuple[list[Tool], list[str]]:
    """Return the tools that the one NPC of ``scope`` may use, and those left out.

    Args:
      taken: names of other tools; the NPC's tools of such a name are left out.
    """
    runtime = scope.runtime
    npc = runtime.npc(scope.npcs[0])
    tier = npc.config.budget_tier
    found, left_out = [], []
    for entry in runtime.host.snapshot.listings:
        if not npc.grant.covers(entry.definition, entry.exposed):
            continue
        if entry.exposed in taken:
            left_out.append(entry.exposed)
            continue
        definition = attrs.evolve(
            entry.definition,
            name=entry.exposed,
            max_duration=runtime.host.settings.limits.ceiling(tier),
            server_timeout=None,
        )
        handler = partial(_call, runtime, entry.key, npc.grant, scope.session, tier)
        found.append(Tool(definition=definition, handler=handler))
    return found, left_out


async def _call(
    runtime: Runtime,
    key: str,
    grant: Grant,
    session: str,
    tier: Tier,
    arguments: Mapping[str, Any],
    context: CallContext,
) -> ToolResult:
    return await call_tool(runtime, key, arguments, grant, session, tier)


async def call_tool(
    runtime: Runtime,
    key: str,
    arguments: Mapping[str, Any],
    grant: Grant,
    session: str,
    tier: Tier,
) -> ToolResult:
    """Call a tool under a grant, within the ceiling of a tier; refusals are answers.

    Cancelling it cancels the call, by the tool's policy.
    """
    host = runtime.host
    ceiling = host.settings.limits.ceiling(tier)
    call = ToolCall(f"mcp-{next(_IDS)}", key, json.dumps(arguments))
    caller = Caller(grant=grant, tier=tier, npc=grant.npc, session=session)
    (end,) = await host.fan_out(
        [call], caller, deadline=trio.current_time() + ceiling, remaining=ceiling
    )
    return result_of(end)


def result_of(end: Outcome) -> ToolResult:
    """Return an outcome as the answer to a client."""
    if not end.ok:
        said = end.message or end.status.value
        error = {"code": end.status.value, "message": said}
        return ToolResult(text=(said,), structured={"error": error}, is_error=True)
    if isinstance(end.data, str):
        return ToolResult(text=(end.data,), media=end.media)
    text = (end.message,) if end.data is None and end.message else ()
    return ToolResult(text=text, structured=end.data, media=end.media)
