"""`Voice` for asyncio: a microphone and a loudspeaker at an NPC."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import TracebackType
from typing import Final, Self

import attrs

from glyphoxa_trio.npc import TurnEvent
from glyphoxa_trio.npc import Voice as NativeVoice

from .bridge import LoopBridge
from .context_proxy import ContextProxy
from .iterator_proxy import END, IteratorEnd, IteratorProxy

# Pieces of audio that may wait for a blocked run: half a minute of the usual size.
MOST_PIECES: Final = 1500


@attrs.define(eq=False)
class Voice:
    """One speaker's microphone and loudspeaker. Made by `Npc.voice`, entered once.

        async with npc.voice(speaker="Ann", rate=48000) as voice:
            voice.hear(pcm)
            async for event in voice:
                ...

    Leaving the block switches it off and interrupts the answers to this speaker.
    """

    rate: int
    _bridge: LoopBridge
    _open: Callable[[], AbstractAsyncContextManager[NativeVoice]]
    _held: ContextProxy[NativeVoice] = attrs.field(init=False)
    _native: NativeVoice | None = attrs.field(default=None, init=False)
    _events: IteratorProxy[TurnEvent] = attrs.field(init=False)
    _heard: deque[bytes] = attrs.field(
        factory=lambda: deque(maxlen=MOST_PIECES), init=False
    )

    def __attrs_post_init__(self) -> None:
        self._held = ContextProxy(self._bridge, self._open)
        self._events = IteratorProxy(self._bridge)

    async def __aenter__(self) -> Self:
        """Switch the microphone on.

        Raises:
          CannotHear: if no recognizer and no model here understands speech.
          SpeechError: if the one that does fails to start.
          UnknownNpc: a reload removed the NPC.
          RuntimeClosed: the runtime has ended.
        """
        self._native = await self._held.__aenter__()
        self._bridge.post(self._take_in)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._native = None
        self._heard.clear()
        self._events.close()
        await self._held.__aexit__(kind, error, traceback)

    def hear(self, pcm: bytes) -> None:
        """Pass on a piece of the microphone's audio: PCM16, mono, of any length.

        Never waits; call it on the loop. If too much is waiting, the oldest pieces are
        dropped. Audio that comes before the voice is entered is heard when it is.
        """
        self._heard.append(pcm)
        if len(self._heard) == 1:  # else a call that takes all of it is under way
            self._bridge.post(self._take_in)

    def played(self, ms: float) -> None:
        """Report how many milliseconds were played, since the beginning or the last
        `Flush`.

        Only a `Flush` that was taken counts. From the first report on, only text that
        was played counts as delivered: report 0 when you begin to listen. Never waits.
        """
        self._bridge.post(partial(self._played, ms))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TurnEvent:
        """Return the next event. For one reader; a wait that is cancelled loses none.

        Raises:
          SpeechError: after the `HearingFailed` event that says so, if the microphone
            is no longer understood. The NPC itself works on.
          RuntimeClosed: the runtime has ended.
          RuntimeError: the voice was not entered, or another task waits for an event.
        """
        if self._native is None:
            raise RuntimeError("enter it first: async with npc.voice(...) as voice")
        return await self._events.take(self._next)

    # On trio's side.

    async def _next(self) -> TurnEvent | IteratorEnd:
        return END if self._native is None else await anext(self._native, END)

    def _take_in(self) -> None:
        if self._native is None:
            return
        pieces = []
        while self._heard:
            pieces.append(self._heard.popleft())
        if pieces:
            self._native.hear(b"".join(pieces))

    def _played(self, ms: float) -> None:
        if self._native is not None:
            self._native.played(ms)
