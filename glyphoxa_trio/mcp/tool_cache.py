"""The tool cache: what each server offered last, for the start of the next run.

Each server has one small file, in a folder of the user's. With it the first turn does
not have to wait until every server has started: the tools are shown, a call waits for
its server within its own budget, and how long that should take is known.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.config import ServerSpec

from .transport import ToolListing

_VERSION: Final = 1
_MUCH: Final = 1.25  # a start whose duration changed by this factor is worth saving
_LARGEST: Final = 16 * 2**20  # bytes; no server offers so much


@attrs.frozen
class ToolCache:
    """The cache of the last tool list of each server. Its methods block on the disk.

    A file that cannot be read counts as missing, and one that cannot be written is
    skipped: only a quick start depends on it.
    """

    folder: Path

    def load(self, spec: ServerSpec) -> ToolListing | None:
        """Return what this server offered last; None if that is not known.

        A server with another command or address is another server; see `identity`.
        """
        path = self._path(spec)
        try:
            if path.stat().st_size > _LARGEST:
                return None
            data = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(data, dict) or data.get("version") != _VERSION:
            return None
        tools = data.get("tools")
        if not isinstance(tools, list) or not all(isinstance(x, dict) for x in tools):
            return None
        return ToolListing(
            tuple(tools),
            start=_seconds(data.get("start_seconds")),
            prompts=prompts_in(data),
        )

    def prompts_of(self, server: str) -> tuple[Mapping[str, Any], ...]:
        """Return the prompts that a server of this name offered last, whatever its
        command or address was."""
        newest: tuple[float, Any] = (0.0, None)
        for path in self.folder.glob(f"{server}-*.json"):
            if "-" in path.stem.removeprefix(f"{server}-"):
                continue  # of another server, whose name begins so
            try:
                facts = path.stat()
                if facts.st_size <= _LARGEST and facts.st_mtime > newest[0]:
                    newest = facts.st_mtime, json.loads(path.read_bytes())
            except (OSError, ValueError, RecursionError):
                continue
        return prompts_in(newest[1]) if isinstance(newest[1], dict) else ()

    def save(
        self,
        spec: ServerSpec,
        tools: tuple[Mapping[str, Any], ...],
        start: float | None = None,
        prompts: tuple[Mapping[str, Any], ...] = (),
    ) -> None:
        """Save the tools and prompts, and how many seconds the start took, whole or not
        at all."""
        data = {
            "version": _VERSION,
            "tools": tools,
            "start_seconds": start,
            "prompts": prompts,
        }
        # A list that is nested too deep to be written must not end the program.
        with suppress(OSError, ValueError, RecursionError):
            write_json(self._path(spec), data)

    def _path(self, spec: ServerSpec) -> Path:
        return file_of(self.folder, spec)


@attrs.define(eq=False)
class ServerToolCache:
    """The cached list of one server, read and written in threads.

    A disk that hangs delays nothing, not even the shutdown: when cancelled, a read or
    write is abandoned, and an abandoned write never replaces the result of a newer one.
    """

    _known: ToolCache | None
    _spec: ServerSpec
    _kept: ToolListing = attrs.field(factory=lambda: ToolListing(()), init=False)
    _one_at_a_time: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _saving: int = attrs.field(default=0, init=False)
    _saved: int = attrs.field(default=0, init=False)

    async def recall(self) -> ToolListing | None:
        """Return what the server offered last, if that is known."""
        if self._known is None:
            return None
        listing = await trio.to_thread.run_sync(
            self._known.load, self._spec, abandon_on_cancel=True
        )
        if listing is not None:
            self._kept = listing
        return listing

    async def keep(self, listing: ToolListing) -> None:
        """Save the listing, if there is a cache and the listing is new."""
        if self._known is not None and self._is_news(listing):
            self._saving += 1
            await trio.to_thread.run_sync(
                self._save, self._known, self._saving, listing, abandon_on_cancel=True
            )
            self._kept = listing

    def _is_news(self, listing: ToolListing) -> bool:
        """Return whether the tools or prompts differ, or the duration of the start
        much."""
        if (listing.tools, listing.prompts) != (self._kept.tools, self._kept.prompts):
            return True
        now, then = listing.start, self._kept.start
        return now is not None and (
            then is None or not then / _MUCH < now < then * _MUCH
        )

    def _save(self, known: ToolCache, number: int, listing: ToolListing) -> None:
        """Save one listing, in a thread, unless a newer one was saved."""
        with self._one_at_a_time:
            if number > self._saved:
                known.save(self._spec, listing.tools, listing.start, listing.prompts)
                self._saved = number


def _seconds(value: Any) -> float | None:
    """Return the duration of a start, as read from a file; None if it is not valid."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and 0 <= value < math.inf else None


def prompts_in(data: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return the prompts in a file of this cache, which an older one does not have."""
    found = data.get("prompts")
    listed = found if isinstance(found, list) else []
    return tuple(x for x in listed if isinstance(x, dict))


def file_of(folder: Path, spec: ServerSpec) -> Path:
    """Return the path of this server's file."""
    return folder / f"{spec.name}-{identity(spec)}.json"


def write_json(path: Path, data: Any) -> None:
    """Write a file that only its owner can read, whole or not at all.

    Raises:
      OSError: if that fails.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, half = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".new")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(data, file)
        os.replace(half, path)
    except BaseException:
        os.unlink(half)
        raise


def identity(spec: ServerSpec) -> str:
    """Return a short text that identifies a server.

    It depends on the command, the address, the folder, and the names of headers and
    variables, but not on their values.
    """
    facts = [
        str(spec.transport),
        list(spec.command),
        spec.url,
        None if spec.cwd is None else str(spec.cwd),
        sorted(spec.env),
        sorted(spec.headers),
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
