"""Packages that import a name when it is used, and what is imported at start."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

from .importing import base_of, dotted
from .repository import PACKAGE, Finding, Module, Repository

_HEAVY: Final = (
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
_SLOW: Final = (*_HEAVY, "httpcore2", "numpy", "PIL", "soxr")
_START: Final = (PACKAGE, f"{PACKAGE}.runtime.wiring")
# What a server on stdio is, from the console script to its first answer.
_SERVED: Final = (
    f"{PACKAGE}.cli",
    f"{PACKAGE}.servers.program.command",
    f"{PACKAGE}.servers.stdio",
    f"{PACKAGE}.servers.builtin.dice",
)
# Coroutines of these rooms may hold the loop: nothing else runs in it yet, or it is a
# program's own.
_ALONE: Final = ("cli", "testing", "simulation")
# What these are made of has imported it before.
_LOADED: Final = (
    "providers/endpoint.py",
    "providers/answer.py",
    "providers/body.py",
    "providers/speech_server.py",
    "mcp/masking.py",
)
_HEAVY_FOR_A_SERVER: Final = (
    *_HEAVY,
    *("pydantic_core", "anyio", "starlette", "hypercorn", "asyncio"),
)


def lazy_names_are_the_same_for_type_checkers(
    repository: Repository,
) -> Iterator[Finding]:
    """A name that is imported lazily is in an ``__init__.py`` three times."""
    for module in repository.modules.values():
        if module.is_face:
            for node in module.nodes:
                if isinstance(node, ast.Call) and dotted(node.func) == "lazy_names":
                    yield from _differences(module, node)


def _differences(module: Module, call: ast.Call) -> Iterator[Finding]:
    line = call.lineno
    interpreted: dict[str, str] = ast.literal_eval(call.args[1])
    checked: dict[str, str] = {}
    listed: list[str] = []
    for node in module.tree.body:
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=body):
                for each in body:
                    if isinstance(each, ast.ImportFrom):
                        below = base_of(module, each).removeprefix(f"{module.name}.")
                        checked |= {alias.name: below for alias in each.names}
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                listed = ast.literal_eval(value)
    for name in sorted(checked.keys() | interpreted.keys()):
        for_checkers, for_all = checked.get(name), interpreted.get(name)
        if for_checkers != for_all:
            text = (
                f"{name} is imported from {for_checkers} for type checkers and from"
                f" {for_all} by lazy_names; say the same in both"
            )
            yield module.wrong(line, text)
    for name in sorted({*interpreted} ^ {*listed}):
        where = "__all__" if name in interpreted else "lazy_names"
        yield module.wrong(line, f"{name} is missing in {where}; add it")


def nothing_heavy_is_imported_at_start(repository: Repository) -> Iterator[Finding]:
    for modules, heavy in ((_START, _HEAVY), (_SERVED, _HEAVY_FOR_A_SERVER)):
        code = (
            f"import sys, {', '.join(modules)}; from {PACKAGE} import open_runtime;"
            f"print(*[name for name in {heavy!r} if name in sys.modules])"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=False,
            cwd=repository.root,
        )
        where = repository.modules[modules[0]]
        if done.returncode:
            said = done.stderr.strip().rpartition("\n")[2]
            yield where.wrong(1, f"it cannot be imported: {said}")
        for name in done.stdout.split():
            text = (
                f"importing {', '.join(modules)} imports {name}, which takes long;"
                " import it in the function that needs it"
                f" (find it with: python -X importtime -c 'import {modules[0]}')"
            )
            yield where.wrong(1, text)


def coroutines_load_what_is_heavy(repository: Repository) -> Iterator[Finding]:
    """An import in a coroutine holds the loop, and with it every turn."""
    for module in repository.modules.values():
        if module.room in _ALONE or module.place in _LOADED:
            continue
        loaded = {
            str(argument.value).partition(".")[0]
            for node in module.nodes
            if isinstance(node, ast.Call) and dotted(node.func) == "load"
            for argument in node.args
            if isinstance(argument, ast.Constant)
        }
        for coroutine in module.nodes:
            if not isinstance(coroutine, ast.AsyncFunctionDef):
                continue
            for node in ast.walk(coroutine):
                match node:
                    case ast.Import(names=imported):
                        names = [alias.name for alias in imported]
                    case ast.ImportFrom(module=str(name), level=0):
                        names = [name]
                    case _:
                        continue
                for name in {x.partition(".")[0] for x in names}:
                    if name in _SLOW and name not in loaded:
                        text = f"this holds the loop; await load({name!r}) before"
                        yield module.wrong(node.lineno, text)
