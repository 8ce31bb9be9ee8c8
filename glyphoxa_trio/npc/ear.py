"""The ear of an NPC that reads: a recognizer's words are said to it.

    recognizer   Began ── Partial ── Partial ── Final
    the NPC      interrupted  └ hearing ┘        └ say ── the events of the turn

A user who starts to speak interrupts the answer to them, and the rest of its audio is
void at once. An utterance that turns out to be no speech has no further effect. If an
interruption has a minimum, playback is held until it is known whether it is reached
(`barge_in`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from typing import Protocol

import attrs

import trio

from glyphoxa_trio.actors import Signal, lone_errors
from glyphoxa_trio.errors import GlyphoxaError, said, words
from glyphoxa_trio.providers.speech import (
    Began,
    Final,
    NotUnderstood,
    Partial,
    Recognition,
    Recognized,
    Recognizer,
    Sounding,
    SpeechError,
    TellsSpeech,
)

from .barge_in import NO_MINIMUM, BargeIn, BargeInAction, Minimum, UtteranceState
from .events import HearingFailed, Transcript, TurnDone, TurnEvent
from .voice import PlaybackOutput, Which, which

# Turns whose audio may still be playing, and so be reported.
_REMEMBERED = 8
# Held playback continues if for this long neither sound nor words came. Seconds.
_PATIENCE = 2.0


class HeardTurn(Protocol):
    """A turn, as far as an ear needs it: `Turn` is one."""

    def played(self, ms: float) -> None: ...

    def __aiter__(self) -> HeardTurn: ...

    async def __anext__(self) -> TurnEvent: ...


class Addressee(Protocol):
    """The addressee: an `Npc`, or a scene, which finds the addressed NPC."""

    @property
    def name(self) -> str: ...

    def say(
        self, text: str, *, speaker: str
    ) -> AbstractAsyncContextManager[HeardTurn]: ...

    async def hearing(self, text: str, *, speaker: str) -> None: ...

    async def interrupt(self, *, speaker: str | None = None) -> bool: ...


@attrs.define(eq=False, kw_only=True)
class RecognizedEar:
    """One speaker's words to one NPC, through a recognizer.

    Args:
      npc: the addressee.
      speaker: the speaker's name.
      recognizer: understands the speech.
      language: the language of the speech; None leaves it to the recognizer.
      warn: tells the operator that the recognizer fails; once, until it has understood
        something again.
      minimum: how long an interruption must be.
    """

    npc: Addressee
    speaker: str
    recognizer: Recognizer
    language: str | None = None
    warn: Callable[[str], None] = lambda _: None
    minimum: Minimum = NO_MINIMUM
    _barge_in: BargeIn = attrs.field(init=False)
    # the one that is recognized now
    _utterance: int = attrs.field(default=0, init=False)
    _output: PlaybackOutput = attrs.field(init=False)
    _turns: trio.Nursery = attrs.field(init=False)
    # the last news of a held utterance
    _news_at: float = attrs.field(default=0.0, init=False)
    _holds: Signal = attrs.field(factory=Signal, init=False)
    _recognition: Recognition | None = attrs.field(default=None, init=False)
    _answers: dict[Which, HeardTurn] = attrs.field(factory=dict, init=False)
    _running: set[Which] = attrs.field(factory=set, init=False)
    # the number of turns, including those that have not begun
    _open: int = attrs.field(default=0, init=False)
    _fails: bool = attrs.field(default=False, init=False)
    _reports: bool = attrs.field(default=False, init=False)
    # Set when all events of the turn that was requested last have been delivered.
    _last: trio.Event | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._barge_in = BargeIn(self.minimum)

    @property
    def rate(self) -> int:
        """The sample rate of the recognizer, in Hz."""
        return self.recognizer.rate

    def hear(self, pcm: bytes) -> None:
        """Take a piece of audio. Never waits."""
        if self._recognition is not None:
            self._recognition.hear(pcm)

    def played(self, heard: Mapping[Which, float]) -> None:
        """Report how many seconds of these turns' audio were heard in all."""
        self._reports = True
        for turn, seconds in heard.items():
            if turn in self._answers:
                self._answers[turn].played(1000 * seconds)

    async def run(
        self, output: PlaybackOutput, *, task_status: trio.TaskStatus[None]
    ) -> None:
        """Hear until cancelled; see `Ear.run`."""
        with lone_errors():
            async with trio.open_nursery() as beside:
                self._output = output
                beside.start_soon(self._watch)
                async with trio.open_nursery() as self._turns:
                    deafness = await self._listen(self._turns, output, task_status)
                    self._decide(self._barge_in.waits_no_longer())
                beside.cancel_scope.cancel("the recognizer has ended")
        output.end(deafness)  # once everything that was asked is answered

    async def _listen(
        self,
        answers: trio.Nursery,
        output: PlaybackOutput,
        task_status: trio.TaskStatus[None],
    ) -> SpeechError:
        """Recognize speech until the recognizer ends, and return the reason."""
        deafness = SpeechError(f"{self.recognizer.label} has stopped")
        try:
            async with self.recognizer.listen(language=self.language) as recognition:
                self._recognition = recognition
                if isinstance(recognition, TellsSpeech):
                    recognition.tell_speech(self._sounds)
                task_status.started()
                async for event in recognition.events():
                    await self._understand(event, answers, output)
        except Exception as error:  # border: a recognizer is foreign code
            if self._recognition is None:
                raise
            deafness = error if isinstance(error, SpeechError) else _wrong(error)
        finally:
            self._recognition = None
        self._fail(words(deafness), output, deaf=True)
        return deafness

    async def _understand(
        self, event: Recognized, answers: trio.Nursery, output: PlaybackOutput
    ) -> None:
        match event:
            case Began(utterance):
                self._utterance = (
                    self._utterance + 1 if utterance is None else utterance
                )
                self._decide(self._barge_in.begins(self._utterance, busy=self._is_busy))
                # Interrupt even if `_sounds` has done so: an earlier utterance may be
                # answered by now.
                if self._counts and self._decide(BargeInAction.INTERRUPT):
                    await self._interrupt()
            case Partial(text):
                output.post(self._transcript(text, output, final=False))
                await self._understands(text, final=False)
                with suppress(GlyphoxaError):  # this call would only have saved time
                    await self.npc.hearing(text, speaker=self.speaker)
            case Final(text) if text.strip():
                self._fails = False
                output.post(self._transcript(text, output, final=True))
                await self._understands(text, final=True)
                if self._counts:
                    # In the order in which it was said.
                    await answers.start(self._answer, text, output)
            case Final():
                await self._understands("", final=True)
            case NotUnderstood(detail):
                await self._understands("", final=True)
                self._fail(detail, output)

    # Interruptions.

    @property
    def _is_busy(self) -> bool:
        return self._open > 0 or self._output.is_heard(self._running)

    @property
    def _counts(self) -> bool:
        return self._barge_in.standing(self._utterance) is UtteranceState.COUNTS

    def _sounds(self, sounding: Sounding) -> None:
        """Handle the length of an utterance's speech, as it is measured."""
        number, barge_in = sounding.utterance, self._barge_in
        began = barge_in.begins(number, busy=self._is_busy)
        grown = barge_in.sounds(number, sounding.seconds, over=sounding.over)
        if any([self._decide(began), self._decide(grown)]):
            self._turns.start_soon(self._interrupt)

    async def _understands(self, text: str, *, final: bool) -> None:
        words = len(text.split())
        what = self._barge_in.understood(self._utterance, words, final=final)
        if self._decide(what):
            await self._interrupt()

    def _decide(self, what: BargeInAction) -> bool:
        """Tell the listener; return True if the running turns must be interrupted."""
        self._news_at = trio.current_time()
        match what:
            case BargeInAction.HOLD:
                self._output.hold(self._running)
                self._holds.set()
            case BargeInAction.RESUME:
                self._output.resume()
            case BargeInAction.INTERRUPT:
                self._output.flush("the speaker began to speak", self._running)
                return self._open > 0
            case BargeInAction.NOTHING:
                pass
        return False

    async def _interrupt(self) -> None:
        with suppress(GlyphoxaError):  # then no turn of this speaker runs
            await self.npc.interrupt(speaker=self.speaker)

    async def _watch(self) -> None:
        """Let playback continue when news of a held utterance stops.

        Runs until it is cancelled.
        """
        while True:
            await self._holds.take()
            while self._barge_in.held:
                await trio.sleep_until(self._news_at + _PATIENCE)
                if trio.current_time() >= self._news_at + _PATIENCE:
                    self._decide(self._barge_in.waits_no_longer())

    async def _answer(
        self, text: str, output: PlaybackOutput, *, task_status: trio.TaskStatus[None]
    ) -> None:
        """Run one turn, from what was said to its last event."""
        accepted = False
        self._open += 1
        before, self._last = self._last, trio.Event()
        over = self._last
        try:
            async with self.npc.say(text, speaker=self.speaker) as answer:
                accepted = True
                task_status.started()
                await self._relay(answer, output, before)
        except GlyphoxaError as error:  # the queue is full, or the NPC no longer exists
            output.post(self._failed(words(error), output))
        finally:
            self._open -= 1
            over.set()
        if not accepted:
            task_status.started()

    async def _relay(
        self, answer: HeardTurn, output: PlaybackOutput, before: trio.Event | None
    ) -> None:
        """Deliver the events of a turn, after those of the turn ``before``."""
        if self._reports:
            answer.played(0)
        while (first := await anext(answer, None)) is not None and not first.turn:
            await output.give(first)  # in a scene, before the NPC has begun
        if first is None:
            return
        turn = which(first)
        self._remember(turn, answer)
        if not isinstance(first, TurnDone):
            self._running.add(turn)
        try:
            if before is not None:
                await before.wait()
            await output.give(first)
            async for event in answer:
                if isinstance(event, TurnDone):
                    self._running.discard(turn)
                await output.give(event)
        finally:
            self._running.discard(turn)

    def _remember(self, turn: Which, answer: HeardTurn) -> None:
        self._answers[turn] = answer
        while len(self._answers) > _REMEMBERED:
            del self._answers[next(iter(self._answers))]

    def _transcript(
        self, text: str, output: PlaybackOutput, *, final: bool
    ) -> Transcript:
        return Transcript(
            **output.of(self.npc.name), speaker=self.speaker, text=text, final=final
        )

    def _fail(self, detail: str, output: PlaybackOutput, *, deaf: bool = False) -> None:
        output.post(self._failed(detail, output, deaf=deaf))
        if deaf or not self._fails:
            what = "is no longer heard" if deaf else "was not understood"
            self.warn(f"{self.speaker} {what}: {detail}")
        self._fails = True

    def _failed(
        self, detail: str, output: PlaybackOutput, *, deaf: bool = False
    ) -> HearingFailed:
        return HearingFailed(
            **output.of(self.npc.name), speaker=self.speaker, detail=detail, deaf=deaf
        )


def _wrong(error: Exception) -> SpeechError:
    wrong = SpeechError(f"the recognizer failed: {said(error)}")
    wrong.__cause__ = error
    return wrong
