"""The requests that a server of ours answers, on every transport. No I/O, no framing.

A transport makes a `Client` for each session, hands in each request with a `Channel`
back to the client, and writes the outcome: a result, or an `RpcError`. The transport
also does the handshake, since over HTTP the SDK does it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.actors import SharedTasks
from glyphoxa_trio.tools.arguments import InvalidArguments
from glyphoxa_trio.tools.definition import CallContext, SessionClaim, Tool
from glyphoxa_trio.tools.schema import ArgumentSchema, BadSchema

from . import serialize
from .budget import MARGIN, remaining_seconds, session_claim
from .definition import ServerDefinition
from .reading import resource_methods
from .request import ASKED as ASKED
from .request import INTERNAL_ERROR as INTERNAL_ERROR
from .request import INVALID_PARAMS as INVALID_PARAMS
from .request import LEVELS as LEVELS
from .request import METHOD_NOT_FOUND as METHOD_NOT_FOUND
from .request import RESOURCE_NOT_FOUND as RESOURCE_NOT_FOUND
from .request import Channel as Channel
from .request import Client as Client
from .request import ClientRequest as ClientRequest
from .request import RpcError as RpcError
from .running import crashed, run

LONGEST_CALL: Final = 300.0  # seconds, for a tool that has no limit of its own
# A handler may wait while other calls are read and answered, which is not its fault:
# forty calls in one write would use up the 20 ms of a dice roll. So each gets this much
# time on top of its limit.
IN_LINE: Final = serialize.ON_THE_WAY / 2  # seconds

Method = Callable[[ClientRequest], Awaitable[Mapping[str, Any]]]


@attrs.frozen
class _Served:
    """A tool, its argument schema, and its limit in seconds.

    The schema is compiled at the first call.
    """

    tool: Tool
    schema: ArgumentSchema
    limit: float


@attrs.define(eq=False, init=False)
class Dispatch:
    """Answers to MCP requests from the tools and resources of a `ServerDefinition`.

    Args:
      flights: where handlers run, as tasks that callers may leave behind. Without it,
        a call waits for a handler that does not stop when its time is over.
    """

    offer: ServerDefinition
    capabilities: Mapping[str, Any]
    methods: Mapping[str, Method]
    _flights: SharedTasks | None
    _tools: Mapping[str, _Served]
    _entries: list[dict[str, Any]]

    def __init__(
        self, offer: ServerDefinition, flights: SharedTasks | None = None
    ) -> None:
        self.offer = offer
        self._flights = flights
        self._tools = {
            tool.definition.name: _Served(
                tool, ArgumentSchema(tool.definition.parameters), _limit(tool)
            )
            for tool in offer.tools
        }
        self._entries = [
            serialize.tool_entry(tool, offer.outputs.get(tool.definition.name))
            for tool in offer.tools
        ]
        methods: dict[str, Method] = {}
        capabilities: dict[str, Any] = {}
        if offer.tools:
            methods |= {"tools/list": self._list_tools, "tools/call": self._call}
            capabilities["tools"] = {}
        if offer.resources is not None:
            methods |= resource_methods(offer.resources)
            capabilities["resources"] = {"subscribe": True, "listChanged": True}
        self.capabilities = capabilities | dict(offer.capabilities)
        if "logging" in self.capabilities:
            methods["logging/setLevel"] = _set_level
        self.methods = methods | dict(offer.methods)

    def warm(self) -> None:
        """Compile every argument schema now, instead of each at its first call.

        It takes some 100 ms.

        May be called in a thread. A broken schema is reported by the call that needs
        it.
        """
        for served in self._tools.values():
            with suppress(BadSchema):
                served.schema.warm()

    def tool(self, name: str) -> Tool | None:
        served = self._tools.get(name)
        return None if served is None else served.tool

    async def answer(self, request: ClientRequest) -> Mapping[str, Any]:
        """Return the result of a request.

        Cancelling it cancels the handler.

        Raises:
          RpcError: if the method is unknown, a parameter is wrong, or the method fails.
        """
        method = self.methods.get(request.method)
        if method is None:
            raise RpcError(METHOD_NOT_FOUND, "Method not found", request.method)
        return await method(request)

    async def _list_tools(self, request: ClientRequest) -> Mapping[str, Any]:
        if request.params.get("cursor") is not None:
            raise RpcError(INVALID_PARAMS, "no such cursor: the list is one page")
        return {"tools": self._entries}

    async def _call(self, request: ClientRequest) -> Mapping[str, Any]:
        name = request.text("name")
        served = self._tools.get(name)
        if served is None:
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {name[:100]}")
        arguments = request.params.get("arguments")
        if not isinstance(arguments, dict | None):
            raise RpcError(INVALID_PARAMS, "params.arguments must be an object")
        try:
            # Written as compact JSON again, since the schema checks the text that a
            # model wrote.
            text = (
                "" if arguments is None else json.dumps(arguments, ensure_ascii=False)
            )
            checked = served.schema.parse(text)
        except (InvalidArguments, ValueError, RecursionError) as error:
            return serialize.refused(str(error), "InvalidArgument")
        except BadSchema as error:
            return crashed(served.tool, error)
        meta = request.params.get("_meta")
        awaited = None if meta is None else remaining_seconds(meta)
        left = math.inf if awaited is None else max(0.0, awaited - MARGIN)
        now = trio.current_time()
        if name in self.offer.calls:
            with trio.CancelScope(deadline=now + min(left, served.limit)):
                return await self.offer.calls[name](request)
            return serialize.too_late()
        claimed = None if meta is None else session_claim(meta)
        context = CallContext(
            session=request.client.session,
            deadline=now + min(left, served.limit),
            awaited_until=now + left,
            claim=None if claimed is None else SessionClaim(*claimed),
        )
        ASKED.set(request)
        if self._flights is not None:
            return await run(self._flights, served.tool, checked, context)
        async with trio.open_nursery() as nursery:
            return await run(SharedTasks(nursery), served.tool, checked, context)
        raise AssertionError("a nursery swallows no error")


def _limit(tool: Tool) -> float:
    limit = tool.definition.own_limit
    return LONGEST_CALL if math.isinf(limit) else limit + IN_LINE


async def _set_level(request: ClientRequest) -> Mapping[str, Any]:
    level = request.text("level")
    if level not in LEVELS:
        raise RpcError(INVALID_PARAMS, f"params.level is one of {', '.join(LEVELS)}")
    request.client.read_log_from(level)
    return {}
