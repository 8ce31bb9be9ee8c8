"""The input of one Realtime session: the audio buffer, and the detection of turns."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from typing import Any, Final

import attrs

import trio

from ..voice.ear import ReceivedAudio, SpeechActivity
from ..voice.speech import BYTES_PER_MS
from ..voice.steps import Transcription, UserSpeaks
from .items import FakeItem, ItemError
from .responding import FakeResponses
from .state import RealtimeState
from .telephone import from_telephone, law_of

_LEAST_MS: Final = 100
_MOST: Final = 15 * 2**20  # bytes of one append
_RATE: Final = 24_000


@attrs.define(eq=False)
class Hearing:
    """The microphone of one session, and its turns."""

    session: RealtimeState = attrs.field(repr=False)
    responses: FakeResponses = attrs.field(repr=False)
    ear: ReceivedAudio = attrs.field(init=False, repr=False)
    _item: str | None = None  # of the speech that is going on
    _number: int = 0  # of the next utterance

    def __attrs_post_init__(self) -> None:
        self.ear = ReceivedAudio(_RATE, records=self.session.wire.habits.records)

    @property
    def audio(self) -> bytes:
        """All audio that the client sent."""
        return bytes(self.ear.audio)

    @property
    def utterances(self) -> list[bytes]:
        """The committed parts of it, in order."""
        return self.ear.utterances

    def append(self, text: str) -> None:
        """Take a piece of audio. Raises `ItemError` if it is no audio."""
        try:
            pcm = b64decode(text, validate=True)
        except (NotBase64, ValueError):
            detail = "Invalid 'audio'. Expected base64-encoded audio bytes."
            raise ItemError("invalid_value", detail, "audio") from None
        law = law_of(self.session.settings.now["audio"]["input"]["format"])
        if len(pcm) > _MOST or (law is None and len(pcm) % 2):
            detail = "Invalid 'audio'. Whole samples, at most 15 MiB."
            raise ItemError("invalid_value", detail, "audio")
        if law is not None:
            pcm = from_telephone(pcm, law)
        settings = self.session.settings
        for activity, at in self.ear.hear(pcm, silence_ms=settings.silence_ms):
            if settings.detection is None:
                continue
            if activity is SpeechActivity.BEGINS and self._item is None:
                self._begins(at)
            elif activity is SpeechActivity.ENDS and self._item is not None:
                self._ends(at, None)

    def clear(self) -> None:
        self.ear.forget(audio=True)
        self._item = None
        self.session.tell("input_audio_buffer.cleared")

    def commit(self) -> None:
        """Commit the buffer. Raises `ItemError` if it is empty."""
        ms = self.ear.waiting_ms
        if ms < _LEAST_MS:
            detail = (
                "Error committing input audio buffer: buffer too small. Expected at"
                f" least {_LEAST_MS}ms of audio, but buffer only has {ms:.2f}ms of"
                " audio."
            )
            raise ItemError("input_audio_buffer_commit_empty", detail)
        item_id, self._item = self._item, None
        self.ear.forget()
        self._commit(item_id or self.session.new_id("item"), self.ear.cut(), None)

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
        if self._item is not None:
            self._ends(self.ear.ms, Transcription(step.text, late=step.late))

    def _heard_to_begin(self) -> None:
        if self.session.settings.detection is not None and self._item is None:
            self._begins(self.ear.ms)

    def _begins(self, at: int) -> None:
        detection = self.session.settings.detection or {}
        start = max(0, at - detection.get("prefix_padding_ms", 0))
        self.ear.begin(start)
        self._item = self.session.new_id("item")
        self.session.tell(
            "input_audio_buffer.speech_started",
            audio_start_ms=start,
            item_id=self._item,
        )
        active = self.responses.active
        if active is not None and detection.get("interrupt_response"):
            active.end("cancelled", "turn_detected")

    def _ends(self, at: int, heard: Transcription | None) -> None:
        item_id, self._item = self._item, None
        assert item_id is not None
        self.session.tell(
            "input_audio_buffer.speech_stopped", audio_end_ms=at, item_id=item_id
        )
        self._commit(item_id, self.ear.cut(at), heard)
        detection = self.session.settings.detection or {}
        if detection.get("create_response"):
            self.responses.begin({}, automatic=True)

    def _commit(self, item_id: str, pcm: bytes, heard: Transcription | None) -> None:
        session = self.session
        if heard is None:
            heard = session.service.understood(pcm, self._number)
        self._number += 1
        content: dict[str, Any] = {"type": "input_audio", "transcript": None}
        item = FakeItem(
            {
                "id": item_id,
                "object": "realtime.item",
                "type": "message",
                "status": "completed",
                "role": "user",
                "content": [content],
            }
        )
        last = session.conversation.items
        session.tell(
            "input_audio_buffer.committed",
            item_id=item_id,
            previous_item_id=last[-1].id if last else None,
        )
        session.add_item(item, done=True)
        # The model hears the words whether or not transcripts are enabled.
        self.responses.understood[item_id] = heard.text
        if session.settings.transcribes:
            self._transcribe(item, heard, len(pcm) / BYTES_PER_MS / 1000)

    def _transcribe(self, item: FakeItem, heard: Transcription, seconds: float) -> None:
        prefix = "conversation.item.input_audio_transcription"
        at = {"item_id": item.id, "content_index": 0}

        def tell() -> None:
            if heard.fails:
                error = {
                    "type": "transcription_error",
                    "code": "audio_unintelligible",
                    "message": "The audio could not be transcribed.",
                }
                self.session.tell(f"{prefix}.failed", **at, error=error)
                return
            item.wire["content"][0]["transcript"] = heard.text
            self.session.tell(f"{prefix}.delta", **at, delta=heard.text)
            usage = {"type": "duration", "seconds": seconds}
            self.session.tell(
                f"{prefix}.completed", **at, transcript=heard.text, usage=usage
            )

        self.responses.transcripts.tell(tell, late=heard.late)
