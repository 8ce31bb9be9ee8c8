"""The user's microphone: who detects speech, the server or the client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from glyphoxa_trio.providers.s2s import Event, SpeechStarted, SpeechStopped
from glyphoxa_trio.providers.schemas.values import mapping

from .hearing import Hearing

PAUSE: Final = 1.0  # seconds without audio after which the microphone counts as off


@attrs.define(eq=False)
class GeminiMicrophone:
    """One microphone. Times are on the clock of ``now``.

    Args:
      automatic: True if the server detects speech.
      interrupts: True if a user who speaks stops the model. Otherwise the start of
        speech is not reported before the answer.
      active: True while the client reports speech.
      due: when to check `is_off`, None for never.
    """

    automatic: bool
    interrupts: bool = attrs.field(default=True, kw_only=True)
    active: bool = False
    due: float | None = None
    _speaking: bool = False  # as the server reports it
    _heard_at: float = 0.0

    def switch(self, active: bool) -> bool:
        """Note that the user speaks or stops; return False if that is not new."""
        before, self.active = self.active, active
        return before != active

    def hear(self, now: float) -> None:
        """Note that a piece of audio is being sent."""
        self._heard_at = now
        # Checked only from time to time: there is a piece every 20 ms.
        if self.automatic and self.due is None:
            self.due = now + PAUSE

    def is_off(self, now: float) -> bool:
        """Return True once if there was no audio for `PAUSE` seconds."""
        if self.due is None or now < self.due:
            return False
        last = self._heard_at + PAUSE
        self.due = last if now < last else None
        return self.due is None

    def notice(
        self, bag: Mapping[str, Any], hearing: Hearing, now: float
    ) -> list[Event]:
        """Read the server's report that speech starts or stops; it has two forms."""
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
