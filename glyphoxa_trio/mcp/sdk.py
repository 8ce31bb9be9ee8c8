"""Sessions of the MCP SDK: what they are made of, and what their errors mean.

The SDK is the authority on protocol, types and HTTP (D27); what carries its
messages over pipes is ours. Import this lazily.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, ClassVar, Final, cast

import attrs
import mcp_types as types
from mcp.client.session import ClientSession, IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import Dispatcher
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types.methods import is_input_required
from pydantic import TypeAdapter, ValidationError

import trio

from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.tools.definition import (
    AnswerUnusable,
    ConnectionLost,
    ToolError,
    ToolUnavailable,
)

from . import http
from .handshake import agree, announces_tools, follow_tools
from .listing import Sieve, paginate
from .process import LastLines
from .stdio import open_wire
from .transport import Busy, ConnectionFailed, Listing, Loss, NeverSent
from .wire import Ended, Unsent, Unusable

_CUT: Final = 300  # of an error's text

# What a server that has forgotten us says, in whatever code (T2).
_SESSION_OVER: Final = re.compile(
    r"(the |your )?session (has )?(been )?(terminated|expired|closed|ended|not found)",
    re.IGNORECASE,
)

# What the client of an HTTP session says by itself of a session that is gone.
_GONE: Final = (
    types.CONNECTION_CLOSED,
    http.NEVER_SENT,
    http.FORGOTTEN,
    http.BROKEN,
)

# `send_request` holds every result against the negotiated protocol version. A
# second, version-free model of it would only be taken apart again here.
_AS_IT_CAME: Final[TypeAdapter[Any]] = TypeAdapter(dict[str, Any])


@asynccontextmanager
async def open_session(
    spec: ServerSpec,
    *,
    on_tools_changed: Callable[[], None],
    stderr: LastLines,
    server: trio.Process | None = None,
) -> AsyncGenerator[SdkSession]:
    """As `transport.open_session`, with the SDK loaded and the ``server`` running."""
    loss = Loss()

    async def on_message(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            on_tools_changed()

    try:
        async with (
            _dispatcher(spec, loss, stderr, server) as dispatcher,
            ClientSession(
                dispatcher=(sieve := Sieve(dispatcher)), message_handler=on_message
            ) as client,
            trio.open_nursery() as nursery,
        ):
            try:
                await agree(client, spec)
                sieve.version = client.protocol_version
                if announces_tools(client):
                    nursery.start_soon(follow_tools, client, on_tools_changed)
                pid = None if server is None else server.pid
                yield SdkSession(client, sieve, loss, pid, on_tools_changed)
            except Exception as error:
                loss.report(reason(error))  # before the end of all below is one
                raise
            nursery.cancel_scope.cancel()
    except Exception as error:  # foreign code; an exception group for a dead server
        why = loss.why or reason(error)
        loss.report(why)
        raise ConnectionFailed(why) from error


@attrs.define(eq=False)
class SdkSession:
    """A `transport.Session` over the SDK's `ClientSession`."""

    _client: ClientSession
    _sieve: Sieve
    loss: Loss
    pid: int | None
    # Reading the list anew tells a server that is gone from one that stumbled.
    _suspect: Callable[[], None]
    # The listed tools that have an output schema. The SDK would read the list for
    # any other, on the clock of a call that has had its effect already.
    _structured: frozenset[str] = attrs.field(default=frozenset(), init=False)

    async def list_tools(self) -> Listing:
        async def fetch(cursor: str | None) -> types.ListToolsResult:
            return await self._client.list_tools(
                params=types.PaginatedRequestParams(cursor=cursor)
            )

        self._sieve.forget()
        try:
            listing = await paginate(fetch)
        except MCPError as error:
            if error.code == types.METHOD_NOT_FOUND:
                return Listing((), ("it offers no tools",))
            if self.pid is None and error.code in _GONE:
                # Twice in a row, if a call broke off before: that is no stumble.
                forgotten = error.code == http.FORGOTTEN
                self.loss.report(reason(error), forgotten=forgotten)
            raise ConnectionFailed(f"no list of tools: {reason(error)}") from error
        except ValidationError as error:
            raise ConnectionFailed(f"no list of tools: {reason(error)}") from error
        listing = attrs.evolve(
            listing, warnings=(*self._sieve.warnings(), *listing.warnings)
        )
        await self._warm(listing)
        return listing

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], meta: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        params: dict[str, Any] = {"name": name, "arguments": dict(arguments)}
        if meta:
            params["_meta"] = dict(meta)
        call = cast("types.CallToolRequest", _Call(params))
        try:
            answer: dict[str, Any] = await self._client.send_request(call, _AS_IT_CAME)
            if is_input_required(answer):
                raise ToolError("it asks for more than a tool call gives")
            if name in self._structured and not answer.get("isError"):
                await self._client.validate_tool_result(name, _structure(answer))
        except MCPError as error:
            raise self._judged(error) from error
        except GlyphoxaError:
            raise
        except Exception as error:  # foreign code: an answer that breaks the protocol
            text = f"its answer is not usable: {reason(error)}"
            raise AnswerUnusable(text) from error
        return answer

    def _judged(self, error: MCPError) -> Exception:
        """What an error means: for this call, for the session, for the effect."""
        text = reason(error)
        match error:
            case Unsent():
                gone = self.loss.why
                return ToolUnavailable(text) if gone is None else NeverSent(gone)
            case Ended():
                assert self.loss.why is not None
                return ConnectionLost(self.loss.why)
            case Unusable():
                return AnswerUnusable(text)
        if self.pid is not None:
            return ToolError(text)  # the server itself says so, whatever the code
        # Only HTTP has sessions to forget.
        over = error.code == types.INVALID_REQUEST and _SESSION_OVER.match(text)
        if over or error.code in (http.NEVER_SENT, http.FORGOTTEN):
            self.loss.report(text, forgotten=error.code != http.NEVER_SENT)
            return NeverSent(text)
        if error.code == http.REFUSED:
            return ToolUnavailable(text)
        if error.code == http.BUSY:
            return Busy(text, http.wait_of(error.data))
        if error.code == http.BROKEN:
            self._suspect()
            return ConnectionLost(text)
        if error.code == types.CONNECTION_CLOSED:
            # "Connection closed" is the session's end, anything else one stream's.
            if error.message == "Connection closed":
                self.loss.report("the connection was closed")
                return ConnectionLost(self.loss.why)
            self._suspect()
            return ConnectionLost(text)
        if error.code == types.PARSE_ERROR:  # the SDK's, of an event in a stream
            return AnswerUnusable(text)
        return ToolError(text)

    async def _warm(self, listing: Listing) -> None:
        """Compile the output schemas now, not on the first call's clock."""
        names = [tool["name"] for tool in listing.tools if "outputSchema" in tool]
        for name in names:
            probe = _structure({"structuredContent": {}})
            with suppress(Exception):  # foreign code: a call will say what is wrong
                await self._client.validate_tool_result(name, probe)
            await trio.lowlevel.checkpoint()
        self._structured = frozenset(names)


@attrs.frozen
class _Call:
    """What `ClientSession.send_request` needs of a request: here, what it dumps to.

    The SDK's model of a call would be filled in only to be dumped at once, which
    is a tenth of what a call costs.
    """

    _params: dict[str, Any]
    name_param: ClassVar[str | None] = types.CallToolRequest.name_param

    def model_dump(self, **_: object) -> dict[str, Any]:
        return {"method": "tools/call", "params": self._params}


def _structure(answer: Mapping[str, Any]) -> types.CallToolResult:
    """As much of an answer of the right shape as its output schema is about."""
    if "structuredContent" not in answer:
        return types.CallToolResult.model_construct(content=[])
    return types.CallToolResult.model_construct(
        content=[], structured_content=answer["structuredContent"]
    )


@asynccontextmanager
async def _dispatcher(
    spec: ServerSpec, loss: Loss, stderr: LastLines, server: trio.Process | None
) -> AsyncGenerator[Dispatcher[Any]]:
    if server is not None:
        async with open_wire(server, loss, stderr) as wire:
            yield wire
    else:
        async with (
            http.open_client(spec) as client,
            streamable_http_client(http.endpoint(spec), http_client=client) as streams,
        ):
            yield JSONRPCDispatcher(*streams)


def reason(error: BaseException) -> str:
    """The first cause in a (group of) exception, short enough for a warning."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    kind = type(error).__name__
    first, *_ = str(error).strip().splitlines() or [kind]
    if not isinstance(error, GlyphoxaError | MCPError | OSError) and first != kind:
        first = f"{kind}: {first}"
    return first if len(first) <= _CUT else f"{first[:_CUT]} …"
