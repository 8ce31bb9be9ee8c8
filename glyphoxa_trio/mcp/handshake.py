"""The handshake of an SDK session, in either protocol family.

Import this lazily: it needs the SDK.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final

import mcp_types as types
from mcp.client.session import ClientSession
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.exceptions import MCPError
from mcp_types.version import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    LATEST_HANDSHAKE_VERSION,
    MODERN_PROTOCOL_VERSIONS,
)
from pydantic import ValidationError

import trio

from glyphoxa_trio.config import ServerSpec, Transport
from glyphoxa_trio.units import in_ms

from . import http
from .malformed import MalformedAnswer
from .metadata import REMEDY
from .transport import ConnectionFailed
from .wire import ConnectionEnded, RequestUnsent

OnChange = Callable[[], None]

# The SDK's words for a version that it does not speak.
_VERSION: Final = re.compile(r"Unsupported protocol version.*?: (.*)", re.DOTALL)
_LONGEST: Final = 40  # characters of a version

_RELISTEN: Final = 1.0  # seconds before listening again

# After these errors another attempt is useless. They are the codes of our HTTP client:
# a stdio server's own errors may have any code. CONNECTION_CLOSED is not among them,
# because TypeScript servers use it to refuse a request that they do not know.
_HOPELESS: Final = (http.NEVER_SENT, http.BUSY)


async def agree(client: ClientSession, spec: ServerSpec) -> None:
    """Perform the handshake.

    Raises:
      ConnectionFailed: if that takes longer than ``start_timeout``.
      MCPError, RuntimeError: as the SDK raises them for a server that refuses, or
        breaks the protocol.
      MalformedAnswer: if its answer is not a greeting.
    """
    with trio.move_on_after(spec.start_timeout):
        await _negotiate(client, spec)
        return
    raise ConnectionFailed(f"no handshake within {in_ms(spec.start_timeout)}")


async def _negotiate(client: ClientSession, spec: ServerSpec) -> None:
    """Agree on a protocol version, of either family.

    Over stdio the handshake of the older family is tried first, because some servers
    exit on any other first message. Over HTTP no server exits on a request, and the
    newer family keeps no session that could be lost.
    """
    first = partial(_answered, "initialize", client.initialize)
    second = partial(_answered, "server/discover", client.discover)
    if spec.transport is Transport.STREAMABLE_HTTP:
        first, second = second, first
    try:
        await first()
    except (MCPError, RuntimeError, MalformedAnswer) as refusal:
        if isinstance(refusal, ConnectionEnded | RequestUnsent) or (
            spec.url is not None
            and isinstance(refusal, MCPError)
            and refusal.code in _HOPELESS
        ):
            raise
        try:
            await second()
        except MCPError as other:
            if other.code == types.METHOD_NOT_FOUND:
                raise refusal from None  # the first error says more
            raise


async def _answered(method: str, ask: Callable[[], Awaitable[object]]) -> None:
    """Send the first request of a protocol family.

    Raises:
      MalformedAnswer: if the answer breaks the protocol.
    """
    try:
        await ask()
    except ValidationError as error:
        raise MalformedAnswer.of(method, error) from error
    except RuntimeError as error:  # of the SDK
        if (said := _VERSION.fullmatch(str(error))) is None:
            raise
        known = f"from {HANDSHAKE_PROTOCOL_VERSIONS[0]} to {LATEST_HANDSHAKE_VERSION}"
        raise MalformedAnswer(
            f"it speaks version {said[1][:_LONGEST]} of MCP, and not one {known};"
            f" {REMEDY}"
        ) from error


def announced(client: ClientSession, *, resources: bool) -> tuple[bool, bool, bool]:
    """Return which changes the newer family's subscription can announce.

    These are changes of the tools, the prompts and the resources. ``resources`` says if
    the last are of interest.
    """
    offered = client.server_capabilities
    if offered is None or client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return False, False, False
    tools, prompts, others = offered.tools, offered.prompts, offered.resources
    return (
        tools is not None and tools.list_changed is True,
        prompts is not None and prompts.list_changed is True,
        resources and others is not None and others.list_changed is True,
    )


def offers_resources(client: ClientSession) -> bool:
    """Return whether the server announced resources."""
    offered = client.server_capabilities
    return offered is not None and offered.resources is not None


def offers_prompts(client: ClientSession) -> bool:
    """Return whether the server announced prompts."""
    offered = client.server_capabilities
    return offered is not None and offered.prompts is not None


async def follow_changes(
    client: ClientSession, kinds: tuple[bool, bool, bool], on_tools_changed: OnChange
) -> None:
    """Call ``on_tools_changed`` on each change, by the newer family's subscription.

    Runs until the server ends the subscription, does not support it, or cancelled.
    """
    tools, prompts, others = kinds  # as `announced` has them
    while True:
        with suppress(SubscriptionLost):
            try:
                async with listen(
                    client,
                    tools_list_changed=tools,
                    prompts_list_changed=prompts,
                    resources_list_changed=others,
                ) as changes:
                    async for _ in changes:
                        on_tools_changed()
                return  # the server has ended the subscription
            except MCPError as error:
                if error.code == types.METHOD_NOT_FOUND:
                    return
        await trio.sleep(_RELISTEN)
        on_tools_changed()  # changes that were missed are not sent again
