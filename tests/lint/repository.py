"""The files of the repository, each of which is read and parsed once, and what a check
says of them."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import attrs

PACKAGE = "glyphoxa_trio"


@attrs.frozen(order=True)
class Finding:
    """What is wrong at one place, and the remedy. ``path`` is below the repository."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


@attrs.frozen(eq=False, slots=False)
class File:
    """A file of text."""

    path: Path
    shown: str
    """Its path below the repository."""

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    def line_of(self, position: int) -> int:
        """Return the number of the line in which a position of its text is."""
        return self.text.count("\n", 0, position) + 1

    def wrong(self, line: int, text: str) -> Finding:
        return Finding(self.shown, line, text)


@attrs.frozen(eq=False, slots=False)
class PythonFile(File):
    """A file of Python."""

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All that is in its tree."""
        return [*ast.walk(self.tree)]


@attrs.frozen(eq=False, slots=False)
class Module(PythonFile):
    """A file of the package; its ``name`` is dotted, ``place`` its path below it."""

    name: str
    place: str

    @property
    def is_face(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def package(self) -> str:
        """What a single dot in an import means."""
        return self.name if self.is_face else self.name.rpartition(".")[0]

    @property
    def room(self) -> str:
        return self.place.split("/")[0].removesuffix(".py")


@attrs.frozen(eq=False, slots=False)
class Repository:
    """The files below one folder."""

    root: Path
    _files: dict[str, File] = attrs.field(factory=dict, init=False)

    @cached_property
    def modules(self) -> Mapping[str, Module]:
        """The files of the package by their dotted names."""
        found: dict[str, Module] = {}
        for path in sorted((self.root / PACKAGE).rglob("*.py")):
            place = path.relative_to(self.root / PACKAGE)
            parts = [PACKAGE, *place.with_suffix("").parts]
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            shown = f"{PACKAGE}/{place.as_posix()}"
            found[name] = Module(path, shown, name, place.as_posix())
        return found

    @cached_property
    def programs(self) -> list[PythonFile]:
        """The examples and other programs for readers."""
        return [
            PythonFile(path, self._shown(path))
            for folder in ("config", "docs")
            for path in sorted((self.root / folder).rglob("*.py"))
        ]

    @cached_property
    def settings(self) -> list[File]:
        """The configurations for readers."""
        return [
            self.file(self._shown(path))
            for folder in (PACKAGE, "config", "docs")
            for path in sorted((self.root / folder).rglob("*"))
            if path.suffix in (".yaml", ".toml")
        ]

    @cached_property
    def pages(self) -> Mapping[str, File]:
        """The pages for readers, by their paths below the repository."""
        found = [
            self._shown(path)
            for pattern in ("*.md", "docs/**/*.md", "config/**/*.md")
            for path in sorted(self.root.glob(pattern))
        ]
        return {shown: self.file(shown) for shown in found}

    def file(self, shown: str) -> File:
        """Return the file at this path below the repository."""
        return self._files.setdefault(shown, File(self.root / shown, shown))

    def _shown(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()
