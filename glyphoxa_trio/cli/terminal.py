"""Lines from a terminal or a pipe."""

from __future__ import annotations

import os
import select
import sys

import attrs

import trio

_CHUNK = 4096


def can_edit() -> bool:
    """Return true if a person types at a terminal that can move its cursor."""
    return (
        sys.stdin.isatty()
        and sys.stdout.isatty()
        and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")
    )


@attrs.define(eq=False)
class InputLines:
    """Whole lines of a file descriptor.

    Read in a thread that may be left behind: it holds no lock of Python's, so
    the process can end while it waits for a line.
    """

    _descriptor: int = 0
    _rest: bytes = attrs.field(default=b"", init=False)
    _ended: bool = attrs.field(default=False, init=False)

    def _is_ready(self) -> bool:
        return bool(select.select([self._descriptor], [], [], 0.2)[0])

    async def next(self) -> str | None:
        """The next line, or None at the end. Cancelled, it loses no line."""
        while b"\n" not in self._rest and not self._ended:
            try:
                # A thread that is left behind only looks, and takes nobody's line.
                while not await trio.to_thread.run_sync(
                    self._is_ready, abandon_on_cancel=True
                ):
                    pass
                chunk = os.read(self._descriptor, _CHUNK)
            except OSError:  # a terminal that was closed
                chunk = b""
            self._rest += chunk
            self._ended = not chunk
        if not self._rest:
            return None
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode(errors="replace").strip()
