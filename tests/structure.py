"""The structure of a package, read from its source: its imports, and the code that uses
files, processes and sockets. It is read, and nothing of it is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path, PurePosixPath

import attrs


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Methods that go outside if what they are called on is a path.
_OF_PATHS = _words(
    """open read_text read_bytes write_text write_bytes mkdir rmdir unlink touch iterdir
    glob rglob exists is_file is_dir stat rename replace chmod symlink_to"""
)
_MODULES = _words(
    """socket ssl subprocess shutil tempfile urllib.request http.client httpx2 h11
    trio_websocket mcp apsw sqlite3 fcntl termios pty"""
)
_FUNCTIONS = _words(
    """open os.open os.listdir os.remove os.rename os.replace os.makedirs os.mkdir
    os.unlink os.kill os.stat os.scandir os.fork os.system os.popen os.execv
    trio.open_process trio.run_process trio.lowlevel.open_process trio.open_file
    trio.open_tcp_stream trio.open_tcp_listeners trio.serve_tcp trio.open_unix_socket
    trio.open_ssl_over_tcp_stream trio.Path"""
)

# Their types say nothing of whose an object is.
_OF_ANYTHING = _words("typing typing_extensions collections")


@attrs.frozen
class Module:
    """One file; its ``name`` is dotted."""

    name: str
    path: Path
    is_face: bool
    tree: ast.Module

    @property
    def package(self) -> str:
        """What a single dot means in it."""
        return self.name if self.is_face else self.name.rpartition(".")[0]


@attrs.frozen
class Import:
    """``line`` of a file imports from ``module``: the one in which the name is at home,
    whatever face it is taken from."""

    line: int
    module: str


@attrs.define(eq=False)
class Source:
    """The files of a package."""

    package: str
    modules: Mapping[str, Module]

    @classmethod
    def of(cls, folder: Path) -> Source:
        found: dict[str, Module] = {}
        for path in sorted(folder.rglob("*.py")):
            parts = [folder.name, *path.relative_to(folder).with_suffix("").parts]
            is_face = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if is_face else parts)
            found[name] = Module(name, path, is_face, ast.parse(path.read_text()))
        return cls(folder.name, found)

    def place(self, module: Module) -> str:
        """Its path below the package, as in ``npc/session.py``."""
        root = self.modules[self.package].path.parent
        return module.path.relative_to(root).as_posix()

    def imports(self, module: Module) -> Iterator[Import]:
        """All, wherever they are: in functions, for type checkers, by name."""
        for node in ast.walk(module.tree):
            match node:
                case ast.Import(names=names):
                    for alias in names:
                        yield Import(node.lineno, alias.name)
                case ast.ImportFrom(names=names):
                    base = _base(module, node)
                    for alias in names:
                        yield Import(node.lineno, self.home(base, alias.name))
                case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]):
                    if ast.unparse(func).rpartition(".")[2] in (
                        "__import__",
                        "import_module",
                    ):
                        dots = len(name) - len(name.lstrip("."))
                        if dots:
                            parts = module.package.split(".")
                            kept = parts[: len(parts) - dots + 1]
                            name = ".".join([*kept, name.lstrip(".")])
                        yield Import(node.lineno, name)

    def written_from_outside(self, module: Module) -> Iterator[tuple[int, str]]:
        """Where it assigns an attribute of a class of this package that no class in
        this file has: line and text. What trio has under the same name is trio's, and
        so is what a library has, if the function says that the object is of it."""
        others = self.attributes - _attributes(module.tree) - {"deadline"}
        for node, function in _in_functions(module.tree):
            for target in _targets(node):
                if (
                    isinstance(target, ast.Attribute)
                    and target.attr in others
                    and ast.unparse(target.value) not in ("self", "cls")
                    and not _is_of(target.value, self._foreign_names(module), function)
                ):
                    yield target.lineno, ast.unparse(target)

    def _foreign_names(self, module: Module) -> frozenset[str]:
        """What a file calls the things that it imports from other packages."""
        found: set[str] = set()
        for node in ast.walk(module.tree):
            match node:
                case ast.Import(names=names):
                    places = [alias.name for alias in names]
                case ast.ImportFrom(names=names):
                    places = [_base(module, node)] * len(names)
                case _:
                    continue
            for place, alias in zip(places, names, strict=True):
                package = place.split(".")[0]
                if package not in {self.package} | _OF_ANYTHING:
                    found.add(alias.asname or alias.name.split(".")[0])
        return frozenset(found)

    def sizes(self) -> Iterator[tuple[str, str, int]]:
        """Place, name and number of attributes of each class that can change."""
        for module in self.modules.values():
            for node in ast.walk(module.tree):
                if isinstance(node, ast.ClassDef):
                    made = " ".join(map(ast.unparse, node.decorator_list))
                    if "frozen" not in made:
                        yield self.place(module), node.name, len(_attributes(node))

    @cached_property
    def attributes(self) -> frozenset[str]:
        """Of all classes together."""
        found = (_attributes(module.tree) for module in self.modules.values())
        return frozenset().union(*found)

    def ours(self, module: Module) -> Iterator[Import]:
        """The imports from modules of this package, itself excluded."""
        for found in self.imports(module):
            name = found.module
            while name and name not in self.modules:
                name = name.rpartition(".")[0]
            if name and name != module.name:
                yield attrs.evolve(found, module=name)

    def home(self, base: str, name: str, seen: frozenset[str] = frozenset()) -> str:
        """The module that ``from base import name`` gets it from in the end."""
        if f"{base}.{name}" in self.modules:
            return f"{base}.{name}"
        face = self.modules.get(base)
        if face is None or not face.is_face or base in seen:
            return base
        for node in ast.walk(face.tree):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if name == (alias.asname or alias.name):
                        below = _base(face, node)
                        return self.home(below, alias.name, seen | {base})
        return base

    def circles(self) -> list[list[str]]:
        """Files that need each other, as places."""
        graph = {
            self.place(module): {
                self.place(self.modules[found.module]) for found in self.ours(module)
            }
            for module in self.modules.values()
        }
        return circles(graph)

    def folder_circles(self) -> list[list[str]]:
        """Folders that need each other. A face only says what there is below."""
        graph: dict[str, set[str]] = {}
        for module in self.modules.values():
            if module.is_face:
                continue
            folder = _folder(self.place(module))
            others = {
                _folder(self.place(self.modules[found.module]))
                for found in self.ours(module)
            }
            graph.setdefault(folder, set()).update(others - {folder})
        return circles(graph)

    def outside(self, module: Module) -> Iterator[tuple[int, str]]:
        """The lines that touch files, processes or networks, and what they call."""
        for found in self.imports(module):
            if found.module.split(".")[0] in _MODULES or found.module in _MODULES:
                yield found.line, f"import {found.module}"
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call):
                said = ast.unparse(node.func)
                owner, _, last = said.rpartition(".")
                if said in _FUNCTIONS or (last in _OF_PATHS and _is_path(owner)):
                    yield node.lineno, f"{said}()"


def _is_path(owner: str) -> bool:
    """Whether what a method is called on is a path, as far as its name tells."""
    last = owner.rpartition(".")[2]
    named = any(word in last for word in ("path", "folder", "file", "directory"))
    return owner.startswith(("Path(", "trio.Path(")) or (named and last.islower())


def _base(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.package.split(".")
    kept = parts[: len(parts) - node.level + 1]
    return ".".join([*kept, *filter(None, [node.module])])


def _folder(place: str) -> str:
    return PurePosixPath(place).parent.as_posix()


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Who needs each other, directly or by way of others."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        left = [start]
        while left:
            new = graph.get(left.pop(), set()) - seen
            seen |= new
            left += new
        return seen

    reach = {name: reached(name) for name in graph}
    found = {
        frozenset(other for other in reach[name] if name in reach.get(other, ()))
        for name in graph
        if name in reach[name]
    }
    return sorted(sorted(circle) for circle in found)


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _in_functions(
    tree: ast.AST, function: _Function | None = None
) -> Iterator[tuple[ast.AST, _Function | None]]:
    """All nodes, each with the innermost function that it is in."""
    for node in ast.iter_child_nodes(tree):
        yield node, function
        inside = node if isinstance(node, _Function) else function
        yield from _in_functions(node, inside)


def _is_of(
    owner: ast.expr, foreign: frozenset[str], function: _Function | None
) -> bool:
    """Whether a name is of a class that has one of these names, as far as the function
    says: it is annotated so, or whatever it is assigned is a new one."""
    if function is None or not isinstance(owner, ast.Name):
        return False
    types: list[ast.expr | None] = []
    given = function.args
    for parameter in (*given.posonlyargs, *given.args, *given.kwonlyargs):
        if parameter.arg == owner.id:
            return _is_class(parameter.annotation, foreign)
    for node, inside in _in_functions(function, function):
        if inside is function and any(
            isinstance(target, ast.Name) and target.id == owner.id
            for target in _targets(node)
        ):
            match node:
                case ast.AnnAssign(annotation=annotation):
                    types.append(annotation)
                case ast.Assign(targets=[ast.Name()], value=ast.Call(func=made)):
                    types.append(made)
                case _:
                    types.append(None)
    return bool(types) and all(_is_class(one, foreign) for one in types)


def _is_class(said: ast.expr | None, names: frozenset[str]) -> bool:
    """Whether it is a class by its name, called so or in something called so."""
    parts = "" if said is None else ast.unparse(said)
    first, last = parts.partition(".")[0], parts.rpartition(".")[2]
    return first in names and last.isidentifier() and last[0].isupper()


def _attributes(tree: ast.AST) -> frozenset[str]:
    """What the classes of a file have: fields, and what their methods assign."""
    found: set[str] = set()
    for klass in (x for x in ast.walk(tree) if isinstance(x, ast.ClassDef)):
        for line in klass.body:
            match line:
                case ast.AnnAssign(target=ast.Name(id=name)):
                    found.add(name)
        for node in ast.walk(klass):
            for target in _targets(node):
                match target:
                    case ast.Attribute(value=ast.Name(id="self"), attr=attr):
                        found.add(attr)
    return frozenset(found)


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    """What a node assigns, tuples taken apart."""
    match node:
        case ast.Assign(targets=targets):
            found = targets
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            found = [target]
        case ast.For(target=target) | ast.AsyncFor(target=target):
            found = [target]
        case ast.withitem(optional_vars=ast.expr() as target):
            found = [target]
        case ast.Call(
            func=ast.Name(id="setattr"),
            args=[owner, ast.Constant(value=str(attr)), *_],
        ):
            found = [ast.Attribute(owner, attr, lineno=node.lineno)]
        case _:
            return
    for each in found:
        yield from each.elts if isinstance(each, ast.Tuple | ast.List) else [each]
