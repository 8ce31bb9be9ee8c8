"""What our servers answer, whatever carries the question: no I/O, no framing.

A transport makes a `Client` for each session, hands in each request with a
`Channel` back to whoever asked, and writes what comes out: a result, or an
`RpcError`. The handshake is the transport's, since over HTTP it is the SDK's.
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol

import attrs

import trio

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.tools.arguments import InvalidArguments
from glyphoxa_trio.tools.definition import (
    CallContext,
    Tool,
    ToolError,
    ToolUnavailable,
)
from glyphoxa_trio.tools.outcome import ToolResult
from glyphoxa_trio.tools.schema import ArgumentSchema

from . import wording
from .budget import MARGIN, remaining_seconds
from .offer import Offer, ResourceError, Resources

METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
RESOURCE_NOT_FOUND: Final = -32002

MOST_SUBSCRIPTIONS: Final = 256  # of one client


class RpcError(GlyphoxaError):
    """The answer to a request that has no result."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class Channel(Protocol):
    """The way back to a client, for as long as one request of its runs."""

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Raises nothing: a client that is gone is told nothing."""
        ...

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """What the client answers.

        Raises:
          RpcError: if it refuses, or cannot be asked on this transport.
        """
        ...


@attrs.define(eq=False, kw_only=True)
class Client:
    """One client, for as long as its session lasts.

    Args:
      session: which one it is; empty for requests that have nothing to do with each
        other.
      version: of the protocol, as agreed on.
      subscriptions: the URIs it wants to hear of.
    """

    session: str = ""
    version: str = ""
    capabilities: Mapping[str, Any] = attrs.field(factory=dict)
    subscriptions: set[str] = attrs.field(factory=set)


@attrs.frozen(eq=False, kw_only=True)
class Request:
    """One question of a client's. ``params`` is an object of JSON, unchecked."""

    method: str
    params: Mapping[str, Any]
    client: Client
    channel: Channel

    def text(self, name: str) -> str:
        """A parameter that must be there, and be text.

        Raises:
          RpcError: naming it.
        """
        value = self.params.get(name)
        if not isinstance(value, str):
            raise RpcError(INVALID_PARAMS, f"params.{name} must be a string")
        return value


Method = Callable[[Request], Awaitable[Mapping[str, Any]]]


@attrs.frozen
class _Served:
    """A tool, its schema compiled at the first call, and its limit in seconds."""

    tool: Tool
    schema: ArgumentSchema
    limit: float


@attrs.define(eq=False, init=False)
class Dispatch:
    """The requests that an offer answers."""

    offer: Offer
    capabilities: Mapping[str, Any]
    methods: Mapping[str, Method]
    _tools: Mapping[str, _Served]
    _entries: list[dict[str, Any]]

    def __init__(self, offer: Offer) -> None:
        self.offer = offer
        self._tools = {
            tool.definition.name: _Served(
                tool, ArgumentSchema(tool.definition.parameters), _limit(tool)
            )
            for tool in offer.tools
        }
        self._entries = [wording.tool_entry(tool) for tool in offer.tools]
        methods: dict[str, Method] = {}
        capabilities: dict[str, Any] = {}
        if offer.tools:
            methods |= {"tools/list": self._list_tools, "tools/call": self._call}
            capabilities["tools"] = {}
        if offer.resources is not None:
            methods |= _resource_methods(offer.resources)
            capabilities["resources"] = {"subscribe": True, "listChanged": True}
        self.methods = methods | dict(offer.methods)
        self.capabilities = capabilities | dict(offer.capabilities)

    def tool(self, name: str) -> Tool | None:
        served = self._tools.get(name)
        return None if served is None else served.tool

    async def answer(self, request: Request) -> Mapping[str, Any]:
        """The result of a request.

        Raises:
          RpcError: if there is none.
        """
        method = self.methods.get(request.method)
        if method is None:
            raise RpcError(METHOD_NOT_FOUND, "Method not found", request.method)
        return await method(request)

    async def _list_tools(self, request: Request) -> Mapping[str, Any]:
        if request.params.get("cursor") is not None:
            raise RpcError(INVALID_PARAMS, "no such cursor: the list is one page")
        return {"tools": self._entries}

    async def _call(self, request: Request) -> Mapping[str, Any]:
        name = request.text("name")
        served = self._tools.get(name)
        if served is None:
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {name[:100]}")
        arguments = request.params.get("arguments")
        try:
            # Compact JSON once more: the check is of what a model wrote, as text.
            text = "" if arguments is None else json.dumps(arguments)
            checked = served.schema.parse(text)
        except (InvalidArguments, ValueError, RecursionError) as error:
            return wording.refused(str(error), "InvalidArgument")
        awaited = remaining_seconds(request.params.get("_meta"))
        left = math.inf if awaited is None else max(0.0, awaited - MARGIN)
        now = trio.current_time()
        context = CallContext(
            session=request.client.session,
            deadline=now + min(left, served.limit),
            awaited_until=now + left,
        )
        return await _run(served.tool, checked, context)


def _limit(tool: Tool) -> float:
    return tool.definition.own_limit


async def _run(
    tool: Tool, arguments: Mapping[str, Any], context: CallContext
) -> Mapping[str, Any]:
    """What the handler says, by its deadline, as a CallToolResult."""
    try:
        with trio.CancelScope(deadline=context.deadline) as scope:
            outcome = (
                await trio.to_thread.run_sync(
                    partial(tool.handler, arguments, context), abandon_on_cancel=True
                )
                if tool.blocking
                else tool.handler(arguments, context)
            )
            result = outcome if isinstance(outcome, ToolResult) else await outcome
            return wording.answer(result)
    except ToolError as error:
        return wording.refused(str(error), error.code)
    except ToolUnavailable as error:
        return wording.refused(str(error), "Unavailable")
    except Exception as error:  # border: a bug in a handler costs its call
        return wording.refused(f"{tool.key}: {type(error).__name__}", "Internal")
    if scope.cancelled_caught:
        return wording.refused("the time for this call is over", "DeadlineExceeded")
    raise AssertionError("neither an answer nor a limit")


def _resource_methods(resources: Resources) -> dict[str, Method]:
    async def listed(request: Request) -> Mapping[str, Any]:
        cursor = request.params.get("cursor")
        if cursor is not None and not isinstance(cursor, str):
            raise RpcError(INVALID_PARAMS, "params.cursor must be a string")
        try:
            page = await resources.page(cursor)
        except ResourceError as error:
            raise _rpc(error, cursor) from None
        entries = [wording.resource_entry(item) for item in page.resources]
        more = {} if page.after is None else {"nextCursor": page.after}
        return {"resources": entries, **more}

    async def templates(request: Request) -> Mapping[str, Any]:
        entries = [wording.resource_entry(item) for item in resources.templates]
        return {"resourceTemplates": entries}

    async def read(request: Request) -> Mapping[str, Any]:
        uri = request.text("uri")
        try:
            contents = await resources.read(uri, request.client.session)
        except ResourceError as error:
            raise _rpc(error, uri) from None
        return {"contents": [wording.content_entry(content) for content in contents]}

    async def subscribe(request: Request) -> Mapping[str, Any]:
        uri = request.text("uri")
        wanted = request.client.subscriptions
        if len(wanted) >= MOST_SUBSCRIPTIONS and uri not in wanted:
            raise RpcError(INVALID_PARAMS, f"{MOST_SUBSCRIPTIONS} subscriptions is all")
        wanted.add(uri)
        return {}

    async def unsubscribe(request: Request) -> Mapping[str, Any]:
        request.client.subscriptions.discard(request.text("uri"))
        return {}

    return {
        "resources/list": listed,
        "resources/templates/list": templates,
        "resources/read": read,
        "resources/subscribe": subscribe,
        "resources/unsubscribe": unsubscribe,
    }


def _rpc(error: ResourceError, uri: str | None) -> RpcError:
    code = RESOURCE_NOT_FOUND if error.code == "NotFound" else INVALID_PARAMS
    return RpcError(code, str(error), {"code": error.code, "uri": uri})
