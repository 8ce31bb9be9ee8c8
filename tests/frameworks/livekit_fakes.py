"""What is around a session of LiveKit's: a model, a voice and a loudspeaker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

import attrs
from livekit import rtc
from livekit.agents import AgentSession, tts
from livekit.agents.voice import io

import trio

from glyphoxa_trio.providers.llm import (
    CallReady,
    Finished,
    FinishReason,
    LLMEvent,
    LLMRequest,
    TextChunk,
    Usage,
)
from glyphoxa_trio.tools.outcome import ToolCall

RATE: Final = 24_000
WORD: Final = 0.35  # seconds that the voice takes for one word
Reply = str | ToolCall


@attrs.define(eq=False)
class Model:
    """Answers each request as ``reply`` says, and keeps it.

    ``asked`` is set with the first of them; trio is a guest in this thread.
    """

    reply: Callable[[LLMRequest], Reply]
    requests: list[LLMRequest] = attrs.field(factory=list)
    asked: asyncio.Event = attrs.field(factory=asyncio.Event)
    label: str = "scripted"

    @asynccontextmanager
    async def _stream(
        self, request: LLMRequest
    ) -> AsyncGenerator[AsyncIterator[LLMEvent]]:
        self.requests.append(request)
        self.asked.set()
        yield self._events(self.reply(request))

    def stream(
        self, request: LLMRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[LLMEvent]]:
        return self._stream(request)

    async def _events(self, reply: Reply) -> AsyncIterator[LLMEvent]:
        await trio.lowlevel.checkpoint()
        if isinstance(reply, ToolCall):
            yield CallReady(reply)
            yield Finished(reason=FinishReason.TOOL_CALLS)
        else:
            yield TextChunk(reply)
            yield Finished(usage=Usage(input_tokens=12, output_tokens=5))

    @property
    def told(self) -> list[list[str]]:
        """The messages of the last request without the prompt, as role and words."""
        return [
            [x.role, x.content]
            for x in self.requests[-1].messages
            if x.role != "system"
        ]


class _Spoken(tts.ChunkedStream):
    async def _run(self, output_emitter: tts.AudioEmitter) -> None:
        output_emitter.initialize(
            request_id="1", sample_rate=RATE, num_channels=1, mime_type="audio/pcm"
        )
        words = len(self.input_text.split())
        output_emitter.push(bytes(2 * round(RATE * WORD * words)))
        output_emitter.flush()


class Voice(tts.TTS):
    """Says every word in the same time, in silence."""

    def __init__(self) -> None:
        capabilities = tts.TTSCapabilities(streaming=False)
        super().__init__(capabilities=capabilities, sample_rate=RATE, num_channels=1)

    def synthesize(self, text: str, *, conn_options: Any = None) -> tts.ChunkedStream:
        return _Spoken(tts=self, input_text=text, conn_options=conn_options)


class Loudspeaker(io.AudioOutput):
    """Plays a segment when it is complete, until `finish` or LiveKit's interruption.

    ``knows_words``: it reports the words that it has played, as LiveKit's rooms do.
    """

    def __init__(self, *, knows_words: bool = True) -> None:
        super().__init__(
            label="a loudspeaker",
            capabilities=io.AudioOutputCapabilities(pause=False),
            sample_rate=RATE,
        )
        self.knows_words = knows_words
        self.stops_after = 0  # words, when it is interrupted
        self.text = ""  # all that is said
        self.playing = asyncio.Event()
        self._captured = 0.0

    async def capture_frame(self, frame: rtc.AudioFrame) -> None:
        await super().capture_frame(frame)
        if not self._captured:
            self.on_playback_started(created_at=0.0)
        self._captured += frame.duration

    def flush(self) -> None:
        super().flush()
        if self._captured:
            self.playing.set()

    def finish(self) -> None:
        """Play the rest."""
        self._end(self._captured, interrupted=False)

    def clear_buffer(self) -> None:
        self._end(self.stops_after * WORD, interrupted=True)

    def _end(self, seconds: float, *, interrupted: bool) -> None:
        if not self._captured:
            return
        self._captured = 0.0
        self.playing.clear()
        words = self.text.split()
        if interrupted:
            words = words[: self.stops_after]
        self.on_playback_finished(
            playback_position=seconds,
            interrupted=interrupted,
            synchronized_transcript=" ".join(words) if self.knows_words else None,
        )


def aloud(loudspeaker: Loudspeaker) -> AgentSession[None]:
    """A session with a voice."""
    session = AgentSession[None](tts=Voice())
    session.output.audio = loudspeaker
    return session
