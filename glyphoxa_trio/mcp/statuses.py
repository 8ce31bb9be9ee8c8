"""A limit on interim responses, like "100 Continue".

A server may send them without end. HTTPX ignores them, and h11 parses all of them that
one read brought before another task can run. So they are counted in the bytes, below
both.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import attrs
import httpcore2

from . import bounds

# Of a status line with its headers, as h11 defines it.
_END: Final = re.compile(rb"\n\r?\n")
_INTERIM: Final = re.compile(rb"HTTP/\d\.\d 1(?!01)")
_OPENED: Final = ("connect_tcp.complete", "connect_unix_socket.complete")
_SECURED: Final = "start_tls.complete"


async def count_statuses(event: str, told: Mapping[str, Any]) -> None:
    """The ``trace`` of a request: count interim responses on its connection.

    A connection that is opened for the request is counted from now on, for every
    request that uses it.
    """
    if event.endswith((*_OPENED, _SECURED)):
        stream = told["return_value"]
        counted = _Counted(stream.read, stream.write)
        stream.read, stream.write = counted.read, counted.write


@attrs.define(eq=False)
class _Counted:
    """The read and write functions of one connection, with a count."""

    _read: Callable[..., Awaitable[bytes]]
    _write: Callable[..., Awaitable[None]]
    # The part of a status that has arrived; None after the final status.
    _head: bytearray | None = attrs.field(factory=bytearray, init=False)
    _interim: int = attrs.field(default=0, init=False)

    async def write(self, *args: Any, **options: Any) -> None:
        """Write, and start counting anew: a request follows."""
        self._head, self._interim = bytearray(), 0
        await self._write(*args, **options)

    async def read(self, *args: Any, **options: Any) -> bytes:
        """Read and count.

        Raises:
          httpcore2.RemoteProtocolError: for too many interim responses.
        """
        data = await self._read(*args, **options)
        if self._head is not None:
            self._head += data
            self._look(self._head)
        return data

    def _look(self, head: bytearray) -> None:
        """Count the interim responses that are complete."""
        start = 0
        while found := _END.search(head, start):
            if not _INTERIM.match(head, start):
                self._head = None
                return
            start = found.end()
            self._interim += 1
            if self._interim > bounds.MOST_INTERIM:
                most = bounds.MOST_INTERIM
                text = f"it sent more than {most} interim statuses before its answer"
                raise httpcore2.RemoteProtocolError(text)
        del head[:start]
