"""The one question of `play` at its start: which granted tools may be used at all.

A group or a glob grants tools but approves none. So the person at the terminal is
asked once, and sees what each tool says of itself; the answer is kept as `glyphoxa mcp
approve` keeps it, for as long as the tool stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import trio

from glyphoxa_trio.host import ChangedAgain, UnknownTool
from glyphoxa_trio.mcp import ServerWarning
from glyphoxa_trio.runtime import Runtime
from glyphoxa_trio.runtime.grants import Unapproved, may_need_approval
from glyphoxa_trio.runtime.looking import looked_at
from glyphoxa_trio.tools.characters import visible

from .choosing import choose, numbered
from .screen import Screen

PATIENCE: Final = 10.0  # seconds for servers to say what they offer, before asking
_NAMED: Final = 5
_LONGEST: Final = 1000  # characters of a description in a list


async def settle_approvals(runtime: Runtime, screen: Screen) -> None:
    """Ask about the tools that are granted and not approved, or say which those are."""
    if not may_need_approval(runtime.config):
        return
    if not screen.interactive:  # `play` has waited for its servers
        if waiting := runtime.unapproved():
            screen.warn(ServerWarning(server="approvals", text=unanswered(waiting)))
        return
    await runtime.wait_ready(within=PATIENCE, known=True)
    if not runtime.unapproved():
        return
    # Ask about the tools as servers offer them now, not as they were in an earlier run.
    await runtime.wait_ready(within=PATIENCE)
    waiting = runtime.unapproved()
    if waiting:
        await _ask(runtime, screen, waiting)


async def _ask(runtime: Runtime, screen: Screen, waiting: Sequence[Unapproved]) -> None:
    approvals = runtime.host.approvals
    prints = {one.key: approvals.fingerprint(one.key) for one in waiting}
    before = runtime.advice()
    screen.forget(before)
    screen.plain("NPCs are granted these tools, which are not approved yet:")
    for line in numbered([_whole(runtime, one) for one in waiting]):
        screen.plain(line)
    picked = await choose("approve them?", len(waiting), tell=screen.prompt)
    approved: list[str] = []
    for at in sorted(picked):
        key = waiting[at].key
        try:  # the tool that was shown, not what its server has made of it since
            runtime.host.approve(key, seen=prints[key])
        except (ChangedAgain, UnknownTool) as error:
            screen.refuse(str(error))
        else:
            approved.append(key)
    await trio.lowlevel.checkpoint()
    screen.forget({*before} - {*runtime.advice()})  # what has been answered
    if approved:
        screen.quiet(f"approved as they are now: {', '.join(approved)}")
    if len(approved) < len(waiting):
        screen.quiet("the others stay hidden; /approve TOOL approves one later")


def described(one: Unapproved) -> str:
    """A tool in a line: what it may do, and for whom it is."""
    return visible(f"{one.key}: {one.hints} (for {', '.join(one.npcs)})")


def _whole(runtime: Runtime, one: Unapproved) -> str:
    """A tool as models read of it, the server behind it, and what has changed."""
    found = looked_at(runtime, one.key)
    said = visible(str(found["description"]))
    lines = [described(one)]
    lines += said.split("\n") if len(said) <= _LONGEST else [f"{said[:_LONGEST]}…"]
    if found["server"]:
        lines.append(f"server: {visible(found['server'])}")
    if found["difference"]:
        lines.append("what has changed since it was approved:")
        lines += map(visible, found["difference"])
    schema = json.dumps(found["parameters"], ensure_ascii=False, default=dict)
    if visible(schema) != schema or len(said) > _LONGEST:
        lines.append(f"there is more to see: /approve {visible(one.key)}")
    return "\n".join(line for line in lines if line)


def unanswered(waiting: Sequence[Unapproved]) -> str:
    """Return the warning for a run without a terminal: which tools are hidden, and
    the command that approves them."""
    more = len(waiting) - _NAMED
    names = ", ".join(one.key for one in waiting[:_NAMED])
    return (
        f"granted, not approved, and so hidden: {names}"
        f"{f' and {more} more' if more > 0 else ''}; glyphoxa mcp approve TOOL --config"
        " CONFIG approves one, and so does its full name in an NPC's tools or in"
        " trust.allow_tools"
    )
