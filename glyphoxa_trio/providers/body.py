"""Read the body of a model server's response as payloads, whatever its type says."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

import trio

if TYPE_CHECKING:
    import httpx2

# The content types of servers and proxies that stream without saying so.
_STREAMS: Final = ("text/event-stream", "text/plain", "application/octet-stream", "")


MAX_TEXT: Final = 256 * 1024  # characters of a body that is no stream, read as text
NO_STREAM: Final = "body"
"""The ``event`` of a payload that is a whole body, because it is no stream."""


class Payload(Protocol):
    """A payload of a stream. ``event`` is its name, by default "message"."""

    @property
    def data(self) -> str: ...

    @property
    def event(self) -> str: ...


Payloads = AsyncIterator[Payload]


@attrs.frozen
class _Text:
    data: str
    event: str = "message"


@attrs.define(eq=False)
class Given:
    """Payloads that have all arrived."""

    _texts: Sequence[str]
    _at: int = attrs.field(default=0, init=False)

    def __aiter__(self) -> Given:
        return self

    async def __anext__(self) -> Payload:
        await trio.lowlevel.checkpoint()
        if self._at == len(self._texts):
            raise StopAsyncIteration
        self._at += 1
        return _Text(self._texts[self._at - 1])


def is_stream(response: httpx2.Response) -> bool:
    """Return whether a response is a stream of events, or may be one."""
    return 200 <= response.status_code < 300 and _kind(response) in _STREAMS


def is_json(response: httpx2.Response) -> bool:
    """Return whether a successful response is JSON as a whole."""
    return 200 <= response.status_code < 300 and _kind(response).endswith("json")


def payloads_of(response: httpx2.Response) -> Payloads:
    """Return the events of a stream. A byte order mark at its beginning is skipped.

    A body without any event, such as plain JSON or a web page, is one `NO_STREAM`.
    """
    response.headers["content-type"] = "text/event-stream"
    response.encoding = "utf-8-sig"
    return _events(_BodyText(response))


async def hang_up(response: httpx2.Response, content: AsyncIterator[object]) -> None:
    """Close the connection, unless the answer has been read to its end.

    ``content`` is the last of several generators of the client, which do not close one
    another. Read once more, over a closed connection, each of them fails and ends,
    instead of being found by the garbage collector.
    """
    import httpx2

    with suppress(httpx2.HTTPError, httpx2.StreamError):
        await response.aclose()
    with suppress(httpx2.HTTPError, httpx2.StreamError):
        async for _ in content:
            pass


@attrs.define(eq=False)
class _BodyText:
    """The text of a response, of which the beginning is kept until its first event."""

    response: httpx2.Response
    kept: list[str] | None = attrs.field(factory=list, init=False)
    pieces: AsyncIterator[str] | None = attrs.field(default=None, init=False)
    ended: bool = attrs.field(default=False, init=False)
    _size: int = attrs.field(default=0, init=False)

    @property
    def headers(self) -> Mapping[str, str]:
        return self.response.headers

    @property
    def request(self) -> httpx2.Request:
        return self.response.request

    def aiter_text(self) -> AsyncIterator[str]:
        self.pieces = self._read()
        return self.pieces

    async def _read(self) -> AsyncIterator[str]:
        async for piece in self.response.aiter_text():
            if self.kept is not None and self._size < MAX_TEXT:
                self._size += len(piece)
                self.kept.append(piece)
            yield piece
        self.ended = True
        yield "\n\n"  # some leave out the end of the last event


async def _events(text: _BodyText) -> Payloads:
    import httpx2

    source: Any = text  # all that is read of a response
    try:
        async for event in httpx2.EventSource(source):
            text.kept = None
            if not text.ended or _is_complete(event.data):
                yield event
    except httpx2.SSEError:
        if text.pieces is not None:
            await hang_up(text.response, text.pieces)
        raise
    lines = "".join(text.kept or ()).splitlines()
    if body := "\n".join(x for x in lines if not x.startswith(":")).strip():
        yield _Text(body, NO_STREAM)


def _is_complete(data: str) -> bool:
    """Return whether a payload at the end of a stream is all there."""
    last = data.rstrip().rpartition("\n")[2].strip().removeprefix("data:").strip()
    try:
        json.loads(last)
    except (ValueError, RecursionError):
        return last == "[DONE]"
    return True


def _kind(response: httpx2.Response) -> str:
    kind = response.headers.get("content-type", "").partition(";")[0]
    return kind.strip().lower()
