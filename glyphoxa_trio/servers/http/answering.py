"""Passing on what the SDK answers, as an event stream or as plain JSON.

The SDK writes Server-Sent Events for clients that accept them. For a client that does
not, the answer is taken out of its event and sent as JSON. The answer to a request that
opens a session is held back until it is known whether the session exists, so that the
cookie can be sent with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import attrs
from starlette.types import Message, Send

import trio

from .replies import as_json, error_body

SSE: Final = b"text/event-stream"


@attrs.define(eq=False, kw_only=True)
class ResponseSender:
    """An ASGI ``send`` in front of the client's own.

    Args:
      plain: whether the client accepts no event stream.
      settled: returns whether it is decided if the session that this request opens
        exists.
      headers: returns headers to add when the answer begins, unless it is an error.
      without: returns the name of a header to remove when the answer begins, or None.
      gone: returns whether the session has ended meanwhile.
    """

    send: Send
    plain: bool = False
    settled: Callable[[], bool] = lambda: True
    headers: Callable[[], list[tuple[bytes, bytes]]] = list
    without: Callable[[], bytes | None] = lambda: None
    gone: Callable[[], bool] = lambda: False
    status: int | None = None
    done: bool = False
    _start: Message | None = None
    _held: list[Message] = attrs.field(factory=list)
    _lifting: bool = False
    _rest: bytes = b""
    _answer: bytes | None = None

    async def __call__(self, message: Message) -> None:
        if self.done:
            return  # the SDK answers an error of its own a second time
        if message["type"] == "http.response.start":
            if self.status is None:
                await self._begin(message)
        elif self._lifting:
            self._lift(message)
        else:
            await self._pass(message)

    async def end(self) -> None:
        """Send the JSON answer that was taken out of the events, as no more will come.

        If there is none, sends status 404: the session ended before the answer.
        """
        if not self.done and self._lifting:
            if self._answer is not None:
                await self._reply(200, self._answer)
            else:
                lost = error_body("the session ended before the answer")
                await self._reply(404, lost)

    async def _begin(self, message: Message) -> None:
        self.status = message["status"]
        if message["status"] >= 500 and self.gone():
            await self._reply(404, error_body("the session has ended"))
            return
        kinds = [value for name, value in message["headers"] if name == b"content-type"]
        if self.plain and kinds and kinds[0].startswith(SSE):
            self._lifting = True
            self._start = message
        else:
            self._held.append(message)
            await self._flush()

    async def _pass(self, message: Message) -> None:
        self._held.append(message)
        last = not message.get("more_body", False)
        # The first event with a message in it is the answer to `initialize`.
        told = b"data: {" in message.get("body", b"")
        await self._flush(last=last, told=told)

    async def _flush(self, *, last: bool = False, told: bool = False) -> None:
        if not (last or told or self.settled()):
            return
        held, self._held = self._held, []
        self.done = last
        # At the last piece hypercorn tells the SDK that the request is over, and the
        # SDK then cancels this send: without the shield, the connection would not
        # become idle again.
        # `connections` limits the time for each piece
        with trio.CancelScope(shield=last):
            for message in held:
                if message["type"] == "http.response.start":
                    headers = self._headers(message["status"], message["headers"])
                    message = {**message, "headers": headers}
                await self.send(message)

    def _lift(self, message: Message) -> None:
        *events, self._rest = (self._rest + message.get("body", b"")).split(b"\r\n\r\n")
        for event in events:
            for line in event.split(b"\r\n"):
                if line.startswith(b"data: {") and _is_answer(line[6:]):
                    self._answer = line[6:]

    async def _reply(self, status: int, body: bytes) -> None:
        self.done = True
        start = self._start or {"headers": []}
        kept = [(n, v) for n, v in start["headers"] if n == b"mcp-session-id"]
        for message in as_json(status, body, self._headers(status, kept)):
            await self.send(message)

    def _headers(self, status: int, headers: Any) -> list[tuple[bytes, bytes]]:
        without = self.without()
        more = self.headers() if status < 400 else []
        return [(n, v) for n, v in headers if n != without] + more


def _is_answer(data: bytes) -> bool:
    message = json.loads(data)
    return "result" in message or "error" in message
