"""The log of turns: told of what a session must not lose, and keeps it elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import attrs

from glyphoxa_trio.npc.conversation import Exchange
from glyphoxa_trio.npc.identity import NpcId, SessionKey
from glyphoxa_trio.npc.overheard import Overheard
from glyphoxa_trio.npc.snapshot import NpcSnapshot
from glyphoxa_trio.tools.outcome import ToolCall

from .listener import Listener


@attrs.frozen(kw_only=True, eq=False)
class EndedTurn:
    """A turn that has ended, although its listener may still hear the rest of it.

    ``npc``: the NPC's state after the turn, without its history. ``exchanges``: this
    turn's exchange, and then those of utterances that were superseded meanwhile.
    """

    id: NpcId
    number: int
    npc: NpcSnapshot
    exchanges: Sequence[Exchange]
    listener: Listener

    @property
    def heard_out(self) -> bool:
        """True if the listener will hear no more of the turn."""
        return self.listener.stream.heard_out and not self.listener.unplayed


class TurnLog(Protocol):
    """The log of a runtime's turns."""

    def ended(self, turn: EndedTurn) -> None:
        """Keep a turn. Must not block or raise."""

    def overheard(self, npc: NpcId, line: Overheard) -> None:
        """Keep words that this NPC overheard outside of a turn. As `ended`."""

    def changed(self, session: SessionKey) -> None:
        """Keep a session in which something was changed outside of a turn: a scene, a
        ceiling, who is muted. As `ended`."""

    def epoch(self, session: SessionKey) -> int:
        """Return the epoch of a session's last claim here; 0 if it had none."""

    async def effects_begin(
        self,
        npc: NpcId,
        turn: int,
        calls: Sequence[tuple[ToolCall, str]],
        utterance: str,
    ) -> bool:
        """Keep that calls with side effects begin now, each with its tool's key.

        ``utterance`` is the id of what the turn answers; "" if it has none. Returns
        within a tenth of a second; False if they must not begin, since they could not
        be kept.
        """
