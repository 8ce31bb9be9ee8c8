"""A sentence cascade as it is configured: two models at one address, over real HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trio

from glyphoxa_trio.config import Config, LlmConfig, McpConfig, NpcConfig, Provider
from glyphoxa_trio.config.voices import CascadeMode, Engine
from glyphoxa_trio.npc import ModelFailed, Sentence, TurnEvent
from glyphoxa_trio.runtime import Runtime
from glyphoxa_trio.testing.model_server import (
    CallTools,
    Fail,
    Forever,
    Reply,
    SayText,
    open_model_server,
)

from .test_runtime import UNMEASURED, config, opened

BIG, SMALL = "big", "small"


def cascade(url: str, **npc: Any) -> Config:
    return config(
        llm=LlmConfig(provider=Provider.CHAT_COMPLETIONS, model=BIG, base_url=url),
        npcs=(
            NpcConfig(
                name="Bo",
                tools=("dice",),
                **{"engine": Engine.SENTENCE_CASCADE, "fast_model": SMALL, **npc},
            ),
        ),
        mcp=McpConfig(remember=False),
        calibration=UNMEASURED,
    )


async def hear(runtime: Runtime, text: str) -> list[TurnEvent]:
    async with runtime.npc("Bo").say(text) as turn:
        return [event async for event in turn]


def sentences(events: list[TurnEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, Sentence)]


def answer(body: Mapping[str, Any]) -> Reply:
    if body["model"] == SMALL:
        return [SayText("Let us see. "), Forever("And on and on. ")]
    if body["messages"][-1]["role"] == "tool":
        return SayText("The dice say so.")
    return CallTools([("roll", {"expression": "1d6"})])


async def test_the_small_model_opens_and_the_other_one_goes_on() -> None:
    # G30, G34
    async with open_model_server(answer) as server:
        async with opened(cascade(server.base_url)) as runtime:
            events = await hear(runtime, "Roll a d6")
            await server.wait_hangups(1)  # on the small one, in the middle of a word
    assert sentences(events) == ["Let us see.", "The dice say so."]
    small, big, again = server.requests
    assert [x["model"] for x in server.requests] == [SMALL, BIG, BIG]
    assert "tools" not in small
    assert "tool_choice" not in small
    assert [tool["function"]["name"] for tool in big["tools"]] == ["roll", "roll_table"]
    # Strict servers want the last word to be the user's.
    assert big["messages"][-2] == {"role": "assistant", "content": "Let us see."}
    assert big["messages"][-1]["role"] == "user"
    assert again["messages"][-2]["content"] == "Let us see."
    assert again["messages"][-2]["tool_calls"][0]["function"]["name"] == "roll"


async def test_a_small_model_that_is_not_there_costs_its_words_only() -> None:
    # G34
    def refusing(body: Mapping[str, Any]) -> Reply:
        if body["model"] == SMALL:
            return Fail(404, {"error": {"message": "no such model"}})
        return answer(body)

    async with open_model_server(refusing) as server:
        async with opened(cascade(server.base_url)) as runtime:
            events = await hear(runtime, "Roll a d6")
    assert sentences(events) == ["The dice say so."]
    (failed,) = [event for event in events if isinstance(event, ModelFailed)]
    assert failed.detail.startswith("the fast model: ")


async def test_a_reload_changes_the_engine_the_mode_and_the_model() -> None:
    # G34, D16
    async with open_model_server(answer) as server:
        url = server.base_url

        def asked() -> list[str]:
            models = [body["model"] for body in server.requests]
            server.requests.clear()
            return models

        async with opened(cascade(url, engine=Engine.CASCADED)) as runtime:
            for chosen, models in (
                ({"engine": Engine.CASCADED}, [BIG, BIG]),
                ({}, [SMALL, BIG, BIG]),
                ({"cascade_mode": CascadeMode.OFF}, [BIG, BIG]),
                ({"fast_model": None}, [BIG, BIG, BIG]),  # its own model opens
            ):
                await runtime.reload(cascade(url, **chosen))
                with trio.fail_after(10):
                    await hear(runtime, "Roll a d6")
                assert asked() == models, chosen
