"""A session, as an embedder holds it: one table, or one phone call.

    async with runtime.session("table-42", tenant="guild", variables=names) as session:
        async with session.npc("Bartok").say("An ale!", speaker="Aria") as turn:
            ...

Many are open at once over the same characters. What is said in one is known in no
other: each has its own histories, elevations, loaded tools, costs, approvals and turn
numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self

import attrs

import trio

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.npc import Npc, Scene
from glyphoxa_trio.npc.arguments import check_values
from glyphoxa_trio.npc.cost import Spent
from glyphoxa_trio.renamed import renamed_method

from .hooks import Hooks
from .session_registry import SessionRegistry
from .session_state import SessionState
from .snapshot import SessionSnapshot


@attrs.frozen(eq=False)
class Session:
    """Made by `Runtime.session`. Leaving its block ends it."""

    _table: SessionState
    _cast: SessionRegistry
    _hooks: Hooks = attrs.field(repr=False)

    @property
    def id(self) -> str:
        return self._table.key.id

    @property
    def tenant(self) -> str:
        """Whose it is; "" if nobody said."""
        return self._table.key.tenant

    @property
    def variables(self) -> Mapping[str, str | None]:
        """What it knows of its players, for prompts and greetings."""
        return dict(self._table.variables)

    @property
    def cost(self) -> Spent:
        """What models have taken in it, since it began."""
        return self._cast.resting.cost(self._table)

    @property
    def ended(self) -> bool:
        return self._table.ended

    def npc(self, name: str) -> Npc:
        """The NPC of that name in this session; the beginning of a name is enough if it
        is unique.

        Raises:
          UnknownNpc: with the nearest names.
          SessionEnded: if it has.
        """
        return self._hooks.npc(self._cast.npc(name, self._table))

    def scene(self, *npcs: str) -> Scene:
        """Several NPCs of this session in one place: all, or the named ones. The same
        scene each time.

        Raises:
          UnknownNpc: with the nearest names.
          SessionEnded: if it has.
        """
        names = tuple(sorted({self.npc(name).name for name in npcs}))
        return self._cast.scene(names, self.npc, self._table)

    async def set_variables(self, values: Mapping[str, object]) -> None:
        """Give values to template variables, for all of its NPCs, as `Npc.set_variables`;
        also for those who are spoken to later."""
        check_values(values)
        await self._cast.resting.wake(self._table)
        texts = {x: None if y is None else str(y) for x, y in values.items()}
        table = self._table
        table.check()
        with table.held(), lone_errors():
            table.set_variables(texts)
            self._hooks.knows(table.key, texts, tuple(table.kept))
            async with trio.open_nursery() as nursery:
                for seat in list(table.seats.values()):
                    nursery.start_soon(self._hooks.npc(seat.npc).set_variables, texts)

    introduce = renamed_method("introduce", "set_variables")

    async def snapshot(self) -> SessionSnapshot:
        """What it is now, to go on from elsewhere or later (`Runtime.session`): what
        was said, as far as it was delivered, what NPCs overheard and know, elevations,
        loaded tools, turn numbers, costs, variables, scenes.

        Not in it: a turn that runs, a call that goes on (its NPC will say that nobody
        knows what came of it), open questions, approvals, sound.

        Raises:
          SessionEnded: if it has.
        """
        return await self._cast.resting.snapshot(self._table)

    async def end(self) -> None:
        """End it: what runs or waits is interrupted. A call that only reads is
        cancelled; one that has side effects goes on, and nobody hears of it."""
        if not self._table.ended:
            await self._hooks.ending(self._table.key)
            await self._cast.end(self._table)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with trio.CancelScope(shield=True):  # each wait in there has an end
            await self.end()
