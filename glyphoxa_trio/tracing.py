"""Spans of OpenTelemetry, if the program that runs NPCs collects them.

    with begin("invoke_agent Bart", lambda: {"gen_ai.agent.name": "Bart"}) as span:
        ...
        span.set({"glyphoxa.rounds": 2})

A program collects spans by setting a tracer provider, which it does with the SDK of
OpenTelemetry. Its library is not imported here: while no one has imported it there is
neither a provider nor a current span, and a span costs one look into `sys.modules`.

A provider is foreign code, and so are its processors: what they raise ends no turn.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeAlias

import attrs

About: TypeAlias = "Callable[[], Mapping[str, Any]]"
"""Makes the attributes of a span; called only if the span is recorded."""

SCOPE: Final = "glyphoxa_trio"
"""The name of the instrumentation."""

# The provider that was in force last, and its tracer; None if it records nothing.
_known: tuple[Any, Any] = (None, None)
_failed = False  # what failed once is reported once


@attrs.define(eq=False)
class Span:
    """A span that has begun, or nothing if none is recorded.

    Entering its block makes it the current one; leaving the block ends it. Without a
    block, `end` ends it. ``context`` is what its children begin in; None if spans are
    not collected.
    """

    _span: Any = None
    context: Any = None
    _failure: str = attrs.field(default="", init=False)
    _entered: AbstractContextManager[None] | None = attrs.field(
        default=None, init=False
    )

    def __bool__(self) -> bool:
        """True if it is recorded."""
        return self._span is not None

    def set(self, attributes: Mapping[str, Any]) -> None:
        """Set attributes; those that are None are left out."""
        if self._span is not None:
            _safely(self._span.set_attributes, _given(attributes))

    def fail(self, kind: str) -> None:
        """Record that the operation failed, with the kind of error, which is no text
        of a player, a model or a tool."""
        if self._span is not None and not self._failure:
            self._failure = kind
            _safely(self._span.set_attribute, "error.type", kind)
            api = sys.modules["opentelemetry.trace"]
            _safely(self._span.set_status, api.StatusCode.ERROR)

    def link(self, context: Any) -> None:
        """Record that the work is done for another span, too: the one of a context of
        `here`."""
        if self._span is not None and context is not None:
            api = sys.modules["opentelemetry.trace"]
            other = api.get_current_span(context).get_span_context()
            if other.is_valid:
                _safely(self._span.add_link, other)

    def current(self) -> AbstractContextManager[None]:
        """Return a block in which this is the current span; leaving does not end it."""
        return nullcontext() if self.context is None else _Attached(self.context)

    def end(self) -> None:
        """End the span; only the first call counts."""
        span, self._span = self._span, None
        if span is not None:
            _safely(span.end)

    def __enter__(self) -> Self:
        if self.context is not None:
            self._entered = _Attached(self.context)
            self._entered.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._entered is not None:
            self._entered.__exit__(None, None, None)
            self._entered = None
            if isinstance(error, Exception):
                kind = getattr(error, "kind", None)
                known = isinstance(kind, Enum)  # as that of a model's error
                self.fail(str(kind) if known else type(error).__qualname__)
            elif error is not None:
                self.set({"glyphoxa.interrupted": True})
            self.end()


NO_SPAN: Final = Span()


def begin(
    name: str,
    about: About,
    *,
    kind: Literal["INTERNAL", "CLIENT"] = "INTERNAL",
) -> Span:
    """Begin a span below the current one; `NO_SPAN` if spans are not collected.

    The caller ends it, by its block or by `Span.end`.
    """
    tracer = _tracer()
    if tracer is None:
        return NO_SPAN
    api = sys.modules["opentelemetry.trace"]
    try:
        span = tracer.start_span(
            name,
            kind=api.SpanKind[kind],
            attributes=_given(about()),
            record_exception=False,
            set_status_on_exception=False,
        )
        context = api.set_span_in_context(span)
    except Exception:  # border: a sampler or a processor is foreign code
        _report()
        return NO_SPAN
    # A span that is not sampled still says so to those further down.
    return Span(span if span.is_recording() else None, context)


def here() -> Any:
    """Return the current context of OpenTelemetry, for work that another task does.

    None if its library was never imported.
    """
    library = sys.modules.get("opentelemetry.context")
    current = getattr(library, "get_current", None)
    return None if current is None else current()


def within(context: Any) -> AbstractContextManager[None]:
    """Return a block with a context of `here` as the current one; None changes
    nothing."""
    return nullcontext() if context is None else _Attached(context)


def apart() -> AbstractContextManager[None]:
    """Return a block without a current span, for work that outlives it."""
    library = sys.modules.get("opentelemetry.context")
    return nullcontext() if library is None else _Attached(library.Context())


def inside() -> bool:
    """Return True if there is a current span, recorded or not."""
    return bool(here()) and _current_ids() is not None


def ids() -> dict[str, str]:
    """Return ``trace_id`` and ``span_id`` of the current span; {} if there is none."""
    if not here() or (found := _current_ids()) is None:
        return {}
    trace_id, span_id = found
    return {"trace_id": f"{trace_id:032x}", "span_id": f"{span_id:016x}"}


def carry(carrier: MutableMapping[str, str]) -> None:
    """Write the current context into ``carrier``, as the program's propagator does.

    By default that is ``traceparent``, ``tracestate``, and the program's own baggage.
    """
    from opentelemetry import propagate

    _safely(propagate.inject, carrier)


def _current_ids() -> tuple[int, int] | None:
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None
    found = api.get_current_span().get_span_context()
    return (found.trace_id, found.span_id) if found.is_valid else None


def _tracer() -> Any:
    """Return the tracer of the program's provider; None if it has none."""
    global _known
    api = sys.modules.get("opentelemetry.trace")
    provided = getattr(api, "get_tracer_provider", None)
    if api is None or provided is None:
        return None
    provider = provided()
    if provider is not _known[0]:
        nothing = isinstance(
            provider, (api.ProxyTracerProvider, api.NoOpTracerProvider)
        )
        _known = (provider, None if nothing else provider.get_tracer(SCOPE))
    return _known[1]


def _given(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in attributes.items() if value is not None}


@attrs.define(eq=False)
class _Attached(AbstractContextManager[None]):
    """A block with a current context. It is entered and left by one task."""

    _context: Any
    _token: Any = attrs.field(default=None, init=False)

    def __enter__(self) -> None:
        self._token = sys.modules["opentelemetry.context"].attach(self._context)

    def __exit__(self, *error: object) -> None:
        sys.modules["opentelemetry.context"].detach(self._token)


def _safely(call: Callable[..., object], *arguments: Any) -> None:
    """Call foreign code that nothing depends on."""
    try:
        call(*arguments)
    except Exception:  # border: a processor, a propagator or an exporter
        _report()


def _report() -> None:
    global _failed
    if not _failed:
        _failed = True
        logging.getLogger(SCOPE).warning("spans cannot be recorded", exc_info=True)
