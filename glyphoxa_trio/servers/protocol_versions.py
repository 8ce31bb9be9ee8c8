"""The two ways in which clients speak MCP: after a handshake, or without one.

Up to 2025-11-25 a client introduces itself once, and its requests belong together.
Since 2026-07-28 each request says in its ``_meta`` who asks and in which version, and
has nothing to do with the one before it. A connection is of the one way or the other,
as its first request says. No I/O.
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

# What one of the ways has and the other has not.
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

# How long an answer stays good, milliseconds, and whether for everybody. The lists
# of tools and templates do not change while a server runs.
FRESH: Final[Mapping[str, tuple[int, str]]] = {
    "server/discover": (300_000, "public"),
    "tools/list": (300_000, "public"),
    "resources/templates/list": (300_000, "public"),
    "resources/list": (0, "private"),
    "resources/read": (0, "private"),
    "prompts/list": (0, "private"),
}


def is_stateless(params: Mapping[str, Any]) -> bool:
    """Whether a request speaks for itself: it names a version in its ``_meta``."""
    meta = params.get("_meta")
    return isinstance(meta, Mapping) and VERSION in meta


def check(method: str, *, stateless: bool) -> None:
    """Raises `RpcError` for a method that this way of speaking does not have."""
    if method in (_ONLY_HANDSHAKE if stateless else _ONLY_STATELESS):
        raise RpcError(METHOD_NOT_FOUND, "Method not found", method)


def server_info(dispatch: Dispatch, version: str) -> dict[str, Any]:
    """Who answers."""
    offer = dispatch.offer
    info = {"name": offer.name, "version": version}
    return info | {"title": offer.title} if offer.title else info


def shake_hands(
    dispatch: Dispatch, info: Mapping[str, Any], params: Mapping[str, Any]
) -> tuple[Client, dict[str, Any]]:
    """A client that introduces itself, and the answer to ``initialize``.

    A version that is not known is answered by the newest one; the client leaves if
    that will not do. Without ``capabilities`` it has none (seed 002's own example).

    Raises:
      RpcError: naming what is wrong.
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
    """Who sends a request that speaks for itself.

    Raises:
      RpcError: naming what its ``_meta`` lacks, or the versions that there are.
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
    """The answer to whoever speaks another version without a handshake."""
    data: dict[str, Any] = {"supported": list(STATELESS)}
    if isinstance(requested, str):
        data["requested"] = requested
    return RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)


def discovery(dispatch: Dispatch) -> dict[str, Any]:
    """The answer to ``server/discover``."""
    answer: dict[str, Any] = {
        "supportedVersions": list(STATELESS),
        "capabilities": dispatch.capabilities,
    }
    if dispatch.offer.instructions:
        answer["instructions"] = dispatch.offer.instructions
    return answer


def interests(params: Mapping[str, Any]) -> tuple[PendingNotifications, dict[str, Any]]:
    """What ``subscriptions/listen`` wants to hear of, and what of that it will.

    Raises:
      RpcError: naming what is wrong.
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
        raise RpcError(INVALID_PARAMS, f"{MOST_SUBSCRIPTIONS} subscriptions is all")
    lists = wanted.get("resourcesListChanged") is True
    honored: dict[str, Any] = {"resourcesListChanged": True} if lists else {}
    if uris:
        honored["resourceSubscriptions"] = uris
    return PendingNotifications(frozenset(uris), lists), honored


def complete(
    method: str, result: Mapping[str, Any], info: Mapping[str, Any]
) -> dict[str, Any]:
    """A result as a client without a handshake must have it."""
    written: dict[str, Any] = {"resultType": "complete", **result}
    if method in FRESH:
        milliseconds, scope = FRESH[method]
        written.setdefault("ttlMs", milliseconds)
        written.setdefault("cacheScope", scope)
    meta = written.get("_meta")
    written["_meta"] = {SERVER: info, **(meta if isinstance(meta, Mapping) else {})}
    return written


def error(refused: RpcError, *, stateless: bool) -> dict[str, Any]:
    """An error as JSON-RPC writes it. One code was taken out of use in 2026."""
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
