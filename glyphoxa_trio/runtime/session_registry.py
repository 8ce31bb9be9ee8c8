"""The session registry: the sessions of a runtime, and an actor for each of their NPCs.

An NPC's actor is started when the NPC is first used in a session, and again when a
session that was set aside comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from random import Random
from typing import Final, Protocol

import attrs

import trio

from glyphoxa_trio.actors import (
    Backoff,
    Failed,
    Ref,
    StableRef,
    SupervisionEvent,
    crash_report,
    spawn,
)
from glyphoxa_trio.config import Config, NpcConfig
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.memory.errors import MemoryUnavailable
from glyphoxa_trio.memory.visibility import CampaignKey
from glyphoxa_trio.npc import Npc, Scene
from glyphoxa_trio.npc.identity import NpcId, SessionKey
from glyphoxa_trio.npc.scene import (
    AddressingState,
    SceneActor,
    SceneMembers,
    SceneMessages,
    SceneSettings,
)
from glyphoxa_trio.npc.selector import Learn, Selector
from glyphoxa_trio.npc.session import run_session
from glyphoxa_trio.npc.session.messages import SessionMessages
from glyphoxa_trio.npc.turn.memory import NpcMemory
from glyphoxa_trio.npc.turn.settings import Links, Services, SessionSettings
from glyphoxa_trio.npc.voice import MicrophoneInput
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.naming import nearest

from .assembly import rules_of, vocabulary_of
from .grants import grant_of
from .hooks import NOBODY, Hooks
from .idle_sessions import (
    IdleSessions,
    SessionStore,
    StoreFull,
)
from .kept_table import id_by_name
from .left_sessions import LeftSessions
from .models import Models
from .overload import Overload
from .remembering import RuntimeMemory
from .session_snapshot import SessionSnapshot
from .session_state import (
    SessionNpc,
    SessionScene,
    SessionState,
    SessionStates,
    call_id_of,
)
from .voices import Voices

_TENDED: Final = 30.0  # seconds between two looks at what is idle
_CLAIMING: Final = 10.0  # seconds for the store
_PATIENCE: Final = 5.0  # seconds for an actor to take a message
# A bug of ours must neither end the runtime nor restart without a pause.
_AFTER_A_FAULT: Final = Backoff(first=0.05, ceiling=5.0, max_restarts=1_000_000)


class UnknownNpc(GlyphoxaError):
    """There is no NPC of that name; the message has the nearest ones."""


def find_npc(config: Config, name: str) -> NpcConfig:
    """Return the NPC of that name, as `full_name` finds it.

    Raises:
      UnknownNpc: with the nearest names.
    """
    found = full_name([npc.name for npc in config.npcs], name)
    return next(npc for npc in config.npcs if npc.name == found)


def full_name(known: Sequence[str], name: str) -> str:
    """Return the one of these names that is meant.

    The beginning of a name is enough if it is unique, and so is a later word of it,
    such as Fenn for Old Fenn.

    Raises:
      UnknownNpc: with the nearest names.
    """
    wanted = name.casefold().strip()
    names = {each.casefold(): each for each in known}
    if wanted in names:
        return names[wanted]
    begun = [each for full, each in names.items() if full.startswith(wanted)]
    if not begun:
        begun = [each for full, each in names.items() if f" {wanted}" in full]
    if wanted and len(begun) == 1:
        return begun[0]
    near = begun or nearest(name, known) or known
    raise UnknownNpc(f"no NPC {name!r}, there is {', '.join(near) or 'none'}")


class NotClaimed(GlyphoxaError):
    """A session cannot be claimed, since nothing keeps it; the message says why."""


@attrs.frozen(kw_only=True)
class SessionHold:
    """The claim of a session.

    ``epoch``: each claim of a session has a higher one. ``said``: the ids of its last
    utterances (`Npc.say`) whose turns were kept, or have begun a side effect.
    """

    epoch: int
    said: tuple[str, ...]


class WordsKeeper(Protocol):
    """An object beside the sessions that has words of players, such as shown turns."""

    def players(self, tenant: str) -> Iterable[str]:
        """Return the ids of the players of a tenant whose words it has."""
        ...

    def forget(self, player: str, tenant: str, campaign: str | None) -> None:
        """Let go of all turns in which this player spoke, in one campaign or in all.
        Must not raise."""
        ...


class Borrow(Protocol):
    """The constructor of `Services`, less the registry's own arguments."""

    def __call__(
        self,
        *,
        selector: Ref[Selector],
        links: Callable[[SessionSettings, NpcId], Links],
        used: Callable[[SessionKey], None],
    ) -> Services: ...


@attrs.define(eq=False, kw_only=True)
class SessionRegistry:
    """The owner of a runtime's sessions, which live in ``nursery`` with the tier
    selector.

    Args:
      models, voices: the models, ears and voices of NPCs, as configured now.
      overload: decides, with the costs, which turns may begin.
      approvals: True if the embedder answers `ApprovalNeeded` events.
      run: the id of this run; the ids of sessions and calls derive from it.
      store: keeps the sessions that are set aside.
      entered: called with a session and each of its NPCs that is used for the first
        time.
      left: called with a session that ended or was set aside.
      remembering: keeps sessions beyond this run, in place of the store.
      hooks: told of sessions that are kept beyond this run.
      borrow: makes the services that all sessions share.
    """

    nursery: trio.Nursery
    config: Config
    models: Models
    voices: Voices
    overload: Overload
    approvals: bool
    run: str
    _store: SessionStore
    _entered: Callable[[SessionKey, NpcConfig], None]
    left: Callable[[SessionKey], None]
    _borrow: Borrow
    remembering: RuntimeMemory | None = None
    _hooks: Hooks = NOBODY
    services: Services = attrs.field(init=False)
    states: SessionStates = attrs.field(init=False)
    resting: IdleSessions = attrs.field(init=False)
    words: list[WordsKeeper] = attrs.field(factory=list, init=False)
    _left: LeftSessions = attrs.field(factory=LeftSessions, init=False)
    _named: dict[str, NpcConfig] = attrs.field(init=False)
    _expected: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._named = {npc.name: npc for npc in self.config.npcs}
        selector: Ref[Selector] = spawn(
            self.nursery,
            lambda inbox: Selector(rules_of(self.config)).run(inbox),
            name="selector",
            capacity=1024,
            restart=_AFTER_A_FAULT,
            on_event=self._report,
        )
        self.states = SessionStates(
            lambda: self.config.sessions.most,
            self._rest,
            self.remembering is not None,
        )
        self.services = self._borrow(
            selector=selector, links=self._links, used=self.states.used
        )
        self.resting = IdleSessions(
            self._store,
            self.states,
            self.services.costs,
            self.run,
            lambda: self.config.sessions.key,
            self.services.warn,
            None if self.remembering is None else self.remembering.keeper,
            self._hooks.restored,
            self._hooks.knows,
        )

    def _rest(self, state: SessionState) -> bool:
        rests = self.resting.rest(state)
        if rests:
            self.left(state.key)
            if self.remembering is not None:
                kept = self.remembering.keeper.table(state.key).resting
                assert kept is not None
                self._leaves(kept)
        return rests

    def npc(self, name: str, state: SessionState) -> Npc:
        """Return the NPC of that name, or of that beginning of a name, in one session.

        Raises:
          UnknownNpc: with the nearest names.
          SessionEnded: if the session has ended.
        """
        state.check()
        # The exact name first: with thousands of NPCs, a search through all of them
        # costs more than a turn that is refused.
        config = self._named.get(name) or find_npc(self.config, name)
        seat = state.seats.get(config.name)
        if seat is None:
            if state.resting:
                return self._npc(config, self._grant(config), None, state)
            seat = state.seats[config.name] = self._open(config, state)
        return seat.npc

    def call_id(self, npc: NpcId) -> str:
        """Return the ``{call_id}`` of an NPC's conversation, begun or not."""
        state = self.states.get(npc.session)
        seat = None if state is None else state.seats.get(npc.npc)
        if seat is None:
            return call_id_of(self.run, npc)
        return seat.memory.opening.call_id

    def scene(
        self, names: tuple[str, ...], find: Callable[[str], Npc], state: SessionState
    ) -> Scene:
        """Return the scene of these NPCs, or of all; the same one each time.

        Args:
          names: sorted names; empty means all NPCs.
          find: returns an NPC of the session by name, as `npc` does.

        Raises:
          SessionEnded: if the session has ended.
        """
        state.check()
        if (stage := state.stages.get(names)) is not None:
            return stage.scene

        def here() -> list[NpcConfig]:
            return [x for x in self.config.npcs if not names or x.name in names]

        def settings() -> SceneSettings:
            config = self.config
            return SceneSettings(
                npcs=[npc.name for npc in here()],
                players=config.scene.players,
                listener=config.turn.listener,
                session=state.key,
            )

        def changed() -> None:
            if self.services.log is not None:
                self.services.log.changed(state.key)

        async def again() -> Ref[SceneMessages] | None:
            state.check()
            await self.resting.wake(state)
            return self.scene(names, find, state)._door.ref

        ref: Ref[SceneMessages] | None = None
        name = f"scene {len(state.stages) + 1}{state.at}"
        company, attention = (
            SceneMembers(find),
            AddressingState(),
        )  # stay through a crash
        if not state.resting:
            if (kept := state.kept_scenes.pop(names, None)) is not None:
                attention.restore(kept)
                company.restore(kept)
            ref = spawn(
                self.nursery,
                lambda inbox: SceneActor(
                    company, settings, attention, self.services.handover, changed
                ).run(inbox),
                name=name,
                restart=_AFTER_A_FAULT,
                on_event=self._report,
            )
        door = StableRef(name, ref, again)

        def ear(scene: Scene, speaker: str) -> MicrophoneInput | None:
            return self.voices.scene_ear(
                scene,
                speaker,
                of=door,
                handover=self.services.handover,
                find=find,
                npcs=here(),
                config=self.config,
                warn=self.services.warn,
            )

        scene = Scene(door, self.services.handover, ears=ear, session=state.key)
        if ref is not None:
            state.stages[names] = SessionScene(scene, attention, company)
        return scene

    def snapshot_of(
        self, key: SessionKey, *, history: bool = True
    ) -> SessionSnapshot | None:
        """Return a snapshot of an open session, with or without its turns; None if it
        is not open."""
        state = self.states.get(key)
        if state is None or state.resting or state.ended:
            return None
        return self.resting.taken(state, history=history)

    async def end_those_with(
        self, player: str, tenant: str, campaign: str | None = None
    ) -> bool:
        """End the sessions of a tenant, or of one campaign of it, that have words of
        this player, and have other keepers of words forget the player.

        Sessions that memory has set aside are left to memory, but for those that were
        set aside of late: they may have been written after it has forgotten the player.

        Returns:
          True if a session ended.
        """
        for state in self.states.set_aside:
            if (waking := state.waking) is not None and waking.locked():
                async with waking:  # with what was loaded before
                    pass
        several = self.states.open
        if not self.resting.durable:
            several += self.states.set_aside
        ended = False
        for state in several:
            if (
                not state.ended
                and state.key.tenant == tenant
                and campaign in (None, self.campaign_of(state.key).campaign)
                and player in await self._all_speakers(state)
            ):
                await self.end(state)
                ended = True
        for kept in self._unkept():
            if (
                kept.tenant == tenant
                and campaign in (None, self.campaign_of(kept.key).campaign)
                and player in self._speakers(kept)
            ):
                assert self.remembering is not None
                self.remembering.keeper.wakes(kept.key)  # with nothing kept of it
                ended = True
        for key in self._left.take(player, tenant, campaign):
            with suppress(GlyphoxaError):
                await self.end(self.states.sit(key, {}))
            ended = True
        for words in self.words:
            words.forget(player, tenant, campaign)
        return ended

    def campaign_of(self, key: SessionKey) -> CampaignKey:
        """Return the campaign whose memory a session has, or would have if it began."""
        if self.remembering is None:
            return CampaignKey(self.config.memory.campaign or key.id, key.tenant)
        return self.remembering.keeper.campaign_of(key)

    def players(self, tenant: str) -> set[str]:
        """Return the ids of the players of a tenant whose words open sessions have, or
        those that were given back of late, or other keepers of words."""
        several = [x for x in self.states.open if x.key.tenant == tenant]
        taken = [self.resting.taken(x) for x in several]
        taken += [x for x in self._unkept() if x.tenant == tenant]
        kept = (x.players(tenant) for x in self.words)
        return self._left.players(tenant).union(*map(self._speakers, taken), *kept)

    def _unkept(self) -> list[SessionSnapshot]:
        return [] if self.remembering is None else self.remembering.keeper.unkept()

    def player_of(self, session: SessionKey, speaker: str) -> str:
        """Return the stable id of the player who speaks under this name."""
        if self.remembering is None:
            return id_by_name(speaker)
        return self.remembering.keeper.player_of(session, speaker)

    async def _all_speakers(self, state: SessionState) -> set[str]:
        """Return the ids of the players whose words a session has, open or set aside.

        Raises:
          SnapshotRefused: what was set aside of it cannot be read.
        """
        if not state.resting:
            return self._speakers(self.resting.taken(state))
        return self._speakers(await self.resting.snapshot(state))

    def _speakers(self, kept: SessionSnapshot) -> set[str]:
        """Return the ids of the players whose words a session has."""
        return {self.player_of(kept.key, name) for name in kept.speakers}

    def _leaves(self, kept: SessionSnapshot) -> None:
        """Note whose words a session has that is written and open here no more."""
        players = self._speakers(kept)
        self._left.add(kept.key, self.campaign_of(kept.key), players)

    async def tend(self) -> None:
        """Set aside sessions that are idle for long, until cancelled."""
        while True:
            idle = self.config.sessions.idle
            await trio.sleep(min(_TENDED, idle / 4))
            with suppress(StoreFull):  # they stay open
                self.states.rest_unused(trio.current_time() - idle)
            self._left.forget_old()
            if self.remembering is not None:
                self.remembering.keeper.forget_unused(
                    lambda key: self.states.get(key) is not None
                )

    async def claim(
        self,
        state: SessionState,
        steal_from: int | None,
        on_lost: Callable[[], None] | None,
    ) -> SessionHold:
        """Claim a session and load it; see `Session.claim`."""
        state.check()
        if self.remembering is None:
            raise NotClaimed("sessions are not kept: configure `memory`")
        keeper = self.remembering.keeper
        table = keeper.table(state.key)
        if table.claim is None and not state.resting:
            raise NotClaimed(f"{state.key} began here without a claim: end it first")
        with trio.move_on_after(_CLAIMING) as claiming:
            claim = await keeper.claim(state.key, steal_from=steal_from)
        if claiming.cancelled_caught:
            raise MemoryUnavailable(
                f"memory did not answer for the session {state.key} within"
                f" {_CLAIMING:g} s, or an earlier one of this name has not ended"
            )
        table.is_strict(on_lost)
        await self.resting.wake(state)
        kept = self.resting.taken(state).npcs.values()
        said = [x.utterance for npc in kept for x in npc.history if x.utterance]
        return SessionHold(epoch=claim.epoch, said=(*table.cut_short, *said))

    async def release(self, state: SessionState, *, write: bool) -> None:
        """End a session here and leave it to others; see `Session.release`."""
        if state.ended:
            return
        keeper = None if self.remembering is None else self.remembering.keeper
        if keeper is not None:
            await keeper.namesake_ended(state.key)
            if state.ended:
                return
        was_open = not state.resting
        with nullcontext() if keeper is None else keeper.ending(state.key):
            if keeper is not None and not write:
                keeper.drop(state.key)
            await self._close(state)
            kept = self.resting.taken(state) if was_open else None
            if kept is not None and write:
                self._leaves(kept)
            self.services.costs.forget(state.key)
            written = None
            if keeper is not None and write:
                written = keeper.release(state.key, kept)
        if written is not None:
            await written.wait()

    async def end(self, state: SessionState) -> None:
        """End a session: interrupt what runs or waits in it.

        Tool calls that have side effects run to their end. Returns when the turns are
        over, or shortly after a turn fails to end.
        """
        if state.ended:
            return
        if state.resting and self.resting.durable:
            with suppress(GlyphoxaError):  # what was kept of it ends as well
                await self.resting.wake(state)
        keeper = None if self.remembering is None else self.remembering.keeper
        if keeper is not None:
            await keeper.namesake_ended(state.key)
            if state.ended:
                return
        if state.resting:  # its key is free once the store has dropped its snapshot
            state.end()
            await self.resting.forget(state)
        self._left.drop(state.key)
        # A new session under the same key must not inherit its costs.
        self.services.costs.forget(state.key)
        with nullcontext() if keeper is None else keeper.ending(state.key):
            await self._close(state)
            self.resting.ended(state)
        if self.states.get(state.key) is None:  # costs that its last turns added
            self.services.costs.forget(state.key)

    async def _close(self, state: SessionState) -> None:
        """Free the key of a session, and end its actors."""
        self.states.end(state)
        self.left(state.key)
        for stage in state.stages.values():
            stage.scene.dismiss()
        async with trio.open_nursery() as nursery:
            for seat in state.seats.values():
                nursery.start_soon(seat.npc.end)

    async def adopt(self, config: Config, models: Models) -> None:
        """Use another configuration; each session takes it when its turn is over.

        An NPC that the configuration no longer has ends its turn and is gone.
        """
        self.config, self.models = config, models
        self.overload.adopt(config.overload)
        self.services.costs.adopt(config.cost)
        self._named = cast = {npc.name: npc for npc in config.npcs}
        for state in self.states.open:
            for name, seat in list(state.seats.items()):
                await self._become(cast.get(name), state, name, seat)
        await self.services.selector.ask(
            Learn(vocabulary=vocabulary_of(config)), within=_PATIENCE
        )

    async def expect_approvals(self, *, expected: bool) -> None:
        """Note if questions about calls are answered from now on; each session takes
        it when its turn is over."""
        if expected is not self._expected:
            self._expected = expected
            for state in self.states.open:
                for name, seat in list(state.seats.items()):
                    await self._become(self._named.get(name), state, name, seat)

    async def _become(
        self,
        successor: NpcConfig | None,
        state: SessionState,
        name: str,
        seat: SessionNpc,
    ) -> None:
        if successor is not None:
            settings = self._settings(successor)
            # An NPC of a session that was set aside is configured when that comes back.
            with suppress(GlyphoxaError):
                if state.seats.get(name) is seat:
                    npc = await seat.npc.become(settings)
                    if state.seats.get(name) is seat:
                        state.seats[name] = attrs.evolve(seat, npc=npc)
                return
        # The NPC was removed; or its actor crashed meanwhile, and a new one is made.
        state.seats.pop(name, None)
        seat.npc.dismiss()

    def _settings(self, npc: NpcConfig) -> SessionSettings:
        config = self.config
        return SessionSettings(
            npc=npc,
            grant=self._grant(npc),
            turn=config.turn,
            defer_threshold=config.mcp.defer_threshold,
            speculation=config.speculation,
            filler=config.filler,
            s2s=config.s2s,
            overheard=config.scene.overheard,
            scene=config.scene.context,
            template_defaults=config.template_defaults,
        )

    def _links(self, settings: SessionSettings, whose: NpcId) -> Links:
        npc = settings.npc
        chance = Random(f"{self.run} {whose.text}")  # the same in a replay
        return Links(
            llm=self.models.for_npc(npc.model),
            fast=self.models.opening(npc),
            live=self.voices.live(npc, settings.s2s, whose, chance),
        )

    def _open(self, npc: NpcConfig, state: SessionState) -> SessionNpc:
        settings = self._settings(npc)
        call_id = call_id_of(self.run, state.key.npc(npc.name))
        self._entered(state.key, npc)
        memory = NpcMemory(settings, call_id, state.key)
        if (kept := state.kept.pop(npc.name, None)) is not None:
            memory.restore(kept)
        elif state.variables:
            memory.set_variables(state.variables)
        ref: Ref[SessionMessages] = spawn(
            self.nursery,
            lambda inbox: run_session(inbox, memory, self.services),
            name=f"npc {npc.name}{state.at}",
            restart=_AFTER_A_FAULT,
            on_event=self._report,
        )
        return SessionNpc(self._npc(npc, settings.grant, ref, state), memory)

    def _npc(
        self,
        npc: NpcConfig,
        grant: Grant,
        ref: Ref[SessionMessages] | None,
        state: SessionState,
    ) -> Npc:
        door = StableRef(
            f"npc {npc.name}{state.at}", ref, partial(self._again, npc, state)
        )
        handover = self.services.handover
        return Npc(npc, grant, door, handover, ears=self._ear, session=state.key)

    async def _again(
        self, npc: NpcConfig, state: SessionState
    ) -> Ref[SessionMessages] | None:
        """Return the actor of an NPC whose session was set aside, after bringing that
        back."""
        state.check()
        if npc.name not in self._named:
            return None
        await self.resting.wake(state)
        return self.npc(npc.name, state)._door.ref

    def _report(self, event: SupervisionEvent) -> None:
        if isinstance(event, Failed):
            self.services.warn(crash_report(event))

    def _ear(self, npc: Npc, speaker: str) -> MicrophoneInput | None:
        """Return the NPC's ear as configured now; ``npc`` may precede a reload."""
        state = self.states.get(npc.session)
        if state is not None and (now := state.seats.get(npc.name)) is not None:
            npc = attrs.evolve(npc, config=now.npc.config, grant=now.npc.grant)
        live = self.voices.live(npc.config, self.config.s2s)
        if live is None:
            ears = self.voices.ears(npc.config.engine, self.services.warn)
        else:
            ears = self.voices.model_ears(live)
        return None if ears is None else ears(npc, speaker)

    @property
    def asks_somebody(self) -> bool:
        """True if an approver or the embedder answers questions about calls."""
        asked = self.approvals or self._expected
        return asked or self.services.approver is not None

    def _grant(self, npc: NpcConfig) -> Grant:
        return grant_of(npc, self.config, approver=self.asks_somebody)
