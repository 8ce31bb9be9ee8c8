"""The one module that speaks to the MCP SDK: sessions, and what its errors mean.

Import it lazily (D27). Streams, timeouts and processes are ours, because the
SDK's own stdio transport does not say whose process it runs, leaves children
of a server behind, and takes up to 6 s to end one; protocol, types and HTTP
are the SDK's. A dispatcher of our own may replace the streams below.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, cast

import anyio
import attrs
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.session import ClientSession, IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

import trio

from glyphoxa_trio.config import ServerSpec, Transport
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.tools.definition import ConnectionLost, ToolError, ToolUnavailable
from glyphoxa_trio.units import in_ms

from . import http, process
from .process import LastLines
from .transport import ConnectionFailed, Listing, Loss, NeverSent

MOST_TOOLS: Final = 1_000
_MOST_PAGES: Final = 200
_LONGEST_MESSAGE: Final = 16 * 2**20  # bytes; a server that exceeds it is broken
_LAST_WORDS: Final = 0.2  # seconds for what a dead server still has in its pipes
_RELISTEN: Final = 1.0
_CUT: Final = 300  # of an error's text

# What a server that has forgotten us says, in whatever code (T2).
_SESSION_OVER: Final = re.compile(
    r"session (has )?(been )?(terminated|expired|closed|ended|not found)",
    re.IGNORECASE,
)

_GONE: Final = (types.CONNECTION_CLOSED, http.NEVER_SENT)

_Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
_Outgoing = MemoryObjectSendStream[SessionMessage]


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
        over = error.code == types.INVALID_REQUEST and _SESSION_OVER.search(text)
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
        async with _stdio(spec, loss, stderr) as (read, write, pid):
            yield read, write, pid
    else:
        async with (
            http.open_client(spec) as client,
            streamable_http_client(spec.url, http_client=client) as streams,
        ):
            yield *streams, None


@asynccontextmanager
async def _stdio(
    spec: ServerSpec, loss: Loss, stderr: LastLines
) -> AsyncGenerator[tuple[_Incoming, _Outgoing, int]]:
    """A server's process and the SDK's streams over its pipes."""
    try:
        server = await process.start(spec)
    except OSError as error:
        raise ConnectionFailed(f"cannot be started: {error}") from error
    to_session, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    silent = trio.Event()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_read_stderr, server, stderr, silent)
            nursery.start_soon(_read_stdout, server, to_session, loss, stderr)
            nursery.start_soon(_write_stdin, server, from_session, to_session, loss)
            try:
                yield read, write, server.pid
            finally:
                # First what a full pipe holds: a write in there is shielded.
                from_session.close()
                await process.end(server)
                with trio.move_on_after(_LAST_WORDS):
                    await silent.wait()
                nursery.cancel_scope.cancel()
    finally:
        for stream in (to_session, read, write, from_session):
            stream.close()
        for pipe in (server.stdout, server.stderr):
            if pipe is not None:
                with trio.CancelScope(shield=True):  # closing a pipe does not wait
                    await pipe.aclose()


async def _read_stdout(
    server: trio.Process,
    to_session: MemoryObjectSendStream[SessionMessage | Exception],
    loss: Loss,
    said: LastLines,
) -> None:
    """Hand over messages until the server ends; keep reading when nobody listens.

    A line that is no message is kept beside stderr and otherwise ignored.
    """

    async def end_with_the_process(scope: trio.CancelScope) -> None:
        # A child that inherited stdout would keep it open for ever.
        await server.wait()
        await trio.sleep(_LAST_WORDS)
        scope.cancel()

    async def hand_over(line: bytes) -> None:
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            said.feed(b"stdout: " + line + b"\n")
            return
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await to_session.send(SessionMessage(message))

    lines = _Lines()
    assert server.stdout is not None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(end_with_the_process, nursery.cancel_scope)
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for chunk in server.stdout:
                for line in lines.feed(bytes(chunk)):
                    await hand_over(line)
                if lines.too_long:
                    loss.report("it wrote a line of more than 16 MB")
                    break
        with trio.move_on_after(_LAST_WORDS):
            await server.wait()
        nursery.cancel_scope.cancel()
    loss.report(process.how_it_ended(server))
    to_session.close()  # after the reason is known: calls in flight fail now


@attrs.define
class _Lines:
    """Chunks of bytes in, whole lines out."""

    _unfinished: bytearray = attrs.field(factory=bytearray, init=False)

    def feed(self, chunk: bytes) -> list[bytes]:
        *finished, rest = chunk.split(b"\n")
        if finished:
            finished[0] = bytes(self._unfinished) + finished[0]
            self._unfinished.clear()
        self._unfinished += rest
        return [line for line in finished if line.strip()]

    @property
    def too_long(self) -> bool:
        return len(self._unfinished) > _LONGEST_MESSAGE


async def _write_stdin(
    server: trio.Process,
    from_session: MemoryObjectReceiveStream[SessionMessage],
    to_session: MemoryObjectSendStream[SessionMessage | Exception],
    loss: Loss,
) -> None:
    assert server.stdin is not None
    try:
        async for item in from_session:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            await server.stdin.send_all(text.encode() + b"\n")
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        with trio.move_on_after(_LAST_WORDS):
            await server.wait()
        loss.report(
            "closed its stdin"
            if server.returncode is None
            else process.how_it_ended(server)
        )
        to_session.close()
    except anyio.ClosedResourceError:
        pass  # we closed it, on the way out
    finally:
        from_session.close()  # whoever waits to write learns of it


async def _read_stderr(
    server: trio.Process, stderr: LastLines, silent: trio.Event
) -> None:
    assert server.stderr is not None
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        async for chunk in server.stderr:
            stderr.feed(bytes(chunk))
    stderr.finish()
    silent.set()


def reason(error: BaseException) -> str:
    """The first cause in a (group of) exception, short enough for a warning."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    kind = type(error).__name__
    first, *_ = str(error).strip().splitlines() or [kind]
    if not isinstance(error, GlyphoxaError | MCPError | OSError) and first != kind:
        first = f"{kind}: {first}"
    return first if len(first) <= _CUT else f"{first[:_CUT]} …"
