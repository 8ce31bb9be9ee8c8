"""Imports point down only, as docs/architecture.md says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import PurePosixPath
from typing import Final

from .importing import Import, circles, imports, imports_of_ours
from .repository import PACKAGE, Finding, Module, Repository

# The lowest first. Rooms of one line do not know each other.
ROOMS: Final = (
    ("actors",),
    ("tools",),
    ("config", "nats", "providers", "storage"),
    ("memory",),
    ("builtin",),
    ("host", "mcp"),
    ("campaign", "npc"),
    ("recall",),
    ("runtime",),
    ("observability",),
    ("aio", "control", "devices", "servers", "simulation", "testing"),
    ("discord", "livekit", "pipecat", "service"),
    ("cluster",),
    ("cli",),
)
HEIGHT: Final = {room: height for height, rooms in enumerate(ROOMS) for room in rooms}
# Single files below all rooms.
BELOW: Final = {
    "apart",
    "certificates",
    "errors",
    "extras",
    "lazy",
    "loading",
    "process",
    "quiet",
    "renamed",
    "secret",
    "tracing",
    "units",
    "user_folders",
    "worker",
    "workers",
}
_HERE: Final = "tests/lint/layers.py"


def rooms_are_known(repository: Repository) -> Iterator[Finding]:
    known = HEIGHT.keys() | BELOW | {"__init__"}
    there = {module.room: module for module in repository.modules.values()}
    for room in there.keys() - known:
        text = f"the room {room} has no place; add it to ROOMS or BELOW in {_HERE}"
        yield there[room].wrong(1, text)
    for room in known - there.keys():
        yield Finding(_HERE, 1, f"there is no room {room}; take it out of the lists")


def imports_point_down(repository: Repository) -> Iterator[Finding]:
    for module in repository.modules.values():
        here = module.room
        if here == "__init__":  # the face of all
            continue
        for found in _ours(repository, module):
            there = repository.modules[found.module].room
            if there == here or there in BELOW:
                continue
            if HEIGHT.get(there, len(ROOMS)) >= HEIGHT.get(here, 0):
                text = (
                    f"{here} may not import {found.module}, which is not below it"
                    " (docs/architecture.md); pass what is needed as an argument, or"
                    " move it down"
                )
                yield module.wrong(found.line, text)


def files_need_each_other_in_one_direction(repository: Repository) -> Iterator[Finding]:
    graph = {
        module.shown: {
            repository.modules[found.module].shown
            for found in _ours(repository, module)
        }
        for module in repository.modules.values()
    }
    yield from _circles(graph, "files")


def folders_need_each_other_in_one_direction(
    repository: Repository,
) -> Iterator[Finding]:
    """A face only says what there is below, so it closes no circle."""
    graph: dict[str, set[str]] = {}
    for module in repository.modules.values():
        if not module.is_face:
            folder = _folder(module)
            others = {
                _folder(repository.modules[found.module])
                for found in _ours(repository, module)
            }
            graph.setdefault(folder, set()).update(others - {folder})
    yield from _circles(graph, "folders")


def rules_need_no_clock(repository: Repository) -> Iterator[Finding]:
    for module in repository.modules.values():
        if module.room == "tools":
            for found in imports(repository, module):
                if found.module.partition(".")[0] == "trio":
                    text = (
                        "tools/ has rules without clock and tasks; pass it the time,"
                        " or move what needs trio to host/"
                    )
                    yield module.wrong(found.line, text)


@cache
def _ours(repository: Repository, module: Module) -> tuple[Import, ...]:
    return tuple(imports_of_ours(repository, module))


def _folder(module: Module) -> str:
    return PurePosixPath(module.shown).parent.as_posix()


def _circles(graph: Mapping[str, set[str]], kind: str) -> Iterator[Finding]:
    for circle in circles(graph):
        names = ", ".join(name.removeprefix(f"{PACKAGE}/") for name in circle)
        text = (
            f"these {kind} import each other: {names}; move what both need to a third"
        )
        yield Finding(circle[0], 1, text)
