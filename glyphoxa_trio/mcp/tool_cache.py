"""What servers offered when they were last seen, for the start of the next run.

One small file a server, in a folder of the user's. With it a first turn need not
wait until every server has started: the tools are shown, a call waits for its
server within its own budget, and how long that should take is known.
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
_MUCH: Final = 1.25  # a start that takes so many times as long is worth writing down
_LARGEST: Final = 16 * 2**20  # bytes; nobody offers so much


@attrs.frozen
class ToolCache:
    """The last list of tools of each server. Both methods block on the disk.

    What cannot be read or written is as if it was not there: nothing depends on
    it but a quick start.
    """

    folder: Path

    def load(self, spec: ServerSpec) -> ToolListing | None:
        """What this very server offered last: another command is another server."""
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
        return ToolListing(tuple(tools), start=_seconds(data.get("start_seconds")))

    def save(
        self,
        spec: ServerSpec,
        tools: tuple[Mapping[str, Any], ...],
        start: float | None = None,
    ) -> None:
        """Keep the list, and how long the start took, whole or not at all."""
        data = {"version": _VERSION, "tools": tools, "start_seconds": start}
        # A list that is nested too deep to be written is no reason to fall.
        with suppress(OSError, ValueError, RecursionError):
            write_json(self._path(spec), data)

    def _path(self, spec: ServerSpec) -> Path:
        return file_of(self.folder, spec)


@attrs.define(eq=False)
class ServerToolCache:
    """The list of one server from run to run, beside everything else.

    A disk that hangs holds nobody up, not even the end: cancelled, a read or a
    write is left to itself, and one that was left comes before no newer one.
    """

    _known: ToolCache | None
    _spec: ServerSpec
    _kept: ToolListing = attrs.field(factory=lambda: ToolListing(()), init=False)
    _one_at_a_time: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _saving: int = attrs.field(default=0, init=False)
    _saved: int = attrs.field(default=0, init=False)

    async def recall(self) -> ToolListing | None:
        """What was offered last, if that is known."""
        if self._known is None:
            return None
        listing = await trio.to_thread.run_sync(
            self._known.load, self._spec, abandon_on_cancel=True
        )
        if listing is not None:
            self._kept = listing
        return listing

    async def keep(self, listing: ToolListing) -> None:
        """Write the listing down, if that is wanted at all and it is news."""
        if self._known is not None and self._is_news(listing):
            self._saving += 1
            await trio.to_thread.run_sync(
                self._save, self._known, self._saving, listing, abandon_on_cancel=True
            )
            self._kept = listing

    def _is_news(self, listing: ToolListing) -> bool:
        """True for another list of tools, or a start of quite another length."""
        if listing.tools != self._kept.tools:
            return True
        now, then = listing.start, self._kept.start
        return now is not None and (
            then is None or not then / _MUCH < now < then * _MUCH
        )

    def _save(self, known: ToolCache, number: int, listing: ToolListing) -> None:
        """In a thread."""
        with self._one_at_a_time:
            if number > self._saved:
                known.save(self._spec, listing.tools, listing.start)
                self._saved = number


def _seconds(value: Any) -> float | None:
    """How long a start took, as a file says; None if that cannot be."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and 0 <= value < math.inf else None


def file_of(folder: Path, spec: ServerSpec) -> Path:
    """The file of this very server."""
    return folder / f"{spec.name}-{identity(spec)}.json"


def write_json(path: Path, data: Any) -> None:
    """Write a file of its owner's only, whole or not at all.

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
    """What makes it this server, as a short text without values of headers and
    variables."""
    facts = [
        str(spec.transport),
        list(spec.command),
        spec.url,
        None if spec.cwd is None else str(spec.cwd),
        sorted(spec.env),
        sorted(spec.headers),
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
