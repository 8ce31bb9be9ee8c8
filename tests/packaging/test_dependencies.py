"""What pyproject.toml says of dependencies is what the source imports."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache
from importlib import metadata
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import glyphoxa_trio
from glyphoxa_trio.extras import LIBRARIES, ExtraMissing, installed, missing, require

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
# For people who work on the package, and not for those who use it.
OURS = {"dev", "docs", "test"}
# Each is in a Python of its own for the tests.
FRAMEWORKS = {
    "aiohttp": "aiohttp",
    "davey": "davey",
    "discord": "py-cord",
    "livekit": "livekit-agents",
    "pipecat": "pipecat-ai",
}
# What one distribution cannot be without, and what belongs to it.
TOGETHER = {
    "lxml": "lxml-html-clean",
    "mcp-types": "mcp",
    "numpy": "soxr",
    "pydantic-core": "pydantic",
}


def named(requirements: list[str]) -> set[str]:
    """The distributions of some requirements, with those of our own extras."""
    found: set[str] = set()
    for requirement in requirements:
        name, extras = re.findall(r"^([\w.-]+)(?:\[([\w,]+)\])?", requirement)[0]
        if name == PROJECT["name"]:
            for extra in filter(None, extras.split(",")):
                found |= named(EXTRAS[extra])
        else:
            found.add(_plain(name))
    return found


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def _distributions() -> dict[str, set[str]]:
    return {
        library: {TOGETHER.get(_plain(name), _plain(name)) for name in names}
        for library, names in packages_distributions().items()
    }


def distributions(library: str) -> set[str]:
    if (framework := library.partition(".")[0]) in FRAMEWORKS:
        return {FRAMEWORKS[framework]}
    if "." not in library:
        return _distributions()[library]
    # A part of a package that several distributions share.
    folder = library.replace(".", "/") + "/"
    return {
        _plain(found.name)
        for found in metadata.distributions()
        if any(str(file).startswith(folder) for file in found.files or ())
    }


@cache
def imported() -> frozenset[str]:
    """The libraries that the package imports or looks for, wherever it does."""
    found: set[str] = set()
    for path in Path(glyphoxa_trio.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Import(names=names):
                    found |= {alias.name.partition(".")[0] for alias in names}
                case ast.ImportFrom(module=str(module), level=0):
                    found.add(module.partition(".")[0])
                case ast.Call(
                    func=ast.Name(id="find_spec"), args=[ast.Constant(value=str(name))]
                ):
                    found.add(name.partition(".")[0])
    return frozenset(found - sys.stdlib_module_names - {"glyphoxa_trio"})


def test_every_library_that_is_imported_is_a_dependency() -> None:
    offered = {extra: named(EXTRAS[extra]) for extra in EXTRAS.keys() - OURS}
    known = named(PROJECT["dependencies"]).union(*offered.values())
    for library in imported():
        assert distributions(library) & known, f"{library} is not in pyproject.toml"


def test_every_dependency_is_imported() -> None:
    known = set().union(*map(distributions, imported()))
    for extra in EXTRAS.keys() - OURS:
        assert named(EXTRAS[extra]) <= known, extra
    assert named(PROJECT["dependencies"]) <= known


def test_every_extra_is_known_to_the_code_that_names_it() -> None:
    assert LIBRARIES.keys() == EXTRAS.keys() - OURS
    for extra, libraries in LIBRARIES.items():
        found = set().union(*map(distributions, libraries))
        assert found == named(EXTRAS[extra]), extra


def test_the_extra_for_tests_has_all_of_them() -> None:
    for extra in LIBRARIES.keys() - FRAMEWORKS.keys():
        assert installed(extra), extra
        require("this test", extra)


def test_what_is_missing_is_named_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    assert not installed("verify")
    with pytest.raises(ExtraMissing) as caught:
        require("verify", "verify")
    assert str(caught.value) == missing("verify", "verify")
    assert str(caught.value) == (
        "verify needs the extra `verify`: pip install 'glyphoxa-trio[verify]'"
    )


def test_the_pythons_that_are_named_are_those_that_the_tests_run_on() -> None:
    named = {
        line.rpartition(" ")[2]
        for line in PROJECT["classifiers"]
        if re.search(r"Python :: 3\.\d+$", line)
    }
    assert named == {"3.11"}, "add what .ci/run has run on, here as well"
    assert PROJECT["requires-python"] == ">=3.11"
