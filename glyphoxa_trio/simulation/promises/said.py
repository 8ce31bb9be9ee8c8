"""The words of players and models, as the player of a plan reports them."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from glyphoxa_trio.providers.llm import Message
from glyphoxa_trio.tools.outcome import ToolCall
from glyphoxa_trio.tools.tier import Tier


@attrs.define(eq=False)
class SpokenOnce:
    """The words by NPC and text: no text is said to an NPC twice."""

    _tiers: dict[tuple[str, str], Tier | None] = attrs.field(factory=dict, init=False)
    _calls: dict[tuple[str, str], dict[int, tuple[ToolCall, ...]]] = attrs.field(
        factory=dict, init=False
    )

    def by_player(self, npc: str, text: str, override: Tier | None) -> None:
        """Record that a player says this, and the tier if one was chosen."""
        self._tiers[npc, text] = override

    def by_model(
        self, npc: str, text: str, round_: int, calls: Sequence[ToolCall]
    ) -> None:
        """The model has ended its response in that round of the answer to it."""
        self._calls.setdefault((npc, text), {})[round_] = tuple(calls)

    def override(self, npc: str, text: str) -> Tier | None:
        return self._tiers.get((npc, text))

    def calls(self, npc: str, text: str, round_: int) -> tuple[ToolCall, ...] | None:
        """None if the model was not listened to."""
        return self._calls.get((npc, text), {}).get(round_)


def conversation_faults(messages: Sequence[Message]) -> list[str]:
    """Return the faults for which a strict model server would refuse a conversation."""
    faults: list[str] = []
    owed: list[str] = []
    for at, message in enumerate(messages):
        if owed:
            if message.role != "tool" or message.call_id != owed.pop(0):
                faults.append(f"message {at}: calls are not answered in their order")
                owed = []
        elif message.role == "tool":
            faults.append(f"message {at}: an answer to nothing")
        if message.role == "assistant":
            owed = [call.id for call in message.calls]
            if not message.calls and not message.content:
                faults.append(f"message {at}: it has no text and no calls")
    return [*faults, *(["calls are left without an answer"] if owed else [])]
