"""The answer of a server: its status, its headers, and its body up to a limit."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing, suppress
from typing import Final

import attrs
import httpcore2

import trio

from glyphoxa_trio.tools.definition import ToolError

from .refusals import PageNotFound, PageRefused, SiteFails, TooOften, Unreadable
from .retrying import patience, waiting
from .text import language_of
from .unpacking import Body
from .urls import PageUrl

_MISSING: Final = frozenset({404, 410})
_CLOSED: Final = frozenset({401, 402, 403, 407, 451})
_GRACE: Final = 0.05  # seconds
_NEAR: Final = 32 * 1024  # bytes


@attrs.frozen(eq=False)
class HttpAnswer:
    """The head of an answer; the body is read on demand.

    Header names are in lower case.
    """

    status: int
    headers: Mapping[str, str]
    _response: httpcore2.Response

    @classmethod
    def of(cls, response: httpcore2.Response) -> HttpAnswer:
        headers: dict[str, str] = {}
        for raw, value in response.headers:
            name = raw.decode("latin-1").lower()
            text = _text(value)
            if name == "content-encoding" and name in headers:
                text = f"{headers[name]}, {text}"  # compressed more than once
            elif name in headers:
                continue
            headers[name] = text
        return cls(response.status, headers, response)

    @property
    def language(self) -> str | None:
        return language_of(self.headers.get("content-language"))

    async def body(self, cap: int) -> tuple[bytes, bool]:
        """Return at most ``cap`` bytes, decompressed, and whether there are more.

        Raises:
          Unreadable: if it cannot be decompressed.
        """
        body = Body(self.headers.get("content-encoding", ""), cap)
        async with aclosing(self._response.aiter_stream()) as pieces:
            async for piece in pieces:
                if not body.feed(piece):
                    break
        data = body.end()
        return data, body.truncated

    async def leave(self) -> None:
        """Read a short rest of the body, so that the connection can be reused."""
        with trio.move_on_after(_GRACE), suppress(Unreadable):
            await self.body(_NEAR)


def problem(answer: HttpAnswer, url: PageUrl) -> ToolError | None:
    """Return the reason why an answer has no page; None if it has one."""
    status, host = answer.status, url.host
    if status == 200 or status == 203:
        return None
    if status in _MISSING:
        return PageNotFound(f"There is no such page at {host}.")
    if status in _CLOSED:
        return PageRefused(f"The site {host} does not let us read that page.")
    if status in (429, 503):
        wait = waiting(patience(answer.headers))
        if status == 429 or wait:
            return TooOften(f"The site {host} asks us to come back {wait or 'later'}.")
    if status in (204, 205):
        return Unreadable("The page is empty.")
    if status >= 500:
        return SiteFails(f"The site {host} does not work at the moment ({status}).")
    return SiteFails(f"The site {host} does not give that page ({status}).")


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
