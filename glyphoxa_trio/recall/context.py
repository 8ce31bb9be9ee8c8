"""Add to the prompt of each turn what an NPC remembers of the moment.

    recall = MemoryContext(memory, config, campaign_of=..., viewer_of=..., names=...,
                           nursery=nursery)
    hot_context.add(recall.provide)
    services = Services(..., hearing=recall.prefetch)

There are five parts, each with its own budget of tokens: who the NPC is, how it is
related to the speaker and to those who are named, the summaries of earlier evenings,
what is known of what is named or asked, and what was said last on earlier evenings
that have no summary. They are fetched at once, within one short
time limit. What is late is left out, and named in `Gathered.missed`; a store that fails
fails no turn. Every query is made with the NPC's own eyes (`Viewer`).

While a player still speaks, the pieces that the turn will need are fetched already.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from datetime import tzinfo
from typing import Final

import attrs

import trio

from glyphoxa_trio.config.memory import RecallConfig
from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.visibility import CampaignKey, Viewer
from glyphoxa_trio.npc.hot_context import Gathered, Moment

from .fetching import FetchedPieces, MemoryFetcher, Wanted
from .names import NameIndex
from .telling import Telling

# Seconds before the end of the time for context, in which the lines are made; also on a
# busy machine, whose timers are late: what is fetched by then would be lost.
_MARGIN: Final = 0.010
# Seconds: what was fetched ahead counts for this long.
_FRESH: Final = 30.0
# Seconds for one round of fetching ahead.
_PATIENCE: Final = 2.0
_MOST_NPCS: Final = 1000  # that pieces are kept for
_Owner = tuple[str, str, str]


@attrs.define(eq=False)
class _Ahead:
    """The pieces fetched ahead for one NPC, while a player speaks to it."""

    pieces: FetchedPieces = attrs.field(factory=FetchedPieces)
    viewed: tuple[CampaignKey, Viewer] | None = None
    running: bool = False
    _wanted: Moment | None = None

    def hear(self, moment: Moment) -> bool:
        """Replace what is to be fetched next; return True if no task does it yet."""
        self._wanted = moment
        begins, self.running = not self.running, True
        return begins

    def take(self) -> Moment | None:
        """Return what is to be fetched next; None ends the task."""
        wanted, self._wanted = self._wanted, None
        self.running = wanted is not None
        return wanted

    def current(self, viewed: tuple[CampaignKey, Viewer]) -> FetchedPieces:
        """Return the pieces, or new ones if they are old or were seen otherwise."""
        old = trio.current_time() - self.pieces.began > _FRESH
        if old or viewed != self.viewed:
            self.pieces, self.viewed = FetchedPieces(), viewed
        return self.pieces

    def end(self) -> None:
        """Forget the pieces: the turn that they were fetched for has them."""
        self.pieces, self._wanted = FetchedPieces(), None


@attrs.define(eq=False, repr=False)
class MemoryContext:
    """The provider of what NPCs remember.

    Args:
      memory: the store.
      config: the budgets and the time limit.
      campaign_of: returns the campaign of a moment, or None if it has no memory.
      viewer_of: returns the viewer that an NPC is.
      names: returns the names of a campaign, compiled.
      nursery: runs what is fetched ahead.
      since: returns the time since which the NPC's conversation has everything itself;
        None means the beginning of the session's running evening.
      clock: returns Unix time.
      zone: the time zone of dates; None is that of this machine.
    """

    memory: Memory
    config: RecallConfig
    campaign_of: Callable[[Moment], CampaignKey | None] = attrs.field(kw_only=True)
    viewer_of: Callable[[str], Viewer] = attrs.field(kw_only=True)
    names: Callable[[CampaignKey], NameIndex | Awaitable[NameIndex]] = attrs.field(
        kw_only=True
    )
    _nursery: trio.Nursery = attrs.field(kw_only=True)
    since: Callable[[Moment], float | None] = attrs.field(
        default=lambda _: None, kw_only=True
    )
    clock: Callable[[], float] = attrs.field(default=time.time, kw_only=True)
    zone: tzinfo | None = attrs.field(default=None, kw_only=True)
    _ahead: OrderedDict[_Owner, _Ahead] = attrs.field(factory=OrderedDict, init=False)

    def configure(self, config: RecallConfig) -> None:
        """Use these budgets and this time limit from the next turn on."""
        self.config = config

    async def provide(self, moment: Moment) -> Gathered | None:
        """Return what the NPC remembers of a moment, as `HotContext.add` takes it.

        Takes at most `RecallConfig.timeout` seconds, and no longer than the moment
        allows. Raises nothing but what ``campaign_of`` and ``viewer_of`` raise.
        """
        wanted = self._wanted
        if wanted is None or (campaign := self.campaign_of(moment)) is None:
            return None
        deadline = trio.current_time() + self.config.timeout
        telling = await self._telling(
            moment, campaign, wanted, min(deadline, moment.deadline - _MARGIN)
        )
        if moment.turn:  # the next utterance is another one
            self._forget(moment)
        return telling.gathered()

    async def explain(self, moment: Moment) -> tuple[Telling, Gathered] | None:
        """Return what `provide` would, with the reason of each line and with what the
        budgets have no room for. It waits for every piece, until it is cancelled."""
        wanted = self._wanted
        if wanted is None or (campaign := self.campaign_of(moment)) is None:
            return None
        telling = await self._telling(moment, campaign, wanted, moment.deadline)
        return telling, telling.gathered()

    async def _telling(
        self, moment: Moment, campaign: CampaignKey, wanted: Wanted, deadline: float
    ) -> Telling:
        fetcher = self._fetcher(moment, campaign)
        with trio.move_on_at(deadline):
            await fetcher.fetch(moment.text, moment.speaker, wanted)
        return Telling(
            fetcher=fetcher,
            moment=moment,
            config=self.config,
            now=self.clock(),
            zone=self.zone,
        )

    def drop_prefetched(self, tenant: str) -> None:
        """Drop all that was fetched ahead for a tenant's NPCs: memory has changed."""
        for (owner, _, _), ahead in self._ahead.items():
            if owner == tenant:
                ahead.end()

    def prefetch(self, moment: Moment) -> None:
        """Fetch ahead for what a player is saying; called with each partial transcript.

        Returns at once. For each NPC one fetch runs at a time, and of the texts that
        come meanwhile only the latest is used.
        """
        if self._wanted is None or self.campaign_of(moment) is None:
            return
        ahead = self._ahead_of(moment)
        if ahead.hear(moment):
            self._nursery.start_soon(self._fetch_ahead, ahead)

    async def _fetch_ahead(self, ahead: _Ahead) -> None:
        while (moment := ahead.take()) is not None:
            wanted, campaign = self._wanted, self.campaign_of(moment)
            if wanted is not None and campaign is not None:
                fetcher = self._fetcher(moment, campaign, ahead)
                with trio.move_on_after(_PATIENCE):
                    await fetcher.fetch(moment.text, moment.speaker, wanted)

    @property
    def _wanted(self) -> Wanted | None:
        config = self.config
        wanted = Wanted(
            own=bool(config.identity or config.relationships),
            earlier=bool(config.transcript),
            named=bool(config.relationships or config.summaries or config.facts),
        )
        some = config.total and (wanted.own or wanted.earlier or wanted.named)
        return wanted if some else None

    def _fetcher(
        self, moment: Moment, campaign: CampaignKey, ahead: _Ahead | None = None
    ) -> MemoryFetcher:
        viewer = self.viewer_of(moment.npc)
        ahead = ahead or self._ahead.get(_owner(moment))
        pieces = ahead.current((campaign, viewer)) if ahead else FetchedPieces()
        return MemoryFetcher(
            memory=self.memory,
            campaign=campaign,
            viewer=viewer,
            npc=moment.npc,
            session=moment.session,
            pieces=pieces,
            names=self.names,
            since=self.since(moment),
        )

    def _ahead_of(self, moment: Moment) -> _Ahead:
        owner = _owner(moment)
        ahead = self._ahead.setdefault(owner, _Ahead())
        self._ahead.move_to_end(owner)
        if len(self._ahead) > _MOST_NPCS:
            self._ahead.popitem(last=False)
        return ahead

    def _forget(self, moment: Moment) -> None:
        if (ahead := self._ahead.get(_owner(moment))) is not None:
            ahead.end()


def _owner(moment: Moment) -> _Owner:
    return moment.tenant, moment.session, moment.npc
