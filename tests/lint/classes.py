"""Classes: each name once, none that changes too large, and messages as data."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from .importing import dotted
from .repository import Finding, Module, Repository

MOST_ATTRIBUTES: Final = 20

# Rooms that mirror each other, so that who knows one finds the way in the other: the
# runtime from asyncio; two vendors of text, and of speech; a vendor and the fake of it.
MIRRORS: Final = (
    {"aio", "actors", "npc", "runtime"},
    {"providers/anthropic", "providers/chat_completions"},
    {
        "providers/gemini_live",
        "providers/openai_realtime",
        "testing/gemini",
        "testing/realtime",
    },
    {"memory/in_memory", "memory/postgres", "memory/sqlite"},
    # What a model streams: one that writes, and one that speaks.
    {"providers/llm.py", "providers/s2s.py"},
)


def names_occur_once(repository: Repository) -> Iterator[Finding]:
    found = defaultdict[str, dict[str, tuple[Module, int]]](dict)
    for module, node in _classes(repository):
        found[node.name][module.place] = module, node.lineno
    for name, places in found.items():
        if len(places) > 1 and not _mirrored({*places}):
            for place, (module, line) in places.items():
                others = ", ".join(sorted(places.keys() - {place}))
                text = f"a class {name} is in {others} as well; give each its own name"
                yield module.wrong(line, text)


def classes_that_change_are_small(repository: Repository) -> Iterator[Finding]:
    for module, node in _classes(repository):
        size = len(_attributes(node))
        if size > MOST_ATTRIBUTES and not _is_frozen(node):
            text = (
                f"{node.name} changes and has {size} attributes, at most"
                f" {MOST_ATTRIBUTES} are allowed; it is several classes"
            )
            yield module.wrong(node.lineno, text)


def messages_are_frozen(repository: Repository) -> Iterator[Finding]:
    """What goes into an actor is data, so that it can be recorded and sent."""
    for module, node in _classes(repository):
        bases = [dotted(x.value) for x in node.bases if isinstance(x, ast.Subscript)]
        is_message = any(base.rpartition(".")[2] == "Request" for base in bases)
        if is_message and not _is_frozen(node):
            text = f"the message {node.name} can be changed; make it attrs.frozen"
            yield module.wrong(node.lineno, text)


def _mirrored(files: set[str]) -> bool:
    """Whether all of ``files`` are in one pair of mirrors, at most one on each side."""
    for rooms in MIRRORS:
        sides = [{f for f in files if f == r or f.startswith(f"{r}/")} for r in rooms]
        if set().union(*sides) == files and all(len(side) < 2 for side in sides):
            return len(files) == 2 or "aio" not in rooms
    return False


def _classes(repository: Repository) -> Iterator[tuple[Module, ast.ClassDef]]:
    for module in repository.modules.values():
        for node in module.nodes:
            if isinstance(node, ast.ClassDef):
                yield module, node


def _is_frozen(node: ast.ClassDef) -> bool:
    return any("frozen" in ast.unparse(made) for made in node.decorator_list)


def _attributes(klass: ast.ClassDef) -> set[str]:
    """Return the fields of a class, and what its methods assign."""
    found = {
        line.target.id
        for line in klass.body
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
    }
    for node in ast.walk(klass):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=attr, ctx=ast.Store()):
                found.add(attr)
    return found
