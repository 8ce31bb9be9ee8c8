"""The readings of a scrape: all figures of a runtime at one moment.

They come from `Figures`, which counts events, and from the statistics of the other
rooms, which are read here and not counted again: a count that another room
adds to its statistics is one more entry of `_of_the_host`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from glyphoxa_trio.host import HostStatistics, ToolHost
from glyphoxa_trio.mcp import ServerState, ServerStatus
from glyphoxa_trio.runtime import OverloadStatistics, Runtime
from glyphoxa_trio.tools.breaker import BreakerState
from glyphoxa_trio.tools.gate import Availability, Reason
from glyphoxa_trio.tools.tier import Tier

from .family import Family, counter, gauge, histogram
from .figures import Figures, Histogram, Labels

# As `open_host` has it: from so many strays on, they are why a tool is refused.
_STRAYS: Final = 2
_TOOL: Final = ("server", "tool")


def read(runtime: Runtime, figures: Figures) -> tuple[Family, ...]:
    """All families, always all of them and in one order.

    In trio's thread; a moment's work, and a look at each tool of the catalogue.
    """
    return (
        *_of_calls(figures),
        *_of_servers(runtime.servers()),
        *_of_turns(runtime, figures),
        *_of_models(runtime, figures),
        *_of_tools(runtime.host, figures),
        *_of_the_host(runtime.host.statistics()),
        *_of_the_load(runtime.overload.statistics()),
        counter(
            "glyphoxa_metrics_faults",
            "Events that were not counted, by a mistake in these metrics.",
            figures.faults,
        ),
    )


def _of_calls(figures: Figures) -> Iterator[Family]:
    yield counter(
        "ai_agent_mcp_tool_calls",
        "Tool calls of NPCs by how they ended, refused ones included.",
        {(s, t, end.value): n for (s, t, end), n in figures.calls.items()},
        *(*_TOOL, "status"),
    )
    yield histogram(
        "ai_agent_mcp_tool_latency_seconds",
        "How long calls and probes took that reached their tool: the samples that"
        " calibration has. One that was cut counts as just longer.",
        figures.latency,
        *_TOOL,
    )
    yield counter(
        "glyphoxa_tool_stalls",
        "Calls of a tool of this process that held the event loop.",
        figures.stalls,
        *_TOOL,
    )


def _of_servers(rows: tuple[ServerStatus, ...]) -> Iterator[Family]:
    yield counter(
        "ai_agent_mcp_server_restarts",
        "How often an MCP server was started again.",
        {(row.name,): row.restarts for row in rows},
        "server",
    )
    yield gauge(
        "ai_agent_mcp_server_up",
        "1 if an MCP server is connected and has listed its tools.",
        {(row.name,): row.state is ServerState.READY for row in rows},
        "server",
    )
    states = Counter(row.state for row in rows)
    yield gauge(
        "glyphoxa_servers",
        "MCP servers by state; idle is a lazy one that has not been called.",
        {(state.value,): states[state] for state in ServerState},
        "state",
    )


def _of_turns(runtime: Runtime, figures: Figures) -> Iterator[Family]:
    yield counter(
        "glyphoxa_turns",
        "Turns by how they ended, and by their effective tier.",
        figures.turns,
        *("end", "tier"),
    )
    yield gauge("glyphoxa_turns_running", "NPCs in a turn.", runtime.turns_running)
    yield gauge(
        "glyphoxa_sessions",
        "Sessions that have begun and not ended.",
        {("open",): len(runtime.sessions), ("set_aside",): runtime.set_aside},
        "state",
    )
    waiting, lost = runtime.memory_queue
    yield gauge(
        "glyphoxa_memory_waiting",
        "Turns, snapshots and corrections that are not written to memory yet.",
        waiting,
    )
    yield counter(
        "glyphoxa_memory_lost",
        "Turns, snapshots and corrections that memory had no room for.",
        lost,
    )
    yield gauge(
        "glyphoxa_tier_ceiling_seconds",
        "The tool budget of a turn.",
        {(str(tier),): figures.limits.ceiling(tier) for tier in Tier},
        "tier",
    )
    yield histogram(
        "glyphoxa_turn_tool_budget_ratio",
        "Share of its tool budget that a turn with calls has spent; 1 is all of it.",
        _by_tier(figures.tool_time),
        "tier",
    )
    yield counter(
        "glyphoxa_fan_outs",
        "Responses of models whose calls were run.",
        {(str(tier),): figures.fan_outs[tier] for tier in Tier},
        "tier",
    )
    yield counter(
        "glyphoxa_fan_outs_cut",
        "Of those, the ones that met the ceiling of their turn.",
        {(str(tier),): figures.fan_outs_cut[tier] for tier in Tier},
        "tier",
    )
    yield histogram(
        "glyphoxa_first_sentence_seconds",
        "From the choice of a turn's tier to its first sentence.",
        _by_tier(figures.first_sentence),
        "tier",
    )
    yield counter(
        "glyphoxa_fallbacks",
        "Turns in which a line of the configuration was said, by reason.",
        {(reason,): count for reason, count in figures.fallbacks.items()},
        "reason",
    )
    yield counter(
        "glyphoxa_speculations",
        "Turns begun on a partial transcript, by what became of them.",
        {(end,): count for end, count in figures.speculations.items()},
        "end",
    )
    yield counter(
        "glyphoxa_speculations_wasted_seconds",
        "How long models and tools worked for speculations that were not used.",
        figures.speculation_waste,
    )


def _of_models(runtime: Runtime, figures: Figures) -> Iterator[Family]:
    yield counter(
        "glyphoxa_fillers",
        "Fan-outs so slow that something was said meanwhile.",
        figures.fillers,
    )
    yield counter(
        "glyphoxa_model_failures",
        "Answers that no model came up with, by kind.",
        {(kind,): count for kind, count in figures.models.failures.items()},
        "kind",
    )
    yield counter(
        "glyphoxa_model_switches",
        "Rounds that another model answered than the one that is asked first.",
        figures.models.switches,
        *("model", "instead_of"),
    )
    yield gauge(
        "glyphoxa_model_breaker_open",
        "1 while a model of several is passed over because it fails.",
        {(row.name,): row.breaker is not BreakerState.CLOSED for row in runtime.models},
        "model",
    )
    yield counter(
        "glyphoxa_model_tokens",
        "Tokens of models' responses; cached is input that a cache had.",
        figures.models.tokens,
        *("model", "kind"),
    )
    yield counter(
        "glyphoxa_model_audio_seconds",
        "Audio that models took which are paid by the minute.",
        figures.models.seconds,
        "model",
    )
    yield counter(
        "glyphoxa_model_cost",
        "What the tokens of models that have a price cost.",
        figures.models.cost,
        "model",
    )


def _of_tools(host: ToolHost, figures: Figures) -> Iterator[Family]:
    lingering = host.statistics().shared_tasks.lingering
    strays: Counter[Labels] = Counter()
    for key, count in lingering.items():
        strays[figures.names.of(str(key))] += count
    yield gauge(
        "glyphoxa_strays",
        "Calls that were cancelled and do not stop.",
        strays,
        *_TOOL,
    )
    tiers: Counter[Tier] = Counter()
    degraded, blocked = 0, Counter(server=0, breaker=0, strays=0, stalls=0)
    for listing, no in host.explain():
        tiers[listing.estimate.tier] += 1
        degraded += listing.estimate.degraded is not None
        if no is not None and no.reason is Reason.HOLDS_LOOP:
            blocked["stalls"] += 1
        if no is not None and no.reason is Reason.UNAVAILABLE:
            if listing.availability is Availability.DOWN:
                blocked["server"] += 1
            elif lingering.get(listing.key, 0) >= _STRAYS:
                blocked["strays"] += 1
            else:
                blocked["breaker"] += 1
    yield gauge(
        "glyphoxa_tools",
        "Tools by tier.",
        {(str(tier),): tiers[tier] for tier in Tier},
        "tier",
    )
    yield gauge(
        "glyphoxa_tools_blocked",
        "Tools that cannot be called now: their server is down, their breaker is open,"
        " earlier calls do not stop, or they hold the event loop.",
        {(why,): count for why, count in blocked.items()},
        "why",
    )
    yield gauge(
        "glyphoxa_tools_degraded",
        "Tools that lost a tier because they fail or hang.",
        degraded,
    )
    yield gauge(
        "glyphoxa_tools_held_back",
        "Tools that have changed since they were approved.",
        len(host.approvals.held),
    )


def _of_the_host(now: HostStatistics) -> Iterator[Family]:
    """Return the readings that the host counts by itself."""
    yield gauge(
        "glyphoxa_calls_running", "Calls that are running.", now.shared_tasks.running
    )
    yield counter(
        "glyphoxa_refusals",
        "Calls that were not run, by reason; unknown is a name that no tool has.",
        {(reason.value,): n for reason, n in now.executor.refusals.items()},
        "reason",
    )
    cache = now.executor.cache
    yield counter("glyphoxa_cache_hits", "Calls answered from the cache.", cache.hits)
    yield counter(
        "glyphoxa_cache_misses", "Calls that the cache could have had.", cache.misses
    )
    hedging = now.executor.hedging
    yield counter(
        "glyphoxa_hedges",
        "Second attempts at another server by what came of them; over_budget ones"
        " were not made.",
        {
            ("won",): hedging.won,
            ("lost",): hedging.lost,
            ("over_budget",): hedging.over_budget,
        },
        "result",
    )
    yield counter(
        "glyphoxa_hedges_wasted_seconds",
        "How long attempts took whose answer was not needed after all.",
        hedging.wasted,
    )
    yield counter(
        "glyphoxa_observations_dropped",
        "Measurements that the calibrator was too busy to take.",
        now.calibrator.dropped,
    )
    yield counter(
        "glyphoxa_measurements_lost",
        "Measurements that no disk took, so that the next run does without them.",
        0 if now.history is None else now.history.lost,
    )


def _of_the_load(now: OverloadStatistics) -> Iterator[Family]:
    yield gauge(
        "glyphoxa_shedding",
        "1 while turns are turned away because the machine cannot serve them.",
        now.shedding,
    )
    yield gauge(
        "glyphoxa_loop_lag_seconds", "How late the loop was, a moment ago.", now.lag
    )


def _by_tier(found: Mapping[Tier, Histogram]) -> dict[Labels, Histogram]:
    return {(str(tier),): histogram for tier, histogram in found.items()}
