"""The NPCs of a scene: looked up by name each time, because they come and go with a
reload; told what holds where they are, and what is said there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs

import trio

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc.overheard import Overheard
from glyphoxa_trio.npc.session.npc import Npc
from glyphoxa_trio.npc.snapshot import SceneSnapshot

from .addressing import Names
from .messages import NotHere


@attrs.define(eq=False)
class SceneMembers:
    """Who is here.

    Args:
      find: an NPC by its name, or its beginning; raises a `GlyphoxaError`.
    """

    find: Callable[[str], Npc]
    names: Names = attrs.field(factory=lambda: Names(()), init=False)
    context: tuple[str, ...] | None = attrs.field(default=None, init=False)
    unheard: int = attrs.field(default=0, init=False)
    _told: set[str] = attrs.field(factory=set, init=False)

    def restore(self, kept: SceneSnapshot) -> None:
        """Have told them what had been told then."""
        self.context, self._told = kept.context, set(kept.told)

    @property
    def told(self) -> tuple[str, ...]:
        """Who knows of the ``context``."""
        return tuple(sorted(self._told))

    def become(self, npcs: Sequence[str]) -> None:
        """These are here now."""
        if tuple(npcs) != self.names.npcs:
            self.names = Names(tuple(npcs))
            self._told.intersection_update(npcs)

    def here(self, name: str) -> str:
        """The whole name of one who is here.

        Raises:
          NotHere: they are somewhere else. And whatever ``find`` raises.
        """
        found = self.find(name).name
        if found not in self.names.npcs:
            raise NotHere(f"{found} is not in this scene")
        return found

    def npc(self, name: str) -> Npc:
        """The one of exactly that name, who may be gone by now."""
        npc = self.find(name)
        if npc.name != name:
            raise NotHere(f"{name} is gone")
        return npc

    async def tell(self, context: tuple[str, ...]) -> None:
        """This holds in the scene from now on, also for those who come later."""
        self.context, self._told = context, set()
        for name in self.names.npcs:
            await self.set_scene(name)

    async def set_scene(self, name: str) -> None:
        """Tell this one what holds, unless it knows."""
        if self.context is None or name in self._told:
            return
        try:
            await self.npc(name).set_scene(*self.context)
        except GlyphoxaError:
            return  # it is gone; another one of that name is told before it speaks
        self._told.add(name)

    async def let_hear(
        self, lines: Iterable[Overheard], *, but: str | None = None
    ) -> None:
        """All of them, but one, hear this; nobody answers."""

        async def tell(name: str) -> None:
            for line in lines:
                try:
                    await self.npc(name).overhear(line.speaker, line.text, to=line.to)
                except GlyphoxaError:
                    self.unheard += 1

        async with trio.open_nursery() as nursery:
            for name in self.names.npcs:
                if name != but:
                    nursery.start_soon(tell, name)
