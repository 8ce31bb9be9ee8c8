"""Completions of a line that is typed in `play`: commands, names, tools. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import attrs

from glyphoxa_trio.tools.tier import Tier

from .commands import HELP

TIERS: Final = tuple(map(str, Tier))
_COMMAND: Final = re.compile(r"/(\w+)")
_BEFORE_NPC: Final = ("npc", "whisper", "as", "mute", "unmute", "puppet", "elevate")
_BEFORE_TIER: Final = ("tools", "dm", "tier", "elevate")


@attrs.frozen(kw_only=True)
class Completable:
    """The words that a line may need as things are now.

    Args:
      tools: those that can be approved.
      prompts: the names of their arguments, by key.
    """

    npcs: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    prompts: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)


@attrs.frozen
class Completion:
    """A text in place of the last ``replaced`` characters of the line."""

    text: str
    replaced: int
    note: str = ""


def commands() -> dict[str, str]:
    """Return each command with what it is for, as `HELP` says it."""
    found: dict[str, str] = {}
    for line in HELP.splitlines():
        usage, _, purpose = line.partition("  ")
        for verb in (*_COMMAND.findall(usage), *_COMMAND.findall(purpose)):
            found.setdefault(verb, purpose.strip())
    return found


def completions(line: str, known: Completable) -> list[Completion]:
    """Return what may follow the beginning of a line, without doubles."""
    return list(dict.fromkeys(_completions(line, known)))


def _completions(line: str, known: Completable) -> Iterator[Completion]:
    if line.startswith("@"):
        yield from _names(line[1:], known.npcs, end=" ")
        return
    if not line.startswith("/"):
        return
    verb, space, rest = line[1:].partition(" ")
    if not space:
        for command, purpose in commands().items():
            if command.startswith(verb):
                yield Completion(command, len(verb), purpose)
        return
    if verb in _BEFORE_NPC:
        end = " " if verb in ("whisper", "as", "elevate") else ""
        others = ("off",) if verb == "puppet" else ()
        yield from _names(rest, (*known.npcs, *others), end=end)
    if verb in _BEFORE_TIER:
        last = rest.rpartition(" ")[2]
        if last == rest or verb == "elevate":
            yield from _beginning(last, TIERS)
    if verb == "mcp":
        yield from _beginning(rest, known.servers)
    if verb == "prompt":
        name, space, rest = rest.partition(" ")
        if space:
            given = [word.partition("=")[0] for word in rest.split()]
            last = rest.rpartition(" ")[2]
            free = [x for x in known.prompts.get(name, ()) if x not in given]
            yield from _beginning(last, [f"{x}=" for x in free])
        else:
            yield from _beginning(name, known.prompts)
    if verb == "scene":
        yield from _beginning(rest, ("off",))
    if verb == "approve":
        tool, space, last = rest.partition(" ")
        if space:
            yield from _beginning(last, ("yes",))
        else:
            yield from _beginning(tool, known.tools)


def _names(typed: str, names: Iterable[str], *, end: str) -> Iterator[Completion]:
    """Names that begin as typed, or that have a word which does."""
    wanted = typed.casefold()
    for name in names:
        words = name.casefold().split()
        tails = (" ".join(words[at:]) for at in range(len(words)))
        if any(tail.startswith(wanted) for tail in tails):
            yield Completion(f"{name}{end}", len(typed))


def _beginning(typed: str, words: Iterable[str]) -> Iterator[Completion]:
    for word in words:
        if word.startswith(typed):
            yield Completion(word, len(typed))
