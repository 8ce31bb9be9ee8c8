"""The reference documents what exists, with words, and all that is public."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

import attrs

from .importing import home
from .repository import PACKAGE, File, Finding, Module, Repository

# Modules of which everything that they export is public …
_PUBLIC: Final = (PACKAGE, f"{PACKAGE}.npc", f"{PACKAGE}.aio", f"{PACKAGE}.servers")
# … but for what the other rooms take from there.
_OUR_OWN: Final = {"Costs", "NpcSession"}
_FOLDER: Final = "docs/reference/"
_ENTRY: Final = re.compile(r"(?m)^::: (\S+)$")
_PUBLIC_PAGE: Final = f"{_FOLDER}public.md"

_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@attrs.frozen
class _Thing:
    """A module, or a name in the module where it is defined."""

    module: str
    name: str = ""


def documented_names_exist(repository: Repository) -> Iterator[Finding]:
    for page, entry in _entries(repository):
        line = page.line_of(entry.start(1))
        thing = _thing(repository, entry[1])
        module = repository.modules.get(thing.module)
        if module is None or not (found := _definition(module, thing.name)):
            yield page.wrong(line, f"there is no {entry[1]}; document what there is")
        elif isinstance(found, _Documented) and not ast.get_docstring(found):
            yield page.wrong(line, f"{entry[1]} has no docstring; write one")
    public = repository.pages[_PUBLIC_PAGE]
    for page in repository.pages.values():
        name = page.shown.removeprefix(_FOLDER)
        is_listed = page is public or f"]({name}" in public.text
        if page.shown.startswith(_FOLDER) and not is_listed:
            yield public.wrong(1, f"it has no link to {name}; add it")


def public_names_are_documented(repository: Repository) -> Iterator[Finding]:
    documented = {_thing(repository, entry[1]) for _, entry in _entries(repository)}
    for room in _PUBLIC:
        module = repository.modules[room]
        for name in _exported(module):
            thing = _thing(repository, f"{room}.{name}")
            known = thing in documented or _Thing(thing.module) in documented
            if name not in _OUR_OWN and not known:
                text = f"{name} is public and not in docs/reference; document it there"
                yield module.wrong(1, text)


def _entries(repository: Repository) -> Iterator[tuple[File, re.Match[str]]]:
    for page in repository.pages.values():
        if page.shown.startswith(_FOLDER):
            for entry in _ENTRY.finditer(page.text):
                yield page, entry


def _thing(repository: Repository, path: str) -> _Thing:
    if path in repository.modules:
        return _Thing(path)
    base, _, name = path.rpartition(".")
    return _Thing(home(repository, base, name), name)


def _exported(module: Module) -> list[str]:
    for node in module.tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                names: list[str] = ast.literal_eval(value)
                return names
    return []


def _definition(module: Module, name: str) -> ast.stmt | ast.Module | None:
    """Return where a name is defined at the top of a module, after its overloads."""
    if not name:
        return module.tree
    for node in reversed(module.tree.body):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                defines = node.name == name
            case ast.Assign(targets=[ast.Name(id=target)]):
                defines = target == name
            case ast.AnnAssign(target=ast.Name(id=target)):
                defines = target == name
            case ast.ImportFrom(names=names):
                defines = name in [alias.asname or alias.name for alias in names]
            case _:
                continue
        if defines:
            return node
    return None
