"""The parts of pipelines in the tests: real ones of Pipecat's base classes, with a
script in place of a vendor. These run in the environment of that framework only."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import attrs
from pipecat.frames.frames import (
    Frame,
    InputAudioRawFrame,
    InterimTranscriptionFrame,
    OutputAudioRawFrame,
    StartFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
)
from pipecat.observers.base_observer import BaseObserver, FramePushed
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.stt_service import SegmentedSTTService
from pipecat.services.tts_service import TTSService
from pipecat.transports.base_output import BaseOutputTransport
from pipecat.transports.base_transport import TransportParams
from pipecat.utils.time import time_now_iso8601

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

Step = str | ToolCall | Exception
RATE = 16_000
LIMIT = 40.0  # seconds; a scene that goes well comes nowhere near it
FRAME = 0.02  # seconds of a microphone's frame
WORD = 0.1  # seconds that the voice takes for a word


def words(text: str, user: str = "ann") -> TranscriptionFrame:
    return TranscriptionFrame(text, user, time_now_iso8601())


def interim(text: str, user: str = "ann") -> InterimTranscriptionFrame:
    return InterimTranscriptionFrame(text, user, time_now_iso8601())


@attrs.define(eq=False)
class ScriptedModel:
    """Answers at once: texts are sentences, calls are made, and errors raised."""

    reply: Callable[[LLMRequest], Sequence[Step]]
    requests: list[LLMRequest] = attrs.field(factory=list)
    label: str = "scripted"

    def stream(
        self, request: LLMRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[LLMEvent]]:
        self.requests.append(request)
        return self._stream(self.reply(request))

    @asynccontextmanager
    async def _stream(
        self, steps: Sequence[Step]
    ) -> AsyncGenerator[AsyncIterator[LLMEvent]]:
        yield self._events(steps)

    async def _events(self, steps: Sequence[Step]) -> AsyncIterator[LLMEvent]:
        calls = False
        for step in steps:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, ToolCall):
                calls = True
                yield CallReady(step)
            else:
                yield TextChunk(step + " ")
        reason = FinishReason.TOOL_CALLS if calls else FinishReason.STOP
        yield Finished(reason=reason, usage=Usage(input_tokens=12, output_tokens=5))


class ScriptedRecognizer(SegmentedSTTService):
    """Understands one line of its script in each segment of speech."""

    def __init__(self, lines: Sequence[tuple[str, str]]) -> None:
        super().__init__(sample_rate=RATE)
        self._lines = list(lines)

    async def run_stt(self, audio: bytes) -> AsyncGenerator[Frame]:
        user, text = self._lines.pop(0)
        frame = words(text, user)
        frame.finalized = True
        yield frame


class Voice(TTSService):
    """Takes a tenth of a second for a word; ``said`` are the texts it was given."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            sample_rate=RATE,
            push_start_frame=True,
            push_stop_frames=True,
            stop_frame_timeout_s=0.2,
            **options,
        )
        self.said: list[tuple[float, str]] = []

    async def run_tts(self, text: str, context_id: str) -> AsyncGenerator[Frame]:
        self.said.append((time.perf_counter(), text))
        loud = b"\x00\x20" * round(RATE * WORD)
        for _ in text.split():
            yield TTSAudioRawFrame(loud, RATE, 1, context_id=context_id)


class WordVoice(Voice):
    """Tells when it says each word, as the services of many vendors do."""

    def __init__(self) -> None:
        super().__init__(push_text_frames=False)

    async def run_tts(self, text: str, context_id: str) -> AsyncGenerator[Frame]:
        if not self.said:
            await self.start_word_timestamps()
        begun = sum(len(said.split()) for _, said in self.said) * WORD
        async for frame in super().run_tts(text, context_id):
            yield frame
        times = [(word, begun + n * WORD) for n, word in enumerate(text.split())]
        await self.add_word_timestamps(times, context_id)


class Loudspeaker(BaseOutputTransport):
    """Plays in real time, to nobody."""

    def __init__(self) -> None:
        super().__init__(
            TransportParams(audio_out_enabled=True, audio_out_sample_rate=RATE)
        )

    async def start(self, frame: StartFrame) -> None:
        await super().start(frame)
        await self.set_transport_ready(frame)

    async def write_audio_frame(self, frame: OutputAudioRawFrame) -> bool:
        await asyncio.sleep(len(frame.audio) / 2 / RATE)
        return True


class Watch(BaseObserver):
    """All frames that a processor has pushed downstream, with their times."""

    def __init__(self, source: FrameProcessor) -> None:
        super().__init__()
        self._source = source
        self.seen: list[tuple[float, Frame]] = []

    async def on_push_frame(self, data: FramePushed) -> None:
        down = data.direction is FrameDirection.DOWNSTREAM
        if data.source is self._source and down:
            self.seen.append((time.perf_counter(), data.frame))

    def named(self) -> list[str]:
        return [type(frame).__name__ for _, frame in self.seen]

    async def wait(self, kind: type[Frame], count: int = 1) -> Any:
        """Return the frame of that kind, of which there are ``count`` before long."""
        async with asyncio.timeout(LIMIT):
            while True:
                found = [frame for _, frame in self.seen if isinstance(frame, kind)]
                if len(found) >= count:
                    return found[count - 1]
                await asyncio.sleep(0.005)


async def speak(worker: PipelineWorker, pcm: bytes) -> None:
    """Give audio to a pipeline as a microphone does."""
    size = round(RATE * FRAME) * 2
    for at in range(0, len(pcm), size):
        piece = pcm[at : at + size].ljust(size, b"\0")
        await worker.queue_frame(InputAudioRawFrame(piece, RATE, 1))
        await asyncio.sleep(FRAME)
