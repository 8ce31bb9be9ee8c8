"""A turn of a speech-to-speech NPC from end to end: the runtime, the gate, real sockets
and the strict fakes of both vendors.

Real time on loopback: whatever is awaited has an absolute limit, and nothing sleeps.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import trio

from glyphoxa_trio import open_runtime
from glyphoxa_trio.config import (
    CalibrationConfig,
    Config,
    ConfigError,
    McpConfig,
    NpcConfig,
)
from glyphoxa_trio.config.voices import Engine, S2SConfig, S2SProvider
from glyphoxa_trio.npc import (
    Sentence,
    ToolFinished,
    ToolsShown,
    TurnDone,
    TurnEnd,
    TurnEvent,
)
from glyphoxa_trio.npc.events import Flush, Speech, Transcript
from glyphoxa_trio.npc.voice import Voice
from glyphoxa_trio.runtime import Runtime
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing.gemini_server import GeminiServer, open_gemini_server
from glyphoxa_trio.testing.realtime_server import (
    Drop,
    HangResponse,
    ModelTurn,
    On,
    RealtimeServer,
    Refuse,
    Reply,
    Script,
    Speak,
    SpokenCallTools,
    Transcription,
    UserSpeaks,
    open_realtime_server,
)
from glyphoxa_trio.tools.outcome import Status
from glyphoxa_trio.tools.tier import Tier

from .support import heard_whole

OPENAI = ("openai", "gpt-realtime-2")
MODELS = [
    OPENAI,
    ("gemini", "gemini-2.5-flash-native-audio"),
    ("gemini", "gemini-3.1-flash-live-preview"),
    ("gemini", "gemini-3.8-live"),
    ("gemini", "gemini-3.8-live-extended-thinking"),
]
EVERY = pytest.mark.parametrize("model", MODELS, ids=[name for _, name in MODELS])
EACH = pytest.mark.parametrize("model", [OPENAI, MODELS[3]], ids=["openai", "gemini"])

ROLL = SpokenCallTools([("roll", {"expression": "1d1+6"})])
Server = RealtimeServer | GeminiServer


@asynccontextmanager
async def open_voices(
    model: tuple[str, str],
    script: Script,
    *,
    tier: Tier = Tier.STANDARD,
    automatic: bool = True,
    violations: bool = False,
    **server: Any,
) -> AsyncIterator[tuple[Runtime, Server]]:
    """A runtime with one NPC at a fake of its vendor, which must find no fault."""
    vendor, name = model
    opened: Any = open_gemini_server if vendor == "gemini" else open_realtime_server
    provider = S2SProvider.OPENAI_REALTIME
    if vendor == "gemini":
        provider = S2SProvider.GEMINI_LIVE
    with trio.fail_after(30):
        async with opened(script, **server) as fake:
            config = Config(
                npcs=(
                    NpcConfig(
                        name="Bartok",
                        engine=Engine.S2S,
                        budget_tier=tier,
                        tools=("dice",),
                        greeting="Sit!",
                        fallback=("Hm?",),
                    ),
                ),
                s2s=S2SConfig(
                    provider=provider,
                    model=name,
                    base_url=fake.base_url,
                    api_key=Secret("k-123"),
                    automatic=automatic,
                ),
                mcp=McpConfig(remember=False),
                calibration=CalibrationConfig(at_start=False),
            )
            async with open_runtime(config) as runtime:
                yield runtime, fake
            assert violations or not fake.violations, fake.violations


async def one_turn(voice: Voice) -> list[TurnEvent]:
    """What is heard until a turn has ended."""
    heard: list[TurnEvent] = []
    async for event in voice:
        heard.append(event)
        if isinstance(event, TurnDone):
            break
    return heard


def done_of(events: list[TurnEvent]) -> TurnDone:
    done = events[-1]
    assert isinstance(done, TurnDone)
    return done


def rolls(turn: ModelTurn) -> Reply:
    """Rolls the dice, and says what came."""
    if not turn.outputs:
        return [Speak("One moment. ", ms=60), ROLL]
    told = turn.outputs[-1].output
    output = told if isinstance(told, dict) else json.loads(told)
    total = json.dumps(output)
    assert "7" in total
    return Speak("It is seven. Good luck!", ms=120)


@EVERY
async def test_an_npc_speaks_and_uses_a_tool(model: tuple[str, str]) -> None:
    # G30, G33, G36
    async with open_voices(model, rolls) as (runtime, _):
        async with runtime.npc("Bartok").say("Roll for me") as turn:
            events = [event async for event in turn]
        done = turn.done
    assert done is not None
    assert done.end is TurnEnd.COMPLETED, done
    (outcome,) = done.outcomes
    assert outcome.status is Status.OK
    assert outcome.data["total"] == 7
    assert done.text.endswith("It is seven. Good luck!")
    assert turn.delivered == done.text
    kinds = [type(event) for event in events]
    assert kinds.index(ToolsShown) < kinds.index(ToolFinished)
    assert sum(e.seconds for e in events if isinstance(e, Speech)) >= 0.12
    assert "It is seven." in [e.text for e in events if isinstance(e, Sentence)]


@EVERY
async def test_the_next_turn_knows_the_one_before(model: tuple[str, str]) -> None:
    said: list[ModelTurn] = []

    def script(turn: ModelTurn) -> Reply:
        said.append(turn)
        return Speak(f"Answer {turn.number}.")

    async with open_voices(model, script) as (runtime, server):
        npc = runtime.npc("Bartok")
        for words in ("First", "Second"):
            async with npc.say(words) as turn:
                await turn.finish()
        assert len(server.sessions) == 1
    assert [turn.user for turn in said] == ["First", "Second"]
    assert "Answer 0." in [line.text for line in said[1].lines]


@EACH
async def test_a_dropped_connection_loses_no_result(model: tuple[str, str]) -> None:
    # Field problem 6: the result of a call outlives the socket that asked for it.
    word = "toolCall" if model[0] == "gemini" else "response.done"
    trap = On(word, Drop(), sent=True, socket=1)
    asked: list[ModelTurn] = []

    def script(turn: ModelTurn) -> Reply:
        asked.append(turn)
        if turn.socket == 1:
            return ROLL
        return Speak("Seven, as I said.")

    async with open_voices(model, script, traps=[trap]) as (runtime, _):
        async with runtime.npc("Bartok").say("Roll for me") as turn:
            done = await turn.finish()
    assert done.end is TurnEnd.COMPLETED
    assert done.text == "Seven, as I said."
    told = " ".join(line.text for line in asked[-1].lines) + asked[-1].user
    assert "Roll for me" in told
    if done.outcomes:
        assert "7" in told


@EACH
async def test_a_quota_in_the_handshake_fails_the_turn_in_character(
    model: tuple[str, str],
) -> None:  # Field problem: vendor 429 and quota
    refusals = [Refuse(429), Refuse(429), Refuse(401)]
    script = [Speak("Here I am.")]
    async with open_voices(model, script, handshakes=refusals) as (runtime, _):
        npc = runtime.npc("Bartok")
        async with npc.say("Hello") as turn:
            done = await turn.finish()
        assert done.end is TurnEnd.FAILED
        assert done.text == "Hm?"
        assert "k-123" not in done.error
        async with npc.say("And now?") as turn:
            done = await turn.finish()
    assert done.text == "Here I am."


@EACH
async def test_somebody_speaks_and_barges_in(model: tuple[str, str]) -> None:
    # G33, D12a: what was given out is void at once, and the next utterance a turn.
    def script(turn: ModelTurn) -> Reply:
        if turn.number == 0:
            return [
                Speak("A long, long story. ", ms=400, paced=True),
                UserSpeaks("Stop it", ms=100, late=False),
                HangResponse(),
            ]
        return Speak("As you wish.")

    async with open_voices(model, script) as (runtime, _):
        npc = runtime.npc("Bartok")
        seen: list[TurnEvent] = []
        async with npc.voice(speaker="Ann", rate=24_000) as voice:
            async with trio.open_nursery() as nursery:

                async def tell() -> None:
                    async with npc.say("Tell me a story", speaker="Ann") as turn:
                        seen.extend([event async for event in turn])

                nursery.start_soon(tell)
                heard = await one_turn(voice)
    assert any(isinstance(event, Flush) for event in seen)
    assert done_of(seen).end is TurnEnd.INTERRUPTED
    assert "Stop it" in [e.text for e in heard if isinstance(e, Transcript)]
    assert done_of(heard).text == "As you wish."


async def test_an_npc_without_a_model_is_an_error_that_names_it() -> None:
    config = Config(
        npcs=(NpcConfig(name="Bartok", engine=Engine.S2S),),
        mcp=McpConfig(remember=False),
    )
    with pytest.raises(ConfigError, match="'Bartok' has the engine s2s"):
        async with open_runtime(config):
            pass


async def test_the_microphone_reaches_the_model_and_its_answer_the_table() -> None:
    # G36: what is said aloud is heard, answered and remembered.
    loud = [bytes(range(1, 241)) * 4] * 20  # 20 ms each
    quiet = [bytes(960)] * 40

    def script(turn: ModelTurn) -> Reply:
        return Speak(f"You said {turn.user}.", ms=80)

    hears = [Transcription("good day", late=False)]
    async with open_voices(OPENAI, script, hears=hears) as (runtime, fake):
        npc = runtime.npc("Bartok")
        async with npc.voice(speaker="Ann", rate=24_000) as voice:
            for frame in (*loud, *quiet):
                voice.hear(frame)
            events = await one_turn(voice)
        assert isinstance(fake, RealtimeServer)
        assert heard_whole(fake, b"".join((*loud, *quiet)), 24_000)
    assert done_of(events).text == "You said good day."
    assert [e.speaker for e in events if isinstance(e, Transcript)][-1] == "Ann"
