"""Incoming messages of a server: notifications, progress, and its own requests.

Callbacks for notifications and progress run one after another, in the order in which
they were received; each request runs in a task of its own. All of it is limited,
because a server may send anything: what exceeds a limit is dropped or refused, and
noted. Import this lazily: it needs the SDK.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

import anyio
import attrs
import mcp_types as types
from mcp.shared.dispatcher import (
    CallOptions,
    OnNotify,
    OnNotifyIntercept,
    OnRequest,
    Outbound,
    ProgressFnT,
    run_notify_intercept,
)
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.transport_context import TransportContext
from pydantic import ValidationError

import trio

from .framing import correlate

MOST_ASKED: Final = 16  # requests of the server in flight
MOST_UNHEARD: Final = 1024  # callbacks that have not run yet

Callback: TypeAlias = Callable[[], Awaitable[None]]


@attrs.define(eq=False, kw_only=True)
class IncomingMessages:
    """The receiving half of a `Wire`.

    Args:
      wire: sends requests of callbacks.
      nursery: runs the server's requests.
      on_request, on_notify, intercept: the SDK's callbacks.
      reply: queues an answer for the server; False if that is not possible.
      note: called with a line about what was dropped.
    """

    _wire: Outbound
    _nursery: trio.Nursery
    _on_request: OnRequest
    _on_notify: OnNotify
    _intercept: OnNotifyIntercept | None
    _reply: Callable[[Mapping[str, Any]], bool]
    _note: Callable[[bytes], None]
    _asked: dict[int | str, IncomingRequest] = attrs.field(factory=dict, init=False)
    _later: trio.MemorySendChannel[Callback] = attrs.field(init=False)
    _unheard: trio.MemoryReceiveChannel[Callback] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._later, self._unheard = trio.open_memory_channel(MOST_UNHEARD)

    async def call_back(self) -> None:
        """Run the callbacks, in the order in which their messages were received."""
        async for callback in self._unheard:
            try:
                await callback()
            except Exception as error:  # foreign code; its fault must not affect others
                self._note(f"a callback failed: {type(error).__name__}".encode())

    def hear(
        self,
        method: str,
        params: dict[str, Any] | None,
        progress_of: Callable[[int | str], ProgressFnT | None],
    ) -> None:
        """Take in a notification.

        ``progress_of`` returns the progress callback of a request.
        """
        if method == "notifications/cancelled":
            key = correlate((params or {}).get("requestId"))
            asked = None if key is None else self._asked.get(key)
            if asked is not None:
                asked.cancel()
        elif method == "notifications/progress" and params is not None:
            key = correlate(params.get("progressToken"))
            on_progress = None if key is None else progress_of(key)
            if on_progress is not None:
                self._progress(on_progress, params)
        if not run_notify_intercept(self._intercept, method, params):
            asked = IncomingRequest(None, self._wire)
            self._call_back(partial(self._on_notify, asked, method, params), method)

    def _progress(self, on_progress: ProgressFnT, params: dict[str, Any]) -> None:
        """Queue the progress callback of a request."""
        done, text = _number(params.get("progress")), params.get("message")
        if done is not None:
            total = _number(params.get("total"))
            text = text if isinstance(text, str) else None
            callback = partial(on_progress, done, total, text)
            self._call_back(callback, "notifications/progress")

    def _call_back(self, callback: Callback, method: str) -> None:
        """Queue a callback, or note that there is no room."""
        try:
            self._later.send_nowait(callback)
        except trio.WouldBlock:
            self._note(f"too many messages at once, dropped: {method}".encode())

    def ask(self, ident: object, method: str, params: dict[str, Any] | None) -> None:
        """Take in a request of the server, and answer it when its handler returns."""
        key = correlate(ident)
        if key is None or key in self._asked:
            self._note(f"a request whose id is not valid, or in use: {method}".encode())
        elif len(self._asked) >= MOST_ASKED:
            error = MCPError(types.INTERNAL_ERROR, "too many requests at once")
            self._answer(ident, error)
        else:
            self._asked[key] = asked = IncomingRequest(ident, self._wire)
            self._nursery.start_soon(self._serve, key, asked, method, params)

    async def _serve(
        self,
        key: int | str,
        asked: IncomingRequest,
        method: str,
        params: dict[str, Any] | None,
    ) -> None:
        """Run the handler of one request; answer unless the request was cancelled."""
        answer: dict[str, Any] | MCPError
        with asked.scope:
            try:
                answer = await self._on_request(asked, method, params)
            except MCPError as error:
                answer = error
            except ValidationError:
                answer = MCPError(types.INVALID_PARAMS, "invalid request parameters")
            except Exception:  # foreign code; its error is not sent to the server
                answer = MCPError(types.INTERNAL_ERROR, "the client cannot answer")
        del self._asked[key]
        asked.closed = True
        if not asked.cancel_requested.is_set():
            self._answer(asked.request_id, answer)

    def _answer(self, ident: Any, answer: dict[str, Any] | MCPError) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": ident}
        if isinstance(answer, MCPError):
            message["error"] = answer.error.model_dump(mode="json", exclude_none=True)
        else:
            message["result"] = answer
        if not self._reply(message):
            self._note(b"an answer to a request of the server is dropped")


@attrs.define(eq=False)
class IncomingRequest:
    """The SDK's `DispatchContext`: the context of a request or a notification.

    The ``request_id`` of a notification is None.
    """

    request_id: Any
    _wire: Outbound
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    cancel_requested: anyio.Event = attrs.field(factory=anyio.Event, init=False)
    closed: bool = attrs.field(default=False, init=False)
    transport: TransportContext = attrs.field(
        default=TransportContext(kind="stdio", can_send_request=True), init=False
    )
    message_metadata: None = attrs.field(default=None, init=False)

    @property
    def can_send_request(self) -> bool:
        return not self.closed

    def cancel(self) -> None:
        """Cancel the handler: the server no longer wants its answer."""
        self.cancel_requested.set()
        self.scope.cancel()

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
    ) -> dict[str, Any]:
        if self.closed:
            raise NoBackChannelError(method)
        return await self._wire.send_raw_request(method, params, opts)

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
    ) -> None:
        await self._wire.notify(method, params, opts)

    async def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Ignore progress: a client's answer to a server reports none."""
        await trio.lowlevel.checkpoint()


def _number(value: object) -> float | None:
    """Return a number as a float; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None
