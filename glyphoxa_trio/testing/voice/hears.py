"""What a fake server understands of an utterance: it is told, not recognised."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .steps import Heard

Understood = str | Heard
Hears = Sequence[Understood] | Callable[[bytes], Understood]


def understood(hears: Hears, pcm: bytes, number: int) -> Heard:
    """The ``number``-th utterance of a session: its words, by place or by sound."""
    if callable(hears):
        found = hears(pcm)
    else:
        found = hears[number] if number < len(hears) else ""
    return Heard(found) if isinstance(found, str) else found
