"""The spans of requests to servers, and the trace that goes along (SEP-414).

The names are those of OpenTelemetry's conventions for MCP. Over HTTP the SDK begins the
span itself, by other names, and this module gives it those of the conventions. A
request that belongs to no trace has no span, and neither has a ping, which is sent for
as long as a server lives.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

import attrs
import outcome
from mcp.shared.exceptions import MCPError

from glyphoxa_trio.tracing import NO_SPAN, Span, begin, carry, inside

Params: TypeAlias = Mapping[str, Any] | None


@attrs.frozen(eq=False)
class _TracedCall:
    """A call, and the span that was current when it was made."""

    tool: str
    server: Mapping[str, Any]
    above: Any

    @property
    def about(self) -> Mapping[str, Any]:
        return {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": self.tool,
            **self.server,
        }


_CALL: ContextVar[_TracedCall | None] = ContextVar("the call", default=None)


def span_of(method: str, params: Params, ident: int | str) -> tuple[Span, Params]:
    """Begin the span of a request over a pipe, if a trace goes on in it.

    Returns the span, and the parameters with the trace in their ``_meta``.
    """
    if method == "ping" or not inside():
        return NO_SPAN, params
    call = _CALL.get() if method == "tools/call" else None
    span = begin(
        method if call is None else f"{method} {call.tool}",
        lambda: {
            "mcp.method.name": method,
            "jsonrpc.request.id": str(ident),
            "network.transport": "pipe",
            **({} if call is None else call.about),
        },
        kind="CLIENT",
    )
    carrier: dict[str, str] = {}
    with span.current():
        carry(carrier)
    if carrier:
        meta = {**((params or {}).get("_meta") or {}), **carrier}
        params = {**(params or {}), "_meta": meta}
    return span, params


def answered(span: Span, answer: outcome.Maybe[Any]) -> None:
    """End a request's span with its answer."""
    match answer:
        case outcome.Error(MCPError() as error) if type(error) is MCPError:
            code = str(error.code)
            span.fail(code)
            span.set({"rpc.response.status_code": code})
        case outcome.Error(error):
            span.fail(type(error).__qualname__)
        case outcome.Value({"isError": True}):
            span.fail("tool_error")
    span.end()


@contextmanager
def calling(tool: str, server: Mapping[str, Any]) -> Generator[None]:
    """Call a tool in this block: its span says which, and of which server.

    Args:
      server: attributes that the spans of all calls of the server have.
    """
    if not inside():
        yield
        return
    above = sys.modules["opentelemetry.trace"].get_current_span()
    token = _CALL.set(_TracedCall(tool, server, above))
    try:
        yield
    finally:
        _CALL.reset(token)


def into_headers(
    headers: MutableMapping[str, str], *, host: str, port: int | None
) -> None:
    """Write the trace into the headers of a request, and name the request's span.

    The SDK sends a message in the context in which it was said.
    """
    if not inside():
        return
    carrier: dict[str, str] = {}
    carry(carrier)
    headers.update(carrier)
    call = _CALL.get()
    span = sys.modules["opentelemetry.trace"].get_current_span()
    if call is None or span is call.above or not span.is_recording():
        return
    span.update_name(f"tools/call {call.tool}")
    about = {
        "mcp.session.id": headers.get("mcp-session-id"),
        "network.transport": "tcp",
        "network.protocol.name": "http",
        "server.address": host,
        "server.port": port,
        **call.about,
    }
    span.set_attributes({key: value for key, value in about.items() if value})
