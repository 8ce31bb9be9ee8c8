"""Sessions of the MCP SDK: what they are made of, and what their errors mean.

The SDK is the authority on protocol, types and HTTP (D27); what carries its
messages over pipes is ours. Import this lazily.
Above 300 lines, because no other file knows the errors of the SDK.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing
from functools import lru_cache, partial
from typing import Any, ClassVar, Final, cast

import attrs
import mcp_types as types
import outcome
from mcp.client.session import ClientSession, IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import Dispatcher
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import methods
from mcp_types.methods import is_input_required
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
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
from glyphoxa_trio.tools.output import OutputSchema

from . import http, resources
from .condensing import Condenser, Unusable, readers
from .handshake import agree, announces_tools, follow_tools, offers_resources
from .listing import ListFilter, paginate
from .logs import hush_the_sdk
from .masking import Masked, Masking, masked
from .process import LastLines
from .starts import Start
from .stdio import open_wire
from .tracing import tracing
from .transport import Busy, ConnectionFailed, NeverSent, SessionLost, ToolListing
from .wire import ConnectionEnded, PipeDispatcher, RequestUnsent

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


@lru_cache
def _answers_of(version: str) -> Callable[..., object] | None:
    """What holds the answer of a call against a version of the protocol; None if the
    SDK knows no such answer. The SDK's own function writes it out again as well."""
    shape: Any = methods.SERVER_RESULTS.get(("tools/call", version))
    return None if shape is None else TypeAdapter(shape).validator.validate_python


@asynccontextmanager
async def open_session(
    spec: ServerSpec,
    *,
    on_tools_changed: Callable[[], None],
    stderr: LastLines,
    server: trio.Process | None = None,
    start: Start | None = None,
    masking: Masking | None = None,
) -> AsyncGenerator[SdkSession]:
    """As `transport.open_session`, with the SDK loaded and the ``server`` running."""
    hush_the_sdk()
    masking = Masking.of(spec) if masking is None else masking
    loss = SessionLost(clean=masking.text)
    condenser = Condenser(lambda: masking.mask.pattern)
    begun = trio.current_time()

    async def on_message(message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            on_tools_changed()

    try:
        async with (
            readers(),
            _dispatcher(spec, loss, stderr, server, condenser, masking) as dispatcher,
            ClientSession(
                dispatcher=(
                    sieve := ListFilter(Masked(dispatcher, masking), condenser)
                ),
                message_handler=on_message,
            ) as client,
            trio.open_nursery() as nursery,
        ):
            try:
                await agree(client, spec)
                sieve.speak(client.protocol_version)
                if announces_tools(client):
                    nursery.start_soon(follow_tools, client, on_tools_changed)
                pid = None if server is None else server.pid
                shaking_hands = None if server is None else trio.current_time() - begun
                timed = start is None or start.over(shaking_hands=shaking_hands)
                offers = spec.resources and offers_resources(client)
                yield SdkSession(
                    client,
                    sieve,
                    dispatcher if isinstance(dispatcher, PipeDispatcher) else None,
                    masking,
                    condenser,
                    loss,
                    pid,
                    timed,
                    on_tools_changed,
                    offers,
                )
            except Exception as error:
                loss.report(reason(error))  # before the end of all below is one
                raise
            nursery.cancel_scope.cancel()
    except Exception as error:  # foreign code; an exception group for a dead server
        why = loss.why or reason(error, masking.text)
        loss.report(why)
        raise ConnectionFailed(why) from error


@attrs.define(eq=False)
class SdkSession:
    """A `transport.Session` over the SDK's `ClientSession`."""

    _client: ClientSession
    _sieve: ListFilter
    _wire: PipeDispatcher | None
    _masking: Masking
    _condenser: Condenser
    loss: SessionLost
    pid: int | None
    timed: bool
    # Reading the list anew tells a server that is gone from one that stumbled.
    _suspect: Callable[[], None]
    _offers_resources: bool
    # The names of the listed tools that we added: the server does not know them.
    _ours: frozenset[str] = attrs.field(default=frozenset(), init=False)
    # Of the listed tools that say what their answers look like. The SDK's own check
    # has no bound, so it is never asked.
    _outputs: Mapping[str, OutputSchema] = attrs.field(factory=dict, init=False)

    async def ping(self) -> bool:
        try:
            await self._client.send_request(_PING, _AS_IT_CAME)
        except MCPError as error:
            meaning = self._judged(error)
            # Over HTTP, a request that is turned away has been answered. Over a pipe,
            # "unavailable" means that nobody reads the pipe.
            turned_away = self.pid is None and isinstance(meaning, ToolUnavailable)
            if isinstance(meaning, NeverSent) or not (
                turned_away or isinstance(meaning, ToolError)
            ):
                raise meaning from error
            return False
        except GlyphoxaError:
            raise
        except Exception:  # foreign code: an unusable answer is an answer, too
            return False
        return True

    async def list_tools(self) -> ToolListing:
        async def fetch(cursor: str | None) -> types.ListToolsResult:
            return await self._client.list_tools(
                params=types.PaginatedRequestParams(cursor=cursor)
            )

        self._sieve.forget()
        try:
            listing = await paginate(fetch)
        except MCPError as error:
            if error.code == types.METHOD_NOT_FOUND:
                none = () if self._offers_resources else ("it offers no tools",)
                return self._with_resources(ToolListing((), none))
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
        notes = await self._take_outputs(listing)
        listing = attrs.evolve(listing, warnings=(*listing.warnings, *notes))
        return self._with_resources(listing)

    def _with_resources(self, listing: ToolListing) -> ToolListing:
        self._ours = frozenset()
        if not self._offers_resources:
            return listing
        more, notes = resources.missing_from(listing.tools)
        self._ours = frozenset(tool["name"] for tool in more)
        return ToolListing((*listing.tools, *more), (*listing.warnings, *notes))

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], meta: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        try:
            if name in self._ours:
                look = partial(self._look, meta)
                return await resources.call(name, arguments, look)
            params = {"name": name, "arguments": dict(arguments)}
            answer = await self._ask("tools/call", params, meta)
            self._look_at(name, answer)
        except GlyphoxaError:
            raise
        except Exception as error:
            raise self._meaning(error) from error
        return answer

    def begin_call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        meta: Mapping[str, Any],
        *,
        sent: Callable[[], None],
        settle: Callable[[outcome.Maybe[Mapping[str, Any]]], None],
    ) -> Callable[[], None] | None:
        if self._wire is None or name in self._ours or tracing():
            return None

        def answered(result: outcome.Maybe[dict[str, Any]]) -> None:
            settle(self._read(name, result))

        params = {
            "name": name,
            "arguments": dict(arguments),
            "_meta": {**self._sieve.stamp, **meta},
        }
        sent()
        try:
            return self._wire.begin("tools/call", params, answered)
        except MCPError:  # the long way says what it means
            return None

    def _read(
        self, name: str, result: outcome.Maybe[dict[str, Any]]
    ) -> outcome.Maybe[Mapping[str, Any]]:
        """What an answer from the wire means, with all that the SDK does to one."""
        if isinstance(result, outcome.Error):
            error = cast("MCPError", result.error)
            self._masking.clean(error)
            return outcome.Error(self._meaning(error))
        try:
            answer = masked(self._masking.mask, result.value)
            version = self._sieve.version or ""
            if (holds := _answers_of(version)) is not None:
                holds(answer, by_name=False)
            if version in MODERN_PROTOCOL_VERSIONS:
                _refuse_questions(answer)
            self._look_at(name, answer)
            return outcome.Value(answer)
        except GlyphoxaError as wrong:
            return outcome.Error(wrong)
        except Exception as wrong:
            return outcome.Error(self._meaning(wrong))

    def _meaning(self, error: Exception) -> Exception:
        """What an error of a call that is not ours means to whoever called."""
        if isinstance(error, MCPError):
            meaning = self._judged(error)
        else:  # foreign code: an answer that breaks the protocol
            text = f"its answer is not usable: {reason(error)}"
            meaning = AnswerUnusable(text)
        meaning.__cause__ = error
        return meaning

    async def _ask(
        self, method: str, params: dict[str, Any], meta: Mapping[str, Any]
    ) -> dict[str, Any]:
        if meta:
            params["_meta"] = dict(meta)
        request = cast("types.CallToolRequest", _SdkRequest(method, params))
        answer: dict[str, Any] = await self._client.send_request(request, _AS_IT_CAME)
        _refuse_questions(answer)
        return answer

    async def _look(
        self, meta: Mapping[str, Any], method: str, params: Mapping[str, Any]
    ) -> dict[str, Any]:
        try:
            return await self._ask(method, dict(params), meta)
        except MCPError as error:
            # A server with one kind of resources need not know the list of the other.
            if error.code == types.METHOD_NOT_FOUND and method.endswith("/list"):
                return {}
            raise

    def _judged(self, error: MCPError) -> Exception:
        """What an error means: for this call, for the session, for the effect."""
        text = reason(error)
        match error:
            case RequestUnsent():
                gone = self.loss.why
                return ToolUnavailable(text) if gone is None else NeverSent(gone)
            case ConnectionEnded():
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

    async def _take_outputs(self, listing: ToolListing) -> list[str]:
        """Compile the output schemas; what is wrong with them."""
        outputs: dict[str, OutputSchema] = {}
        notes: list[str] = []
        for tool in listing.tools:
            if tool.get("outputSchema") is None:
                continue
            name = tool["name"]
            schema = outputs[name] = OutputSchema(tool["outputSchema"])
            if schema.wrong is not None:
                said = f"its outputSchema is not looked at: {schema.wrong}"
                notes.append(f"{name}: {said}")
            await trio.lowlevel.checkpoint()
        self._outputs = outputs
        self._condenser.hold_against(
            {
                tool["name"]: tool["outputSchema"]
                for tool in listing.tools
                if tool["name"] in outputs
            }
        )
        return notes

    def _look_at(self, name: str, answer: Mapping[str, Any]) -> None:
        """Hold an answer against its tool's output schema, if there is one.

        Raises:
          AnswerUnusable: if it does not fit, or has nothing that could.
        """
        schema = self._outputs.get(name)
        if (
            schema is None
            or schema.wrong is not None
            or answer.get("isError")
            or self._condenser.was_checked(answer)
        ):
            return
        if "structuredContent" not in answer:
            problem: str | None = "it lacks the structured content of its schema"
        else:
            problem = schema.problem(answer["structuredContent"])
        if problem is not None:
            raise AnswerUnusable(f"its answer is not usable: {problem}")


def _refuse_questions(answer: Mapping[str, Any]) -> None:
    """Raise for an answer that asks something, as newer servers may."""
    if is_input_required(answer):
        raise ToolError("it asks for more than a tool call gives")


_PING: Final = types.PingRequest(method="ping")


@attrs.frozen
class _SdkRequest:
    """What `ClientSession.send_request` needs of a request: here, what it dumps to.

    The SDK's model of a call would be filled in only to be dumped at once, which
    is a tenth of what a call costs.
    """

    _method: str
    _params: dict[str, Any]
    # As in the SDK's own request: it knows by the method what to put into a header.
    name_param: ClassVar[str | None] = types.CallToolRequest.name_param

    def model_dump(self, **_: object) -> dict[str, Any]:
        return {"method": self._method, "params": self._params}


@asynccontextmanager
async def _dispatcher(
    spec: ServerSpec,
    loss: SessionLost,
    stderr: LastLines,
    server: trio.Process | None,
    condenser: Condenser,
    masking: Masking,
) -> AsyncGenerator[Dispatcher[Any]]:
    if server is not None:
        async with open_wire(server, loss, stderr, condenser) as wire:
            yield wire
    else:
        async with (
            http.open_client(spec, masking, condenser) as client,
            AsyncExitStack() as behind,
            streamable_http_client(http.endpoint(spec), http_client=client) as streams,
        ):
            # While the SDK takes leave of the server, answers may come: each would be
            # an error of the whole, if the dispatcher had closed both ways by then.
            reader, writer = cast("tuple[Any, Any]", streams)
            behind.enter_context(closing(reader.clone()))
            yield JSONRPCDispatcher(
                reader, behind.enter_context(closing(writer.clone()))
            )


def reason(error: BaseException, clean: Callable[[str], str] = str) -> str:
    """The first cause in a (group of) exception, short enough for a warning."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    kind = type(error).__name__
    first, *_ = clean(str(error)).strip().splitlines() or [kind]
    if not isinstance(error, GlyphoxaError | MCPError | OSError) and first != kind:
        first = f"{kind}: {first}"
    return first if len(first) <= _CUT else f"{first[:_CUT]} …"
