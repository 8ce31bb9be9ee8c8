"""OpenAI Realtime against a server by other people: neither knows the other's mind.

It goes the happy way only (it checks little and speaks no audio), but how it says
things was not decided here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import trio

from glyphoxa_trio.providers.llm import ToolSpec
from glyphoxa_trio.providers.openai_realtime import OpenAIRealtime
from glyphoxa_trio.providers.s2s import (
    Calling,
    CallReady,
    Event,
    InteractionEnded,
    Ready,
    RealtimeLink,
    Respond,
    ResponseEnd,
    ResponseEnded,
    S2STool,
    SendResult,
    SendText,
    SetTools,
    Setup,
    Spoken,
    ToolsInForce,
    TranscriptLine,
)
from glyphoxa_trio.secret import Secret

from .aimock import open_aimock
from .support import PATIENCE

pytestmark = pytest.mark.border

ROLL = S2STool(
    spec=ToolSpec(
        name="roll",
        description="Rolls dice.",
        parameters={"type": "object", "properties": {"sides": {"type": "integer"}}},
    ),
    calling=Calling.BLOCKING,
)
CALLS = [
    {"id": "call_a", "name": "roll", "arguments": '{"sides":6}'},
    {"id": "call_b", "name": "roll", "arguments": '{"sides":20}'},
]
FIXTURES: list[dict[str, Any]] = [
    {
        "match": {"userMessage": "roll", "hasToolResult": False},
        "response": {"content": "Let me roll.", "toolCalls": CALLS},
    },
    {"match": {"hasToolResult": True}, "response": {"content": "A four, and a nine."}},
]
SETUP = Setup(instructions="You are Greymantle.", tools=(ROLL,), speaks=False)


async def answer(link: RealtimeLink) -> tuple[str, list[Event], ResponseEnded]:
    """What was said, everything, and the end of the next response."""
    events: list[Event] = []
    while True:
        events.append(await link.receive())
        end = events[-1]
        if isinstance(end, ResponseEnded):
            said = "".join(e.text for e in events if isinstance(e, Spoken))
            return said, events, end


async def test_a_turn_in_text_with_two_calls(tmp_path: Path) -> None:  # G36
    with trio.fail_after(PATIENCE):
        async with open_aimock(tmp_path, FIXTURES, key="sk-of-a-peer") as origin:
            model = OpenAIRealtime(
                model="gpt-realtime-2",
                base_url=f"{origin}/v1",
                api_key=Secret("sk-of-a-peer"),
            )
            async with model.connect(SETUP) as link:
                assert await link.receive() == Ready()
                link.send(SendText(TranscriptLine("user", "Please roll for me.")))
                link.send(Respond())
                said, events, end = await answer(link)
                assert said == "Let me roll."
                assert end.end is ResponseEnd.COMPLETED
                told = [(call.name, call.arguments) for call in end.calls]
                assert told == [("roll", '{"sides":6}'), ("roll", '{"sides":20}')]
                ready = [e.call for e in events if isinstance(e, CallReady)]
                assert ready == list(end.calls)
                for call, output in zip(end.calls, ("4", "9"), strict=True):
                    link.send(SendResult(call_id=call.id, name="roll", output=output))
                link.send(SetTools((), 1))
                link.send(Respond())
                said, events, end = await answer(link)
                assert said == "A four, and a nine."
                assert ToolsInForce(1) in events
                assert await link.receive() == InteractionEnded()
                assert link.statistics().unknown == {}
