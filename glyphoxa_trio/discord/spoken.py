"""The spoken commands of a game master: "game master, mute Bartok".

They begin with the words "game master", or "dungeon master", so that nothing else that
is said is one. A recognizer writes as it likes: case and punctuation do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from glyphoxa_trio.tools.tier import Tier

from .directing import ChannelDirecting

ELEVATION: Final = 60.0  # seconds
_CALLED: Final = re.compile(r"^\W*(?:game|dungeon) ?master\W+(.+)$", re.IGNORECASE)
_WORD: Final = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


def command_in(text: str) -> str | None:
    """Return the command in what was said, without the words that call for it; None if
    it is none."""
    found = _CALLED.match(text)
    return None if found is None else " ".join(_WORD.findall(found[1])) or None


async def obey(
    directing: ChannelDirecting, command: str, game_master: int, npcs: Sequence[str]
) -> str:
    """Do what was said; return the line that says so, or that it was not understood.

    Raises:
      GlyphoxaError: as the command does.
    """
    verb, _, rest = command.casefold().partition(" ")
    npc = _npc_in(rest, npcs)
    tier = next((tier for tier in Tier if str(tier) in rest.split()), None)
    match verb:
        case "mute" | "silence" if npc:
            return await directing.mute(npc)
        case "unmute" if npc:
            return await directing.unmute(npc)
        case "puppet":
            return await directing.puppet(npc)
        case "elevate" if npc:
            return await directing.elevate(npc, tier or Tier.DEEP, ELEVATION)
        case "override" if tier is not None:
            return directing.override(game_master, tier)
        case "scene":
            return await directing.tell(command[len(verb) :].strip())
        case "stop" | "interrupt" | "silence":
            return await directing.interrupt()
        case "approve" | "allow":
            return await directing.approve(True)
        case "refuse" | "deny":
            return await directing.approve(False)
        case _:
            return f"I do not know the command {command!r}."


def _npc_in(words: str, npcs: Sequence[str]) -> str | None:
    """Return the NPC whose name, or the first word of it, is among the words."""
    said = words.split()
    for npc in npcs:
        if npc.casefold() in words or npc.casefold().split()[0] in said:
            return npc
    return None
