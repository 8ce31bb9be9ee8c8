"""What the layers test would find, planted in a small package: a check that finds
nothing is worth nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from .structure import Source

FACE = """
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .high import opened

_HOME = {"opened": "high"}
"""


@pytest.fixture(name="tree")
def small_package(tmp_path: Path) -> Path:
    root = tmp_path / "pack"
    for place, text in {
        "__init__.py": FACE,
        "errors.py": "",
        "low/__init__.py": "from .thing import Thing as Thing\n",
        "low/thing.py": "class Thing: ...\n",
        "low/other.py": "",
        "low/deep/__init__.py": "",
        "low/deep/down.py": "",
        "high/__init__.py": "from .opening import opened as opened\n",
        "high/opening.py": "def opened() -> None: ...\n",
    }.items():
        path = root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def planted(tree: Path, place: str, text: str) -> Source:
    (tree / place).write_text(text)
    return Source.of(tree)


OPENING = "pack.high.opening"


@pytest.mark.parametrize(
    "text",
    [
        "from pack.high.opening import opened",
        "from ..high.opening import opened",
        "import pack.high.opening",
        "from pack.high import opened  # the face of a room",
        "from pack import opened  # the face of all",
        "from .. import opened",
        "from pack import high\nfrom pack.high import opening",
        "def late():\n    from pack import opened",
        "if TYPE_CHECKING:\n    from pack import opened",
        "x = __import__('pack.high.opening')",
        "import importlib\nx = importlib.import_module('pack.high.opening')",
        "x = import_module('..high.opening', __package__)",
    ],
)
def test_whatever_way_a_module_is_imported_it_is_seen(tree: Path, text: str) -> None:
    source = planted(tree, "low/other.py", text)
    found = {x.module for x in source.ours(source.modules["pack.low.other"])}
    assert OPENING in found


def test_an_import_is_seen_where_its_name_is_at_home(tree: Path) -> None:
    source = planted(tree, "high/opening.py", "from pack.low import Thing\nimport os")
    (found,) = source.ours(source.modules[OPENING])
    assert (found.line, found.module) == (1, "pack.low.thing")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import socket", "import socket"),
        ("import urllib.request", "import urllib.request"),
        ("def f():\n    import ssl", "import ssl"),
        ("from trio_websocket import open_websocket", "import trio_websocket"),
        ("x = __import__('subprocess')", "import subprocess"),
        ("open('x')", "open()"),
        ("import os\nos.replace('a', 'b')", "os.replace()"),
        ("Path('x').write_text('y')", "Path('x').write_text()"),
        ("def f(folder): return folder.iterdir()", "folder.iterdir()"),
        ("def f(self): return self._path.exists()", "self._path.exists()"),
        ("async def f(): await trio.open_process(['x'])", "trio.open_process()"),
        ("async def f(): await trio.open_tcp_stream('h', 1)", "trio.open_tcp_stream()"),
    ],
)
def test_whatever_touches_the_world_is_seen(tree: Path, text: str, said: str) -> None:
    source = planted(tree, "low/other.py", text)
    assert said in [
        what for _, what in source.outside(source.modules["pack.low.other"])
    ]


@pytest.mark.parametrize(
    "text",
    [
        "text.replace('a', 'b')",
        "def f(stream): return stream.open()",
        "async def f(): await SqliteFile.open('x')",
        "import os\nos.environ.get('HOME')",
    ],
)
def test_what_only_looks_like_it_is_not(tree: Path, text: str) -> None:
    source = planted(tree, "low/other.py", text)
    assert not list(source.outside(source.modules["pack.low.other"]))


def test_a_circle_of_files_is_found_whatever_closes_it(tree: Path) -> None:
    assert Source.of(tree).circles() == []
    planted(tree, "low/other.py", "from .thing import Thing\nfrom . import deep")
    planted(tree, "low/deep/down.py", "from ..other import x")
    circle = "if TYPE_CHECKING:\n    from .deep.down import y\nclass Thing: ..."
    source = planted(tree, "low/thing.py", circle)
    assert source.circles() == [["low/deep/down.py", "low/other.py", "low/thing.py"]]
    assert source.folder_circles() == [["low", "low/deep"]]


def test_a_face_says_what_is_below_and_closes_no_circle(tree: Path) -> None:
    planted(tree, "low/deep/down.py", "from ..thing import Thing")
    source = planted(tree, "low/__init__.py", "from .deep.down import x\n")
    assert source.circles() == source.folder_circles() == []


def test_two_circles_are_two(tree: Path) -> None:
    planted(tree, "low/thing.py", "from .other import x\nclass Thing: ...")
    planted(tree, "low/other.py", "from .thing import Thing")
    planted(tree, "low/deep/down.py", "from pack.errors import E")
    source = planted(tree, "errors.py", "from pack.low.deep import down")
    assert source.circles() == [
        ["errors.py", "low/deep/down.py"],
        ["low/other.py", "low/thing.py"],
    ]


def written_in(tree: Path, text: str) -> list[str]:
    """What ``text`` assigns that is a `Thing`'s."""
    thing = "class Thing:\n    size: int\n    deadline: int\n"
    (tree / "low/thing.py").write_text(thing)
    source = planted(tree, "low/other.py", text)
    module = source.modules["pack.low.other"]
    return [what for _, what in source.written_from_outside(module)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f(x): x.size = 1", ["x.size"]),
        ("def f(x): x.size += 1", ["x.size"]),
        ("def f(x): return lambda: setattr(x, 'size', 1)", ["x.size"]),
        ("def f(x): a, x.thing.size = 1, 2", ["x.thing.size"]),
        ("async def f(x, y):\n    async with y as x.size: ...", ["x.size"]),
        ("class Mine:\n    def f(self, x): self.own.size = 1", ["self.own.size"]),
        ("class Mine:\n    size: int\n    def f(self, x): x.size = 1", []),
        ("def f(x): x.other = 1", []),
        ("def f(scope): scope.deadline = 1", []),
    ],
)
def test_an_attribute_that_another_file_assigns_is_seen(
    tree: Path, text: str, found: list[str]
) -> None:
    assert written_in(tree, text) == found


IMPORTS = """
import attrs
import copy
import library
from library.parts import Part
from typing import Any, TYPE_CHECKING
if TYPE_CHECKING:
    from library import Late
from .thing import Thing
from pack.low.thing import Thing as Whole
"""


@pytest.mark.parametrize(
    "text",
    [
        "def f(x: Part): x.size = 1",
        "def f(x: library.parts.Part): x.size = 1",
        "async def f(*, x: Late): x.size = 1",
        "def f(y):\n    x: Part = y\n    x.size = 1",
        "def f():\n    x = Part()\n    x.size = 1",
        "def f():\n    while True:\n        x = library.Part(1)\n        x.size = 1",
    ],
)
def test_what_a_library_has_under_the_same_name_is_not_ours(
    tree: Path, text: str
) -> None:
    assert written_in(tree, IMPORTS + text) == []


@pytest.mark.parametrize(
    "text",
    [
        "def f(x: Thing): x.size = 1",
        "def f(x: Whole): x.size = 1",
        "def f(x: Any): x.size = 1",
        "def f(x: Part | Thing): x.size = 1",
        "def f(x: Late[Thing]): x.size = 1",
        "def f(x: Part, y: Thing): y.size, x.thing.size = 1, 2",
        "def f():\n    x = Thing()\n    x.size = 1",
        "def f(y):\n    x = copy.copy(y)\n    x.size = 1",
        "def f(y):\n    x = attrs.evolve(y)\n    x.size = 1",
        "def f(y):\n    x = Part()\n    x = y\n    x.size = 1",
        "def f(y):\n    x = Part()\n    for x in y: x.size = 1",
        "def f(x: Part):\n    def g(x): x.size = 1",
        "def f(x: Part):\n    def g(y):\n        x = y\n        x.size = 1",
        "def f():\n    x = Part()\ndef g(x): x.size = 1",
        "x = Part()\nx.size = 1",
    ],
)
def test_what_only_looks_like_a_library_s_is_ours(tree: Path, text: str) -> None:
    assert written_in(tree, IMPORTS + text)
