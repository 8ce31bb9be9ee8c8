"""A turn as a player hears it, and as the answer of ``say``."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import attrs

from glyphoxa_trio.npc import (
    FellBack,
    Filler,
    ModelFailed,
    Sentence,
    ToolFinished,
    TurnDone,
    TurnEnd,
    TurnEvent,
)
from glyphoxa_trio.tools.outcome import ToolResult

_log = logging.getLogger(__name__)


@attrs.define(eq=False)
class HeardAnswer:
    """The part of one turn that a player hears."""

    npc: str
    session: str
    sentences: list[str] = attrs.field(factory=list, init=False)
    tools: list[dict[str, Any]] = attrs.field(factory=list, init=False)
    _failure: str = attrs.field(default="", init=False)
    _fell_back: str = attrs.field(default="", init=False)
    done: TurnDone | None = attrs.field(default=None, init=False)

    def take(self, event: TurnEvent) -> str:
        """Take an event of the turn; return what the NPC says with it, or ""."""
        match event:
            case Sentence(text=text):
                self.sentences.append(text)
                return text
            case Filler(text=text):
                return text
            case ToolFinished(outcome=end):
                self.tools.append(
                    {
                        "tool": end.tool or end.call.name,
                        "status": end.status.value,
                        "elapsed_ms": round(end.elapsed * 1000),
                    }
                )
            case ModelFailed(kind=kind, detail=detail):
                self._failure = f"the model could not answer ({kind.value})"
                _log.warning("%s: the model failed: %s: %s", self.npc, kind, detail)
            case FellBack(reason=reason):
                self._fell_back = f"a line of the configuration: {reason.value}"
            case TurnDone():
                self.done = event
        return ""

    def result(self, late: str) -> ToolResult:
        """Return the answer to the call.

        Args:
          late: why the turn was cut off, if it was.
        """
        done, text = self.done, " ".join(self.sentences)
        end = TurnEnd.INTERRUPTED if done is None else done.end
        if done is not None and end is TurnEnd.COMPLETED:
            text = done.text.strip() or text
        note = late if done is None else ""
        if end is TurnEnd.INTERRUPTED:
            note = note or "the answer was interrupted"
        elif self._fell_back or end is TurnEnd.FAILED:  # and no other model answered
            note = self._failure or self._fell_back
        answer: dict[str, Any] = {
            "npc": self.npc,
            "session": self.session,
            "text": text,
            "sentences": self.sentences,
            "tools": self.tools,
            "end": end.value,
        }
        if done is not None:
            answer["elapsed_ms"] = round(done.timings.total * 1000)
        if note:
            answer["note"] = note
        told = [text] if text else []
        told += [f"[{note}]"] if note else []
        # Nothing was said: a client's model should not take that for an answer.
        return ToolResult(text=tuple(told), structured=answer, is_error=not text)


SAID: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "npc": {"type": "string"},
        "session": {"type": "string"},
        "text": {"type": "string", "description": "All that the NPC said."},
        "sentences": {"type": "array", "items": {"type": "string"}},
        "tools": {
            "type": "array",
            "description": "The tools that the NPC used.",
            "items": {
                "type": "object",
                "properties": {
                    "tool": {"type": "string"},
                    "status": {"type": "string"},
                    "elapsed_ms": {"type": "integer"},
                },
                "required": ["tool", "status", "elapsed_ms"],
            },
        },
        "end": {
            "type": "string",
            "enum": ["completed", "interrupted", "failed", "shed"],
            "description": "shed: turned away at once, because of the load or the cost",
        },
        "elapsed_ms": {"type": "integer"},
        "note": {"type": "string", "description": "Why this is not a whole answer."},
    },
    "required": ["npc", "session", "text", "sentences", "tools", "end"],
}
"""The schema of what `say` answers."""
