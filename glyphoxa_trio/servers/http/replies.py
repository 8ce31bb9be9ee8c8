"""Short answers of our own, as ASGI messages, and reading requests to their end.

A request is always read: hypercorn cannot send an answer before the body has been read,
since its queue of body pieces stays full.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

import attrs
from starlette.types import Message, Receive, Send

import trio

INVALID_REQUEST: Final = -32600
_POLITE: Final = 2.0  # seconds during which a refused client may still send its body
_TALK: Final = 8 * 1024 * 1024  # bytes of the body that it may still send


def error_body(message: str, code: int = INVALID_REQUEST) -> bytes:
    """Return a JSON-RPC error without an id."""
    error = {"code": code, "message": message}
    return json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()


def as_json(
    status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]] = ()
) -> list[Message]:
    start = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *headers,
    ]
    return [
        {"type": "http.response.start", "status": status, "headers": start},
        {"type": "http.response.body", "body": body},
    ]


@attrs.define(eq=False)
class Intake:
    """A request's ``receive`` that remembers whether the whole body has come."""

    _receive: Receive
    ended: bool = False

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            self.ended = True
        return message


class TooLong(Exception):
    """A body is longer than the limit."""


async def read_body(receive: Receive, most: int) -> bytes | None:
    """Return a request's whole body; None if the client has disconnected.

    Raises:
      TooLong: as soon as more than ``most`` bytes have come.
    """
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if len(body) > most:
            raise TooLong
        if not message.get("more_body", False):
            return bytes(body)


async def refuse(
    intake: Intake,
    send: Send,
    status: int,
    body: bytes,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Answer a request whose body has not been read, or not to its end."""
    written = [
        (name.lower().encode(), value.encode("latin-1"))
        for name, value in (headers or {}).items()
    ]
    with trio.move_on_after(_POLITE):
        await _drain(intake, _TALK)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_drain, intake, None)
        for message in as_json(status, body, written):
            await send(message)
        nursery.cancel_scope.cancel()


async def _drain(intake: Intake, most: int | None) -> None:
    read = 0
    while not intake.ended and (most is None or read <= most):
        read += len((await intake()).get("body", b""))
