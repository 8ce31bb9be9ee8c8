"""A request to a server, the client that sent it, and the channel back. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final, Protocol

import attrs

from glyphoxa_trio.errors import GlyphoxaError

METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
RESOURCE_NOT_FOUND: Final = -32002


LEVELS: Final = (
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
)
_LEVEL: Final = "io.modelcontextprotocol/logLevel"


class RpcError(GlyphoxaError):
    """An error that is answered in place of a result."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class Channel(Protocol):
    """The way back to a client, while one of its requests runs."""

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification. Raises nothing: a client that is gone gets none."""
        ...

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request to the client, and return its result.

        Raises:
          RpcError: if the client refuses, or cannot be asked on this transport.
        """
        ...


@attrs.define(eq=False, kw_only=True)
class Client:
    """One client, for as long as its session lasts.

    Args:
      session: the id of the session; empty if the client's requests have nothing to do
        with each other.
      version: the version of the protocol, as agreed on.
      subscriptions: the URIs of the resources that it subscribed to.
      log_level: the lowest level of our log that it wants to read; a request without a
        session carries the level itself.
    """

    session: str = ""
    version: str = ""
    capabilities: Mapping[str, Any] = attrs.field(factory=dict)
    subscriptions: set[str] = attrs.field(factory=set)
    log_level: str = "info"

    def agree(self, version: str, capabilities: Mapping[str, Any]) -> None:
        """Store the result of a handshake; the subscriptions stay."""
        self.version, self.capabilities = version, capabilities

    def read_log_from(self, level: str) -> None:
        self.log_level = level


@attrs.frozen(eq=False, kw_only=True)
class ClientRequest:
    """One request of a client. ``params`` is a JSON object, unchecked."""

    method: str
    params: Mapping[str, Any]
    client: Client
    channel: Channel

    def text(self, name: str) -> str:
        """Return a parameter that must be there and be a string.

        Raises:
          RpcError: if it is not; the message names it.
        """
        value = self.params.get(name)
        if not isinstance(value, str):
            raise RpcError(INVALID_PARAMS, f"params.{name} must be a string")
        return value

    def meta(self, name: str) -> Any:
        """Return an entry of the request's ``_meta``, unchecked; None if absent."""
        meta = self.params.get("_meta")
        return meta.get(name) if isinstance(meta, Mapping) else None

    async def progress(
        self, progress: float, total: float | None = None, message: str = ""
    ) -> None:
        """Send the progress of this request to the client, if it asked for that."""
        token = self.meta("progressToken")
        if not isinstance(token, int | str) or isinstance(token, bool):
            return
        told: dict[str, Any] = {"progressToken": token, "progress": progress}
        if total is not None:
            told["total"] = total
        if message:
            told["message"] = message
        await self.channel.notify("notifications/progress", told)

    async def log(self, level: str, data: Any, logger: str = "") -> None:
        """Send a line to the client's log, if it wants to read that level.

        Args:
          level: one of `LEVELS`.
        """
        wanted = self.client.log_level if self.client.session else self.meta(_LEVEL)
        if wanted not in LEVELS or LEVELS.index(level) < LEVELS.index(wanted):
            return
        told = {"level": level, "data": data}
        if logger:
            told["logger"] = logger
        await self.channel.notify("notifications/message", told)


# Within a handler: the request that it answers, for progress, logs and questions.
ASKED: Final[ContextVar[ClientRequest]] = ContextVar("ASKED")
