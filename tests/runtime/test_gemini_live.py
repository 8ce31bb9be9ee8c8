"""An NPC at the strict fake of Gemini Live, through a whole runtime, by model.

Real sockets on loopback; every test has an end of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import trio

from glyphoxa_trio import Config, Runtime, ToolError, open_runtime, tool
from glyphoxa_trio.config import McpConfig, NpcConfig, OverloadConfig
from glyphoxa_trio.config.voices import Engine, S2SConfig, S2SProvider
from glyphoxa_trio.npc import TurnDone, TurnEnd
from glyphoxa_trio.npc.events import Speech
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing.gemini_server import (
    Close,
    GeminiServer,
    ModelTurn,
    PauseResponse,
    Reply,
    Speak,
    SpokenCallTools,
    open_gemini_server,
)
from glyphoxa_trio.tools.outcome import Status
from glyphoxa_trio.tools.tier import Tier
from tests.testing.vendor_types import judge_gemini

MODELS = [
    "gemini-2.5-flash-native-audio",
    "gemini-3.1-flash-live-preview",
    "gemini-3.8-live",
    "gemini-3.8-live-extended-thinking",
]


@tool(group="world", estimated_duration_ms=10, read_only=True)
async def look(at: str) -> str:
    """Look at something."""
    return f"A {at}."


@tool(group="world", estimated_duration_ms=3000, read_only=True)
async def study(at: str) -> str:
    """Study something for a while."""
    if at == "nothing":
        raise ToolError("There is nothing to study.")
    await trio.sleep(0.2)
    return f"An old {at}."


def replies(turn: ModelTurn) -> Reply:
    """What the model says: it looks or studies if it is asked to, and then tells."""
    words = turn.user.lower()
    if turn.outputs:
        (output,) = turn.outputs[-1].output.values()
        return Speak(output["message"], ms=400)
    if "story" in words:
        return Speak("Once upon a time.", ms=20_000, paced=True)
    for name in ("look", "study"):
        if name in words:
            call = SpokenCallTools([(name, {"at": "door"})])
            return [Speak("Hm.", ms=80), call]
    return Speak("Well met.", ms=80)


@asynccontextmanager
async def table(
    server: GeminiServer, model: str, tier: Tier = Tier.DEEP
) -> AsyncIterator[Runtime]:
    """A runtime with one NPC; at the end the server has nothing to complain of."""
    config = Config(
        s2s=S2SConfig(
            provider=S2SProvider.GEMINI_LIVE,
            model=model,
            base_url=server.base_url,
            api_key=Secret("k"),
            route=False,
        ),
        npcs=(
            NpcConfig(
                name="Greymantle",
                engine=Engine.S2S,
                budget_tier=tier,
                tools=("world",),
            ),
        ),
        mcp=McpConfig(remember=False),
        overload=OverloadConfig(enabled=False),
    )
    async with open_runtime(config, tools=[look, study]) as runtime:
        yield runtime
    for session in server.sessions:
        judge_gemini(session.wire.sent, session.wire.received)
    assert server.violations == []


async def said(
    runtime: Runtime, words: str, tier: Tier = Tier.FAST
) -> tuple[TurnDone, float]:
    """How the turn ended, and the seconds of its speech."""
    heard = 0.0
    async with runtime.npc("Greymantle").say(words, tier=tier) as turn:
        async for event in turn:
            heard += event.seconds if isinstance(event, Speech) else 0.0
            if isinstance(event, TurnDone):
                done = event
    return done, heard


@pytest.mark.parametrize("model", MODELS)
async def test_an_npc_speaks_and_uses_tools(model: str) -> None:  # G33, G36
    with trio.fail_after(30):
        async with open_gemini_server(replies, binary=True) as server:
            async with table(server, model) as runtime:
                for _ in range(2):
                    done, heard = await said(runtime, "Look around.")
                    assert done.end is TurnEnd.COMPLETED
                    assert done.text == "Hm. A door."
                    assert heard == pytest.approx(0.48)
                    assert [o.status for o in done.outcomes] == [Status.OK]
                done, _ = await said(runtime, "Hello.")
                assert done.text == "Well met."
    assert len(server.sessions) == 1


@pytest.mark.border
@pytest.mark.parametrize("model", MODELS)
async def test_a_tier_brings_its_tools(model: str) -> None:  # G35, G36
    # 8: on the open socket, or on another one that remembers
    with trio.fail_after(30):
        async with open_gemini_server(replies) as server:
            async with table(server, model, Tier.FAST) as runtime:
                done, _ = await said(runtime, "Hello.")
                await runtime.npc("Greymantle").elevate(Tier.DEEP, seconds=60)
                done, _ = await said(runtime, "Study the door.", Tier.DEEP)
                assert done.text == "Hm. An old door."
    sockets = 1 if model == "gemini-3.8-live" else 2
    assert len(server.sessions) == sockets
    last = server.sessions[-1]
    assert last.resumed is (sockets == 2)
    assert list(last.declared) == ["look", "study"]
    assert "Hello." in [line.text for line in last.history.lines]


@pytest.mark.border
@pytest.mark.parametrize("model", MODELS)
async def test_who_interrupts_a_story_is_answered_once(model: str) -> None:
    with trio.fail_after(30):
        async with open_gemini_server(replies) as server:
            async with table(server, model) as runtime:
                await said(runtime, "Hello.")
                async with runtime.npc("Greymantle").say("A story!") as story:
                    async for event in story:
                        if isinstance(event, Speech):
                            break
                    done, _ = await said(runtime, "Study the door.", Tier.DEEP)
                assert done.text == "Hm. An old door."
                done, _ = await said(runtime, "Hello.")
                assert done.text == "Well met."


@pytest.mark.border
@pytest.mark.parametrize("model", MODELS)
async def test_a_result_outlives_the_socket_that_asked_for_it(model: str) -> None:
    # 6, 12: the service breaks while a tool runs
    def script(turn: ModelTurn) -> Reply:
        if turn.socket == 0 and "study" in turn.user.lower():
            call = SpokenCallTools([("study", {"at": "door"})])
            return [
                call,
                PauseResponse(0.05),
                Close(1011, "Internal error encountered."),
            ]
        if turn.socket == 0:
            return Speak("Well met.", ms=80)
        assert "An old door." in turn.user
        return Speak("It is old.", ms=80)

    with trio.fail_after(30):
        async with open_gemini_server(script) as server:
            async with table(server, model) as runtime:
                await said(runtime, "Hello.", Tier.DEEP)
                done, _ = await said(runtime, "Study the door.", Tier.DEEP)
                assert done.text == "It is old."
                assert [o.status for o in done.outcomes] == [Status.OK]
