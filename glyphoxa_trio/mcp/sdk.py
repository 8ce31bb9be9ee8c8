"""Sessions of the MCP SDK: how they are agreed on, and what their errors mean.

The SDK is the authority on protocol, types and HTTP (D27). Import this lazily.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, cast

import anyio
import attrs
import mcp_types as types
from mcp.client.session import ClientSession, IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

import trio

from glyphoxa_trio.config import ServerSpec, Transport
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.tools.definition import ConnectionLost, ToolError, ToolUnavailable
from glyphoxa_trio.units import in_ms

from . import http
from .process import LastLines
from .stdio import open_streams
from .transport import ConnectionFailed, Listing, Loss, NeverSent

MOST_TOOLS: Final = 1_000
_MOST_PAGES: Final = 200
_RELISTEN: Final = 1.0
_CUT: Final = 300  # of an error's text

# What a server that has forgotten us says, in whatever code (T2).
_SESSION_OVER: Final = re.compile(
    r"(the |your )?session (has )?(been )?(terminated|expired|closed|ended|not found)",
    re.IGNORECASE,
)

_GONE: Final = (types.CONNECTION_CLOSED, http.NEVER_SENT)


@asynccontextmanager
async def open_session(
    spec: ServerSpec, *, on_tools_changed: Callable[[], None], stderr: LastLines
) -> AsyncGenerator[SdkSession]:
    """As `transport.open_session`, with the SDK already loaded."""
    loss = Loss()

    async def on_message(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            on_tools_changed()

    try:
        async with (
            _streams(spec, loss, stderr) as (read, write, pid),
            ClientSession(read, write, message_handler=on_message) as client,
            trio.open_nursery() as nursery,
        ):
            with trio.move_on_after(spec.start_timeout) as patience:
                await _negotiate(client, spec)
            if patience.cancelled_caught:
                raise ConnectionFailed(
                    f"no handshake within {in_ms(spec.start_timeout)}"
                )
            capabilities = client.server_capabilities
            if (
                client.protocol_version in MODERN_PROTOCOL_VERSIONS
                and capabilities is not None
                and capabilities.tools is not None
                and capabilities.tools.list_changed
            ):
                nursery.start_soon(_follow_tools, client, on_tools_changed)
            yield SdkSession(client, loss, pid, on_tools_changed)
            nursery.cancel_scope.cancel()
    except Exception as error:  # foreign code; an exception group for a dead server
        why = loss.why or reason(error)
        loss.report(why)
        raise ConnectionFailed(why) from error


async def _negotiate(client: ClientSession, spec: ServerSpec) -> None:
    """Agree on a protocol version, of either family.

    Over stdio the handshake of the older family goes first: servers exist that
    exit on any other first message. Over HTTP nothing dies of a question, and
    the newer family keeps no session that could be lost.
    """
    first: Callable[[], Awaitable[object]] = client.initialize
    second: Callable[[], Awaitable[object]] = client.discover
    if spec.transport is Transport.STREAMABLE_HTTP:
        first, second = second, first
    try:
        await first()
    except (MCPError, RuntimeError, ValidationError) as refusal:
        if isinstance(refusal, MCPError) and refusal.code in _GONE:
            raise
        try:
            await second()
        except MCPError as other:
            if other.code == types.METHOD_NOT_FOUND:
                raise refusal from None  # it says more
            raise


async def _follow_tools(
    client: ClientSession, on_tools_changed: Callable[[], None]
) -> None:
    """Listen for changes of the tool list, in the newer family's way."""
    while True:
        with suppress(SubscriptionLost):
            try:
                async with listen(client, tools_list_changed=True) as changes:
                    async for _ in changes:
                        on_tools_changed()
                return  # the server has said goodbye to listeners
            except MCPError as error:
                if error.code == types.METHOD_NOT_FOUND:
                    return
        await trio.sleep(_RELISTEN)
        on_tools_changed()  # nothing that was missed is sent again


@attrs.define(eq=False)
class SdkSession:
    """A `transport.Session` over the SDK's `ClientSession`."""

    _client: ClientSession
    loss: Loss
    pid: int | None
    # Reading the list anew tells a server that is gone from one that stumbled.
    _suspect: Callable[[], None]

    async def list_tools(self) -> Listing:
        async def fetch(cursor: str | None) -> types.ListToolsResult:
            return await self._client.list_tools(
                params=types.PaginatedRequestParams(cursor=cursor)
            )

        try:
            listing = await paginate(fetch)
        except MCPError as error:
            if error.code == types.METHOD_NOT_FOUND:
                return Listing((), ("it offers no tools",))
            if error.code in (*_GONE, http.BROKEN):
                # Twice in a row, if a call broke off before: that is no stumble.
                self.loss.report(reason(error))
            raise ConnectionFailed(f"no list of tools: {reason(error)}") from error
        except ValidationError as error:
            raise ConnectionFailed(f"no list of tools: {reason(error)}") from error
        await self._warm(listing)
        return listing

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], meta: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        try:
            result = await self._client.call_tool(
                name,
                dict(arguments),
                meta=cast("types.RequestParamsMeta", dict(meta)) if meta else None,
            )
        except MCPError as error:
            raise self._judged(error) from error
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            self.loss.report("the connection broke")
            raise ConnectionLost(self.loss.why) from error
        except Exception as error:  # foreign code: an answer that breaks the protocol
            raise ToolError(f"its answer is not usable: {reason(error)}") from error
        return result.model_dump(by_alias=True, mode="json", exclude_none=True)

    def _judged(self, error: MCPError) -> Exception:
        """What an error means: for this call, for the session, for the effect."""
        text = reason(error)
        # Only HTTP has sessions to forget; over stdio it is the tool that speaks.
        over = (
            self.pid is None
            and error.code == types.INVALID_REQUEST
            and _SESSION_OVER.match(text)
        )
        if over or error.code == http.NEVER_SENT:
            self.loss.report(text)
            return NeverSent(text)
        if error.code == http.REFUSED:
            return ToolUnavailable(text)
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
        return ToolError(text)

    async def _warm(self, listing: Listing) -> None:
        """Compile the output schemas now, not on the first call's clock."""
        for tool in listing.tools:
            if "outputSchema" in tool:
                probe = types.CallToolResult(content=[], structured_content={})
                with suppress(Exception):  # foreign code: a call will say what is wrong
                    await self._client.validate_tool_result(tool["name"], probe)
                await trio.lowlevel.checkpoint()


async def paginate(
    fetch: Callable[[str | None], Awaitable[types.ListToolsResult]],
) -> Listing:
    """Every page, up to 1,000 tools; a cursor that comes again is the end."""
    tools: list[Mapping[str, Any]] = []
    seen: set[str] = set()
    cursor: str | None = None
    while True:
        page = await fetch(cursor)
        tools += [
            tool.model_dump(by_alias=True, mode="json", exclude_none=True)
            for tool in page.tools
        ]
        cursor = page.next_cursor
        if len(tools) > MOST_TOOLS or (cursor and len(tools) == MOST_TOOLS):
            warning = f"it offers more than {MOST_TOOLS} tools: the rest is left out"
            return Listing(tuple(tools[:MOST_TOOLS]), (warning,))
        if not cursor:
            return Listing(tuple(tools))
        if cursor in seen or len(seen) >= _MOST_PAGES:
            warning = "its list of tools does not end: what came so far is taken"
            return Listing(tuple(tools), (warning,))
        seen.add(cursor)


@asynccontextmanager
async def _streams(
    spec: ServerSpec, loss: Loss, stderr: LastLines
) -> AsyncGenerator[tuple[Any, Any, int | None]]:
    if spec.url is None:
        async with open_streams(spec, loss, stderr) as (read, write, pid):
            yield read, write, pid
    else:
        async with (
            http.open_client(spec) as client,
            streamable_http_client(spec.url, http_client=client) as streams,
        ):
            yield *streams, None


def reason(error: BaseException) -> str:
    """The first cause in a (group of) exception, short enough for a warning."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    kind = type(error).__name__
    first, *_ = str(error).strip().splitlines() or [kind]
    if not isinstance(error, GlyphoxaError | MCPError | OSError) and first != kind:
        first = f"{kind}: {first}"
    return first if len(first) <= _CUT else f"{first[:_CUT]} …"
