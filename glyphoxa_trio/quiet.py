"""The log of libraries, with secrets removed while they work for this package.

An address may hold a key, a request has one in its headers, and servers repeat their
input: an HTTP client logs all of it at DEBUG. Records that these libraries log on
behalf of other code, and whether records are shown at all, stay as they are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from traceback import format_exception
from typing import Final

Clean = Callable[[str], str]
"""Returns a text without its secrets."""

# The loggers' names, and all below them. `client` is a logger of the MCP SDK.
_LIBRARIES: Final = (
    *("aiohttp", "client", "discord", "h11", "hpack", "httpcore2", "httpx2"),
    *("hypercorn", "mcp", "mcp_types", "trio-websocket", "wsproto"),
)
# Loggers that are used before the logging module lists them.
_EARLY: Final = tuple(
    f"httpcore2.{part}" for part in ("connection", "http11", "http2", "proxy", "socks")
)

_clean: ContextVar[Clean | None] = ContextVar("clean", default=None)


@contextmanager
def quiet(clean: Clean) -> Iterator[None]:
    """Clean, inside the block and in tasks that start in it, the records of libraries
    with ``clean``, which returns a text without its secrets."""
    outer = _clean.get()
    listen()
    token = _clean.set(clean if outer is None else lambda text: clean(outer(text)))
    try:
        yield
    finally:
        _clean.reset(token)


def cleaned(text: str) -> str:
    """Return the text as it may be logged here: without the secrets of the runtime
    that is running, if one is."""
    clean = _clean.get()
    return text if clean is None else clean(text)


class _Cleaned(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if (clean := _clean.get()) is None:
            return True
        try:
            said = record.getMessage()
        except Exception:  # foreign code: the handler reports it
            said = ""
        if (shown := clean(said)) != said:
            record.msg, record.args = shown, None
        if record.exc_info and record.exc_info[1] is not None:
            trace = "".join(format_exception(record.exc_info[1]))
            if (shown := clean(trace)) != trace:
                record.exc_text, record.exc_info = shown.rstrip("\n"), None
        return True


_CLEANED: Final = _Cleaned()
_seen = 0


def listen() -> None:
    """Add the filter to all loggers of the libraries that exist by now; call it again
    when there may be more."""
    global _seen
    known = logging.root.manager.loggerDict
    if len(known) == _seen:
        return
    for name in (*_LIBRARIES, *_EARLY, *known):
        if name.partition(".")[0] in _LIBRARIES:
            logging.getLogger(name).addFilter(_CLEANED)  # adding it twice does nothing
    _seen = len(known)
