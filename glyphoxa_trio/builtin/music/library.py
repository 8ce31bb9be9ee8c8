"""The files of a music library and their moods: by folders, tags and a YAML file.

A track has every mood that any of the three gives it. Folders are those on the way to
it, below the library. Tags are genre, mood, and a comment that looks like a list of
moods. The YAML file has moods, and for each a list of files or globs, relative to the
library::

    tavern: [inn.ogg, taverns/*.ogg]
    battle: [drums.ogg]

Everything here blocks on the disk and must run in a thread. Files that cannot be read
are left out, with a warning; nothing here fails.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import attrs

from glyphoxa_trio.extras import missing
from glyphoxa_trio.units import many

from .moods import folded
from .tags import UnreadableFile, moods_in_tags

MAX_FILES: Final = 5000
MAX_FOLDERS: Final = 1000
MAX_DEPTH: Final = 8  # folders below the library
MAX_MOODS_FILE: Final = 256 * 1024  # bytes
MOODS_FILE: Final = "moods.yaml"  # in the library, unless another one is named
_MOST_WARNINGS: Final = 20

_SOUND: Final = re.compile(r"(?i).+\.(aac|aiff?|flac|m4a|mka|mp3|og[ag]|opus|wav|wma)")


@attrs.frozen(kw_only=True)
class Library:
    """Tracks by mood, both sorted by name.

    ``stamp`` shows whether folders or the file of moods have changed; it does not show
    tags that were changed in place.
    """

    moods: Mapping[str, tuple[Path, ...]] = attrs.field(factory=dict)
    tracks: int = 0
    warnings: tuple[str, ...] = ()
    stamp: tuple[tuple[str, int], ...] = ()


def read_library(
    folder: Path, moods_file: Path | None = None, *, known: Library | None = None
) -> Library:
    """Return the content of ``folder``; ``known`` itself, if nothing has changed."""
    if known is not None and _stamp(path for path, _ in known.stamp) == known.stamp:
        return known
    return _Reading(folder, moods_file or folder / MOODS_FILE).read(
        named=moods_file is not None
    )


def _stamp(paths: Iterator[str]) -> tuple[tuple[str, int], ...]:
    return tuple((path, _changed(path)) for path in paths)


def _changed(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except (OSError, ValueError):
        return -1  # the file may be created later


@attrs.define(eq=False)
class _Reading:
    """One reading of the whole library."""

    folder: Path
    file: Path
    _warnings: list[str] = attrs.field(factory=list, init=False)
    _folders: list[tuple[str, int]] = attrs.field(factory=list, init=False)
    _found: dict[str, Path] = attrs.field(factory=dict, init=False)
    _full: bool = attrs.field(default=False, init=False)

    def read(self, *, named: bool) -> Library:
        # Noted before reading: a change meanwhile is seen the next time.
        stamp = _changed(str(self.file))
        self._walk(self.folder, "", 0)
        moods: dict[str, set[str]] = defaultdict(set)
        for name in list(self._found):
            for part in Path(name).parts[:-1]:
                moods[folded(part)].add(name)
            for mood in self._tags(name):
                moods[mood].add(name)
        if stamp != -1 or named:
            self._add_written(moods)
        moods.pop("", None)
        without = self._found.keys() - set().union(*moods.values())
        if without:
            example = min(without)
            self._warn(
                f"{many(len(without), 'track has', 'tracks have')} no mood, such"
                f" as {example}"
            )
        if len(self._warnings) > _MOST_WARNINGS:
            more = len(self._warnings) - _MOST_WARNINGS
            self._warnings[_MOST_WARNINGS:] = [f"and {many(more, 'more warning')}"]
        return Library(
            moods={
                mood: tuple(self._found[x] for x in sorted(names & self._found.keys()))
                for mood, names in sorted(moods.items())
                if names & self._found.keys()
            },
            tracks=len(self._found),
            warnings=tuple(self._warnings),
            stamp=(*self._folders, (str(self.file), stamp)),
        )

    def _warn(self, text: str) -> None:
        self._warnings.append(text)

    def _walk(self, folder: Path, name: str, depth: int) -> None:
        self._folders.append((str(folder), _changed(str(folder))))
        try:
            with os.scandir(folder) as entries:
                there = sorted(entries, key=lambda entry: entry.name)
        except (OSError, ValueError) as error:
            self._warn(f"{name or folder}: cannot be read: {_why(error)}")
            return
        for entry in there:
            if entry.name.startswith(".") or self._full:
                continue
            below = f"{name}/{entry.name}" if name else entry.name
            # A linked folder may be one that contains the link.
            if entry.is_dir(follow_symlinks=False):
                if depth >= MAX_DEPTH:
                    self._warn(f"{below}: left out, more than {MAX_DEPTH} deep")
                elif len(self._folders) >= MAX_FOLDERS:
                    self._stop(f"more than {MAX_FOLDERS} folders")
                else:
                    self._walk(Path(entry.path), below, depth + 1)
            elif _SOUND.fullmatch(entry.name) and _is_file(entry):
                if len(self._found) >= MAX_FILES:
                    self._stop(f"more than {MAX_FILES} tracks")
                else:
                    self._found[below] = Path(entry.path).absolute()

    def _stop(self, why: str) -> None:
        self._full = True
        self._warn(f"{why}: the rest is left out")

    def _tags(self, name: str) -> tuple[str, ...]:
        try:
            return moods_in_tags(self._found[name])
        except UnreadableFile as error:
            self._warn(f"{name}: left out, it is broken: {error}")
            del self._found[name]
        except ImportError:
            text = missing("reading the tags of music", "tools")
            if text not in self._warnings:
                self._warn(text)
        return ()

    def _add_written(self, moods: dict[str, set[str]]) -> None:
        """Add the moods in the YAML file."""
        try:
            written = _read_yaml(self.file)
        except (OSError, ValueError) as error:
            self._warn(f"{self.file.name}: ignored, {_why(error)}")
            return
        for mood, patterns in written.items():
            where = f"{self.file.name}: {mood}"
            listed = patterns if isinstance(patterns, list) else [patterns]
            if not isinstance(mood, str) or not folded(mood):
                self._warn(f"{where}: a mood must be text")
                continue
            for pattern in listed:
                if not isinstance(pattern, str):
                    self._warn(f"{where}: must be a list of files")
                    continue
                hits = {x for x in self._found if fnmatchcase(x, pattern)}
                if not hits:
                    self._warn(f"{where}: no track {pattern[:100]!r} in the library")
                moods[folded(mood)] |= hits


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False


def _read_yaml(path: Path) -> Mapping[Any, Any]:
    """Read a YAML file that must be a map.

    Raises:
      OSError: if it cannot be read.
      ValueError: if it is too long or is no map.
    """
    with path.open("rb") as file:
        data = file.read(MAX_MOODS_FILE + 1)
    if len(data) > MAX_MOODS_FILE:
        raise ValueError(f"it has more than {MAX_MOODS_FILE} bytes")
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError

    try:
        written = YAML(typ="safe", pure=True).load(data.decode("utf-8-sig"))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise ValueError(f"it is not YAML: {error.problem}{where}") from None
    except Exception as error:  # border: the reader fails in many ways
        raise ValueError(f"it is not YAML: {type(error).__name__}") from None
    if written is None:
        return {}
    if not isinstance(written, dict):
        raise ValueError("it must be a map of moods to lists of files")
    return written


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
