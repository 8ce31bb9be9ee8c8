"""An NPC as an asyncio program holds it: say something, listen, leave.

async with npc.say("Roll 2d6+3 for me") as turn:
    async for event in turn:
        ...
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeVar

import attrs

from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.npc import Npc as NativeNpc
from glyphoxa_trio.npc import Turn as NativeTurn
from glyphoxa_trio.npc.identity import DEFAULT_SESSION, SessionKey
from glyphoxa_trio.providers.g711 import PCM
from glyphoxa_trio.renamed import renamed_method
from glyphoxa_trio.tools.tier import Tier

from .bridge import LoopBridge
from .turn import Turn
from .voice import Voice

R = TypeVar("R")


@attrs.frozen(eq=False)
class Npc:
    """One NPC of a runtime. Cheap to make, usable from any task of the loop.

    Every method raises `RuntimeClosed` when the runtime has ended, and `UnknownNpc`
    when a reload removed the NPC.
    """

    config: NpcConfig
    _bridge: LoopBridge
    _find: Callable[[], NativeNpc]
    session: SessionKey = DEFAULT_SESSION

    @property
    def name(self) -> str:
        return self.config.name

    def say(
        self,
        text: str,
        *,
        speaker: str = "player",
        tier: Tier | None = None,
        id: str = "",  # noqa: A002
    ) -> Turn:
        """Say something to the NPC; enter the turn to hear the answer.

        Args:
          speaker: the player who speaks. The same speaker's next utterance interrupts
            the answer; another speaker's waits.
          tier: the game master's override of the tier for this utterance.
          id: an id of the caller's, which is kept with the turn.
        """
        return self._turn(lambda npc: npc.say(text, speaker=speaker, tier=tier, id=id))

    def speak_as(
        self,
        text: str,
        *,
        speaker: str = "DM",
        id: str = "",  # noqa: A002
    ) -> Turn:
        """Say ``text`` as the NPC, word for word: no model, no tools."""
        return self._turn(lambda npc: npc.speak_as(text, speaker=speaker, id=id))

    def greet(
        self,
        *,
        speaker: str = "player",
        id: str = "",  # noqa: A002
    ) -> Turn:
        """Have the NPC say its greeting, if it has one and no conversation has begun
        yet."""
        return self._turn(lambda npc: npc.greet(speaker=speaker, id=id))

    def _turn(self, say: Callable[[NativeNpc], NativeTurn]) -> Turn:
        who = self.session.npc(self.name).text
        return Turn(self._bridge, lambda: say(self._find()), who)

    def voice(
        self, *, speaker: str = "player", rate: int, encoding: str = PCM
    ) -> Voice:
        """Open a microphone and a loudspeaker at the NPC; enter the voice to use them.

        Args:
          speaker: the player whose microphone it is, as in `say`. Each has their own.
          rate: the sample rate of the microphone and the loudspeaker, in Hz.
          encoding: of the microphone: ``pcm``, or G.711 as telephones use it, ``pcmu``
            or ``pcma``, at 8000 Hz. The loudspeaker's audio is PCM16 in any case.
        """
        return Voice(
            rate,
            self._bridge,
            lambda: self._find().voice(speaker=speaker, rate=rate, encoding=encoding),
        )

    async def overhear(self, speaker: str, text: str, *, to: str = "") -> None:
        """Let the NPC hear words that are not for it.

        It does not answer them, and knows them in its next turn.

        Args:
          to: the one that the words are for.
        """
        await self._ask(lambda npc: npc.overhear(speaker, text, to=to))

    async def set_scene(self, *context: str) -> None:
        """Tell the NPC about its surroundings; replaces what it was told before."""
        await self._ask(lambda npc: npc.set_scene(*context))

    async def set_variables(self, values: Mapping[str, object]) -> None:
        """Give values to the template variables of its prompt and greeting."""
        await self._ask(lambda npc: npc.set_variables(values))

    situate = renamed_method("situate", "set_scene")
    introduce = renamed_method("introduce", "set_variables")

    async def approve(self, question: str, yes: bool) -> bool:
        """Answer an `ApprovalNeeded` by its ``question``; the first answer counts.

        Returns False if the question was no longer open.
        """
        return await self._ask(lambda npc: npc.approve(question, yes))

    async def elevate(self, tier: Tier, *, seconds: float) -> None:
        """Raise the NPC's ceiling to ``tier`` for some ``seconds``: the game master's
        override."""
        await self._ask(partial(NativeNpc.elevate, tier=tier, seconds=seconds))

    async def tier_for(self, text: str) -> Tier:
        """Return the tier that ``text`` would get if said now; nothing changes."""
        return await self._ask(lambda npc: npc.tier_for(text))

    async def hearing(self, text: str, *, speaker: str = "player") -> None:
        """Tell the NPC the words of a player who is still speaking."""
        await self._ask(lambda npc: npc.hearing(text, speaker=speaker))

    async def interrupt(self, *, speaker: str | None = None) -> bool:
        """End the turn that is running; return False if none was.

        Args:
          speaker: only the answer to this speaker, and their utterances that wait.
        """
        return await self._ask(lambda npc: npc.interrupt(speaker=speaker))

    async def _ask(self, what: Callable[[NativeNpc], Awaitable[R]]) -> R:
        async def ask() -> R:
            return await what(self._find())

        return await self._bridge.ask(ask)
