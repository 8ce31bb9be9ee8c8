"""What libraries log while they work for us is cleaned first.

An address may hold a key, a request has one in its headers, and servers repeat what
they were told: an HTTP client logs all of it at DEBUG. What these libraries log for
others, and whether it is shown at all, stays as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from traceback import format_exception
from typing import Final

Clean = Callable[[str], str]
"""Takes the secrets out of a text."""

# By these names, and below them. `client` is what the MCP SDK calls one of its own.
_LIBRARIES: Final = (
    *("client", "h11", "hpack", "httpcore2", "httpx2", "hypercorn", "mcp", "mcp_types"),
    *("trio-websocket", "wsproto"),
)
# Those of them that log before anything of theirs is known here.
_EARLY: Final = tuple(
    f"httpcore2.{part}" for part in ("connection", "http11", "http2", "proxy", "socks")
)

_clean: ContextVar[Clean | None] = ContextVar("clean", default=None)


@contextmanager
def quiet(clean: Clean) -> Iterator[None]:
    """While in this block, and in tasks that start in it, libraries log only what
    ``clean`` leaves over."""
    outer = _clean.get()
    listen()
    token = _clean.set(clean if outer is None else lambda text: clean(outer(text)))
    try:
        yield
    finally:
        _clean.reset(token)


def cleaned(text: str) -> str:
    """The text as it may be logged here: what a whole runtime keeps secret is hidden,
    while one runs."""
    clean = _clean.get()
    return text if clean is None else clean(text)


class _Cleaned(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if (clean := _clean.get()) is None:
            return True
        try:
            said = record.getMessage()
        except Exception:  # foreign code: the handler complains of it
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
    """Clean what the libraries' loggers say that there are by now; again if there may
    be more of them."""
    global _seen
    known = logging.root.manager.loggerDict
    if len(known) == _seen:
        return
    for name in (*_LIBRARIES, *_EARLY, *known):
        if name.partition(".")[0] in _LIBRARIES:
            logging.getLogger(name).addFilter(_CLEANED)  # once, however often
    _seen = len(known)
