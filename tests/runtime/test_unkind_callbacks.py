"""A callback of the embedder that crashes costs itself; and a tool that holds the loop
is an event, a warning, a log record and a metric of the runtime. Issue 13."""

from __future__ import annotations

import asyncio
import io
import json
import time
from typing import Any

import pytest
from prometheus_client import generate_latest

import trio

from glyphoxa_trio import Config, open_runtime, tool
from glyphoxa_trio.actors import HOLD, told
from glyphoxa_trio.config import CalibrationConfig, McpConfig, NpcConfig
from glyphoxa_trio.mcp import ServerWarning
from glyphoxa_trio.npc import TurnEnd
from glyphoxa_trio.npc.approval import ApprovalRequest, Questions
from glyphoxa_trio.npc.identity import NpcId
from glyphoxa_trio.observability import open_metrics
from glyphoxa_trio.observability.logs import open_log
from glyphoxa_trio.observability.outputs import json_lines

from ..npc.support import ScriptedLLM, call


class Mute(BaseException):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


CONFIG = Config(
    npcs=(NpcConfig(name="Bo", tools=("*",)),),
    mcp=McpConfig(remember=False),
    calibration=CalibrationConfig(at_start=False),
)


@tool(read_only=True)
async def hog() -> str:
    """Hold the loop."""
    until = time.thread_time() + 1.5 * HOLD
    while time.thread_time() < until:
        pass
    return "done"


@pytest.mark.parametrize("error", [ValueError, SystemExit, GeneratorExit, Mute])
async def test_a_callback_that_fails_costs_nobody_a_turn(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found: whatever a tap or an `on_warning` raised ended the runtime."""
    monkeypatch.setattr(told, "_failed", set())
    heard: list[str] = []

    def fails(*_: Any) -> None:
        heard.append("called")
        raise error

    llm = ScriptedLLM([[call("hog")], ["Well."]])
    opened = open_runtime(
        CONFIG,
        tools=[hog],
        llm=llm,
        on_warning=fails,
        on_server_event=fails,
        on_server_line=fails,
    )
    with trio.fail_after(30):
        async with opened as runtime:
            taps = runtime.events.tap(fails), runtime.host.events.tap(fails)
            with taps[0], taps[1]:
                async with runtime.npc("Bo").say("Hello") as turn:
                    done = await turn.finish()
            assert done.end is TurnEnd.COMPLETED
            assert done.text == "Well."
    assert len(heard) > 2


@pytest.mark.parametrize(
    "error", [ValueError, SystemExit, GeneratorExit, Mute, asyncio.CancelledError]
)
async def test_an_approver_that_fails_has_said_no(error: type[BaseException]) -> None:
    from glyphoxa_trio.npc.approval import _consult, _Question
    from glyphoxa_trio.tools.outcome import ToolCall

    async def approver(request: ApprovalRequest) -> bool:
        await trio.lowlevel.checkpoint()
        raise BaseExceptionGroup("both", [error(), error()])

    question = _Question(ToolCall("1", "pick"), "thief.pick")
    await _consult(approver, NpcId("Bo"), question, trio.CancelScope())
    assert str(question.decision) == "denied"
    assert Questions(NpcId("Bo"), approver, 1.0).answer("1.1", yes=True) is False


@pytest.mark.border
@pytest.mark.alone
async def test_a_tool_that_holds_the_loop_is_told_in_every_way() -> None:
    warnings: list[ServerWarning] = []
    lines = io.StringIO()
    rounds: list[Any] = [[call("hog")], ["Well."]] * 4
    async with open_log(json_lines(lines)) as log:
        async with open_runtime(
            CONFIG, tools=[hog], llm=ScriptedLLM(rounds), on_warning=warnings.append
        ) as runtime:
            log.follow(runtime)
            async with open_metrics(runtime) as metrics:
                for _ in range(4):
                    async with runtime.npc("Bo").say("Hello") as turn:
                        assert (await turn.finish()).end is TurnEnd.COMPLETED
                shown = generate_latest(metrics.registry).decode()
    # At once, and when it is refused; not each time.
    first, last = [x.text for x in warnings if x.server == "custom"]
    for text in (first, last):
        for word in ("custom.hog", "test_unkind_callbacks", "blocking=True"):
            assert word in text
    assert "It is refused now" in last
    assert 'glyphoxa_tool_stalls_total{server="custom",tool="hog"} 3.0' in shown
    assert 'glyphoxa_tools_blocked{why="stalls"} 1.0' in shown
    records = [json.loads(line) for line in lines.getvalue().splitlines()]
    stalls = [x for x in records if x["event"] == "tool_stall"]
    assert [x["refused"] for x in stalls] == [False, False, True]
    assert stalls[0]["tool"] == "hog"
    assert stalls[0]["held_ms"] >= 100
    places = [x["place"].partition(":")[0] for x in stalls]
    assert "test_unkind_callbacks.py" in places  # a look may come late, after the line
