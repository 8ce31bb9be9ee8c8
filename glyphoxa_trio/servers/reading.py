"""The requests about resources: list, read and subscribe."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from . import serialize
from .definition import ResourceError, Resources
from .request import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    RESOURCE_NOT_FOUND,
    ClientRequest,
    RpcError,
)

MOST_SUBSCRIPTIONS: Final = 256  # of one client

# The codes of errors that the client can correct; any other is an internal error.
_CODES: Final = {"NotFound": RESOURCE_NOT_FOUND, "InvalidArgument": INVALID_PARAMS}


def resource_methods(
    resources: Resources,
) -> dict[str, Callable[[ClientRequest], Awaitable[Mapping[str, Any]]]]:
    """Return the functions that answer the requests about resources, by MCP method."""

    async def listed(request: ClientRequest) -> Mapping[str, Any]:
        cursor = request.params.get("cursor")
        if cursor is not None and not isinstance(cursor, str):
            raise RpcError(INVALID_PARAMS, "params.cursor must be a string")
        try:
            page = await resources.page(cursor)
        except ResourceError as error:
            raise _rpc(error, cursor) from None
        entries = [serialize.resource_entry(item) for item in page.resources]
        more = {} if page.after is None else {"nextCursor": page.after}
        return {"resources": entries, **more}

    async def templates(request: ClientRequest) -> Mapping[str, Any]:
        entries = [serialize.resource_entry(item) for item in resources.templates]
        return {"resourceTemplates": entries}

    async def read(request: ClientRequest) -> Mapping[str, Any]:
        uri = request.text("uri")
        try:
            contents = await resources.read(uri, request.client.session)
        except ResourceError as error:
            raise _rpc(error, uri) from None
        return {"contents": [serialize.content_entry(content) for content in contents]}

    async def subscribe(request: ClientRequest) -> Mapping[str, Any]:
        uri = request.text("uri")
        wanted = request.client.subscriptions
        if len(wanted) >= MOST_SUBSCRIPTIONS and uri not in wanted:
            raise RpcError(
                INVALID_PARAMS, f"at most {MOST_SUBSCRIPTIONS} subscriptions"
            )
        wanted.add(uri)
        return {}

    async def unsubscribe(request: ClientRequest) -> Mapping[str, Any]:
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
    code = _CODES.get(error.code, INTERNAL_ERROR)
    return RpcError(code, str(error), {"code": error.code, "uri": uri})
