"""What all sockets of a fake server share: its script, and what its clients did."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from .steps import Script, Transcription

Understood = str | Transcription
Hears = Sequence[Understood] | Callable[[bytes], Understood]


@attrs.frozen
class Violation:
    """What a client must not do. ``code`` says it in a word, ``message`` is its own."""

    socket: int
    code: str
    detail: str
    message: Mapping[str, Any] = attrs.field(factory=dict, repr=False)


@attrs.define(eq=False, kw_only=True)
class VoiceService:
    """What the conversations of one server are like, and what became of them.

    Args:
      hears: what is understood of each utterance of a session, in order, or of its
        PCM: it is told, not recognised.
      opens_after: seconds until a session is open.
      lifetime: seconds until it expires.
      grace: seconds after which a client is held to know what it was sent. What
        only crossed with that on its way is answered, but is no violation.
      aside: what the model says where it is asked beside the conversation, as
        ``script``.
      violations: what clients did that the vendor forbids.
      warnings: what is allowed, and yet a mistake as a rule.
    """

    script: Script = attrs.field(repr=False)
    hears: Hears = attrs.field(repr=False)
    opens_after: float
    lifetime: float | None
    grace: float
    aside: Script = attrs.field(default=(), repr=False)
    violations: list[Violation] = attrs.field(factory=list)
    warnings: list[Violation] = attrs.field(factory=list)

    def understood(self, pcm: bytes, number: int) -> Transcription:
        """The ``number``-th utterance of a session: its words, by place or by sound."""
        if callable(self.hears):
            found = self.hears(pcm)
        else:
            found = self.hears[number] if number < len(self.hears) else ""
        return Transcription(found) if isinstance(found, str) else found

    def violate(
        self, socket: int, code: str, detail: str, message: Mapping[str, Any]
    ) -> None:
        """Note what a client must not do."""
        self.violations.append(Violation(socket, code, detail, message))
