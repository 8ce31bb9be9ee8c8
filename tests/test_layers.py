"""Imports point down only (docs/architecture.md). This reads them and says so."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import glyphoxa_trio

PACKAGE = Path(glyphoxa_trio.__file__).parent

FREE = {
    "apart",
    "errors",
    "process",
    "quiet",
    "secret",
    "units",
    "worker",
    "workers",
}
LAYERS = {
    "actors": 0,
    "tools": 1,
    "providers": 1,
    "storage": 1,
    "builtin": 1,
    "config": 1,
    "mcp": 2,
    "host": 2,
    "campaign": 3,
    "npc": 3,
    "observability": 4,
    "runtime": 4,
    "aio": 5,
    "cli": 5,
    "control": 5,
    "servers": 5,
    "simulation": 5,
    "testing": 5,
}
# Inside a layer a room stands alone, but for these.
BESIDE = {
    ("providers", "tools"),
    ("builtin", "tools"),
    ("config", "tools"),
    ("storage", "tools"),
    ("observability", "runtime"),
}
# I/O lives here and nowhere else.
DOORS = {
    "providers/",
    "storage/",
    "mcp/",
    "builtin/",
    "config/",
    "observability/exposition.py",
    "observability/sending.py",
    "cli/",
    "control/",
    "servers/http/",
    "servers/atis/feed.py",
    "testing/",
}
IO_MODULES = {"socket", "subprocess", "httpx2", "h11", "mcp", "apsw", "sqlite3"}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    """Every module that a file imports, as a dotted name."""
    package = ["glyphoxa_trio", *path.relative_to(PACKAGE).parts[:-1]]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            found |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    return found


FILES = [
    path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.parent != PACKAGE or (path.stem in LAYERS)
]


def test_every_room_has_a_layer() -> None:
    rooms = {room_of(path) for path in PACKAGE.rglob("*.py")}
    assert rooms == LAYERS.keys() | FREE | {"__init__"}


@pytest.mark.parametrize(
    "path", FILES, ids=[str(path.relative_to(PACKAGE)) for path in FILES]
)
def test_imports_point_down(path: Path) -> None:
    room = room_of(path)
    for name in imports_of(path):
        parts = name.split(".")
        if parts[0] != "glyphoxa_trio" or len(parts) == 1:
            continue
        other = parts[1]
        if other not in LAYERS or other == room:
            continue
        down = LAYERS[other] < LAYERS[room] or (room, other) in BESIDE
        # L1 rooms may use the kernel's data, L5 rooms may use each other.
        assert down or LAYERS[room] == LAYERS[other] == 5, f"{room} imports {other}"


@pytest.mark.parametrize(
    "path", FILES, ids=[str(path.relative_to(PACKAGE)) for path in FILES]
)
def test_io_lives_at_the_doors(path: Path) -> None:
    place = path.relative_to(PACKAGE).as_posix()
    used = {name.split(".")[0] for name in imports_of(path)} & IO_MODULES
    assert not used or place.startswith(tuple(DOORS)), f"{place} imports {used}"


def test_tools_are_pure() -> None:  # rules need no clock and no tasks
    for path in (PACKAGE / "tools").rglob("*.py"):
        assert "trio" not in {name.split(".")[0] for name in imports_of(path)}


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
)
# What a server on stdio is, from the console script to its first answer.
SERVED = (
    "glyphoxa_trio.cli",
    "glyphoxa_trio.servers.command",
    "glyphoxa_trio.servers.stdio",
    "glyphoxa_trio.servers.shelf.dice",
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
        f"print(*[name for name in {HEAVY + also!r} if name in sys.modules])"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.split() == []


def test_files_above_300_lines_give_a_reason() -> None:
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        if text.count("\n") > 300:
            docstring = ast.get_docstring(ast.parse(text)) or ""
            assert "lines" in docstring, f"{path.name} is long and says not why"
