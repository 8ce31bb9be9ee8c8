"""One session of which turns are kept: its claim, its players and its evening."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import attrs

from glyphoxa_trio.actors import tell
from glyphoxa_trio.memory.entries import Claim
from glyphoxa_trio.memory.visibility import CampaignKey
from glyphoxa_trio.npc.identity import SessionKey

from .session_snapshot import SessionSnapshot

_TURNS_IN_A_LOG: Final = 100  # after so many turns of a session, a snapshot


def id_by_name(speaker: str) -> str:
    """Return the id of a player who has none, from the name."""
    return speaker.casefold().strip()


def _nobody() -> None:
    """There is nobody to tell."""


@attrs.define(eq=False)
class KeptTable:
    """One session of which turns are kept.

    Args:
      players: the stable ids of players, by the names under which they speak.

    ``claim``: None before the session is used, and if it is not kept. ``epoch``: of the
    last claim, also if it is lost. ``was_kept``: it was set aside into the store, and
    its claim given back. ``asking``: who spoke to each NPC last. ``effects``:
    the turns, by NPC and number, in which calls with side effects have begun.
    ``cut_short``: as in `RestoredSession`. ``strict``: a call with side effects waits
    until it is written that it begins, or is refused. ``lost``: called once it is known
    that another process has claimed the session.
    """

    key: SessionKey
    campaign: CampaignKey
    players: dict[str, str] = attrs.field(factory=dict)
    claim: Claim | None = attrs.field(default=None, init=False)
    epoch: int = attrs.field(default=0, init=False)
    loaded: bool = attrs.field(default=False, init=False)
    evening: str = attrs.field(default="", init=False)
    spoken_at: float = attrs.field(default=0.0, init=False)
    was_kept: bool = attrs.field(default=False, init=False)
    resting: SessionSnapshot | None = attrs.field(default=None, init=False, repr=False)
    turns: int = attrs.field(default=0, init=False)  # since its last snapshot
    effects: set[tuple[str, int]] = attrs.field(factory=set, init=False)
    asking: dict[str, str] = attrs.field(factory=dict, init=False)
    cut_short: tuple[str, ...] = attrs.field(default=(), init=False)
    strict: bool = attrs.field(default=False, init=False)
    lost: Callable[[], None] = attrs.field(default=_nobody, init=False)

    def player(self, speaker: str) -> str:
        """Return the stable id of the player who speaks under this name."""
        return self.players.get(speaker) or id_by_name(speaker)

    def spoke(self, heard: Iterable[str], npcs: Collection[str]) -> tuple[str, ...]:
        """Return the ids of the players among those who were heard."""
        names = dict.fromkeys(x for x in heard if x and x not in npcs)
        return tuple(self.player(x) for x in names)

    def claimed(self, claim: Claim | None) -> None:
        """Keep the session from now on; with None, keep it no longer."""
        self.claim, self.loaded = claim, False
        if claim is not None:
            if claim.epoch != self.epoch + 1:
                self.evening = ""  # another process had it meanwhile
            self.campaign, self.epoch = claim.campaign, claim.epoch

    def is_strict(self, lost: Callable[[], None] | None) -> None:
        """Run no call with side effects before it is written that it begins; call
        ``lost`` once another process has the session."""
        self.strict = True
        if lost is not None:
            self.lost = lost

    def fenced(self) -> None:
        """Keep it no longer, since another process has claimed it."""
        if self.claim is not None:
            self.claimed(None)
            tell(self.lost)

    def was_loaded(self, cut_short: tuple[str, ...] = ()) -> None:
        """Record that this run knows what was kept of the session before."""
        self.loaded, self.cut_short = True, cut_short

    def call(self, players: Mapping[str, str]) -> None:
        """Set the stable ids of players."""
        self.players |= players

    def began(self, evening: str, at: float) -> None:
        """Record the evening that its lines belong to, and when the last one came."""
        self.evening, self.spoken_at = evening, at

    def count(self) -> bool:
        """Count a turn, or a change between turns; return True if a snapshot is due.

        While a call with side effects runs it waits, for as many turns again: a
        snapshot replaces the entry that says that the call has begun.
        """
        self.turns += 1
        if self.effects and self.turns < 2 * _TURNS_IN_A_LOG:
            return False
        due = self.turns >= _TURNS_IN_A_LOG
        if due:
            self.turns = 0
            self.effects.clear()
        return due

    def rests(self, kept: SessionSnapshot | None, *, written: bool = False) -> None:
        """Hold the snapshot of a session that is set aside until it is written."""
        self.resting, self.was_kept = kept, written
