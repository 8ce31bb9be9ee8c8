"""Memory in a runtime: the store, and everything that works on it.

`open_remembering` opens the store and runs the keeper of turns. `serve` follows when
the models exist: it adds to prompts, summarises evenings and embeds what was said.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.actors import Topic
from glyphoxa_trio.config import Config
from glyphoxa_trio.config.memory import OFF, Durability, MemoryConfig
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.memory.claims import expired
from glyphoxa_trio.memory.contract import Forgotten, Memory
from glyphoxa_trio.memory.errors import MemoryUnavailable
from glyphoxa_trio.memory.knowledge import Standing
from glyphoxa_trio.memory.opening import POSTGRES, open_memory
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey, Viewer
from glyphoxa_trio.npc import Costs, TurnEvent
from glyphoxa_trio.npc.hot_context import Gathered, HotContext, Moment
from glyphoxa_trio.npc.identity import DEFAULT, DEFAULT_SESSION, NpcId, SessionKey
from glyphoxa_trio.npc.topics import PublicNames
from glyphoxa_trio.providers.llm import LLM, Usage
from glyphoxa_trio.recall.afterwards import Afterwards
from glyphoxa_trio.recall.campaign_names import CampaignNames
from glyphoxa_trio.recall.context import MemoryContext
from glyphoxa_trio.recall.embedding import Embedding, embedder_of
from glyphoxa_trio.recall.place import place_of
from glyphoxa_trio.recall.references import reference_in
from glyphoxa_trio.tools.definition import CallContext, Tool

from .assembly import memory_tools
from .forgotten_elsewhere import ForgottenElsewhere
from .turn_keeper import TurnKeeper, open_keeper

_ALL: Final = 1_000_000  # facts: more than a campaign has
_DAY: Final = 86_400.0
_MOST_NAMED: Final = 4  # campaigns whose names are loaded before the first turn
_NAMES: Final = 1.0  # seconds for the names of a campaign, before the first turn
_WRITING: Final = 10.0  # seconds for what waits, before a player is forgotten
_IDLE: Final = 0.5  # seconds between two looks whether a turn runs


@attrs.define(eq=False, kw_only=True, repr=False)
class RuntimeMemory:
    """The memory of one runtime.

    Args:
      keeper: keeps turns, and knows the campaign of each session.
      config: returns the configuration in use.
      elsewhere: looks for players whom other processes have forgotten.
      embedding: embeds what was said, if there is a model for that.
    """

    keeper: TurnKeeper
    _config: Callable[[], Config]
    elsewhere: ForgottenElsewhere
    embedding: Embedding | None = None
    names: CampaignNames = attrs.field(init=False)
    context: MemoryContext = attrs.field(init=False)

    async def begin(self, nursery: trio.Nursery) -> None:
        """Fetch what turns will need in this nursery. Called before the first turn.

        Waits a second at most for the names of a few campaigns, so that the first turn
        knows them: first of the one that sessions have which name none.
        """
        self.names = CampaignNames(self.memory, nursery)
        self.keeper.corrects_by(self.names.corrected)
        self.context = MemoryContext(
            self.memory,
            self._config().memory.recall,
            campaign_of=self._campaign_of,
            viewer_of=self._viewer,
            names=self.names.index,
            nursery=nursery,
        )
        with trio.move_on_after(_NAMES), suppress(GlyphoxaError):
            usual = self.keeper.campaign_of(DEFAULT_SESSION)
            others = await self.memory.campaigns()
            for campaign in list(dict.fromkeys((usual, *others)))[:_MOST_NAMED]:
                await self.names.index(campaign)

    @property
    def memory(self) -> Memory:
        """The store."""
        return self.keeper.memory

    def tools(self) -> list[Tool]:
        """Return the tools of memory on this store."""
        return memory_tools(
            self._config(),
            self.memory,
            campaign_of=self._campaign_of,
            viewer_of=lambda context: self._viewer(context.npc),
            embed=None if self.embedding is None else self.embedding.embed_query,
            now=time.time,
            player_of=lambda x: self.keeper.asker(self._key(x).npc(x.npc)),
        )

    @property
    def services(self) -> dict[str, Any]:
        """The services that NPCs borrow: arguments of `Services`."""
        return {"hearing": self.context.prefetch, "names": self.public_names}

    def table(
        self, key: SessionKey, campaign: str | None, players: Mapping[str, str] | None
    ) -> None:
        """Begin to keep a session, as `TurnKeeper.table` does, and load the names of
        its campaign."""
        self.keeper.table(key, campaign, players)
        self.public_names(key)

    def public_names(self, session: SessionKey) -> PublicNames:
        """Return the names of a session's campaign that all NPCs may know."""
        return self.names.public(self.keeper.campaign_of(session))

    async def forget(
        self,
        tenant: str,
        player: str,
        campaign: str | None = None,
        *,
        again: bool = False,
    ) -> Forgotten:
        """Forget a player whose sessions have ended, as `Memory.forget` does.

        Raises:
          MemoryUnavailable: the store is away, or what has words of the player cannot
            be written within 10 seconds: nothing is forgotten yet.
        """
        with trio.move_on_after(_WRITING) as writing:
            await self.keeper.flush()
        if writing.cancelled_caught:
            raise MemoryUnavailable(
                f"nobody is forgotten yet: what was said was not written within"
                f" {_WRITING:g} s; try again later"
            )
        gone = await self.memory.forget(tenant, player, campaign=campaign, again=again)
        self.names.changed_of(tenant)
        self.context.drop_prefetched(tenant)
        return gone

    def adopt(self, config: Config) -> None:
        """Use another configuration."""
        self.context.configure(config.memory.recall)

    def serve(
        self,
        nursery: trio.Nursery,
        context: HotContext,
        *,
        model: LLM | None,
        costs: Costs,
        events: Topic[TurnEvent],
        busy: Callable[[], bool],
        crowded: Callable[[], bool],
        warn: Callable[[str], None],
    ) -> None:
        """Add to prompts, and run what is done after evenings in ``nursery``.

        Args:
          model: summarises evenings; None is a stand-in, which cannot.
          busy: returns True while a turn runs.
          crowded: returns True while a request waits for a place at a model's server.
        """

        @wraps(self.context.provide)
        def provide(moment: Moment) -> Awaitable[Gathered | None]:
            if moment.turn:
                self.keeper.asks(self._key(moment).npc(moment.npc), moment.speaker)
            return self.context.provide(moment)

        context.add(provide)
        config = self._config().memory
        nursery.start_soon(self._warm_up)
        nursery.start_soon(self._prune, config, warn)
        if self.embedding is not None:
            self.embedding.yields_to(lambda: not busy())
            nursery.start_soon(self.embedding.run)
        if not config.afterwards:
            return

        async def idle() -> None:
            while busy():  # noqa: ASYNC110 - counted in many places
                await trio.sleep(_IDLE)

        def charge(usage: Usage) -> None:
            label = "" if model is None else model.label
            npc = NpcId("memory")
            events.publish(costs.charge(npc, 0, usage, model=label))

        afterwards = Afterwards(
            self.memory,
            model,
            config,
            now=time.time,
            charge=charge,
            warn=warn,
            idle=idle,
            crowded=crowded,
            changed=self.names.changed,
            stock=lambda: self._config().fallbacks,
        )
        nursery.start_soon(afterwards.run)

    async def _warm_up(self) -> None:
        """Load what the first turn will need, so that it does not have to."""
        await trio.to_thread.run_sync(reference_in, "Hm?", abandon_on_cancel=True)
        for npc in self._config().npcs[:1]:
            self.context.prefetch(Moment(npc=npc.name, turn=0, speaker="", text="Hm?"))

    async def _prune(self, config: MemoryConfig, warn: Callable[[str], None]) -> None:
        """Remove what is too old, now and once a day."""
        while True:
            try:
                if (days := config.keep_days) is not None:
                    await self.memory.forget_before(time.time() - days * _DAY)
                if days := config.claim_days:
                    await self._expire(time.time() - days * _DAY)
            except GlyphoxaError as error:
                warn(f"memory: what is too old was not removed: {error}")
            await trio.sleep(_DAY)

    async def _expire(self, before: float) -> None:
        """Remove the claims of before that time of which nothing came."""
        graph, every = self.memory.graph, tuple(Standing)
        for campaign in await self.memory.campaigns():
            found = await graph.facts(
                campaign, GAME_MASTER, standings=every, limit=_ALL
            )
            for fact in expired((x.fact for x in found), before):
                await graph.remove(campaign, fact=fact.id)

    def _viewer(self, npc: str) -> Viewer:
        """Return the viewer that an NPC is; without a name, the game master."""
        if not npc:
            return Viewer()
        for one in self._config().npcs:
            if one.name == npc:
                return Viewer(npc, frozenset(one.knowledge_scope))
        return Viewer(npc)

    def _campaign_of(self, about: CallContext | Moment) -> CampaignKey:
        return self.keeper.campaign_of(self._key(about))

    @staticmethod
    def _key(about: CallContext | Moment) -> SessionKey:
        return SessionKey(about.session or DEFAULT, about.tenant)


@asynccontextmanager
async def open_remembering(
    memory: Memory | Path | str | None,
    config: Callable[[], Config],
    *,
    source: Path | None,
    run: str,
    events: Topic[TurnEvent],
    warn: Callable[[str], None],
    recorded: bool,
) -> AsyncGenerator[RuntimeMemory | None]:
    """Open the store of memory, and keep turns until the block is left.

    Gives None if nothing is to be remembered.

    Args:
      memory: the argument of `open_runtime`.
      source: the configuration's file.
      recorded: the run is recorded.

    Raises:
      MemoryUnusable: the store is damaged, of another program or newer.
      MemoryUnavailable: it cannot be opened now.
    """
    settings = config().memory
    if memory is None and settings.store is not None:
        memory = place_of(config(), source)
    if memory is None or memory == OFF:
        yield None
        return
    keeper = partial(
        TurnKeeper,
        campaign=settings.campaign,
        run=run,
        events=events,
        warn=warn,
        waits=not recorded,
    )
    async with AsyncExitStack() as stack:
        if isinstance(memory, str | Path):
            durable = settings.durability is Durability.FULL
            place = str(memory)
            opening = open_memory(place, durable=durable)
            try:
                memory = await stack.enter_async_context(opening)
            except MemoryUnavailable as error:
                if place.startswith(POSTGRES):
                    raise
                raise MemoryUnavailable(
                    f"memory cannot be kept: {error}; name another file, or off, with"
                    " memory.store, or another folder with mcp.state_dir"
                ) from error
        embedding = None
        if settings.embeddings is not None:
            model = await stack.enter_async_context(embedder_of(settings.embeddings))
            embedding = Embedding(memory, model, warn=warn)
        kept = await stack.enter_async_context(open_keeper(keeper(memory=memory)))
        elsewhere = ForgottenElsewhere(memory, warn)
        await elsewhere.begin()
        await kept.writer.end_idle_evenings(())
        stack.push_async_callback(elsewhere.last)
        yield RuntimeMemory(
            keeper=kept, config=config, elsewhere=elsewhere, embedding=embedding
        )
