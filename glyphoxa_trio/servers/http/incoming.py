"""One HTTP request, read completely, as it is passed on to the SDK."""

from __future__ import annotations

from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final

import attrs
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.types import Receive, Scope, Send

from .bridge import EXCHANGE, HttpExchange
from .message import BadMessage, HttpMessage, read_message
from .replies import INVALID_REQUEST, error_body

COOKIE: Final = "mcp_session"
_STREAMS: Final = frozenset({"text/event-stream", "text/*"})
_PLAIN: Final = frozenset({"application/json", "application/*", "*/*"})


class RequestRefused(Exception):
    """A request that is refused here, with an HTTP status and a JSON-RPC error."""

    def __init__(
        self,
        status: int,
        message: str,
        headers: Mapping[str, str] | None = None,
        *,
        code: int = INVALID_REQUEST,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = error_body(message, code)
        self.headers = headers or {}


@attrs.define(eq=False)
class HttpRequest:
    """One request whose body has been read, with the headers that the SDK is to see."""

    scope: Scope
    headers: dict[str, str]
    owner: str
    body: bytes
    receive: Receive
    send: Send
    _changed: dict[bytes, bytes] = attrs.field(factory=dict)
    _replayed: bool = False

    @property
    def method(self) -> str:
        return str(self.scope["method"])

    @property
    def accepted(self) -> set[str]:
        kinds = self.headers.get("accept", "*/*").lower().split(",")
        return {kind.partition(";")[0].strip() for kind in kinds}

    @property
    def is_plain(self) -> bool:
        """True if the client did not ask for an event stream; ``*/*`` asks for none."""
        return not self.accepted & _STREAMS

    @property
    def is_alone(self) -> bool:
        """True for a request without a session, as its protocol version shows."""
        version = self.headers.get("mcp-protocol-version")
        return version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS

    @property
    def cookie(self) -> str | None:
        try:
            cookie = SimpleCookie(self.headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return None
        return cookie.value if cookie is not None else None

    def message(self) -> HttpMessage:
        try:
            message = read_message(self.body)
        except BadMessage as bad:
            raise RequestRefused(400, str(bad), code=bad.code) from None
        self.body = message.body
        return message

    def accept(self) -> None:
        """Set the ``Accept`` header that the SDK requires.

        `ResponseSender` adapts its answer.
        """
        if not self.accepted & (_PLAIN | _STREAMS):
            raise RequestRefused(406, "Not Acceptable: answers are application/json")
        self.set_header(b"accept", b"application/json, text/event-stream")

    def set_session(self, number: str) -> None:
        self.set_header(b"mcp-session-id", number.encode())

    def set_header(self, name: bytes, value: bytes) -> None:
        self._changed[name] = value

    def handed_on(self, exchange: HttpExchange) -> Scope:
        kept = [
            (name, value)
            for name, value in self.scope["headers"]
            if name.lower() not in self._changed
        ]
        headers = [*kept, *self._changed.items()]
        return {**self.scope, "headers": headers, EXCHANGE: exchange}

    async def replayed(self) -> Any:
        if self._replayed:
            return await self.receive()
        self._replayed = True
        return {"type": "http.request", "body": self.body, "more_body": False}
