"""A bot of Pipecat with an NPC where its language model would stand.

    python docs/examples/pipecat/bot.py

The NPC answers two written lines. In a call, put the transport, the STT and the TTS
service where the comments are.
"""

import asyncio
from pathlib import Path

from pipecat.frames.frames import (
    AggregatedTextFrame,
    EndFrame,
    LLMRunFrame,
    TranscriptionFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.utils.time import time_now_iso8601
from pipecat.workers.runner import WorkerRunner

from glyphoxa_trio import aio
from glyphoxa_trio.pipecat import NpcProcessor


async def main() -> None:
    async with aio.open_runtime(Path(__file__).with_name("npcs.yaml")) as runtime:
        npc = NpcProcessor(runtime.npc("Greymantle"))
        # Pipeline([transport.input(), VADProcessor(...), stt, UserTurnProcessor(),
        #           npc, tts, transport.output(), npc.heard])
        worker = PipelineWorker(Pipeline([npc, npc.heard]), enable_rtvi=False)
        worker.set_reached_downstream_filter((AggregatedTextFrame,))

        @worker.event_handler("on_frame_reached_downstream")
        async def show(_: PipelineWorker, frame: AggregatedTextFrame) -> None:
            print(f"{frame.metadata['npc']}: {frame.text}")

        said = TranscriptionFrame("What does blinded mean?", "ann", time_now_iso8601())
        await worker.queue_frames([LLMRunFrame(), said, EndFrame()])
        runner = WorkerRunner()
        await runner.add_workers(worker)
        await runner.run()


if __name__ == "__main__":
    asyncio.run(main())
