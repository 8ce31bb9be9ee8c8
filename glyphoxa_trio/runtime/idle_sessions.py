"""Idle sessions: set aside when too many are open, and brought back when used again.

Beyond `sessions.most`, the session that was idle longest is written to a `SessionStore`
as a snapshot, and its actors end. The next call that uses it restores it, and the
caller notices nothing but the time that takes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import attrs

import trio

from glyphoxa_trio.errors import GlyphoxaError, said
from glyphoxa_trio.npc.cost import Costs, Spent
from glyphoxa_trio.npc.identity import SessionKey
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.units import many

from .session_snapshot import SessionSnapshot, SnapshotRefused
from .session_state import SessionState, SessionStates

_PATIENCE: Final = 10.0  # seconds for a store to answer


class StoreFull(GlyphoxaError):
    """A session store has no room for another session."""


class SessionStore(Protocol):
    """A store of idle sessions, as the bytes of their snapshots.

    A store may keep them for longer than this process runs. Every method but `put` may
    wait, for 10 seconds at most.
    """

    def put(self, key: SessionKey, snapshot: bytes) -> None:
        """Keep ``snapshot`` under ``key``, in place of an earlier one. Must not block.

        Raises:
          StoreFull: there is no room; the session stays open.
        """

    async def get(self, key: SessionKey) -> bytes | None:
        """Return the last snapshot put under ``key``; None if there is none."""

    async def forget(self, key: SessionKey) -> None:
        """Drop the snapshot of a session that has ended, or is open again."""


class DurableSessions(Protocol):
    """A store that knows the sessions of earlier runs, too, and keeps them up to date.

    With one, each session is looked up before its first use.
    """

    def rest(self, key: SessionKey, kept: SessionSnapshot) -> None:
        """Keep a session that is set aside. Must not block; raises `StoreFull`."""

    async def take(self, key: SessionKey) -> SessionSnapshot | None:
        """Return a session that is used from now on; None if it begins.

        Raises:
          SnapshotRefused: it was kept, and cannot be read.
          MemoryUnavailable: it was kept, and the store is away.
        """

    def waits_for_namesake(self, key: SessionKey) -> bool:
        """Return True if `take` waits for another session of this name to end."""

    def wakes(self, key: SessionKey) -> None:
        """Take note that the session is in use."""

    def keep(self, kept: SessionSnapshot) -> None:
        """Keep a session that continues from this snapshot. Must not block."""

    def changed(self, key: SessionKey) -> None:
        """Keep a session that was changed between its turns. Must not block."""

    def end(self, key: SessionKey) -> None:
        """Take note that the session has ended. Must not block."""


@attrs.define(eq=False)
class MemoryStore:
    """A store in memory, of at most ``most`` sessions and ``most_bytes`` bytes."""

    most: int = 100_000
    most_bytes: int = 1024**3
    size: int = attrs.field(default=0, init=False)
    _kept: dict[SessionKey, bytes] = attrs.field(factory=dict, init=False)

    def put(self, key: SessionKey, snapshot: bytes) -> None:
        before = self._kept.get(key)
        more = len(snapshot) - len(before or b"")
        if self.size + more > self.most_bytes or (
            before is None and len(self._kept) >= self.most
        ):
            raise StoreFull(
                f"{many(len(self._kept), 'session is', 'sessions are')} set aside,"
                " and the store has room for"
                " no other: end some"
            )
        self._kept[key] = snapshot
        self.size += more

    async def get(self, key: SessionKey) -> bytes | None:
        return self._kept.get(key)

    async def forget(self, key: SessionKey) -> None:
        self.size -= len(self._kept.pop(key, b""))

    def __len__(self) -> int:
        return len(self._kept)


@attrs.define(eq=False)
class IdleSessions:
    """The part of a runtime that takes snapshots of sessions, sets them aside and
    restores them.

    Args:
      run: the id of this run.
      secret: returns the current `sessions.key`.
      warn: called when the store fails to forget a session.
      durable: keeps the sessions instead of the store, if there is one.
      restored: called with each session that continues from an earlier run.
      knows: called with the variables of a session that is used for the first time.
    """

    _store: SessionStore
    _states: SessionStates
    _costs: Costs
    _run: str
    _secret: Callable[[], Secret | None]
    _warn: Callable[[str], None]
    _durable: DurableSessions | None = None
    _restored: Callable[[SessionKey, SessionSnapshot], None] = lambda _, __: None
    _knows: Callable[[SessionKey, Mapping[str, str | None]], None] = lambda _, __: None

    async def snapshot(self, state: SessionState) -> SessionSnapshot:
        """Return a snapshot of the session as it is now.

        Raises:
          SessionEnded: the session has ended.
          SnapshotRefused: the session is set aside, and its stored snapshot is lost.
        """
        state.check()
        if self._durable is not None:
            await self.wake(state)
        return await self._kept(state) if state.resting else self.taken(state)

    def admit(self, given: SessionSnapshot | bytes, key: SessionKey) -> SessionSnapshot:
        """Return a snapshot that a session of that key may be restored from.

        Its times are converted to this run's clock.

        Raises:
          SnapshotRefused: it belongs to another tenant, or cannot be read.
        """
        if not isinstance(given, SessionSnapshot):
            given = SessionSnapshot.from_bytes(given, self._secret())
        if given.tenant != key.tenant:
            raise SnapshotRefused(
                f"the snapshot belongs to another tenant, not to {key.tenant!r}"
            )
        if given.run == self._run:
            return given
        passed = max(0.0, time.time() - given.taken_at)
        later = trio.current_time() - given.clock - passed
        npcs = {name: npc.on_clock(later) for name, npc in given.npcs.items()}
        return attrs.evolve(given, run=self._run, npcs=npcs)

    def restore(self, state: SessionState, kept: SessionSnapshot) -> None:
        """Restore a session, in which nothing has happened yet, from a snapshot."""
        state.restore(kept.variables, kept.npcs, kept.scenes)
        for name, npc in kept.npcs.items():
            self._costs.restore(state.key.npc(name), npc.spent)

    @property
    def durable(self) -> bool:
        """True if sessions of earlier runs continue in this one."""
        return self._durable is not None

    def changed(self, state: SessionState) -> None:
        """Keep the session, which was changed between its turns."""
        if self._durable is not None and not state.resting:
            self._durable.changed(state.key)

    def ended(self, state: SessionState) -> None:
        """Take note that the session has ended."""
        if self._durable is not None:
            self._durable.end(state.key)

    def rest(self, state: SessionState) -> bool:
        """Set a session aside; return False, and leave it, if it is not idle.

        Raises:
          StoreFull: the store has no room, or failed.
        """
        if not state.idle:
            return False
        if self._durable is not None:
            self._durable.rest(state.key, self.taken(state))
            state.rest(self._costs.of(state.key), None)
            self._costs.forget(state.key)
            return True
        secret = self._secret()
        kept = self.taken(state).to_bytes(secret)
        try:
            self._store.put(state.key, kept)
        except StoreFull:
            raise
        except Exception as error:  # border: a store is foreign code
            why = f"the session {state.key} cannot be set aside: {said(error)}"
            raise StoreFull(why) from error
        state.rest(self._costs.of(state.key), secret)
        self._costs.forget(state.key)
        return True

    async def wake(self, state: SessionState) -> None:
        """Bring a session back, if it is set aside.

        Raises:
          SessionEnded: the session has ended.
          TooManySessions: no open session can be set aside to make room.
          StoreFull: nor is there room in the store for one.
          SnapshotRefused: the stored snapshot is lost.
          MemoryUnavailable: the store of memory is away.
        """
        if (waking := state.waking) is None:
            return
        async with waking:
            state.check()
            if state.resting and self._durable is not None:
                await self._take(state, self._durable)
            elif state.resting:
                kept = await self._kept(state)
                state.check()
                self._states.wake(state)
                self.restore(state, kept)
                with state.held():  # else the next snapshot put there would be dropped
                    await self.forget(state)

    async def _take(self, state: SessionState, durable: DurableSessions) -> None:
        self._states.make_room()  # else it would be claimed, and stay set aside
        with trio.move_on_after(_PATIENCE) as patience:
            kept = await durable.take(state.key)
        if patience.cancelled_caught and durable.waits_for_namesake(state.key):
            raise SnapshotRefused(
                f"an earlier session {state.key} has not ended within {_PATIENCE:g} s"
            )
        if patience.cancelled_caught:
            raise SnapshotRefused(f"memory did not answer for the session {state.key}")
        state.check()
        first, given = state.used_at == -math.inf, state.variables
        self._states.wake(state)
        if (chosen := state.given) is not None:
            state.continue_from(None)
            self.restore(state, chosen)
            state.set_variables(given)
            durable.keep(self.taken(state))
        elif kept is None:
            state.begin()
        else:
            here = self.admit(kept, state.key)
            self.restore(state, here)
            if kept.run != self._run:
                self._restored(state.key, here)
            state.set_variables(given)
        if first and given:
            self._knows(state.key, given)
        durable.wakes(state.key)

    async def forget(self, state: SessionState) -> None:
        """Have the store drop the session's snapshot; a failure is a warning."""
        if self._durable is not None:
            return
        try:
            with trio.fail_after(_PATIENCE):
                await self._store.forget(state.key)
        except Exception as error:  # border: a store is foreign code
            self._warn(f"the store of sessions did not drop {state.key}: {said(error)}")

    def cost(self, state: SessionState) -> Spent:
        """Return what models have taken in the session since it began."""
        return state.spent if state.resting else self._costs.of(state.key)

    def taken(self, state: SessionState, *, history: bool = True) -> SessionSnapshot:
        """Return a snapshot of a session that is open, with or without its turns."""
        costs = self._costs
        seats = {
            name: attrs.evolve(
                seat.memory.snapshot() if history else seat.memory.without_history(),
                spent=costs.part(seat.memory.id),
            )
            for name, seat in state.seats.items()
        }
        kept = state.kept
        if not history:
            kept = {name: attrs.evolve(x, history=()) for name, x in kept.items()}
        scenes = {names: stage.snapshot(names) for names, stage in state.stages.items()}
        return SessionSnapshot(
            id=state.key.id,
            tenant=state.key.tenant,
            variables=dict(state.variables),
            taken_at=time.time(),
            run=self._run,
            clock=trio.current_time(),
            npcs={**kept, **seats},
            scenes=tuple({**state.kept_scenes, **scenes}.values()),
        )

    async def _kept(self, state: SessionState) -> SessionSnapshot:
        """Return the stored snapshot of a session that is set aside."""
        data: bytes | None = None
        try:
            with trio.fail_after(_PATIENCE):
                data = await self._store.get(state.key)
        except Exception as error:  # border: a store is foreign code
            raise SnapshotRefused(
                f"the session {state.key} was set aside, and its store failed:"
                f" {said(error)}"
            ) from error
        if data is None:
            raise SnapshotRefused(
                f"the session {state.key} was set aside, and its store has lost it"
            )
        return SessionSnapshot.from_bytes(data, state.secret)
