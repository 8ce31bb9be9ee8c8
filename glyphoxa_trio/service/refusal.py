"""Refusals of requests, and the codes of errors as clients are told them."""

from __future__ import annotations

from glyphoxa_trio.memory.errors import MemoryUnavailable, UnknownItem
from glyphoxa_trio.npc import QueueFull, SceneFull
from glyphoxa_trio.runtime import TooManySessions, UnknownNpc


class Refused(Exception):
    """A request is refused; ``code`` is that of the answer (`protocol.FailedReply`)."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


def code_of(error: Exception) -> str:
    """Return the code of an error of the runtime, or of `Refused`."""
    match error:
        case Refused(code=code):
            return code
        case UnknownNpc() | UnknownItem():
            return "not_found"
        case QueueFull() | SceneFull() | TooManySessions() | MemoryUnavailable():
            return "busy"
    # Errors of a room above this one say it themselves.
    return str(getattr(error, "code", "refused"))
