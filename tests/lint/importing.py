"""The imports of a module, wherever they are and whatever face a name is taken from."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

import attrs

from .repository import Module, Repository


@attrs.frozen
class Import:
    """``line`` of a file imports from ``module``: the one in which the name is at home,
    whatever face it is taken from."""

    line: int
    module: str


def dotted(node: ast.expr) -> str:
    """Return a name with its dots, such as ``os.path.join``; "" for anything else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr) if owner := dotted(value):
            return f"{owner}.{attr}"
    return ""


def imports(repository: Repository, module: Module) -> Iterator[Import]:
    """Yield all imports: those in functions, for type checkers and by name, too."""
    for node in module.nodes:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield Import(node.lineno, alias.name)
            case ast.ImportFrom(names=names):
                base = base_of(module, node)
                for alias in names:
                    yield Import(node.lineno, home(repository, base, alias.name))
            case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]):
                called = dotted(func).rpartition(".")[2]
                if called in ("__import__", "import_module"):
                    if dots := len(name) - len(name.lstrip(".")):
                        name = ".".join(filter(None, [_up(module, dots), name[dots:]]))
                    yield Import(node.lineno, name)


def imports_of_ours(repository: Repository, module: Module) -> Iterator[Import]:
    """Yield the imports from modules of this package, itself excluded."""
    for found in imports(repository, module):
        name = found.module
        while name and name not in repository.modules:
            name = name.rpartition(".")[0]
        if name and name != module.name:
            yield attrs.evolve(found, module=name)


def home(
    repository: Repository, base: str, name: str, seen: frozenset[str] = frozenset()
) -> str:
    """Return the module that ``from base import name`` gets it from in the end."""
    if f"{base}.{name}" in repository.modules:
        return f"{base}.{name}"
    face = repository.modules.get(base)
    if face is None or not face.is_face or base in seen:
        return base
    for node in face.nodes:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    below = base_of(face, node)
                    return home(repository, below, alias.name, seen | {base})
    return base


def base_of(module: Module, node: ast.ImportFrom) -> str:
    """Return the module after ``from``, with the dots resolved."""
    if not node.level:
        return node.module or ""
    return ".".join(filter(None, [_up(module, node.level), node.module]))


def _up(module: Module, dots: int) -> str:
    parts = module.package.split(".")
    return ".".join(parts[: len(parts) - dots + 1])


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the shortest way round from each name to itself, each circle once."""
    ways = (way for start in sorted(graph) if (way := _way_round(graph, start)))
    found: dict[frozenset[str], list[str]] = {}
    for way in sorted(ways, key=len):
        if not any(frozenset(way) & known for known in found):
            found[frozenset(way)] = way
    return list(found.values())


def _way_round(graph: Mapping[str, set[str]], start: str) -> list[str]:
    """Return the shortest way from ``start`` to itself, if there is one."""
    before: dict[str, str] = {}
    reached = [start]
    for name in reached:  # which grows meanwhile
        for after in sorted(graph.get(name, ())):
            if after == start:
                way = [name]
                while way[0] != start:
                    way.insert(0, before[way[0]])
                return way
            if after not in before:
                before[after] = name
                reached.append(after)
    return []
