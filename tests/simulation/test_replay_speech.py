"""NPCs that speak by themselves, recorded at both vendors' servers and played again.

Real sockets on loopback, and the clock of `--record`.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import attrs
import pytest

import trio

from glyphoxa_trio import Config, Runtime, open_runtime, tool
from glyphoxa_trio.config import McpConfig, NpcConfig, OverloadConfig
from glyphoxa_trio.config.voices import Engine, S2SConfig, S2SProvider
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc import Npc, TurnDone
from glyphoxa_trio.npc.events import Speech
from glyphoxa_trio.observability.recording.format import (
    BadRecording,
    Recorded,
    recorded,
)
from glyphoxa_trio.observability.recording.format import config_of as parsed
from glyphoxa_trio.observability.recording.lines import LineOutput
from glyphoxa_trio.observability.recording.recorder import recorder_of
from glyphoxa_trio.observability.stepping import SteppingClock
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.simulation import virtual
from glyphoxa_trio.simulation.clock import ExactClock
from glyphoxa_trio.simulation.replay import replay
from glyphoxa_trio.testing.gemini_server import open_gemini_server
from glyphoxa_trio.testing.realtime_server import (
    Close,
    Drop,
    ModelTurn,
    PauseResponse,
    Reply,
    Speak,
    SpokenCallTools,
    UserSpeaks,
    open_realtime_server,
)
from glyphoxa_trio.tools.tier import Tier

from ..voices.support import provider_at

OPENAI, GEMINI = "gpt-realtime-2", "gemini-3.8-live"
VENDORS = pytest.mark.parametrize("model", [OPENAI, GEMINI])
SECRET = "hunter2-and-a-half"


@tool(group="world", estimated_duration_ms=10, read_only=True)
async def look(at: str) -> str:
    """Look at something."""
    await trio.sleep(0.02)
    return f"A {at}."


@tool(group="world", estimated_duration_ms=120)
async def carve(word: str) -> str:
    """Carve a word into a door."""
    await trio.sleep(0.1)
    return f"It says {word} now."


def replies(turn: ModelTurn) -> Reply:
    words = turn.user.lower()
    if turn.outputs:
        return Speak(f"So it is: {SECRET} is on it.", ms=400)
    if "story" in words:
        return Speak("Once upon a time there was a king.", ms=5_000, paced=True)
    if "leave" in words:
        return [Speak("Fare", ms=80), Close()]
    calls = [
        (name, {"at": "door"} if name == "look" else {"word": "fool"})
        for name in ("look", "carve")
        if name in words
    ]
    if calls:
        return [Speak("Hm.", ms=80), PauseResponse(0.05), SpokenCallTools(calls)]
    return Speak("Well met.", ms=80)


def config_of(model: str, server: Any) -> Config:
    vendor = S2SProvider.OPENAI_REALTIME if model == OPENAI else S2SProvider.GEMINI_LIVE
    return Config(
        s2s=S2SConfig(
            provider=vendor,
            model=model,
            base_url=server.base_url,
            api_key=Secret(SECRET),
            route=False,
        ),
        npcs=(
            NpcConfig(
                name="Bob",
                engine=Engine.S2S,
                budget_tier=Tier.DEEP,
                tools=("world",),
                fallback=("Hm?",),
            ),
        ),
        mcp=McpConfig(remember=False),
        overload=OverloadConfig(enabled=False),
    )


def record(model: str, play: Callable[[Runtime], Awaitable[None]]) -> Recorded:
    """A conversation, written down. One that is not exact is held once more: it says
    so, and a machine that has no time for it is nobody's fault."""

    async def main() -> bytes:
        file = io.BytesIO()
        lines = LineOutput(file)
        recorder = recorder_of(lines)
        clock: Any = trio.lowlevel.current_clock()
        clock.when_lost(lambda at, _: lines.info("inexact", at=at, why="busy"))
        opened: Any = open_realtime_server if model == OPENAI else open_gemini_server
        with trio.fail_after(60):
            async with opened(replies) as server:
                config = config_of(model, server)
                world = recorder.environment()
                async with open_runtime(
                    config, tools=[look, carve], environment=world
                ) as runtime:
                    await play(runtime)
            assert server.violations == []
        assert recorder.failed == 0
        lines.end(trio.current_time(), "closed")
        return file.getvalue()

    for _ in range(3):
        data = trio.run(main, clock=SteppingClock())
        assert SECRET.encode() not in data
        made = recorded(data)
        if not made.notes:
            break
    assert made.notes == ()
    assert made.tolerance == 0
    return made


async def said(runtime: Runtime, words: str, *, heard: float = 1.0) -> TurnDone:
    """Say it, play so much of the answer, and hear it to its end."""
    seconds = 0.0
    async with runtime.npc("Bob").say(words) as turn:
        async for event in turn:
            if isinstance(event, Speech):
                seconds += event.seconds
                turn.played(1000 * seconds * heard)
            if isinstance(event, TurnDone):
                return event
    raise AssertionError("it has no end")


async def evening(runtime: Runtime) -> None:
    bob = runtime.npc("Bob")
    await said(runtime, "Hello.")
    await said(runtime, "Look, and carve it!", heard=0.5)
    await bob.overhear("Kim", "Beware of him.")
    async with bob.say("A story!") as story:
        async for event in story:
            if isinstance(event, Speech):
                story.played(20)
                await trio.sleep(0.3)
                break  # it is told to stop
    await said(runtime, "What was that?")
    await said(runtime, "Leave me.")
    await bob.elevate(Tier.DEEP, seconds=60)
    await said(runtime, "Are you there? Look!")


@pytest.mark.alone
@pytest.mark.border
@VENDORS
def test_a_spoken_conversation_is_played_again_to_the_byte(model: str) -> None:
    made = record(model, evening)
    assert len(made.of("socket")) >= 2  # one was closed by its server
    assert made.of("played")
    assert {x["event"] for x in made.of("event")} >= {"Speech", "ToolFinished", "Flush"}
    again = [replay(made) for _ in range(3)]
    assert again[0].same, "\n".join(again[0].difference)
    assert again[0].notes == ()
    assert len({x.as_bytes() for x in again}) == 1
    assert len(again[0].events) == len(made.of("event"))


def changed(made: Recorded, kind: str, **fields: Any) -> bytes:
    """The recording, with other fields in its first line of that kind."""
    lines = [dict(x) for x in made.lines]
    line = next(x for x in lines if x["kind"] == kind and fields.keys() & x.keys())
    if "event" in fields:
        line.pop("data", None)
    line |= fields
    return b"".join(json.dumps(x).encode() + b"\n" for x in lines)


@pytest.mark.border
@pytest.mark.alone
def test_what_no_socket_says_is_refused_with_its_line() -> None:
    made = record(GEMINI, lambda runtime: _one(runtime))
    assert recorded(changed(made, "speech", event="Ready")).of("speech")
    sound = {"response": "r", "item": "i", "pcm": "much"}
    for kind, fields, words in (
        ("speech", {"event": "Nonsense"}, "nothing that comes on a socket is called"),
        (
            "speech",
            {"event": "ResponseStarted", "data": {}},
            "ResponseStarted lacks 'response'",
        ),
        ("speech", {"socket": 7}, "speech of socket 7, which is not there"),
        (
            "speech",
            {
                "event": "AudioOut",
                "data": sound,
            },
            "'much' is no audio",
        ),
        ("socket", {"capabilities": {}}, "socket: "),
    ):
        with pytest.raises(BadRecording, match=words) as caught:
            recorded(changed(made, kind, **fields))
        assert "line " in str(caught.value)


async def _one(runtime: Runtime) -> None:
    await said(runtime, "Hello.")


@pytest.mark.border
@pytest.mark.alone
@VENDORS
def test_under_another_rule_the_model_says_the_same(model: str) -> None:
    made = record(model, _asks)
    assert replay(made).same
    config = json.loads(json.dumps(made.header["config"]))
    config["npcs"][0]["tools"] = []
    other = replay(made, parsed(config, "other"))
    assert not other.same
    assert any("what-if" in note for note in other.notes)
    ends = [x for x in other.events if x["event"] == "ToolFinished"]
    assert [x["outcome"]["status"] for x in ends] == ["denied"]


async def _asks(runtime: Runtime) -> None:
    await said(runtime, "Look!")


# Anything that may happen, on virtual time.

_WORDS = ("Hello.", "Look!", "Carve it!", "Look, and carve it!", "A story!")


def _random_reply(choice: random.Random, turn: ModelTurn) -> Reply:
    words = turn.user.lower()
    calls = [
        (name, {"at": "door"} if name == "look" else {"word": "fool"})
        for name in ("look", "carve")
        if name in words and name in turn.tools and not turn.outputs
    ]
    steps: list[Any] = []
    if choice.random() < 0.7:
        ms = choice.choice([80, 400, 4000])
        steps.append(Speak(f"Well, {words}", ms=ms, paced=choice.random() < 0.3))
    if calls:
        steps += [PauseResponse(choice.random() / 5), SpokenCallTools(calls)]
    match choice.randrange(12):
        case 0:
            steps.append(Close())
        case 1:
            steps.insert(0, Drop())
        case 2:
            steps.append(UserSpeaks("And then?", after=choice.random()))
        case 3:
            steps.insert(0, PauseResponse(choice.choice([0.3, 6.0])))
    return steps or [Speak("Hm.", ms=80)]


async def _visitor(runtime: Runtime, choice: random.Random, name: str) -> None:
    bob = runtime.npc("Bob")
    for _ in range(choice.randrange(1, 5)):
        await trio.sleep(choice.choice([0.0, 0.1, 3.0]) * choice.random())
        try:
            match choice.randrange(8):
                case 0:
                    await bob.interrupt()
                case 1:
                    await bob.overhear(name, "The king is dead.")
                case 2:
                    await bob.elevate(Tier.DEEP, seconds=choice.uniform(0.1, 3))
                case _:
                    await _converses(bob, choice, name)
        except GlyphoxaError:
            pass  # a full queue; it is in the recording, too


async def _converses(bob: Npc, choice: random.Random, name: str) -> None:
    share, seconds = choice.choice([None, 1.0, 0.3]), 0.0
    tier = choice.choice([None, None, Tier.DEEP])
    with trio.move_on_after(choice.choice([9.0, 1.0, 0.05]) * choice.random()):
        async with bob.say(choice.choice(_WORDS), speaker=name, tier=tier) as turn:
            async for event in turn:
                if isinstance(event, Speech) and share is not None:
                    seconds += event.seconds
                    turn.played(1000 * seconds * share)
                await trio.sleep(choice.choice([0.0, 0.0, 0.2]) * choice.random())


def random_spoken(seed: int) -> bytes:
    choice = random.Random(seed)
    model = choice.choice([OPENAI, GEMINI])
    file = io.BytesIO()

    async def main() -> None:
        lines = LineOutput(file)
        recorder = recorder_of(lines)
        opened: Any = open_realtime_server if model == OPENAI else open_gemini_server
        async with opened(
            lambda turn: _random_reply(choice, turn), in_memory=True
        ) as server:
            async with open_runtime(
                attrs.evolve(config_of(model, server), s2s=S2SConfig(route=False)),
                tools=[look, carve],
                s2s=provider_at(server, model),
                environment=attrs.evolve(
                    recorder.environment(), run=UUID(int=seed).hex
                ),
            ) as runtime:
                async with trio.open_nursery() as nursery:
                    for name in ("Ann", "Kim")[: choice.randrange(1, 3)]:
                        nursery.start_soon(_visitor, runtime, choice, name)
                await trio.sleep(choice.choice([0.0, 0.5, 20.0]))
        assert recorder.failed == 0
        lines.end(trio.current_time(), "closed")

    virtual.run(main, seed=seed, clock=ExactClock())
    return file.getvalue()


@pytest.mark.parametrize(
    "seed",
    [
        *range(8),
        *(pytest.param(seed, marks=pytest.mark.long) for seed in range(8, 30)),
    ],
)
def test_whatever_happens_in_speech_is_replayed_to_the_byte(seed: int) -> None:
    made = recorded(random_spoken(seed))
    first = replay(made)
    assert first.same, "\n".join(first.difference)
    assert first.notes == ()
