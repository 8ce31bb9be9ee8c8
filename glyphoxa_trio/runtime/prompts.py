"""The prompts of servers, for those NPCs whose configuration grants them.

Listing prompts asks no server: each was asked when it connected. A prompt is filled in,
and its arguments completed, only if it is granted to the NPC that it is for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.mcp import FilledPrompt, ServerPool, ServerPrompt, ServerStatus
from glyphoxa_trio.mcp.prompts import (
    COMPLETE,
    GET,
    completion_of,
    filled,
    suggested,
)
from glyphoxa_trio.tools.naming import nearest

from .grants import covers_prompt

LONGEST: Final = 10_000  # characters of an argument


class PromptRefused(GlyphoxaError):
    """A prompt does not exist, is not granted, or its arguments are wrong."""


def offered(servers: Iterable[ServerStatus]) -> tuple[ServerPrompt, ...]:
    """Return the prompts of all servers."""
    return tuple(prompt for row in servers for prompt in row.prompts)


def is_granted(npc: NpcConfig, prompt: ServerPrompt) -> bool:
    """Return whether the NPC's ``prompts`` grant a prompt."""
    return any(covers_prompt(name, prompt) for name in npc.prompts)


def found(npc: NpcConfig, servers: Iterable[ServerStatus], name: str) -> ServerPrompt:
    """Return the granted prompt of that key, or of that name if only one has it.

    Raises:
      PromptRefused: if there is none, or it is not granted.
    """
    every = offered(servers)
    named = [x for x in every if x.key == name] or [x for x in every if x.name == name]
    granted = [x for x in named if is_granted(npc, x)]
    if len(granted) == 1:
        return granted[0]
    if granted:
        keys = ", ".join(x.key for x in granted)
        raise PromptRefused(f"the prompt {name!r} may be one of {keys}: name one")
    if named:
        raise PromptRefused(
            f"the prompt {named[0].key} is not granted to {npc.name}: add it to the"
            " NPC's prompts in the configuration"
        )
    there = [x.key for x in every if is_granted(npc, x)]
    near = ", ".join(nearest(name, there) or there) or "none"
    raise PromptRefused(f"there is no prompt {name!r}; granted to {npc.name}: {near}")


async def fill(
    pool: ServerPool,
    prompt: ServerPrompt,
    arguments: Mapping[str, str],
    *,
    within: float,
) -> FilledPrompt:
    """Have a server fill in one of its prompts.

    Raises:
      PromptRefused: for an argument that is missing, unknown or too long.
      GlyphoxaError: as `ServerPool.ask`.
    """
    _check(prompt, arguments)
    missing = [x.name for x in prompt.arguments if x.required]
    missing = [name for name in missing if name not in arguments]
    if missing:
        words = ", ".join(missing)
        raise PromptRefused(f"the prompt {prompt.key} needs a value of: {words}")
    params = {"name": prompt.name, "arguments": dict(arguments)}
    answer = await pool.ask(prompt.server, GET, params, within=within)
    return filled(prompt, answer)


async def suggestions(
    pool: ServerPool,
    prompt: ServerPrompt,
    argument: str,
    beginning: str,
    given: Mapping[str, str],
    *,
    within: float,
) -> tuple[str, ...]:
    """Return the values that a server suggests for an argument that begins so.

    Raises:
      PromptRefused: for an argument that the prompt does not have.
      GlyphoxaError: as `ServerPool.ask`; also from a server that completes nothing.
    """
    _check(prompt, {**given, argument: beginning})
    params = completion_of(prompt, argument, beginning, given)
    return suggested(await pool.ask(prompt.server, COMPLETE, params, within=within))


def _check(prompt: ServerPrompt, arguments: Mapping[str, str]) -> None:
    """Raise for arguments that the prompt does not have, or that are too long."""
    known = [x.name for x in prompt.arguments]
    for name, value in arguments.items():
        if not isinstance(value, str):
            kind = type(value).__name__
            raise TypeError(f"the argument {name!r} must be a text, not {kind}")
        if name not in known:
            near = ", ".join(nearest(name, known) or known) or "none"
            raise PromptRefused(
                f"the prompt {prompt.key} has no argument {name!r}, it has {near}"
            )
        if len(value) > LONGEST:
            raise PromptRefused(
                f"the argument {name!r} of {prompt.key} has more than {LONGEST}"
                " characters: shorten it"
            )
