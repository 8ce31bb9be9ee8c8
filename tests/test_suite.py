"""`make test` leaves out what is slow, and nothing else; `make test-all` has it all."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from .test_acceptance import ROWS

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
# Not those of other projects, which are installed below tests/peers and others.
FILES = sorted(
    path
    for path in TESTS.rglob("test_*.py")
    if not any(
        x[0] == "." or x == "node_modules" for x in path.relative_to(TESTS).parts
    )
)
ROOMS = sorted({path.relative_to(TESTS).parts[0] for path in FILES})
SLOW = "pytest.mark.slow"

# Each of their tests is slow: evenings are played, schemas hold the processor.
# Importing a framework alone takes seconds.
ALL_SLOW = {
    "tests/frameworks/test_alone.py",
    "tests/frameworks/test_discord.py",
    "tests/frameworks/test_livekit.py",
    "tests/frameworks/test_pipecat.py",
    "tests/frameworks/test_voices.py",
    "tests/mcp/test_schemas.py",
    "tests/newcomer/test_robot.py",
    "tests/pages/test_cluster_gateway.py",
}


def found_in(text: str) -> Iterator[tuple[str, bool]]:
    """The tests of a file and whether each is quick. One of which only some cases are
    marked is."""
    tree = ast.parse(text)
    whole = any(
        isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) == "pytestmark"
        and SLOW in ast.unparse(node.value)
        for node in tree.body
    )
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if (
                name.startswith("test_")
            ):
                marks = map(ast.unparse, node.decorator_list)
                yield name, not whole and SLOW not in marks
            case ast.Assign(targets=[ast.Name(id=name)]) if name.startswith("Test"):
                yield name, not whole  # of a state machine


@cache
def is_quick(path: Path) -> bool:
    """Whether a file has tests for `make test`."""
    return any(quick for _, quick in found_in(path.read_text()))


def test_slow_tests_are_seen() -> None:
    text = """
@pytest.mark.parametrize("x", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a(x): ...
@pytest.mark.slow
async def test_b(): ...
TestC = Machine.TestCase
def helper(): ...
"""
    assert [*found_in(text)] == [("test_a", True), ("test_b", False), ("TestC", True)]
    marked = f"pytestmark = pytest.mark.slow{text}"
    assert [quick for _, quick in found_in(marked)] == [False] * 3


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_has_quick_tests(room: str) -> None:
    here = [path for path in FILES if path.relative_to(TESTS).parts[0] == room]
    assert any(map(is_quick, here)), f"make test has nothing of tests/{room}"


def test_files_without_quick_tests_are_known() -> None:
    found = {str(path.relative_to(ROOT)) for path in FILES if not is_quick(path)}
    assert found == ALL_SLOW


@pytest.mark.parametrize(
    ("row", "shown"),
    [(row, shown) for row, _, state, shown in ROWS if state != "not yet"],
)
def test_every_promise_has_a_quick_test(row: str, shown: str) -> None:
    files = [ROOT / file for file in re.findall(r"`(tests/[\w/.]+)`", shown)]
    assert {*files} <= {*FILES}, f"{row} names what `make test-all` does not collect"
    assert any(map(is_quick, files)), f"make test has nothing of {row}"


def _pytest_of(target: str) -> str:
    if not shutil.which("make"):
        pytest.skip("no make")
    printed = subprocess.run(
        ["make", "--dry-run", "--silent", target],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.replace("\\\n", " ")
    (line,) = [line for line in printed.splitlines() if " -m pytest " in line]
    return line.partition(" -m pytest ")[2]


def test_make_test_leaves_out_the_slow_ones_and_make_test_all_nothing() -> None:
    all_ = _pytest_of("test-all").split()
    options = {"-q", "-n", "--dist", "--no-loadscope-reorder", "--durations=10"}
    assert {*all_} == options | {"logical", "loadfile"}
    assert _pytest_of("test").split() == [*all_, "-m", "'not", "slow'"]
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]
    assert settings["ini_options"]["testpaths"] == ["tests"]
    ci = (ROOT / ".ci" / "run").read_text()
    assert re.search(r"^GLYPHOXA_PEERS=required .*make test-all$", ci, re.MULTILINE)
