"""A scripted model server: real HTTP on loopback, chat completions and Messages.

    async with open_model_server(
        [
            CallTools([("roll", {"expression": "2d6+3"})]),
            Say("Eleven. The lock gives way."),
        ]
    ) as server:
        model = ChatCompletions(model="scripted", base_url=server.base_url)
        ...
    assert server.requests[1]["messages"][-1]["role"] == "tool"

A script is a list of replies, one per request, of which the last one repeats for ever;
or a function of the request's body. A reply is one step or a list of steps. They are
done in order, and the reply is finished as the protocol requires unless a step ends it
otherwise. So a model that never stops calling is a script of one `CallTools`, one that
dies halfway is ``[Say("Well, I"), Die()]``, one that never begins is ``Hang()``.

One script is served in both protocols: ``/v1/chat/completions`` is OpenAI's, and
``/v1/messages`` is Anthropic's, which refuses the same requests as the vendor.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import attrs

import trio

from glyphoxa_trio.renamed import renamed

from .loopback import HttpConnection, open_loopback
from .model_answer import Dialect, ModelReply
from .model_chat import ChatChunks
from .model_messages import MessageEvents, refusal
from .model_steps import CallTools as CallTools
from .model_steps import Cut as Cut
from .model_steps import Die as Die
from .model_steps import Fail as Fail
from .model_steps import Finish as Finish
from .model_steps import Forever as Forever
from .model_steps import Hang as Hang
from .model_steps import Pause as Pause
from .model_steps import RawText as RawText
from .model_steps import Reply as Reply
from .model_steps import SayText as SayText
from .model_steps import Script as Script
from .model_steps import Step as Step
from .model_steps import Think as Think


@attrs.define(eq=False)
class ScriptedModelServer:
    """A running server, and its requests so far.

    ``requests`` are the bodies and ``headers`` the headers of each request, in order of
    arrival; ``refused`` has the reasons of those that were not answered by the script.
    ``connections`` counts the connections, and ``hangups`` those on which the client
    disconnected before the reply was over.
    """

    origin: str
    base_url: str
    requests: list[dict[str, Any]] = attrs.field(factory=list)
    headers: list[dict[str, str]] = attrs.field(factory=list)
    refused: list[str] = attrs.field(factory=list)
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
        """Return once clients have disconnected during ``count`` replies."""
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
    script: Script, *, model: str = "scripted", api_key: str | None = None
) -> AsyncIterator[ScriptedModelServer]:
    """Serve ``script`` on a free port of 127.0.0.1 until the block is left.

    Running replies are cancelled then. An error of the block is raised as it is; an
    error of a script that is a function ends the block, in an exception group.

    Args:
      api_key: a client that does not send it is answered 401.
    """
    if not callable(script) and not script:
        raise ValueError("a script needs at least one reply")

    async def serve(stream: trio.SocketStream) -> None:
        server.connections += 1
        await _ModelConnection(HttpConnection(stream), server, model, api_key).serve()

    async with open_loopback(serve) as origin:
        server = ScriptedModelServer(origin, f"{origin}/v1", script=script)
        yield server


@attrs.define(eq=False)
class _ModelConnection:
    """One client's connection: its requests, and replies by the script."""

    _client: HttpConnection
    _server: ScriptedModelServer
    _model: str
    _api_key: str | None

    async def serve(self) -> None:
        await self._client.serve(self._one)

    async def _one(self) -> bool:
        """Answer one request. Return False when the connection is over."""
        asked = await self._client.request()
        if asked is None:
            return False
        request, text = asked
        path = request.target.decode("latin-1")
        headers = {k.decode(): v.decode("latin-1") for k, v in request.headers}
        try:
            body = json.loads(text)
        except ValueError:
            body = None
        messages = path.endswith("/messages")
        no = self._refused(request.method, path, headers, body)
        if no is not None:
            self._server.refused.append(no.body["error"]["message"])
        reply: Reply = no or await self._server._received(headers, body)
        number = len(self._server.requests)
        words = MessageEvents if messages else ChatChunks
        dialect: Dialect = words(self._model, body or {}, number)
        answer = ModelReply(self._client.send, dialect)
        steps = reply if isinstance(reply, Sequence) else (reply,)
        over, left = await self._client.unless_left(lambda: answer.play(steps))
        if left:
            await self._server._left()
        return over and not left and self._client.is_done

    def _refused(
        self, method: bytes, path: str, headers: dict[str, str], body: Any
    ) -> Fail | None:
        """Return the refusal of a request that the script does not see, or None."""
        messages = path.endswith("/messages")
        if method != b"POST" or not (messages or path.endswith("/chat/completions")):
            return _failure(404, f"no such path: {path}")
        if self._api_key not in (None, _key_of(headers)):
            return _failure(401, "invalid x-api-key" if messages else "invalid key")
        if not isinstance(body, dict) or body.get("stream") is not True:
            return _failure(400, "this server only streams")
        if messages and (why := refusal(headers, body)):
            return _failure(400, why)
        return None


def _key_of(headers: dict[str, str]) -> str:
    bearer = headers.get("authorization", "").removeprefix("Bearer ")
    return headers.get("x-api-key") or bearer


def _failure(status: int, message: str) -> Fail:
    return Fail(status, {"error": {"message": message}})


if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, Raw="RawText", Say="SayText")
