"""Read the body of a model server's response as payloads, whatever its type says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import attrs

import trio

if TYPE_CHECKING:
    import httpx2

# The content types of servers and proxies that stream without saying so.
_STREAMS: Final = ("text/event-stream", "text/plain", "application/octet-stream", "")


class Payload(Protocol):
    """A payload of a stream."""

    @property
    def data(self) -> str: ...


Payloads = AsyncIterator[Payload]


@attrs.frozen
class _Text:
    data: str


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
    """Return the events of a stream. A byte order mark at its beginning is skipped."""
    import httpx2

    response.headers["content-type"] = "text/event-stream"
    response.encoding = "utf-8-sig"
    return aiter(httpx2.EventSource(response))


def _kind(response: httpx2.Response) -> str:
    kind = response.headers.get("content-type", "").partition(";")[0]
    return kind.strip().lower()
