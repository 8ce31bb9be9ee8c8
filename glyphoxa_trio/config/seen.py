"""Which entries of which ``.mcp.json`` this user has agreed to start.

One small file for each ``.mcp.json``, always in the user's own state folder, whatever
the configuration says: its author may have written the ``.mcp.json`` as well, and must
not be able to agree in the user's place.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import attrs

from glyphoxa_trio.user_folders import NO_HOME, user_state_folder

from .shared import SharedServer

_LARGEST = 2**20  # bytes


def own_folder() -> Path | None:
    """The folder that keeps what this user has agreed to; None without a home."""
    folder = user_state_folder()
    return None if folder is None else folder / "seen"


@attrs.frozen
class Seen:
    """The entries that the user has agreed to: their digests, by file and name. Blocks
    on the disk.

    An entry counts as not agreed to if its file here cannot be read. Without a folder
    nothing is agreed to, and nothing can be.
    """

    folder: Path | None = attrs.field(factory=own_folder)

    def __contains__(self, server: SharedServer) -> bool:
        return self.of(server.source).get(server.name) == server.digest

    def of(self, source: Path) -> Mapping[str, str]:
        """The digests by name of one ``.mcp.json``."""
        if self.folder is None:
            return {}
        path = self._path(self.folder, source)
        try:
            if path.stat().st_size > _LARGEST:
                return {}
            data = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        entries = data.get("entries") if isinstance(data, dict) else None
        return entries if isinstance(entries, dict) else {}

    def add(self, servers: Iterable[SharedServer]) -> None:
        """Remember that these servers may be started, as they are now in their files.

        Raises:
          OSError: if that cannot be written.
        """
        if self.folder is None:
            raise OSError(f"{NO_HOME} or XDG_STATE_HOME")
        by_file: dict[Path, dict[str, str]] = {}
        for server in servers:
            by_file.setdefault(server.source, {})[server.name] = server.digest
        for source, digests in by_file.items():
            entries = {**self.of(source), **digests}
            self._write(
                self.folder, source, {"file": str(_place(source)), "entries": entries}
            )

    @staticmethod
    def _path(folder: Path, source: Path) -> Path:
        place = str(_place(source)).encode("utf-8", "surrogateescape")
        return folder / f"{hashlib.sha256(place).hexdigest()[:32]}.json"

    def _write(self, folder: Path, source: Path, data: Mapping[str, object]) -> None:
        """Write the file whole or not at all, readable by this user alone."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, half = tempfile.mkstemp(dir=folder, prefix=".", suffix=".new")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(data, file)
            os.replace(half, self._path(folder, source))
        except BaseException:
            with suppress(OSError):
                os.unlink(half)
            raise


def _place(source: Path) -> Path:
    """The file in its folder. A file that is itself a link stays where it is: what its
    entries start is looked for there, and not where it leads to."""
    return source.parent.resolve() / source.name
