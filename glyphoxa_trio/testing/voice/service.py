"""The state shared by all sockets of a fake server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from .steps import Script, Transcription

Understood = str | Transcription
Hears = Sequence[Understood] | Callable[[bytes], Understood]


@attrs.frozen
class Violation:
    """A forbidden act of a client. ``code`` names it; ``message`` is the client's."""

    socket: int
    code: str
    detail: str
    message: Mapping[str, Any] = attrs.field(factory=dict, repr=False)


@attrs.define(eq=False, kw_only=True)
class VoiceService:
    """The settings of one server's conversations, and the violations in them.

    Args:
      hears: the transcript of each utterance of a session, in order, or a function of
        its PCM: nothing is really recognised.
      opens_after: seconds until a session is open.
      lifetime: seconds until it expires.
      grace: seconds after which a client must know what it was sent. A message that
        merely crossed with it is answered, but is no violation.
      aside: what the model says if it is asked outside the conversation, like
        ``script``.
      violations: forbidden acts of clients.
      warnings: acts of clients that are allowed, but usually a mistake.
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
        """Return the transcript of the ``number``-th utterance of a session."""
        if callable(self.hears):
            found = self.hears(pcm)
        else:
            found = self.hears[number] if number < len(self.hears) else ""
        return Transcription(found) if isinstance(found, str) else found

    def violate(
        self, socket: int, code: str, detail: str, message: Mapping[str, Any]
    ) -> None:
        """Note a forbidden act of a client."""
        self.violations.append(Violation(socket, code, detail, message))
