"""Several NPCs in one place, for an asyncio program."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import attrs

from glyphoxa_trio.npc import Addressed, SceneStatistics
from glyphoxa_trio.npc import Scene as NativeScene
from glyphoxa_trio.npc import SceneTurn as NativeSceneTurn
from glyphoxa_trio.npc.identity import DEFAULT_SESSION, SessionKey
from glyphoxa_trio.providers.g711 import PCM
from glyphoxa_trio.tools.tier import Tier

from .bridge import LoopBridge
from .turn import SceneTurn
from .voice import Voice

R = TypeVar("R")


@attrs.frozen(eq=False)
class Scene:
    """Several NPCs and players in one place; `glyphoxa_trio.npc.Scene` has the rules.

    Names of NPCs may be cut short, and raise `UnknownNpc`; `NotHere` if the NPC is not
    in this scene. Every method raises `RuntimeClosed` when the runtime has ended.
    """

    _bridge: LoopBridge
    _names: frozenset[str]
    _find: Callable[[], NativeScene]
    session: SessionKey = DEFAULT_SESSION

    def say(
        self,
        text: str,
        *,
        speaker: str = "player",
        to: str | None = None,
        tier: Tier | None = None,
        dm: bool = False,
    ) -> SceneTurn:
        """Say something to whoever is meant; enter the turn to hear the answer.

        Entering raises `NobodyAddressed` if that cannot be told, its kind `NpcMuted` if
        whoever is meant says nothing, `SceneFull` if too many wait.

        Args:
          to: the NPC that is meant, whatever the text says.
          tier: the DM's override of the tier for this utterance (D2).
          dm: whoever directs the scene says it: before the players who wait.
        """
        return self._turn(
            lambda scene: scene.say(text, speaker=speaker, to=to, tier=tier, dm=dm)
        )

    def speak_as(self, npc: str, text: str, *, speaker: str = "DM") -> SceneTurn:
        """Have the NPC say ``text`` as it stands: no model, no tools."""
        return self._turn(lambda scene: scene.speak_as(npc, text, speaker=speaker))

    def greet(self, npc: str, *, speaker: str = "player") -> SceneTurn:
        """Have the NPC say its greeting, as `Npc.greet`."""
        return self._turn(lambda scene: scene.greet(npc, speaker=speaker))

    def _turn(self, say: Callable[[NativeScene], NativeSceneTurn]) -> SceneTurn:
        names = frozenset(self.session.npc(name).text for name in self._names)
        return SceneTurn(self._bridge, lambda: say(self._find()), names)

    async def addressed(self, text: str, *, speaker: str = "player") -> Addressed:
        """Who would be meant by ``text`` now, and how that is told. It leaves no trace.

        Raises:
          NobodyAddressed: as entering the turn would.
        """
        return await self._ask(lambda scene: scene.addressed(text, speaker=speaker))

    async def hearing(self, text: str, *, speaker: str = "player") -> None:
        """Tell whoever is meant what somebody is saying while they still speak."""
        await self._ask(lambda scene: scene.hearing(text, speaker=speaker))

    async def interrupt(self, *, speaker: str | None = None) -> bool:
        """End what is being said, or only what answers ``speaker``; False if nothing
        was."""
        return await self._ask(lambda scene: scene.interrupt(speaker=speaker))

    def voice(
        self, *, speaker: str = "player", rate: int, encoding: str = PCM
    ) -> Voice:
        """Speak to whoever is meant, and hear who answers: as `Npc.voice`.

        Entering raises `CannotHear` if nothing here understands speech.
        """
        return Voice(
            rate,
            self._bridge,
            lambda: self._find().voice(speaker=speaker, rate=rate, encoding=encoding),
        )

    async def turn_to(self, npc: str, *, speaker: str = "player") -> str:
        """What this player says next is for this NPC, unless it names another."""
        return await self._ask(lambda scene: scene.turn_to(npc, speaker=speaker))

    async def mute(self, npc: str) -> str:
        """Have the NPC say nothing of its own; returns its name."""
        return await self._ask(lambda scene: scene.mute(npc))

    async def unmute(self, npc: str) -> str:
        return await self._ask(lambda scene: scene.unmute(npc))

    async def puppet(self, npc: str | None) -> str | None:
        """Everything that follows is said to this NPC; None ends that."""
        return await self._ask(lambda scene: scene.puppet(npc))

    async def tell(self, *context: str) -> None:
        """Tell all NPCs what holds in the scene, in place of what was told before."""
        await self._ask(lambda scene: scene.tell(*context))

    async def overhear(self, speaker: str, text: str, *, to: str = "") -> None:
        """Let all NPCs hear what somebody says that is not for them. None answers."""
        await self._ask(lambda scene: scene.overhear(speaker, text, to=to))

    async def look(self) -> SceneStatistics:
        """Who is here, who speaks, who waits, and what was said so far."""
        return await self._ask(lambda scene: scene.look())

    async def _ask(self, what: Callable[[NativeScene], Awaitable[R]]) -> R:
        async def ask() -> R:
            return await what(self._find())

        return await self._bridge.ask(ask)
