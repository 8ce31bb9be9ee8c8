"""Calls, results and outcomes: the request, the answer, and the end of each call.

`ToolCall` is the request as the model wrote it, `ToolResult` what a handler returned,
`Outcome` the one record in which every call ends, whatever happened. Times are seconds.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any

import attrs


@attrs.frozen
class ToolCall:
    """One call of a model response. ``arguments`` is JSON text, as received."""

    id: str
    name: str
    arguments: str = "{}"


@attrs.frozen
class Media:
    """An image or a sound in an answer. Models of text read `placeholder` instead.

    ``mime`` begins with ``image/`` or ``audio/``.
    """

    mime: str
    data: bytes = attrs.field(repr=lambda data: f"{len(data)} bytes")

    @property
    def placeholder(self) -> str:
        size = len(self.data)
        told = f"{size} B" if size < 1000 else f"{round(size / 1000)} kB"
        return f"[{self.mime.partition('/')[0]}: {self.mime}, {told}]"


@attrs.frozen(kw_only=True)
class ToolResult:
    """The answer of a tool: its text blocks, and its structured content if any.

    ``is_error`` means that the tool itself reports an error: an answer, not a failure.
    ``media`` is for clients that can show it; models read a placeholder of each.
    ``links`` are the URIs of resources of its server that the answer points to.
    ``truncated``: it was too large, and the rest of it is lost. ``complaint``: what was
    wrong with its other parts, which are left out; it is for the model, not spoken.
    """

    text: tuple[str, ...] = ()
    structured: Any = None
    is_error: bool = False
    media: tuple[Media, ...] = ()
    links: tuple[str, ...] = ()
    truncated: bool = False
    complaint: str = ""

    @classmethod
    def of(cls, value: object) -> ToolResult:
        """Convert a plain Python value: a text stays text, anything else is data.

        Raises:
          TypeError, ValueError: if the value cannot be written as JSON.
        """
        if isinstance(value, ToolResult):
            return value
        if value is None:
            return cls()
        if isinstance(value, str):
            return cls(text=(value,))
        json.dumps(
            value, allow_nan=False
        )  # fails here, in the tool's own call, not later
        return cls(structured=value)


class Status(StrEnum):
    """The way a call ended."""

    OK = "ok"
    TOOL_ERROR = "tool_error"  # the tool reported an error
    INVALID_ARGUMENTS = "invalid_arguments"  # the handler was not run
    TIMEOUT = "timeout"  # `Outcome.limit` says whose
    CANCELLED = "cancelled"  # interrupted
    DENIED = "denied"  # not granted, not trusted, not shown
    SKIPPED = "skipped"  # longer than the rest of the turn
    UNAVAILABLE = "unavailable"  # server down, breaker open, connection lost
    CRASHED = "crashed"  # a bug in the handler
    PENDING = "pending"  # the turn's time was up, and the call goes on without it


class Effect(StrEnum):
    """The effect of a call on the state of its tool, as far as it is known."""

    NONE = "none"
    DONE = "done"
    UNKNOWN = "unknown"


class Limit(StrEnum):
    """The limit that ended a call: the tool's, its server's, the turn's, or the host's,
    for a call that went on after its turn and has no other limit."""

    TOOL = "tool"
    SERVER = "server"
    TURN = "turn"
    HOST = "host"


@attrs.frozen(kw_only=True)
class Outcome:
    """The end of one call: exactly one of these per call, in call order.

    ``message`` is short and may be spoken; ``data`` is everything that a model may
    read, ``media`` what people can look at or listen to. ``elapsed`` is how long the
    caller waited, in seconds. ``tool`` is the canonical key, None if there is no tool
    of that name; ``answered_by`` that of another server's tool, if a second attempt
    there was faster. ``truncated``: the tool's answer was too large, and this is not
    all of it."""

    call: ToolCall
    tool: str | None
    status: Status
    effect: Effect = Effect.NONE
    message: str = ""
    data: Any = None
    media: tuple[Media, ...] = ()
    limit: Limit | None = None
    elapsed: float = 0.0
    cached: bool = False
    shared: bool = False
    answered_by: str | None = None
    truncated: bool = False

    @property
    def ok(self) -> bool:
        return self.status is Status.OK
