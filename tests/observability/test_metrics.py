"""A runtime and its metrics: what is counted, what never becomes a label, who asks.

Virtual time for what turns take; the registry is asked as Prometheus would ask it,
and what it says is read with Prometheus' own parser.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import trio
from trio.testing import MockClock

from glyphoxa_trio import Config, Runtime, TurnDone, open_runtime
from glyphoxa_trio.config import (
    CalibrationConfig,
    LlmConfig,
    McpConfig,
    NpcConfig,
    TurnConfig,
)
from glyphoxa_trio.npc import TurnEnd, TurnEvent
from glyphoxa_trio.observability import Metrics, MetricsError, open_metrics
from glyphoxa_trio.providers.llm import ErrorKind, Finished, LLMError, Switched, Usage
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.tier import Tier

from ..npc.support import Ran, Reply, ScriptedLLM, call, no
from .support import LIMIT

CALLS = "ai_agent_mcp_tool_calls_total"
LATENCY = "ai_agent_mcp_tool_latency_seconds"
SECRET = "sk-model-key-77"


def config(*npcs: NpcConfig, **more: Any) -> Config:
    """Nothing outlives the test, and nothing is measured that no NPC calls."""
    bo = NpcConfig(name="Bo", tools=("*",), budget_tier=Tier.DEEP)
    return Config(
        npcs=npcs or (bo,),
        mcp=McpConfig(remember=False),
        calibration=CalibrationConfig(at_start=False),
        **more,
    )


@asynccontextmanager
async def table(
    *replies: Reply, tools: tuple[Tool, ...] = (), chosen: Config | None = None
) -> AsyncGenerator[tuple[Runtime, Metrics]]:
    llm = ScriptedLLM(replies)
    async with open_runtime(chosen or config(), tools=tools, llm=llm) as runtime:
        async with open_metrics(runtime) as metrics:
            yield runtime, metrics


async def say(
    runtime: Runtime, text: str = "Hello", *, tier: Tier | None = Tier.FAST
) -> TurnDone:
    async with runtime.npc("Bo").say(text, tier=tier) as turn:
        return await turn.finish()


def shown(registry: CollectorRegistry, name: str) -> dict[tuple[str, ...], float]:
    """The samples of one name, by the values of their labels in the labels' order."""
    text = generate_latest(registry).decode()
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


def buckets(registry: CollectorRegistry, name: str) -> dict[float, float]:
    """Cumulative counts by bound, of all labels together."""
    found: dict[float, float] = {}
    text = generate_latest(registry).decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == f"{name}_bucket":
                bound = float(sample.labels["le"])
                found[bound] = found.get(bound, 0.0) + sample.value
    return found


# ------------------------------------------------------------------ what is shown


async def test_a_call_is_a_count_and_a_latency(autojump_clock: MockClock) -> None:
    # A46, A47
    ran = Ran()
    tools = (ran.tool("slow", 0.3), ran.tool("fast", 0.03))
    replies: list[Reply] = [[call("slow"), call("fast")], ["Well."]]
    async with table(*replies, tools=tools) as (runtime, metrics):
        await say(runtime)
        assert shown(metrics.registry, CALLS) == {
            ("test", "ok", "fast"): 1,
            ("test", "ok", "slow"): 1,
        }
        assert shown(metrics.registry, f"{LATENCY}_sum") == pytest.approx(
            {("test", "fast"): 0.03, ("test", "slow"): 0.3}
        )
        below = buckets(metrics.registry, LATENCY)
        assert (below[0.025], below[0.05], below[0.2], below[0.35]) == (0, 1, 1, 2)


async def test_the_histogram_has_the_samples_that_calibration_has(
    autojump_clock: MockClock,
) -> None:
    # A47, D7: ok, cut by the turn, own limit, the tool said no, a bug, a bad call
    ran = Ran()
    tools = (
        ran.tool("fine", 0.2),
        ran.tool("late", 60.0, estimated_duration=0.1),
        ran.tool("limited", 60.0, estimated_duration=0.1, max_duration=0.4),
        ran.tool("refuses", 0.1, error=no()),
        ran.tool("broken", 0.1, error=RuntimeError("bug")),
    )
    calls = [call(tool.definition.name) for tool in tools]
    bad = call("fine", "no json", id="bad")
    async with table([*calls, bad], ["Well."], tools=tools) as (runtime, metrics):
        await say(runtime)
        measured = {
            key: estimate.samples
            for key, estimate in (await runtime.host.report()).items()
            if estimate.samples
        }
        counted = shown(metrics.registry, f"{LATENCY}_count")
        assert measured == {"test.fine": 1, "test.late": 1, "test.limited": 1}
        assert {f"{s}.{t}": count for (s, t), count in counted.items()} == measured
        below = buckets(metrics.registry, LATENCY)
        # The one that was cut at half a second is not among the half-second ones.
        assert (below[0.2], below[0.5], below[0.75]) == (1, 2, 3)
        assert shown(metrics.registry, CALLS) == {
            ("test", "ok", "fine"): 1,
            ("test", "invalid_arguments", "fine"): 1,
            ("test", "timeout", "late"): 1,
            ("test", "timeout", "limited"): 1,
            ("test", "tool_error", "refuses"): 1,
            ("test", "crashed", "broken"): 1,
        }


async def test_a_turn_is_shown_against_its_budget(autojump_clock: MockClock) -> None:
    ran = Ran()
    tools = (ran.tool("half", 0.25), ran.tool("late", 60.0, estimated_duration=0.1))
    replies: list[Reply] = [
        [call("half")],
        ["Well."],
        [call("late")],
        [0.75, "It is late."],
    ]
    async with table(*replies, tools=tools) as (runtime, metrics):
        await say(runtime)
        await say(runtime)
        registry = metrics.registry
        below = buckets(registry, "glyphoxa_turn_tool_budget_ratio")
        assert (below[0.25], below[0.5], below[0.9], below[1.0]) == (0, 1, 1, 2)
        assert shown(registry, "glyphoxa_fan_outs_total")["fast",] == 2
        assert shown(registry, "glyphoxa_fan_outs_cut_total")["fast",] == 1
        assert shown(registry, "glyphoxa_turns_total") == {("completed", "fast"): 2}
        assert shown(registry, "glyphoxa_tier_ceiling_seconds") == {
            ("fast",): 0.5,
            ("standard",): 1.5,
            ("deep",): 4.0,
        }
        # 0.25 s of a tool; half a second of another and 0.75 s of the model.
        sums = shown(registry, "glyphoxa_first_sentence_seconds_sum")
        assert sums["fast",] == pytest.approx(0.25 + 0.5 + 0.75)


async def test_every_end_of_a_turn_is_counted(autojump_clock: MockClock) -> None:
    down = LLMError(ErrorKind.UNREACHABLE, "connect to 10.0.0.7")
    async with table([down], [60.0], ["Fine."]) as (runtime, metrics):
        assert (await say(runtime)).end is TurnEnd.FAILED
        with trio.move_on_after(1):
            await say(runtime, tier=Tier.DEEP)
        await say(runtime)
        registry = metrics.registry
        assert shown(registry, "glyphoxa_turns_total") == {
            ("failed", "fast"): 1,
            ("interrupted", "deep"): 1,
            ("completed", "fast"): 1,
        }
        assert shown(registry, "glyphoxa_model_failures_total") == {("unreachable",): 1}
        assert shown(registry, "glyphoxa_fallbacks_total") == {("model_failed",): 1}


async def test_what_models_took_and_which_ones_answered_is_counted(
    autojump_clock: MockClock,
) -> None:
    usage = Usage(input_tokens=100, output_tokens=7, cached_tokens=40, model="b")
    switched = Switched(model="b", instead_of="a", reason="overloaded: it is")
    async with table([switched, "Fine.", Finished(usage=usage)]) as (runtime, metrics):
        await say(runtime)
        registry = metrics.registry
        assert shown(registry, "glyphoxa_model_switches_total") == {("a", "b"): 1}
        assert shown(registry, "glyphoxa_model_tokens_total") == {
            ("input", "b"): 60,
            ("cached", "b"): 40,
            ("output", "b"): 7,
        }
        assert shown(registry, "glyphoxa_model_cost_total") == {}


async def test_what_other_rooms_count_is_read_when_it_is_asked_for(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    tools = (ran.tool("map", 0.1, cacheable=60.0),)
    replies: list[Reply] = [[call("map")], ["Well."]] * 3
    async with table(*replies, tools=tools) as (runtime, metrics):
        registry = metrics.registry
        assert shown(registry, "glyphoxa_sessions") == {("open",): 0, ("set_aside",): 0}
        for _ in range(3):
            await say(runtime)
        await runtime.host.execute("ball")  # no tool of that name, and no turn
        assert shown(registry, "glyphoxa_cache_hits_total") == {(): 2}
        assert shown(registry, "glyphoxa_cache_misses_total") == {(): 1}
        assert shown(registry, "glyphoxa_refusals_total") == {("unknown",): 1}
        assert shown(registry, "glyphoxa_sessions") == {("open",): 1, ("set_aside",): 0}
        assert shown(registry, "glyphoxa_turns_running") == {(): 0}
        assert shown(registry, "glyphoxa_tools")["deep",] == 0
        # Two of the calls reached nobody: one sample, three calls.
        assert shown(registry, CALLS) == {("test", "ok", "map"): 3}
        assert shown(registry, f"{LATENCY}_count") == {("test", "map"): 1}


async def test_calls_that_do_not_stop_are_shown(autojump_clock: MockClock) -> None:
    stop = trio.Event()

    async def resist(_: Any, __: Any) -> str:
        with trio.CancelScope(shield=True):
            await stop.wait()
        return ""

    ran = Ran()
    stray = ran.tool("stray", 0.1)
    tools = (Tool(definition=stray.definition, handler=resist),)  # type: ignore[arg-type]
    replies: list[Reply] = [
        [call("stray", id="1"), call("stray", id="2")],
        ["Well."],
    ]
    async with table(*replies, tools=tools) as (runtime, metrics):
        await say(runtime)
        await trio.sleep(1)
        registry = metrics.registry
        assert shown(registry, "glyphoxa_strays") == {("test", "stray"): 2}
        assert shown(registry, "glyphoxa_tools_blocked")["strays",] == 1
        assert shown(registry, "glyphoxa_calls_running") == {(): 2}
        stop.set()
        await trio.sleep(1)
        assert shown(registry, "glyphoxa_strays") == {}
        assert shown(registry, "glyphoxa_tools_blocked")["strays",] == 0


async def test_an_open_breaker_is_shown_while_it_refuses(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    tools = (ran.tool("broken", 0.0, error=RuntimeError("bug")),)
    async with table(tools=tools) as (runtime, metrics):
        whys = ("server", "breaker", "strays", "stalls")
        blocked = {(why,): 0.0 for why in whys}
        assert shown(metrics.registry, "glyphoxa_tools_blocked") == blocked
        for _ in range(5):
            await runtime.host.execute("broken")
        assert shown(metrics.registry, "glyphoxa_tools_blocked") == {
            **blocked,
            ("breaker",): 1,
        }
        await trio.sleep(11)  # its pause is over
        assert shown(metrics.registry, "glyphoxa_tools_blocked") == blocked


# ------------------------------------------------------------ what never is a label


async def test_nobodys_words_and_no_secret_are_in_the_metrics(
    autojump_clock: MockClock,
) -> None:
    # A39: everything that is written is searched
    ran = Ran()
    tools = (ran.tool("toss", 0.1), ran.tool("broken", 0.1, error=ValueError(SECRET)))
    invented = call("reveal_zebulon", '{"who": "Zebulon"}')
    replies: list[Reply] = [
        [call("toss", '{"name": "Zebulon"}'), call("broken"), invented],
        ["Zebulon, is it? ", "So be it."],
        [LLMError(ErrorKind.AUTHENTICATION, f"bad key {SECRET}")],
    ]
    chosen = config(llm=LlmConfig(api_key=Secret(SECRET)))
    async with table(*replies, tools=tools, chosen=chosen) as (runtime, metrics):
        await say(runtime, "I am Zebulon")
        await say(runtime, "I am Zebulon")
        text = generate_latest(metrics.registry).decode()
        assert 'server="unknown",status="denied",tool="unknown"' in text
        assert 'tool="broken"' in text
        for word in ("Zebulon", "zebulon", SECRET, "reveal", "Bo", "So be it"):
            assert word not in text, word


# ---------------------------------------------------------------------- registries


async def test_two_runtimes_in_one_process_have_figures_of_their_own(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    tools = (ran.tool("toss", 0.1),)
    script: list[Reply] = [[call("toss")], ["Well."]]
    async with table(*script, tools=tools) as (first, one), table() as (_, other):
        await say(first)
        assert shown(one.registry, CALLS) == {("test", "ok", "toss"): 1}
        assert shown(other.registry, CALLS) == {}


async def test_a_registry_of_ones_own_is_left_as_it_was(
    autojump_clock: MockClock,
) -> None:
    registry = CollectorRegistry()
    async with open_runtime(config(), llm=ScriptedLLM([])) as runtime:
        for _ in range(2):  # whoever has left may come again
            async with open_metrics(runtime, registry=registry) as metrics:
                assert metrics.registry is registry
                assert shown(registry, "glyphoxa_turns_running") == {(): 0}
                with pytest.raises(MetricsError, match="each its own"):
                    async with open_metrics(runtime, registry=registry):
                        pytest.fail("registered twice")
            assert generate_latest(registry) == b""
        assert runtime.events._taps == []


async def test_it_may_be_scraped_from_any_thread() -> None:
    async with table(["Well."]) as (runtime, metrics):
        await say(runtime)
        with trio.fail_after(LIMIT):
            found = await trio.to_thread.run_sync(
                shown, metrics.registry, "glyphoxa_turns_total"
            )
        assert found == {("completed", "fast"): 1}


async def test_a_registry_that_outlives_the_loop_has_nothing_to_say() -> None:
    kept: list[Metrics] = []

    async def main() -> None:
        async with open_runtime(config(), llm=ScriptedLLM([])) as runtime:
            async with open_metrics(runtime) as metrics:
                kept.append(metrics)
                # As an exporter's thread has it that is in the middle of a scrape.
                kept[0].registry = _copy_of(metrics.registry)

    def _copy_of(registry: CollectorRegistry) -> CollectorRegistry:
        copied = CollectorRegistry()
        for collector in registry._collector_to_names:
            copied.register(collector)
        return copied

    with trio.fail_after(LIMIT):
        await trio.to_thread.run_sync(trio.run, main)
        said = await trio.to_thread.run_sync(generate_latest, kept[0].registry)
    assert said == b""


# ----------------------------------------------------------------- who watches, waits


async def test_an_event_that_makes_no_sense_ends_nothing(
    autojump_clock: MockClock,
) -> None:
    async with table(["Well."]) as (runtime, metrics):
        broken: Any = TurnDone.__new__(TurnDone)  # without any field
        runtime.events.publish(broken)
        runtime.events.publish(TurnEvent(npc="Bo", turn=0))  # of no interest
        assert (await say(runtime)).end is TurnEnd.COMPLETED
        assert shown(metrics.registry, "glyphoxa_metrics_faults_total") == {(): 1}
        assert shown(metrics.registry, "glyphoxa_turns_total") == {
            ("completed", "fast"): 1
        }


async def test_a_burst_of_events_is_counted_to_the_last_one(
    autojump_clock: MockClock,
) -> None:
    async with table(*[["Well."]] * 300) as (runtime, metrics):
        for _ in range(300):
            await say(runtime)
        assert shown(metrics.registry, "glyphoxa_turns_total") == {
            ("completed", "fast"): 300
        }


async def test_the_families_are_the_same_before_anything_happens() -> None:
    """So that a rule of an operator's has something to look at from the start."""
    async with table(chosen=config(turn=TurnConfig())) as (_, metrics):
        names = {family.name: family.type for family in metrics.registry.collect()}
    kinds: Mapping[str, str] = {
        "ai_agent_mcp_tool_calls": "counter",
        "ai_agent_mcp_tool_latency_seconds": "histogram",
        "ai_agent_mcp_server_restarts": "counter",
        "ai_agent_mcp_server_up": "gauge",
    }
    assert kinds.items() <= names.items()
    others = names.keys() - kinds.keys()
    assert all(name.startswith("glyphoxa_") for name in others)
