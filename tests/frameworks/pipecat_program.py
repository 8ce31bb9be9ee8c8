"""What the tests of the adapter for Pipecat run, in the environment of that framework.

    PYTHONPATH=. tests/frameworks/.pipecat/bin/python \
        -m tests.frameworks.pipecat_program [NAME...]

Each scene is played in a real pipeline, and prints a line of JSON: its name, and what
happened. Nothing is judged here. The log of everything is printed at the end.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import attrs
from loguru import logger
from pipecat.adapters.llm.schemas.tools_schema import ToolsSchema
from pipecat.audio.turn.smart_turn.local_smart_turn_v3 import LocalSmartTurnAnalyzerV3
from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.frames.frames import (
    AggregatedTextFrame,
    BotStoppedSpeakingFrame,
    EndFrame,
    ErrorFrame,
    ExternalFunctionCallCancelFrame,
    ExternalFunctionCallInProgressFrame,
    ExternalFunctionCallResultFrame,
    Frame,
    FunctionCallCancelFrame,
    InterruptionFrame,
    LLMContextFrame,
    LLMFullResponseEndFrame,
    LLMRunFrame,
    MetricsFrame,
    TTSTextFrame,
    UserStartedSpeakingFrame,
    UserStoppedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.processors.audio.vad_processor import VADProcessor
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.services.llm_service import FunctionCallParams
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.tests.utils import SleepFrame, run_test
from pipecat.turns.user_start import (
    TranscriptionUserTurnStartStrategy,
    VADUserTurnStartStrategy,
)
from pipecat.turns.user_stop import (
    SpeechTimeoutUserTurnStopStrategy,
    TurnAnalyzerUserTurnStopStrategy,
)
from pipecat.turns.user_turn_processor import UserTurnProcessor
from pipecat.turns.user_turn_strategies import UserTurnStrategies
from pipecat.workers.runner import WorkerRunner

import trio

from glyphoxa_trio import Config, aio
from glyphoxa_trio.config import (
    CalibrationConfig,
    McpConfig,
    NpcConfig,
    OverloadConfig,
    ServerSpec,
    SpeculationConfig,
)
from glyphoxa_trio.pipecat import NpcProcessor
from glyphoxa_trio.providers.chat_completions import ChatCompletions
from glyphoxa_trio.providers.llm import ErrorKind, LLMError, LLMRequest
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.outcome import ToolCall
from glyphoxa_trio.tools.tier import Tier

from ..providers.spoken import spoken
from .pipecat_parts import (
    LIMIT,
    RATE,
    Loudspeaker,
    ScriptedModel,
    ScriptedRecognizer,
    Step,
    Voice,
    Watch,
    WordVoice,
    interim,
    speak,
    words,
)

SEER = Path(__file__).parents[1] / "cli" / "servers" / "seer.py"
MEASURED = PipelineParams(enable_metrics=True, enable_usage_metrics=True)
BEGIN, END = UserStartedSpeakingFrame, UserStoppedSpeakingFrame
ENDS_OF_CALLS = {"FunctionCallResultFrame", "FunctionCallCancelFrame"}
KEY = "sk-not-for-any-log-0123456789"
TURNS = {
    "UserStartedSpeakingFrame",
    "UserStoppedSpeakingFrame",
    "InterruptionFrame",
    "LLMFullResponseStartFrame",
    "LLMFullResponseEndFrame",
}
LONG = ("One is one.", "Two words are here.", "Three comes last.")


@attrs.define(eq=False)
class Diary:
    """What the seer tells of itself, with the time at which it was read."""

    path: Path
    lines: list[tuple[float, str]] = attrs.field(factory=list)

    def read(self) -> None:
        with os.fdopen(os.open(self.path, os.O_RDWR)) as pipe:
            for line in pipe:
                self.lines.append((time.perf_counter(), line.strip()))

    async def wait(self, text: str) -> float:
        async with asyncio.timeout(LIMIT):
            while True:
                for at, line in self.lines:
                    if line == text:
                        return at
                await asyncio.sleep(0.001)


def config(*npcs: NpcConfig, diary: Diary | None = None) -> Config:
    servers: tuple[ServerSpec, ...] = ()
    if diary is not None:
        command = (sys.executable, str(SEER), str(diary.path))
        servers = (ServerSpec(name="seer", command=command),)
    return Config(
        npcs=npcs or (NpcConfig(name="Greymantle"),),
        mcp=McpConfig(servers=servers, remember=False),
        calibration=CalibrationConfig(at_start=False),
        overload=OverloadConfig(enabled=False),
    )


@contextmanager
def diary() -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "diary"
        os.mkfifo(path)
        found = Diary(path)
        threading.Thread(target=found.read, daemon=True).start()
        yield found


def seer(request: LLMRequest) -> Sequence[Step]:
    """A model that ponders whenever it may, and else says three sentences."""
    last = request.messages[-1]
    if last.role == "user" and "ponder" in str(last):
        (name,) = [tool.name for tool in request.tools if "ponder" in tool.name]
        return [ToolCall("call", name)]
    return LONG


def plainly(_: LLMRequest) -> Sequence[Step]:
    return LONG


def history(request: LLMRequest) -> list[tuple[str, str]]:
    return [
        (x.name or x.role, x.content) for x in request.messages if x.role != "system"
    ]


@asynccontextmanager
async def running(*processors: FrameProcessor) -> AsyncGenerator[PipelineWorker]:
    worker = PipelineWorker(
        Pipeline(list(processors)), params=MEASURED, enable_rtvi=False
    )
    started = asyncio.Event()

    @worker.event_handler("on_pipeline_started")
    async def on_started(*_: Any) -> None:
        started.set()

    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    task = asyncio.create_task(runner.run())
    async with asyncio.timeout(LIMIT):
        await started.wait()
    try:
        yield worker
        await worker.queue_frame(EndFrame())
        async with asyncio.timeout(LIMIT):
            await task
    finally:
        task.cancel()


def names(frames: Sequence[Frame]) -> list[str]:
    return [type(frame).__name__ for frame in frames]


async def frames() -> dict[str, Any]:
    """A turn, and one that a transcription without a user turn makes."""
    model = ScriptedModel(plainly)
    async with aio.open_runtime(config(), llm=model) as runtime:
        npc = NpcProcessor(runtime.npc("Greymantle"))
        turn = [BEGIN(), words("What is"), words("one?"), END()]
        down, up = await run_test(npc, frames_to_send=turn, pipeline_params=MEASURED)
        alone = NpcProcessor(runtime.npc("Greymantle"))
        more, _ = await run_test(alone, frames_to_send=[words("And two?")])
    metrics = [
        x for frame in down if isinstance(frame, MetricsFrame) for x in frame.data
    ]
    return {
        "down": [x for x in names(down) if x != "MetricsFrame"],
        "up": names(up),
        "metrics": [type(x).__name__ for x in metrics if getattr(x, "value", 0)],
        "alone": names(more),
        "heard": history(model.requests[-1]),
    }


async def foreseen() -> dict[str, Any]:
    """A model that is asked while the user still speaks."""
    model = ScriptedModel(plainly)
    eager = attrs.evolve(config(), speculation=SpeculationConfig(enabled=True))
    async with aio.open_runtime(eager, llm=model) as runtime:
        npc = NpcProcessor(runtime.npc("Greymantle"))
        watch = Watch(npc)
        async with running(npc) as worker:
            worker.add_observer(watch)
            await worker.queue_frame(BEGIN())
            await worker.queue_frame(interim("What is"))
            await worker.queue_frame(words("What is one?"))
            await asyncio.sleep(0.6)
            early = len(model.requests)
            await worker.queue_frame(END())
            await watch.wait(LLMFullResponseEndFrame)
    return {"early": early, "in_all": len(model.requests)}


async def contexts() -> dict[str, Any]:
    """With the aggregators that bots of 1.x have, which send whole conversations."""
    model = ScriptedModel(plainly)
    greeting = NpcConfig(name="Greymantle", greeting="Welcome, stranger.")
    async with aio.open_runtime(config(greeting), llm=model) as runtime:
        npc, voice = NpcProcessor(runtime.npc("Greymantle"), speaker="Ann"), Voice()
        context = LLMContext()
        user, assistant = LLMContextAggregatorPair(
            context,
            user_params=LLMUserAggregatorParams(
                user_turn_strategies=UserTurnStrategies(
                    start=[TranscriptionUserTurnStartStrategy()],
                    stop=[SpeechTimeoutUserTurnStopStrategy()],
                )
            ),
        )
        out = Loudspeaker()
        heard = Watch(out)
        async with running(user, npc, voice, out, npc.heard, assistant) as worker:
            worker.add_observer(heard)
            await worker.queue_frame(LLMRunFrame())
            await heard.wait(BotStoppedSpeakingFrame)
            for count, text in enumerate(("What is one?", "And two?"), start=2):
                await worker.queue_frame(words(text))
                await heard.wait(BotStoppedSpeakingFrame, count)
    return {
        "heard": history(model.requests[-1]),
        "context": [(x["role"], x["content"]) for x in context.get_messages()],
    }


async def speakers() -> dict[str, Any]:
    """Two users in one user turn, an eager third, and more than may wait."""
    model = ScriptedModel(plainly)
    async with aio.open_runtime(config(), llm=model) as runtime:
        npc = NpcProcessor(runtime.npc("Greymantle"), names={"u-1": "Ann"})
        turn = [BEGIN(), words("I ask", "u-1"), words("And I?", "u-2"), END()]
        turn.insert(3, words("first.", "u-1"))
        await run_test(npc, frames_to_send=turn)
        said = history(model.requests[-1])
        many = NpcProcessor(runtime.npc("Greymantle"))
        crowd = [BEGIN(), *(words("I!", f"u-{n}") for n in range(10)), END()]
        _, up = await run_test(many, frames_to_send=crowd)
    return {"said": said, "errors": [x.error for x in up if isinstance(x, ErrorFrame)]}


async def scene() -> dict[str, Any]:
    """Words for one NPC of two, for the other, and for nobody."""
    model = ScriptedModel(plainly)
    npcs = NpcConfig(name="Bartok"), NpcConfig(name="Ysolde")
    async with aio.open_runtime(config(*npcs), llm=model) as runtime:
        npc = NpcProcessor(runtime.scene())
        sent: list[Frame] = []
        for text in ("Nice weather.", "Ysolde, are you there?", "Bartok, an ale!"):
            sent += [BEGIN(), words(text), END(), SleepFrame(0.3)]
        down, up = await run_test(npc, frames_to_send=sent)
    spoken_by = [x.metadata["npc"] for x in down if isinstance(x, AggregatedTextFrame)]
    return {
        "spoken_by": spoken_by,
        "errors": [x.error for x in up if isinstance(x, ErrorFrame)],
        "known": [history(request) for request in model.requests],
    }


async def another() -> dict[str, Any]:
    """A second NPC takes the first one's place while the call goes on."""
    npcs = NpcConfig(name="Bartok"), NpcConfig(name="Ysolde")
    async with aio.open_runtime(config(*npcs), llm=ScriptedModel(plainly)) as runtime:
        npc = NpcProcessor(runtime.npc("Bartok"))
        watch = Watch(npc)
        async with running(npc) as worker:
            worker.add_observer(watch)
            for count, name in enumerate(("Bartok", "Ysolde"), start=1):
                npc.npc = runtime.npc(name)
                for frame in (BEGIN(), words("Who are you?"), END()):
                    await worker.queue_frame(frame)
                await watch.wait(LLMFullResponseEndFrame, count)
    said = [x for _, x in watch.seen if isinstance(x, AggregatedTextFrame)]
    return {"spoken_by": [x.metadata["npc"] for x in said]}


async def aloud() -> dict[str, Any]:
    """A conversation by voice, with silero and smart turn; and what was heard of it."""
    pcm = [await trio_in_thread(text) for text in ("What is one?", "What comes now?")]
    model = ScriptedModel(plainly)
    async with aio.open_runtime(config(), llm=model) as runtime:
        stt = ScriptedRecognizer([("ann", "What is one?"), ("ann", "What comes now?")])
        npc, voice, out = (
            NpcProcessor(runtime.npc("Greymantle")),
            Voice(),
            Loudspeaker(),
        )
        turns = UserTurnProcessor(
            user_turn_strategies=UserTurnStrategies(
                start=[VADUserTurnStartStrategy()],
                stop=[
                    TurnAnalyzerUserTurnStopStrategy(
                        turn_analyzer=LocalSmartTurnAnalyzerV3()
                    )
                ],
            )
        )
        vad = VADProcessor(vad_analyzer=SileroVADAnalyzer())
        watch, heard = Watch(npc), Watch(out)
        async with running(vad, stt, turns, npc, voice, out, npc.heard) as worker:
            worker.add_observer(watch)
            worker.add_observer(heard)
            await speak(worker, pcm[0])
            await heard.wait(TTSTextFrame, 1)
            await speak(worker, pcm[1])  # while the second sentence is spoken
            await watch.wait(LLMFullResponseEndFrame, 2)
            await heard.wait(BotStoppedSpeakingFrame, 2)
            await asyncio.sleep(0.3)
            first = len(model.requests)
            await worker.queue_frame(BEGIN())
            await worker.queue_frame(words("And then?"))
            await worker.queue_frame(END())
            await watch.wait(LLMFullResponseEndFrame, 3)
    return {
        "frames": [x for x in watch.named() if x in TURNS],
        "first": history(model.requests[first - 1]),
        "last": history(model.requests[-1]),
        "said": [text for _, text in voice.said],
    }


async def by_words() -> dict[str, Any]:
    """A service that tells of every word, and an interruption inside of a sentence."""
    model = ScriptedModel(plainly)
    async with aio.open_runtime(config(), llm=model) as runtime:
        npc, voice, out = (
            NpcProcessor(runtime.npc("Greymantle")),
            WordVoice(),
            Loudspeaker(),
        )
        heard = Watch(out)
        async with running(npc, voice, out, npc.heard) as worker:
            worker.add_observer(heard)
            for text in ("What is one?", "And two?"):
                for frame in (BEGIN(), words(text), END()):
                    await worker.queue_frame(frame)
                if text == "What is one?":
                    await heard.wait(TTSTextFrame, 5)
                    await worker.queue_frame(InterruptionFrame())
                    await asyncio.sleep(0.1)
            await heard.wait(LLMFullResponseEndFrame)
    return {
        "heard": history(model.requests[-1]),
        "words": [x.text for _, x in heard.seen if isinstance(x, TTSTextFrame)],
    }


async def trio_in_thread(text: str) -> bytes:
    return await asyncio.to_thread(lambda: trio.run(spoken, text, RATE))


async def interrupted() -> dict[str, Any]:
    """A call at a server over stdio, and an interruption."""
    with diary() as told:
        conf = config(
            NpcConfig(
                name="Greymantle",
                tools=("seer.ponder",),
                budget_tier=Tier.DEEP,
                select_tier=False,
            ),
            diary=told,
        )
        async with aio.open_runtime(conf, llm=ScriptedModel(seer)) as runtime:
            await runtime.wait_ready(within=LIMIT)
            npc = NpcProcessor(runtime.npc("Greymantle"))
            watch = Watch(npc)
            async with running(npc) as worker:
                worker.add_observer(watch)
                for frame in (BEGIN(), words("please ponder"), END()):
                    await worker.queue_frame(frame)
                await told.wait("called ponder")
                await worker.queue_frame(InterruptionFrame())
                await told.wait("cancelled")
                await watch.wait(ExternalFunctionCallCancelFrame)
    return {"frames": watch.named()}


async def hung() -> dict[str, Any]:
    """A call that never ends, in a turn that may wait half a second."""
    with diary() as told:
        conf = config(
            NpcConfig(name="Greymantle", tools=("seer.ponder",), select_tier=False),
            diary=told,
        )
        async with aio.open_runtime(conf, llm=ScriptedModel(seer)) as runtime:
            await runtime.wait_ready(within=LIMIT)
            npc = NpcProcessor(runtime.npc("Greymantle"))
            watch = Watch(npc)
            async with running(npc) as worker:
                worker.add_observer(watch)
                for frame in (BEGIN(), words("please ponder"), END()):
                    await worker.queue_frame(frame)
                result = await watch.wait(ExternalFunctionCallResultFrame)
                await watch.wait(LLMFullResponseEndFrame)
    times = {type(frame): at for at, frame in reversed(watch.seen)}
    began = times[ExternalFunctionCallInProgressFrame]
    return {
        "status": result.result["status"],
        "ended_ms": 1000 * (times[ExternalFunctionCallResultFrame] - began),
        "spoken_ms": 1000 * (times[AggregatedTextFrame] - began),
        "said": [x.text for _, x in watch.seen if isinstance(x, AggregatedTextFrame)],
    }


async def theirs() -> dict[str, Any]:
    """The same call in the framework's own service, with a tool that never ends."""
    began = asyncio.Event()

    async def ponder(params: FunctionCallParams) -> None:
        """Ponder."""
        began.set()
        await asyncio.sleep(3600)

    command = (sys.executable, "-m", "benchmarks.servers.ponderer")
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().strip()
        model = OpenAILLMService(base_url=url, api_key="none")
        context = LLMContext(tools=ToolsSchema(standard_tools=[ponder]))
        context.add_message({"role": "user", "content": "please ponder"})
        watch = Watch(model)
        async with running(model) as worker:
            worker.add_observer(watch)
            await worker.queue_frame(LLMContextFrame(context))
            async with asyncio.timeout(LIMIT):
                await began.wait()
            await asyncio.sleep(3)
            ended = [x for x in watch.named() if x in ENDS_OF_CALLS]
            await worker.queue_frame(InterruptionFrame())
            await watch.wait(FunctionCallCancelFrame)
    finally:
        process.terminate()
        await process.wait()
    return {"ended_after_3_s": ended}


async def away() -> dict[str, Any]:
    """A model at an address where there is none, and one that refuses the key."""
    gone = ChatCompletions(
        model="m", base_url="http://127.0.0.1:9/v1", api_key=Secret(KEY)
    )
    async with aio.open_runtime(config(), llm=gone) as runtime:
        npc = NpcProcessor(runtime.npc("Greymantle"))
        turn = [BEGIN(), words("Who is there?"), END()]
        down, up = await run_test(npc, frames_to_send=turn)
        usable = npc.is_usable
    errors = [x for x in up if isinstance(x, ErrorFrame)]
    return {
        "down": names(down),
        "said": [x.text for x in down if isinstance(x, AggregatedTextFrame)],
        "errors": [(x.category.value, x.error) for x in errors],
        "usable": usable,
    }


async def refused() -> dict[str, Any]:
    """A key that is refused, and then is not."""
    steps: list[Step] = [LLMError(ErrorKind.AUTHENTICATION, "no such key"), LONG[0]]
    usable: list[bool] = []
    model = ScriptedModel(lambda _: [steps.pop(0)])
    async with aio.open_runtime(config(), llm=model) as runtime:
        npc = NpcProcessor(runtime.npc("Greymantle"))
        watch = Watch(npc)
        async with running(npc) as worker:
            worker.add_observer(watch)
            for count in (1, 2):
                for frame in (BEGIN(), words("Who is there?"), END()):
                    await worker.queue_frame(frame)
                await watch.wait(LLMFullResponseEndFrame, count)
                await asyncio.sleep(0.1)
                usable.append(npc.is_usable)
    said = [x.text for _, x in watch.seen if isinstance(x, AggregatedTextFrame)]
    return {"usable": usable, "said": said[1:]}


async def closed() -> dict[str, Any]:
    """The runtime has ended, and the pipeline goes on."""
    async with aio.open_runtime(config(), llm=ScriptedModel(plainly)) as runtime:
        npc = NpcProcessor(runtime.npc("Greymantle"))
    _, up = await run_test(npc, frames_to_send=[BEGIN(), words("Hello?"), END()])
    return {
        "errors": [x.error for x in up if isinstance(x, ErrorFrame)],
        "usable": npc.is_usable,
    }


SCENES: dict[str, Callable[[], Awaitable[dict[str, Any]]]] = {
    scene.__name__: scene
    for scene in (
        frames,
        contexts,
        foreseen,
        speakers,
        scene,
        another,
        aloud,
        by_words,
        interrupted,
        hung,
        theirs,
        away,
        refused,
        closed,
    )
}


async def main(chosen: Sequence[str]) -> None:
    for name in chosen or SCENES:
        try:
            async with asyncio.timeout(4 * LIMIT):
                found = await SCENES[name]()
        except Exception:  # the others are played all the same
            found = {"failed": traceback.format_exc()}
        print(json.dumps({"scene": name, **found}), flush=True)


if __name__ == "__main__":
    log = io.StringIO()
    logger.remove()
    logger.add(log, level="TRACE", backtrace=True, diagnose=True)
    try:
        asyncio.run(main(sys.argv[1:]))
    finally:
        sys.stderr.write(log.getvalue())
