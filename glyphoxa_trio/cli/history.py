"""The lines that were typed in earlier runs of `play`, for the arrow keys."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Final

from prompt_toolkit.history import History
from prompt_toolkit.history import InMemoryHistory as InMemoryHistory

MOST: Final = 500  # lines that are kept
LONGEST: Final = 2000  # characters of a line that is kept
_MODE: Final = 0o600  # a player's words are private


class FileHistory(History):
    """The last `MOST` lines, in a file that only its owner reads.

    A file that cannot be read or written is no error: the lines of this run are
    remembered until it ends.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """Return the lines, the newest first. A file that has grown is cut."""
        lines: list[str] = []
        with suppress(OSError):
            text = self._path.read_text(encoding="utf-8", errors="replace")
            lines = [line for line in text.split("\n") if line]
            if len(lines) > 2 * MOST:
                self._replace(lines[-MOST:])
        return reversed(lines[-MOST:])

    def store_string(self, string: str) -> None:
        """Add a line to the file."""
        line = " ".join(string.split())[:LONGEST]
        if not line:
            return
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            file = os.open(self._path, flags, _MODE)
            with os.fdopen(file, "wb") as out:
                os.fchmod(file, _MODE)
                out.write(f"{line}\n".encode(errors="replace"))

    def _replace(self, lines: Iterable[str]) -> None:
        beside = self._path.with_name(f".{self._path.name}.{token_hex(8)}.tmp")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(beside, flags, _MODE), "wb") as out:
            out.write("".join(f"{x}\n" for x in lines).encode(errors="replace"))
        os.replace(beside, self._path)
