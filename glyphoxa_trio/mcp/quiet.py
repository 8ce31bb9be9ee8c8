"""HTTPX logs the address of each request, and below it what servers answered.

An address may hold a key, and servers repeat what they were told. So addresses of
ours say no secret when they are printed, and what the HTTP stack logs while it
works for us is cleaned first. What it logs for others stays as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import httpx2

from glyphoxa_trio.config.servers import without_secrets

Clean = Callable[[str], str]
"""Takes the secrets out of a text."""

SHORTEST_SECRET: Final = 6  # below that, hiding it would blot out plain words

_LOGGERS: Final = ("httpx2", "httpcore2.http11", "httpcore2.http2")

_clean: ContextVar[Clean | None] = ContextVar("clean", default=None)


@contextmanager
def quiet(clean: Clean) -> Iterator[None]:
    """While in this block, the HTTP stack logs only what ``clean`` leaves over."""
    outer = _clean.set(clean)
    try:
        yield
    finally:
        _clean.reset(outer)


def hidden_in(address: str) -> tuple[str, ...]:
    """The parts of an address that nobody but its host should read."""
    url = httpx2.URL(address)
    texts = (url.userinfo.decode(), url.password, url.query.decode())
    return tuple(
        text for text in (*texts, *url.params.values()) if len(text) >= SHORTEST_SECRET
    )


class QuietURL(httpx2.URL):
    """An `httpx2.URL` whose text has no password, no query and no fragment."""

    def __str__(self) -> str:
        return without_secrets(super().__str__())

    def __repr__(self) -> str:
        return f"URL({str(self)!r})"


async def hush(request: httpx2.Request) -> None:
    """A hook of a client: what it sends has addresses without secrets."""
    request.url = QuietURL(request.url)


class _Cleaned(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        if (clean := _clean.get()) is not None:
            record.msg, record.args = clean(record.getMessage()), None
        return True


for _name in _LOGGERS:
    logging.getLogger(_name).addFilter(_Cleaned())
