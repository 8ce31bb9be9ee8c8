"""The judge of absences: a tool that is well is shown again (liveness).

All other promises say what must not happen, so a runtime that shows nothing keeps them.
This one says what must happen: a tool that an NPC may use, and that its ceiling has
room for, is shown again within five minutes of talk, however slow it was before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from glyphoxa_trio.config import Config
from glyphoxa_trio.host import CatalogueEntry
from glyphoxa_trio.npc import ToolsShown
from glyphoxa_trio.simulation.promises.calls import BrokenPromise, Promise, TurnRecord
from glyphoxa_trio.simulation.promises.rights import unmeasured_tier
from glyphoxa_trio.tools.gate import Availability, Reason
from glyphoxa_trio.tools.tier import Tier, TierLimits

# Seconds of talk. Of the time between two turns at most `_PAUSE` counts as talk.
PATIENCE: Final = 300.0
_PAUSE: Final = 30.0
# A tool at the very edge of a tier may be counted as one of the next tier.
_ROOM: Final = 0.9
_SPEED: Final = (Reason.OVER_TIER, Reason.OVER_BUDGET)


@attrs.frozen
class Well:
    """A tool answers every call within ``seconds``, from ``since`` on.

    Before that it was ill ``ills`` times within an hour. Each time after the first
    doubles the time until it has to be shown again.
    """

    since: float
    seconds: float
    ills: int = 1


@attrs.define
class _Absence:
    since: float
    last: float | None = None
    talk: float = 0.0


@attrs.define(eq=False, kw_only=True)
class Watch:
    """Counts how long NPCs talk without a tool that is well.

    Args:
      well: how well a tool is, by its key. The world that plays it knows; None if it
        is not well, or that is not known.
    """

    limits: TierLimits
    report: Callable[[BrokenPromise], None]
    well: Callable[[str], Well | None]
    _absent: dict[tuple[str, Tier], _Absence] = attrs.field(factory=dict, init=False)

    def shown(
        self,
        turn: TurnRecord,
        event: ToolsShown,
        at: float,
        listings: tuple[CatalogueEntry, ...],
        config: Config,
    ) -> None:
        """The tools of a turn's first round, when all of its time is left."""
        if turn.selected is None or event.round:
            return
        tier = turn.selected.tier
        hidden = dict(event.hidden)
        for listing in listings:
            place = (listing.key, tier)
            no = hidden.get(listing.exposed)
            counts = no is not None and (
                no.reason in _SPEED
                or (
                    no.reason is Reason.UNAVAILABLE
                    and listing.availability is Availability.READY
                )
            )
            well = self.well(listing.key)
            if well is None or not self._has_room(listing, well, tier, config):
                self._absent.pop(place, None)
                continue
            absence = self._absent.get(place)
            if absence is None or absence.since != well.since:
                absence = self._absent[place] = _Absence(well.since)
            # All absences since it is well are added up: a tool that is shown for a
            # moment now and then is not back.
            if counts and absence.last is not None:
                absence.talk += min(at - absence.last, _PAUSE)
            absence.last = at if counts else None
            if absence.talk > PATIENCE * 2 ** max(0, well.ills - 1):
                text = (
                    f"{listing.key} takes {well.seconds:g} s since {well.since:g} s,"
                    f" but was hidden for {absence.talk:g} s of talk"
                )
                self.report(BrokenPromise(Promise.SHOWN_AGAIN, turn.where, at, text))
                absence.talk = 0.0

    def _has_room(
        self, listing: CatalogueEntry, well: Well, tier: Tier, config: Config
    ) -> bool:
        limits = self.limits
        room = min(limits.threshold(tier), limits.ceiling(tier))
        declared = listing.definition.estimated_duration or 0.0
        return (
            well.seconds <= _ROOM * room
            and well.seconds < listing.definition.own_limit
            and declared <= limits.ceiling(tier)
            and unmeasured_tier(listing.definition, limits, config.calibration.unknown)
            <= tier
        )
