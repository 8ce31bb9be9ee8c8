"""NPCs in LiveKit's own sessions: what happens, as JSON; run by `test_livekit.py`.

    python -m tests.frameworks.livekit_cases [NAME ...]

Each line is what one case saw. This needs LiveKit, which has a Python of its own.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from io import StringIO
from pathlib import Path
from time import monotonic
from typing import Any, Final

from livekit.agents import (
    AgentSession,
    ErrorEvent,
    UserInputTranscribedEvent,
    function_tool,
)
from livekit.agents.metrics import LLMMetrics

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
    SpeculationConfig,
    TurnConfig,
)
from glyphoxa_trio.host import Caller
from glyphoxa_trio.livekit import NpcAgent
from glyphoxa_trio.npc import (
    SpeculationDone,
    ToolFinished,
    ToolStarted,
    TurnDone,
    TurnEvent,
)
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.gate import EVERYTHING
from glyphoxa_trio.tools.outcome import ToolCall
from glyphoxa_trio.tools.tier import Tier

from .livekit_fakes import Loudspeaker, Model, aloud

LIMIT: Final = 60.0  # seconds for one case, at the very most
PATIENT: Final = Path(__file__).parents[2] / "benchmarks" / "servers" / "patient.py"
KEY: Final = "sk-not-to-be-seen-0123456789"
WORDS: Final = "The rain has not stopped. Sit down by the fire."


def reply(request: LLMRequest) -> str | ToolCall:
    last = request.messages[-1]
    if last.role == "tool":
        return "That took its time."
    if "wait" in last.content and request.tools:
        [tool] = [x.name for x in request.tools if x.name.endswith("slow_0")]
        return ToolCall("call", tool, "{}")
    return WORDS


def config(*names: str, **more: Any) -> Config:
    npcs = tuple(
        NpcConfig(
            name=name,
            tools=("patient.slow_0",),
            budget_tier=Tier.DEEP,
            select_tier=False,
        )
        for name in names or ("Bo",)
    )
    server = ServerSpec(
        name="patient",
        command=(sys.executable, str(PATIENT)),
        estimated_duration=2.0,  # so that a filler is said meanwhile
    )
    more.setdefault("npcs", npcs)
    return Config(
        mcp=McpConfig(servers=(server,), remember=False),
        calibration=CalibrationConfig(at_start=False),
        overload=OverloadConfig(enabled=False),
        **more,
    )


class Agent(NpcAgent):
    """Keeps the events of its turns."""

    def __init__(self, npc: aio.Npc | aio.Scene, **options: Any) -> None:
        super().__init__(npc, **options)
        self.events: list[TurnEvent] = []
        self.came = asyncio.Event()

    def on_turn_event(self, event: TurnEvent) -> None:
        self.events.append(event)
        self.came.set()

    async def until(self, kind: type[TurnEvent], count: int = 1) -> None:
        while len(self.of(kind)) < count:
            self.came.clear()
            await self.came.wait()

    def of(self, kind: type[TurnEvent]) -> list[Any]:
        return [x for x in self.events if isinstance(x, kind)]


@asynccontextmanager
async def playing(
    agent: Agent, session: AgentSession[None] | None = None
) -> AsyncGenerator[AgentSession[None]]:
    async with session or AgentSession[None]() as here:
        await here.start(agent)
        yield here


async def text() -> dict[str, Any]:
    """Two questions, by their own harness."""
    model = Model(reply)
    async with aio.open_runtime(config(), llm=model) as runtime:
        agent = Agent(runtime.npc("Bo"))
        async with playing(agent) as session:
            measured: list[LLMMetrics] = []
            session.on("metrics_collected", lambda x: measured.append(x.metrics))
            result = await session.run(user_input="Who is there?")
            message = result.expect.next_event().is_message(role="assistant")
            result.expect.no_more_events()
            await session.run(user_input="And now?")
            # Asked again for an answer to the same words, it has none.
            await session.generate_reply()
            history = [[x.role, x.text_content] for x in session.history.messages()]
            [used] = session.usage.model_usage
            first = measured[0]
    return {
        "used": [used.model, used.input_tokens, used.output_tokens],
        "times": [first.ttft, first.duration],
        "said": message.event().item.text_content,
        "turns": len(agent.of(TurnDone)),
        "told": model.told,
        "history": history,
        "model": agent.llm.model if agent.llm else "",
    }


async def greeting() -> dict[str, Any]:
    npcs = (NpcConfig(name="Bo", greeting="Welcome, stranger."),)
    model = Model(reply)
    async with aio.open_runtime(config(npcs=npcs), llm=model) as runtime:
        async with AgentSession[None]() as session:
            started = await session.start(Agent(runtime.npc("Bo")), capture_run=True)
            message = started.expect.next_event(type="message")
            await session.run(user_input="Thank you.")
    return {"said": message.event().item.text_content, "told": model.told}


async def _cut(*, knows_words: bool) -> dict[str, Any]:
    model = Model(reply)
    async with aio.open_runtime(config(), llm=model) as runtime:
        loudspeaker = Loudspeaker(knows_words=knows_words)
        agent = Agent(runtime.npc("Bo"))
        async with playing(agent, aloud(loudspeaker)) as session:
            loudspeaker.text, loudspeaker.stops_after = WORDS, 7
            session.generate_reply(user_input="Who is there?")
            await loudspeaker.playing.wait()
            await session.interrupt()
            loudspeaker.text, loudspeaker.stops_after = WORDS, 0
            reply_ = session.generate_reply(user_input="Go on.")
            await loudspeaker.playing.wait()
            loudspeaker.finish()
            await reply_
            after_cut = model.told
            session.generate_reply(user_input="Well?")
            await loudspeaker.playing.wait()
            await session.interrupt()
            reply_ = session.generate_reply(user_input="Hello?")
            await loudspeaker.playing.wait()
            loudspeaker.finish()
            await reply_
    return {"after_cut": after_cut, "after_nothing": model.told}


async def cut() -> dict[str, Any]:
    """Playback stops after seven words, then not at all, then before the first."""
    return await _cut(knows_words=True)


async def cut_by_time() -> dict[str, Any]:
    """The same with a loudspeaker that knows only for how long it has played."""
    return await _cut(knows_words=False)


async def interrupted_tool() -> dict[str, Any]:
    """The user interrupts while a tool runs in a server of its own."""
    async with aio.open_runtime(config(), llm=Model(reply)) as runtime:
        agent = Agent(runtime.npc("Bo"))
        async with playing(agent, aloud(Loudspeaker())) as session:
            session.generate_reply(user_input="Please wait.")
            await agent.until(ToolStarted)
            since = monotonic()
            session.interrupt()
            await agent.until(TurnDone)
            told = await runtime.run(_cancellations)
    return {
        "end": agent.of(TurnDone)[0].end,
        "status": agent.of(ToolFinished)[0].outcome.status,
        "told_after": told["slow_0"] - since,
    }


async def _cancellations(runtime: Runtime) -> dict[str, float]:
    """When the server was told to stop its tools, on the monotonic clock."""
    [outcome] = await runtime.host.fan_out(
        [ToolCall("1", "patient.cancellations", "{}")],
        Caller(grant=EVERYTHING, tier=Tier.DEEP),
        deadline=trio.current_time() + 4,
    )
    return outcome.data if isinstance(outcome.data, dict) else {}


async def hung_tool() -> dict[str, Any]:
    """A tool that hangs ends with the turn's time for tools, and there is an answer."""
    async with aio.open_runtime(config(), llm=Model(reply)) as runtime:
        agent = Agent(runtime.npc("Bo"))
        async with playing(agent) as session:
            result = await session.run(user_input="Please wait.")
            message = result.expect.next_event().is_message(role="assistant")
    [done] = agent.of(TurnDone)
    return {
        "said": message.event().item.text_content,
        "status": agent.of(ToolFinished)[0].outcome.status,
        "tools": done.timings.tools,
    }


async def away() -> dict[str, Any]:
    """The model's server is not there. The key must be in no line of any log."""
    log = StringIO()
    logging.basicConfig(stream=log, level=logging.DEBUG, force=True)
    llm = LlmConfig(
        provider=Provider.OPENAI,
        model="away",
        base_url="http://127.0.0.1:9/v1",
        api_key=Secret(KEY),
    )
    turn = TurnConfig(fallback=("My thoughts wandered off.",))
    async with aio.open_runtime(config(llm=llm, turn=turn)) as runtime:
        agent = Agent(runtime.npc("Bo"))
        errors: list[ErrorEvent] = []
        async with playing(agent) as session:
            session.on("error", errors.append)
            result = await session.run(user_input="Who is there?")
            message = result.expect.next_event().is_message(role="assistant")
    [done] = agent.of(TurnDone)
    return {
        "errors": [[str(x.error.error), x.error.recoverable] for x in errors],
        "said": message.event().item.text_content,
        "end": done.end,
        "error": done.error,
        "logged": bool(log.getvalue()),
        "key_seen": KEY in f"{log.getvalue()} {agent.events!r} {errors!r}",
    }


async def closed() -> dict[str, Any]:
    """The runtime has ended, and the session goes on."""
    async with aio.open_runtime(config(), llm=Model(reply)) as runtime:
        agent = Agent(runtime.npc("Bo"))
    async with playing(agent) as session:
        try:
            await session.run(user_input="Who is there?")
        except Exception as error:
            return {"error": type(error).__name__}
    return {"error": ""}


async def their_tools() -> dict[str, Any]:
    """Tools of LiveKit's own, which the NPC could not call."""

    class Smith(Agent):
        @function_tool
        async def forge(self) -> str:
            """Forge."""
            return "forged"

    async with aio.open_runtime(config(), llm=Model(reply)) as runtime:
        try:
            Smith(runtime.npc("Bo"))
        except ValueError as error:
            return {"error": str(error)}
    return {"error": ""}


async def speakers() -> dict[str, Any]:
    """Two players, each in a session of their own, at one NPC."""
    model = Model(reply)
    async with aio.open_runtime(config(), llm=model) as runtime:
        agents = [Agent(runtime.npc("Bo"), speaker=name) for name in ("Ann", "Ben")]
        async with playing(agents[0]) as first, playing(agents[1]) as second:
            runs = [
                first.run(user_input="I am Ann."),
                second.run(user_input="I am Ben."),
            ]
            for run in runs:
                await run
            await first.run(user_input="Well?")
    named = [x.name for x in model.requests[-1].messages if x.role == "user"]
    return {"ends": [[x.end for x in y.of(TurnDone)] for y in agents], "named": named}


async def scene() -> dict[str, Any]:
    """Two NPCs at one loudspeaker: who is meant answers, the other has heard it."""
    model = Model(reply)
    async with aio.open_runtime(config("Bartok", "Ysolde"), llm=model) as runtime:
        loudspeaker = Loudspeaker()
        agent = Agent(runtime.scene())
        async with playing(agent, aloud(loudspeaker)) as session:
            nobody = session.generate_reply(user_input="Hm.")
            await nobody
            loudspeaker.text, loudspeaker.stops_after = WORDS, 7
            session.generate_reply(user_input="Bartok, who is there?")
            await loudspeaker.playing.wait()
            await asyncio.sleep(1.2)  # longer than a scene waits for one who reports
            await session.interrupt()
            asked = session.generate_reply(user_input="Ysolde, what did he say?")
            await loudspeaker.playing.wait()
            loudspeaker.finish()
            await asked
    return {
        "answered": [x.npc for x in agent.of(TurnDone)],
        "told": model.told,
        "model": agent.llm.model if agent.llm else "",
    }


async def game_master() -> dict[str, Any]:
    """Somebody else interrupts the NPC: LiveKit stops speaking, too."""

    def slowly(request: LLMRequest) -> str | ToolCall:
        if request.messages[-1].role == "tool":
            return "That took its time."
        return ToolCall("call", "mcp__patient__slow_0", "{}")

    async with aio.open_runtime(config(), llm=Model(slowly)) as runtime:
        loudspeaker = Loudspeaker()
        agent = Agent(runtime.npc("Bo"))
        async with playing(agent, aloud(loudspeaker)) as session:
            speech = session.generate_reply(user_input="Please wait.")
            await loudspeaker.playing.wait()  # a filler
            await runtime.npc("Bo").interrupt()
            await speech
    return {"interrupted": speech.interrupted, "end": agent.of(TurnDone)[0].end}


async def partial() -> dict[str, Any]:
    """Words of a user who still speaks begin the turn ahead."""
    speculation = SpeculationConfig(enabled=True, after=0.001)
    asked = "Who is it that is there?"
    model = Model(reply)
    async with aio.open_runtime(config(speculation=speculation), llm=model) as runtime:
        agent = Agent(runtime.npc("Bo"))
        async with (
            playing(agent) as session,
            runtime.events.subscribe(only=SpeculationDone) as ended,
        ):
            session.emit(
                "user_input_transcribed",
                UserInputTranscribedEvent(transcript=asked, is_final=False),
            )
            await model.asked.wait()
            await session.run(user_input=asked)
            done = await anext(ended)
            assert isinstance(done, SpeculationDone)
    return {"end": done.end, "requests": len(model.requests)}


CASES: Final[dict[str, Callable[[], Awaitable[dict[str, Any]]]]] = {
    case.__name__: case
    for case in (
        text,
        greeting,
        cut,
        cut_by_time,
        interrupted_tool,
        hung_tool,
        away,
        closed,
        their_tools,
        speakers,
        scene,
        game_master,
        partial,
    )
}


async def _limited(case: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    async with asyncio.timeout(LIMIT):
        return await case()


def main(names: list[str]) -> None:
    for name in names or CASES:
        began = monotonic()
        try:
            saw = asyncio.run(_limited(CASES[name]))
        except Exception as error:
            logging.exception(name)
            saw = {"failed": repr(error)}
        saw |= {"case": name, "took": round(monotonic() - began, 3)}
        sys.stdout.write(json.dumps(saw) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
