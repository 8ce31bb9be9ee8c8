"""A worker as a process of its own: ``python -m benchmarks.stress.cluster_worker NATS
STORE``. It prints its name once it serves; SIGTERM drains it, and it prints that.

The runtime in it, and its model, are also those that `benchmarks.cluster` runs in
process.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import trio

from benchmarks.turn import look_up
from glyphoxa_trio import Config, Runtime, open_runtime
from glyphoxa_trio.cluster import serve
from glyphoxa_trio.config import (
    BuiltinConfig,
    CalibrationConfig,
    McpConfig,
    NpcConfig,
    OverloadConfig,
)
from glyphoxa_trio.config.builtin import MemoryToolsConfig, SessionsToolsConfig
from glyphoxa_trio.config.memory import MemoryConfig, RecallConfig
from glyphoxa_trio.memory.opening import open_memory
from glyphoxa_trio.memory.postgres import open_postgres
from glyphoxa_trio.nats import open_nats
from glyphoxa_trio.providers.llm import (
    CallReady,
    Finished,
    LLMEvent,
    LLMRequest,
    TextChunk,
)
from glyphoxa_trio.tools.outcome import ToolCall

# What is said, by what it has the model do.
PLAIN = "Good evening! What is new?"
TOOLS = "Look it up, in three places!"
SLOWLY = "Tell me slowly."
HOW_OFTEN = "How often did I speak?"

SLOW = 2.0  # seconds
CALLS = 3

CONFIG = Config(
    npcs=(NpcConfig(name="Bo", tools=("look_up",)),),
    mcp=McpConfig(remember=False),
    calibration=CalibrationConfig(at_start=False),
    overload=OverloadConfig(enabled=False),  # a turn that is refused costs little
    # Turns are kept, and models are told nothing from memory.
    memory=MemoryConfig(
        recall=RecallConfig(total=0),
        afterwards=False,
    ),
    builtin=BuiltinConfig(
        memory=MemoryToolsConfig(enabled=False),
        sessions=SessionsToolsConfig(enabled=False),
    ),
)


class Model:
    """Answers at once, unless it is asked to take its time."""

    label = "at once"

    @asynccontextmanager
    async def stream(
        self, request: LLMRequest
    ) -> AsyncIterator[AsyncIterator[LLMEvent]]:
        yield self._events(request)

    async def _events(self, request: LLMRequest) -> AsyncIterator[LLMEvent]:
        last = request.messages[-1]
        said = str(last.content)
        if last.role == "user" and said.endswith(TOOLS):
            for number in range(CALLS):
                arguments = f'{{"term": "page {number}"}}'
                yield CallReady(ToolCall(f"c{number}", "look_up", arguments))
        elif said.endswith(SLOWLY):
            yield TextChunk("One moment. ")
            await trio.sleep(SLOW)
            yield TextChunk("There.")
        elif said.endswith(HOW_OFTEN):
            yield TextChunk(f"{sum(x.role == 'user' for x in request.messages)} times.")
        else:
            yield TextChunk("Well met, traveller.")
        yield Finished()


def in_database(store: str) -> bool:
    return "dbname=" in store


@asynccontextmanager
async def opened(store: str) -> AsyncGenerator[Runtime]:
    """Run the runtime with a memory, a file or psycopg's address of a database; or
    without one ("")."""
    if not store:
        async with open_runtime(
            CONFIG, llm=Model(), tools=[look_up], collector="settle"
        ) as runtime:
            yield runtime
        return
    async with (
        (open_postgres if in_database(store) else open_memory)(store) as memory,
        open_runtime(
            CONFIG, llm=Model(), tools=[look_up], collector="settle", memory=memory
        ) as runtime,
    ):
        yield runtime


async def main(nats_url: str, store: str) -> None:
    async with (
        opened(store) as runtime,
        open_nats(nats_url) as nats,
        serve(runtime, nats) as worker,
    ):
        with trio.open_signal_receiver(signal.SIGTERM) as signals:
            print(worker.name, flush=True)
            async for _ in signals:
                await worker.drained()
                print("drained", flush=True)
                return


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2])
