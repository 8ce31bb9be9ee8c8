"""What an HTTP server says before its answer: "100 Continue", without end if it likes.

HTTPX passes over such interim statuses, and h11 takes apart all of them that one read
brought before anybody else gets a turn. So they are counted in the bytes, beneath both.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import attrs
import httpcore2

from . import bounds

_END: Final = re.compile(rb"\n\r?\n")  # of a status with its headers, as h11 has it
_INTERIM: Final = re.compile(rb"HTTP/\d\.\d 1(?!01)")
_OPENED: Final = ("connect_tcp.complete", "connect_unix_socket.complete")
_SECURED: Final = "start_tls.complete"


async def count_statuses(event: str, told: Mapping[str, Any]) -> None:
    """The ``trace`` of a request: a connection that is opened for it counts from now
    on, for every request that uses it."""
    if event.endswith((*_OPENED, _SECURED)):
        stream = told["return_value"]
        counted = _Counted(stream.read, stream.write)
        stream.read, stream.write = counted.read, counted.write


@attrs.define(eq=False)
class _Counted:
    """Reading and writing of one connection."""

    _read: Callable[..., Awaitable[bytes]]
    _write: Callable[..., Awaitable[None]]
    # What came of a status that is not whole; None behind the answer's own.
    _head: bytearray | None = attrs.field(factory=bytearray, init=False)
    _interim: int = attrs.field(default=0, init=False)

    async def write(self, *args: Any, **options: Any) -> None:
        self._head, self._interim = bytearray(), 0
        await self._write(*args, **options)

    async def read(self, *args: Any, **options: Any) -> bytes:
        """Raises httpcore2.RemoteProtocolError: for too many of them."""
        data = await self._read(*args, **options)
        if self._head is not None:
            self._head += data
            self._look(self._head)
        return data

    def _look(self, head: bytearray) -> None:
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
