"""The rules of what an NPC may use, written a second time and as simply as possible.

This is the gate's opposite number, so it calls nothing of the gate, of estimates or
of naming: a mistake there must not be repeated here. It is slower and knows less;
where two answers are possible, because two things happened in one moment, it takes
the milder one.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final, Protocol

import attrs

from glyphoxa_trio.config import Config, NpcConfig, ToolOverride
from glyphoxa_trio.host import CatalogueEntry
from glyphoxa_trio.tools.definition import ToolDefinition
from glyphoxa_trio.tools.estimate import Unknown
from glyphoxa_trio.tools.gate import Availability, TrustMode
from glyphoxa_trio.tools.tier import Tier, TierLimits

# Fewer calls than this measure nothing, so that the declared latency must count.
_UNMEASURED: Final = 5
# So many that the window holds enough of them, whatever was not counted.
_SURELY_MEASURED: Final = 6
# Of so many calls at least one is not the first of its server's life.
_SURELY_SLOW: Final = 2
_WINDOW: Final = 100
_LONGEST_DEFERRAL: Final = 60.0  # then a reload does not wait for turns
# A tool that was too slow is tried again after so many seconds at the earliest.
_FIRST_TRIAL: Final = 60.0
# So many calls of an earlier run, or of an earlier life of the server, are believed.
_BELIEVED: Final = 5


class NamedTool(Protocol):
    """A tool under its names."""

    @property
    def key(self) -> str: ...
    @property
    def exposed(self) -> str: ...
    @property
    def definition(self) -> ToolDefinition: ...


@attrs.define(eq=False)
class GrantLedger:
    """Which configuration was in force when, and who was elevated.

    Args:
      asked: there is an approver for calls.
    """

    asked: bool = False
    _configs: list[tuple[float, Config]] = attrs.field(factory=list, init=False)
    _elevations: list[tuple[str, float, float, Tier]] = attrs.field(
        factory=list, init=False
    )

    def accepted(self, at: float, config: Config) -> None:
        """From this moment on it counts, for whatever it takes away at once."""
        self._configs.append((at, config))

    def refused(self, config: Config) -> None:
        """Take the last configuration back: it was not accepted."""
        self._configs = [x for x in self._configs if x[1] is not config]

    def elevated(self, npc: str, at: float, until: float, tier: Tier) -> None:
        self._elevations.append((npc, at, until, tier))

    @property
    def configs(self) -> tuple[Config, ...]:
        return tuple(config for _, config in self._configs)

    def in_force(self, at: float) -> list[Config]:
        """The last one before this moment, and every one of this moment."""
        before = [config for then, config in self._configs if then < at]
        now = [config for then, config in self._configs if then == at]
        return [*before[-1:], *now]

    def as_configured(self, npc: str, at: float) -> list[NpcConfig]:
        """Return the NPC as it may be by then; one that was removed stays as it was."""
        for config in self.in_force(at):
            if not any(x.name == npc for x in config.npcs):
                return [x for c in self.configs for x in c.npcs if x.name == npc]
        return [x for c in self.in_force(at) for x in c.npcs if x.name == npc]

    def ceilings(self, npc: str, at: float) -> set[Tier]:
        """Return the ceilings that it may have at this moment."""
        mine = [x for x in self._elevations if x[0] == npc]
        before = [x for x in mine if x[1] < at][-1:]
        now = [x for x in mine if x[1] == at]
        raised: set[Tier] = {Tier.FAST} if not before else set()
        for _, _, until, tier in (*before, *now):
            if at <= until:
                raised.add(tier)
            if at >= until:
                raised.add(Tier.FAST)
        return {
            max(x.budget_tier, tier)
            for x in self.as_configured(npc, at)
            for tier in raised
        }

    def highest(self, npc: str, began: float, tier: Tier, now: float) -> Tier:
        """Return a turn's highest tier: reloads since it began may have lowered it."""
        for then, config in self._configs:
            if began < then < now:
                for x in config.npcs:
                    if x.name == npc:
                        tier = min(tier, max(x.budget_tier, self._raised(npc, then)))
        return tier

    def lowest(self, npc: str, began: float, tier: Tier, now: float) -> Tier:
        """The least that a turn's tier may be by now."""
        return min(
            tier,
            *(
                x.budget_tier
                for then, config in self._configs
                if began <= then <= now
                for x in config.npcs
                if x.name == npc
            ),
            Tier.DEEP,
        )

    def _raised(self, npc: str, at: float) -> Tier:
        """The most that an elevation may come to at this moment."""
        mine = [x for x in self._elevations if x[0] == npc]
        last = [x for x in mine if x[1] < at][-1:]
        now = [x for x in mine if x[1] == at]
        return max(
            (tier for _, _, until, tier in (*last, *now) if at <= until),
            default=Tier.FAST,
        )

    def approves(self, listing: CatalogueEntry) -> bool:
        """True if every configuration so far approves the tool, for some NPC."""
        return all(
            any(
                _trust(npc, config)[0] is not TrustMode.FULL
                and _approves(npc, config, listing)
                for npc in config.npcs
            )
            for config in self.configs
        )

    def most_calls(self, began: float) -> int:
        """Return how many calls of one response a turn may make."""
        return max(config.turn.max_calls for config in self.in_force(began))

    def served(self, listing: CatalogueEntry, at: float) -> bool:
        """True if the configuration has the server and takes the tool from it."""
        definition = listing.definition
        return not definition.external or any(
            spec.name == definition.group
            and (not spec.allow or definition.name in spec.allow)
            for config in self.in_force(at)
            if config.mcp.enabled
            for spec in config.mcp.servers
        )

    def of_its_time(self, listing: CatalogueEntry, began: float, at: float) -> bool:
        """True if the tool's server was there when the turn began."""
        definition = listing.definition
        if not definition.external or at - began >= _LONGEST_DEFERRAL:
            return True
        known = {
            spec.timeout
            for then, config in self._configs
            if then <= began
            for spec in config.mcp.servers
            if spec.name == definition.group
        }
        return not known or definition.server_timeout in known

    # Whether an NPC may use a tool: in a turn that began then, at this moment.

    def covered(self, npc: str, listing: CatalogueEntry, *moments: float) -> bool:
        return all(
            any(_covers(x, listing) for x in self.as_configured(npc, at))
            for at in moments
        )

    def trusted(self, npc: str, listing: CatalogueEntry, *moments: float) -> bool:
        return all(
            any(
                _approves(x, config, listing)
                for config in self._of(npc, at)
                for x in config.npcs
                if x.name == npc
            )
            for at in moments
        )

    def trusts_fully(self, npc: str, *moments: float) -> bool:
        return all(
            any(
                _trust(x, config)[0] is TrustMode.FULL
                for config in self._of(npc, at)
                for x in config.npcs
                if x.name == npc
            )
            for at in moments
        )

    def may_be_called_for_somebody(self, tool: NamedTool) -> bool:
        """True if some NPC of some configuration may use the tool without an
        approval."""
        return any(
            _covers(npc, tool) and _approves(npc, config, tool)
            for config in self.configs
            for npc in config.npcs
        )

    def overrides(self, key: str) -> list[ToolOverride]:
        """Return what any configuration says of a server's tool."""
        group, _, name = key.partition(".")
        return [
            spec.tools[name]
            for config in self.configs
            for spec in config.mcp.servers
            if spec.name == group and name in spec.tools
        ]

    def _of(self, npc: str, at: float) -> list[Config]:
        found = self.in_force(at)
        if all(any(x.name == npc for x in config.npcs) for config in found):
            return found
        return list(self.configs)


def _covers(npc: NpcConfig, listing: NamedTool) -> bool:
    return any(_means(pattern, listing) for pattern in npc.tools)


def _approves(npc: NpcConfig, config: Config, listing: NamedTool) -> bool:
    mode, allowed = _trust(npc, config)
    if not listing.definition.external or mode is TrustMode.FULL:
        return True
    key, exposed = listing.key, listing.exposed
    in_full = any(x in (key, exposed) and not _wild(x) for x in npc.tools)
    return in_full or any(_means(pattern, listing) for pattern in allowed)


def _trust(npc: NpcConfig, config: Config) -> tuple[TrustMode, tuple[str, ...]]:
    trust = config.trust if npc.trust is None else npc.trust
    return trust.mode, trust.allow_tools


def _wild(pattern: str) -> bool:
    return "*" in pattern or "?" in pattern or "[" in pattern


def _means(pattern: str, listing: NamedTool) -> bool:
    key, group = listing.key, listing.key.partition(".")[0]
    if _wild(pattern):
        return fnmatchcase(key if "." in pattern else listing.exposed, pattern)
    return pattern in (key, group, listing.exposed)


def unmeasured_tier(
    definition: ToolDefinition, limits: TierLimits, unknown: Unknown
) -> Tier:
    """The tier of a tool that has not been measured, by what it declares. One that
    declares nothing is tried in every tier, unless configured otherwise."""
    declared = definition.estimated_duration
    if declared is None:
        tier = Tier.FAST if unknown is Unknown.TRIAL else Tier.DEEP
    elif declared <= limits.fast_threshold:
        tier = Tier.FAST
    elif declared <= limits.standard_threshold:
        tier = Tier.STANDARD
    else:
        tier = Tier.DEEP
    return max(tier, definition.min_tier)


@attrs.frozen
class Took:
    """The duration of a call that really ran, and its end. Seconds.

    ``cut``: its end was not seen. ``first``: it was the first in its server's life,
    which says nothing of later ones.
    """

    seconds: float
    over: float
    cut: bool = False
    first: bool = False


@attrs.frozen(kw_only=True)
class Speed:
    """The knowledge of a tool's speed, from what was seen of it.

    Args:
      runs: how often it ran at most, probes included.
      took: the calls that were seen in the present life of its server.
      remembered: what earlier runs measured of calls that went well, newest last.
      silent: how many calls ran but say nothing of its speed.
    """

    runs: int
    took: tuple[Took, ...] = ()
    remembered: tuple[float, ...] = ()
    silent: int = 0


def too_slow(
    listing: CatalogueEntry,
    tier: Tier,
    limits: TierLimits,
    at: float,
    known: Speed,
    unknown: Unknown = Unknown.TRIAL,
) -> str | None:
    """Why a tool does not belong into ``tier``; None if nothing speaks against it.

    A tool that was too slow is tried again later, so calls that ended more than a
    minute ago do not speak against it.
    """
    if listing.definition.min_tier > tier:
        return f"its floor is {listing.definition.min_tier}"
    limit = limits.threshold(tier)
    remembered = known.remembered[-_BELIEVED:]
    if known.runs - known.silent < _UNMEASURED and not remembered:
        own = unmeasured_tier(listing.definition, limits, unknown)
        if own > tier:
            return f"it is {own} by what it declares"
    last = max((x.over for x in known.took), default=0.0)
    if at >= last + _FIRST_TRIAL:
        return None
    if known.runs == 0 and len(remembered) >= _UNMEASURED:
        if min(remembered) > limit:
            return f"not one of its remembered calls took less than {limit:g} s"
        return None
    cut = [x for x in known.took if x.cut and not x.first]
    if (
        len(cut) == len(known.took) == known.runs - known.silent >= _SURELY_SLOW
        and not remembered
        and all(x.seconds >= limits.ceiling(tier) for x in cut)
    ):
        return f"its {len(cut)} calls were cut after {limits.ceiling(tier):g} s"
    judged = known.runs - known.silent
    enough = judged <= _WINDOW and len(known.took) >= max(_SURELY_MEASURED, judged)
    slow = (x.seconds > limit or (x.cut and x.seconds >= limit) for x in known.took)
    if enough and all(slow):
        return f"not one of its {len(known.took)} calls took less than {limit:g} s"
    return None


def is_down(listing: CatalogueEntry, failed: Iterable[str]) -> bool:
    """True if its server cannot be asked at all."""
    if listing.availability is Availability.DOWN:
        return True
    return listing.definition.external and listing.definition.group in failed
