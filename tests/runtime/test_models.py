"""Models of a configuration: which provider, which one answers, what an operator sees.

Real servers on real sockets, but where times matter: those are virtual and exact.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio import Config, Runtime, open_runtime
from glyphoxa_trio.config import (
    CalibrationConfig,
    ConfigError,
    LlmConfig,
    McpConfig,
    ModelConfig,
    NpcConfig,
    OverloadConfig,
    Provider,
    SpeculationConfig,
    TurnConfig,
)
from glyphoxa_trio.config.cost import CostConfig, Price
from glyphoxa_trio.control.status import status_of
from glyphoxa_trio.npc import (
    ModelFailed,
    ModelSwitched,
    SpeculationDone,
    SpeculationEnd,
    TurnEnd,
    UsageReported,
)
from glyphoxa_trio.observability import open_metrics
from glyphoxa_trio.providers.chain import Chain, ModelCandidate
from glyphoxa_trio.providers.llm import LLM, ErrorKind, LLMError
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing.model_server import (
    CallTools,
    Fail,
    Reply,
    SayText,
    Script,
    ScriptedModelServer,
    Think,
    open_model_server,
)
from glyphoxa_trio.tools.tier import Tier

from ..npc.support import HANG, Heard, ScriptedLLM, ask

KEY = Secret("sk-of-the-first")
DOWN = Fail(500, {"error": {"message": "Overloaded"}})


def config(llm: LlmConfig, **more: Any) -> Config:
    bo = NpcConfig(name="Bo", tools=("dice",), budget_tier=Tier.DEEP)
    fields: dict[str, Any] = {
        "npcs": (bo,),
        "mcp": McpConfig(remember=False),
        "calibration": CalibrationConfig(at_start=False),
        "overload": OverloadConfig(enabled=False),
    }
    return Config(llm=llm, **(fields | more))


def anthropic(server: ScriptedModelServer, model: str = "first") -> dict[str, Any]:
    return {
        "provider": Provider.ANTHROPIC,
        "model": model,
        "base_url": server.origin,
        "api_key": KEY,
    }


def completions(server: ScriptedModelServer, model: str = "second") -> ModelConfig:
    return ModelConfig(
        provider=Provider.CHAT_COMPLETIONS, model=model, base_url=server.base_url
    )


@asynccontextmanager
async def servers(
    first: Script, second: Script
) -> AsyncIterator[tuple[ScriptedModelServer, ScriptedModelServer]]:
    with trio.fail_after(20):
        async with (
            open_model_server(first, api_key=KEY.reveal()) as one,
            open_model_server(second) as other,
        ):
            yield one, other


async def say(runtime: Runtime, text: str = "Hello?", npc: str = "Bo") -> Heard:
    return await ask(runtime.npc(npc), text)


async def test_a_turn_with_tools_is_answered_by_anthropic() -> None:
    script: list[Reply] = [
        [
            Think(("Dice?",)),
            SayText("Let me see."),
            CallTools([("roll", {"expression": "1d1"}), ("roll", {"expression": "1"})]),
        ],
        SayText("Ones."),
    ]
    greeting = NpcConfig(
        name="Bo", tools=("dice",), greeting="Well met.", budget_tier=Tier.DEEP
    )
    async with servers(script, [DOWN]) as (one, _):
        llm = LlmConfig(**anthropic(one), extra={"thinking": {"type": "adaptive"}})
        async with open_runtime(config(llm, npcs=(greeting,))) as runtime:
            heard = await say(runtime)
            assert heard.done.end is TurnEnd.COMPLETED
            assert heard.done.text == "Let me see. Ones."
            assert len(heard.done.outcomes) == 2
            models = [event.model for event in heard.of(UsageReported)]
            assert models == ["first", "first"]
            await say(runtime, "And again?")
    # The server takes back what it said, thoughts included, and refuses nothing.
    assert one.refused == []
    kinds = [[x["type"] for x in m["content"]] for m in one.requests[1]["messages"]]
    assert kinds == [
        ["text"],  # somebody has to begin
        ["text"],
        ["text"],
        ["thinking", "text", "tool_use", "tool_use"],
        ["tool_result", "tool_result"],
    ]
    later = json.dumps(one.requests[2]["messages"])
    assert "thinking" not in later  # they are of the turn that is over
    assert "Ones." in later


async def test_another_model_answers_for_the_first_one_and_everybody_sees_it() -> None:
    async with servers([DOWN], [SayText("Hello.")]) as (one, other):
        llm = LlmConfig(**anthropic(one), fallbacks=(completions(other),))
        prices = {"second": Price(output=1_000_000.0)}
        async with open_runtime(config(llm, cost=CostConfig(prices=prices))) as runtime:
            heard = await say(runtime)
            assert (heard.done.end, heard.done.text) == (TurnEnd.COMPLETED, "Hello.")
            assert heard.only(ModelSwitched) == ModelSwitched(
                npc="Bo",
                turn=1,
                model="second",
                instead_of="first",
                reason="overloaded: HTTP 500: Overloaded",
            )
            assert heard.of(ModelFailed) == []
            used = heard.only(UsageReported)
            assert (used.model, used.cost) == ("second", used.output_tokens)
            first, second = runtime.models
            assert first.label == f"first at {one.base_url}"
            assert first.failed == {ErrorKind.OVERLOADED: 1}
            assert second.answered == 1
            assert [warning.text for warning in runtime.warnings] == [
                f"first at {one.base_url}: overloaded: HTTP 500: Overloaded"
            ]
            shown = status_of(runtime)
            assert [row["answered"] for row in shown["models"]] == [0, 1]
            assert KEY.reveal() not in json.dumps(shown)
            assert runtime.llm.label == f"{first.label}, else {second.label}"


async def test_the_two_protocols_tell_each_others_calls_in_one_conversation() -> None:
    """Whoever goes on is told what the other one has called, in its own way."""
    roll = CallTools([("roll", {"expression": "1d1"})], ids=["functions.roll:0"])
    second: list[Reply] = [[SayText("Well."), roll], [SayText("One.")]]
    turns: list[Reply] = [DOWN, DOWN, SayText("As before.")]
    async with servers(turns, second) as (one, other):
        llm = LlmConfig(**anthropic(one), fallbacks=(completions(other),))
        async with open_runtime(config(llm)) as runtime:
            assert (await say(runtime)).done.text == "Well. One."
            heard = await say(runtime, "And now?")
            assert heard.done.text == "As before."
            assert heard.of(ModelSwitched) == []
    assert one.refused == []
    blocks = [x for m in one.requests[-1]["messages"] for x in m["content"]]
    (called,) = [x for x in blocks if x["type"] == "tool_use"]
    (answered,) = [x for x in blocks if x["type"] == "tool_result"]
    assert called["id"] == answered["tool_use_id"] != "functions.roll:0"


async def test_one_that_is_passed_over_is_shown_wherever_an_operator_looks() -> None:
    async with servers([DOWN], [SayText("Hello.")]) as (one, other):
        llm = LlmConfig(**anthropic(one), fallbacks=(completions(other),))
        async with open_runtime(config(llm)) as runtime, open_metrics(runtime) as seen:

            def shown(name: str, **labels: str) -> float | None:
                return seen.registry.get_sample_value(name, labels)

            gauge = "glyphoxa_model_breaker_open"
            for _ in range(5):
                assert shown(gauge, model="first") in (None, 0)  # made when needed
                await say(runtime)
            assert shown(gauge, model="first") == 1
            assert shown(gauge, model="second") == 0
            await say(runtime)
            switches = {"model": "second", "instead_of": "first"}
            assert shown("glyphoxa_model_switches_total", **switches) == 6
            assert status_of(runtime)["models"][0] == {
                "name": "first",
                "label": f"first at {one.base_url}",
                "breaker": "open",
                "answered": 0,
                "failed": {"overloaded": 5},
                "passed_over": 1,
            }
            assert runtime.warnings[-1].text == (
                f"first at {one.base_url}: it keeps failing, and is not asked for 10 s"
            )
    assert len(one.requests) == 5


async def test_fallbacks_stand_behind_an_npcs_own_model_and_are_one_for_all() -> None:
    async with servers([DOWN], [SayText("Hello.")]) as (one, other):
        llm = LlmConfig(**anthropic(one), fallbacks=(completions(other),))
        cast = (NpcConfig(name="Ann", model="own"), NpcConfig(name="Bo"))
        async with open_runtime(config(llm, npcs=cast)) as runtime:
            for name in ("Ann", "Bo", "Ann"):
                heard = await say(runtime, npc=name)
                assert heard.done.text == "Hello."
            names = [row.name for row in runtime.models]
            assert names == ["first", "own", "second"]
            assert [row.answered for row in runtime.models] == [0, 0, 3]
    assert [body["model"] for body in one.requests] == ["own", "first", "own"]


async def test_a_reload_changes_who_is_asked_and_conversations_go_on() -> None:
    async with servers([DOWN], [SayText("Hello.")]) as (one, other):
        llm = LlmConfig(**anthropic(one))
        async with open_runtime(config(llm)) as runtime:
            assert (await say(runtime, "First.")).done.end is TurnEnd.FAILED
            assert runtime.models == ()
            more = attrs.evolve(llm, fallbacks=(completions(other),))
            await runtime.reload(config(more))
            heard = await say(runtime, "Second.")
            assert heard.done.text == "Hello."
            told = [message["content"] for message in other.requests[0]["messages"]]
            assert "player: First." in told
            await runtime.reload(config(LlmConfig(**attrs.asdict(completions(other)))))
            heard = await say(runtime, "Third.")
            assert (heard.done.text, heard.of(ModelSwitched)) == ("Hello.", [])


async def test_two_of_one_name_are_told_apart_by_where_they_are() -> None:
    async with servers([DOWN], [SayText("Hello.")]) as (one, other):
        llm = LlmConfig(**anthropic(one), fallbacks=(completions(other, "first"),))
        async with open_runtime(config(llm)) as runtime:
            switched = (await say(runtime)).only(ModelSwitched)
    assert switched.instead_of == f"first at {one.base_url}"
    assert switched.model == "first"


async def test_an_address_that_cannot_be_one_names_its_place() -> None:
    odd = ModelConfig(
        provider=Provider.ANTHROPIC, model="m", base_url="https://u:p@example.com"
    )
    llm = LlmConfig(fallbacks=(odd,))
    with pytest.raises(ConfigError, match=r"no credentials.* @ llm\.fallbacks\[0\]"):
        async with open_runtime(config(llm)):
            pass


# In time.


def chain(*scripts: Sequence[Any]) -> tuple[Chain, list[ScriptedLLM]]:
    models = [ScriptedLLM(script) for script in scripts]
    names = ["first", "second", "third"]
    links: list[LLM] = [*models]
    return Chain(list(map(ModelCandidate, names, links))), models


async def test_a_model_that_hangs_leaves_half_of_the_first_word_to_the_next(
    autojump_clock: MockClock,
) -> None:
    llm, models = chain([[HANG]], [[1.0, "Hello."]])
    async with open_runtime(config(LlmConfig()), llm=llm) as runtime:
        heard = await say(runtime)
        assert heard.done.text == "Hello."
        assert heard.when(ModelSwitched) == [3.5]  # 2.5 in vain, and one of the other
        assert heard.done.timings.model == 3.5
        reason = heard.only(ModelSwitched).reason
        assert reason == "first_token: it sent nothing within 2.5 s"
        assert [model.open for model in models] == [0, 0]


async def test_what_is_left_of_a_turn_is_shared_when_it_is_less(
    autojump_clock: MockClock,
) -> None:
    turn = TurnConfig(model_total=2.0)
    llm, _ = chain([[HANG]], [[HANG]])
    async with open_runtime(config(LlmConfig(), turn=turn), llm=llm) as runtime:
        heard = await say(runtime)
        assert heard.only(ModelFailed).kind is ErrorKind.TURN
        assert heard.done.timings.model == 2.0


async def test_after_its_first_word_a_model_that_fails_has_failed_the_turn(
    autojump_clock: MockClock,
) -> None:
    gone = LLMError(ErrorKind.INTERRUPTED, "gone")
    llm, models = chain([["Well, I ", gone]], [["never"]])
    async with open_runtime(config(LlmConfig()), llm=llm) as runtime:
        heard = await say(runtime)
        assert heard.only(ModelFailed).kind is ErrorKind.INTERRUPTED
        assert heard.done.text == "Well, I"
        assert models[1].requests == []


async def test_after_five_turns_that_failed_the_others_do_not_wait_for_it(
    autojump_clock: MockClock,
) -> None:
    llm, models = chain([[HANG]] * 5 + [["I am back."]], [["Hello."]] * 6)
    async with open_runtime(config(LlmConfig()), llm=llm) as runtime:
        took = [(await say(runtime)).done.timings.model for _ in range(6)]
        assert took == [2.5] * 5 + [0.0]
        await trio.sleep(10)
        assert (await say(runtime)).done.text == "I am back."
    assert len(models[0].requests) == 6


async def test_a_turn_begun_ahead_by_the_next_model_is_said_to_be(
    autojump_clock: MockClock,
) -> None:
    on = SpeculationConfig(enabled=True, min_words=2, after=0.125, expires=4.0)
    down = LLMError(ErrorKind.OVERLOADED, "down")
    llm, _ = chain([[down]], [["Hello."]])
    chosen = config(LlmConfig(), speculation=on)
    async with open_runtime(chosen, llm=llm) as runtime:
        done: list[SpeculationDone] = []
        with runtime.events.tap(
            lambda event: (
                done.append(event) if isinstance(event, SpeculationDone) else None
            )
        ):
            bo = runtime.npc("Bo")
            await bo.hearing("what is this")
            heard = await ask(bo, "What is this?", after=1.0)
        assert [event.end for event in done] == [SpeculationEnd.ADOPTED]
        assert heard.only(ModelSwitched).model == "second"
