"""A new configuration in the place of the old one, while NPCs talk (D16, A44, A45).

What is taken away is gone at the gate at once. What is new is built beside what
serves: a server that changed runs twice until its successor is ready. The switch
waits until no turn runs, and is one step. What fails to build changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import attrs

import trio

from glyphoxa_trio.config import Config, ConfigError, ServerSpec
from glyphoxa_trio.host import CalibratorSettings, Catalogue, Listing, ToolHost
from glyphoxa_trio.host.calibrator import Measurements
from glyphoxa_trio.mcp import Fleet, FleetError, Member
from glyphoxa_trio.npc.activity import Activity
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.naming import NameCollision

from .assembly import builtin_tools
from .grants import refuse_faults

# A table where somebody always talks must not keep the old servers for ever. Seconds.
LONGEST_DEFERRAL: Final = 60.0


@attrs.frozen(kw_only=True)
class Reloaded:
    """What a reload changed, by name.

    ``deferred``: a turn was running, so the switch waited. ``at_next_start``: keys
    that changed and count only when the program is started again.
    """

    generation: int
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    deferred: bool = False
    at_next_start: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Plan:
    """Everything a switch needs, built and checked."""

    config: Config
    builtin: tuple[Tool, ...]
    added: tuple[ServerSpec, ...]
    removed: tuple[str, ...]
    changed: tuple[ServerSpec, ...]
    groups: tuple[str, ...]
    at_next_start: tuple[str, ...]


def servers_of(config: Config) -> tuple[ServerSpec, ...]:
    return config.mcp.servers if config.mcp.enabled else ()


def unchangeable(old: Config, new: Config) -> tuple[Config, tuple[str, ...]]:
    """The new configuration as far as it can be taken over, and what cannot."""
    kept = {
        name: getattr(old, name)
        for name in ("tiers", "calibration")
        if getattr(old, name) != getattr(new, name)
    }
    mcp = {
        name: getattr(old.mcp, name)
        for name in ("naming", "remember", "state_dir")
        if getattr(old.mcp, name) != getattr(new.mcp, name)
    }
    names = (*kept, *(f"mcp.{name}" for name in mcp))
    return attrs.evolve(new, mcp=attrs.evolve(new.mcp, **mcp), **kept), names


@attrs.define(eq=False, kw_only=True)
class Generations:
    """The owner of what serves now: servers and built-in tools."""

    host: ToolHost
    fleet: Fleet
    activity: Activity
    nursery: trio.Nursery
    builtin: tuple[Tool, ...]
    number: int = attrs.field(default=1, init=False)

    def plan(self, old: Config, new: Config) -> Plan:
        """What it takes to get from one configuration to the other.

        Raises:
          ConfigError: if the new one cannot serve; nothing has changed.
        """
        config, late = unchangeable(old, new)
        before = {spec.name: spec for spec in servers_of(old)}
        after = {spec.name: spec for spec in servers_of(config)}
        added = tuple(spec for name, spec in after.items() if name not in before)
        changed = tuple(
            spec for name, spec in after.items() if before.get(name, spec) != spec
        )
        removed = tuple(name for name in before if name not in after)
        builtin, problems = builtin_tools(config)
        plan = Plan(
            config=config,
            builtin=tuple(builtin),
            added=added,
            removed=removed,
            changed=changed,
            groups=_changed_groups(old, config, self.builtin, builtin),
            at_next_start=late,
        )
        self._check(plan, problems)
        return plan

    async def carry_out(
        self, plan: Plan, adopt: Callable[[], Awaitable[None]]
    ) -> Reloaded:
        """Switch, when no turn runs. Not to be cancelled half-way.

        Args:
          adopt: tells the NPCs, each of which goes on by itself.
        """
        await adopt()
        for name in plan.removed:
            self.nursery.start_soon(self._remove, name)
        self._withdraw(plan)
        staged: list[Member] = []
        for spec in (*plan.added, *plan.changed):
            if self.fleet.spec(spec.name) is None:
                self.fleet.add(spec)
            else:
                staged.append(self.fleet.stage(spec))
        for member in staged:
            with trio.move_on_after(2 * member.spec.start_timeout):
                await member.settled()
        deferred = self.activity.running > 0
        with trio.move_on_after(LONGEST_DEFERRAL):
            await self.activity.quiet()
        # From here to the end, without a pause, is the switch.
        for member in staged:
            old = self.fleet.switch(member)
            if old is not None:
                ending = partial(old.end, after=old.spec.timeout)
                self.nursery.start_soon(ending)
        self._replace_groups(plan)
        self.number += 1
        return Reloaded(
            generation=self.number,
            added=tuple(spec.name for spec in plan.added),
            removed=plan.removed,
            changed=tuple(spec.name for spec in plan.changed),
            groups=plan.groups,
            deferred=deferred,
            at_next_start=plan.at_next_start,
        )

    def _check(self, plan: Plan, problems: Sequence[str]) -> None:
        """Refuse what could be refused at a start, too."""
        gone = {tool.key for tool in self.builtin}
        leaving = {*plan.removed, *(spec.name for spec in plan.changed)}
        kept = [
            x.tool
            for x in self.host.snapshot.listings
            if x.key not in gone and x.definition.group not in leaving
        ]
        known = Measurements(CalibratorSettings())
        scratch = Catalogue(known.estimate, plan.config.mcp.naming)
        try:
            scratch.register([*plan.builtin, *kept])
        except NameCollision as error:
            raise ConfigError(str(error)) from None
        refuse_faults(plan.config, scratch.current, problems)

    async def _remove(self, name: str) -> None:
        """Its tools go at once, its process when its calls are over."""
        spec = self.fleet.spec(name)
        with suppress(FleetError):  # it was taken away by hand before
            await self.fleet.remove(name, after=0.0 if spec is None else spec.timeout)

    def _withdraw(self, plan: Plan) -> None:
        """Take from the gate what the new configuration does not have any more."""
        for name in plan.removed:
            self.host.deregister(name)
        kept = {tool.key for tool in plan.builtin}
        gone = [tool.key for tool in self.builtin if tool.key not in kept]
        narrowed = {spec.name: spec.allow for spec in plan.changed if spec.allow}
        gone += [
            x.key
            for x in self.host.snapshot.listings
            if _not_allowed(x, narrowed.get(x.definition.group, ()))
        ]
        for key in gone:
            self.host.deregister(key)

    def _replace_groups(self, plan: Plan) -> None:
        for group in plan.groups:
            self.host.deregister(group)
        self.host.register(
            *(tool for tool in plan.builtin if tool.definition.group in plan.groups)
        )
        self.builtin = plan.builtin


def _not_allowed(listing: Listing, allow: tuple[str, ...]) -> bool:
    return bool(allow) and listing.definition.name not in allow


def _changed_groups(
    old: Config, new: Config, before: Sequence[Tool], after: Sequence[Tool]
) -> tuple[str, ...]:
    """The built-in groups whose tools are not the same any more."""

    def group(tools: Sequence[Tool], name: str) -> list[object]:
        return [x.definition for x in tools if x.definition.group == name]

    names = dict.fromkeys(x.definition.group for x in (*before, *after))
    return tuple(
        name
        for name in names
        if group(before, name) != group(after, name)
        or getattr(old.builtin, name, None) != getattr(new.builtin, name, None)
    )
