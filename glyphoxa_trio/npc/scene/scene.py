"""A scene as an embedder or the DM holds it."""

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

# Accepting a message is quick, but telling all NPCs takes each of them a moment.
# Seconds.
_PATIENCE: Final = 10.0


# Makes an ear for this speaker in this scene; None if no NPC can hear.
OpenSceneEar: TypeAlias = "Callable[[Scene, str], MicrophoneInput | None]"


@attrs.frozen(eq=False)
class Scene:
    """Several NPCs and players in one place. Usable from any task of the run.

    Names of NPCs may be shortened as in `Runtime.npc`, and raise the same errors;
    `NotHere` if the NPC is not in this scene.
    """

    _door: StableRef[SceneMessages]
    _handover: Handover
    _ears: OpenSceneEar | None = None
    session: SessionKey = DEFAULT_SESSION

    @property
    def name(self) -> str:
        """Empty: a scene speaks with no name of its own."""
        return ""

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
        """Say something to the addressed NPC; enter the turn to hear the answer.

        Entering raises `NobodyAddressed` if the addressee cannot be determined, its
        subclass `NpcMuted` if the addressed NPC is muted, and `SceneFull` if too many
        utterances wait. While others are answered the turn waits, with a `Queued`
        first. Another utterance of the same speaker interrupts it, whichever NPC that
        addresses.

        Args:
          text: what is said.
          speaker: the name of the speaker.
          to: the addressed NPC, whatever the text says.
          tier: the DM's choice of the tier for this utterance.
          dm: the DM says this, and comes before the players who wait.
          whisper: the addressed NPC alone hears it, and is alone in remembering the
            answer, too.
          id: an id of the caller's, as in `Npc.say`.
        """
        check_text(text=text, speaker=speaker, to=to or "", id=id)
        check_tier(tier)
        said = Enter(
            text=text,
            speaker=speaker,
            tier=tier,
            to=to,
            dm=dm,
            whisper=whisper,
            id=id,
        )
        return self._turn(said)

    def speak_as(
        self,
        npc: str,
        text: str,
        *,
        speaker: str = "DM",
        id: str = "",  # noqa: A002
    ) -> SceneTurn:
        """Have the NPC say ``text`` literally, without model and tools.

        It comes before the players who wait, and interrupts what the NPC says itself;
        it is said even if the NPC is muted. The NPC remembers the words as its own.
        """
        check_text(npc=npc, text=text, speaker=speaker, id=id)
        return self._turn(Enter(speaker=speaker, script=text, to=npc, dm=True, id=id))

    def greet(
        self,
        npc: str,
        *,
        speaker: str = "player",
        id: str = "",  # noqa: A002
    ) -> SceneTurn:
        """Have the NPC say its greeting, as `Npc.greet`."""
        check_text(npc=npc, speaker=speaker, id=id)
        return self._turn(Enter(speaker=speaker, greets=True, to=npc, id=id))

    def _turn(self, said: Enter) -> SceneTurn:
        return turn_of(self._door, self._handover, said)

    async def addressed(self, text: str, *, speaker: str = "player") -> Addressed:
        """Return the NPC that ``text`` would address, and the rule. Changes nothing.

        Raises:
          NobodyAddressed: as entering the turn would.
        """
        check_text(text=text, speaker=speaker)
        return await self._door.ask(Whom(text, speaker), within=_PATIENCE)

    async def hearing(self, text: str, *, speaker: str = "player") -> None:
        """Tell the addressed NPC what a speaker is saying, as `Npc.hearing`.

        Does nothing while an NPC speaks.
        """
        check_text(text=text, speaker=speaker)
        await self._door.ask(PartialUtterance(text, speaker), within=_PATIENCE)

    async def interrupt(self, *, speaker: str | None = None) -> bool:
        """End the running answer; return False if there is none.

        Args:
          speaker: end only an answer to this speaker.
        """
        check_text(speaker=speaker or "")
        return await self._door.ask(Silence(speaker), within=_PATIENCE)

    def voice(
        self, *, speaker: str = "player", rate: int, encoding: str = PCM
    ) -> AbstractAsyncContextManager[Voice]:
        """Speak to the addressed NPCs and hear them, as `Npc.voice`.

        If the model of the NPC that this player talks to hears, it gets the audio.
        Otherwise a recognizer gets it, and the words go to the NPC that they name.

        Raises:
          CannotHear: no NPC here can hear, and no recognizer is configured.
          SpeechError: on entering, if speech recognition fails.
        """
        ear = None if self._ears is None else self._ears(self, speaker)
        if ear is None:
            raise CannotHear(
                "no NPC can hear: configure speech.recognition, pass a recognizer to "
                "open_runtime, or have an NPC whose engine is s2s"
            )
        return open_voice(ear, rate=rate, encoding=encoding, session=self.session)

    async def turn_to(self, npc: str, *, speaker: str = "player") -> str:
        """Address what this player says next to this NPC, unless it names another.

        Return the NPC's full name.
        """
        check_text(npc=npc, speaker=speaker)
        return await self._door.ask(TurnTo(npc, speaker), within=_PATIENCE)

    async def mute(self, npc: str) -> str:
        """Mute the NPC, and return its full name.

        What it is saying is interrupted, and it cannot be spoken to. It hears
        everything.
        """
        check_text(npc=npc)
        return await self._door.ask(Mute(npc), within=_PATIENCE)

    async def unmute(self, npc: str) -> str:
        """Let the NPC speak again. Return its full name."""
        check_text(npc=npc)
        return await self._door.ask(Mute(npc, muted=False), within=_PATIENCE)

    async def puppet(self, npc: str | None) -> str | None:
        """Address everything that follows to this NPC; None ends that.

        ``to`` of `say` takes precedence. Return the NPC's full name.
        """
        check_text(npc=npc or "")
        return await self._door.ask(Bind(npc), within=_PATIENCE)

    async def tell(self, *context: str) -> None:
        """Tell all NPCs the facts of the scene, in place of earlier ones."""
        for line in context:
            check_text(context=line)
        await self._door.ask(Tell(context), within=_PATIENCE)

    async def overhear(self, speaker: str, text: str, *, to: str = "") -> None:
        """Tell all NPCs what a speaker says that is not for them. None answers."""
        check_text(speaker=speaker, text=text, to=to)
        await self._door.ask(LetHear(speaker, text, to), within=_PATIENCE)

    @property
    def idle(self) -> bool:
        """True if the scene's actor exists and has nothing to do."""
        ref = self._door.ref
        return ref is not None and ref.idle

    def dismiss(self) -> None:
        """Accept no more; what was said before is still answered."""
        self._door.close()

    async def look(self) -> SceneStatistics:
        """Return the state of the scene: NPCs, speaker, queue and counters."""
        return await self._door.ask(Look(), within=_PATIENCE)
