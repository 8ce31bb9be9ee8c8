"""A scene, as an embedder or whoever directs it holds it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeAlias

import attrs

from glyphoxa_trio.actors import Handover, StableRef
from glyphoxa_trio.npc.arguments import check_text, check_tier
from glyphoxa_trio.npc.identity import DEFAULT_SESSION, SessionKey
from glyphoxa_trio.npc.session.npc import CannotHear
from glyphoxa_trio.npc.voice import MicrophoneInput, Voice, open_voice
from glyphoxa_trio.providers.g711 import PCM
from glyphoxa_trio.tools.tier import Tier

from .addressing import Addressed
from .messages import (
    Bind,
    Enter,
    LetHear,
    Look,
    Mute,
    PartialUtterance,
    SceneMessages,
    SceneStatistics,
    Silence,
    Tell,
    TurnTo,
    Whom,
)
from .queued_utterance import SceneTurn, turn_of

# Taking a message is quick; telling all NPCs something takes each of them a moment.
_PATIENCE: Final = 10.0


# Makes an ear for this speaker in this scene, if anything there can hear.
OpenSceneEar: TypeAlias = "Callable[[Scene, str], MicrophoneInput | None]"


@attrs.frozen(eq=False)
class Scene:
    """Several NPCs and players in one place. Usable from any task of the run.

    Names of NPCs may be cut short, as in `Runtime.npc`, and raise what that raises;
    `NotHere` if the NPC is not in this scene.
    """

    _door: StableRef[SceneMessages]
    _handover: Handover
    _ears: OpenSceneEar | None = None
    session: SessionKey = DEFAULT_SESSION

    @property
    def name(self) -> str:
        """Of nobody: who is meant is found out each time."""
        return ""

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
        whoever is meant says nothing, `SceneFull` if too many wait. While others are
        answered the turn waits, with a `Queued` first. The same speaker's next
        utterance interrupts it, whoever that is for.

        Args:
          to: the NPC that is meant, whatever the text says.
          tier: the DM's override of the tier for this utterance (D2).
          dm: whoever directs the scene says it: before the players who wait.
        """
        check_text(text=text, speaker=speaker, to=to or "")
        check_tier(tier)
        return self._turn(Enter(text=text, speaker=speaker, tier=tier, to=to, dm=dm))

    def speak_as(self, npc: str, text: str, *, speaker: str = "DM") -> SceneTurn:
        """Have the NPC say ``text`` as it stands: no model, no tools.

        Before the players who wait, and in place of what it says itself just now; also
        if it is muted. It remembers the words as its own.
        """
        check_text(npc=npc, text=text, speaker=speaker)
        return self._turn(Enter(speaker=speaker, script=text, to=npc, dm=True))

    def greet(self, npc: str, *, speaker: str = "player") -> SceneTurn:
        """Have the NPC say its greeting, as `Npc.greet`."""
        check_text(npc=npc, speaker=speaker)
        return self._turn(Enter(speaker=speaker, greets=True, to=npc))

    def _turn(self, said: Enter) -> SceneTurn:
        return turn_of(self._door, self._handover, said)

    async def addressed(self, text: str, *, speaker: str = "player") -> Addressed:
        """Who would be meant by ``text`` now, and how that is told. It leaves no trace.

        Raises:
          NobodyAddressed: as entering the turn would.
        """
        check_text(text=text, speaker=speaker)
        return await self._door.ask(Whom(text, speaker), within=_PATIENCE)

    async def hearing(self, text: str, *, speaker: str = "player") -> None:
        """Tell whoever is meant what somebody is saying while they still speak, as
        `Npc.hearing`; nothing while an NPC speaks."""
        check_text(text=text, speaker=speaker)
        await self._door.ask(PartialUtterance(text, speaker), within=_PATIENCE)

    async def interrupt(self, *, speaker: str | None = None) -> bool:
        """End what is being said; False if nothing was.

        Args:
          speaker: only what answers them.
        """
        check_text(speaker=speaker or "")
        return await self._door.ask(Silence(speaker), within=_PATIENCE)

    def voice(
        self, *, speaker: str = "player", rate: int, encoding: str = PCM
    ) -> AbstractAsyncContextManager[Voice]:
        """Speak to whoever is meant, and hear who answers: as `Npc.voice`.

        The sound goes to the NPC that this player talks to, if its model hears for
        itself; else its words, through the recognizer, to whoever they name.

        Raises:
          CannotHear: if nothing here understands speech.
          SpeechError: on entering, if what does cannot now.
        """
        ear = None if self._ears is None else self._ears(self, speaker)
        if ear is None:
            raise CannotHear(
                "nobody can hear: configure speech.recognition, pass a recognizer to "
                "open_runtime, or have an NPC whose engine is s2s"
            )
        return open_voice(ear, rate=rate, encoding=encoding, session=self.session)

    async def turn_to(self, npc: str, *, speaker: str = "player") -> str:
        """What this player says next is for this NPC, unless it names another.

        Returns its name.
        """
        check_text(npc=npc, speaker=speaker)
        return await self._door.ask(TurnTo(npc, speaker), within=_PATIENCE)

    async def mute(self, npc: str) -> str:
        """Have the NPC say nothing of its own: what it is saying is interrupted, and
        nobody can speak to it. It hears everything. Returns its name."""
        check_text(npc=npc)
        return await self._door.ask(Mute(npc), within=_PATIENCE)

    async def unmute(self, npc: str) -> str:
        check_text(npc=npc)
        return await self._door.ask(Mute(npc, muted=False), within=_PATIENCE)

    async def puppet(self, npc: str | None) -> str | None:
        """Everything that follows is said to this NPC, whatever it names; None ends
        that. ``to`` of `say` goes before it. Returns its name."""
        check_text(npc=npc or "")
        return await self._door.ask(Bind(npc), within=_PATIENCE)

    async def tell(self, *context: str) -> None:
        """Tell all NPCs what holds in the scene, in place of what was told before."""
        for line in context:
            check_text(context=line)
        await self._door.ask(Tell(context), within=_PATIENCE)

    async def overhear(self, speaker: str, text: str, *, to: str = "") -> None:
        """Let all NPCs hear what somebody says that is not for them. None answers."""
        check_text(speaker=speaker, text=text, to=to)
        await self._door.ask(LetHear(speaker, text, to), within=_PATIENCE)

    @property
    def idle(self) -> bool:
        """Whether its actor is there and waits for something to do."""
        ref = self._door.ref
        return ref is not None and ref.idle

    def dismiss(self) -> None:
        """Accept nothing more; what was said before is still answered."""
        self._door.close()

    async def look(self) -> SceneStatistics:
        """Who is here, who speaks, who waits, and what was said so far."""
        return await self._door.ask(Look(), within=_PATIENCE)
