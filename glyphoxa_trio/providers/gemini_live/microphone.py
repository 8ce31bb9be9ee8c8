"""Who hears whether somebody speaks: the server by itself, or the client for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from glyphoxa_trio.providers.s2s import Event, SpeechStarted, SpeechStopped

from .encoding import mapping
from .hearing import Hearing

PAUSE: Final = 1.0  # seconds without audio after which the microphone is off


@attrs.define(eq=False)
class GeminiMicrophone:
    """One microphone. Times are on the clock of ``now``.

    Args:
      automatic: the server hears by itself.
      interrupts: somebody who speaks stops the model; else it is of no interest that
        they do before they are answered.
      active: somebody speaks, says the client.
      due: when to look whether it `is_off`, None for not at all.
    """

    automatic: bool
    interrupts: bool = attrs.field(default=True, kw_only=True)
    active: bool = False
    due: float | None = None
    _speaking: bool = False  # says the server
    _heard_at: float = 0.0

    def switch(self, active: bool) -> bool:
        """Somebody speaks, or no longer; False if that is nothing new."""
        before, self.active = self.active, active
        return before != active

    def hear(self, now: float) -> None:
        """A piece of audio is on its way."""
        self._heard_at = now
        # Looked at once in a while: there is a piece every 20 ms.
        if self.automatic and self.due is None:
            self.due = now + PAUSE

    def is_off(self, now: float) -> bool:
        """Whether there was no audio for so long that it ends here, once."""
        if self.due is None or now < self.due:
            return False
        last = self._heard_at + PAUSE
        self.due = last if now < last else None
        return self.due is None

    def notice(
        self, bag: Mapping[str, Any], hearing: Hearing, now: float
    ) -> list[Event]:
        """The server says that somebody begins or ends; it has two words for it."""
        said = mapping(bag.get("voiceActivity")).get("voiceActivityType")
        signal = mapping(bag.get("voiceActivityDetectionSignal")).get("vadSignalType")
        begins = said == "ACTIVITY_START" or signal == "VAD_SIGNAL_TYPE_SOS"
        ends = said == "ACTIVITY_END" or signal == "VAD_SIGNAL_TYPE_EOS"
        if begins and not self._speaking:
            self._speaking = True
            hearing.begins(now)
            return [SpeechStarted()] if self.interrupts else []
        if ends and self._speaking:
            self._speaking = False
            item = hearing.ends(now)
            return [SpeechStopped(item)] if self.interrupts else []
        return []
