"""Two messages of a Gemini server as one frame: a bag of what is said at once."""

from __future__ import annotations

from ..voice.wire import Message

_LAST = {"turnComplete", "interrupted", "generationComplete"}


def merge(first: Message, second: Message) -> Message | None:
    """Both in one frame, None if their order would be lost by that."""
    said, more = first.get("serverContent"), second.get("serverContent")
    if "setupComplete" in first or (first.keys() & second.keys()) - {"serverContent"}:
        return None
    if said is None or more is None:
        # What the model says comes before what it calls, and before a handle.
        late = more is not None and "modelTurn" in more
        over = said is not None and said.keys() & _LAST and "toolCall" in second
        return None if late or over else {**first, **second}
    if said.keys() & _LAST and not more.keys() <= {*_LAST, "interactionStatus"}:
        return None
    shared = said.keys() & more.keys()
    if not shared:
        return {**first, **second, "serverContent": {**said, **more}}
    if shared != {"modelTurn"}:
        return None
    parts = [*said["modelTurn"]["parts"], *more["modelTurn"]["parts"]]
    turn = {**said["modelTurn"], "parts": parts}
    return {**first, **second, "serverContent": {**said, **more, "modelTurn": turn}}
