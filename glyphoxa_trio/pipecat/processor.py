"""The two processors: one answers, and one behind the loudspeaker notes what was heard.

The NPC keeps its own conversation, so only new words go to it. Words are gathered by
speaker while a user turn lasts, and said when it is over. An utterance that finds the
NPC busy waits: up to eight do. An interruption ends the answer that is given, at once
and with its tools; what waits is answered after the user turn that interrupted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from pipecat.frames.frames import (
    CancelFrame,
    ControlFrame,
    EndFrame,
    Frame,
    InterimTranscriptionFrame,
    InterruptionFrame,
    LLMContextFrame,
    LLMFullResponseEndFrame,
    LLMRunFrame,
    StartFrame,
    TranscriptionFrame,
    UserStartedSpeakingFrame,
    UserStoppedSpeakingFrame,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.utils.errors import ErrorCategory

from glyphoxa_trio.aio import Npc, Scene, SceneTurn, Turn
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc import NobodyAddressed
from glyphoxa_trio.runtime import RuntimeClosed
from glyphoxa_trio.tools.tier import Tier

from .answer import PipelineAnswer
from .frames import GIVEN, give, newest_words
from .heard import HeardProcessor
from .user_turns import WAITING, UserTurns

LAST_WORDS: Final = 60.0  # seconds that a pipeline waits for them when it ends
# Seconds until what was said must have been heard, after it was written.
PLAYBACK: Final = 120.0


@dataclass
class _UserTurnOver(ControlFrame):
    """Follows the transcriptions of a user turn, which system frames overtake."""

    interruptible: bool = field(default=False, init=False)


_CONSUMED: Final = (
    _UserTurnOver,
    TranscriptionFrame,
    InterimTranscriptionFrame,
    LLMContextFrame,
    LLMRunFrame,
)


class NpcProcessor(FrameProcessor):
    """An NPC, or a scene, in the place of a language model.

    It takes user turns with their transcriptions, or the contexts of an
    `LLMContextAggregatorPair`, of which only the newest words of the user count. It
    gives a response of sentences (`AggregatedTextFrame`), calls of tools
    (`ExternalFunctionCall...Frame`), errors (`ErrorFrame`, upstream) and metrics.

    Put ``heard`` behind the output of the transport: then the NPC remembers what was
    spoken, and otherwise what was written.

    Args:
      npc: an NPC or a scene of a runtime that runs on the loop of the pipeline. Set the
        attribute of this name to have another one answer from the next utterance on.
      names: the speakers' names by the user id of their transcriptions. A user without
        a name here speaks under the id.
      speaker: who speaks where there is no user id, as in contexts.
      tier: the game master's override of the tier, for all turns.
      patience: seconds that words outside of a user turn wait for one to begin.
    """

    def __init__(
        self,
        npc: Npc | Scene,
        *,
        names: Mapping[str, str] | None = None,
        speaker: str = "player",
        tier: Tier | None = None,
        patience: float = 0.2,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.npc = npc
        self.heard = HeardProcessor(self.hear)
        self._names = {} if names is None else names
        self._speaker, self._tier, self._patience = speaker, tier, patience
        self._utterances = UserTurns()
        self._partials: dict[str, str] = {}  # by speaker, until the NPC knows them
        self._alone: asyncio.TimerHandle | None = None
        self._answers: list[PipelineAnswer] = []  # those of which more may be heard
        self._newest: Any = None  # the message of a context that was said last
        self._tasks: set[asyncio.Task[None]] = set()

    def can_generate_metrics(self) -> bool:
        """Return True."""
        return True

    async def queue_frame(
        self,
        frame: Frame,
        direction: FrameDirection = FrameDirection.DOWNSTREAM,
        callback: Any = None,
    ) -> None:
        """Accept a frame; an interruption takes effect at once."""
        match frame:
            case TranscriptionFrame():
                frame.interruptible = False  # words that interrupt must not be dropped
            case InterruptionFrame() | CancelFrame():
                self._cut()  # before it has waited for its place in the queue
            case _:
                pass
        await super().queue_frame(frame, direction, callback)

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        """Do what a frame asks for, and pass on all but words and contexts."""
        await super().process_frame(frame, direction)
        match frame:
            case StartFrame():
                self._start(self._converse(), "answers")
            case InterruptionFrame():
                await self._close()
            case UserStartedSpeakingFrame():
                self._utterances.begin()
            case UserStoppedSpeakingFrame():
                self._utterances.stop()
                await self.queue_frame(_UserTurnOver())
            case TranscriptionFrame():
                self._understood(frame)
            case InterimTranscriptionFrame(user_id=user, text=text):
                self._foresee(self._speaker_of(user), text)
            case _UserTurnOver():
                self._partials.clear()  # those words are said now
                await self._unless_lost(self._utterances.end())
            case LLMContextFrame(speculation=False):
                await self._read(frame)
            case LLMRunFrame():
                await self._unless_lost(self._utterances.put("", self._speaker))
            case EndFrame():
                await self._finish()
            case _:
                pass
        if not isinstance(frame, _CONSUMED):
            await self.push_frame(frame, direction)

    async def cleanup(self) -> None:
        """End what is still said; takes a second at most for each answer."""
        self._cut()
        if self._alone is not None:
            self._alone.cancel()
        for task in tuple(self._tasks):
            await self.cancel_task(task)  # waits a second at most
        await super().cleanup()

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = self.create_task(work, f"{self}::{name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- what is said to the NPC

    def _understood(self, frame: TranscriptionFrame) -> None:
        who = self._speaker_of(frame.user_id)
        self._utterances.understand(who, frame.text)
        if self._utterances.in_turn:
            self._foresee(who, "")
        else:
            loop = asyncio.get_running_loop()
            self._alone = loop.call_later(self._patience, self._nobody_began)

    def _speaker_of(self, user: str) -> str:
        return self._names.get(user, user) or self._speaker

    def _foresee(self, who: str, more: str) -> None:
        """Let the NPC begin to answer what is perhaps all that will be said."""
        begun = bool(self._partials)
        self._partials[who] = f"{self._utterances.so_far(who)} {more}".strip()
        if not begun:
            self._start(self._tell(), "foresees")

    async def _tell(self) -> None:
        """Tell the NPC of partial words, one after the other: the newest count."""
        while self._partials:
            who, text = next(iter(self._partials.items()))
            with suppress(GlyphoxaError):  # it is said again, in the turn
                await self.npc.hearing(text, speaker=who)
            if self._partials.get(who) == text:
                del self._partials[who]

    def _nobody_began(self) -> None:
        if not self._utterances.in_turn:
            self._start(self.queue_frame(_UserTurnOver()), "words")

    async def _read(self, frame: LLMContextFrame) -> None:
        """Say the newest words of the user in a context; greet if there are none."""
        messages = frame.context.get_messages()
        words = newest_words(messages, self._newest)
        self._newest = messages[-1] if messages else None
        await self._unless_lost(self._utterances.put(words, self._speaker))

    async def _unless_lost(self, kept: bool) -> None:
        if not kept:
            why = f"{WAITING} utterances wait already; the newest words are lost"
            await self.push_error(why, category=ErrorCategory.APPLICATION)

    def _turn(self, text: str, who: str) -> Turn | SceneTurn | None:
        if text:
            return self.npc.say(text, speaker=who, tier=self._tier)
        return self.npc.greet(speaker=who) if isinstance(self.npc, Npc) else None

    # -- answers, one after the other

    async def _converse(self) -> None:
        while True:
            text, who = await self._utterances.take()
            answer = PipelineAnswer()
            self._answers.append(answer)
            self._start(self._answer(answer, text, who), "answer")
            await answer.ended.wait()
            self._utterances.answered()

    async def _answer(self, answer: PipelineAnswer, text: str, who: str) -> None:
        try:
            await self.start_ttfb_metrics()
            await self.start_processing_metrics()
            turn = self._turn(text, who)
            if turn is not None:
                turn.only(*GIVEN)
                async with turn:
                    await self._listen(turn, answer)
        except NobodyAddressed:  # said in a scene, and to none of its NPCs
            assert isinstance(self.npc, Scene)
            await self.npc.overhear(who, text)
        except GlyphoxaError as error:
            gone = isinstance(error, RuntimeClosed)
            await self.push_error(str(error), error, force_treat_as_permanent=gone)
        finally:
            answer.ended.set()
            self._answers.remove(answer)

    async def _listen(self, turn: Turn | SceneTurn, answer: PipelineAnswer) -> None:
        answer.entered(turn, reported=self.heard.used)
        async for event in turn:
            await give(self, answer, event)
        answer.ended.set()
        if self.heard.used and answer.begun:
            # The turn stays open, so that an interruption still has something to cut.
            with suppress(TimeoutError):
                await asyncio.wait_for(answer.heard_out.wait(), PLAYBACK)
            answer.end_hearing()

    async def _finish(self) -> None:
        """Let what is said and asked before the end of the pipeline be answered."""
        self._utterances.stop()
        await self._unless_lost(self._utterances.end())
        try:
            await asyncio.wait_for(self._utterances.wait_answered(), LAST_WORDS)
        except TimeoutError:
            self._cut()

    def _cut(self) -> None:
        for answer in self._answers:
            answer.interrupt()

    async def _close(self) -> None:
        for answer in tuple(self._answers):  # one may end meanwhile
            if answer.cut and answer.close():
                await self.push_frame(LLMFullResponseEndFrame())

    def hear(self, frame: int, text: str) -> None:
        """Count text as heard that was made of that frame."""
        for answer in self._answers:
            answer.hear(frame, text)
