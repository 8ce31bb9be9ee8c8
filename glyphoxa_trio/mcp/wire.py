"""A dispatcher for the SDK's `ClientSession`, on two trio streams.

The SDK's own dispatcher carries every message through four tasks, three memory streams
and twice through a model. This one has a reader, a writer, and callers that sleep until
their answer wakes them. It promises more than the SDK's:

* Cancelling a request takes effect at once. A request of which nothing was written is
  then not sent at all; otherwise ``notifications/cancelled`` is queued, and the caller
  does not wait until the pipe takes it.
* When the connection ends, all requests end with it: with `RequestUnsent` if none of
  their bytes was written, or certainly none was read, so that they may be sent again;
  with `ConnectionEnded` otherwise.
* Everything is limited: what waits to be written, and what `incoming` takes in.
* A line too large for the loop is read by a `Condenser`, if it answers a request. A
  line too large for that ends its request, but not the connection.
* A line that is not a message is noted and ignored. An answer that belongs to a known
  request, but cannot be used, ends that request at once.

Import this lazily: it needs the SDK.
"""

from __future__ import annotations

import select
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import anyio
import anyio.abc
import attrs
import mcp_types as types
import outcome
from mcp.shared.dispatcher import (
    CallOptions,
    OnNotify,
    OnNotifyIntercept,
    OnRequest,
    ProgressFnT,
)
from mcp.shared.exceptions import MCPError

import trio

from glyphoxa_trio.tracing import Span

from .condensing import ENDS, Condenser, Unasked, Unusable, ident_in, is_unasked
from .framing import (
    LONGEST_MESSAGE,
    ByteOutbox,
    FrameNotSendable,
    Framing,
    Large,
    LineTooLarge,
    correlate,
    decode,
    encode,
    misspelt_answer,
)
from .incoming import IncomingMessages
from .rate_limit import RateLimit
from .tracing import answered, span_of
from .transport import SessionLost

_CHUNK: Final = 2**14  # bytes: reading a flood on stdout must not delay other tasks
_MEGABYTES: Final = f"{LONGEST_MESSAGE >> 20} MB"


class ConnectionEnded(MCPError):
    """The connection ended, and the request may have reached the server."""

    def __init__(self) -> None:
        super().__init__(types.CONNECTION_CLOSED, "Connection closed")


class RequestUnsent(MCPError):
    """The server read nothing of the request: the connection ended, or is clogged."""

    def __init__(self, *, clogged: bool = False) -> None:
        if clogged:
            super().__init__(types.INTERNAL_ERROR, "it does not read its input")
        else:
            super().__init__(types.CONNECTION_CLOSED, "Connection closed")


Settle = Callable[[outcome.Maybe[Any]], object]


@attrs.define(eq=False)
class _Request:
    """A request of ours that has no answer yet."""

    ident: int | str
    settle: Settle
    on_progress: ProgressFnT | None
    polite: bool
    method: str
    params: Mapping[str, Any] | None
    span: Span
    # Set while its large answer is being read.
    reading: trio.CancelScope | None = None
    # The number of bytes written before this request; None if it is not written yet.
    offset: int | None = None

    @property
    def written(self) -> bool:
        """True once the request is written, or being written."""
        return self.offset is not None

    def end(self, answer: outcome.Maybe[Any]) -> None:
        """Settle the request, which is in no table any more."""
        answered(self.span, answer)
        self.settle(answer)


@attrs.define(eq=False)
class _Traffic:
    """A count of the bytes that were sent, and of those the server may have read."""

    _written: int = 0  # an upper bound
    _sending: int = 0  # of these, certainly not written yet

    def count(self, data: bytes) -> int:
        """Count bytes that were written; return how many were written before them."""
        before = self._written
        self._written += len(data)
        return before

    def begin(self, data: bytes) -> int:
        """Count bytes that are being written; return how many were before them."""
        # A pipe takes so few bytes all at once or not at all: while the writer still
        # waits, none of them is written.
        self._sending = len(data) if len(data) <= select.PIPE_BUF else 0
        return self.count(data)

    def over(self) -> None:
        """Note that the bytes of `begin` are written."""
        self._sending = 0

    def read(self, unread: int | None) -> int:
        """Return how many bytes were read at most.

        ``unread`` is how many certainly were not read, if that is known.
        """
        return self._written - (0 if unread is None else unread + self._sending)


@attrs.define(eq=False)
class PipeDispatcher:
    """An SDK `Dispatcher` over the pipes of a server. Use it once.

    Args:
      receive: the server's output.
      send: the server's input.
      loss: takes the reason why the connection ended, before any request ends.
      note: called with each line of the server that is not a message for us.
      fate: called when a stream ends: returns what became of the server, or None if it
        still runs. It may take a moment, in which answers are still read.
      unread: called at the end: returns how many of the bytes written last have not
        been read and never will be; None if that is not certain.
      write_now: writes at most `select.PIPE_BUF` bytes, at once and as a whole, or
        returns False.
      condenser: reads large answers.
    """

    _receive: trio.abc.ReceiveStream
    _send: trio.abc.SendStream
    loss: SessionLost
    _note: Callable[[bytes], None]
    _fate: Callable[[], Awaitable[str | None]]
    _unread: Callable[[], int | None] = lambda: None
    _write_now: Callable[[bytes], bool] = lambda data: False
    condenser: Condenser = attrs.field(factory=Condenser)
    _chatter: RateLimit = attrs.field(factory=RateLimit, init=False)
    _nursery: trio.Nursery = attrs.field(init=False)
    # The line that is being dropped has already ended its request.
    _refused: bool = attrs.field(default=False, init=False)
    # One large line at a time: each may take 16 MiB.
    _large: trio.Semaphore = attrs.field(factory=lambda: trio.Semaphore(1), init=False)
    _hearing: IncomingMessages | None = attrs.field(default=None, init=False)
    _closed: bool = attrs.field(default=False, init=False)
    _over: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _traffic: _Traffic = attrs.field(factory=_Traffic, init=False)
    _counter: int = attrs.field(default=0, init=False)
    _requests: dict[int | str, _Request] = attrs.field(factory=dict, init=False)
    _outbox: ByteOutbox = attrs.field(factory=ByteOutbox, init=False)
    _idle_writer: trio.lowlevel.Task | None = attrs.field(default=None, init=False)

    # ------------------------------------------------------- what we send

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
    ) -> dict[str, Any]:
        """Send a request and wait for its result.

        Cancelling takes effect at once, and tells the server if the request was sent.

        Raises:
          MCPError: the server's error, `ConnectionEnded`, `RequestUnsent`, `Unusable`,
            REQUEST_TIMEOUT, or INVALID_PARAMS for what JSON cannot express or is too
            long.
          ValueError: if the caller's own ``request_id`` is not valid, or in use.
        """
        return await self._request(method, params, opts or {})

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
    ) -> None:
        """Queue a notification; without room or a connection it is dropped.

        Raises:
          MCPError: INVALID_PARAMS, as for a request.
        """
        await trio.lowlevel.checkpoint()
        self._tell(method, params)

    async def _request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions
    ) -> dict[str, Any]:
        """Send a request, and wait for its result or its time-out."""
        settle = partial(trio.lowlevel.reschedule, trio.lowlevel.current_task())
        request, key = self._sent(method, params, opts, settle)
        timeout = opts.get("timeout")
        if timeout is None:
            return await self._answer(request, key)
        with trio.move_on_after(timeout):
            return await self._answer(request, key)
        raise MCPError(types.REQUEST_TIMEOUT, f"no answer within {timeout:g} s")

    def begin(
        self, method: str, params: Mapping[str, Any], settle: Settle
    ) -> Callable[[], None]:
        """Send a request without waiting for its result.

        Args:
          settle: called with the result or the error as soon as it is known, in the
            task that knows it first. Must not raise.

        Returns the function that gives the request up: ``settle`` is not called any
        more, and the server is told if the request was sent. It does nothing once the
        request is settled.

        Raises:
          MCPError: `RequestUnsent`, or INVALID_PARAMS for what JSON cannot express or
            is too long.
        """
        request, key = self._sent(method, params, {}, settle)
        return partial(self._leave, request, key)

    def _sent(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions,
        settle: Settle,
    ) -> tuple[_Request, int | str]:
        """Write or queue a request; return it with its key in the table."""
        if self._closed:
            raise RequestUnsent
        if self._hearing is None:
            raise RuntimeError("a request before run()")
        ident, key = self._identify(opts.get("request_id"))
        on_progress = opts.get("on_progress")
        if on_progress is not None:
            meta = {**((params or {}).get("_meta") or {}), "progressToken": ident}
            params = {**(params or {}), "_meta": meta}
        span, params = span_of(method, params, ident)
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": ident, "method": method}
        if params:
            message["params"] = params
        request = _Request(
            ident,
            settle,
            on_progress,
            opts.get("cancel_on_abandon", True),
            method,
            params,
            span,
        )
        try:
            line = _line(message)
            if not self._wrote(request, line) and not self._post(request, line):
                raise RequestUnsent(clogged=True)
        except MCPError as error:
            answered(span, outcome.Error(error))
            raise
        self._requests[key] = request
        return request, key

    def _wrote(self, request: _Request, line: bytes) -> bool:
        """Write a request at once, without the writer, if that is possible.

        Returns whether it was. The writer would write it one round of the loop later.
        If several requests wait, the writer is better: it writes them together.
        """
        if (
            self._requests
            or self._outbox
            or self._idle_writer is None
            or len(line) > select.PIPE_BUF
            or not self._write_now(line)
        ):
            return False
        request.offset = self._traffic.count(line)
        return True

    def _identify(self, own: int | str | None) -> tuple[int | str, int | str]:
        """Return an id as it is sent, and as a key: the caller's own, or the next."""
        if own is not None:
            key = correlate(own)
            if key is None or key in self._requests:
                raise ValueError(f"request id {own!r} is in use, or not valid")
            return own, key
        self._counter += 1
        while self._counter in self._requests:
            self._counter += 1
        return self._counter, self._counter

    async def _answer(self, request: _Request, key: int | str) -> dict[str, Any]:
        """Sleep until the request is settled; cancelling gives it up."""

        def leave(_: object) -> trio.lowlevel.Abort:
            self._leave(request, key)
            return trio.lowlevel.Abort.SUCCEEDED

        result: dict[str, Any] = await trio.lowlevel.wait_task_rescheduled(leave)
        return result

    def _leave(self, request: _Request, key: int | str) -> None:
        """Give a request up, and tell the server if it was written."""
        if self._requests.get(key) is not request:
            return
        del self._requests[key]
        request.span.set({"glyphoxa.interrupted": True})
        request.span.end()
        if request.reading is not None:
            request.reading.cancel()
        if not request.written:
            self._outbox.take_back(request)
        elif request.polite:
            why = "the caller no longer waits"
            params = {"requestId": request.ident, "reason": why}
            self._tell("notifications/cancelled", params)

    def _tell(self, method: str, params: Mapping[str, Any] | None) -> None:
        """Queue a notification."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params:
            message["params"] = params
        self._post(object(), _line(message))

    def _reply(self, message: Mapping[str, Any]) -> bool:
        """Queue an answer to the server; False if that is not possible."""
        if not self._outbox.takes_answers:
            return False
        try:
            return self._post(object(), encode(message), answer=True)
        except FrameNotSendable:
            return False

    def _post(self, key: object, line: bytes, *, answer: bool = False) -> bool:
        """Queue a line and wake the writer; False if there is no room."""
        if self._closed or not self._outbox.put(key, line, answer=answer):
            return False
        if self._idle_writer is not None:
            trio.lowlevel.reschedule(self._idle_writer)
            self._idle_writer = None
        return True

    async def _write(self) -> None:
        """Write everything that is queued, as long as the server reads it."""

        def stop(_: object) -> trio.lowlevel.Abort:
            self._idle_writer = None
            return trio.lowlevel.Abort.SUCCEEDED

        try:
            while True:
                while not self._outbox:
                    self._idle_writer = trio.lowlevel.current_task()
                    await trio.lowlevel.wait_task_rescheduled(stop)
                keys, data = self._outbox.batch()
                offset = self._traffic.begin(data)
                for key in keys:
                    if type(key) is _Request:
                        key.offset = offset
                await self._send.send_all(data)
                self._traffic.over()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            # A dead server may have answered before it died: then the reader ends.
            if await self._fate() is None:
                self.close("closed its stdin")

    # ---------------------------------------------------- what the server says

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Carry messages until the connection ends, or this is cancelled."""
        try:
            with self._over:
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    self._hearing = IncomingMessages(
                        wire=self,
                        nursery=nursery,
                        on_request=on_request,
                        on_notify=on_notify,
                        intercept=on_notify_intercept,
                        reply=self._reply,
                        note=self._note,
                    )
                    nursery.start_soon(self._hearing.call_back)
                    nursery.start_soon(self._write)
                    task_status.started()
                    self.close(await self._read())
        finally:
            self.close("the connection was closed")

    @property
    def waits(self) -> bool:
        """True if a request has no answer yet."""
        return bool(self._requests)

    def close(self, why: str) -> None:
        """End the connection and all requests at once; the first reason counts."""
        if self._closed:
            return
        self._closed = True
        self.loss.report(why)
        read = self._traffic.read(self._unread())
        requests, self._requests = self._requests, {}
        self._outbox.clear()
        for request in requests.values():
            sent = request.offset is not None and request.offset < read
            request.end(outcome.Error(ConnectionEnded() if sent else RequestUnsent()))
        self._over.cancel()

    async def _read(self) -> str:
        """Read the server's output; return why there is no more of it."""
        lines = Framing()
        try:
            while chunk := await self._receive.receive_some(_CHUNK):
                if lines.dropping:
                    await self._chatter.one_more(len(chunk), lines=0)
                for line in lines.feed(chunk):
                    waiting = len(self._requests)
                    if type(line) is bytes:
                        self._take(line)
                    elif type(line) is Large:
                        await self._take_large(line)
                    elif type(line) is LineTooLarge:
                        self._refuse(line)
                    if len(self._requests) == waiting and type(line) is bytes:
                        await self._chatter.one_more(len(line))
                if lines.is_endless:
                    return f"it wrote a line of more than {_MEGABYTES}"
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        async with self._large:  # the last answer may be a large one
            pass
        return await self._fate() or "closed its stdout"

    def _take(self, line: bytes) -> None:
        """Handle a line of normal size."""
        message = decode(line)
        if message is None:
            self._no_message(line)
            return
        method, params = message.get("method"), message.get("params")
        if method is None:
            self._take_answer(message, line)
            return
        assert self._hearing is not None
        if not isinstance(method, str) or not isinstance(params, dict | None):
            self._note(line)
        elif "id" in message:
            self._hearing.ask(message["id"], method, params)
        else:
            self._hearing.hear(method, params, self._progress_of)

    async def _take_large(self, large: Large) -> None:
        """Have a large line read by the condenser, if it is an answer."""
        head, tail = bytes(large.line[:ENDS]), bytes(large.line[-ENDS:])
        if not is_unasked(head) and self._waiting(self._whose(head, tail)):
            await self._large.acquire()
            key = self._whose(head, tail)  # it may have been answered meanwhile
            request = self._waiting(key)
            if key is not None and request is not None:
                request.reading = trio.CancelScope()
                self._nursery.start_soon(self._read_large, key, request, large.line)
                return
            self._large.release()
        self._note(b"dropped, too large for anything but an answer: " + head)
        await self._chatter.one_more(len(large.line))

    def _waiting(self, key: int | str | None) -> _Request | None:
        """Return the request with that key, if it may be answered."""
        request = None if key is None else self._requests.get(key)
        return request if request is not None and request.written else None

    async def _read_large(
        self, key: int | str, request: _Request, line: bytearray
    ) -> None:
        """Read a large answer, and settle its request."""
        answer: outcome.Maybe[Any] | None = None
        assert request.reading is not None
        try:
            with request.reading:
                try:
                    result = await self.condenser.small(
                        request.method, request.params, request.ident, line
                    )
                    answer = outcome.Value(result)
                except MCPError as error:
                    # The traceback holds the whole line, until it is collected.
                    error.__cause__ = error.__context__ = None
                    answer = outcome.Error(error.with_traceback(None))
        except Unasked:
            self._note(b"dropped, too large for anything but an answer: " + line[:ENDS])
            await self._chatter.one_more(len(line))
        finally:
            self._large.release()
            request.reading = None
        if answer is not None and self._requests.get(key) is request:
            self._settle(key, answer)

    def _refuse(self, line: LineTooLarge) -> None:
        """End the request that a line beyond the limits answers."""
        if not self._refused:
            key = self._whose(line.head, line.tail)
            self._refused = self._settle(key, outcome.Error(Unusable(line.bound)))
            if line.tail and not self._refused:
                self._note(f"dropped, {line.bound}: ".encode() + line.head)
        if line.tail:
            self._refused = False

    def _whose(self, head: bytes, tail: bytes) -> int | str | None:
        """Return the key of the request that an unparsed line answers.

        That is the one that it names, or the only one there is.
        """
        if not head.lstrip().startswith(b"{"):
            return None  # it is no message
        named = correlate(ident_in(head, tail))
        if named is None and len(self._requests) == 1:
            return next(iter(self._requests))
        return named

    def _take_answer(self, message: dict[str, Any], line: bytes) -> None:
        """Settle the request that an answer is for."""
        result, error = message.get("result"), message.get("error")
        answer: outcome.Maybe[Any]
        if error is not None:
            answer = outcome.Error(_as_error(error))
        elif type(result) is dict:
            answer = outcome.Value(result)
        else:
            self._note(line)
            answer = outcome.Error(Unusable("it is neither a result nor an error"))
        if not self._settle(correlate(message.get("id")), answer):
            self._note(b"an answer to no request: " + line)

    def _no_message(self, line: bytes) -> None:
        """Note a line that is no message, and end its request if it has one."""
        self._note(line)
        misspelt = misspelt_answer(line)
        if misspelt is not None:
            key, wrong = misspelt
            self._settle(key, outcome.Error(Unusable(wrong)))

    def _settle(self, key: int | str | None, answer: outcome.Maybe[Any]) -> bool:
        """Settle the request with this key; return False if there is none."""
        # A request that was not sent yet cannot be answered.
        request = self._waiting(key)
        if key is None or request is None:
            return False
        del self._requests[key]
        if request.reading is not None:
            request.reading.cancel()
        request.end(answer)
        return True

    def _progress_of(self, key: int | str) -> ProgressFnT | None:
        """Return the progress callback of a request."""
        request = self._requests.get(key)
        return None if request is None else request.on_progress


def _line(message: Mapping[str, Any]) -> bytes:
    """Encode a message of ours.

    Raises:
      MCPError: INVALID_PARAMS, if it cannot be encoded or is too long.
    """
    try:
        line = encode(message)
    except FrameNotSendable as error:
        text = f"it cannot be sent: {error}"
        raise MCPError(types.INVALID_PARAMS, text) from error
    if len(line) > LONGEST_MESSAGE:
        raise MCPError(types.INVALID_PARAMS, f"it is longer than {_MEGABYTES}")
    return line


def _as_error(error: object) -> MCPError:
    """Convert the server's error to an exception, whatever it looks like."""
    if isinstance(error, dict):
        code, text = error.get("code"), error.get("message")
        if type(code) is int and isinstance(text, str):
            return MCPError(code, text, error.get("data"))
    return Unusable("its error has no code or no message")
