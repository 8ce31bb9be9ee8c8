"""The voice of a speech-to-speech model, for words that it did not come up with itself.

It reads out sentences as they stand, where its wire can ask for that. The lines that an
NPC falls back on are needed when its model is not well, so they are recorded while it
is: once, when nobody speaks, and only where nothing else could say them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import Signal
from glyphoxa_trio.providers.speech import SpeechError, VoiceStyle

from .realtime_conversation import RealtimeConversation
from .reciting import Recital

# Seconds. Whoever waits has waited for an answer already.
BEGINS: Final = 3.0
SILENCE: Final = 3.0
REST: Final = 1.0  # nobody has spoken for so long
LINES: Final = 8  # of an NPC, that are recorded
MOST: Final = 32 * 1024 * 1024  # bytes of recordings of all NPCs
ATTEMPTS: Final = 3

Key = tuple[str, str, str, str]  # the NPC, its model, its voice, the words


@attrs.define(eq=False)
class Recordings:
    """Lines in the voices of models, for all sessions. The oldest go first."""

    _lines: OrderedDict[Key, tuple[bytes, ...]] = attrs.field(
        factory=OrderedDict, init=False
    )
    _bytes: int = attrs.field(default=0, init=False)

    def get(self, key: Key) -> tuple[bytes, ...]:
        """Its audio in pieces; empty if there is none."""
        return self._lines.get(key, ())

    def keep(self, key: Key, pieces: tuple[bytes, ...]) -> None:
        self._bytes += sum(map(len, pieces)) - sum(map(len, self._lines.pop(key, ())))
        self._lines[key] = pieces
        while self._bytes > MOST:
            _, oldest = self._lines.popitem(last=False)
            self._bytes -= sum(map(len, oldest))


@attrs.define(eq=False)
class OwnVoice:
    """A `Synthesizer` of one NPC.

    Args:
      may_ask: whether its model may be spent on now.
      records: lines are recorded, since nothing else could say them.
    """

    live: RealtimeConversation
    npc: str
    recordings: Recordings
    may_ask: Callable[[], bool]
    records: bool = True

    @property
    def label(self) -> str:
        return f"the voice of {self.live.provider.label}"

    @property
    def rate(self) -> int:
        return self.live.capabilities.output_rate

    def _key(self, text: str) -> Key:
        live = self.live
        return self.npc, live.provider.label, live.voice or "", text

    @asynccontextmanager
    async def speak(
        self, text: str, voice: VoiceStyle
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Say it, or play what was recorded of it; with the model's own settings."""
        if recorded := self.recordings.get(self._key(text)):
            yield _played(recorded)
            return
        async with self._recite(text) as recital:
            yield _spoken(recital)

    @asynccontextmanager
    async def _recite(self, text: str) -> AsyncIterator[Recital]:
        if not self.may_ask():
            raise SpeechError("its model costs too much to be asked")
        if (fault := self.live.fault) is not None and not self.live.connected:
            raise SpeechError(f"its model is not there: {fault.detail}")
        with trio.CancelScope(deadline=trio.current_time() + BEGINS) as patience:
            async with self.live.recite(text) as recital:
                patience.deadline = float("inf")
                yield recital
        if patience.cancelled_caught:
            raise SpeechError(f"no connection to its model within {BEGINS:g} s")

    # Recording.

    async def record_at_rest(
        self, rests: Signal, lines: Callable[[], Sequence[str]]
    ) -> None:
        """Have each of these lines said once, a little after ``rests`` was set, while
        nobody speaks. Ends when that failed too often, or is cancelled."""
        failed = 0
        while failed < ATTEMPTS:
            await rests.take()
            await trio.sleep(REST)
            if not self.live.capabilities.recites:
                continue
            for line in lines()[:LINES]:
                if self.recordings.get(self._key(line)):
                    continue
                if not (self.live.connected and self.live.quiet and self.may_ask()):
                    break
                try:
                    await self.record(line)
                except SpeechError:  # the next rest is another attempt
                    failed += 1
                    break

    async def record(self, line: str) -> None:
        """Have it said once, and keep that if it was said as it stands.

        Raises:
          SpeechError: if it was not.
        """
        key, pieces = self._key(line), []
        async with self._recite(line) as recital:
            async for pcm in _spoken(recital):
                pieces.append(pcm)  # noqa: PERF401  nothing is kept of a broken one
        if _letters(recital.text) not in ("", _letters(line)):
            raise SpeechError(f"its model says something else than {line!r}")
        if not pieces:
            raise SpeechError(f"its model does not say {line!r}")
        self.recordings.keep(key, tuple(pieces))


async def _played(pieces: tuple[bytes, ...]) -> AsyncIterator[bytes]:
    for pcm in pieces:
        await trio.lowlevel.checkpoint()
        yield pcm


async def _spoken(recital: Recital) -> AsyncIterator[bytes]:
    """Raises `SpeechError` if it does not begin, or breaks off."""
    within, begun = BEGINS, False
    while True:
        pcm: bytes | None = None
        with trio.move_on_after(within) as patience:
            pcm = await recital.take()
        if patience.cancelled_caught:
            raise SpeechError(f"its model said nothing for {within:g} s")
        if pcm is None:
            break
        within, begun = SILENCE, True
        yield pcm
    if recital.error:
        raise SpeechError(f"its model did not say it: {recital.error}")
    if not begun:
        raise SpeechError("its model said nothing")


def _letters(text: str) -> str:
    return "".join(x for x in text.casefold() if x.isalnum())
