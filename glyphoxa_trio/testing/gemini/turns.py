"""The turns of one Gemini session: their beginning, their speech, and their end.

A turn continues over its blocking calls: it says nothing until all of them are
answered, then the rest of the reply, or else the next reply of the script.
"""

from __future__ import annotations

from base64 import b64encode
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import attrs

import trio

from ..voice.speech import BYTES_PER_MS, messages
from ..voice.steps import (
    EndResponse,
    HangResponse,
    PauseResponse,
    ResponseStep,
    Speak,
    SpokenCallTools,
    TurnComplete,
)
from ..voice.transcripts import Transcripts
from ..voice.wire import Message
from .calls import SocketCalls
from .state import GeminiState

_MIME: Final = "audio/pcm;rate=24000"


@attrs.define(eq=False)
class Generation:
    """A turn that is running, or was. ``said`` is the text that was sent of it."""

    session: GeminiState
    turns: FakeTurns
    said: str = ""
    audio_ms: float = 0.0
    ended: bool = False
    _reason: str | None = None
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, repr=False)

    async def play(self, steps: Sequence[ResponseStep]) -> None:
        """Do the steps and end the turn, unless it is interrupted before."""
        left, calls = deque(steps), self.turns.calls
        with self._scope:
            while left:
                step = left.popleft()
                if isinstance(step, EndResponse):
                    self._reason = step.reason
                    break
                await self._do(step)
                if calls.blocking:
                    await calls.answered.until(lambda: not calls.blocking)
                    left = left or deque(self.session.next_reply())
            self._tell({"generationComplete": True})
            await trio.sleep(self.session.service.lag)
            if not self.ended:
                self.ended = True
                self.turns.complete(self, self._reason)

    def stop(self) -> None:
        """Stop the turn: it says nothing more."""
        self.ended = True
        self._scope.cancel()

    async def _do(self, step: ResponseStep) -> None:
        match step:
            case Speak():
                await self._speak(step)
            case SpokenCallTools():
                self._call(step)
            case PauseResponse(seconds):
                await trio.sleep(seconds)
            case HangResponse():
                await trio.sleep_forever()
            case TurnComplete():
                if not self.ended:
                    self.turns.break_off()
            case _:
                self.session.wire.on_event(step)
        await self.session.wire.drained()

    async def _speak(self, step: Speak) -> None:
        began, size = trio.current_time(), 0
        first = True
        for words, pcm in messages(step):
            content: dict[str, Any] = {}
            if pcm:
                data = {"mimeType": _MIME, "data": b64encode(pcm).decode()}
                parts = [{"inlineData": data}]
                content["modelTurn"] = {"role": "model", "parts": parts}
            if words and not self.ended:
                self.said += f" {words}" if first and self.said else words
                first = False
                if "outputAudioTranscription" in self.session.setup:
                    content["outputTranscription"] = {"text": words}
            if content:
                self._tell(content)
            size += len(pcm)
            self.audio_ms += len(pcm) / BYTES_PER_MS
            if step.paced:
                await trio.sleep_until(began + size / BYTES_PER_MS / 1000)
            await self.session.wire.drained()

    def _call(self, step: SpokenCallTools) -> None:
        if self.ended:
            return
        declared = self.session.declared
        calls: list[dict[str, Any]] = []
        for slot, (name, args) in enumerate(step.calls):
            if name not in declared and not step.undeclared:
                raise ValueError(f"the script calls {name!r}; it has {[*declared]}")
            call_id = step.ids[slot] if step.ids else self.session.new_id("fc")
            call = {"id": call_id, "name": name}
            calls.append(call if args is None else {**call, "args": args})
        self.turns.calls.made(calls)
        self.turns.tell_resumable()
        if step.twice:
            parts = [{"functionCall": call} for call in calls]
            self._tell({"modelTurn": {"role": "model", "parts": parts}})

    def _tell(self, content: dict[str, Any]) -> None:
        if not self.ended:
            self.session.wire.emit({"serverContent": content})


@attrs.define(eq=False)
class FakeTurns:
    """The turns of the model. ``current`` is the running one.

    ``wanted``: something came that the model has to answer or speak of, once it may.
    ``user_speaking`` is set in every way in which the session detects speech.
    """

    session: GeminiState = attrs.field(repr=False)
    calls: SocketCalls = attrs.field(repr=False)
    transcripts: Transcripts = attrs.field(init=False, repr=False)
    current: Generation | None = None
    wanted: bool = False
    user_speaking: bool = False
    _resumable: bool = False

    def __attrs_post_init__(self) -> None:
        self.transcripts = Transcripts(self.session.nursery, has_items=False)

    def user_begins(self) -> None:
        """Handle the beginning of the user's speech."""
        self.user_speaking = True
        if self.session.interrupts:
            self.interrupt()

    def user_ends(self, text: str) -> None:
        """Handle the end of the user's speech."""
        self.user_speaking = False
        self.user_said(text)

    def user_said(self, text: str) -> None:
        """Take the user's words: the model begins at once, or as soon as it may."""
        self.wanted = True
        if self.session.interrupts:
            self.interrupt()
        self.session.said("user", text)
        self.go_on()

    def begin(self) -> None:
        self.wanted = False
        steps = self.session.next_reply()
        self.current = Generation(self.session, self)
        self.tell_resumable()
        self.session.nursery.start_soon(self.current.play, steps)

    def interrupt(self, *, wanted: bool = False) -> None:
        """Stop the running turn, if there is one; its blocking calls are cancelled."""
        self.wanted = self.wanted or wanted
        generation, self.current = self.current, None
        if generation is None:
            return
        generation.stop()
        self.calls.void()
        self.session.wire.emit({"serverContent": {"interrupted": True}})
        self._finish(generation, None)

    def complete(self, generation: Generation, reason: str | None) -> None:
        """Handle the end of a turn."""
        self.current = None
        self._finish(generation, reason)
        self.transcripts.answered()
        self.go_on()

    def break_off(self) -> None:
        """End a turn on the wire, while the interaction goes on."""
        content: Message = {"turnComplete": True}
        if self.session.profile.tells_status:
            content["interactionStatus"] = "IN_PROGRESS"
        self.session.wire.emit({"serverContent": content})

    def _finish(self, generation: Generation, reason: str | None) -> None:
        session = self.session
        if generation.said:
            session.said("model", generation.said)
        content: Message = {"turnComplete": True}
        if reason is not None:
            content["turnCompleteReason"] = reason
        if session.profile.tells_status:
            content["interactionStatus"] = self._status()
        told = int(generation.audio_ms // 40) + len(generation.said) // 4
        read = sum(len(line.text) // 4 for line in session.history.lines)
        usage = {
            "promptTokenCount": read,
            "responseTokenCount": told,
            "totalTokenCount": read + told,
        }
        session.wire.emit({"serverContent": content, "usageMetadata": usage})
        self.tell_resumable()

    def go_on(self) -> None:
        """Begin to speak of new answers, if neither the model nor the user speaks."""
        if self.wanted and self.current is None and not self.user_speaking:
            self.begin()

    def answered(self, when: set[str]) -> None:
        """Handle answers that no turn waited for, to be spoken of as ``when`` says."""
        if when - {"SILENT"}:
            self._speak_of(interrupt="INTERRUPT" in when)
        elif when:
            self._knows()

    def _speak_of(self, *, interrupt: bool) -> None:
        """Begin to speak of an answer now, or note that it is wanted."""
        self.wanted = True
        waits = self.session.profile.waits_for_user
        now = interrupt and not (waits and self.user_speaking)
        if now and not self.calls.blocking:
            self.interrupt()
        if now and self.current is None:
            self.begin()
        self.go_on()

    def _knows(self) -> None:
        """Handle an answer that is not spoken of."""
        if self.current is not None:
            return
        if self.session.profile.tells_status and self._status() == "IDLE":
            self.session.wire.emit({"serverContent": {"interactionStatus": "IDLE"}})
        self.tell_resumable()

    def _status(self) -> str:
        return "IN_PROGRESS" if self.calls.owed or self.wanted else "IDLE"

    def tell_resumable(self) -> None:
        """Send a handle if it would lose nothing; else say that there is none."""
        session = self.session
        if "sessionResumption" not in session.setup:
            return
        busy = self.current is not None or bool(self.calls.owed) or self.wanted
        if not busy:
            handle = session.new_id("handle")
            session.service.handles[handle] = session.history
            update = {"newHandle": handle, "resumable": True}
            session.wire.emit({"sessionResumptionUpdate": update})
        elif self._resumable:
            session.wire.emit({"sessionResumptionUpdate": {"resumable": False}})
        self._resumable = not busy
