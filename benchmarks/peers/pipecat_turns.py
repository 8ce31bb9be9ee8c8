"""Turns in pipelines of Pipecat, with its own model and with an NPC in its place.

    tests/frameworks/.pipecat/bin/python -m benchmarks.peers.pipecat_turns TURNS

Prints one line of JSON; times are seconds. Both ask the same model server over HTTP, in
turns. ``ours`` and ``theirs`` are the times from the end of the user turn until the
first sentence has left the model's processor, ``voice`` until the TTS service is given
it, at the end of forty turns; ``new``: the same in the second turn of a conversation.
``told``: from the interruption until a running tool knows of it, ours at a server
over stdio and on its clock, theirs in a function of this process. ``hung``: until a
call of a tool that never ends is over, at most `PATIENCE`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from loguru import logger
from pipecat.adapters.llm.schemas.tools_schema import ToolsSchema
from pipecat.frames.frames import (
    EndFrame,
    ExternalFunctionCallInProgressFrame,
    ExternalFunctionCallResultFrame,
    Frame,
    FunctionCallInProgressFrame,
    FunctionCallResultFrame,
    InterruptionFrame,
    LLMContextFrame,
    LLMFullResponseEndFrame,
    TextFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
    UserStartedSpeakingFrame,
    UserStoppedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.llm_service import FunctionCallParams
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.services.tts_service import TTSService
from pipecat.utils.time import time_now_iso8601
from pipecat.workers.runner import WorkerRunner

from glyphoxa_trio import Config, aio
from glyphoxa_trio.config import CalibrationConfig, McpConfig, NpcConfig, ServerSpec
from glyphoxa_trio.pipecat import NpcProcessor
from glyphoxa_trio.providers.chat_completions import ChatCompletions
from glyphoxa_trio.runtime import Runtime
from glyphoxa_trio.tools.outcome import Outcome
from glyphoxa_trio.tools.tier import Tier

PATIENT: Final = Path(__file__).parents[1] / "servers" / "patient.py"
PATIENCE: Final = 5.0  # seconds
CALLS: Final = 10  # of which each has a tool of its own
LIMIT: Final = 20.0
QUESTION: Final = "Is it one?"
REMEMBERED: Final = 80  # messages, as many as an NPC sends with a request
RATE: Final = 16_000
OVER: Final = ExternalFunctionCallResultFrame | FunctionCallResultFrame
RUNS: Final = ExternalFunctionCallInProgressFrame | FunctionCallInProgressFrame


async def soon(event: asyncio.Event) -> None:
    async with asyncio.timeout(LIMIT):
        await event.wait()


class Ear(FrameProcessor):
    """Behind a model: when its first sentence has come, and what becomes of calls."""

    def __init__(self) -> None:
        super().__init__()
        self.forget()

    def forget(self) -> None:
        self.text, self.sentence = "", 0.0
        self.over, self.runs, self.ended = (asyncio.Event() for _ in range(3))

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, TextFrame):
            self.text += frame.text
            if "." in self.text and not self.sentence:
                self.sentence = time.monotonic()
        elif isinstance(frame, LLMFullResponseEndFrame):
            self.over.set()
        elif isinstance(frame, RUNS):
            self.runs.set()
        elif isinstance(frame, OVER):
            self.ended.set()
        await self.push_frame(frame, direction)


class Mouth(TTSService):
    """Notes when it is given the first sentence, and says next to nothing."""

    def __init__(self) -> None:
        super().__init__(sample_rate=RATE, push_start_frame=True, push_stop_frames=True)
        self.forget()

    def forget(self) -> None:
        self.given, self.first = 0.0, asyncio.Event()

    async def run_tts(self, text: str, context_id: str) -> AsyncGenerator[Frame]:
        self.given = self.given or time.monotonic()
        self.first.set()
        yield TTSAudioRawFrame(bytes(RATE // 50), RATE, 1, context_id=context_id)


class Line:
    """A pipeline that runs, with a model of either kind."""

    def __init__(self, model: FrameProcessor, user: str = "ann") -> None:
        self.model, self.user = model, user
        self.ear, self.mouth = Ear(), Mouth()
        pipeline = Pipeline([model, self.ear, self.mouth])
        self.worker = PipelineWorker(
            pipeline, enable_rtvi=False, cancel_on_idle_timeout=False
        )
        self.context = LLMContext()
        self.history: list[dict[str, str]] = []
        self.theirs = isinstance(model, OpenAILLMService)

    async def ask(self, text: str) -> float:
        """End a user turn; return when."""
        self.ear.forget()
        self.mouth.forget()
        begun = time.monotonic()
        if self.theirs:
            said = {"role": "user", "content": text}
            self.context.set_messages([*self.history, said])
            await self.worker.queue_frame(LLMContextFrame(self.context))
        else:
            heard = TranscriptionFrame(text, self.user, time_now_iso8601())
            await self.worker.queue_frame(UserStartedSpeakingFrame())
            await self.worker.queue_frame(heard)
            await self.worker.queue_frame(UserStoppedSpeakingFrame())
        return begun

    async def turn(self) -> tuple[float, float]:
        begun = await self.ask(QUESTION)
        await soon(self.ear.over)
        await soon(self.mouth.first)
        self.history += (
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": self.ear.text},
        )
        del self.history[:-REMEMBERED]
        await asyncio.sleep(0.02)
        return self.ear.sentence - begun, self.mouth.given - begun

    async def interrupt(self) -> float:
        at = time.monotonic()
        await self.worker.queue_frame(InterruptionFrame())
        return at

    async def hang(self, text: str) -> float:
        await self.ask(text)
        await soon(self.ear.runs)
        begun = time.monotonic()
        try:
            await asyncio.wait_for(self.ear.ended.wait(), PATIENCE)
        except TimeoutError:
            return PATIENCE
        return time.monotonic() - begun


@asynccontextmanager
async def running(*lines: Line) -> AsyncGenerator[None]:
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(*(line.worker for line in lines))
    task = asyncio.create_task(runner.run())
    try:
        await asyncio.sleep(0.5)
        yield
        for line in lines:
            await line.worker.queue_frame(EndFrame())
        async with asyncio.timeout(LIMIT):
            await task
    finally:
        task.cancel()


async def cancellations(runtime: Runtime) -> Outcome:
    return await runtime.host.execute("patient.cancellations", {})


async def measure(url: str, turns: int) -> dict[str, Any]:
    cancelled: list[float] = []

    async def ponder(params: FunctionCallParams) -> None:
        """Ponder."""
        try:
            await asyncio.sleep(3600)
        finally:
            cancelled.append(time.monotonic())

    spec = ServerSpec(name="patient", command=(sys.executable, str(PATIENT)))
    quick = NpcConfig(name="Quick", tools=("patient.slow_39",), select_tier=False)
    deep = NpcConfig(
        name="Deep",
        tools=tuple(f"patient.slow_{at}" for at in range(CALLS)),
        select_tier=False,
        budget_tier=Tier.DEEP,
    )
    config = Config(
        npcs=(NpcConfig(name="Plain"), quick, deep),
        mcp=McpConfig(servers=(spec,), remember=False),
        calibration=CalibrationConfig(at_start=False),
    )
    found: dict[str, Any] = {
        key: []
        for key in (
            *("ours", "theirs", "voice", "their_voice"),
            *("new", "their_new", "told", "their_told"),
        )
    }
    model = ChatCompletions(model="scripted", base_url=url)
    async with aio.open_runtime(config, llm=model) as runtime:
        await runtime.wait_ready(within=LIMIT)
        own = Line(OpenAILLMService(base_url=url, api_key="none"))
        npc, slow, hung = (
            Line(NpcProcessor(runtime.npc(name))) for name in ("Plain", "Deep", "Quick")
        )
        async with running(own, npc, slow, hung):
            for at in range(turns + 5):
                theirs, their_voice = await own.turn()
                ours, voice = await npc.turn()
                if at >= 5:  # the first of them warm up
                    found["ours"].append(ours)
                    found["theirs"].append(theirs)
                    found["voice"].append(voice)
                    found["their_voice"].append(their_voice)
            processor = npc.model
            assert isinstance(processor, NpcProcessor)
            for at in range(max(5, turns // 4)):
                processor.npc = runtime.session(f"{at}").npc("Plain")
                own.history.clear()
                for line in (own, npc):
                    await line.turn()  # of the NPC's, it begins the session
                found["their_new"].append((await own.turn())[1])
                found["new"].append((await npc.turn())[1])
            own.context.set_tools(ToolsSchema(standard_tools=[ponder]))
            for at in range(CALLS):
                await slow.ask(f"use slow_{at}")
                await soon(slow.ear.runs)
                await asyncio.sleep(0.1)
                begun = await slow.interrupt()
                await asyncio.sleep(0.2)
                told = (await runtime.run(cancellations)).data
                found["told"].append(_times(told)[f"slow_{at}"] - begun)
                await own.ask("please ponder")
                await soon(own.ear.runs)
                await asyncio.sleep(0.1)
                begun = await own.interrupt()
                await asyncio.sleep(0.2)
                found["their_told"].append(cancelled[-1] - begun)
            found["hung"] = await hung.hang("use slow_39")
            found["their_hung"] = await own.hang("please ponder")
            await own.interrupt()
    return found


def _times(data: Any) -> dict[str, float]:
    """The answer of `cancellations`, which is JSON in a text."""
    times: dict[str, float] = json.loads(data) if isinstance(data, str) else data
    return times


async def main(turns: int) -> None:
    command = (sys.executable, "-m", "benchmarks.servers.ponderer")
    server = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
    assert server.stdout is not None
    try:
        url = (await server.stdout.readline()).decode().strip()
        print(json.dumps(await measure(url, turns)))
    finally:
        server.terminate()
        await server.wait()


if __name__ == "__main__":
    logger.remove()  # as in production, where nobody reads its debug lines
    asyncio.run(main(int(sys.argv[1])))
