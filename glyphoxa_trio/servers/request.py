"""What is asked of a server, by whom, and the way back. No I/O."""

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
    """The answer to a request that has no result."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class Channel(Protocol):
    """The way back to a client, for as long as one request of its runs."""

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Raises nothing: a client that is gone is told nothing."""
        ...

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """What the client answers.

        Raises:
          RpcError: if it refuses, or cannot be asked on this transport.
        """
        ...


@attrs.define(eq=False, kw_only=True)
class Client:
    """One client, for as long as its session lasts.

    Args:
      session: which one it is; empty for requests that have nothing to do with each
        other.
      version: of the protocol, as agreed on.
      subscriptions: the URIs it wants to hear of.
      log_level: from which on it wants to read our log; a request without a session
        says so itself.
    """

    session: str = ""
    version: str = ""
    capabilities: Mapping[str, Any] = attrs.field(factory=dict)
    subscriptions: set[str] = attrs.field(factory=set)
    log_level: str = "info"

    def agree(self, version: str, capabilities: Mapping[str, Any]) -> None:
        """A handshake, the first or another one: what it subscribed to stays."""
        self.version, self.capabilities = version, capabilities

    def read_log_from(self, level: str) -> None:
        self.log_level = level


@attrs.frozen(eq=False, kw_only=True)
class ClientRequest:
    """One question of a client's. ``params`` is an object of JSON, unchecked."""

    method: str
    params: Mapping[str, Any]
    client: Client
    channel: Channel

    def text(self, name: str) -> str:
        """A parameter that must be there, and be text.

        Raises:
          RpcError: naming it.
        """
        value = self.params.get(name)
        if not isinstance(value, str):
            raise RpcError(INVALID_PARAMS, f"params.{name} must be a string")
        return value

    def meta(self, name: str) -> Any:
        """What the request says of itself, unchecked; None if it does not."""
        meta = self.params.get("_meta")
        return meta.get(name) if isinstance(meta, Mapping) else None

    async def progress(
        self, progress: float, total: float | None = None, message: str = ""
    ) -> None:
        """Tell the client how far this is, if it wants to know."""
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
        """Tell the client's log, if it wants to read of such things.

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


# In a handler: the request that it answers, for progress, logs and questions.
ASKED: Final[ContextVar[ClientRequest]] = ContextVar("ASKED")
