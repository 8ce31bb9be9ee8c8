"""`Session`: one game table, or one phone call, as an embedder holds it.

    async with runtime.session("table-42", tenant="guild", variables=names) as session:
        async with session.npc("Bartok").say("An ale!", speaker="Aria") as turn:
            ...

Many sessions are open at once over the same characters. Each has its own conversations,
elevations, loaded tools, costs, approvals and turn numbers, and knows nothing of the
others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

import attrs

import trio

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.npc import Npc, Scene
from glyphoxa_trio.npc.arguments import check_text, check_values
from glyphoxa_trio.npc.cost import Spent
from glyphoxa_trio.renamed import renamed_method

from .hooks import Hooks
from .session_registry import SessionHold, SessionRegistry
from .session_snapshot import SessionSnapshot
from .session_state import SessionState


@attrs.frozen(eq=False)
class Session:
    """One conversation of its own with the NPCs of a runtime. Made by
    `Runtime.session`.

    Leaving its block ends it; without a block, `end` does. Afterwards `npc`, `scene`,
    `set_variables` and `snapshot` raise `SessionEnded`.
    """

    _state: SessionState
    _cast: SessionRegistry
    _hooks: Hooks = attrs.field(repr=False)

    @property
    def id(self) -> str:
        return self._state.key.id

    @property
    def tenant(self) -> str:
        """The owner of the session; "" if none was given."""
        return self._state.key.tenant

    @property
    def variables(self) -> Mapping[str, str | None]:
        """The values of template variables, for prompts and greetings."""
        return dict(self._state.variables)

    @property
    def cost(self) -> Spent:
        """The tokens and costs of models in this session since it began."""
        return self._cast.resting.cost(self._state)

    @property
    def ended(self) -> bool:
        """True once the session has ended."""
        return self._state.ended

    def npc(self, name: str) -> Npc:
        """Return this session's NPC of that name, or of that unique beginning of a
        name.

        Raises:
          UnknownNpc: with the nearest names.
          SessionEnded: if the session has ended.
        """
        return self._hooks.npc(self._cast.npc(name, self._state))

    def scene(self, *npcs: str) -> Scene:
        """Return a scene of several NPCs of this session: the named ones, or all.

        The same names give the same scene each time.

        Raises:
          UnknownNpc: with the nearest names.
          SessionEnded: if the session has ended.
        """
        names = tuple(sorted({self.npc(name).name for name in npcs}))
        return self._cast.scene(names, self.npc, self._state)

    async def set_variables(self, values: Mapping[str, object]) -> None:
        """Set template variables for all NPCs of this session, as `Npc.set_variables`
        does.

        NPCs that are first spoken to later know them, too.

        Raises:
          SessionEnded: if the session has ended.
        """
        check_values(values)
        await self._cast.resting.wake(self._state)
        texts = {x: None if y is None else str(y) for x, y in values.items()}
        state = self._state
        state.check()
        with state.held(), lone_errors():
            state.set_variables(texts)
            self._hooks.knows(state.key, texts, tuple(state.kept))
            async with trio.open_nursery() as nursery:
                for seat in list(state.seats.values()):
                    nursery.start_soon(self._hooks.npc(seat.npc).set_variables, texts)
            self._cast.resting.changed(state)

    introduce = renamed_method("introduce", "set_variables")

    async def snapshot(self) -> SessionSnapshot:
        """Return the session as it is now, to continue elsewhere or later
        (`Runtime.session`).

        A snapshot has the conversations, as far as they were delivered; what NPCs
        overheard and know; elevations, loaded tools, turn numbers, costs, variables and
        scenes. It does not have a turn that runs, a call under way (its NPC will say
        that the outcome is unknown), open questions, approvals, or audio.

        Raises:
          SessionEnded: if the session has ended.
          SnapshotRefused: the session is set aside, and its stored snapshot is lost.
        """
        return await self._cast.resting.snapshot(self._state)

    async def claim(
        self,
        *,
        steal_from: int | None = None,
        on_lost: Callable[[], None] | None = None,
    ) -> SessionHold:
        """Claim the session in the store of memory and load it, before its first use.

        Without this, its first use does so, and the claim is given back when it is set
        aside; if the session is open elsewhere, it goes on from what is written by then
        without being kept, and a warning says so. A session that was claimed by this
        stays so until `release` or `end`. It runs no call
        with side effects before it is written that it begins: while the store is away,
        or once another process has the session, such calls are refused.

        Args:
          steal_from: take it from a living process, if that one claimed it in this
            epoch; what it writes from then on is refused.
          on_lost: called once, when a write shows that another process has taken it.

        Raises:
          HeldElsewhere: another living process has it.
          MemoryUnavailable: the store is away.
          SnapshotRefused: it was kept, and cannot be read.
          NotClaimed: there is no memory, or it was used here without a claim.
          SessionEnded: if the session has ended.
        """
        return await self._cast.claim(self._state, steal_from, on_lost)

    async def release(self, *, write: bool = True) -> None:
        """End the session here, so that another process can continue it.

        Turns are interrupted as by `end`. Returns when everything is written and the
        claim was given back, however long the store is away.

        Args:
          write: False writes nothing more, and leaves the claim: the session belongs to
            another process already.
        """
        if not self._state.ended:
            await self._hooks.ending(self._state.key)
            await self._cast.release(self._state, write=write)

    async def interrupt(self, *, speaker: str | None = None) -> bool:
        """End all answers that run in the session; return False if none did.

        Args:
          speaker: end only answers to this speaker.
        """
        check_text(speaker=speaker or "")
        ended = False
        for stage in list(self._state.stages.values()):
            ended |= await stage.scene.interrupt(speaker=speaker)
        for seat in list(self._state.seats.values()):
            ended |= await seat.npc.interrupt(speaker=speaker)
        return ended

    async def end(self) -> None:
        """End the session: interrupt whatever runs or waits in it.

        A tool call that only reads is cancelled. One that has side effects runs to its
        end, and its result is dropped. Returns when the turns are over.
        """
        if not self._state.ended:
            await self._hooks.ending(self._state.key)
            await self._cast.end(self._state)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with trio.CancelScope(shield=True):  # each wait inside has a time limit
            await self.end()
