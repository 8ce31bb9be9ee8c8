"""One client at the other end of two streams.

One task reads, one writes, and each request runs in a task of its own. The number and
size of a client's open requests are bounded: beyond the bounds nothing more is read
until an answer has been written. Each request is answered exactly once, unless the
client cancelled it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import attrs

import trio

from . import jsonrpc, protocol_versions
from .asking import CONNECTION_CLOSED, Asking, Back
from .client_info import ClientInfo
from .dispatch import Dispatch
from .in_flight import InFlightRequest, Requests
from .jsonrpc import INVALID_REQUEST
from .lines import LineSplitter
from .listening import Listeners
from .outbox import LineOutbox
from .request import INTERNAL_ERROR, METHOD_NOT_FOUND, Client, ClientRequest, RpcError

# Seconds that running requests may still take after the client closed its stream, which
# is less than clients wait before they send a signal; and seconds for writing the last
# answers.
GRACE: Final = 0.5
_LAST_WORDS: Final = 0.5

_CHUNK: Final = 2**16
_LISTEN: Final = "subscriptions/listen"

_log = logging.getLogger(__name__)


@attrs.define(eq=False)
class Peer:
    """The requests of one client, from reading to the written answer.

    Args:
      version: the version of this program, for the answer to ``initialize``.
      asked: set when the first request has arrived.
    """

    _dispatch: Dispatch
    _version: str
    _outbox: LineOutbox = attrs.field(factory=LineOutbox, init=False)
    _asking: Asking = attrs.field(init=False)
    _listeners: Listeners = attrs.field(init=False)
    _who: ClientInfo = attrs.field(init=False)
    asked: trio.Event = attrs.field(factory=trio.Event, init=False)
    _taken: Requests = attrs.field(factory=Requests, init=False)

    def __attrs_post_init__(self) -> None:
        self._asking = Asking(self._outbox)
        self._listeners = Listeners(self._outbox)
        info = protocol_versions.server_info(self._dispatch, self._version)
        self._who = ClientInfo(self._dispatch, info)

    async def serve(
        self, incoming: trio.abc.ReceiveStream, outgoing: trio.abc.SendStream
    ) -> None:
        """Serve until the client disconnects or stops reading for good.

        If cancelled, still sends an answer to each open request, if that can be done
        within half a second.
        """
        # The writer is shielded, so that it can still write after everything else is
        # cancelled.
        writing = trio.CancelScope(shield=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write, outgoing, writing, nursery.cancel_scope)
            try:
                await self._serve(incoming)
            finally:
                with trio.move_on_after(_LAST_WORDS, shield=True):
                    await self._outbox.drained()
                self._outbox.close()
                writing.cancel()
                if self._who.client is not None:
                    self._dispatch.offer.ended(self._who.client.session)

    async def _serve(self, incoming: trio.abc.ReceiveStream) -> None:
        resources = self._dispatch.offer.resources
        async with trio.open_nursery() as requests:
            if resources is None:
                await self._read(incoming, requests)
            else:
                with resources.changes.tap(self._listeners.note):
                    await self._read(incoming, requests)
            self._listeners.hang_up()
            self._asking.hang_up()
            with trio.move_on_after(GRACE):
                await self._taken.none()
            requests.cancel_scope.cancel("the client has disconnected")

    async def _write(
        self,
        outgoing: trio.abc.SendStream,
        writing: trio.CancelScope,
        everything: trio.CancelScope,
    ) -> None:
        with writing, suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await self._outbox.write_to(outgoing)
        self._outbox.close()
        everything.cancel("the client does not read our answers")

    async def _read(
        self, incoming: trio.abc.ReceiveStream, nursery: trio.Nursery
    ) -> None:
        lines = LineSplitter()
        while True:
            try:
                chunk = await incoming.receive_some(_CHUNK)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                chunk = b""
            for line in lines.feed(chunk) if chunk else lines.end():
                size = len(line) if isinstance(line, bytes) else 0
                await self._room(size)
                said = jsonrpc.read(line)
                if isinstance(said, jsonrpc.RpcBatch):
                    await self._take_all(said, size, nursery)
                else:
                    self._take(said, size, nursery)
            if not chunk:
                return

    async def _room(self, size: int) -> None:
        """Wait until one more message, of ``size`` bytes, may be accepted."""
        await self._outbox.roomy()
        await self._taken.room(size)

    async def _take_all(
        self, batch: jsonrpc.RpcBatch, size: int, nursery: trio.Nursery
    ) -> None:
        """Handle the messages of a batch as if each had come alone."""
        client = self._who.client
        if client is None or client.version != protocol_versions.WITH_BATCHES:
            wrong = f"batches are for version {protocol_versions.WITH_BATCHES} only"
            self._refuse(None, RpcError(INVALID_REQUEST, wrong))
            return
        for message in batch.messages:
            await self._room(size)
            if isinstance(message, jsonrpc.RpcCall) and message.method == "initialize":
                wrong = "initialize must not be in a batch"
                self._refuse(message.id, RpcError(INVALID_REQUEST, wrong))
            else:
                self._take(message, size // len(batch.messages), nursery)

    def _take(self, message: jsonrpc.Message, size: int, nursery: trio.Nursery) -> None:
        match message:
            case jsonrpc.RpcCall():
                try:
                    self._take_call(message, size, nursery)
                except RpcError as error:
                    self._refuse(message.id, error)
            case jsonrpc.Notice():
                self._take_notice(message)
            case jsonrpc.RpcReply():
                self._asking.answered(message)
            case jsonrpc.Malformed(ident, code, text):
                self._refuse(ident, RpcError(code, text))

    def _take_notice(self, notice: jsonrpc.Notice) -> None:
        # All other notifications are ignored, so the name of
        # ``notifications/initialized`` does not matter: the original design is shorter.
        if notice.method == "notifications/cancelled":
            self._taken.take_back(notice.params.get("requestId"))

    def _take_call(
        self, call: jsonrpc.RpcCall, size: int, nursery: trio.Nursery
    ) -> None:
        """Start a request, or raise `RpcError` if it is refused at once."""
        self.asked.set()
        if call.method == "initialize":
            # Answered at once, since the next request may already have been read.
            known = self._who.client
            client, answer = self._who.shake_hands(call.params)
            self._send({"jsonrpc": "2.0", "id": call.id, "result": answer})
            if client is not known and self._dispatch.offer.resources is not None:
                nursery.start_soon(self._listeners.tell, client.subscriptions)
            return
        client = self._who.asker(call)
        if call.id in self._taken:
            raise RpcError(
                INVALID_REQUEST, "a request with this id is not answered yet"
            )
        if call.method == "ping" and not self._who.stateless:
            self._send({"jsonrpc": "2.0", "id": call.id, "result": {}})
            return
        taken = self._taken.add(call.id, size)
        nursery.start_soon(self._run, call, client, taken)

    async def _run(
        self, call: jsonrpc.RpcCall, client: Client, taken: InFlightRequest
    ) -> None:
        """Run one request and write its answer."""
        answered = False
        try:
            # A finished request keeps its slot until its answer is written: otherwise a
            # client that does not read could collect any number of answers.
            with taken.scope:
                # A subscription does not take one of the slots for running requests.
                if not (self._who.stateless and call.method == _LISTEN):
                    await self._taken.run(taken)
                await self._outbox.put(await self._line_for(call, client))
                answered = True
        finally:
            self._taken.done(call.id)
            if not (answered or taken.taken_back):
                closed = RpcError(CONNECTION_CLOSED, "the server is ending")
                self._refuse(call.id, closed)

    async def _line_for(self, call: jsonrpc.RpcCall, client: Client) -> bytes:
        """Return the answer as a line; an error of any kind becomes an error answer."""
        stateless = bool(self._who.stateless)
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": call.id}
        try:
            result = await self._result(call, client, stateless)
            if stateless:
                result = protocol_versions.complete(call.method, result, self._who.info)
            return jsonrpc.write(answer | {"result": result})
        except RpcError as error:
            refused = error
        except jsonrpc.NotSendable as error:
            _log.error("the answer to %s is not JSON: %s", call.method[:100], error)
            refused = RpcError(INTERNAL_ERROR, "the answer cannot be written as JSON")
        except Exception:  # border: a bug in a server's code fails its request only
            _log.exception("%s failed", call.method[:100])
            refused = RpcError(INTERNAL_ERROR, "Internal error")
        return self._error_line(call.id, refused)

    async def _result(
        self, call: jsonrpc.RpcCall, client: Client, stateless: bool
    ) -> Mapping[str, Any]:
        if stateless and call.method == "server/discover":
            return protocol_versions.discovery(self._dispatch)
        if stateless and call.method == _LISTEN:
            if self._dispatch.offer.resources is None:
                raise RpcError(METHOD_NOT_FOUND, "Method not found", call.method)
            return await self._listeners.listen(call.id, call.params)
        channel = Back(self._outbox, None if stateless else self._asking, client)
        request = ClientRequest(
            method=call.method, params=call.params, client=client, channel=channel
        )
        try:
            return await self._dispatch.answer(request)
        finally:
            channel.close()

    def _refuse(self, ident: jsonrpc.Id | None, refused: RpcError) -> None:
        self._outbox.put_nowait(self._error_line(ident, refused))

    def _error_line(self, ident: jsonrpc.Id | None, refused: RpcError) -> bytes:
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": ident}
        written = protocol_versions.error(refused, stateless=bool(self._who.stateless))
        try:
            return jsonrpc.write(answer | {"error": written})
        # half of a surrogate pair in the text that it quotes
        except jsonrpc.NotSendable:
            plain = {"code": refused.code, "message": ascii(str(refused))}
            return jsonrpc.write(answer | {"error": plain})

    def _send(self, message: Mapping[str, Any]) -> None:
        self._outbox.put_nowait(jsonrpc.write(message))
