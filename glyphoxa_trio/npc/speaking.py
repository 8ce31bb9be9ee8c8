"""A turn's sentences, said aloud: in order, while its text goes on without waiting.

    text    Sentence ── Sentence ── FanOutDone ── Sentence ── (the engine is done)
    speech     └ Speech Speech Speech ┴ Speech Speech     └ Speech ── TurnDone

One sentence is synthesized at a time, ahead of the listener by a bound. What is cut,
by an interruption or because the answer has come instead of a filler, is killed in that
moment. Whoever can say a sentence is asked one after the other, until one has begun;
where nobody could, there is a soft tone, once a turn, and an event for each sentence.
What the model of the turn says by itself is not said again.
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
from glyphoxa_trio.providers.speech import SpeechError, Synthesizer, VoiceStyle

from . import cue
from .events import (
    Filler,
    Sentence,
    Speech,
    SpeechFailed,
    TextDelta,
    TurnEvent,
)
from .spoken_audio import SpokenAudio

# Seconds that a synthesizer may be silent in the middle of a sentence. It has limits of
# its own, if it is a good one.
SILENCE: Final = 10.0
NOBODY: Final = (
    "nothing here can say it: configure speech.synthesis, or pass a synthesizer to"
    " open_runtime"
)
# Of the events that may wait for a listener so many are never speech, so that text does
# not wait behind it.
SPARE: Final = 48


def voice_of(config: VoiceConfig, *, named: bool = True) -> VoiceStyle:
    """``named``: the name in it is the synthesizer's, and not a model's."""
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
      mouths: who can say a sentence now, the best first.
      aloud: told what is said aloud.
      give: hand a piece to the listener; waits while enough of them do.
      post: tell the listener without waiting.
      warn: tell the operator, at most once.
    """

    mouths: Callable[[], Sequence[Synthesizer]]
    voice: VoiceStyle
    give: Callable[[Speech], Awaitable[None]]
    post: Callable[[TurnEvent], None]
    warn: Callable[[str], None]
    _aloud: SpokenAudio
    # With their places among the sentences of their round.
    _waiting: deque[tuple[Sentence | Filler, int]] = attrs.field(
        factory=deque, init=False
    )
    _places: Counter[int] = attrs.field(factory=Counter, init=False)  # by round
    _news: Signal = attrs.field(factory=Signal, init=False)
    _no_more: bool = attrs.field(default=False, init=False)
    _all_said: trio.Event = attrs.field(factory=trio.Event, init=False)
    _filler: trio.CancelScope | None = attrs.field(default=None, init=False)
    _cued: bool = attrs.field(default=False, init=False)
    _warned: bool = attrs.field(default=False, init=False)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Say what is taken inside the block; leaving waits until it was given out.

        Cancelled, or left by an error, nothing more is said.
        """
        with lone_errors():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._run)
                yield
                self._end()

    async def finish(self) -> None:
        """Nothing more is taken; wait until all that was has been given out."""
        self._end()
        await self._all_said.wait()

    def _end(self) -> None:
        self._no_more = True
        self._news.set()

    def take(self, event: TurnEvent, *, voiced: bool = False) -> None:
        """An event that the listener has got: what can be said is said after it.
        ``voiced``: the model says it by itself."""
        if isinstance(event, Sentence | TextDelta | Speech):
            self._drop_fillers()
        if isinstance(event, Sentence):
            place = self._places[event.round]
            self._places[event.round] += 1
            self._aloud.begin(event.round, place, event.text)
            if voiced:  # where no audio comes of it, it counts as text does
                self._aloud.end(event.round, place, failed=True)
                return
            self._waiting.append((event, place))
            self._news.set()
        elif isinstance(event, Filler):
            self._waiting.append((event, 0))
            self._news.set()

    def _drop_fillers(self) -> None:
        """The answer has come."""
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
                case Filler() as filler, _:
                    with trio.CancelScope() as self._filler:
                        await self._say(filler, self._aloud.give_filler)
                    self._filler = None
                case Sentence() as sentence, place:
                    await self._say_sentence(sentence, place)
        self._all_said.set()

    async def _say_sentence(self, sentence: Sentence, place: int) -> None:
        round_, said = sentence.round, 0.0

        def given(seconds: float) -> None:
            nonlocal said
            said += seconds
            self._aloud.give(round_, place, seconds)

        whole = await self._say(sentence, given)
        self._aloud.end(round_, place, failed=not whole)
        if not (whole or said):
            await self._sound_cue(sentence)

    async def _sound_cue(self, sentence: Sentence) -> None:
        """In place of words that nobody can say: once is enough."""
        if not self._cued:
            self._cued = True
            tone = Speech(**sentence.of, pcm=cue.TONE, rate=cue.RATE, filler=True)
            self._aloud.give_filler(tone.seconds)
            await self.give(tone)

    async def _say(
        self, event: Sentence | Filler, given: Callable[[float], None]
    ) -> bool:
        """Whether all of it could be said."""
        failures: list[str] = []
        begun = False

        def begins(seconds: float) -> None:
            nonlocal begun
            begun = True
            given(seconds)

        for mouth in self.mouths():
            failure = await self._say_with(mouth, event, begins)
            if failure is None:
                return True
            failures.append(failure)
            if begun:
                break
        self._fail(event, "; ".join(failures) or NOBODY)
        return False

    async def _say_with(
        self,
        mouth: Synthesizer,
        event: Sentence | Filler,
        given: Callable[[float], None],
    ) -> str | None:
        """Why not all of it could be said."""
        filler = isinstance(event, Filler)
        try:
            with trio.CancelScope() as patience:
                patience.deadline = trio.current_time() + SILENCE
                async with mouth.speak(event.text, self.voice) as pieces:
                    async for pcm in pieces:
                        patience.deadline = inf  # the listener takes their own time
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
            self.warn(f"{event.npc} cannot say something aloud: {detail}")
