"""What an NPC may use, said once more in the plainest words (D1, D2, D5, D13, D16).

This is the gate's opposite number, so it calls nothing of the gate, of estimates or
of naming: a mistake there must not be repeated here. It is slower and knows less;
where two answers are possible, because two things happened in one moment, it takes
the milder one.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

import attrs

from glyphoxa_trio.config import Config, NpcConfig
from glyphoxa_trio.host import Listing
from glyphoxa_trio.tools.definition import ToolDefinition
from glyphoxa_trio.tools.gate import Availability, TrustMode
from glyphoxa_trio.tools.tier import Tier, TierLimits

# Fewer calls than this measure nothing, so that what is declared must count (D1).
_UNMEASURED: Final = 5
# So many that the window holds enough of them, whatever was not counted.
_SURELY_MEASURED: Final = 6
_WINDOW: Final = 100
_LONGEST_DEFERRAL: Final = 60.0  # then a reload does not wait for turns (D16)


@attrs.define(eq=False)
class Ledger:
    """Which configuration was in force when, and who was elevated.

    Args:
      asked: somebody can be asked to approve a call.
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
        """It was not accepted after all."""
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
        """What the NPC may be by then; whoever was taken out stays what it was."""
        for config in self.in_force(at):
            if not any(x.name == npc for x in config.npcs):
                return [x for c in self.configs for x in c.npcs if x.name == npc]
        return [x for c in self.in_force(at) for x in c.npcs if x.name == npc]

    def ceilings(self, npc: str, at: float) -> set[Tier]:
        """The ceilings that it may have at this moment (D2)."""
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
        """What is left of a turn's tier: reloads since it began may have lowered it."""
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

    def approves(self, listing: Listing) -> bool:
        """True if every configuration so far approves the tool, for somebody."""
        return all(
            any(
                _trust(npc, config)[0] is not TrustMode.FULL
                and _approves(npc, config, listing)
                for npc in config.npcs
            )
            for config in self.configs
        )

    def most_calls(self, began: float) -> int:
        """How many calls of one response a turn may make."""
        return max(config.turn.max_calls for config in self.in_force(began))

    def served(self, listing: Listing, at: float) -> bool:
        """Whether the configuration has the tool's server, and takes it from that."""
        definition = listing.definition
        return not definition.external or any(
            spec.name == definition.group
            and (not spec.allow or definition.name in spec.allow)
            for config in self.in_force(at)
            if config.mcp.enabled
            for spec in config.mcp.servers
        )

    def of_its_time(self, listing: Listing, began: float, at: float) -> bool:
        """Whether a tool is of a server that was there when the turn began (D16)."""
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

    def covered(self, npc: str, listing: Listing, *moments: float) -> bool:
        return all(
            any(_covers(x, listing) for x in self.as_configured(npc, at))
            for at in moments
        )

    def trusted(self, npc: str, listing: Listing, *moments: float) -> bool:
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

    def _of(self, npc: str, at: float) -> list[Config]:
        found = self.in_force(at)
        if all(any(x.name == npc for x in config.npcs) for config in found):
            return found
        return list(self.configs)


def _covers(npc: NpcConfig, listing: Listing) -> bool:
    return any(_means(pattern, listing) for pattern in npc.tools)


def _approves(npc: NpcConfig, config: Config, listing: Listing) -> bool:
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


def _means(pattern: str, listing: Listing) -> bool:
    key, group = listing.key, listing.key.partition(".")[0]
    if _wild(pattern):
        return fnmatchcase(key if "." in pattern else listing.exposed, pattern)
    return pattern in (key, group, listing.exposed)


def unmeasured_tier(definition: ToolDefinition, limits: TierLimits) -> Tier:
    """Where a tool belongs of which there is no more than what it declares (D1)."""
    declared = definition.estimated_duration
    if declared is None:
        tier = Tier.DEEP
    elif declared <= limits.fast_threshold:
        tier = Tier.FAST
    elif declared <= limits.standard_threshold:
        tier = Tier.STANDARD
    else:
        tier = Tier.DEEP
    return max(tier, definition.min_tier)


def too_slow(
    listing: Listing,
    tier: Tier,
    limits: TierLimits,
    *,
    runs: int,
    took: Iterable[tuple[float, bool]],
) -> str | None:
    """Why a tool does not belong into ``tier``; None if nothing speaks against it.

    Args:
      runs: how often it ran at most, probes included.
      took: how long each of its calls took, and whether it was cut then.
    """
    if listing.definition.min_tier > tier:
        return f"its floor is {listing.definition.min_tier}"
    if runs < _UNMEASURED:
        own = unmeasured_tier(listing.definition, limits)
        return f"it is {own} by what it declares" if own > tier else None
    known = list(took)
    if runs <= _WINDOW and len(known) >= max(_SURELY_MEASURED, runs):
        limit = (limits.fast_threshold, limits.standard_threshold, float("inf"))[tier]
        if all(s > limit or (cut and s >= limit) for s, cut in known):
            return f"not one of its {len(known)} calls took less than {limit:g} s"
    return None


def is_down(listing: Listing, failed: Iterable[str]) -> bool:
    """Whether its server cannot be asked at all."""
    if listing.availability is Availability.DOWN:
        return True
    return listing.definition.external and listing.definition.group in failed
