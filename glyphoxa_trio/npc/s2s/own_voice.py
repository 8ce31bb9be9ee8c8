"""The voice of a speech-to-speech model, for words that the model did not write itself.

The model reads sentences out literally, where its wire can ask for that. An NPC's
fallback lines are needed when its model does not work, so they are recorded while it
does: once, when no user speaks, and only if no other voice can say them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import Signal
from glyphoxa_trio.npc.markdown import MarkdownReader
from glyphoxa_trio.providers.speech import SpeechError, VoiceStyle

from .realtime_conversation import RealtimeConversation
from .reciting import Recital

# Limits in seconds. The listener has already waited for an answer.
BEGINS: Final = 3.0
SILENCE: Final = 3.0
REST: Final = 1.0  # seconds of silence before a recording starts
LINES: Final = 8  # lines of one NPC that are recorded
MOST: Final = 32 * 1024 * 1024  # bytes of the recordings of all NPCs
ATTEMPTS: Final = 3

Key = tuple[str, str, str, str]  # the NPC, its model, its voice, the text


@attrs.define(eq=False)
class Recordings:
    """Lines in the voices of models, for all sessions. The oldest are dropped first."""

    _lines: OrderedDict[Key, tuple[bytes, ...]] = attrs.field(
        factory=OrderedDict, init=False
    )
    _bytes: int = attrs.field(default=0, init=False)

    def get(self, key: Key) -> tuple[bytes, ...]:
        """Return the audio of a line in pieces; empty if it was not recorded."""
        return self._lines.get(key, ())

    def keep(self, key: Key, pieces: tuple[bytes, ...]) -> None:
        """Keep the audio of a line, and drop the oldest beyond the limit."""
        self._bytes += sum(map(len, pieces)) - sum(map(len, self._lines.pop(key, ())))
        self._lines[key] = pieces
        while self._bytes > MOST:
            _, oldest = self._lines.popitem(last=False)
            self._bytes -= sum(map(len, oldest))


@attrs.define(eq=False)
class OwnVoice:
    """A `Synthesizer` for one NPC.

    Args:
      live: the conversation whose model speaks.
      npc: the NPC.
      recordings: the recorded lines.
      may_ask: returns True if the budget permits asking the model now.
      records: whether lines are recorded, because no other voice can say them.
    """

    live: RealtimeConversation
    npc: str
    recordings: Recordings
    may_ask: Callable[[], bool]
    records: bool = True

    @property
    def label(self) -> str:
        """A name for messages."""
        return f"the voice of {self.live.provider.label}"

    @property
    def rate(self) -> int:
        """The sample rate of the audio, in Hz."""
        return self.live.capabilities.output_rate

    def _key(self, text: str) -> Key:
        live = self.live
        return self.npc, live.provider.label, live.voice or "", text

    @asynccontextmanager
    async def speak(
        self, text: str, voice: VoiceStyle
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Say the text, or play its recording, with the model's own settings.

        Raises:
          SpeechError: the model cannot be asked, or does not begin in time.
        """
        if recorded := self.recordings.get(self._key(text)):
            yield _played(recorded)
            return
        async with self._recite(text) as recital:
            yield _spoken(recital)

    @asynccontextmanager
    async def _recite(self, text: str) -> AsyncIterator[Recital]:
        if not self.may_ask():
            raise SpeechError("the cost ceiling of its model is reached")
        if (fault := self.live.fault) is not None and not self.live.connected:
            raise SpeechError(f"its model is not connected: {fault.detail}")
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
        """Record each of these lines once, at moments when no user speaks.

        A recording starts one second after ``rests`` was set. Returns after three
        failures; otherwise runs until it is cancelled.
        """
        failed = 0
        while failed < ATTEMPTS:
            await rests.take()
            await trio.sleep(REST)
            if not self.live.capabilities.recites:
                continue
            for written in lines()[:LINES]:
                line = MarkdownReader().read(written).text  # as it will be asked for
                if not line or self.recordings.get(self._key(line)):
                    continue
                if not (self.live.connected and self.live.quiet and self.may_ask()):
                    break
                try:
                    await self.record(line)
                except SpeechError:  # retried at the next quiet moment
                    failed += 1
                    break

    async def record(self, line: str) -> None:
        """Have the model say the line, and keep the audio if it was said literally.

        Raises:
          SpeechError: it was not.
        """
        key, pieces = self._key(line), []
        async with self._recite(line) as recital:
            async for pcm in _spoken(recital):
                pieces.append(pcm)  # noqa: PERF401  nothing is kept of a broken one
        if _letters(recital.text) not in ("", _letters(line)):
            raise SpeechError(f"its model does not say {line!r} literally")
        if not pieces:
            raise SpeechError(f"its model does not say {line!r}")
        self.recordings.keep(key, tuple(pieces))


async def _played(pieces: tuple[bytes, ...]) -> AsyncIterator[bytes]:
    for pcm in pieces:
        await trio.lowlevel.checkpoint()
        yield pcm


async def _spoken(recital: Recital) -> AsyncIterator[bytes]:
    """Yield the audio; raise `SpeechError` if it starts late or breaks off."""
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
        raise SpeechError(f"its model did not say all of it: {recital.error}")
    if not begun:
        raise SpeechError("its model said nothing")


def _letters(text: str) -> str:
    return "".join(x for x in text.casefold() if x.isalnum())
