"""The switch from one configuration to another while NPCs talk.

`ConfigReload.accept` checks a new plan and removes at once what it no longer has, even
while an earlier reload waits. `ConfigReload.carry_out` starts new and changed servers
beside the old ones (a changed server runs twice until its successor is ready), waits
until no turn runs, and switches in one step, without a pause, to the plan that was
accepted last. A configuration that cannot serve is refused and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import attrs

import trio

from glyphoxa_trio.config import ConfigError, ServerSpec
from glyphoxa_trio.config.effects import changed_keys
from glyphoxa_trio.host import CalibratorSettings, Catalogue, Snapshot, ToolHost
from glyphoxa_trio.host.measurements import Measurements
from glyphoxa_trio.mcp import Server, ServerPool, ServerState
from glyphoxa_trio.mcp.tool_cache import identity
from glyphoxa_trio.npc.activity import Activity
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.naming import NameCollision

from .grants import refuse_faults
from .plans import RuntimePlan, changed_groups

# Seconds to wait for a moment without turns: players who never pause must not keep
# the old servers in use for ever.
LONGEST_DEFERRAL: Final = 60.0


@attrs.frozen(kw_only=True)
class Reloaded:
    """The changes that a reload made, by name.

    Args:
      generation: the number of the configuration in use; the first is 1.
      added, removed, changed: servers.
      groups: built-in groups whose tools changed.
      tried_again: servers that had failed and were started again.
      deferred: True if the switch waited for a turn.
      keys: other changed keys that are in use now, such as ``npcs[Bartok].tools``.
      at_next_start: changed keys that take effect when the program is started again.
    """

    generation: int
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    tried_again: tuple[str, ...] = ()
    deferred: bool = False
    keys: tuple[str, ...] = ()
    at_next_start: tuple[str, ...] = ()


@attrs.define(eq=False, kw_only=True)
class ConfigReload:
    """The owner of the plan in use now, with its servers and its built-in tools.

    ``serving`` is first the plan that the runtime was opened with. ``activity`` says
    how many turns run, and replaced and removed servers end in ``nursery``.
    """

    host: ToolHost
    fleet: ServerPool
    activity: Activity
    nursery: trio.Nursery
    serving: RuntimePlan
    _builtin: tuple[Tool, ...] = attrs.field(init=False)  # as registered
    _servers: dict[str, ServerSpec] = attrs.field(init=False)  # as connected
    # Servers whose tools were restricted before their successor was ready.
    _narrowed: set[str] = attrs.field(factory=set, init=False)
    # Built-in groups some of whose tools were removed before the switch.
    _torn: set[str] = attrs.field(factory=set, init=False)
    # Servers that `Runtime.remove_server` removed, and those that a reload adds again.
    _by_hand: set[str] = attrs.field(factory=set, init=False)
    _brought: set[str] = attrs.field(factory=set, init=False)
    _accepted: RuntimePlan = attrs.field(init=False)
    _remembered: Mapping[str, str] = attrs.field(factory=dict, init=False)
    _last: Reloaded = attrs.field(factory=lambda: Reloaded(generation=1), init=False)
    _waiting: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    # The wait for a moment without turns, and True if there is to be none.
    _deferral: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _at_once: bool = attrs.field(default=False, init=False)
    _switching: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    def __attrs_post_init__(self) -> None:
        self._accepted = self.serving
        self._builtin = self.serving.builtin
        self._servers = dict(self.serving.servers)
        for spec in self._servers.values():
            self.host.approvals.serve(spec.name, identity(spec))

    def fresh(self, plan: RuntimePlan) -> list[ServerSpec]:
        """Return the servers to start: new, changed, or failed and perhaps repaired
        since."""
        anew = self._narrowed | self._failed()
        return [
            x
            for x in plan.servers.values()
            if self._servers.get(x.name) != x or x.name in anew
        ]

    def _failed(self) -> set[str]:
        return {x.name for x in self.fleet.status() if x.state is ServerState.FAILED}

    def accept(
        self, plan: RuntimePlan, remembered: Mapping[str, str] | None = None
    ) -> None:
        """Accept a plan and remove what it no longer has; `carry_out` does the rest.

        Args:
          remembered: approvals of earlier runs for the servers that are `fresh`. For a
            server that replaces another they count from the switch on.

        Raises:
          ConfigError: if the plan cannot serve; nothing has changed.
        """
        snapshot = self._with(plan)
        refuse_faults(plan.config, snapshot, plan.problems)
        self._accepted = plan
        self._remembered = remembered or {}
        self._waiting.cancel("another configuration was accepted")
        # A server that was removed by hand is added again if the new plan has it.
        self._brought |= self._by_hand & plan.servers.keys()
        for name in self._by_hand:
            self._servers.pop(name, None)
        self._by_hand.clear()
        for name in [name for name in self._servers if name not in plan.servers]:
            self._remove(self._servers.pop(name))
        for spec in self.fresh(plan):
            if self.fleet.spec(spec.name) is None:
                self._serve(spec)  # before it can send its tools
            if spec.allow and spec.name in self._servers:
                self.fleet.narrow(spec.name, spec.allow)
                self._narrowed.add(spec.name)
        kept = {tool.key for tool in plan.builtin}
        gone = [tool for tool in self._builtin if tool.key not in kept]
        self._withdraw(gone)
        self._torn |= {tool.definition.group for tool in gone}

    def taken_away(self, name: str) -> None:
        """Note that a server was removed by hand; only a plan accepted later adds it
        again."""
        self._by_hand.add(name)

    def refuse_taken(self, tools: Sequence[Tool]) -> None:
        """Refuse tools whose names an accepted plan, not in use yet, needs.

        Raises:
          NameCollision: naming both tools.
        """
        if self._accepted is not self.serving:
            self._with(self._accepted, tools)

    async def carry_out(self, *, now: bool = False) -> Reloaded:
        """Switch to the plan that was accepted last, at a moment when no turn runs.

        Waits `LONGEST_DEFERRAL` seconds at most for such a moment; with ``now`` not at
        all, and an earlier reload that waits for one goes on, too.
        """
        if now:
            self._at_once = True
            self._deferral.cancel("the switch is to be made now")
        async with self._switching:
            try:
                while self._accepted is not self.serving:
                    await self._go_over_to(self._accepted)
            finally:
                self._at_once = False
            return self._last

    async def _go_over_to(self, plan: RuntimePlan) -> None:
        """Start what the plan needs and switch to it, unless another plan is accepted
        first."""
        staged: list[Server] = []
        failed, same = self._failed(), self.serving.servers
        fresh = [x for x in self.fresh(plan) if x.name not in self._by_hand]
        tried_again = tuple(
            x.name for x in fresh if x.name in failed and same.get(x.name) == x
        )
        for spec in fresh:
            if self.fleet.spec(spec.name) is None:
                self._serve(spec)  # its predecessor may have been ending until now
                self.fleet.add(spec)
                self._servers[spec.name] = spec
            else:
                staged.append(self.fleet.stage(spec))
        with trio.CancelScope() as self._waiting:
            for member in staged:
                with trio.move_on_after(2 * member.spec.start_timeout):
                    await member.settled()
            deferred = self.activity.running > 0
            longest = 0.0 if self._at_once else LONGEST_DEFERRAL
            with trio.move_on_after(longest) as self._deferral:
                await self.activity.quiet()
        # From here to the end, without a pause, is the switch.
        if self._accepted is not plan:
            for member in staged:
                self.nursery.start_soon(self.fleet.discard, member)
            return
        for member in staged:
            self._servers[member.spec.name] = member.spec
            self._narrowed.discard(member.spec.name)
            if member.spec.name not in self._by_hand:  # else it was removed meanwhile
                self._serve(member.spec)
            old = self.fleet.switch(member)
            if old is not None:
                # Even tools described as before start with no record of the old server.
                self.host.begin_life(member.spec.name)
                ending = partial(old.end, after=old.spec.timeout)
                self.nursery.start_soon(ending)
        self._last = attrs.evolve(
            self._reloaded(plan, deferred), tried_again=tried_again
        )
        self._brought.clear()
        self.serving = plan
        groups, self._torn = self._torn.union(self._last.groups), set()
        self._replace(groups, plan.builtin)

    def _serve(self, spec: ServerSpec) -> None:
        """Apply the approvals that were given to this very server to its tools."""
        approvals = self.host.approvals
        approvals.serve(spec.name, identity(spec), self._remembered)

    def _with(self, plan: RuntimePlan, more: Sequence[Tool] = ()) -> Snapshot:
        """Return the catalogue as the plan would make it, without tools that servers
        will bring.

        Args:
          more: tools that are about to be added.

        Raises:
          ConfigError: two tools under one name.
          NameCollision: the same, if ``more`` was given.
        """
        ours = self._builtin
        leaving = {
            name for name, old in self._servers.items() if plan.servers.get(name) != old
        }
        kept = [
            x.tool
            for x in self.host.snapshot.listings
            if not any(_is(x.tool, tool) for tool in ours)
            and not (x.definition.external and x.definition.group in leaving)
        ]
        known = Measurements(CalibratorSettings())
        scratch = Catalogue(known.estimate, plan.config.mcp.naming)
        try:
            scratch.register([*plan.builtin, *kept, *more])
        except NameCollision as error:
            if more:
                raise
            raise ConfigError(str(error)) from None
        return scratch.current

    def _remove(self, spec: ServerSpec) -> None:
        """Remove a server's tools at once, and its process when its calls are over."""
        if self.fleet.spec(spec.name) is None:
            return  # it was removed by hand before
        self.host.deregister(spec.name)
        member = self.fleet.withdraw(spec.name)
        self.nursery.start_soon(
            partial(self.fleet.let_go, member, after=member.spec.timeout)
        )

    def _withdraw(self, tools: Iterable[Tool]) -> None:
        """Deregister these tools, but no other tool that has taken the place of one."""
        for tool in tools:
            listing = self.host.snapshot.by_key.get(tool.key)
            if listing is not None and _is(listing.tool, tool):
                self.host.deregister(tool.key)

    def _replace(self, groups: set[str], builtin: Sequence[Tool]) -> None:
        """Replace the built-in tools of these groups; other tools of a group stay."""
        new = [tool for tool in builtin if tool.definition.group in groups]
        old = [tool for tool in self._builtin if tool.definition.group in groups]
        self._withdraw(old)
        self._builtin = tuple(
            tool for tool in self._builtin if tool.definition.group not in groups
        )
        self.host.register(*new)
        self._builtin += tuple(new)

    def _reloaded(self, plan: RuntimePlan, deferred: bool) -> Reloaded:
        """Return the differences between ``plan`` and the plan in use."""
        before, after = self.serving.servers, plan.servers
        return Reloaded(
            generation=self._last.generation + 1,
            added=tuple(x for x in after if x not in before or x in self._brought),
            removed=tuple(name for name in before if name not in after),
            changed=tuple(
                name for name in after if before.get(name, after[name]) != after[name]
            ),
            groups=changed_groups(self.serving, plan),
            deferred=deferred,
            keys=changed_keys(self.serving.config, plan.config),
            at_next_start=plan.at_next_start,
        )


def _is(listed: Tool, tool: Tool) -> bool:
    """Return True if ``listed`` is this very tool, or its `Environment.stand_in`."""
    stands_in = listed.function is not None and listed.function is tool.function
    return listed is tool or stands_in
