"""`Scene` for asyncio: several NPCs in one place."""

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

    Names of NPCs may be shortened to a unique beginning. They raise `UnknownNpc` if
    there is no such NPC, and `NotHere` if it is not in this scene. Every method raises
    `RuntimeClosed` when the runtime has ended.
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
        whisper: bool = False,
        id: str = "",  # noqa: A002
    ) -> SceneTurn:
        """Say something to the NPC that is addressed; enter the turn to hear the
        answer.

        Entering raises `NobodyAddressed` if the text addresses no NPC, its subclass
        `NpcMuted` if the addressed NPC is muted, and `SceneFull` if too many utterances
        wait.

        Args:
          to: the NPC to address, whatever the text says.
          tier: the game master's override of the tier for this utterance.
          dm: True if the game master speaks, who comes before the players who wait.
          whisper: True if the addressed NPC alone hears it.
          id: an id of the caller's, as in `Npc.say`.
        """
        return self._turn(
            lambda scene: scene.say(
                text,
                speaker=speaker,
                to=to,
                tier=tier,
                dm=dm,
                whisper=whisper,
                id=id,
            )
        )

    def speak_as(
        self,
        npc: str,
        text: str,
        *,
        speaker: str = "DM",
        id: str = "",  # noqa: A002
    ) -> SceneTurn:
        """Have the NPC say ``text`` word for word: no model, no tools."""
        return self._turn(
            lambda scene: scene.speak_as(npc, text, speaker=speaker, id=id)
        )

    def greet(
        self,
        npc: str,
        *,
        speaker: str = "player",
        id: str = "",  # noqa: A002
    ) -> SceneTurn:
        """Have the NPC say its greeting, as `Npc.greet` does."""
        return self._turn(lambda scene: scene.greet(npc, speaker=speaker, id=id))

    def _turn(self, say: Callable[[NativeScene], NativeSceneTurn]) -> SceneTurn:
        names = frozenset(self.session.npc(name).text for name in self._names)
        return SceneTurn(self._bridge, lambda: say(self._find()), names)

    async def addressed(self, text: str, *, speaker: str = "player") -> Addressed:
        """Return the NPC that ``text`` would address now, and the reason; nothing
        changes.

        Raises:
          NobodyAddressed: as entering the turn would.
        """
        return await self._ask(lambda scene: scene.addressed(text, speaker=speaker))

    async def hearing(self, text: str, *, speaker: str = "player") -> None:
        """Tell the addressed NPC the words of a player who is still speaking."""
        await self._ask(lambda scene: scene.hearing(text, speaker=speaker))

    async def interrupt(self, *, speaker: str | None = None) -> bool:
        """End the turn that is running, or only the answer to ``speaker``.

        Returns False if there was none.
        """
        return await self._ask(lambda scene: scene.interrupt(speaker=speaker))

    def voice(
        self, *, speaker: str = "player", rate: int, encoding: str = PCM
    ) -> Voice:
        """Open a microphone and a loudspeaker at the scene; as `Npc.voice`.

        The microphone speaks to the NPC that is addressed, and the loudspeaker has the
        NPC that answers. Entering raises `CannotHear` if no NPC here understands
        speech.
        """
        return Voice(
            rate,
            self._bridge,
            lambda: self._find().voice(speaker=speaker, rate=rate, encoding=encoding),
        )

    async def turn_to(self, npc: str, *, speaker: str = "player") -> str:
        """Direct this player's next words to this NPC, unless they name another.

        Returns the NPC's name.
        """
        return await self._ask(lambda scene: scene.turn_to(npc, speaker=speaker))

    async def mute(self, npc: str) -> str:
        """Mute an NPC: interrupt it, and let it say nothing of its own.

        It hears everything. Returns its name.
        """
        return await self._ask(lambda scene: scene.mute(npc))

    async def unmute(self, npc: str) -> str:
        """Undo `mute`. Returns the NPC's name."""
        return await self._ask(lambda scene: scene.unmute(npc))

    async def puppet(self, npc: str | None) -> str | None:
        """Direct everything that follows to this NPC; None ends that."""
        return await self._ask(lambda scene: scene.puppet(npc))

    async def tell(self, *context: str) -> None:
        """Tell all NPCs about their surroundings; replaces the last call's lines."""
        await self._ask(lambda scene: scene.tell(*context))

    async def overhear(self, speaker: str, text: str, *, to: str = "") -> None:
        """Let all NPCs hear words that are not for them. None answers."""
        await self._ask(lambda scene: scene.overhear(speaker, text, to=to))

    async def look(self) -> SceneStatistics:
        """Return who is here, who speaks, who waits, and what was said so far."""
        return await self._ask(lambda scene: scene.look())

    async def _ask(self, what: Callable[[NativeScene], Awaitable[R]]) -> R:
        async def ask() -> R:
            return await what(self._find())

        return await self._bridge.ask(ask)
