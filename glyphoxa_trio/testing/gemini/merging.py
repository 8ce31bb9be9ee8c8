"""Merging two messages of a Gemini server into one frame."""

from __future__ import annotations

from ..voice.wire import Message

_ENDS = {"interrupted", "generationComplete"}
_OVER = {"turnComplete", "turnCompleteReason", "interactionStatus"}


def merge(first: Message, second: Message) -> Message | None:
    """Return both messages in one frame; None if their order would be lost by that."""
    said, more = first.get("serverContent"), second.get("serverContent")
    if "setupComplete" in first or (first.keys() & second.keys()) - {"serverContent"}:
        return None
    if said is None or more is None:
        # Speech of the model comes before its calls, and before a handle.
        late = more is not None and "modelTurn" in more
        over = said is not None and said.keys() & _OVER and "toolCall" in second
        void = "toolCall" in first and "toolCallCancellation" in second
        return None if late or over or void else {**first, **second}
    ends = said.keys() & _ENDS and not more.keys() <= _OVER
    if ends or said.keys() & _OVER or "interrupted" in more:
        return None
    shared = said.keys() & more.keys()
    if not shared:
        return {**first, **second, "serverContent": {**said, **more}}
    if shared != {"modelTurn"}:
        return None
    parts = [*said["modelTurn"]["parts"], *more["modelTurn"]["parts"]]
    turn = {**said["modelTurn"], "parts": parts}
    return {**first, **second, "serverContent": {**said, **more, "modelTurn": turn}}
