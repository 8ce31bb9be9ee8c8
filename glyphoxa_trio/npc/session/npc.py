"""An NPC as an embedder holds it: say something, listen, leave.

    async with npc.say("Roll 2d6+3 for me") as turn:
        async for event in turn:
            ...

Leaving the block before the end interrupts the turn.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Self, TypeAlias

import attrs

import trio

from glyphoxa_trio.actors import Handover, StableRef
from glyphoxa_trio.config.model import NpcConfig
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc.arguments import (
    check_seconds,
    check_text,
    check_tier,
    check_values,
)
from glyphoxa_trio.npc.events import TurnDone, TurnEvent
from glyphoxa_trio.npc.identity import DEFAULT_SESSION, SessionKey
from glyphoxa_trio.npc.s2s import RealtimeConversation
from glyphoxa_trio.npc.session.messages import (
    Approve,
    Configure,
    Elevate,
    Interrupt,
    Introduce,
    LendEar,
    Overhear,
    PartialSpeech,
    Preview,
    Say,
    SessionMessages,
    Situate,
    TakeEarBack,
)
from glyphoxa_trio.npc.spoken_audio import TOLERANCE
from glyphoxa_trio.npc.turn.engine import Microphone
from glyphoxa_trio.npc.turn.listener import Listener
from glyphoxa_trio.npc.turn.settings import SessionSettings
from glyphoxa_trio.npc.voice import MicrophoneInput, Voice, open_voice
from glyphoxa_trio.providers.g711 import PCM
from glyphoxa_trio.renamed import renamed_method
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.units import seconds

# An NPC accepts an utterance at once or reports that its queue is full. Seconds.
PATIENCE = 5.0
# How long leaving a turn waits until its last event is remembered. Seconds.
FAREWELL = 1.0


class CannotHear(GlyphoxaError):
    """This NPC has no ear: it can only be spoken to in text."""


class TurnNotOver(GlyphoxaError):
    """The turn ended without its last event, because its session was closed."""


@attrs.define(eq=False)
class Turn:
    """One answer, as events. Made by `Npc.say`; entered once.

    Leaving the block before the end interrupts the turn: the model's request is closed,
    and running tools are treated by their own policy. A sentence counts as delivered
    once the next event is asked for, once it was `played` or `heard`, or once it was
    acknowledged (`acknowledge`).
    """

    _say: Callable[[], Awaitable[object]]
    _listener: Listener
    done: TurnDone | None = attrs.field(default=None, init=False)
    _entered: bool = attrs.field(default=False, init=False)

    async def __aenter__(self) -> Self:
        """Speak to the NPC.

        Raises:
          QueueFull: too many speakers wait for it.
          ActorGone: its session has ended.
          RuntimeError: this turn was entered before.
        """
        if self._entered:
            raise RuntimeError("a turn is entered once; say it again for another")
        self._entered = True
        try:
            await self._say()
        except BaseException:
            self._leave()  # the turn may have been accepted at this very moment
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leave()
        if not self._listener.ended.is_set():
            with trio.move_on_after(FAREWELL, shield=True):
                await self._listener.ended.wait()

    def _leave(self) -> None:
        self._listener.stream.leave()

    @property
    def delivered(self) -> str:
        """The part of the answer heard so far; so much the NPC will remember."""
        return self._listener.heard

    def played(self, ms: float) -> None:
        """Report how many milliseconds of this turn's `Speech` were played in all.

        From the first report on, only what was played counts as delivered (`aloud`), so
        report 0 before you play anything. Reports count after the turn has ended, too,
        until all of it was played. A report of more than was sent means all of it.
        """
        self._listener.played(seconds(ms))

    def heard(self, text: str, *, over: bool = False) -> None:
        """Report the beginning of the answer that was heard, where another program
        speaks its sentences.

        From the first report on, only that counts as delivered, so report "" before you
        ask for the first event. It is compared by the number of its words. Reports
        count after the turn has ended, too.

        Args:
          over: True if no more of the answer will be heard.
        """
        self._listener.heard_words(text, over=over)

    @property
    def unplayed(self) -> float:
        """Milliseconds of audio still to be played, if playback is reported; an
        estimate if words are (`heard`)."""
        left = self._listener.unplayed
        return left * 1000 if left > TOLERANCE else 0.0

    def acknowledge(self, *events: TurnEvent) -> None:
        """Report events that have arrived, where this program only passes them on.

        Events are acknowledged in their order. From the first call on, only what was
        acknowledged counts as delivered, so call it without events before the first
        one. When the block is left, what is not acknowledged was not delivered.
        """
        self._listener.stream.acknowledge(*events)

    def interrupt(self, reason: str) -> None:
        """Interrupt the NPC; the last events of the turn are still to come."""
        self._listener.stream.cancel(reason)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TurnEvent:
        if not self._entered:
            raise RuntimeError("enter the turn first: async with npc.say(...) as turn")
        event = await self._listener.stream.__anext__()
        if isinstance(event, TurnDone):
            self.done = event
        return event

    async def finish(self) -> TurnDone:
        """Listen to the end, and return the last event: text, outcomes, timings.

        Raises:
          TurnNotOver: the session was closed before that.
        """
        async for _ in self:
            pass
        if self.done is None:
            raise TurnNotOver("the session was closed during this turn")
        return self.done


# Makes an ear at this NPC for this speaker; None if the NPC cannot hear now.
OpenEar: TypeAlias = "Callable[[Npc, str], MicrophoneInput | None]"


@attrs.frozen(eq=False)
class Npc:
    """One NPC of a runtime. Cheap to make, usable from any task of the run."""

    config: NpcConfig
    grant: Grant
    _door: StableRef[SessionMessages]
    _handover: Handover
    _ears: OpenEar | None = None
    session: SessionKey = DEFAULT_SESSION

    @property
    def name(self) -> str:
        """The NPC's full name."""
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
          text: what is said.
          speaker: the name of the speaker. Another utterance of the same speaker
            interrupts the turn; other speakers' utterances wait.
          tier: the DM's choice of the tier for this utterance. It does not lift the
            NPC's own ceiling.
          id: an id of the caller's for the utterance, which is kept with its turn
            (`SessionHold.said`).
        """
        check_text(text=text, speaker=speaker, id=id)
        check_tier(tier)
        return self._turn(text, speaker, tier=tier, id=id)

    def speak_as(
        self,
        text: str,
        *,
        speaker: str = "DM",
        id: str = "",  # noqa: A002
    ) -> Turn:
        """Say ``text`` as the NPC: these words literally, without model and tools.

        What the NPC was saying itself is interrupted. It remembers the words as its
        own.
        """
        check_text(text=text, speaker=speaker, id=id)
        return self._turn("", speaker, script=text, id=id)

    def greet(
        self,
        *,
        speaker: str = "player",
        id: str = "",  # noqa: A002
    ) -> Turn:
        """Have the NPC say its greeting, if it has one and no turn came before."""
        check_text(speaker=speaker, id=id)
        return self._turn("", speaker, greets=True, id=id)

    def _turn(self, text: str, speaker: str, **more: Any) -> Turn:
        listener = Listener()

        async def say() -> None:
            with self._handover.offered(listener) as name:
                request = Say(text, speaker, listener=name, **more)
                await self._door.ask(request, within=PATIENCE)

        return Turn(say, listener)

    async def overhear(self, speaker: str, text: str, *, to: str = "") -> None:
        """Let the NPC hear what ``speaker`` says ``to`` another listener.

        The NPC does not answer, and knows it in its next turn, with every engine.
        """
        check_text(speaker=speaker, text=text, to=to)
        await self._door.ask(Overhear(speaker, text, to), within=PATIENCE)

    async def set_scene(self, *context: str) -> None:
        """Tell the NPC the facts of its scene, in place of earlier ones."""
        for line in context:
            check_text(context=line)
        await self._door.ask(Situate(context), within=PATIENCE)

    async def set_variables(self, values: Mapping[str, object]) -> None:
        """Set template variables, such as ``caller_name``, of prompt and greeting.

        Variables that were set before and are not named keep their values; None unsets
        one.
        """
        check_values(values)
        texts = {x: None if y is None else str(y) for x, y in values.items()}
        await self._door.ask(Introduce(texts), within=PATIENCE)

    situate = renamed_method("situate", "set_scene")
    introduce = renamed_method("introduce", "set_variables")

    async def approve(self, question: str, yes: bool) -> bool:
        """Answer an `ApprovalNeeded` by its ``question``; the first answer counts.

        Return False if it was no longer open: answered, expired or withdrawn.
        """
        check_text(question=question)
        return await self._door.ask(Approve(question, yes), within=PATIENCE)

    async def elevate(self, tier: Tier, *, seconds: float) -> None:
        """Raise the NPC's ceiling to ``tier`` for a while, as the DM."""
        check_tier(tier, optional=False)
        check_seconds(seconds)
        await self._door.ask(Elevate(tier, seconds), within=PATIENCE)

    async def tier_for(self, text: str) -> Tier:
        """Return the tier that ``text`` would get if it were said now.

        Meant for partial transcripts, as often as they come: it changes nothing.
        """
        check_text(text=text)
        return await self._door.ask(Preview(text), within=PATIENCE)

    async def hearing(self, text: str, *, speaker: str = "player") -> None:
        """Tell the NPC what a speaker is saying while they still speak.

        Meant for partial transcripts, as often as they come, each with all the words so
        far; `say` follows with the final words. If the configuration allows
        ``speculation``, the turn may begin on words that do not change for a moment. It
        is used if they become the final words, and dropped without effect otherwise.
        What memory knows of the words is fetched ahead in any case. Returns at once;
        while a turn runs no other one is begun.
        """
        check_text(text=text, speaker=speaker)
        await self._door.ask(PartialSpeech(text, speaker), within=PATIENCE)

    def voice(
        self, *, speaker: str = "player", rate: int, encoding: str = PCM
    ) -> AbstractAsyncContextManager[Voice]:
        """Speak to the NPC and hear it: a microphone and a loudspeaker (`voice`).

        Args:
          speaker: the name of the speaker, as in `say`. Each speaker has one
            microphone.
          rate: the sample rate of the microphone, in Hz.
          encoding: ``pcm``, or G.711 as telephones send it: ``pcmu`` or ``pcma``, at
            8000 Hz. Playback is PCM16 in any case (`providers.g711`).

        Raises:
          CannotHear: no speech recognition is configured.
          SpeechError: on entering, if speech recognition fails.
        """
        ear = None if self._ears is None else self._ears(self, speaker)
        if ear is None:
            raise CannotHear(
                f"{self.name} cannot hear: configure speech.recognition, "
                "or pass a recognizer to open_runtime"
            )
        return open_voice(ear, rate=rate, encoding=encoding, session=self.session)

    @asynccontextmanager
    async def attach_microphone(
        self, speaker: str, microphone: Microphone
    ) -> AsyncGenerator[RealtimeConversation]:
        """Let the NPC's model hear this speaker; yield what takes the audio.

        Raises:
          MicrophoneTaken: another microphone is attached.
          CannotHear: its model does not hear for itself.
        """
        with self._handover.offered(microphone) as name:
            try:
                request = LendEar(speaker, name)
                hears = await self._door.ask(request, within=PATIENCE)
                if not hears or microphone.live is None:
                    raise CannotHear(f"the model of {self.name} takes no audio")
                yield microphone.live
            finally:
                with suppress(GlyphoxaError):
                    self._door.tell(TakeEarBack(name))

    async def interrupt(self, *, speaker: str | None = None) -> bool:
        """End the running turn; return False if there was none.

        Args:
          speaker: end only the turn that answers this speaker, and drop their waiting
            ones.
        """
        check_text(speaker=speaker or "")
        return await self._door.ask(Interrupt(speaker), within=PATIENCE)

    async def become(self, settings: SessionSettings) -> Npc:
        """Return this NPC, with its conversation, under another configuration."""
        await self._door.ask(Configure(settings), within=PATIENCE)
        return attrs.evolve(self, config=settings.npc, grant=settings.grant)

    @property
    def idle(self) -> bool:
        """True if the NPC's actor exists and has nothing to do."""
        ref = self._door.ref
        return ref is not None and ref.idle

    @property
    def untouched(self) -> bool:
        """True if the NPC's actor was never sent a message."""
        ref = self._door.ref
        return ref is not None and ref.untouched

    async def end(self) -> None:
        """Interrupt the running and the waiting turns, and accept no more.

        Returns when all turns have ended, or after a few seconds.
        """
        with suppress(GlyphoxaError):
            await self._door.ask(Interrupt(everybody=True), within=PATIENCE)
        await self._door.stop(within=PATIENCE)

    def dismiss(self) -> None:
        """Accept no more; what was said before is still answered."""
        self._door.close()
