"""Turns over real loopback sockets, with a model that misbehaves in every way.

The scripted server's own record says what was shown (G17) and what came back to
the model. After each trouble the same session answers as if nothing had been.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

import trio

from glyphoxa_trio import open_runtime, tool
from glyphoxa_trio.config import (
    NO_GROUPS,
    CalibrationConfig,
    Config,
    LlmConfig,
    NpcConfig,
    Provider,
    TurnConfig,
)
from glyphoxa_trio.npc import (
    Fallback,
    FellBack,
    ModelFailed,
    Npc,
    ToolsShown,
    TurnEnd,
)
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.runtime import Runtime
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing.model_server import (
    CallTools,
    Cut,
    Die,
    Fail,
    Forever,
    Hang,
    Pause,
    RawText,
    Reply,
    SayText,
    ScriptedModelServer,
    open_model_server,
)
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.outcome import Status
from glyphoxa_trio.tools.tier import Tier

from .support import Heard, ask

AGAIN = SayText("Still here. What is it?")
NEVER = 60.0  # seconds: a limit that no test reaches
SOON = 0.75  # seconds: a limit that a test waits for


def tools() -> list[Tool]:
    @tool(estimated_duration_ms=5, read_only=True)
    async def weather(place: str) -> str:
        """What it looks like outside."""
        return f"Rain over {place}."

    @tool(estimated_duration_ms=3000, read_only=True)
    async def divine(question: str) -> str:
        """Ask the stars."""
        return "The stars are silent."

    @tool(estimated_duration_ms=5, read_only=True)
    async def spy() -> str:
        """Not for Bob."""
        return "a secret"

    return [weather, divine, spy]


@attrs.define(eq=False, kw_only=True)
class Scene:
    runtime: Runtime
    npc: Npc
    server: ScriptedModelServer

    def messages(self, request: int = -1) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.server.requests[request]["messages"]
        return found

    def shown(self) -> list[list[str]]:
        return [
            [entry["function"]["name"] for entry in request.get("tools", ())]
            for request in self.server.requests
        ]

    async def lives_on(self) -> None:
        """The same session answers a next turn, and nothing in it is poisoned."""
        heard = await ask(self.npc, "Are you there?")
        assert heard.done.end is TurnEnd.COMPLETED
        assert heard.done.text == AGAIN.text
        check_protocol(self.messages())


def check_protocol(messages: list[dict[str, Any]]) -> None:
    owed: list[str] = []
    for message in messages:
        if owed:
            assert (message["role"], message["tool_call_id"]) == ("tool", owed.pop(0))
            continue
        assert message["role"] != "tool"
        calls = message.get("tool_calls", [])
        owed = [entry["id"] for entry in calls]
        assert len(set(owed)) == len(owed)
        for entry in calls:
            assert isinstance(json.loads(entry["function"]["arguments"]), dict)
    assert owed == []


@asynccontextmanager
async def open_scene(*script: Reply, **limits: Any) -> AsyncIterator[Scene]:
    """Bob, who may use two of three tools, in front of a model with this script."""
    npc = NpcConfig(
        name="Bob",
        budget_tier=Tier.STANDARD,
        tools=("custom.weather", "custom.divine"),
        fallback=("Hm?",),
    )
    off = NO_GROUPS
    limits = {"first_token": NEVER, "silence": NEVER, "model_total": NEVER} | limits
    with trio.fail_after(30):
        async with open_model_server([*script, AGAIN]) as server:
            config = Config(
                npcs=(npc,),
                llm=LlmConfig(
                    provider=Provider.CHAT_COMPLETIONS,
                    model="scripted",
                    base_url=server.base_url,
                    api_key=Secret("sesame"),
                    warm=False,  # it is loaded, so a limit holds at once
                ),
                builtin=off,
                calibration=CalibrationConfig(at_start=False),
                turn=TurnConfig(**limits),
            )
            async with open_runtime(config, tools=tools()) as runtime:
                yield Scene(runtime=runtime, npc=runtime.npc("Bob"), server=server)


def statuses(heard: Heard) -> list[Status]:
    return [outcome.status for outcome in heard.done.outcomes]


async def test_an_answer_with_a_tool() -> None:
    # G17, G32: what was shown is what the gate shows, and nothing is said of time
    call = CallTools([("weather", {"place": "Ashford"})])
    async with open_scene(
        [SayText("Let me look. "), call], SayText("It rains.")
    ) as scene:
        heard = await ask(scene.npc, "What is the weather like?")
        assert heard.done.end is TurnEnd.COMPLETED
        assert heard.done.text == "Let me look. It rains."
        assert scene.shown() == [["weather"], ["weather"]]
        assert list(heard.of(ToolsShown)[0].shown) == ["weather"]
        assert [name for name, _ in heard.of(ToolsShown)[0].hidden] == ["divine"]
        (entry,) = scene.server.requests[0]["tools"]
        assert entry["function"]["description"] == "What it looks like outside."
        _, user, assistant, answer = scene.messages()
        assert user["role"] == "user"
        assert user["content"].startswith("player: ")
        assert assistant["content"] == "Let me look."
        assert json.loads(assistant["tool_calls"][0]["function"]["arguments"]) == {
            "place": "Ashford"
        }
        assert json.loads(answer["content"]) == {"message": "Rain over Ashford."}
        text = json.dumps(scene.server.requests).lower()
        assert all(word not in text for word in ("budget", "latency", "tier", " ms"))
        assert scene.server.headers[0]["authorization"] == "Bearer sesame"
        await scene.lives_on()


async def test_a_call_of_a_hidden_tool_is_refused_in_words() -> None:
    # D5: too slow for this tier, not granted, not there
    calls = [("divine", {"question": "?"}), ("spy", {}), ("wheather", {})]
    async with open_scene(CallTools(calls), SayText("I cannot.")) as scene:
        heard = await ask(scene.npc)
        assert statuses(heard) == [Status.SKIPPED, Status.DENIED, Status.DENIED]
        answers = [m["content"] for m in scene.messages() if m["role"] == "tool"]
        assert "too slow" in answers[0]
        assert "not available to you" in answers[1]
        assert "did you mean weather?" in answers[2]
        assert "a secret" not in json.dumps(scene.server.requests)
        assert heard.done.text == "I cannot."
        await scene.lives_on()


async def test_ids_that_repeat_or_are_missing_are_told_apart() -> None:
    calls = [("weather", {"place": place}) for place in ("Ashford", "Yarrow", "Zell")]
    async with open_scene(
        CallTools(calls, ids=["x", "x", ""]), CallTools(calls[:1], ids=["x"]), AGAIN
    ) as scene:
        heard = await ask(scene.npc)
        assert statuses(heard) == [Status.OK] * 4
        answers = [m["content"] for m in scene.messages() if m["role"] == "tool"]
        assert [json.loads(text)["message"] for text in answers] == [
            "Rain over Ashford.",
            "Rain over Yarrow.",
            "Rain over Zell.",
            "Rain over Ashford.",
        ]
        check_protocol(scene.messages())
        await scene.lives_on()


@pytest.mark.parametrize(
    "arguments", ['{"place": ', "Ashford", '["Ashford"]', '{"place": NaN}', "{}"]
)
async def test_arguments_that_are_no_object_come_back_with_why(arguments: str) -> None:
    script: list[Reply] = [CallTools([("weather", arguments)]), SayText("Well.")]
    async with open_scene(*script) as scene:
        heard = await ask(scene.npc)
        assert statuses(heard) == [Status.INVALID_ARGUMENTS]
        assistant, answer = scene.messages()[-2:]
        told = json.loads(assistant["tool_calls"][0]["function"]["arguments"])
        assert told == ({"invalid_arguments": arguments} if arguments != "{}" else {})
        assert json.loads(answer["content"])["status"] == "invalid_arguments"
        assert heard.done.text == "Well."
        await scene.lives_on()


async def test_a_model_that_never_stops_calling_is_forbidden_to() -> None:
    # D4
    again = CallTools([("weather", {"place": "Ashford"})])
    async with open_scene(*[again] * 4) as scene:
        scene_limits = scene.runtime.config.turn.max_rounds
        heard = await ask(scene.npc)
        assert heard.done.text == AGAIN.text  # the fifth round is in words
        choices = [r.get("tool_choice") for r in scene.server.requests]
        assert choices == ["auto"] * scene_limits + ["none"]
        assert scene.shown() == [["weather"]] * 5
        await scene.lives_on()
    async with open_scene(*[again] * 2, max_rounds=1) as scene:
        heard = await ask(scene.npc)
        assert statuses(heard) == [Status.OK, Status.SKIPPED]
        assert heard.only(FellBack).reason is Fallback.ROUNDS_EXHAUSTED
        assert heard.done.text == "Hm?"
        await scene.lives_on()


TROUBLE: list[tuple[str, Reply, ErrorKind, str]] = [
    (
        "dies",
        [SayText("The key is. Under"), Die()],
        ErrorKind.INTERRUPTED,
        "The key is. Under",
    ),
    ("is cut", [SayText("The key is. "), Cut()], ErrorKind.INTERRUPTED, "The key is."),
    ("garbage", RawText("data: {no\n\n"), ErrorKind.MALFORMED, "Hm?"),
    ("401", Fail(401), ErrorKind.AUTHENTICATION, "Hm?"),
    ("404", Fail(404), ErrorKind.NOT_FOUND, "Hm?"),
    ("429", Fail(429), ErrorKind.RATE_LIMITED, "Hm?"),
    ("500", Fail(500), ErrorKind.OVERLOADED, "Hm?"),
    (
        "dies after a call",
        [CallTools([("weather", {"place": "A"})]), Die()],
        ErrorKind.INTERRUPTED,
        "Hm?",
    ),
]


@pytest.mark.parametrize(
    ("reply", "kind", "text"),
    [case[1:] for case in TROUBLE],
    ids=[case[0] for case in TROUBLE],
)
async def test_a_model_that_fails_costs_one_turn(
    reply: Reply, kind: ErrorKind, text: str
) -> None:
    # D0, D12b
    async with open_scene(reply) as scene:
        heard = await ask(scene.npc)
        assert heard.only(ModelFailed).kind is kind
        assert (heard.done.end, heard.done.text) == (TurnEnd.FAILED, text)
        assert heard.done.outcomes == ()  # half an answer runs nothing
        fell_back = [event.reason for event in heard.of(FellBack)]
        assert fell_back == ([Fallback.MODEL_FAILED] if text == "Hm?" else [])
        assert "sesame" not in heard.done.error
        await scene.lives_on()


@pytest.mark.parametrize("reply", [Die(), Fail(503)], ids=["dies", "busy"])
async def test_a_server_that_did_not_take_a_request_costs_no_turn(reply: Reply) -> None:
    async with open_scene(reply) as scene:
        heard = await ask(scene.npc)
        assert heard.of(ModelFailed) == []
        assert heard.done.text == AGAIN.text
        await scene.lives_on()


async def test_a_failure_in_a_later_round_keeps_what_the_tools_said() -> None:
    call = CallTools([("weather", {"place": "Ashford"})])
    async with open_scene([SayText("One moment. "), call], Fail(500)) as scene:
        heard = await ask(scene.npc)
        assert heard.only(ModelFailed).kind is ErrorKind.OVERLOADED
        assert heard.done.text == "One moment. Hm?"
        assert statuses(heard) == [Status.OK]
        await scene.lives_on()
        assert "Rain over Ashford." in json.dumps(scene.messages())


@pytest.mark.border
@pytest.mark.alone
@pytest.mark.parametrize(
    ("reply", "limits", "kind", "text"),
    [
        (Hang(), {"first_token": SOON}, ErrorKind.FIRST_TOKEN, "Hm?"),
        ([Pause(9), SayText("!")], {"first_token": SOON}, ErrorKind.FIRST_TOKEN, "Hm?"),
        (
            [RawText(": ping\n\n"), Hang()],
            {"first_token": SOON},
            ErrorKind.FIRST_TOKEN,
            "Hm?",
        ),
        ([SayText("Well. I"), Hang()], {"silence": SOON}, ErrorKind.SILENCE, "Well. I"),
        (Forever("la "), {"model_total": SOON}, ErrorKind.TURN, None),
    ],
    ids=["hangs", "is late", "only pings", "goes silent", "never ends"],
)
async def test_a_model_that_does_not_come_to_an_end_is_hung_up_on(
    reply: Reply, limits: dict[str, float], kind: ErrorKind, text: str | None
) -> None:
    # D0: each limit with its own event, and the server sees the client leave
    async with open_scene(reply, **limits) as scene:
        heard = await ask(scene.npc)
        assert heard.only(ModelFailed).kind is kind
        assert heard.done.end is TurnEnd.FAILED
        assert text in (None, heard.done.text)
        assert heard.done.timings.model >= SOON
        await scene.server.wait_hangups(1)
        await scene.lives_on()


async def test_leaving_the_block_hangs_up_on_the_model() -> None:
    # D12a
    async with open_scene([SayText("Once upon a time. There"), Hang()]) as scene:
        async with scene.npc.say("a story") as turn:
            async for event in turn:
                if isinstance(event, ToolsShown):
                    continue
                if getattr(event, "text", "") == " time.":
                    break
        await scene.server.wait_hangups(1)
        await scene.lives_on()
        # What nobody heard is not told, and the two lines are one: roles alternate.
        assert [m["role"] for m in scene.messages()] == ["system", "user"]


async def test_the_same_speaker_goes_on_while_the_model_is_silent() -> None:
    # D12a: nothing but the hang-up stands between the two
    async with open_scene(Hang(), SayText("Yes, the red one.")) as scene:
        first = Heard()
        async with trio.open_nursery() as nursery:

            async def listen() -> None:
                await ask(scene.npc, "the blue one", heard=first)

            nursery.start_soon(listen)
            await scene.server.wait_requests(1)
            second = await ask(scene.npc, "no, the red one")
        assert first.done.end is TurnEnd.INTERRUPTED
        assert second.done.text == "Yes, the red one."
        assert [m["content"] for m in scene.messages()[1:]] == [
            "player: the blue one\n\nplayer: no, the red one"
        ]
        await scene.lives_on()
