"""A scripted model server: real HTTP on loopback, in the chat-completions protocol.

    async with open_model_server(
        [
            CallTools([("roll", {"expression": "2d6+3"})]),
            Say("Eleven. The lock gives way."),
        ]
    ) as server:
        model = ChatCompletions(model="scripted", base_url=server.base_url)
        ...
    assert server.requests[1]["messages"][-1]["role"] == "tool"

A script is a list of replies, one per request, the last repeating for ever; or
a function of the request's body. A reply is one step or a list of steps, done in
order, and is finished as the protocol wants unless a step ends it otherwise. So
a model that never stops calling is a script of one `CallTools`, one that dies
halfway ``[Say("Well, I"), Die()]``, one that never begins ``Hang()``.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import attrs
import h11

import trio

from .model_answer import Answer
from .model_steps import CallTools as CallTools
from .model_steps import Cut as Cut
from .model_steps import Die as Die
from .model_steps import Fail as Fail
from .model_steps import Finish as Finish
from .model_steps import Forever as Forever
from .model_steps import Hang as Hang
from .model_steps import Pause as Pause
from .model_steps import Raw as Raw
from .model_steps import Reply as Reply
from .model_steps import Say as Say
from .model_steps import Script as Script
from .model_steps import Step as Step

_RECEIVE: Final = 64 * 1024  # bytes asked of the socket at a time


@attrs.define(eq=False)
class ScriptedModelServer:
    """What was asked so far, and what became of it.

    ``requests`` are the bodies and ``headers`` the headers of each request, in
    order of arrival; ``connections`` were opened, and on ``hangups`` of them the
    client left before the reply was over.
    """

    base_url: str
    requests: list[dict[str, Any]] = attrs.field(factory=list)
    headers: list[dict[str, str]] = attrs.field(factory=list)
    connections: int = 0
    hangups: int = 0
    _script: Script = attrs.field(factory=list, repr=False)
    _changed: trio.Condition = attrs.field(factory=trio.Condition, repr=False)

    async def wait_requests(self, count: int) -> None:
        """Return once ``count`` requests have arrived."""
        async with self._changed:
            while len(self.requests) < count:
                await self._changed.wait()

    async def wait_hangups(self, count: int) -> None:
        """Return once ``count`` replies were left by their client."""
        async with self._changed:
            while self.hangups < count:
                await self._changed.wait()

    async def _received(self, headers: dict[str, str], body: dict[str, Any]) -> Reply:
        async with self._changed:
            self.headers.append(headers)
            self.requests.append(body)
            self._changed.notify_all()
        if callable(self._script):
            return self._script(body)
        return self._script[min(len(self.requests), len(self._script)) - 1]

    async def _left(self) -> None:
        async with self._changed:
            self.hangups += 1
            self._changed.notify_all()


@asynccontextmanager
async def open_model_server(
    script: Script, *, model: str = "scripted"
) -> AsyncIterator[ScriptedModelServer]:
    """Serve ``script`` on a free port of 127.0.0.1 until the block is left.

    What runs then is cut. An error of the block leaves it as it is; an error of
    a script that is a function ends the block, in an exception group.
    """
    if not callable(script) and not script:
        raise ValueError("a script needs at least one reply")
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        server = ScriptedModelServer(f"http://127.0.0.1:{port}/v1", script=script)

        async def serve(stream: trio.SocketStream) -> None:
            server.connections += 1
            await _Connection(stream, server, model).serve()

        nursery.start_soon(trio.serve_listeners, serve, listeners)
        try:
            yield server
        except Exception as error:  # leaves the block as it is, not in a group
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


@attrs.define(eq=False)
class _Connection:
    """One client's connection: requests, and replies by the script."""

    _stream: trio.SocketStream
    _server: ScriptedModelServer
    _model: str
    _http: h11.Connection = attrs.field(
        factory=lambda: h11.Connection(h11.SERVER), init=False
    )

    async def serve(self) -> None:
        async with self._stream:
            # A client that leaves between requests, or halfway through one,
            # is nothing that a script has to know.
            with suppress(trio.BrokenResourceError, h11.RemoteProtocolError):
                while await self._one():
                    self._http.start_next_cycle()

    async def _one(self) -> bool:
        """Answer one request. False when the connection is over."""
        request = await self._next()
        if not isinstance(request, h11.Request):
            return False
        text = bytearray()
        while isinstance(data := await self._next(), h11.Data):
            text += data.data
        path = request.target.decode("latin-1")
        reply: Reply
        try:
            body = json.loads(text)
        except ValueError:
            body = None
        if request.method != b"POST" or not path.endswith("/chat/completions"):
            reply = Fail(404, {"error": {"message": f"no such path: {path}"}})
        elif not isinstance(body, dict) or body.get("stream") is not True:
            reply = Fail(400, {"error": {"message": "this server only streams"}})
        else:
            headers = {k.decode(): v.decode("latin-1") for k, v in request.headers}
            reply = await self._server._received(headers, body)
        number = len(self._server.requests)
        answer = Answer(self._send, self._model, body or {}, number)
        steps = reply if isinstance(reply, Sequence) else (reply,)
        over = await self._unless_left(answer, steps)
        return over and self._http.our_state is h11.DONE is self._http.their_state

    async def _next(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._stream.receive_some(_RECEIVE))
        return event

    async def _send(self, event: h11.Event) -> None:
        await self._stream.send_all(self._http.send(event) or b"")

    async def _unless_left(self, answer: Answer, steps: Sequence[Step]) -> bool:
        """Play ``steps`` to their end; False if the client or a step ended it."""
        left = ended = False
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                nonlocal left
                with suppress(trio.BrokenResourceError):
                    while data := await self._stream.receive_some(_RECEIVE):
                        self._http.receive_data(data)  # an early next request
                left = True
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            try:
                ended = await answer.play(steps)
            except trio.BrokenResourceError:
                left = True
            nursery.cancel_scope.cancel()
        if left:
            await self._server._left()
        return ended and not left
