"""The state shared by the parts of one Gemini session: socket, setup, conversation."""

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
    """The state that all sockets share, and that outlives each of them.

    Args:
      profile: the input that the models accept, whatever their name.
      notice: seconds between a ``goAway`` and the end.
      lag: seconds between the end of a generation and of its turn.
      max_result: bytes of a ``toolResponse`` above which the service fails.
      handles: the handles that were sent, each with its history.
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
    """One socket, and the conversation that it continues.

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
        """True if the model stops when the user speaks."""
        config = self.setup.get("realtimeInputConfig", {})
        return bool(config.get("activityHandling") != "NO_INTERRUPTION")

    def new_id(self, kind: str) -> str:
        return f"{kind}-{self.wire.number}-{next(self._ids)}"

    def violate(self, code: str, detail: str, message: Mapping[str, Any]) -> None:
        """Note a forbidden act of the client."""
        self.service.violate(self.wire.number, code, detail, message)

    def said(self, role: str, text: str) -> None:
        """Add a line to the conversation."""
        self.history = self.history.said(role, text)

    def answered(self, name: str, call_id: str, response: Mapping[str, Any]) -> None:
        """Add an answer to a call."""
        self.history = self.history.answered(name, call_id, response)

    def next_reply(self) -> tuple[ResponseStep, ...]:
        """Return the script's reply to the conversation as it is."""
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
