"""What the parts of one Gemini session all know: its socket, setup and conversation."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

import attrs

import trio

from ..voice.service import VoiceService
from ..voice.steps import ModelTurn, ResponseStep, reply_to
from ..voice.wire import Message, SocketWriter
from .history import FakeHistory
from .profiles import ModelFamily


@attrs.define(eq=False, kw_only=True)
class GeminiService(VoiceService):
    """What all sockets share, and outlives each of them.

    Args:
      profile: what the models take, whatever their name.
      notice: seconds between a ``goAway`` and the end.
      lag: seconds between the end of a generation and of its turn.
      max_result: bytes of a ``toolResponse`` above which the service breaks.
      handles: those that were given out, with what each remembers.
      calls: the ids of all calls.
    """

    profile: ModelFamily | None
    notice: float
    lag: float
    max_result: int | None
    handles: dict[str, FakeHistory] = attrs.field(factory=dict, repr=False)
    calls: set[str] = attrs.field(factory=set, repr=False)


@attrs.define(eq=False)
class GeminiState:
    """One socket, and the conversation it goes on with.

    ``setup`` is as the client sent it, with the documentation's names.
    """

    wire: SocketWriter
    service: GeminiService = attrs.field(repr=False)
    nursery: trio.Nursery = attrs.field(repr=False)
    setup: Message = attrs.field(factory=dict, repr=False)
    profile: ModelFamily = attrs.field(init=False)
    history: FakeHistory = attrs.field(init=False, repr=False)
    declared: dict[str, str] = attrs.field(factory=dict)
    instructions: str = ""
    _ids: count[int] = attrs.field(factory=count, repr=False)

    @property
    def interrupts(self) -> bool:
        """Whether the model stops when the user speaks."""
        config = self.setup.get("realtimeInputConfig", {})
        return bool(config.get("activityHandling") != "NO_INTERRUPTION")

    def new_id(self, kind: str) -> str:
        return f"{kind}-{self.wire.number}-{next(self._ids)}"

    def violate(self, code: str, detail: str, message: Mapping[str, Any]) -> None:
        """Note what the client must not do."""
        self.service.violate(self.wire.number, code, detail, message)

    def said(self, role: str, text: str) -> None:
        """One more line of the conversation."""
        self.history = self.history.said(role, text)

    def answered(self, name: str, call_id: str, response: Mapping[str, Any]) -> None:
        """One more answer to a call."""
        self.history = self.history.answered(name, call_id, response)

    def next_reply(self) -> tuple[ResponseStep, ...]:
        """What the script says to the conversation as it is."""
        history = self.history
        turn = ModelTurn(
            socket=self.wire.number,
            number=history.asked,
            user=history.user,
            outputs=history.outputs,
            lines=history.lines,
            instructions=self.instructions,
            tools=tuple(self.declared),
            request={},
        )
        self.history = attrs.evolve(history, asked=history.asked + 1)
        return reply_to(self.service.script, turn)
