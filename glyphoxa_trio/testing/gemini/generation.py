"""One turn of the fake Gemini model: the steps of its replies, as messages.

A turn goes on over its blocking calls: it says nothing until all are answered, then
what is left of the reply, or else the next reply of the script.
"""

from __future__ import annotations

from base64 import b64encode
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

import trio

from glyphoxa_trio.actors import Signal

from ..voice.speech import BYTES_PER_MS, messages
from ..voice.steps import (
    CallTools,
    End,
    Hang,
    Pause,
    Speak,
    Step,
    TurnComplete,
)

if TYPE_CHECKING:
    from .session import GeminiSession

_MIME: Final = "audio/pcm;rate=24000"


@attrs.define(eq=False)
class Generation:
    """A turn of the model that is running, or was.

    ``said`` is what was told of it in words, ``waits_for`` the blocking calls that
    keep it from going on.
    """

    session: GeminiSession
    said: str = ""
    audio_ms: float = 0.0
    ended: bool = False
    waits_for: set[str] = attrs.field(factory=set)
    _reason: str | None = None
    _answered: Signal = attrs.field(factory=Signal, repr=False)
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, repr=False)

    async def play(self, steps: Sequence[Step]) -> None:
        """Do the steps, and end; unless it is interrupted before."""
        left = deque(steps)
        with self._scope:
            while left:
                step = left.popleft()
                if isinstance(step, End):
                    self._reason = step.reason
                    break
                await self._do(step)
                if self.waits_for:
                    await self._answered.until(lambda: not self.waits_for)
                    left = left or deque(self.session.turns.next_reply())
            self._tell({"generationComplete": True})
            await trio.sleep(self.session.server.lag)
            if not self.ended:
                self.ended = True
                self.session.turns.complete(self, self._reason)

    def stop(self) -> None:
        """It says nothing more."""
        self.ended = True
        self._scope.cancel()

    def answered(self, call_id: str) -> None:
        self.waits_for.discard(call_id)
        if not self.waits_for:
            self._answered.set()

    async def _do(self, step: Step) -> None:
        match step:
            case Speak():
                await self._speak(step)
            case CallTools():
                self._call(step)
            case Pause(seconds):
                await trio.sleep(seconds)
            case Hang():
                await trio.sleep_forever()
            case TurnComplete():
                if not self.ended:
                    self.session.turns.break_off()
            case _:
                self.session.happen(step)
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

    def _call(self, step: CallTools) -> None:
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
        self.session.calls.made(self, calls)
        if step.twice:
            parts = [{"functionCall": call} for call in calls]
            self._tell({"modelTurn": {"role": "model", "parts": parts}})

    def _tell(self, content: dict[str, Any]) -> None:
        if not self.ended:
            self.session.wire.emit({"serverContent": content})
