"""Log lines to stderr without ever blocking the server.

The program that started a server may not read its stderr, and once that pipe is full,
a write would block for ever. So a thread writes the lines, from a bounded queue.
"""

from __future__ import annotations

import logging
import queue
import threading
from contextlib import suppress
from typing import Final, TextIO

from glyphoxa_trio.units import many

# records in the queue; those beyond it are counted and dropped
MOST_WAITING: Final = 256
_LAST_WORDS: Final = 0.3  # seconds that `close` waits for the pipe to be read
_LONGEST: Final = 8000  # characters of one record


class Stderr(logging.Handler):
    """A logging handler whose ``emit`` never waits.

    Args:
      stream: where to write; None if the process has no stderr.
    """

    def __init__(self, prefix: str, stream: TextIO | None) -> None:
        super().__init__(logging.WARNING)
        self._stream = stream
        self.setFormatter(logging.Formatter(f"{prefix}: %(message)s"))
        self._lines: queue.Queue[str | None] = queue.Queue(MOST_WAITING)
        self._dropped = 0
        self._thread: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self._stream is None:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, daemon=True)
            self._thread.start()
        try:
            text = self.format(record)
            if len(text) > _LONGEST:  # the end of a traceback says the most
                text = f"{text[: _LONGEST // 2]}\n[…]\n{text[-_LONGEST // 2 :]}"
            if self._dropped:
                text = f"{self._missed()}\n{text}"
            self._lines.put_nowait(text)
            self._dropped = 0
        except queue.Full:
            self._dropped += 1

    def close(self) -> None:
        """Write the queued lines, if the pipe is being read now."""
        super().close()
        thread, self._thread = self._thread, None
        if thread is None:
            return
        try:
            if self._dropped:
                self._lines.put(self._missed(), timeout=_LAST_WORDS)
            self._lines.put(None, timeout=_LAST_WORDS)
        except queue.Full:
            return
        thread.join(_LAST_WORDS)

    def _missed(self) -> str:
        return f"[{many(self._dropped, 'message')} left out]"

    def _write(self) -> None:
        while (text := self._lines.get()) is not None:
            # If the pipe is closed, there is no reader left to tell.
            with suppress(OSError, ValueError):
                print(_printable(text), file=self._stream, flush=True)


def _printable(text: str) -> str:
    """Escape the characters that could control a terminal: parts come from clients."""
    return "".join(
        char if char == "\n" or char.isprintable() else ascii(char)[1:-1]
        for char in text
    )
