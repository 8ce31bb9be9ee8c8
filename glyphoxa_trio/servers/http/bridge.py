"""Our `Dispatch` behind the SDK's server, which speaks both versions of the protocol.

The SDK itself answers only ``initialize``, ``ping``, ``server/discover`` and
``subscriptions/listen``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, cast

import attrs
import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
)
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request as HttpRequest

import trio

from glyphoxa_trio.servers import protocol_versions
from glyphoxa_trio.servers.asking import NEEDED, PATIENCE
from glyphoxa_trio.servers.definition import Changed
from glyphoxa_trio.servers.dispatch import Dispatch
from glyphoxa_trio.servers.jsonrpc import INVALID_REQUEST
from glyphoxa_trio.servers.request import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Client,
    ClientRequest,
    RpcError,
)

logger = logging.getLogger(__name__)

# the key in a request's ASGI scope that holds its `HttpExchange`
EXCHANGE = "glyphoxa.exchange"


class _Params(BaseModel):
    """Any JSON object; our dispatch checks its content."""

    model_config = ConfigDict(extra="allow")


class _Result(BaseModel):
    model_config = ConfigDict(extra="allow")


def _discovery_hint() -> CacheHint:
    milliseconds, scope = protocol_versions.FRESH["server/discover"]
    return CacheHint(milliseconds, cast("Any", scope))


@attrs.define(eq=False, kw_only=True)
class HttpExchange:
    """One HTTP request, as the handler of its JSON-RPC message finds it.

    Args:
      client: the client of the session; None for a request without a session.
      streams: whether notifications can be sent beside the answer.
      greeted: called with the client's channel, once ``initialize`` has been accepted.
    """

    client: Client | None = None
    streams: bool = True
    greeted: Callable[[ServerSession], None] | None = None


@attrs.define(eq=False)
class Changes:
    """A `SubscriptionBus` for `subscriptions/listen`, notified without waiting."""

    _listeners: dict[object, Callable[[ServerEvent], None]] = attrs.field(factory=dict)

    def note(self, changed: Changed) -> None:
        event: ServerEvent = (
            ResourcesListChanged()
            if changed.uri is None
            else ResourceUpdated(changed.uri)
        )
        for listener in list(self._listeners.values()):
            listener(event)

    async def publish(self, event: ServerEvent) -> None:
        raise AssertionError("changes come from the topic")

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        token = object()
        self._listeners[token] = listener

        def unsubscribe() -> None:
            self._listeners.pop(token, None)

        return unsubscribe


class DispatchServer(Server[Any]):
    """The SDK's server, with requests that are answered by a `Dispatch`."""

    def __init__(self, dispatch: Dispatch, version: str, *, listening: int) -> None:
        offer = dispatch.offer
        self.offer = offer
        super().__init__(
            offer.name,
            version=version,
            title=offer.title or None,
            instructions=offer.instructions or None,
            cache_hints={"server/discover": _discovery_hint()},
            get_tool_input_schema=self._schema_of,
        )
        self._dispatch = dispatch
        self._info = protocol_versions.server_info(dispatch, version)
        self._capabilities = types.ServerCapabilities.model_validate(
            dispatch.capabilities
        )
        self.changes = Changes()
        self.listen = ListenHandler(self.changes, max_subscriptions=listening)
        for method in dispatch.methods:
            self.add_request_handler(method, _Params, self._answer)
        if offer.resources is not None:
            self.add_request_handler(
                "subscriptions/listen",
                types.SubscriptionsListenRequestParams,
                self.listen,
            )
        self.middleware.append(self._watch)

    def get_capabilities(self, *_: Any, **__: Any) -> types.ServerCapabilities:
        return self._capabilities

    @property
    def initialization(self) -> InitializationOptions:
        return self.create_initialization_options()

    def _schema_of(self, name: str) -> Mapping[str, Any] | None:
        tool = self._dispatch.tool(name)
        return None if tool is None else tool.definition.parameters

    async def _watch(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Store the result of `initialize` in the session's client."""
        result = await call_next(ctx)
        exchange = _exchange(ctx)
        client = exchange.client
        # A notification may also be named "initialize"; it has no result.
        if ctx.method == "initialize" and client is not None and result is not None:
            params = ctx.params or {}
            version = cast("dict[str, Any]", result)["protocolVersion"]
            client.agree(version, params.get("capabilities") or {})
            if exchange.greeted is not None:
                exchange.greeted(ctx.session)
        return result

    async def _answer(
        self, ctx: ServerRequestContext[Any, Any], params: _Params
    ) -> dict[str, Any]:
        exchange = _exchange(ctx)
        client = exchange.client
        if client is None:  # every request stands alone
            declared = ctx.session.client_capabilities
            client = Client(
                version=ctx.protocol_version,
                capabilities={}
                if declared is None
                else declared.model_dump(by_alias=True, exclude_none=True),
            )
        request = ClientRequest(
            method=ctx.method,
            params=ctx.params or {},
            client=client,
            channel=_Channel(ctx, client, exchange.streams),
        )
        try:
            result = await self._dispatch.answer(request)
            if client.session:
                return dict(result)
            return protocol_versions.complete(ctx.method, result, self._info)
        except RpcError as error:
            refused = protocol_versions.error(error, stateless=not client.session)
            raise MCPError(
                refused["code"], refused["message"], refused.get("data")
            ) from None
        except Exception:  # border: a bug in a server's code fails its request only
            logger.exception("%s failed", ctx.method)
            raise MCPError(INTERNAL_ERROR, "Internal error") from None


async def notify(
    session: ServerSession,
    method: str,
    params: Mapping[str, Any],
    related: types.RequestId | None = None,
) -> None:
    """Send a notification to a client that has a session. Does nothing if it is gone.

    Args:
      related: the request whose event stream carries it; None for the stream of the
        client's GET.
    """
    notification: Any = types.Notification[dict[str, Any], str](
        method=method, params=dict(params)
    )
    try:
        await session.send_notification(notification, related)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return  # the client is gone


def _exchange(ctx: ServerRequestContext[Any, Any]) -> HttpExchange:
    return cast("HttpExchange", cast("HttpRequest", ctx.request).scope[EXCHANGE])


@attrs.frozen(eq=False)
class _Channel:
    """The event stream of a request's answer, as the channel to the client."""

    _ctx: ServerRequestContext[Any, Any]
    _client: Client
    _streams: bool

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        if not self._streams:
            return
        await notify(self._ctx.session, method, params, related=self._ctx.request_id)

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        needed = NEEDED.get(method)
        if needed is not None and needed not in self._client.capabilities:
            raise RpcError(INVALID_REQUEST, f"the client has no {needed}")
        if not self._streams:
            raise RpcError(
                METHOD_NOT_FOUND, f"{method}: the client accepts no event stream"
            )
        request: Any = types.Request[dict[str, Any], str](
            method=method, params=dict(params)
        )
        try:
            answer = await self._ctx.session.send_request(
                request,
                _Result,
                request_read_timeout_seconds=PATIENCE,
                metadata=ServerMessageMetadata(related_request_id=self._ctx.request_id),
            )
        except NoBackChannelError as error:
            raise RpcError(METHOD_NOT_FOUND, str(error)) from None
        except MCPError as error:
            raise RpcError(error.code, error.message, error.data) from None
        except ValidationError:
            wrong = f"{method}: the client's answer does not follow MCP"
            raise RpcError(INVALID_PARAMS, wrong) from None
        return answer.model_dump(by_alias=True)
