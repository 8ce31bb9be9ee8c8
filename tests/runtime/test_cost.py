"""Cost limits of a runtime: refused turns, what an operator sees, and reloads."""

from __future__ import annotations

from typing import Any

import attrs

from trio.testing import MockClock

from glyphoxa_trio import Config, Runtime, TurnDone, open_runtime
from glyphoxa_trio.config import CalibrationConfig, McpConfig, NpcConfig, OverloadConfig
from glyphoxa_trio.config.cost import CostConfig, Price
from glyphoxa_trio.config.voices import Engine, S2SConfig, S2SProvider
from glyphoxa_trio.control.status import status_of
from glyphoxa_trio.npc import TurnEnd
from glyphoxa_trio.providers.llm import Finished, LLMRequest, Usage

from ..npc.support import Reply, ScriptedLLM

PRICES = {"m": Price(input=1.0)}


def million(_: LLMRequest) -> Reply:
    """An answer that costs one."""
    return ["Well.", Finished(usage=Usage(input_tokens=1_000_000, model="m"))]


def config(**cost: Any) -> Config:
    return Config(
        npcs=(NpcConfig(name="Ann"), NpcConfig(name="Bo")),
        mcp=McpConfig(remember=False),
        calibration=CalibrationConfig(at_start=False),
        overload=OverloadConfig(enabled=False),
        cost=CostConfig(prices=PRICES, **cost),
    )


async def say(runtime: Runtime, npc: str) -> TurnEnd:
    async with runtime.npc(npc).say("Hello?") as turn:
        done: TurnDone = await turn.finish()
    return done.end


async def test_npcs_share_the_ceiling_of_all_and_the_operator_is_warned(
    autojump_clock: MockClock,
) -> None:
    async with open_runtime(config(total=2), llm=ScriptedLLM(million)) as runtime:
        ends = [await say(runtime, name) for name in ("Ann", "Bo", "Ann", "Bo")]
        assert ends == [TurnEnd.COMPLETED, TurnEnd.COMPLETED, *[TurnEnd.SHED] * 2]
        assert [(w.server, w.text) for w in runtime.warnings] == [
            (
                "configuration",
                "models have cost 2, and cost.total is 2: turns are turned away",
            )
        ]
        assert runtime.cost.total.cost == 2
        assert runtime.cost.turned_away == 2
        assert status_of(runtime)["cost"] == {
            "total": spent(2),
            "npcs": {"Ann": spent(1), "Bo": spent(1)},
            "models": {"m": spent(2)},
            "turned_away": 2,
        }


def spent(millions: int) -> dict[str, Any]:
    return {
        "input_tokens": millions * 1_000_000,
        "output_tokens": 0,
        "cached_tokens": 0,
        "audio_input_tokens": 0,
        "audio_output_tokens": 0,
        "audio_cached_tokens": 0,
        "audio_time": 0.0,
        "cost": float(millions),
    }


async def test_a_reload_changes_ceilings_and_prices_and_keeps_what_was_spent(
    autojump_clock: MockClock,
) -> None:
    async with open_runtime(config(per_npc=1), llm=ScriptedLLM(million)) as runtime:
        assert await say(runtime, "Bo") is TurnEnd.COMPLETED
        assert await say(runtime, "Bo") is TurnEnd.SHED
        dearer = {"m": Price(input=2.5)}
        more = attrs.evolve(config(), cost=CostConfig(prices=dearer, per_npc=3))
        await runtime.reload(more)
        assert await say(runtime, "Bo") is TurnEnd.COMPLETED
        assert runtime.cost.npcs["Bo"].cost == 3.5
        assert await say(runtime, "Bo") is TurnEnd.SHED
        await runtime.reload(config())
        assert await say(runtime, "Bo") is TurnEnd.COMPLETED


def speaks(**prices: Price) -> Config:
    return attrs.evolve(
        config(),
        npcs=(NpcConfig(name="Ann", engine=Engine.S2S),),
        s2s=S2SConfig(provider=S2SProvider.OPENAI_REALTIME, model="hears"),
        cost=CostConfig(prices=prices),
    )


async def test_prices_of_text_for_a_model_that_hears_are_a_warning(
    autojump_clock: MockClock,
) -> None:
    right = Price(input=1, audio_input=9, audio_output=9)
    for chosen, warned in (
        (speaks(hears=Price(input=1, output=2)), True),
        (speaks(hears=Price(input=1, audio_input=9)), True),
        (speaks(hears=right), False),
        (speaks(other=Price(input=1)), False),
        (speaks(), False),
    ):
        async with open_runtime(chosen) as runtime:
            texts = [w.text for w in runtime.warnings if "cost.prices[hears]" in w.text]
            assert len(texts) == warned
            if not warned:
                # And so it is at a reload, once.
                await runtime.reload(speaks(hears=Price(input=3)))
                await runtime.reload(speaks(hears=Price(input=4)))
                texts = [w.text for w in runtime.warnings]
                assert sum("prices of text alone" in text for text in texts) == 1
