"""Events and tables as people and programs read them: pure, no terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from glyphoxa_trio.control.tools_view import health
from glyphoxa_trio.host import CatalogueEntry
from glyphoxa_trio.mcp import ServerState, ServerStatus
from glyphoxa_trio.npc import (
    ContextAdded,
    FanOutDone,
    FellBack,
    Filler,
    ModelFailed,
    ModelSwitched,
    Scripted,
    Shed,
    TierSelected,
    ToolsShown,
    TurnDone,
    TurnEvent,
    UsageReported,
)
from glyphoxa_trio.tools.characters import harmless
from glyphoxa_trio.tools.estimate import Estimate, EstimateSource
from glyphoxa_trio.tools.outcome import Effect, Outcome, Status
from glyphoxa_trio.tools.search import SEARCH
from glyphoxa_trio.tools.tier import badge
from glyphoxa_trio.tools.usability import Usability, Use
from glyphoxa_trio.units import in_ms, many

_LONGEST: Final = 160  # characters of a foreign text in one quiet line


on_screen: Final = harmless  # what every verb writes has passed it


def fan_out_line(event: FanOutDone) -> str:
    """One quiet line: tier, tools shown, each call against the ceiling, the cost."""
    calls = ", ".join(_call(outcome) for outcome in event.outcomes)
    return (
        f"{event.tier} · {many(event.shown, 'tool')} shown · {calls}"
        f" · {in_ms(event.elapsed)} of {in_ms(event.budget)}"
    )


def _call(outcome: Outcome) -> str:
    name = outcome.tool or cut(outcome.call.name)
    match outcome.status:
        case Status.OK if outcome.cached:
            return f"{name} cached"
        case Status.OK:
            return f"{name} {in_ms(outcome.elapsed)}"
        case Status.TIMEOUT:
            what = f"cut after {in_ms(outcome.elapsed)} by the {outcome.limit}'s limit"
        case Status.SKIPPED | Status.DENIED | Status.UNAVAILABLE:
            what = f"{outcome.status}: {cut(outcome.message)}"
        case status:
            what = f"{status.replace('_', ' ')} after {in_ms(outcome.elapsed)}"
    unknown = ", effect unknown" if outcome.effect is Effect.UNKNOWN else ""
    return f"{name} {what}{unknown}"


def cut(text: str) -> str:
    """Return a foreign text as one line of bounded length."""
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"


def why_lines(events: Iterable[TurnEvent]) -> list[str]:
    """Return the decisions of the runtime in a turn, and their grounds, as lines."""
    lines: list[str] = []
    for event in events:
        match event:
            case TierSelected():
                held = (
                    f", held to {event.tier} by the NPC's ceiling"
                    if event.tier < event.selected
                    else ""
                )
                lines.append(
                    f"{event.selected} because of {event.reason}{held}:"
                    f" {in_ms(event.budget)} for tools"
                )
            case Scripted():
                lines.append(f"given words, by {event.speaker}: no model was asked")
            case ContextAdded():
                lines += [f"added by a hook: {cut(line)}" for line in event.lines]
                lines += [f"hook left out: {name}: {why}" for name, why in event.missed]
            case ToolsShown():
                names = ", ".join(event.shown) or "no tools"
                words = " (asked to answer in words)" if event.forbidden else ""
                lines.append(
                    f"round {event.round + 1}: {in_ms(event.remaining)} left,"
                    f" shown {names}{words}"
                )
                if event.deferred:
                    lines.append(
                        f"  {len(event.deferred)} more are told of in a line each,"
                        f" and loaded with {SEARCH.name}"
                    )
                lines += [
                    f"  hidden {name}: {no.text}"
                    + (f" ({no.remedy})" if no.remedy else "")
                    for name, no in event.hidden
                ]
            case Filler():
                lines.append(f"  said meanwhile: {cut(event.text)}")
            case FanOutDone():
                lines.append(f"round {event.round + 1}: ran {fan_out_line(event)}")
                lines += [
                    f"  {outcome.tool or outcome.call.name}"
                    f"({outcome.call.arguments}): {outcome.message}"
                    for outcome in event.outcomes
                ]
            case ModelFailed():
                lines.append(f"the model failed: {event.kind}: {event.detail}")
            case ModelSwitched():
                lines.append(
                    f"{event.model} answers instead of {event.instead_of}:"
                    f" {event.reason}"
                )
            case UsageReported():
                cost = "" if event.cost is None else f", costs {event.cost:.4g}"
                lines.append(f"{event.model}: {_used(event)}{cost}")
            case Shed():
                lines.append(f"turned away: {event.reason}")
            case FellBack():
                lines.append(f"a fallback line was said: {event.reason}")
            case TurnDone():
                times = event.timings
                lines.append(
                    f"{event.end}: model {in_ms(times.model)}, tools"
                    f" {in_ms(times.tools)}, all {in_ms(times.total)}"
                )
            case _:
                pass
    return lines


def mcp_lines(rows: Sequence[ServerStatus]) -> list[str]:
    """Return the servers with their tools, a line each.

    Beneath the ones that are there, those that are not, and why.
    """
    there = [row for row in rows if row.state is ServerState.READY]
    missing = [row for row in rows if row.state is not ServerState.READY]
    return [
        "MCP Servers:",
        *(
            f"  {row.name} ({many(len(row.tools), 'tool')})"
            f"{': ' if row.tools else ''}{', '.join(row.tools)}"
            for row in there
        ),
        *(f"  {row.name} ({row.state}): {_reason(row)}" for row in missing),
        *(() if rows else ("  none",)),
    ]


def _reason(row: ServerStatus) -> str:
    if row.last_error:
        return cut(row.last_error)
    return "not connected" if row.state is ServerState.STOPPED else "not connected yet"


# What the first lines of `server_lines` say already.
_SAID: Final = ("name", "transport", "state", "state_ms", "tools")


def server_lines(row: Mapping[str, Any]) -> list[str]:
    """All that is known of one server, from its entry in a status."""
    after = milliseconds_in_words(row["state_ms"])
    tools = ", ".join(row["tools"])
    return [
        f"{row['name']} ({row['transport']}): {row['state']} for {after}",
        f"  {many(len(row['tools']), 'tool')}{tools and ': '}{tools}",
        *(
            f"  {key.replace('_', ' ')}: {_listed(value)}"
            for key, value in row.items()
            if key not in _SAID and value not in (None, [], {}, "", False)
        ),
    ]


def _listed(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else cut(str(value))


def milliseconds_in_words(value: int) -> str:
    """For people: ``90500`` becomes ``1 min 30 s``."""
    total = value // 1000
    days, hours, minutes = total // 86400, total // 3600 % 24, total // 60 % 60
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (total % 60, "s")]
    return " ".join(f"{n} {unit}" for n, unit in parts if n) or "0 s"


COLUMNS: Final = (
    "tool",
    "exposed as",
    "declared",
    "p50",
    "p99",
    "badge",
    "tier",
    "health",
)


def tool_row(listing: CatalogueEntry, estimate: Estimate) -> tuple[str, ...]:
    """One tool's cells, in the order of `COLUMNS`."""
    declared = listing.definition.estimated_duration
    return (
        listing.key,
        listing.exposed,
        time_or_dash(declared),
        _measured(estimate.p50, estimate),
        _measured(estimate.p99, estimate),
        "" if estimate.p50 is None else badge(estimate.p50),
        str(estimate.tier),
        health(listing, estimate),
    )


def time_or_dash(value: float | None) -> str:
    """A time, or the mark of an empty cell."""
    return "–" if value is None else in_ms(value)  # noqa: RUF001


def _measured(value: float | None, estimate: Estimate) -> str:
    if value is None:
        return time_or_dash(None)
    few = (
        "" if estimate.source is EstimateSource.MEASURED else f" (n={estimate.samples})"
    )
    return f"{in_ms(value)}{few}"


def reach_in_words(judged: Sequence[Usability]) -> str:
    """Say how many of the tools that an NPC is granted it can use."""
    asked = sum(x.use is Use.ASKED for x in judged)
    told = f", {asked} of them after an approval" if asked else ""
    return f"can use {sum(x.usable for x in judged)} of {len(judged)} tools{told}"


def _used(event: UsageReported) -> str:
    """Tokens, and what of them was audio; seconds where those are paid."""
    if event.audio_time:
        return f"{event.audio_time:.3g} s of audio"
    tokens = f"{many(event.input_tokens, 'token')} in, {event.output_tokens} out"
    heard, spoken = event.audio_input_tokens, event.audio_output_tokens
    return (
        f"{tokens} ({heard} and {spoken} of them audio)" if heard or spoken else tokens
    )
