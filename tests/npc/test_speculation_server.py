"""Speculation with a real server process, in a whole runtime: what is cancelled here
is cancelled there, and a configuration switches it on and off.
"""

from __future__ import annotations

import sys
from pathlib import Path

import attrs
import pytest

import trio

from glyphoxa_trio import Config, open_runtime
from glyphoxa_trio.config import (
    CalibrationConfig,
    McpConfig,
    NpcConfig,
    OverloadConfig,
    ServerSpec,
    SpeculationConfig,
    ToolOverride,
)
from glyphoxa_trio.npc import SpeculationDone, SpeculationEnd
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.tools.outcome import Status
from glyphoxa_trio.tools.tier import Tier

from .support import Reply, ScriptedLLM, ask, call

pytestmark = pytest.mark.border

SERVER = Path(__file__).parents[1] / "mcp" / "servers" / "plain.py"
LIMIT = 50.0  # a ceiling that only a test that hangs would meet
ON = SpeculationConfig(enabled=True, after=0.01, expires=30.0)


def config(speculation: SpeculationConfig) -> Config:
    reads = ToolOverride(read_only=True, estimated_duration=0.1)
    server = ServerSpec(
        name="plain",
        command=(sys.executable, str(SERVER)),
        tools={"hang": reads, "echo": reads},
    )
    return Config(
        npcs=(NpcConfig(name="Bob", tools=("plain.hang", "plain.echo", "plain.die")),),
        mcp=McpConfig(servers=(server,), remember=False),
        calibration=CalibrationConfig(at_start=False),
        speculation=speculation,
        overload=OverloadConfig(max_lag=LIMIT),  # a machine of tests is often late
    )


@attrs.define(eq=False)
class Model:
    """Calls what it is asked for, and says when it was asked."""

    asked: trio.Event = attrs.field(factory=trio.Event)

    def __call__(self, request: LLMRequest) -> Reply:
        self.asked.set()
        self.asked = trio.Event()
        match request.messages[-1]:
            case message if message.role != "user":
                return ["So it is."]
            case message if "die" in message.content:
                return [call("mcp__plain__die")]
            case message if "hang" in message.content:
                return [call("mcp__plain__hang")]
        return [call("mcp__plain__echo", '{"text": "ho"}')]


async def test_a_server_is_told_that_the_words_were_others() -> None:
    model, lines = Model(), list[str]()
    came = trio.Event()

    def line(server: str, text: str) -> None:
        nonlocal came
        lines.append(text)
        came.set()
        came = trio.Event()

    async def told(begin: str, times: int = 1) -> None:
        while sum(text.startswith(begin) for text in lines) < times:
            await came.wait()

    with trio.fail_after(LIMIT):
        async with open_runtime(
            config(ON),
            llm=ScriptedLLM(model),
            on_server_line=line,
            wait_for_servers=LIMIT,
        ) as runtime:
            bob = runtime.npc("Bob")
            for times in (1, 2):  # and not only once
                await bob.hearing(f"will you hang him {times}")
                await told("hanging", times)
                await bob.hearing("will you not")
                await told("cancelled", times)
            ids = [text.split()[1] for text in lines if text]
            assert ids[0::2] == ids[1::2]
            # A tool that writes is not begun: the server would not live.
            asked = model.asked
            await bob.hearing("will you die now")
            await asked.wait()
            heard = await ask(bob, "Will you echo me?", tier=Tier.STANDARD)
            assert [o.status for o in heard.done.outcomes] == [Status.OK]
            assert [row.restarts for row in runtime.servers()] == [0]
            counted = runtime.speculation
            assert (counted.calls, counted.calls_used) == (2, 0)
            assert counted.ends[SpeculationEnd.DIVERGED] >= 2


async def test_a_reload_switches_it_on_and_its_figures_are_the_runtimes() -> None:
    model = Model()
    llm = ScriptedLLM(model)
    with trio.fail_after(LIMIT):
        async with open_runtime(
            config(SpeculationConfig()), llm=llm, wait_for_servers=LIMIT
        ) as runtime:
            bob = runtime.npc("Bob")
            await bob.hearing("will you echo me")
            done = await runtime.reload(config(attrs.evolve(ON, min_words=4)))
            assert done.at_next_start == ()
            await bob.hearing("will you echo")  # three words
            asked = model.asked
            await bob.hearing("will you echo me")
            await asked.wait()
            with runtime.events.subscribe() as events:
                heard = await ask(bob, "Will you echo me?")
                async for told in events:
                    if isinstance(told, SpeculationDone):
                        break
            assert isinstance(told, SpeculationDone)
            assert (told.turn, told.end) == (1, SpeculationEnd.ADOPTED)
            assert heard.done.text == "So it is."
            assert heard.done.timings.head_start > 0
            assert len(llm.requests) == 2
            counted = runtime.speculation
            assert (counted.begun, counted.adopted) == (1, 1)
            await runtime.reload(config(SpeculationConfig()))
            await bob.hearing("will you echo me again")
            again = await ask(bob, "Will you echo me again?")
            assert again.done.timings.head_start == 0
            assert runtime.speculation == counted
