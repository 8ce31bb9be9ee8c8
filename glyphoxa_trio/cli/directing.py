"""The commands of the DM, who directs the scene of `play`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import attrs

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc import SceneStatistics
from glyphoxa_trio.runtime import UnknownNpc
from glyphoxa_trio.tools.tier import Tier

from .screen import Screen

OFF: Final = "off"
TIERS: Final = tuple(map(str, Tier))


class KnownNpc(Protocol):
    """The name and the tier of an NPC."""

    @property
    def name(self) -> str: ...
    @property
    def budget_tier(self) -> Tier: ...


class DirectedNpc(Protocol):
    """An NPC, here or at a worker."""

    @property
    def name(self) -> str: ...
    async def elevate(self, tier: Tier, *, seconds: float) -> None: ...


class DirectedScene(Protocol):
    """A scene, here or at a worker."""

    async def mute(self, npc: str) -> str: ...
    async def unmute(self, npc: str) -> str: ...
    async def puppet(self, npc: str | None) -> str | None: ...
    async def tell(self, *context: str) -> None: ...
    async def look(self) -> SceneStatistics: ...


@attrs.frozen
class Directing:
    """Each command takes its words as they were typed, and says what came of it.

    Args:
      find: returns the NPC of a name, or of the beginning of one, or raises
        `UnknownNpc`.
      npcs: returns all of them.
      context: returns what the scene is to begin with.
    """

    find: Callable[[str], DirectedNpc]
    npcs: Callable[[], Sequence[KnownNpc]]
    context: Callable[[], Sequence[str]]
    scene: DirectedScene
    screen: Screen

    async def mute(self, words: Sequence[str], *, muted: bool) -> None:
        name = " ".join(words)
        if muted:
            self.screen.quiet(f"{await self.scene.mute(name)} says nothing now")
        else:
            self.screen.quiet(f"{await self.scene.unmute(name)} may speak again")

    async def puppet(self, words: Sequence[str]) -> None:
        name = " ".join(words)
        npc = await self.scene.puppet(None if name.casefold() == OFF else name)
        if npc is None:
            self.screen.quiet("what you say is for the NPC that it names again")
        else:
            self.screen.quiet(f"all that you say is for {npc} now")

    async def tell(self, words: Sequence[str]) -> None:
        text = " ".join(words)
        if text.casefold() == OFF:
            await self.scene.tell()
            self.screen.quiet("the scene is forgotten")
        else:
            await self.scene.tell(text)
            self.screen.quiet(f"every NPC knows: {text}")

    async def elevate(self, words: Sequence[str], here: DirectedNpc) -> None:
        """``NPC? TIER SECONDS?``: by default the NPC that is talked to, for a
        minute."""
        tiers = [word.casefold() in TIERS for word in words]
        if True not in tiers:
            names = ", ".join(TIERS)
            self.screen.refuse(f"tier must be one of {names}, got {words[-1]!r}")
            return
        at = tiers.index(True)
        tier, rest = Tier.parse(words[at]), words[at + 1 :]
        seconds = _seconds(rest[0]) if rest else 60.0
        if seconds is None or len(rest) > 1:
            self.screen.refuse(f"{' '.join(rest)!r} is not a number of seconds")
            return
        npc = self.find(" ".join(words[:at])) if at else here
        await npc.elevate(tier, seconds=seconds)
        self.screen.quiet(f"{npc.name} may go to {tier} for {seconds:g} s")

    def whose(self, words: Sequence[str]) -> tuple[str, str]:
        """An NPC's name at the beginning of what was typed, and the rest.

        Raises:
          UnknownNpc: if it begins with none.
        """
        typed = " ".join(words)
        for npc in self.npcs():
            if typed.casefold().startswith(f"{npc.name.casefold()} "):
                return npc.name, typed[len(npc.name) + 1 :]
        error: GlyphoxaError | None = None
        for at in range(1, len(words)):
            try:
                return self.find(" ".join(words[:at])).name, " ".join(words[at:])
            except UnknownNpc as unknown:
                error = error or unknown
        assert error is not None
        raise error

    async def show(self, here: DirectedNpc) -> None:
        """Show the NPCs of the scene, and how each is."""
        look = await self.scene.look()
        for npc in self.npcs():
            mark = "→" if npc.name == here.name else " "
            notes = "".join(f", {note}" for note in _notes(npc.name, look))
            self.screen.plain(f"{mark} {npc.name} ({npc.budget_tier}{notes})")
        for line in look.context or self.context():
            self.screen.quiet(f"  the scene: {line}")


def _notes(name: str, look: SceneStatistics) -> list[str]:
    return [
        note
        for note, holds in (
            ("muted", name in look.muted),
            ("all is said to it", name == look.puppet),
            ("speaking", name == look.speaking),
        )
        if holds
    ]


def _seconds(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < float("inf") else None
