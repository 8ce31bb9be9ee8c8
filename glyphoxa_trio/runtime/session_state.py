"""The sessions that are open, and what there is of each."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Final

import attrs

import trio

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc import Npc, Scene
from glyphoxa_trio.npc.cost import Spent
from glyphoxa_trio.npc.identity import DEFAULT_SESSION, NpcId, SessionKey
from glyphoxa_trio.npc.scene import AddressingState, SceneMembers
from glyphoxa_trio.npc.snapshot import NpcSnapshot, SceneSnapshot
from glyphoxa_trio.npc.turn.memory import NpcMemory
from glyphoxa_trio.secret import Secret

# So many are looked at for one to set aside, which takes a few milliseconds at most;
# those in which something goes on are looked at again after all others.
_LOOKED_AT: Final = 1024


class TooManySessions(GlyphoxaError):
    """As many as may be are open, and something goes on in those that were idle
    longest: end some."""


class SessionEnded(GlyphoxaError):
    """This session has ended; `Runtime.session` begins another one."""


def call_id_of(run: str, npc: NpcId) -> str:
    """Of one NPC's session in one run: its ``{call_id}``, the same in a replay."""
    import uuid

    return uuid.uuid5(uuid.UUID(run), npc.text).hex


@attrs.frozen(eq=False)
class SessionNpc:
    """One NPC of a session that was spoken to."""

    npc: Npc
    memory: NpcMemory

    @property
    def idle(self) -> bool:
        return self.npc.idle and self.memory.idle


@attrs.frozen(eq=False)
class SessionScene:
    """One scene of a session."""

    scene: Scene
    attention: AddressingState
    company: SceneMembers

    @property
    def idle(self) -> bool:
        return self.scene.idle and self.attention.idle

    def snapshot(self, npcs: tuple[str, ...]) -> SceneSnapshot:
        """What is kept of it; ``npcs`` are those that it was opened with."""
        return attrs.evolve(
            self.attention.snapshot(),
            npcs=npcs,
            context=self.company.context,
            told=self.company.told,
        )


@attrs.define(eq=False)
class SessionState:
    """What there is of one session: who was spoken to, and what is known of players.

    ``kept`` are NPCs that it had when it was restored, until they are spoken to, and
    ``kept_scenes`` likewise. One that is ``resting`` has none of all that: whoever
    speaks to it brings it back.
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
    _holds: int = attrs.field(default=0, init=False)
    # What it had cost when it was set aside, and what that was signed with: a reload
    # may bring another key.
    spent: Spent = attrs.field(default=Spent(), init=False)
    secret: Secret | None = attrs.field(default=None, init=False, repr=False)

    @property
    def at(self) -> str:
        """For the name of what is there; nothing for the default session."""
        return "" if self.key == DEFAULT_SESSION else f" of {self.key}"

    @property
    def resting(self) -> bool:
        """Whether it is set aside."""
        return self.waking is not None

    @property
    def idle(self) -> bool:
        """Whether nothing goes on in it: no turn, no call, no question, no ear."""
        return (
            not self._holds
            and all(seat.idle for seat in self.seats.values())
            and all(stage.idle for stage in self.stages.values())
        )

    def set_variables(self, values: Mapping[str, str | None]) -> None:
        """These are known from now on, to those who are spoken to for the first time,
        or again since it was restored."""
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
        """It is not set aside inside the block."""
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
        """Be as it was then; nobody has been spoken to yet."""
        self.waking = None
        self.variables = dict(variables)
        self.kept.update(npcs)
        self.kept_scenes.update({scene.npcs: scene for scene in scenes})

    def rest(self, spent: Spent, secret: Secret | None) -> None:
        """Set it aside: it accepts nothing more until it is restored."""
        self.spent, self.secret = spent, secret
        self._dismiss()
        for held in (self.seats, self.stages, self.kept, self.kept_scenes):
            held.clear()
        self.waking = trio.Lock()

    def end(self) -> None:
        """Nobody speaks here any more."""
        self.ended = True

    def _dismiss(self) -> None:
        for stage in self.stages.values():
            stage.scene.dismiss()
        for seat in self.seats.values():
            seat.npc.dismiss()

    def check(self) -> None:
        """Raises `SessionEnded` if it has."""
        if self.ended:
            raise SessionEnded(f"the session {self.key} has ended")


@attrs.define(eq=False)
class SessionStates:
    """Those of one runtime, whoever was idle longest first.

    Args:
      most: so many may be open at once, as configured now.
      rest: sets one aside; False if something goes on in it.
    """

    _most: Callable[[], int]
    _rest: Callable[[SessionState], bool]
    _open: OrderedDict[SessionKey, SessionState] = attrs.field(
        factory=OrderedDict, init=False
    )
    _resting: dict[SessionKey, SessionState] = attrs.field(factory=dict, init=False)

    @property
    def open(self) -> tuple[SessionState, ...]:
        return tuple(self._open.values())

    @property
    def resting(self) -> int:
        """How many are set aside."""
        return len(self._resting)

    def get(self, key: SessionKey) -> SessionState | None:
        """The session of that key, if it has begun and not ended."""
        return self._open.get(key) or self._resting.get(key)

    def used(self, key: SessionKey) -> None:
        """Something goes on in it now, or just did."""
        if key in self._open:
            self._open.move_to_end(key)

    def sit(self, key: SessionKey, variables: Mapping[str, str | None]) -> SessionState:
        """The session of that key, which begins now if there is none.

        Raises:
          TooManySessions: there is no place for another one.
          StoreFull: nor for one that is set aside.
          SessionEnded: it is about to end.
          ValueError: it is there, and ``variables`` are not what it has.
        """
        table = self.get(key)
        if table is None:
            self._make_room()
            table = self._open[key] = SessionState(key, dict(variables))
        elif not variables.items() <= table.variables.items():
            raise ValueError(
                f"the session {key} is there already: set_variables(...) changes variables"
            )
        table.check()
        self.used(key)
        return table

    def wake(self, table: SessionState) -> None:
        """It is no longer set aside. Raises as `sit`."""
        self._make_room()
        self._open[table.key] = self._resting.pop(table.key)

    def _make_room(self) -> None:
        """Set aside whoever was idle longest, if another one would be too many."""
        too_many = len(self._open) - self._most() + 1
        if too_many <= 0:
            return
        for key, table in list(islice(self._open.items(), too_many + _LOOKED_AT)):
            if self._rest(table):
                self._resting[key] = self._open.pop(key)
                too_many -= 1
                if not too_many:
                    return
            else:
                self._open.move_to_end(key)
        raise TooManySessions(f"{len(self._open)} sessions are open: end some")

    def end(self, table: SessionState) -> None:
        """Nobody speaks there any more, and its key is free."""
        table.end()
        self._open.pop(table.key, None)
        self._resting.pop(table.key, None)
