"""The session registry: the sessions of a runtime, and an actor for each of their NPCs.

An NPC's actor is started when the NPC is first used in a session, and again when a
session that was set aside comes back.

Above 300 lines, because all that is made for an NPC of a session is made here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
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
_PATIENCE: Final = 5.0  # seconds for an actor to take a message
# A bug of ours must neither end the runtime nor restart without a pause.
_AFTER_A_FAULT: Final = Backoff(first=0.05, ceiling=5.0, max_restarts=1_000_000)


class UnknownNpc(GlyphoxaError):
    """There is no NPC of that name; the message has the nearest ones."""


def find_npc(config: Config, name: str) -> NpcConfig:
    """Return the NPC of that name.

    The beginning of a name is enough if it is unique, and so is a later word of it,
    such as Fenn for Old Fenn.

    Raises:
      UnknownNpc: with the nearest names.
    """
    wanted = name.casefold().strip()
    names = {npc.name.casefold(): npc for npc in config.npcs}
    if wanted in names:
        return names[wanted]
    begun = [npc for full, npc in names.items() if full.startswith(wanted)]
    if not begun:
        begun = [npc for full, npc in names.items() if f" {wanted}" in full]
    if wanted and len(begun) == 1:
        return begun[0]
    known = [npc.name for npc in config.npcs]
    near = [npc.name for npc in begun] or nearest(name, known) or known
    raise UnknownNpc(f"no NPC {name!r}, there is {', '.join(near) or 'none'}")


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
    left: Callable[[SessionKey], None]
    _borrow: Borrow
    remembering: RuntimeMemory | None = None
    _hooks: Hooks = NOBODY
    services: Services = attrs.field(init=False)
    states: SessionStates = attrs.field(init=False)
    resting: IdleSessions = attrs.field(init=False)
    _named: dict[str, NpcConfig] = attrs.field(init=False)

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

        async def again() -> Ref[SceneMessages] | None:
            if state.ended:
                return None
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
                    company, settings, attention, self.services.handover
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

    def snapshot_of(self, key: SessionKey) -> SessionSnapshot | None:
        """Return a snapshot of an open session; None if it is not open."""
        state = self.states.get(key)
        if state is None or state.resting or state.ended:
            return None
        return self.resting.taken(state)

    async def end_those_with(self, player: str, tenant: str) -> None:
        """End the open sessions of a tenant that have words of this player."""
        for state in self.states.open:
            if state.key.tenant == tenant and player in self._speakers(state):
                await self.end(state)

    def _speakers(self, state: SessionState) -> set[str]:
        """Return the ids of the players whose words a session has."""
        names: set[str] = set()
        for npc in self.resting.taken(state).npcs.values():
            names |= {line.speaker for line in npc.overheard}
            for exchange in npc.history:
                names |= {exchange.speaker, *(x.speaker for x in exchange.overheard)}
        if self.remembering is None:
            return {name.casefold().strip() for name in names}
        table = self.remembering.keeper.table(state.key)
        return {table.player(name) for name in names}

    async def tend(self) -> None:
        """Set aside sessions that are idle for long, until cancelled."""
        while True:
            idle = self.config.sessions.idle
            await trio.sleep(min(_TENDED, idle / 4))
            with suppress(StoreFull):  # they stay open
                self.states.rest_unused(trio.current_time() - idle)

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
        if state.resting:  # its key is free once the store has dropped its snapshot
            state.end()
            await self.resting.forget(state)
        self.states.end(state)
        self.left(state.key)
        for stage in state.stages.values():
            stage.scene.dismiss()
        async with trio.open_nursery() as nursery:
            for seat in state.seats.values():
                nursery.start_soon(seat.npc.end)
            # A new session under the same key must not inherit its costs.
            self.services.costs.forget(state.key)
        self.resting.ended(state)
        if self.states.get(state.key) is None:  # costs that its last turns added
            self.services.costs.forget(state.key)

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
        if state.ended or npc.name not in self._named:
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
        return self.approvals or self.services.approver is not None

    def _grant(self, npc: NpcConfig) -> Grant:
        return grant_of(npc, self.config, approver=self.asks_somebody)
