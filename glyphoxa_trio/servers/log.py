"""Lines on stderr that hold nobody up.

Whoever started a server may not read its stderr, and once that pipe is full a line
would wait for ever. So a thread writes them, behind a queue with a bound.
"""

from __future__ import annotations

import logging
import queue
import threading
from contextlib import suppress
from typing import Final, TextIO

MOST_WAITING: Final = 256  # records; what comes on top is counted
_LAST_WORDS: Final = 0.3  # seconds that `close` gives to whoever reads
_LONGEST: Final = 8000  # characters of one record


class Stderr(logging.Handler):
    """A handler whose ``emit`` never waits.

    Args:
      stream: where to; None if the process has no stderr.
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
            if len(text) > _LONGEST:  # the end of a traceback says most
                text = f"{text[: _LONGEST // 2]}\n[…]\n{text[-_LONGEST // 2 :]}"
            if self._dropped:
                text = f"{self._missed()}\n{text}"
            self._lines.put_nowait(text)
            self._dropped = 0
        except queue.Full:
            self._dropped += 1

    def close(self) -> None:
        """Write what waits, if somebody reads it now."""
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
        return f"[{self._dropped} messages left out]"

    def _write(self) -> None:
        while (text := self._lines.get()) is not None:
            # Closed, or nobody is there: then nobody needs to know.
            with suppress(OSError, ValueError):
                print(_printable(text), file=self._stream, flush=True)


def _printable(text: str) -> str:
    """Without what would steer a terminal: parts of it come from clients."""
    return "".join(
        char if char == "\n" or char.isprintable() else ascii(char)[1:-1]
        for char in text
    )
