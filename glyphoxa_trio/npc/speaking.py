"""A turn's sentences, said aloud: in order, while its text goes on without waiting.

    text    Sentence ── Sentence ── FanOutDone ── Sentence ── (the engine is done)
    speech     └ Speech Speech Speech ┴ Speech Speech     └ Speech ── TurnDone

One sentence is synthesized at a time, ahead of the listener by a bound. What is cut,
by an interruption or because the answer has come instead of a filler, is killed in that
moment.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from math import inf
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import Signal, lone_errors
from glyphoxa_trio.config.voices import VoiceConfig
from glyphoxa_trio.errors import said, words
from glyphoxa_trio.providers.speech import SpeechError, Synthesizer, Voice

from .aloud import Aloud
from .conversation import Exchange
from .events import (
    EngineSwitched,
    Filler,
    Sentence,
    Speech,
    SpeechFailed,
    TextDelta,
    TurnEvent,
)

# Seconds that a synthesizer may be silent in the middle of a sentence. It has limits of
# its own, if it is a good one.
SILENCE: Final = 10.0
# Of the events that may wait for a listener so many are never speech, so that text does
# not wait behind it.
SPARE: Final = 48


def voice_of(config: VoiceConfig) -> Voice:
    return Voice(
        name=config.name,
        language=config.language,
        speed=config.speed,
        pronunciation=config.pronunciation,
    )


@attrs.define(eq=False, kw_only=True)
class Speaking:
    """The voice of one turn.

    Args:
      exchange: knows from then on what was said aloud, and so what was heard.
      give: hand a piece to the listener; waits while enough of them do.
      post: tell the listener without waiting.
      warn: tell the operator, at most once.
      engine_speaks: the engine of this turn gives out audio itself, unless the turn
        goes another way.
    """

    synthesizer: Synthesizer
    voice: Voice
    exchange: Exchange
    give: Callable[[Speech], Awaitable[None]]
    post: Callable[[TurnEvent], None]
    warn: Callable[[str], None]
    engine_speaks: bool = False
    _aloud: Aloud = attrs.field(factory=Aloud, init=False)
    _waiting: deque[Sentence | Filler] = attrs.field(factory=deque, init=False)
    _places: Counter[int] = attrs.field(factory=Counter, init=False)  # by round
    _news: Signal = attrs.field(factory=Signal, init=False)
    _no_more: bool = attrs.field(default=False, init=False)
    _all_said: trio.Event = attrs.field(factory=trio.Event, init=False)
    _filler: trio.CancelScope | None = attrs.field(default=None, init=False)
    _warned: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        if not self.engine_speaks:
            self.exchange.is_aloud(self._aloud)

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

    def take(self, event: TurnEvent) -> None:
        """An event that the listener has got: what can be said is said after it."""
        if isinstance(event, EngineSwitched):
            self.engine_speaks = False
            self.exchange.is_aloud(self._aloud)
        if self.engine_speaks:
            return
        if isinstance(event, Sentence | TextDelta):
            self._drop_fillers()
        if isinstance(event, Sentence | Filler):
            self._waiting.append(event)
            self._news.set()

    def _drop_fillers(self) -> None:
        """The answer has come."""
        if self._filler is not None:
            self._filler.cancel("the answer has come")
        if self._waiting:
            said = [event for event in self._waiting if isinstance(event, Sentence)]
            self._waiting = deque(said)

    async def _run(self) -> None:
        while self._waiting or not self._no_more:
            if not self._waiting:
                await self._news.changed()
                continue
            match self._waiting.popleft():
                case Filler() as filler:
                    with trio.CancelScope() as self._filler:
                        await self._say(filler, self._aloud.give_filler)
                    self._filler = None
                case Sentence() as sentence:
                    await self._say_sentence(sentence)
        self._all_said.set()

    async def _say_sentence(self, sentence: Sentence) -> None:
        round_, place = sentence.round, self._places[sentence.round]
        self._places[round_] += 1
        self._aloud.begin(round_, place, sentence.text)

        def given(seconds: float) -> None:
            self._aloud.give(round_, place, seconds)

        whole = await self._say(sentence, given)
        self._aloud.end(round_, place, failed=not whole)

    async def _say(
        self, event: Sentence | Filler, given: Callable[[float], None]
    ) -> bool:
        """Whether all of it could be said."""
        filler = isinstance(event, Filler)
        try:
            with trio.CancelScope() as patience:
                patience.deadline = trio.current_time() + SILENCE
                async with self.synthesizer.speak(event.text, self.voice) as pieces:
                    async for pcm in pieces:
                        patience.deadline = inf  # the listener takes their own time
                        speech = Speech(
                            **event.of,
                            pcm=pcm,
                            rate=self.synthesizer.rate,
                            filler=filler,
                        )
                        given(speech.seconds)
                        await self.give(speech)
                        patience.deadline = trio.current_time() + SILENCE
            if not patience.cancelled_caught:
                return True
            detail = f"silent for {SILENCE:g} s"
        except SpeechError as error:
            detail = words(error)
        except Exception as error:  # border: a synthesizer is foreign code
            detail = said(error)
        self._fail(event, detail)
        return False

    def _fail(self, event: Sentence | Filler, detail: str) -> None:
        self.post(SpeechFailed(**event.of, text=event.text, detail=detail))
        if not self._warned:
            self._warned = True
            self.warn(f"{event.npc} cannot say something aloud: {detail}")
