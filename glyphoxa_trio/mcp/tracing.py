"""One OpenTelemetry span for each request, if spans are collected.

The names are those of the MCP SDK, whose place our wire takes. Without a tracer
provider and a current span, it costs one check. Import this lazily.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from mcp.shared.exceptions import MCPError
from opentelemetry import propagate, trace
from opentelemetry.context import get_current
from opentelemetry.trace import ProxyTracerProvider, SpanKind

Params: TypeAlias = Mapping[str, Any] | None
Answer: TypeAlias = dict[str, Any]


def tracing() -> bool:
    """Return whether a span would be recorded, or a trace continued."""
    # An empty context is the usual case.
    if get_current() and trace.get_current_span().get_span_context().is_valid:
        return True
    return not isinstance(trace.get_tracer_provider(), ProxyTracerProvider)


async def traced(
    method: str, params: Params, send: Callable[[Params], Awaitable[Answer]]
) -> Answer:
    """Send a request within a span, with the trace in its ``_meta`` (SEP-414)."""
    name = (params or {}).get("name")
    subject = f" {name}" if isinstance(name, str) else ""
    with trace.get_tracer("glyphoxa_trio.mcp").start_as_current_span(
        f"MCP send {method}{subject}",
        kind=SpanKind.CLIENT,
        attributes={"mcp.method.name": method},
    ) as span:
        carrier: dict[str, str] = {}
        propagate.inject(carrier)
        if carrier:
            meta = {**((params or {}).get("_meta") or {}), **carrier}
            params = {**(params or {}), "_meta": meta}
        try:
            return await send(params)
        except MCPError as error:
            span.set_attribute("error.type", str(error.code))
            span.set_attribute("rpc.response.status_code", str(error.code))
            raise
