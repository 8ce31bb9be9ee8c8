"""The SDK of OpenTelemetry as these tests look at it: what has begun and what ended."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import attrs
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider


@attrs.define(eq=False)
class Spans(SpanProcessor):
    """Every span, in the order of the beginnings, and those that have not ended."""

    all: list[ReadableSpan] = attrs.field(factory=list)
    open: set[int] = attrs.field(factory=set)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.all.append(span)
        self.open.add(ident(span))

    def on_end(self, span: ReadableSpan) -> None:
        self.open.remove(ident(span))  # it fails if it had ended before

    def named(self, name: str) -> list[ReadableSpan]:
        """Those whose name begins so."""
        return [x for x in self.all if x.name.startswith(name)]

    def one(self, name: str) -> ReadableSpan:
        (found,) = self.named(name)
        return found

    def above(self, span: ReadableSpan) -> ReadableSpan | None:
        """The parent of a span."""
        if span.parent is None:
            return None
        (found,) = (x for x in self.all if ident(x) == span.parent.span_id)
        return found


def ident(span: ReadableSpan) -> int:
    assert span.context is not None
    found: int = span.context.span_id
    return found


def about(span: ReadableSpan, key: str) -> object:
    return (span.attributes or {}).get(key)


@attrs.define(eq=False)
class _Switch(SpanProcessor):
    """Passes spans on to whoever looks at this moment.

    The SDK of MCP asks for its tracer once, so there is one provider for all tests.
    """

    to: SpanProcessor | None = None

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        if self.to is not None:
            self.to.on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        if self.to is not None:
            self.to.on_end(span)


_SWITCH = _Switch()
_PROVIDER = TracerProvider(
    resource=Resource.create({"service.name": "table"}), shutdown_on_exit=False
)
_PROVIDER.add_span_processor(_SWITCH)
TRACER = _PROVIDER.get_tracer("tests")


@contextmanager
def spans_to(processor: SpanProcessor) -> Generator[None]:
    """Be a program that has set a provider; its spans go to this processor."""
    before, _SWITCH.to = trace._TRACER_PROVIDER, processor
    trace._TRACER_PROVIDER = _PROVIDER
    try:
        yield
    finally:
        trace._TRACER_PROVIDER, _SWITCH.to = before, None


@contextmanager
def recorded() -> Generator[Spans]:
    """Look at the spans of this block."""
    spans = Spans()
    with spans_to(spans):
        yield spans
