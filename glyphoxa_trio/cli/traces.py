"""Traces of a command, exported as OpenTelemetry's own variables say.

Nothing is imported or started unless one of them names an exporter.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import trio

from glyphoxa_trio.extras import installed, missing

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_ENDPOINTS: Final = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
)
_CLOSING: Final = 3.0  # seconds to send what was not sent yet, at the end
_HTTP: Final = "http/protobuf"

Warn = Callable[[str], None]


@asynccontextmanager
async def open_traces(warn: Warn) -> AsyncGenerator[None]:
    """Export spans in this block, if the environment asks for that.

    Leaving sends the last ones, for at most three seconds, cancelled or not.

    Args:
      warn: called with what is wrong with the settings, and once if spans cannot be
        sent; then in another thread.
    """
    names = exporters_of(os.environ)
    if not names:
        yield
        return
    if not installed("otel"):
        warn(missing("the export of traces", "otel"))
        yield
        return
    provider = await trio.to_thread.run_sync(_begin, names, warn)
    try:
        yield
    finally:
        if provider is not None:
            with trio.move_on_after(_CLOSING, shield=True):
                await trio.to_thread.run_sync(provider.shutdown, abandon_on_cancel=True)


def exporters_of(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the exporters that the variables ask for."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ()
    said = environment.get("OTEL_TRACES_EXPORTER", "").strip()
    if not said and any(environment.get(name) for name in _ENDPOINTS):
        said = "otlp"
    names = (name.strip().lower() for name in said.split(","))
    return tuple(name for name in names if name not in ("", "none"))


def _begin(names: tuple[str, ...], warn: Warn) -> TracerProvider | None:
    """Set the provider of this process, unless it has one."""
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import (
        BatchSpanProcessor,
        ConsoleSpanExporter,
        SpanExporter,
    )

    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return None  # whoever started this program has set one
    logger = logging.getLogger("opentelemetry")
    logger.addHandler(_FirstOnly(warn))
    logger.propagate = False
    resource = Resource.create()
    if str(resource.attributes["service.name"]).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": "glyphoxa"}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    for name in names:
        exporter: SpanExporter
        match name:
            case "otlp":
                protocol = os.environ.get(
                    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
                ) or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", _HTTP)
                if protocol != _HTTP:
                    warn(f"traces are exported by {_HTTP}, and not by {protocol}")
                exporter = OTLPSpanExporter()
            case "console":
                exporter = ConsoleSpanExporter(out=sys.stderr)
            case _:
                warn(f"OTEL_TRACES_EXPORTER: otlp, console or none, not {name}")
                continue
        provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider


class _FirstOnly(logging.Handler):
    """Tells the first problem of the exporter, and none of those that follow it."""

    def __init__(self, warn: Warn) -> None:
        super().__init__(logging.WARNING)
        self._warn: Warn | None = warn

    def emit(self, record: logging.LogRecord) -> None:
        warn, self._warn = self._warn, None
        if warn is not None:
            warn(f"traces: {record.getMessage()}")
