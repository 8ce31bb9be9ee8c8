"""Sessions that this process had until lately, and whose words they have.

Another process may have forgotten one of their players before they were written.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

import attrs

import trio

from glyphoxa_trio.memory.visibility import CampaignKey
from glyphoxa_trio.npc.identity import SessionKey

_LATELY: Final = 30.0  # seconds; longer than it takes to learn who was forgotten


@attrs.frozen
class _LeftSession:
    at: float
    campaign: CampaignKey
    players: AbstractSet[str]


@attrs.define(eq=False)
class LeftSessions:
    """Sessions that were set aside or given back within half a minute."""

    _left: dict[SessionKey, _LeftSession] = attrs.field(factory=dict, init=False)

    def add(
        self, key: SessionKey, campaign: CampaignKey, players: AbstractSet[str]
    ) -> None:
        """Note a session that is open here no more."""
        self._left.pop(key, None)
        self._left[key] = _LeftSession(trio.current_time(), campaign, players)
        self.forget_old()

    def forget_old(self) -> None:
        """Forget those that left long ago; the first of them has left first."""
        before = trio.current_time() - _LATELY
        while self._left and (first := next(iter(self._left.items())))[1].at < before:
            del self._left[first[0]]

    def drop(self, key: SessionKey) -> None:
        """Forget a session, which has ended."""
        self._left.pop(key, None)

    def players(self, tenant: str) -> set[str]:
        """Return the players of a tenant whose words they have."""
        several = (
            x.players for x in self._left.values() if x.campaign.tenant == tenant
        )
        return set[str]().union(*several)

    def take(self, player: str, tenant: str, campaign: str | None) -> list[SessionKey]:
        """Return those with words of this player, each once."""
        found = [
            key
            for key, x in self._left.items()
            if player in x.players
            and x.campaign.tenant == tenant
            and campaign in (None, x.campaign.campaign)
        ]
        for key in found:
            del self._left[key]
        return found
