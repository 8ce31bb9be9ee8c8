"""What servers offered when they were last seen, for the start of the next run.

One small file a server, in a folder of the user's. With it a first turn need not
wait until every server has started: the tools are shown, and a call waits for
its server within its own budget.
"""

from __future__ import annotations

import hashlib
import json
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

from .transport import Listing

_VERSION: Final = 1
_LARGEST: Final = 16 * 2**20  # bytes; nobody offers so much


@attrs.frozen
class Known:
    """The last list of tools of each server. Both methods block on the disk.

    What cannot be read or written is as if it was not there: nothing depends on
    it but a quick start.
    """

    folder: Path

    def load(self, spec: ServerSpec) -> Listing | None:
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
        return Listing(tuple(tools))

    def save(self, spec: ServerSpec, tools: tuple[Mapping[str, Any], ...]) -> None:
        """Keep the list, whole or not at all."""
        # A list that is nested too deep to be written is no reason to fall.
        with suppress(OSError, ValueError, RecursionError):
            write_json(self._path(spec), {"version": _VERSION, "tools": tools})

    def _path(self, spec: ServerSpec) -> Path:
        return file_of(self.folder, spec)


@attrs.define(eq=False)
class Memory:
    """The list of one server from run to run, beside everything else.

    A disk that hangs holds nobody up, not even the end: cancelled, a read or a
    write is left to itself, and one that was left comes before no newer one.
    """

    _known: Known | None
    _spec: ServerSpec
    kept: tuple[Mapping[str, Any], ...] = attrs.field(default=(), init=False)
    _one_at_a_time: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _saving: int = attrs.field(default=0, init=False)
    _saved: int = attrs.field(default=0, init=False)

    async def recall(self) -> Listing | None:
        """What was offered last, if that is known."""
        if self._known is None:
            return None
        listing = await trio.to_thread.run_sync(
            self._known.load, self._spec, abandon_on_cancel=True
        )
        if listing is not None:
            self.kept = listing.tools
        return listing

    async def keep(self, tools: tuple[Mapping[str, Any], ...]) -> None:
        """Write them down, if that is wanted at all."""
        if self._known is not None:
            self._saving += 1
            await trio.to_thread.run_sync(
                self._save, self._known, self._saving, tools, abandon_on_cancel=True
            )
        self.kept = tools

    def _save(
        self, known: Known, number: int, tools: tuple[Mapping[str, Any], ...]
    ) -> None:
        """In a thread."""
        with self._one_at_a_time:
            if number > self._saved:
                known.save(self._spec, tools)
                self._saved = number


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
