"""The input of one Gemini session: realtime input, and the detection of speech."""

from __future__ import annotations

from typing import Any, Final

import attrs

import trio

from ..voice.ear import ReceivedAudio, SpeechActivity
from ..voice.steps import Transcription, UserSpeaks
from ..voice.wire import Message
from .refused import INVALID, SocketRefused, pcm_of
from .state import GeminiState
from .turns import FakeTurns

_SILENCE_MS: Final = 500
_RATE: Final = 16_000


@attrs.define(eq=False)
class Hearing:
    """The microphone of one session. ``rate`` is that of the first audio."""

    session: GeminiState = attrs.field(repr=False)
    turns: FakeTurns = attrs.field(repr=False)
    rate: int | None = None
    ear: ReceivedAudio = attrs.field(init=False, repr=False)
    _number: int = 0  # of the next utterance

    def __attrs_post_init__(self) -> None:
        self.ear = ReceivedAudio(_RATE, records=self.session.wire.habits.records)

    @property
    def audio(self) -> bytes:
        """All audio that the client sent."""
        return bytes(self.ear.audio)

    @property
    def utterances(self) -> list[bytes]:
        """The parts of it that were taken as speech, in order."""
        return self.ear.utterances

    @property
    def _detection(self) -> dict[str, Any]:
        config = self.session.setup.get("realtimeInputConfig", {})
        found: dict[str, Any] = config.get("automaticActivityDetection", {})
        return found

    @property
    def automatic(self) -> bool:
        return not self._detection.get("disabled", False)

    def take(self, content: Message, message: Message) -> None:
        """Take one message of realtime input. Raises `SocketRefused`."""
        if "text" in content:
            self.turns.user_said(content["text"])
        elif "audio" in content:
            self._audio(message, *pcm_of(content["audio"]))
        elif "mediaChunks" in content:
            self.session.violate("deprecated", "mediaChunks", message)
            for chunk in content["mediaChunks"]:
                self._audio(message, *pcm_of(chunk))
        elif "audioStreamEnd" in content:
            self.ear.forget()
            if self.automatic and self.turns.user_speaking:
                self._ends()
        elif "video" not in content:
            if self.automatic:
                detail = (
                    "Explicit activity control is not supported when automatic"
                    " activity detection is enabled."
                )
                raise SocketRefused(INVALID, "activity", detail)
            if "activityStart" in content and not self.turns.user_speaking:
                self._begins(self.ear.ms)
            elif "activityEnd" in content and self.turns.user_speaking:
                self._ends()
            else:
                self.session.violate("activity_order", str([*content]), message)

    def user_speaks(self, step: UserSpeaks) -> None:
        """Act as if the user spoke."""
        if step.after is None:
            self._heard_to_begin()
        self.session.nursery.start_soon(self._user_speaks, step)

    async def _user_speaks(self, step: UserSpeaks) -> None:
        if step.after is not None:
            await trio.sleep(step.after)
            self._heard_to_begin()
        await trio.sleep(step.ms / 1000)
        if self.automatic and self.turns.user_speaking:
            self._ends(heard=Transcription(step.text, late=step.late))

    def _heard_to_begin(self) -> None:
        if self.automatic and not self.turns.user_speaking:
            self._begins(self.ear.ms)

    def _audio(self, message: Message, pcm: bytes, rate: int) -> None:
        if self.rate is None:
            self.rate = rate
            self.ear.set_rate(rate)
        elif rate != self.rate:
            self.session.violate("other_rate", f"{rate} after {self.rate}", message)
        silence = self._detection.get("silenceDurationMs", _SILENCE_MS)
        for activity, at in self.ear.hear(pcm, silence_ms=silence):
            if not self.automatic:
                continue
            if activity is SpeechActivity.BEGINS and not self.turns.user_speaking:
                self._begins(at - self._detection.get("prefixPaddingMs", 0))
            elif activity is SpeechActivity.ENDS and self.turns.user_speaking:
                self._ends(at)

    def _begins(self, at: int) -> None:
        self.ear.begin(max(0, at))
        self._signal("ACTIVITY_START")
        self.turns.user_begins()

    def _ends(self, at: int | None = None, heard: Transcription | None = None) -> None:
        self._signal("ACTIVITY_END")
        pcm = self.ear.cut(at)
        if heard is None:
            heard = self.session.service.understood(pcm, self._number)
        self._number += 1
        found = heard

        def tell() -> None:
            content = {"inputTranscription": {"text": found.text}}
            self.session.wire.emit({"serverContent": content})

        if "inputAudioTranscription" in self.session.setup and not heard.fails:
            self.turns.transcripts.tell(tell, late=heard.late)
        self.turns.user_ends(heard.text)

    def _signal(self, kind: str) -> None:
        if self.session.setup.get("explicitVadSignal"):
            offset = f"{self.ear.ms / 1000:g}s"
            activity = {"voiceActivityType": kind, "audioOffset": offset}
            self.session.wire.emit({"voiceActivity": activity})
