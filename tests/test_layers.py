"""Imports point down only (docs/architecture.md). This reads them and says so; what it
would find is planted in test_structure.py."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import glyphoxa_trio

from .structure import Module, Source

SOURCE = Source.of(Path(glyphoxa_trio.__file__).parent)

# The lowest first. Rooms of one line do not know each other.
ROOMS = (
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
HEIGHT = {room: height for height, rooms in enumerate(ROOMS) for room in rooms}
# Single files below all rooms.
BELOW = {
    "apart",
    "certificates",
    "errors",
    "extras",
    "lazy",
    "process",
    "quiet",
    "renamed",
    "secret",
    "tracing",
    "units",
    "worker",
    "workers",
}
# Files, processes and networks are touched here and nowhere else.
DOORS = (
    "providers/",
    "storage/",
    "mcp/",
    "memory/",
    "discord/voice_channel.py",  # ends the library's wait for a socket
    "cluster/aio.py",  # TLS of its connection
    "nats/handshake.py",
    "nats/link.py",
    "builtin/",
    "certificates.py",
    "config/",
    "cli/",
    "devices/files.py",
    "control/",
    "testing/",
    "process.py",
    "worker.py",
    "actors/threads.py",  # what the kernel says of this process's own threads
    "campaign/tools/transfer.py",  # a tool that writes a folder, and reads one
    "observability/exposition.py",
    "observability/logs.py",
    "observability/recording/format.py",
    "observability/recording/lines.py",
    "observability/sending.py",
    "runtime/watching.py",  # whether a file of the configuration has changed
    "servers/atis/config_file.py",
    "servers/atis/feed.py",
    "servers/http/",
    "servers/pipes.py",
    "servers/tools_file.py",
    "service/connections.py",
    "service/gateway.py",
    "service/options.py",
    "service/pages.py",  # files of this package
    "simulation/pictures.py",
    "simulation/survey.py",  # asks real servers what they offer
)

MODULES = [
    pytest.param(module, id=SOURCE.place(module)) for module in SOURCE.modules.values()
]


def room_of(module: Module) -> str:
    return SOURCE.place(module).split("/")[0].removesuffix(".py")


def test_every_room_has_its_place() -> None:
    rooms = {room_of(module) for module in SOURCE.modules.values()}
    assert rooms == HEIGHT.keys() | BELOW | {"__init__"}


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_down(module: Module) -> None:
    here = room_of(module)
    if here == "__init__":  # the face of all
        return
    for found in SOURCE.ours(module):
        there = room_of(SOURCE.modules[found.module])
        if there == here or there in BELOW:
            continue
        down = here in HEIGHT and HEIGHT.get(there, len(ROOMS)) < HEIGHT[here]
        assert down, f"line {found.line}: {here} imports {found.module}"


@pytest.mark.parametrize("module", MODULES)
def test_the_world_is_touched_at_the_doors(module: Module) -> None:
    if not SOURCE.place(module).startswith(DOORS):
        assert not list(SOURCE.outside(module))


@pytest.mark.parametrize("door", DOORS)
def test_every_door_is_used(door: str) -> None:
    behind = [x for x in SOURCE.modules.values() if SOURCE.place(x).startswith(door)]
    assert any(list(SOURCE.outside(module)) for module in behind)


def test_no_files_need_each_other() -> None:
    assert SOURCE.circles() == []


def test_no_folders_need_each_other() -> None:
    assert SOURCE.folder_circles() == []


def test_what_an_object_holds_is_changed_by_its_own_methods() -> None:
    found = {
        SOURCE.place(module): written
        for module in SOURCE.modules.values()
        if (written := list(SOURCE.written_from_outside(module)))
    }
    assert found == {}


def test_a_class_that_changes_has_at_most_20_attributes() -> None:
    assert {name for _, name, size in SOURCE.sizes() if size > 20} == set()


def test_tools_are_pure() -> None:  # rules need no clock and no tasks
    for module in SOURCE.modules.values():
        if room_of(module) == "tools":
            used = {found.module.split(".")[0] for found in SOURCE.imports(module)}
            assert "trio" not in used


@pytest.mark.parametrize("module", MODULES)
def test_a_file_above_300_lines_argues_why(module: Module) -> None:
    lines = module.path.read_text().count("\n")
    said = " ".join((ast.get_docstring(module.tree) or "").split())
    argued = re.search(r"Above 300 lines(, because|:) \w", said) is not None
    assert argued == (lines > 300), f"{lines} lines"


HEAVY = (
    "mcp",
    "httpx2",
    "jsonschema_rs",
    "ruamel",
    "cattrs",
    "rich",
    "typer",
    "pydantic",
    "structlog",
    "prometheus_client",
    "apsw",
    "opentelemetry",
)
# What a server on stdio is, from the console script to its first answer.
SERVED = (
    "glyphoxa_trio.cli",
    "glyphoxa_trio.servers.program.command",
    "glyphoxa_trio.servers.stdio",
    "glyphoxa_trio.servers.builtin.dice",
)


@pytest.mark.parametrize(
    ("imports", "also"),
    [
        (["glyphoxa_trio"], ()),
        (SERVED, ("pydantic_core", "anyio", "starlette", "hypercorn", "asyncio")),
    ],
    ids=["the package", "a server on stdio"],
)
def test_importing_it_imports_nothing_heavy(
    imports: list[str], also: tuple[str, ...]
) -> None:
    code = (
        f"import sys, {', '.join(imports)}; from glyphoxa_trio import open_runtime;"
        "import glyphoxa_trio.runtime.wiring;"
        f"print(*[name for name in {HEAVY + also!r} if name in sys.modules])"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.split() == []


# ------------------------------------------------------------------------------ names

# Rooms that mirror each other, so that who knows one finds the way in the other: the
# runtime from asyncio; two vendors of text, and of speech; a vendor and the fake of it.
MIRRORS = (
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


def classes() -> dict[str, set[str]]:
    found = defaultdict[str, set[str]](set)
    for module in SOURCE.modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                found[node.name].add(SOURCE.place(module))
    return found


def mirrored(files: set[str]) -> bool:
    """Whether all of ``files`` are in one pair of mirrors, at most one on each side."""
    for rooms in MIRRORS:
        sides = [{f for f in files if f == r or f.startswith(f"{r}/")} for r in rooms]
        if set().union(*sides) == files and all(len(side) < 2 for side in sides):
            return len(files) == 2 or "aio" not in rooms
    return False


def test_a_class_name_occurs_once() -> None:
    twice = {k: sorted(v) for k, v in classes().items() if len(v) > 1}
    assert {k: v for k, v in twice.items() if not mirrored(set(v))} == {}


def test_the_check_sees_a_name_that_occurs_twice() -> None:
    assert not mirrored({"host/host.py", "mcp/sdk.py"})
    assert not mirrored({"aio/npc.py", "npc/voice.py", "runtime/runtime.py"})
    assert mirrored({"aio/npc.py", "npc/session/npc.py"})
