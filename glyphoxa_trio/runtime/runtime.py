"""A runtime, as an embedder holds it: NPCs, their tools and servers.

Above 300 lines: what can be asked of it is read in one place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import outcome

import trio

from glyphoxa_trio.actors import Topic
from glyphoxa_trio.config import Config, ConfigError, LlmConfig, NpcConfig, ServerSpec
from glyphoxa_trio.config.checking import checked
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.host import Probed, ToolHost
from glyphoxa_trio.mcp import (
    ServerPool,
    ServerState,
    ServerStatus,
    ServerWarning,
    ToolApprovals,
)
from glyphoxa_trio.mcp.tool_cache import identity
from glyphoxa_trio.npc import (
    CostStatistics,
    Npc,
    Provide,
    Scene,
    SpeculationStatistics,
    TurnEvent,
)
from glyphoxa_trio.npc.arguments import check_session, check_values
from glyphoxa_trio.npc.hot_context import HotContext
from glyphoxa_trio.npc.identity import DEFAULT, SessionKey
from glyphoxa_trio.providers.chain import ModelStatistics
from glyphoxa_trio.providers.llm import LLM
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.naming import NameCollision
from glyphoxa_trio.tools.usability import Usability

from .config_reload import ConfigReload, Reloaded
from .config_source import ConfigSource
from .given import tools_given
from .grants import (
    NameProblem,
    Problem,
    Unapproved,
    approved_by,
    check_grants,
    shadowed_groups,
    unapproved,
)
from .hooks import Hooks
from .idle import idle_keys
from .loop_lag import OverloadEvent
from .models import Models
from .overload import Overload
from .plans import in_environment
from .plans import plan as plan_for
from .prices import wrong_prices
from .publisher import CALIBRATION, Publisher
from .session import Session
from .session_registry import SessionRegistry, find_npc
from .snapshot import SessionSnapshot, SnapshotRefused
from .unready import Unready, unready
from .usability import usability_of, warnings_of
from .warned import Warnings

if TYPE_CHECKING:
    from glyphoxa_trio.builtin.music import MusicEvent


# How long to wait until servers have started, and then until tools are measured,
# before an operator is told what NPCs cannot use, seconds.
_STARTING: Final = 60.0
_MEASURING: Final = 5.0


class RuntimeClosed(GlyphoxaError):
    """The block of the runtime was left."""


@attrs.define(eq=False, kw_only=True)
class Runtime:
    """NPCs, their tools and servers, for as long as `open_runtime`'s block lasts.

    ``events`` has every event of every turn but its audio.
    ``overload_events`` says when turns begin and cease to be turned away, ``music``
    what is to be heard where no program here plays it. ``run_id`` tells this run from
    others.
    """

    host: ToolHost
    events: Topic[TurnEvent]
    overload_events: Topic[OverloadEvent]
    music: Topic[MusicEvent]
    run_id: str
    _source: ConfigSource
    _warnings: Warnings
    _approved: ToolApprovals | None
    _hooks: Hooks
    _context: HotContext
    _fleet: ServerPool
    _publisher: Publisher
    _cast: SessionRegistry
    _generations: ConfigReload
    _models: Callable[[LlmConfig], Models]
    _lasting: tuple[Tool, ...]
    _background: trio.Nursery
    _rehearsed: bool
    _advice_due: bool = attrs.field(default=False, init=False)
    _reloading: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    @property
    def config(self) -> Config:
        """What is served now; a reload replaces it."""
        return self._source.current

    @property
    def llm(self) -> LLM:
        """The model of every NPC that names no other."""
        return self._cast.models.for_npc(None)

    @property
    def warnings(self) -> deque[ServerWarning]:
        """What an operator should see, newest last; ``on_warning`` is told of each."""
        return self._warnings.kept

    @property
    def turns_running(self) -> int:
        """How many NPCs are in a turn now."""
        return self._cast.services.activity.running

    @property
    def overload(self) -> Overload:
        """Whether turns are turned away; whether whatever can wait should."""
        return self._cast.overload

    @property
    def speculation(self) -> SpeculationStatistics:
        """What was begun on partial transcripts, and how much of it for nothing."""
        return self._cast.services.tally.statistics()

    @property
    def cost(self) -> CostStatistics:
        """What models took and cost since it was opened, by NPC and by model."""
        return self._cast.services.costs.statistics()

    @property
    def models(self) -> tuple[ModelStatistics, ...]:
        """How the models of ``llm`` and ``llm.fallbacks`` do; none without those."""
        return self._cast.models.statistics()

    @property
    def s2s_label(self) -> str:
        """Which model the NPCs speak with that speak by themselves, for people."""
        return self._cast.voices.s2s_label(self.config)

    @property
    def npcs(self) -> tuple[NpcConfig, ...]:
        return self.config.npcs

    def npc(self, name: str) -> Npc:
        """The NPC of that name; the beginning of a name is enough if it is unique.

        Raises:
          UnknownNpc: with the nearest names.
          RuntimeClosed: if the runtime has ended.
        """
        return self.session().npc(name)

    def scene(self, *npcs: str) -> Scene:
        """Several NPCs in one place: all, or the named ones. The same scene each time.

        Raises:
          UnknownNpc: with the nearest names.
          RuntimeClosed: if the runtime has ended.
        """
        return self.session().scene(*npcs)

    def session(
        self,
        id: str = DEFAULT,  # noqa: A002 - what everybody calls it
        *,
        tenant: str | None = None,
        variables: Mapping[str, object] | None = None,
        restore: SessionSnapshot | bytes | None = None,
    ) -> Session:
        """The session of that id, which begins now if there is none: one table, or one
        phone call, over the same characters as all others. `npc` and `scene` are of the
        session ``default``.

        Beyond `sessions.most` of them, the one that was idle longest is set aside, and
        comes back when somebody speaks to it: who holds it notices nothing.

        Args:
          tenant: whose it is, where several share this runtime. Two tenants may have
            sessions of the same id.
          variables: for templates of prompts and greetings, such as ``caller_name``;
            for one that begins now.

          restore: go on where that one was, of this id or another: what
            `Session.snapshot` gave, or the bytes of it. ``variables`` count more than
            what it knew.

        Raises:
          TooManySessions: `sessions.most` are open, and something goes on in them.
          StoreFull: as many are set aside as can be kept.
          SnapshotRefused: there is a session of that id; or ``restore`` is another
            tenant's, of a newer version, damaged, or not made with `sessions.key`.
          ValueError: it is there, and ``variables`` are not what it has.
          RuntimeClosed: if the runtime has ended.
        """
        self._refuse_if_closed()
        check_session(id, tenant)
        check_values(variables or {})
        known = {x: None if y is None else str(y) for x, y in (variables or {}).items()}
        key = SessionKey(id, tenant or "")
        begins = self._cast.tables.get(key) is None
        kept = None
        if restore is not None:
            if not begins:
                raise SnapshotRefused(f"the session {key} is there: end it first")
            kept = self._cast.resting.admit(restore, key)
        table = self._cast.tables.sit(key, known)
        if kept is not None:
            self._cast.resting.restore(table, kept)
            self._hooks.restored(key, kept)
            table.set_variables(known)
        if begins and known:
            self._hooks.knows(key, known)
        return Session(table, self._cast, self._hooks)

    @property
    def sessions(self) -> tuple[SessionKey, ...]:
        """Those that have begun, have not ended, and are not set aside; last is the one
        in which something went on last."""
        return tuple(table.key for table in self._cast.tables.open)

    @property
    def set_aside(self) -> int:
        """How many sessions are set aside, until somebody speaks to them."""
        return self._cast.tables.resting

    def _refuse_if_closed(self) -> None:
        if self._background.cancel_scope.cancel_called:
            raise RuntimeClosed("it is closed")

    def add_context(
        self, provide: Provide, *, npc: str | None = None
    ) -> Callable[[], None]:
        """Ask ``provide`` in each turn for lines to add to its prompt; see `Moment`.

        Whoever takes longer than ``turn.context_ms``, or fails, is left out of that
        turn, and its `ContextAdded` says so. A plain function must not block.

        Args:
          npc: in turns of this one only; None is all of them.

        Returns what ends it. Raises UnknownNpc.
        """
        name = None if npc is None else find_npc(self.config, npc).name
        return self._context.add(provide, npc=name)

    def register(self, *tools: Tool) -> None:
        """Add tools of your own, at any time.

        Raises:
          NameCollision: also for a group that has the name of a server, whose
            next list of tools would replace it, and for the name of a tool that a
            reload brings. Else as `ToolHost.register`.
        """
        servers = {spec.name for spec in self._fleet.specs()}
        for tool in tools_given(tools):
            if tool.definition.group in servers:
                raise NameCollision(
                    f"{tool.key}: {tool.definition.group!r} is a server's name"
                )
        self._generations.refuse_taken(tools)
        self.host.register(*tools)
        self._hooks.registered()

    def deregister(self, name: str) -> tuple[str, ...]:
        """Remove a group of tools, or one by its key; returns what went."""
        gone = self.host.deregister(name)
        self._hooks.registered()
        return gone

    def add_server(self, spec: ServerSpec) -> None:
        """Connect one more MCP server (G42, N21); its tools appear when it is ready.

        Reads a small file: what was approved of this server in earlier runs.

        Raises:
          FleetError: if there is one of that name.
          ConfigError: if a group of built-in or own tools has that name.
        """
        if problems := shadowed_groups([spec], self.host.snapshot):
            raise ConfigError(*problems)
        spec = in_environment(spec, self.config)
        self._fleet.add(spec)
        found = {}
        if self._approved is not None:
            found = self._read(outcome.capture(self._approved.load_of, (spec,)))
        # Before it can say anything.
        self.host.approvals.serve(spec.name, identity(spec), found)

    async def remove_server(self, name: str) -> None:
        """Disconnect a server; its tools are gone at once. A reload whose configuration
        has it connects it again.

        Raises:
          FleetError: if there is none of that name.
        """
        member = self._fleet.withdraw(name)
        self._generations.taken_away(name)
        self.host.deregister(name)  # its process takes longer to end
        await self._fleet.let_go(member)

    def servers(self) -> tuple[ServerStatus, ...]:
        """Every server with its state, also the ones that are absent."""
        return self._fleet.status()

    async def wait_ready(self, *, within: float, known: bool = False) -> bool:
        """Wait until every server is ready or has failed its first attempt.

        Args:
          known: do not wait for a server whose tools are known from an earlier
            run: they are there, and calls of them wait for it.

        Returns whether all of them are ready.
        """
        return await self._fleet.wait_ready(within, known=known)

    def problems(self) -> list[Problem]:
        """Granted names that no tool answers to, and the tools of servers that are
        left out because they would share one name, as of now."""
        snapshot = self.host.snapshot
        listed = {x.definition.group for x in snapshot.offered}
        there = {
            row.name
            for row in self.servers()
            # One whose tools were left out has had its warning.
            if row.state is ServerState.READY and (row.name in listed or not row.tools)
        }
        absent = [spec for spec in self.config.mcp.servers if spec.name not in there]
        return [
            *(
                NameProblem(x, shared=self.config.mcp.from_mcp_json)
                for x in snapshot.collisions
            ),
            *check_grants(self.config, snapshot, absent=absent),
        ]

    def unapproved(self) -> list[Unapproved]:
        """The tools that NPCs are granted and that nobody has approved, as of now."""
        approvals = self.host.approvals
        return unapproved(
            self.config,
            self.host.snapshot,
            held=approvals.held,
            agreed=approvals.agreed,
        )

    def usability(
        self, npc: str | None = None, *, granted: bool = True
    ) -> tuple[Usability, ...]:
        """Whether an NPC can use each of the tools that it is granted, as of now, and
        what would change that. For all NPCs if none is named.

        Args:
          granted: False adds the tools that it is not granted.

        Raises:
          UnknownNpc: with the nearest names.
        """
        npcs = self.npcs if npc is None else (find_npc(self.config, npc),)
        return tuple(
            usability_of(
                npcs,
                self.config,
                self.host,
                approver=self._cast.asks_somebody,
                builtin={x.key for x in self._generations.serving.builtin},
                granted=granted,
            )
        )

    def advice(self) -> tuple[str, ...]:
        """A line for each NPC that cannot use any of its tools, or can never use some,
        with what would change that. `warnings` has the lines told since the start."""
        return tuple(warnings_of(self.npcs, self.usability(), self.problems()))

    def unready(self) -> tuple[Unready, ...]:
        """What is not fit for people who play: words that nobody would hear, and a
        stand-in that would answer. `check_production` makes an error of it."""
        cast = self._cast
        return unready(self.config, cast.voices, cast.models.stands_in)

    def _settle(self) -> None:
        """Everything is registered now: measure it, and say what cannot be used."""
        self._publisher.measure()
        self._advise()

    def _advise(self) -> None:
        """Warn of what NPCs cannot use, as soon as the servers have started."""
        if self._rehearsed or self._advice_due:
            return
        if self._fleet.settled and not self._publisher.measuring:
            self._tell_advice()
        else:  # tools that are not there yet, or not measured, would seem to be missing
            self._advice_due = True
            self._background.start_soon(self._advise_later)

    async def _advise_later(self) -> None:
        await self._fleet.wait_ready(_STARTING)
        with trio.move_on_after(_MEASURING):
            await self._publisher.idle()
        self._advice_due = False
        self._tell_advice()

    def _tell_advice(self) -> None:
        for text in self.advice():
            self._warnings.say(text)

    async def reload(self, config: Config | None = None) -> Reloaded:
        """Go over to another configuration; the file, read again, if none is given.

        NPCs keep their conversations, unchanged servers their processes. What is
        taken away is gone at once. The switch waits for turns that run, at most a
        minute. Cancelled, it is done all the same. One that comes while another
        waits takes its place: both return when that has been switched to.

        Raises:
          ConfigError: if it cannot serve. The old one goes on; nothing has changed.
          RuntimeClosed: if the runtime ends meanwhile, or has ended.
        """
        end = trio.Event()
        result: outcome.Maybe[Reloaded] = outcome.Error(RuntimeClosed("it is closed"))

        async def carry_out() -> None:
            nonlocal result
            try:
                result = outcome.Value(await self._reload(config))
            except Exception as error:  # whoever asked may act, or it is their bug
                result = outcome.Error(error)
            finally:
                end.set()

        if not self._background.cancel_scope.cancel_called:
            self._background.start_soon(carry_out)
            await end.wait()
        return result.unwrap()

    async def _reload(self, config: Config | None) -> Reloaded:
        async with self._reloading:
            if config is None:
                config = await trio.to_thread.run_sync(
                    self._source.read_again, abandon_on_cancel=True
                )
            else:
                config = self._source.admit(checked(config))
            self._source.tell(self._warnings.add)
            plan = plan_for(self.config, config, self._lasting)
            self._cast.voices.check(plan.config)
            models = self._cast.models
            if plan.config.llm != self.config.llm:
                models = self._models(plan.config.llm)
            models.for_npc(None)  # it may not be possible, and nothing has changed yet
            remembered = await self._recall(self._generations.fresh(plan))
            self._generations.accept(plan, remembered)
            known = {*idle_keys(self.config), *wrong_prices(self.config)}
            for text in (*idle_keys(plan.config), *wrong_prices(plan.config)):
                if text not in known:
                    self._warnings.say(text)
            self._source.serve(plan.config)
            self.host.approvals.follow(approved_by(plan.config))
            self.host.review()
            self._hooks.reloading(plan.config)
            self._hooks.registered()
            await self._cast.adopt(plan.config, models)
        done = await self._generations.carry_out()
        self._hooks.registered()
        self._settle()
        return done

    async def _recall(self, servers: Iterable[ServerSpec]) -> dict[str, str]:
        """What was approved in earlier runs of servers that are new in this one."""
        if self._approved is None:
            return {}
        found = await trio.to_thread.run_sync(
            partial(outcome.capture, self._approved.load_of, servers),
            abandon_on_cancel=True,
        )
        return self._read(found)

    def _read(self, found: outcome.Maybe[dict[str, str]]) -> dict[str, str]:
        approved: dict[str, str] = {}
        try:
            approved = found.unwrap()
        except OSError as error:
            text = f"approvals of earlier runs are not loaded: {error}"
            self._warnings.say(text)
        if self._approved is not None:
            self._approved.tell(self._warnings.add)
        return approved

    async def calibrate(
        self, *, within: float = CALIBRATION, unsafe: bool = False
    ) -> tuple[Probed, ...]:
        """Measure the tools that only read what is here, or with ``unsafe`` all of
        them; see `ToolHost.calibrate`."""
        return await self.host.calibrate(within=within, unsafe=unsafe)
