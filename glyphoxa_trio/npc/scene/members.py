"""The members of a scene: its NPCs, and what they are told.

They are looked up by name each time, because a reload adds and removes NPCs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs

import trio

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc.overheard import Overheard
from glyphoxa_trio.npc.session.messages import Overhear
from glyphoxa_trio.npc.session.npc import PATIENCE, Npc
from glyphoxa_trio.npc.snapshot import SceneSnapshot

from .addressing import Names
from .messages import NotHere


@attrs.define(eq=False)
class SceneMembers:
    """The NPCs of a scene.

    Args:
      find: returns an NPC by its name, or by the beginning of its name; raises a
        `GlyphoxaError` if there is none.

    ``names``: their names. ``context``: the facts of the scene; None while they are the
    configuration's. ``unheard``: how many lines did not reach an NPC.
    """

    find: Callable[[str], Npc]
    names: Names = attrs.field(factory=lambda: Names(()), init=False)
    context: tuple[str, ...] | None = attrs.field(default=None, init=False)
    unheard: int = attrs.field(default=0, init=False)
    _told: set[str] = attrs.field(factory=set, init=False)

    def restore(self, kept: SceneSnapshot) -> None:
        """Take over which facts these NPCs had been told."""
        self.context, self._told = kept.context, set(kept.told)

    @property
    def told(self) -> tuple[str, ...]:
        """The NPCs that were told the ``context``."""
        return tuple(sorted(self._told))

    def become(self, npcs: Sequence[str]) -> None:
        """Set the NPCs that are in the scene now."""
        if tuple(npcs) != self.names.npcs:
            self.names = Names(tuple(npcs))
            self._told.intersection_update(npcs)

    def here(self, name: str) -> str:
        """Return the full name of an NPC in the scene.

        Raises:
          NotHere: the NPC is not in this scene.
          GlyphoxaError: ``find`` found no such NPC.
        """
        found = self.find(name).name
        if found not in self.names.npcs:
            raise NotHere(f"{found} is not in this scene")
        return found

    def npc(self, name: str) -> Npc:
        """Return the NPC of exactly that name.

        Raises:
          NotHere: the NPC no longer exists.
        """
        npc = self.find(name)
        if npc.name != name:
            raise NotHere(f"the NPC {name} no longer exists")
        return npc

    async def tell(self, context: tuple[str, ...]) -> None:
        """Set the facts of the scene, and tell them to its NPCs.

        NPCs that come later are told before they speak.
        """
        self.context, self._told = context, set()
        for name in self.names.npcs:
            await self.set_scene(name)

    async def set_scene(self, name: str) -> None:
        """Tell this NPC the facts of the scene, unless it was told."""
        if self.context is None or name in self._told:
            return
        try:
            await self.npc(name).set_scene(*self.context)
        except GlyphoxaError:
            return  # it is gone; another NPC of that name is told before it speaks
        self._told.add(name)

    async def let_hear(
        self,
        lines: Iterable[Overheard],
        *,
        but: str | None = None,
        logged: bool = True,
    ) -> None:
        """Tell all NPCs ``but`` one what was said; none answers.

        ``logged``: it belongs to a turn, with which it is kept.
        """

        async def tell(name: str) -> None:
            for line in lines:
                try:
                    request = Overhear(line.speaker, line.text, line.to, logged)
                    await self.npc(name)._door.ask(request, within=PATIENCE)
                except GlyphoxaError:
                    self.unheard += 1

        async with trio.open_nursery() as nursery:
            for name in self.names.npcs:
                if name != but:
                    nursery.start_soon(tell, name)
