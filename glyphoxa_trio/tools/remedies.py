"""The remedies that an operator has for a tool that an NPC cannot use. Pure.

`ways` yields each remedy with the `GateState` that it would lead to if followed.
`usability.judge` asks the gate about that, and offers those that change its answer.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final

import attrs

from glyphoxa_trio.units import in_ms, milliseconds

from .consent import measured_unnamed
from .definition import ToolDefinition
from .estimate import Estimate, EstimateSource, Unknown, estimate
from .gate import (
    Availability,
    Candidate,
    Grant,
    Reason,
    Refusal,
    minutes_to_trial,
    refusal,
)
from .holding import REMEDY
from .naming import names_in_full
from .tier import Tier, TierLimits
from .window import LatencyWindow

CONFIG: Final = "CONFIG"  # stands for the file of the configuration in a command


class RemedyKind(StrEnum):
    """The way in which a remedy is followed."""

    ADD = "add"  # a value to a list of the configuration
    SET = "set"  # a key of the configuration
    RUN = "run"  # a command
    WAIT = "wait"  # by waiting


@attrs.frozen(kw_only=True)
class Remedy:
    """One thing that an operator can do.

    Args:
      where: the keys that lead to the place in the configuration, the last one being
        the list or the key itself; an NPC and a server are given by their names. A
        place in the project's ``.mcp.json`` begins with that.
      value: the value to add or set, or the words of a command behind ``glyphoxa``."""

    kind: RemedyKind
    text: str
    where: tuple[str, ...] = ()
    value: Any = None


@attrs.frozen(kw_only=True)
class Places:
    """The places of NPCs, of an NPC's trust and of a tool in the configuration.

    ``tool`` is None for one that the configuration cannot change: an embedder's own.
    """

    npcs: str = "npcs"
    trust: tuple[str, ...] = ("trust",)
    tool: tuple[str, ...] | None = None


ANYWHERE: Final = Places()


@attrs.frozen(kw_only=True)
class GateState:
    """The input of the gate: as it is, or as a remedy would make it."""

    candidate: Candidate
    grant: Grant
    ceiling: Tier
    limits: TierLimits
    unknown: Unknown
    places: Places

    def refusal(self, tier: Tier | None = None) -> Refusal | None:
        tier = self.ceiling if tier is None else tier
        return refusal(
            self.candidate,
            self.grant,
            tier=tier,
            remaining=self.limits.ceiling(tier),
        )

    @property
    def definition(self) -> ToolDefinition:
        return self.candidate.definition

    @property
    def blank(self) -> Estimate:
        """The estimate as if the tool had never been measured."""
        return self.reckoned(self.definition)

    def reckoned(
        self, definition: ToolDefinition, unknown: Unknown | None = None
    ) -> Estimate:
        return estimate(
            definition,
            LatencyWindow(),
            now=0.0,
            limits=self.limits,
            unknown=unknown or self.unknown,
        )

    def with_estimate(self, new: Estimate, **definition: Any) -> GateState:
        changed = attrs.evolve(self.definition, **definition)
        candidate = attrs.evolve(self.candidate, definition=changed, estimate=new)
        return attrs.evolve(self, candidate=candidate)


Way = tuple[Remedy, GateState]


def ways(reason: Reason, state: GateState) -> Iterator[Way]:
    """Yield the remedies that might help, the likeliest first."""
    match reason:
        case Reason.NOT_GRANTED:
            yield from _named(state)
        case Reason.CHANGED:
            after = attrs.evolve(state.candidate, changed=False)
            key = state.definition.key
            yield (
                _run(state, "look at it, then", "mcp", "approve", key),
                attrs.evolve(state, candidate=after),
            )
        case Reason.NOT_TRUSTED:
            yield from _named(state)
            yield from _allowed(state)
        case Reason.NEEDS_APPROVAL:
            yield from _raised(state)
            yield from _named(state)
            yield from _allowed(state)
        case Reason.OVER_TIER | Reason.OVER_BUDGET:
            yield from _raised(state)
            yield from _faster(state)
            yield from _forgotten(state)
            yield from _roomier(state)
        case Reason.UNAVAILABLE:
            yield _waited(state)
        case Reason.HOLDS_LOOP:
            yield _declared_blocking(state)
        case _:
            return


def _named(state: GateState) -> Iterator[Way]:
    name, grant = _full_name(state), state.grant
    remedy = Remedy(
        kind=RemedyKind.ADD,
        text=f"add {name!r} to the tools of {grant.npc}",
        where=(state.places.npcs, grant.npc, "tools"),
        value=name,
    )
    more = attrs.evolve(grant, tools=(*grant.tools, name))
    yield remedy, attrs.evolve(state, grant=more)


def _allowed(state: GateState) -> Iterator[Way]:
    name, grant, place = _full_name(state), state.grant, state.places.trust
    whose = f" of {grant.npc}" if place != ("trust",) else ""
    remedy = Remedy(
        kind=RemedyKind.ADD,
        text=f"add {name!r} to trust.allow_tools{whose}",
        where=(*place, "allow_tools"),
        value=name,
    )
    more = attrs.evolve(grant, allow_tools=(*grant.allow_tools, name))
    yield remedy, attrs.evolve(state, grant=more)


def _full_name(state: GateState) -> str:
    """Return the tool's key, or its exposed name if the key reads like a pattern, which
    is possible since servers choose the names of their tools."""
    key, exposed = state.definition.key, state.candidate.exposed
    return key if names_in_full(key, state.definition, exposed) else exposed


def _raised(state: GateState) -> Iterator[Way]:
    """Raise the NPC's ceiling as far as the tool needs, and no further.

    If no tier is slow enough, the slowest needs the least beside it.
    """
    slower = [
        attrs.evolve(state, ceiling=tier) for tier in Tier if tier > state.ceiling
    ]
    enough = (x for x in slower if not _by_tier(_present(x).refusal()))
    for after in (next(enough, slower[-1]),) if slower else ():
        npc, tier = state.grant.npc, after.ceiling
        remedy = Remedy(
            kind=RemedyKind.SET,
            text=f"raise {npc}'s budget_tier to {tier}",
            where=(state.places.npcs, npc, "budget_tier"),
            value=str(tier),
        )
        yield remedy, after


def _by_tier(refused: Refusal | None) -> bool:
    return refused is not None and refused.reason in (
        Reason.NEEDS_APPROVAL,
        Reason.OVER_TIER,
        Reason.OVER_BUDGET,
    )


def _present(state: GateState) -> GateState:
    """Return the state with the server there, and nothing that keeps from calls."""
    back = attrs.evolve(
        state.candidate,
        obstacle=None,
        availability=Availability.READY,
        starts_in=0.0,
        held=None,
    )
    return attrs.evolve(state, candidate=back)


def _faster(state: GateState) -> Iterator[Way]:
    """Change what the configuration says about the tool, or measure it."""
    now, definition, limits = state.candidate.estimate, state.definition, state.limits
    if definition.min_tier > state.ceiling and state.places.tool is not None:
        lower = attrs.evolve(definition, min_tier=state.ceiling)
        text = f"set min_tier to {state.ceiling} under {_under(state.places.tool)}"
        yield (
            _set_for_tool(state, "min_tier", str(state.ceiling), text),
            state.with_estimate(_placed(now, lower, limits), min_tier=state.ceiling),
        )
    if now.source not in (EstimateSource.DECLARED, EstimateSource.UNKNOWN):
        return
    if now.source is EstimateSource.UNKNOWN:
        remedy = Remedy(
            kind=RemedyKind.SET,
            text="set calibration.unknown to trial, and start again",
            where=("calibration", "unknown"),
            value=str(Unknown.TRIAL),
        )
        trial = state.reckoned(definition, Unknown.TRIAL)
        trial = attrs.evolve(trial, degraded=now.degraded)
        yield remedy, state.with_estimate(_placed(trial, definition, limits))
    room = min(limits.threshold(state.ceiling), limits.ceiling(state.ceiling))
    if state.places.tool is not None:
        most = milliseconds(room)
        place = _under(state.places.tool)
        text = f"set estimated_duration_ms to at most {most} under {place}"
        told = attrs.evolve(
            now,
            source=EstimateSource.DECLARED,
            seconds=most / 1000,
            tier_by_number=None,
        )
        yield (
            _set_for_tool(state, "estimated_duration_ms", most, text),
            state.with_estimate(
                _placed(told, definition, limits), estimated_duration=most / 1000
            ),
        )
    if measured_unnamed(definition):
        # Assumes that it is fast enough: the measurement will show if it is.
        measured = attrs.evolve(
            now,
            source=EstimateSource.MEASURED,
            seconds=room,
            tier_by_number=state.ceiling,
        )
        words = f"if it takes less than {in_ms(room)}, measure it:"
        yield (
            _run(state, words, "calibrate", CONFIG, definition.key),
            state.with_estimate(_placed(measured, definition, limits)),
        )


def _forgotten(state: GateState) -> Iterator[Way]:
    """Bring back a tool that only its measurements hide."""
    now, blank, key = state.candidate.estimate, state.blank, state.definition.key
    if now.next_trial is None:
        return
    after = state.with_estimate(blank)
    minutes = minutes_to_trial(now.next_trial)
    text = f"wait: it is tried again after about {minutes} min of talk"
    yield Remedy(kind=RemedyKind.WAIT, text=text), after
    words = "forget its measurements, and start again:"
    yield _run(state, words, "measurements", "forget", CONFIG, key), after


def _roomier(state: GateState) -> Iterator[Way]:
    """Give the slowest turns more time for tools."""
    seconds = state.candidate.estimate.seconds
    if state.ceiling is not Tier.DEEP or seconds <= state.limits.deep_ceiling:
        return
    room = math.ceil(seconds * 1000)
    remedy = Remedy(
        kind=RemedyKind.SET,
        text=f"set tiers.deep.ceiling_ms to {room}, and start again",
        where=("tiers", "deep", "ceiling_ms"),
        value=room,
    )
    limits = attrs.evolve(state.limits, deep_ceiling=room / 1000)
    yield remedy, attrs.evolve(state, limits=limits)


def _waited(state: GateState) -> Way:
    """Wait until the server is back, or the breaker has closed."""
    group = shlex.quote(state.definition.group)
    text = "it returns by itself when it answers again"
    if not state.candidate.obstacle:
        asked = f"glyphoxa mcp test {group} --config {CONFIG}"
        text = f"it returns when its server does; {asked} shows the reason"
    back = attrs.evolve(_present(state).candidate, held=state.candidate.held)
    remedy = Remedy(kind=RemedyKind.WAIT, text=text)
    return remedy, attrs.evolve(state, candidate=back)


def _declared_blocking(state: GateState) -> Way:
    """Let its author move it off the loop, or wait for its trial."""
    assert state.candidate.held is not None
    minutes = minutes_to_trial(state.candidate.held.next_trial)
    text = f"{REMEDY}; or wait: it is tried again after about {minutes} min of talk"
    back = attrs.evolve(state.candidate, held=None)
    return Remedy(kind=RemedyKind.WAIT, text=text), attrs.evolve(state, candidate=back)


def _placed(now: Estimate, definition: ToolDefinition, limits: TierLimits) -> Estimate:
    """Return the estimate with the same seconds, in the tier by ``definition``."""
    tier = now.tier_by_number
    if tier is None:
        unknown = now.source is EstimateSource.UNKNOWN
        tier = Tier.DEEP if unknown else limits.tier_of(now.seconds)
    tier = max(tier, definition.min_tier)
    return attrs.evolve(now, tier=tier.slower() if now.degraded else tier)


def _set_for_tool(state: GateState, key: str, value: Any, text: str) -> Remedy:
    assert state.places.tool is not None
    where = (*state.places.tool, key)
    return Remedy(kind=RemedyKind.SET, text=text, where=where, value=value)


def _under(place: tuple[str, ...]) -> str:
    """Write a place, names in brackets: ``mcp.servers[clock].tools[now]``."""
    named = {2: (1,), 5: (2, 4)}.get(len(place), ())
    words = [f"[{x}]" if at in named else f".{x}" for at, x in enumerate(place)]
    return "".join(words).removeprefix(".")


def _run(state: GateState, words: str, *command: str) -> Remedy:
    line = shlex.join(["glyphoxa", *command])
    return Remedy(kind=RemedyKind.RUN, text=f"{words} {line}", value=command)
