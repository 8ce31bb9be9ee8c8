"""Say a turn's sentences aloud, in order, while its text continues without waiting.

    text    Sentence ── Sentence ── FanOutDone ── Sentence ── (the engine is done)
    speech     └ Speech Speech Speech ┴ Speech Speech     └ Speech ── TurnDone

One sentence is synthesized at a time, ahead of the listener by a bounded amount.
Synthesis is cancelled at once by an interruption, and for a filler when the answer has
come. The synthesizers are asked one after the other, until one has begun. If none can
say a sentence, a soft tone is played, once in a turn, and an event is sent for each
sentence. What the model of the turn speaks itself is not spoken again, unless it sent
words without audio.

A synthesizer gets the spoken form of a sentence (`markdown`); events have the written
one. A sentence of which nothing is spoken, such as a row of signs, is passed over.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from math import inf
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import Signal, lone_errors
from glyphoxa_trio.config.voices import VoiceConfig
from glyphoxa_trio.errors import said, words
from glyphoxa_trio.providers.speech import (
    SpeechError,
    Synthesizer,
    TellsWords,
    VoiceStyle,
)

from . import cue
from .events import (
    Filler,
    Sentence,
    Speech,
    SpeechFailed,
    TextDelta,
    TurnEvent,
)
from .reading_aloud import AnswerReader
from .spoken_audio import SpokenAudio

# Seconds that a synthesizer may be silent within a sentence. A good synthesizer has
# shorter limits of its own.
SILENCE: Final = 10.0
NOBODY: Final = (
    "no synthesizer can say it: configure speech.synthesis, or pass a synthesizer to"
    " open_runtime"
)
# How many of the events that may wait for a listener are never speech, so that text
# does not wait behind speech.
SPARE: Final = 48


def voice_of(config: VoiceConfig, *, named: bool = True) -> VoiceStyle:
    """Return the voice of a configuration.

    ``named``: its name is that of a synthesizer's voice, and not of a model's.
    """
    return VoiceStyle(
        name=config.name if named else None,
        language=config.language,
        speed=config.speed,
        pronunciation=config.pronunciation,
    )


@attrs.define(eq=False, kw_only=True)
class Speaking:
    """The voice of one turn.

    Args:
      mouths: returns the synthesizers that can be asked now, the best first.
      voice: the voice to use.
      give: delivers a piece to the listener; waits while too many are waiting.
      post: sends an event to the listener without waiting.
      warn: warns the operator, at most once.
      aloud: tracks what is spoken.
    """

    mouths: Callable[[], Sequence[Synthesizer]]
    voice: VoiceStyle
    give: Callable[[Speech], Awaitable[None]]
    post: Callable[[TurnEvent], None]
    warn: Callable[[str], None]
    _aloud: SpokenAudio
    # With what is said of them, and their places among the sentences of their round.
    _waiting: deque[tuple[Sentence | Filler, str, int]] = attrs.field(
        factory=deque, init=False
    )
    _voiced: list[tuple[Sentence, str, int]] = attrs.field(factory=list, init=False)
    _reader: AnswerReader = attrs.field(factory=AnswerReader, init=False)
    _places: Counter[int] = attrs.field(factory=Counter, init=False)  # by round
    _news: Signal = attrs.field(factory=Signal, init=False)
    _no_more: bool = attrs.field(default=False, init=False)
    _all_said: trio.Event = attrs.field(factory=trio.Event, init=False)
    _filler: trio.CancelScope | None = attrs.field(default=None, init=False)
    _cued: bool = attrs.field(default=False, init=False)
    _warned: bool = attrs.field(default=False, init=False)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Say what is taken inside the block; leaving waits until it was delivered.

        If the block is cancelled or left by an error, nothing more is said.
        """
        with lone_errors():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._run)
                yield
                self._end()

    async def finish(self) -> None:
        """Take no more, and wait until everything that was taken has been delivered."""
        self._end()
        await self._all_said.wait()

    def _end(self) -> None:
        self._no_more = True
        self._news.set()

    def take(self, event: TurnEvent, *, voiced: bool = False) -> None:
        """Take an event that the listener has received, and speak its text in turn.

        ``voiced``: the model speaks it itself.
        """
        if isinstance(event, Sentence | TextDelta | Speech):
            self._drop_fillers()
        if isinstance(event, Sentence):
            place = self._places[event.round]
            self._places[event.round] += 1
            form = self._reader.read(event)
            self._aloud.begin(event.round, place, event.text, form)
            if voiced:  # if there is no audio of it, it counts as text does
                self._aloud.end(event.round, place, failed=True)
                self._voiced.append((event, form.text, place))
                return
            self._waiting.append((event, form.text, place))
            self._news.set()
        elif isinstance(event, Filler):
            self._waiting.append((event, self._reader.read(event).text, 0))
            self._news.set()

    def say_unvoiced(self) -> bool:
        """Say what the model should have spoken and sent no audio of.

        Returns False if there is nothing of that kind.
        """
        mute = [x for x in self._voiced if not self._aloud.is_spoken(x[0].round)]
        self._voiced.clear()
        self._waiting.extend(mute)
        self._news.set()
        return bool(mute)

    def drop(self, round_: int, since: int) -> None:
        """Drop the sentences of a round that wait, from that place on."""
        left = deque[tuple[Sentence | Filler, str, int]]()
        for event, text, place in self._waiting:
            if isinstance(event, Sentence) and event.round == round_ and place >= since:
                self._aloud.end(round_, place, failed=True)
            else:
                left.append((event, text, place))
        self._waiting = left

    def _drop_fillers(self) -> None:
        """Drop the fillers, because the answer has come."""
        if self._filler is not None:
            self._filler.cancel("the answer has come")
        if self._waiting:
            said = (x for x in self._waiting if isinstance(x[0], Sentence))
            self._waiting = deque(said)

    async def _run(self) -> None:
        while self._waiting or not self._no_more:
            if not self._waiting:
                await self._news.changed()
                continue
            match self._waiting.popleft():
                case Sentence() as sentence, text, place:
                    await self._say_sentence(sentence, text, place)
                case filler, text, _:
                    with trio.CancelScope() as self._filler:
                        await self._say(filler, text, self._aloud.give_filler, _untold)
                    self._filler = None
        self._all_said.set()

    async def _say_sentence(self, sentence: Sentence, text: str, place: int) -> None:
        round_, said = sentence.round, 0.0

        def given(seconds: float) -> None:
            nonlocal said
            said += seconds
            self._aloud.give(round_, place, seconds)

        def ends(words: int, end: float) -> None:
            self._aloud.time_words(round_, place, words, end)

        whole = await self._say(sentence, text, given, ends)
        self._aloud.end(round_, place, failed=not whole)
        if not (whole or said):
            await self._sound_cue(sentence)

    async def _sound_cue(self, sentence: Sentence) -> None:
        """Play a tone in place of words that no synthesizer can say; once per turn."""
        if not self._cued:
            self._cued = True
            tone = Speech(**sentence.of, pcm=cue.TONE, rate=cue.RATE, filler=True)
            self._aloud.give_filler(tone.seconds)
            await self.give(tone)

    async def _say(
        self,
        event: Sentence | Filler,
        text: str,
        given: Callable[[float], None],
        ends: Callable[[int, float], None],
    ) -> bool:
        """Say the text of an event; return True if all of it could be said.

        ``given`` is called with the seconds of each piece, ``ends`` as `TellsWords`
        says.
        """
        if not text:
            return True
        failures: list[str] = []
        begun = False

        def begins(seconds: float) -> None:
            nonlocal begun
            begun = True
            given(seconds)

        for mouth in self.mouths():
            failure = await self._say_with(mouth, event, text, begins, ends)
            if failure is None and begun:
                return True
            failures.append(failure or f"{mouth.label} sent no audio")
            if begun:
                break
        self._fail(event, "; ".join(failures) or NOBODY)
        return False

    async def _say_with(
        self,
        mouth: Synthesizer,
        event: Sentence | Filler,
        text: str,
        given: Callable[[float], None],
        ends: Callable[[int, float], None],
    ) -> str | None:
        """Say the text with this synthesizer; return the reason of a failure."""
        filler = isinstance(event, Filler)
        try:
            with trio.CancelScope() as patience:
                patience.deadline = trio.current_time() + SILENCE
                async with mouth.speak(text, self.voice) as pieces:
                    if isinstance(pieces, TellsWords):
                        pieces.tell_words(ends)
                    async for pcm in pieces:
                        # the time of the listener does not count
                        patience.deadline = inf
                        speech = Speech(
                            **event.of, pcm=pcm, rate=mouth.rate, filler=filler
                        )
                        given(speech.seconds)
                        await self.give(speech)
                        patience.deadline = trio.current_time() + SILENCE
            return f"silent for {SILENCE:g} s" if patience.cancelled_caught else None
        except SpeechError as error:
            return words(error)
        except Exception as error:  # border: a synthesizer is foreign code
            return said(error)

    def _fail(self, event: Sentence | Filler, detail: str) -> None:
        self.post(SpeechFailed(**event.of, text=event.text, detail=detail))
        if not self._warned:
            self._warned = True
            self.warn(f"{event.npc} cannot say a sentence aloud: {detail}")


def _untold(words: int, end: float) -> None:
    pass  # a filler is not remembered, however much of it was heard
