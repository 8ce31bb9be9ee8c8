"""Whose turn it is in one Gemini session: when its model begins, stops, and is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ..voice.steps import Step, Turn, reply_to
from ..voice.wire import Message
from .generation import Generation

if TYPE_CHECKING:
    from .session import GeminiSession


@attrs.define(eq=False)
class Turns:
    """The turns of the model. ``current`` is the one that is running.

    ``wanted``: something came that it is to answer or speak of, once it may.
    """

    session: GeminiSession = attrs.field(repr=False)
    current: Generation | None = None
    wanted: bool = False
    _resumable: bool = False

    def user_said(self, text: str) -> None:
        """The user has finished: the model begins, at once or when it may."""
        self.wanted = True
        if self.session.hearing.interrupts:
            self.interrupt()
        self.session.history = self.session.history.said("user", text)
        self.go_on()

    def next_reply(self) -> tuple[Step, ...]:
        """What the script says to the conversation as it is."""
        session, history = self.session, self.session.history
        turn = Turn(
            socket=session.wire.number,
            number=history.asked,
            user=history.user,
            outputs=history.outputs,
            lines=history.lines,
            instructions=session.instructions,
            tools=tuple(session.declared),
            request={},
        )
        session.history = attrs.evolve(history, asked=history.asked + 1)
        return reply_to(session.server.script, turn)

    def begin(self) -> None:
        self.wanted = False
        steps = self.next_reply()
        self.current = Generation(self.session)
        self.tell_resumable()
        self.session.nursery.start_soon(self.current.play, steps)

    def interrupt(self) -> None:
        """Stop the model, if it is at it; its blocking calls are void."""
        generation, self.current = self.current, None
        if generation is None:
            return
        generation.stop()
        self.session.calls.void(generation)
        self.session.wire.emit({"serverContent": {"interrupted": True}})
        self._finish(generation, None)

    def complete(self, generation: Generation, reason: str | None) -> None:
        """A turn has come to its end."""
        self.current = None
        self._finish(generation, reason)
        self.session.hearing.transcripts.answered()
        self.go_on()

    def break_off(self) -> None:
        """A turn ends on the wire, and the interaction goes on."""
        content: Message = {"turnComplete": True}
        if self.session.profile.tells_status:
            content["interactionStatus"] = "IN_PROGRESS"
        self.session.wire.emit({"serverContent": content})

    def _finish(self, generation: Generation, reason: str | None) -> None:
        session = self.session
        if generation.said:
            session.history = session.history.said("model", generation.said)
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
        """Speak of what was answered meanwhile, if nobody else speaks."""
        if self.wanted and self.current is None and not self.session.hearing.speaking:
            self.begin()

    def speak_of(self, *, interrupt: bool) -> None:
        """Begin to speak of an answer now, or note that it is wanted."""
        self.wanted = True
        waits = self.session.profile.waits_for_user
        now = interrupt and not (waits and self.session.hearing.speaking)
        if now and self.current is not None and not self.current.waits_for:
            self.interrupt()
        if now and self.current is None:
            self.begin()
        self.go_on()

    def knows(self) -> None:
        """An answer came that nothing is said of."""
        if self.current is not None:
            return
        if self.session.profile.tells_status and self._status() == "IDLE":
            self.session.wire.emit({"serverContent": {"interactionStatus": "IDLE"}})
        self.tell_resumable()

    def _status(self) -> str:
        return "IN_PROGRESS" if self.session.calls.owed or self.wanted else "IDLE"

    def tell_resumable(self) -> None:
        """Give out a handle while there is nothing that it would lose."""
        session = self.session
        if "sessionResumption" not in session.setup:
            return
        busy = self.current is not None or bool(session.calls.owed) or self.wanted
        if not busy:
            handle = session.new_id("handle")
            session.server.handles[handle] = session.history
            update = {"newHandle": handle, "resumable": True}
            session.wire.emit({"sessionResumptionUpdate": update})
        elif self._resumable:
            session.wire.emit({"sessionResumptionUpdate": {"resumable": False}})
        self._resumable = not busy
