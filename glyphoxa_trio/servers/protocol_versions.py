"""The two ways to speak MCP: with a handshake, or without one. No I/O.

In versions up to 2025-11-25 a client introduces itself once, with ``initialize``, and
its requests belong to one session. Since 2026-07-28 the ``_meta`` of each request names
the client and the version, and a request has nothing to do with the one before it. The
first request of a connection decides which of the two ways all of it uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .dispatch import Dispatch
from .pending_notifications import PendingNotifications
from .reading import MOST_SUBSCRIPTIONS
from .request import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
    Client,
    RpcError,
)

HANDSHAKE: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
STATELESS: Final = ("2026-07-28",)
WITH_BATCHES: Final = "2025-03-26"

UNSUPPORTED_VERSION: Final = -32022

_OF_MCP: Final = "io.modelcontextprotocol/"
VERSION: Final = _OF_MCP + "protocolVersion"
CAPABILITIES: Final = _OF_MCP + "clientCapabilities"
SERVER: Final = _OF_MCP + "serverInfo"
SUBSCRIPTION: Final = _OF_MCP + "subscriptionId"
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"

# The methods that exist in only one of the two ways.
_ONLY_HANDSHAKE: Final = frozenset(
    {
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
    }
)
_ONLY_STATELESS: Final = frozenset({"server/discover", "subscriptions/listen"})

# How long an answer stays valid (milliseconds), and for whom it may be cached
# ("public" means every client). The lists of tools and templates do not change while a
# server runs.
FRESH: Final[Mapping[str, tuple[int, str]]] = {
    "server/discover": (300_000, "public"),
    "tools/list": (300_000, "public"),
    "resources/templates/list": (300_000, "public"),
    "resources/list": (0, "private"),
    "resources/read": (0, "private"),
    "prompts/list": (0, "private"),
}


def is_stateless(params: Mapping[str, Any]) -> bool:
    """Return whether a request needs no handshake: its ``_meta`` names a version."""
    meta = params.get("_meta")
    return isinstance(meta, Mapping) and VERSION in meta


def check(method: str, *, stateless: bool) -> None:
    """Raise `RpcError` for a method that this way of speaking does not have."""
    if method in (_ONLY_HANDSHAKE if stateless else _ONLY_STATELESS):
        raise RpcError(METHOD_NOT_FOUND, "Method not found", method)


def server_info(dispatch: Dispatch, version: str) -> dict[str, Any]:
    """Return the name, version and title of the server."""
    offer = dispatch.offer
    info = {"name": offer.name, "version": version}
    return info | {"title": offer.title} if offer.title else info


def shake_hands(
    dispatch: Dispatch, info: Mapping[str, Any], params: Mapping[str, Any]
) -> tuple[Client, dict[str, Any]]:
    """Return the client that ``initialize`` introduces, and the answer to it.

    A version that the server does not know is answered with the newest one that it
    does; the client disconnects if it cannot use that. A client that sends no
    ``capabilities`` has none, since an example in the original design sends none.

    Raises:
      RpcError: if a parameter has the wrong type; the message names it.
    """
    wanted = params.get("protocolVersion")
    if not isinstance(wanted, str):
        raise RpcError(INVALID_PARAMS, "params.protocolVersion must be a string")
    capabilities = _mapping(params, "capabilities")
    _mapping(params, "clientInfo")
    version = wanted if wanted in HANDSHAKE else HANDSHAKE[0]
    client = Client(session="stdio", version=version, capabilities=capabilities)
    answer = {
        "protocolVersion": version,
        "capabilities": dispatch.capabilities,
        "serverInfo": info,
    }
    if dispatch.offer.instructions:
        answer["instructions"] = dispatch.offer.instructions
    return client, answer


def envelope(params: Mapping[str, Any]) -> Client:
    """Return the client that sends a request without a handshake.

    Raises:
      RpcError: if ``_meta`` lacks a key (named in the message), or names a version
        that is not supported (the error's data lists the supported ones).
    """
    meta = params.get("_meta")
    if not isinstance(meta, Mapping):
        raise RpcError(INVALID_PARAMS, f"params._meta must hold {VERSION}")
    missing = [key for key in (VERSION, CAPABILITIES) if key not in meta]
    if missing:
        raise RpcError(INVALID_PARAMS, f"params._meta lacks {' and '.join(missing)}")
    version = meta[VERSION]
    if not isinstance(version, str):
        raise RpcError(INVALID_PARAMS, f"params._meta.{VERSION} must be a string")
    if version not in STATELESS:
        raise unsupported(version)
    return Client(version=version, capabilities=_mapping(meta, CAPABILITIES))


def unsupported(requested: object) -> RpcError:
    """Return the error for a client without a handshake that speaks another version."""
    data: dict[str, Any] = {"supported": list(STATELESS)}
    if isinstance(requested, str):
        data["requested"] = requested
    return RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)


def discovery(dispatch: Dispatch) -> dict[str, Any]:
    """Return the answer to ``server/discover``."""
    answer: dict[str, Any] = {
        "supportedVersions": list(STATELESS),
        "capabilities": dispatch.capabilities,
    }
    if dispatch.offer.instructions:
        answer["instructions"] = dispatch.offer.instructions
    return answer


def interests(params: Mapping[str, Any]) -> tuple[PendingNotifications, dict[str, Any]]:
    """Return the changes that ``subscriptions/listen`` asks for, and the part accepted.

    Raises:
      RpcError: if a parameter has the wrong type; the message names it.
    """
    wanted = params.get("notifications")
    if not isinstance(wanted, Mapping):
        raise RpcError(INVALID_PARAMS, "params.notifications must be an object")
    uris = wanted.get("resourceSubscriptions")
    if uris is None:
        uris = []
    if not isinstance(uris, list) or not all(isinstance(uri, str) for uri in uris):
        wrong = "params.notifications.resourceSubscriptions must be a list of strings"
        raise RpcError(INVALID_PARAMS, wrong)
    if len(uris) > MOST_SUBSCRIPTIONS:
        raise RpcError(INVALID_PARAMS, f"at most {MOST_SUBSCRIPTIONS} subscriptions")
    lists = wanted.get("resourcesListChanged") is True
    honored: dict[str, Any] = {"resourcesListChanged": True} if lists else {}
    if uris:
        honored["resourceSubscriptions"] = uris
    return PendingNotifications(frozenset(uris), lists), honored


def complete(
    method: str, result: Mapping[str, Any], info: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a result with the fields that a client without a handshake requires."""
    written: dict[str, Any] = {"resultType": "complete", **result}
    if method in FRESH:
        milliseconds, scope = FRESH[method]
        written.setdefault("ttlMs", milliseconds)
        written.setdefault("cacheScope", scope)
    meta = written.get("_meta")
    written["_meta"] = {SERVER: info, **(meta if isinstance(meta, Mapping) else {})}
    return written


def error(refused: RpcError, *, stateless: bool) -> dict[str, Any]:
    """Return an error as JSON-RPC writes it.

    The code for a resource that is not found was retired in 2026, so a client without a
    handshake gets "invalid params" instead.
    """
    retired = stateless and refused.code == RESOURCE_NOT_FOUND
    written: dict[str, Any] = {
        "code": INVALID_PARAMS if retired else refused.code,
        "message": str(refused),
    }
    if refused.data is not None:
        written["data"] = refused.data
    return written


def _mapping(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = values.get(name, {})
    if not isinstance(value, Mapping):
        raise RpcError(INVALID_PARAMS, f"params.{name} must be an object")
    return value
