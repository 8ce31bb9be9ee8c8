"""The compiled names of campaigns: made when they are first needed, and kept.

A thousand names take a few hundredths of a second to compile. That is done in a thread,
once for each campaign and again after a change. No turn waits for it: until it is done
the first time, names are found as they are written.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final

import attrs

import trio

from glyphoxa_trio.memory.contract import Memory, Named
from glyphoxa_trio.memory.visibility import CampaignKey, Viewer
from glyphoxa_trio.npc.topics import NO_NAMES, PublicNames

from .name_keys import everyone_knows
from .names import NameIndex, UncompiledNames

_MOST: Final = 256  # campaigns
_ANYBODY: Final = Viewer("")  # knows what all know, and nothing else
# Seconds: another process may change a campaign, too.
_FRESH: Final = 60.0
# Seconds after a store failed, until it is asked again.
_AFTER_FAILURE: Final = 5.0
# The names of so few are compiled without a thread.
_FEW: Final = 50
_AT_ONCE: Final = 20  # names
_PAUSE: Final = 0.0002  # seconds


@attrs.define(eq=False)
class _Campaign:
    """The names of one campaign. ``stale_at`` is by trio's clock."""

    index: NameIndex = attrs.field(factory=NameIndex)
    public: PublicNames = NO_NAMES
    named: tuple[Named, ...] | None = None  # that the others were made of
    error: Exception | None = None
    loading: trio.Event | None = None
    stale_at: float = -math.inf
    changes: int = 0

    def change(self) -> None:
        self.changes += 1
        self.stale_at = -math.inf

    def begin(self) -> None:
        self.loading = trio.Event()

    def take_first(self, names: UncompiledNames) -> None:
        """Have names before any are compiled; who waits for them goes on."""
        self.named, self.index = names.names, names
        if self.loading is not None:
            self.loading.set()

    def take(
        self, named: tuple[Named, ...], index: NameIndex, public: PublicNames
    ) -> None:
        self.named, self.index, self.public = named, index, public

    def end(self, error: Exception | None, stale_at: float) -> None:
        self.error, self.stale_at = error, stale_at
        if self.loading is not None:
            self.loading.set()
            self.loading = None


@attrs.define(eq=False)
class CampaignNames:
    """The names of all campaigns of one store.

    Args:
      nursery: loads and compiles names.
    """

    memory: Memory
    _nursery: trio.Nursery
    _campaigns: OrderedDict[CampaignKey, _Campaign] = attrs.field(
        factory=OrderedDict, init=False
    )

    async def index(self, campaign: CampaignKey) -> NameIndex:
        """Return the names of a campaign. The first time this waits for the store.

        Later, names that are older than a minute are made anew meanwhile.

        Raises:
          MemoryUnavailable: the names were never had, and the store failed lately.
        """
        one = self._one(campaign)
        if one.named is None and one.loading is not None:
            await one.loading.wait()
        if one.named is None and one.error is not None:
            raise one.error
        return one.index

    def public(self, campaign: CampaignKey) -> PublicNames:
        """Return the names that all NPCs of a campaign may know.

        Returns at once; none are known until they were loaded.
        """
        return self._one(campaign).public

    def corrected(self, campaign: CampaignKey, text: str) -> str:
        """Return a text with misheard names put right; "" if there are none.

        Only names that every NPC may know are used. Returns at once.
        """
        return self._one(campaign).index.corrected(text, _ANYBODY)

    def changed(self, campaign: CampaignKey) -> None:
        """Make the names anew: an entity was added, changed or removed."""
        if (one := self._campaigns.get(campaign)) is not None:
            one.change()
            self._refresh(campaign, one)

    def changed_of(self, tenant: str) -> None:
        """Make the names of all campaigns of a tenant anew."""
        for campaign in list(self._campaigns):
            if campaign.tenant == tenant:
                self.changed(campaign)

    def _one(self, campaign: CampaignKey) -> _Campaign:
        one = self._campaigns.setdefault(campaign, _Campaign())
        self._campaigns.move_to_end(campaign)
        if len(self._campaigns) > _MOST:
            self._campaigns.popitem(last=False)
        self._refresh(campaign, one)
        return one

    def _refresh(self, campaign: CampaignKey, one: _Campaign) -> None:
        if self._nursery.cancel_scope.cancel_called:
            return  # the runtime closes: its last turns are written with what is known
        if one.loading is None and trio.current_time() >= one.stale_at:
            one.begin()
            self._nursery.start_soon(self._load, campaign, one)

    async def _load(self, campaign: CampaignKey, one: _Campaign) -> None:
        changes, error, fresh = one.changes, None, _AFTER_FAILURE
        try:
            named = await self.memory.graph.names(campaign)
            if named != one.named or isinstance(one.index, UncompiledNames):
                if len(named) > _FEW and one.named is None:
                    near = await trio.to_thread.run_sync(UncompiledNames.near, named)
                    one.take_first(near)
                if len(named) <= _FEW:
                    one.take(named, *_compiled(named))
                else:
                    compiled = await trio.to_thread.run_sync(_compiled, named)
                    one.take(named, *compiled)
            fresh = _FRESH
        except Exception as failed:  # border: a store may fail in any way
            error = failed
        finally:
            changed = changes != one.changes
            one.end(error, -math.inf if changed else trio.current_time() + fresh)


def _compiled(named: tuple[Named, ...]) -> tuple[NameIndex, PublicNames]:
    public = everyone_knows(named, _by_and_by)
    return NameIndex.of(_by_and_by(named)), PublicNames(public)


def _by_and_by(named: Sequence[Named]) -> Iterator[Named]:
    """Yield names, and let turns go on meanwhile, which would each time wait for this
    thread until Python switches."""
    for number, one in enumerate(named, 1):
        if number % _AT_ONCE == 0:
            time.sleep(_PAUSE)
        yield one
