"""What pyproject.toml says of dependencies is what the source imports."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import metadata
from typing import Any, Final

from glyphoxa_trio.extras import LIBRARIES

from .importing import dotted
from .repository import PACKAGE, Finding, Module, Repository

# For people who work on the package, and not for those who use it.
_OURS: Final = {"dev", "docs", "test"}
# Each is in a Python of its own for the tests.
_FRAMEWORKS: Final = {
    "aiohttp": "aiohttp",
    "davey": "davey",
    "discord": "py-cord",
    "livekit": "livekit-agents",
    "pipecat": "pipecat-ai",
}
# What one distribution cannot be without, and what belongs to it.
_TOGETHER: Final = {
    "lxml": "lxml-html-clean",
    "mcp-types": "mcp",
    "numpy": "soxr",
    "pydantic-core": "pydantic",
}


def imports_are_declared(repository: Repository) -> Iterator[Finding]:
    project = _project(repository)
    extras = project["optional-dependencies"]
    groups = {f"extra {x}": _named(project, extras[x]) for x in extras.keys() - _OURS}
    groups["dependencies"] = _named(project, project["dependencies"])
    declared = set().union(*groups.values())
    imported: set[str] = set()
    for library, (module, line) in _imported(repository).items():
        if not (found := _distributions_of(library)):
            text = (
                f"{library} is not installed; declare its distribution and install it"
            )
            yield module.wrong(line, text)
        elif not found & declared:
            text = f"{library} is not in pyproject.toml; add it to an extra or to all"
            yield module.wrong(line, text)
        imported |= found
    for group, names in groups.items():
        for name in sorted(names - imported):
            text = f"{name} ({group}) is imported nowhere; take it out"
            yield _wrong(repository, name, text)


def extras_are_those_of_the_code(repository: Repository) -> Iterator[Finding]:
    project = _project(repository)
    extras = {
        extra: _named(project, wanted)
        for extra, wanted in project["optional-dependencies"].items()
        if extra not in _OURS
    }
    for extra in sorted(extras.keys() | LIBRARIES.keys()):
        libraries = LIBRARIES.get(extra, ())
        found: set[str] = set().union(*map(_distributions_of, libraries))
        if different := found ^ extras.get(extra, set()):
            text = (
                f"the extra {extra} and LIBRARIES of {PACKAGE}/extras.py differ in"
                f" {', '.join(sorted(different))}; name the same in both"
            )
            yield _wrong(repository, extra, text)


def _project(repository: Repository) -> dict[str, Any]:
    project: dict[str, Any]
    project = tomllib.loads(repository.file("pyproject.toml").text)["project"]
    return project


def _wrong(repository: Repository, name: str, text: str) -> Finding:
    file = repository.file("pyproject.toml")
    return file.wrong(file.line_of(max(file.text.find(name), 0)), text)


def _named(project: dict[str, Any], requirements: list[str]) -> set[str]:
    """Return the distributions of requirements, with those of our own extras."""
    found: set[str] = set()
    for requirement in requirements:
        name, extras = re.findall(r"^([\w.-]+)(?:\[([\w,]+)\])?", requirement)[0]
        if name == project["name"]:
            for extra in filter(None, extras.split(",")):
                found |= _named(project, project["optional-dependencies"][extra])
        else:
            found.add(_plain(name))
    return found


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _imported(repository: Repository) -> dict[str, tuple[Module, int]]:
    """Return what the package imports or looks for, and a place of each library."""
    found: dict[str, tuple[Module, int]] = {}
    for module in repository.modules.values():
        for node in module.nodes:
            match node:
                case ast.Import(names=names):
                    libraries = [alias.name for alias in names]
                case ast.ImportFrom(module=str(name), level=0):
                    libraries = [name]
                case ast.Call(func=func, args=[ast.Constant(value=str(name))]) if (
                    dotted(func) == "find_spec"
                ):
                    libraries = [name]
                case _:
                    continue
            for library in libraries:
                found.setdefault(library.partition(".")[0], (module, node.lineno))
    return {
        library: place
        for library, place in found.items()
        if library not in sys.stdlib_module_names and library != PACKAGE
    }


@cache
def _distributions() -> Mapping[str, set[str]]:
    return {
        library: {_TOGETHER.get(_plain(name), _plain(name)) for name in names}
        for library, names in metadata.packages_distributions().items()
    }


def _distributions_of(library: str) -> set[str]:
    if (framework := library.partition(".")[0]) in _FRAMEWORKS:
        return {_FRAMEWORKS[framework]}
    if "." not in library:
        return _distributions().get(library, set())
    # A part of a package that several distributions share.
    folder = library.replace(".", "/") + "/"
    return {
        _plain(found.name)
        for found in metadata.distributions()
        if any(str(file).startswith(folder) for file in found.files or ())
    }
