"""LiveKit's sessions with an NPC, and with its own model, at the same fake server.

    python -m benchmarks.frameworks.livekit_sessions ROUNDS
    {"first": [...], "their_first": [...], "stopped": [...], "their_stopped": [...],
     "hung": [...], "their_hung": [...]}

Times are seconds; null is never. Run by `benchmarks.livekit` in LiveKit's Python.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any, Final

from livekit.agents import Agent, AgentSession, function_tool
from livekit.agents.voice import io
from livekit.plugins import openai

import trio

from glyphoxa_trio import Config, Runtime, aio
from glyphoxa_trio.config import (
    CalibrationConfig,
    LlmConfig,
    McpConfig,
    NpcConfig,
    OverloadConfig,
    Provider,
    ServerSpec,
)
from glyphoxa_trio.host import Caller
from glyphoxa_trio.livekit import NpcAgent
from glyphoxa_trio.npc import ToolStarted, TurnEvent
from glyphoxa_trio.testing.model_server import (
    CallTools,
    Reply,
    SayText,
    open_model_server,
)
from glyphoxa_trio.tools.gate import EVERYTHING
from glyphoxa_trio.tools.outcome import ToolCall
from glyphoxa_trio.tools.tier import Tier

PATIENT: Final = Path(__file__).parents[1] / "servers" / "patient.py"
FIRST: Final = "The rain has not stopped for three days now."
ANSWER: Final = f"{FIRST} Sit down by the fire."
WORD: Final = 0.005  # seconds between the pieces of the model's answer
GIVES_UP: Final = 5.0  # seconds that a hung tool of theirs is waited for
STANDARD: Final = Tier.STANDARD


def answer(body: Mapping[str, Any]) -> Reply:
    """The model's: it calls the slow tool when it is asked to wait."""
    last = body["messages"][-1]
    tools = [tool["function"]["name"] for tool in body.get("tools", ())]
    slow = [name for name in tools if "slow" in name]
    if last["role"] != "tool" and slow and "wait" in str(last["content"]):
        return CallTools([(slow[0], {})])
    return SayText(ANSWER, every=WORD)


async def serve() -> None:
    """Serve the model, and print where, until stdin is closed."""
    async with open_model_server(answer) as server:
        print(server.base_url, flush=True)
        await trio.to_thread.run_sync(sys.stdin.read)


@asynccontextmanager
async def served() -> AsyncGenerator[str]:
    """The address of a model server in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __spec__.name, "serve"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.kill()
        await process.wait()


class FirstSentence(io.TextOutput):
    """Notes when the first sentence is there: it is whole, or the next one begins."""

    def __init__(self) -> None:
        super().__init__(label="first sentence", next_in_chain=None)
        self.begin()

    def begin(self) -> None:
        self.since, self.took, self.text = perf_counter(), 0.0, ""

    async def capture_text(self, text: str) -> None:
        self.text += text
        if not self.took and (". " in self.text or text == FIRST):
            self.took = perf_counter() - self.since

    def flush(self) -> None:
        pass


class Npc(NpcAgent):
    """Says when a tool has begun."""

    def __init__(self, npc: aio.Npc) -> None:
        super().__init__(npc)
        self.began = asyncio.Event()

    def on_turn_event(self, event: TurnEvent) -> None:
        if isinstance(event, ToolStarted):
            self.began.set()


class Theirs(Agent):
    """The same by LiveKit's own means."""

    def __init__(self, address: str) -> None:
        model = openai.LLM(model="scripted", base_url=address, api_key="none")
        super().__init__(instructions="You are Bo.", llm=model)
        self.began = asyncio.Event()
        self.stopped = asyncio.Event()

    @function_tool
    async def slow(self) -> str:
        """Wait."""
        self.began.set()
        try:
            await asyncio.sleep(2 * GIVES_UP)
        finally:
            self.stopped.set()
        return "awake"


def config(address: str) -> Config:
    npcs = (
        NpcConfig(
            name="Bo",
            tools=tuple(f"patient.slow_{at}" for at in range(4)),
            budget_tier=STANDARD,
            select_tier=False,
        ),
    )
    server = ServerSpec(
        name="patient",
        command=(sys.executable, str(PATIENT)),
        estimated_duration=0.1,
    )
    return Config(
        llm=LlmConfig(provider=Provider.OPENAI, model="scripted", base_url=address),
        npcs=npcs,
        mcp=McpConfig(servers=(server,), remember=False),
        calibration=CalibrationConfig(at_start=False),
        overload=OverloadConfig(enabled=False),
    )


@asynccontextmanager
async def session_of(agent: Agent) -> AsyncGenerator[AgentSession[None]]:
    async with AgentSession[None]() as session:
        session.output.transcription = FirstSentence()
        await session.start(agent)
        yield session


async def first(agent: Agent, session: AgentSession[None]) -> float:
    # As many turns as an NPC remembers: the context is sent, or at least copied.
    await agent.update_chat_ctx(agent.chat_ctx.copy().truncate(max_items=80))
    heard = session.output.transcription
    assert isinstance(heard, FirstSentence)
    heard.begin()
    await session.generate_reply(user_input="Who is there?")
    if not heard.took:
        raise RuntimeError(f"no sentence: {heard.text!r}")
    return heard.took


async def their_stop(agent: Theirs, session: AgentSession[None]) -> float | None:
    """Until their tool is cancelled, once the user has interrupted."""
    agent.began.clear()
    agent.stopped.clear()
    session.generate_reply(user_input="Please wait.")
    await agent.began.wait()
    since = perf_counter()
    session.interrupt()
    try:
        async with asyncio.timeout(GIVES_UP):
            await agent.stopped.wait()
    except TimeoutError:
        return None
    return perf_counter() - since


async def their_hang(session: AgentSession[None]) -> float | None:
    """Until their answer, while a tool hangs."""
    since = perf_counter()
    try:
        async with asyncio.timeout(GIVES_UP):
            await session.run(user_input="Please wait.")
    except TimeoutError:
        return None
    return perf_counter() - since


async def cancellations(runtime: Runtime) -> dict[str, float]:
    await trio.sleep(0.2)
    [outcome] = await runtime.host.fan_out(
        [ToolCall("1", "patient.cancellations", "{}")],
        Caller(grant=EVERYTHING, tier=Tier.DEEP),
        deadline=trio.current_time() + 2,
    )
    return outcome.data if isinstance(outcome.data, dict) else {}


async def measure(rounds: int) -> dict[str, list[float | None]]:
    found: dict[str, list[float | None]] = {
        "first": [],
        "their_first": [],
        "stopped": [],
        "their_stopped": [],
        "hung": [],
        "their_hung": [],
    }
    async with served() as address, aio.open_runtime(config(address)) as runtime:
        ours, theirs = Npc(runtime.npc("Bo")), Theirs(address)
        async with session_of(ours) as here, session_of(theirs) as there:
            for at in range(rounds + 5):
                took, their = await first(ours, here), await first(theirs, there)
                if at >= 5:  # the first of them warm up
                    found["first"].append(took)
                    found["their_first"].append(their)
            since = perf_counter()
            await here.run(user_input="Please wait.")
            found["hung"].append(perf_counter() - since)
            found["their_stopped"].append(await their_stop(theirs, there))
            for _ in range(max(2, rounds // 10)):
                ours.began.clear()
                here.generate_reply(user_input="Please wait.")
                await ours.began.wait()
                stopped = monotonic()
                await here.interrupt()
                told = await runtime.run(cancellations)
                found["stopped"].append(max(told.values()) - stopped)
        theirs = Theirs(address)
        async with session_of(theirs) as there:
            found["their_hung"].append(await their_hang(there))
    return found


def main() -> None:
    if sys.argv[1] == "serve":
        trio.run(serve)
    else:
        logging.disable(logging.ERROR)  # that theirs does not stop is measured
        print(json.dumps(asyncio.run(measure(int(sys.argv[1])))))


if __name__ == "__main__":
    main()
