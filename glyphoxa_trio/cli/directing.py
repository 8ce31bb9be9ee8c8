"""The commands of the DM, who directs the scene of `play`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc import Npc, Scene, SceneStatistics
from glyphoxa_trio.runtime import Runtime, Session, UnknownNpc
from glyphoxa_trio.tools.tier import Tier

from .screen import Screen

OFF: Final = "off"
TIERS: Final = tuple(map(str, Tier))


@attrs.frozen
class Directing:
    """Each command takes its words as they were typed, and says what came of it."""

    runtime: Runtime
    session: Session
    scene: Scene
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

    async def elevate(self, words: Sequence[str], here: Npc) -> None:
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
        npc = self.session.npc(" ".join(words[:at])) if at else here
        await npc.elevate(tier, seconds=seconds)
        self.screen.quiet(f"{npc.name} may go to {tier} for {seconds:g} s")

    def whose(self, words: Sequence[str]) -> tuple[str, str]:
        """An NPC's name at the beginning of what was typed, and the rest.

        Raises:
          UnknownNpc: if it begins with none.
        """
        typed = " ".join(words)
        for npc in self.runtime.npcs:
            if typed.casefold().startswith(f"{npc.name.casefold()} "):
                return npc.name, typed[len(npc.name) + 1 :]
        error: GlyphoxaError | None = None
        for at in range(1, len(words)):
            try:
                return self.session.npc(" ".join(words[:at])).name, " ".join(words[at:])
            except UnknownNpc as unknown:
                error = error or unknown
        assert error is not None
        raise error

    async def show(self, here: Npc) -> None:
        """Show the NPCs of the scene, and how each is."""
        look = await self.scene.look()
        for npc in self.runtime.npcs:
            mark = "→" if npc.name == here.name else " "
            notes = "".join(f", {note}" for note in _notes(npc.name, look))
            self.screen.plain(f"{mark} {npc.name} ({npc.budget_tier}{notes})")
        for line in look.context or self.runtime.config.scene.context:
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
