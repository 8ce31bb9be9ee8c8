"""The state of each open session, and which session is set aside when too many are
open.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Final
from weakref import WeakValueDictionary

import attrs

import trio

from glyphoxa_trio.errors import ActorGone, GlyphoxaError
from glyphoxa_trio.npc import Npc, Scene
from glyphoxa_trio.npc.cost import Spent
from glyphoxa_trio.npc.identity import DEFAULT_SESSION, NpcId, SessionKey
from glyphoxa_trio.npc.scene import AddressingState, SceneMembers
from glyphoxa_trio.npc.snapshot import NpcSnapshot, SceneSnapshot
from glyphoxa_trio.npc.turn.memory import NpcMemory
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.units import many

from .session_snapshot import SessionSnapshot

# Sessions examined, at most, to find one to set aside; that takes a few milliseconds.
# Those that are not idle are examined again after all others.
_LOOKED_AT: Final = 1024


class TooManySessions(GlyphoxaError):
    """Too many sessions are open, and none of those used least recently is idle: end
    some."""


class SessionEnded(ActorGone):
    """The session has ended; `Runtime.session` begins another one."""


def call_id_of(run: str, npc: NpcId) -> str:
    """Return the ``{call_id}`` of an NPC's session in a run; the same in a replay."""
    import uuid

    return uuid.uuid5(uuid.UUID(run), npc.text).hex


@attrs.frozen(eq=False)
class SessionNpc:
    """One NPC of a session that was used."""

    npc: Npc
    memory: NpcMemory

    @property
    def idle(self) -> bool:
        """True if no turn, call, question or ear of the NPC is active."""
        return self.npc.idle and self.memory.idle


@attrs.frozen(eq=False)
class SessionScene:
    """One scene of a session."""

    scene: Scene
    attention: AddressingState
    company: SceneMembers

    @property
    def idle(self) -> bool:
        """True if nothing goes on in the scene."""
        return self.scene.idle and self.attention.idle

    def snapshot(self, npcs: tuple[str, ...]) -> SceneSnapshot:
        """Return the state to keep; ``npcs`` are those the scene was opened with."""
        return attrs.evolve(
            self.attention.snapshot(),
            npcs=npcs,
            context=self.company.context,
            told=self.company.told,
        )


@attrs.define(eq=False)
class SessionState:
    """The state of one session: its NPCs, its scenes and its variables.

    Args:
      seats: the NPCs that were used, by name.
      stages: the scenes that were used, by their NPCs.
      kept: restored NPCs that were not used since, by name.
      kept_scenes: restored scenes that were not used since.
      given: the snapshot that it continues from at its first use.
      waking: the lock under which a session that is set aside comes back; None while it
        is open. A session that is set aside has none of the above.
    """

    key: SessionKey
    variables: dict[str, str | None] = attrs.field(factory=dict)
    seats: dict[str, SessionNpc] = attrs.field(factory=dict, init=False)
    stages: dict[tuple[str, ...], SessionScene] = attrs.field(factory=dict, init=False)
    kept: dict[str, NpcSnapshot] = attrs.field(factory=dict, init=False)
    kept_scenes: dict[tuple[str, ...], SceneSnapshot] = attrs.field(
        factory=dict, init=False
    )
    ended: bool = attrs.field(default=False, init=False)
    waking: trio.Lock | None = attrs.field(default=None, init=False)
    used_at: float = attrs.field(default=-math.inf, init=False)
    known_at: float = attrs.field(factory=trio.current_time, init=False)
    _holds: int = attrs.field(default=0, init=False)
    given: SessionSnapshot | None = attrs.field(default=None, init=False, repr=False)
    # Its costs when it was set aside, and the key of that snapshot: a reload may bring
    # another `sessions.key`.
    spent: Spent = attrs.field(default=Spent(), init=False)
    secret: Secret | None = attrs.field(default=None, init=False, repr=False)

    @property
    def at(self) -> str:
        """The suffix of names of actors; empty for the default session."""
        return "" if self.key == DEFAULT_SESSION else f" of {self.key}"

    @property
    def resting(self) -> bool:
        """True if the session is set aside."""
        return self.waking is not None

    @property
    def idle(self) -> bool:
        """True if nothing goes on in the session: no turn, no call, no question, no
        ear."""
        return (
            not self._holds
            and all(seat.idle for seat in self.seats.values())
            and all(stage.idle for stage in self.stages.values())
        )

    @property
    def used(self) -> bool:
        """True if it was used since it began."""
        return self.used_at > -math.inf

    def set_variables(self, values: Mapping[str, str | None]) -> None:
        """Set variables for NPCs that are used for the first time, or again since a
        restore."""
        self.variables |= values
        for name, npc in self.kept.items():
            given = {**npc.opening.given, **values}
            opening = attrs.evolve(npc.opening, given=given)
            self.kept[name] = attrs.evolve(npc, opening=opening)
        for seat in self.seats.values():
            if seat.npc.untouched:
                seat.memory.set_variables(values)

    @contextmanager
    def held(self) -> Generator[None]:
        """Keep the session from being set aside inside the block."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1

    def restore(
        self,
        variables: Mapping[str, str | None],
        npcs: Mapping[str, NpcSnapshot],
        scenes: Iterable[SceneSnapshot],
    ) -> None:
        """Take the state of a snapshot. No NPC of it has been used yet."""
        self.waking = None
        self.variables = dict(variables)
        self.kept.update(npcs)
        self.kept_scenes.update({scene.npcs: scene for scene in scenes})

    def begin(self) -> None:
        """Begin: nothing was kept of it."""
        self.waking = None

    def sleep(self) -> None:
        """Wait for the first use, at which it is looked up."""
        self.waking = trio.Lock()

    def continue_from(self, given: SessionSnapshot | None) -> None:
        """Continue from this snapshot at the first use, and not from what was kept."""
        self.given = given

    def rest(self, spent: Spent, secret: Secret | None) -> None:
        """Set the session aside: it accepts nothing more until it is restored."""
        self.spent, self.secret = spent, secret
        self._dismiss()
        for held in (self.seats, self.stages, self.kept, self.kept_scenes):
            held.clear()
        self.waking = trio.Lock()

    def use(self) -> None:
        """Note that it is used now."""
        self.used_at = trio.current_time()

    def end(self) -> None:
        """Mark the session as ended."""
        self.ended = True

    def _dismiss(self) -> None:
        for stage in self.stages.values():
            stage.scene.dismiss()
        for seat in self.seats.values():
            seat.npc.dismiss()

    def check(self) -> None:
        """Raise `SessionEnded` if the session has ended."""
        if self.ended:
            raise SessionEnded(
                f"the session {self.key} has ended; runtime.session begins another one"
            )


@attrs.define(eq=False)
class SessionStates:
    """The sessions of one runtime, in the order of their last use.

    Args:
      most: returns how many may be open at once, as configured now.
      rest: sets one aside; returns False if it is not idle.
      durable: sessions are kept outside of this process. One may have been kept by an
        earlier run, so that it begins as one that is set aside; one that is set aside
        is known here only as long as the program holds it.
    """

    _most: Callable[[], int]
    _rest: Callable[[SessionState], bool]
    _durable: bool = False
    _open: OrderedDict[SessionKey, SessionState] = attrs.field(
        factory=OrderedDict, init=False
    )
    _resting: dict[SessionKey, SessionState] = attrs.field(factory=dict, init=False)
    # Those that are as good as new to this process, but for who holds them.
    _kept: WeakValueDictionary[SessionKey, SessionState] = attrs.field(
        factory=WeakValueDictionary, init=False
    )

    @property
    def open(self) -> tuple[SessionState, ...]:
        """The sessions that are not set aside; the one used last comes last."""
        return tuple(self._open.values())

    @property
    def set_aside(self) -> tuple[SessionState, ...]:
        """The sessions that are set aside and known here."""
        return *self._kept.values(), *self._resting.values()

    @property
    def resting(self) -> int:
        """The number of sessions that are set aside and known here."""
        return len(self._resting) + len(self._kept)

    def get(self, key: SessionKey) -> SessionState | None:
        """Return the session of that key, if it is known here and has not ended."""
        return self._open.get(key) or self._resting.get(key) or self._kept.get(key)

    def used(self, key: SessionKey) -> None:
        """Note that the session is used now."""
        if (state := self._open.get(key)) is not None:
            state.use()
            self._open.move_to_end(key)

    def sit(self, key: SessionKey, variables: Mapping[str, str | None]) -> SessionState:
        """Return the session of that key, which begins now if there is none.

        Raises:
          TooManySessions: there is no room for another one.
          StoreFull: the store has no room for one that would be set aside.
          SessionEnded: the session is about to end.
          ValueError: it exists, and has other ``variables``.
        """
        state = self.get(key)
        if state is None and self._durable:
            state = self._resting[key] = SessionState(key, dict(variables))
            state.sleep()
        elif state is None:
            self.make_room()
            state = self._open[key] = SessionState(key, dict(variables))
        elif not variables.items() <= state.variables.items():
            raise ValueError(
                f"the session {key} exists with other variables: set_variables(...)"
                " changes them"
            )
        state.check()
        self.used(key)
        return state

    def wake(self, state: SessionState) -> None:
        """Move a session from those set aside to the open ones. Raises as `sit`."""
        self.make_room()
        state.use()
        self._let_go(state.key)
        self._open[state.key] = state

    def _let_go(self, key: SessionKey) -> None:
        for several in (self._open, self._resting, self._kept):
            several.pop(key, None)

    def _put_aside(self, key: SessionKey) -> None:
        several = self._kept if self._durable else self._resting
        several[key] = self._open.pop(key)

    def make_room(self) -> None:
        """Set aside the session that was idle longest, if one more is too many."""
        too_many = len(self._open) - self._most() + 1
        if too_many <= 0:
            return
        for key, state in list(islice(self._open.items(), too_many + _LOOKED_AT)):
            if self._rest(state):
                self._put_aside(key)
                too_many -= 1
                if not too_many:
                    return
            else:
                self._open.move_to_end(key)
        raise TooManySessions(
            f"{many(len(self._open), 'session is', 'sessions are')} open: end some"
        )

    def rest_unused(self, since: float) -> None:
        """Set aside the idle sessions that were not used since that time. Those that
        were never used are known from then on as long as the program holds them.

        Raises:
          StoreFull: the store has no room for another one.
        """
        if self._durable:
            for key, state in list(self._resting.items()):
                if state.known_at < since and state.given is None:
                    self._kept[key] = self._resting.pop(key)
        for key, state in list(islice(self._open.items(), _LOOKED_AT)):
            if state.used_at >= since:
                return
            if self._rest(state):
                self._put_aside(key)

    def end(self, state: SessionState) -> None:
        """End a session and free its key."""
        state.end()
        self._let_go(state.key)
