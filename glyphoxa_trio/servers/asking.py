"""Requests from a server to its client, and notifications beside the answers.

A handler may ask the client for a completion by its model, for an answer of its user
(elicitation), or for its root directories. `Asking` numbers those requests and matches
the answers; `Back` is the channel that a handler gets for the time of its request.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from itertools import count
from typing import Any, Final

import attrs

import trio

from . import jsonrpc
from .jsonrpc import INVALID_REQUEST
from .outbox import LineOutbox
from .request import INTERNAL_ERROR, Client, RpcError

PATIENCE: Final = 300.0  # seconds; long, because the question may go to a person
MOST_ASKED: Final = 64  # requests to one client that may be open at once

REQUEST_TIMEOUT: Final = -32001
CONNECTION_CLOSED: Final = -32000

# The capability that a client must have announced before it may be asked this.
NEEDED: Final[Mapping[str, str]] = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}

_log = logging.getLogger(__name__)


@attrs.define(eq=False)
class _PendingQuestion:
    reply: jsonrpc.RpcReply | None = None
    answered: trio.Event = attrs.field(factory=trio.Event)


@attrs.define(eq=False)
class Asking:
    """The requests to one client that it has not answered yet."""

    _outbox: LineOutbox
    _asked: dict[jsonrpc.Id, _PendingQuestion] = attrs.field(factory=dict, init=False)
    _ids: count[int] = attrs.field(factory=lambda: count(1), init=False)
    _gone: bool = attrs.field(default=False, init=False)

    def __len__(self) -> int:
        return len(self._asked)

    async def request(
        self, client: Client, method: str, params: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Send a request to the client, and return the result that it answers.

        If cancelled, sends the client a ``notifications/cancelled`` for the request.

        Raises:
          RpcError: if the client refuses, lacks the capability, has disconnected, has
            64 other requests open, or takes more than five minutes.
        """
        needed = NEEDED.get(method)
        if needed is not None and needed not in client.capabilities:
            raise RpcError(INVALID_REQUEST, f"the client has no {needed}")
        if len(self._asked) >= MOST_ASKED:
            wrong = f"the client has {MOST_ASKED} other requests to answer"
            raise RpcError(INTERNAL_ERROR, wrong)
        if self._gone:
            raise RpcError(CONNECTION_CLOSED, "the client has disconnected")
        ident, asked, sent = next(self._ids), _PendingQuestion(), False
        message = {"jsonrpc": "2.0", "id": ident, "method": method, "params": params}
        line = jsonrpc.write(message)
        self._asked[ident] = asked
        try:
            await self._outbox.put(line)
            sent = True
            with trio.move_on_after(PATIENCE):
                await asked.answered.wait()
        finally:
            del self._asked[ident]
            if sent and not asked.answered.is_set():
                self._forget(ident)
        if not asked.answered.is_set():
            raise RpcError(REQUEST_TIMEOUT, "the client did not answer")
        reply = asked.reply
        if reply is None:
            raise RpcError(CONNECTION_CLOSED, "the client has disconnected")
        if reply.error is not None:
            raise _refusal(reply.error)
        return dict(reply.result)

    def answered(self, reply: jsonrpc.RpcReply) -> None:
        """Take an answer from the client; drop one that matches no request."""
        for ident in (reply.id, jsonrpc.same_id(reply.id)):
            asked = None if ident is None else self._asked.get(ident)
            if asked is not None:
                asked.reply = reply
                asked.answered.set()
                return

    def hang_up(self) -> None:
        """End every open request with an error: the client has disconnected."""
        self._gone = True
        for asked in self._asked.values():
            asked.answered.set()

    def _forget(self, ident: jsonrpc.Id) -> None:
        params = {"requestId": ident, "reason": "the request was cancelled"}
        message = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
        self._outbox.put_nowait(jsonrpc.write(message | {"params": params}))


def _refusal(error: Mapping[str, Any]) -> RpcError:
    code, message = error.get("code"), error.get("message")
    return RpcError(
        code if type(code) is int else INTERNAL_ERROR,
        message[:1000] if isinstance(message, str) else "the client refused",
        error.get("data"),
    )


@attrs.define(eq=False)
class Back:
    """The channel back to the client for the time that one request runs.

    After `close`, notifications are dropped and requests are refused.

    Args:
      asking: None for a client that cannot be asked, as in the version of the protocol
        without a handshake.
    """

    _outbox: LineOutbox
    _asking: Asking | None
    _client: Client
    _over: bool = attrs.field(default=False, init=False)

    def close(self) -> None:
        """Close the channel, because its request is over."""
        self._over = True

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        if self._over:
            return
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        try:
            line = jsonrpc.write(message)
        except jsonrpc.NotSendable as error:
            _log.error("%s cannot be written as JSON: %s", method, error)
            return
        await self._outbox.put(line)

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if self._over or self._asking is None:
            wrong = "this version of the protocol has no requests to the client"
            raise RpcError(INVALID_REQUEST, wrong)
        return await self._asking.request(self._client, method, params)
