"""`Runtime`: the object that an embedder holds, with its NPCs, tools and servers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import outcome

import trio

from glyphoxa_trio.actors import Topic
from glyphoxa_trio.config import Config, ConfigError, LlmConfig, NpcConfig, ServerSpec
from glyphoxa_trio.config.checking import checked
from glyphoxa_trio.errors import GlyphoxaError, words
from glyphoxa_trio.host import Probed, ToolHost
from glyphoxa_trio.mcp import (
    FilledPrompt,
    ServerPool,
    ServerPrompt,
    ServerState,
    ServerStatus,
    ServerWarning,
    ToolApprovals,
)
from glyphoxa_trio.mcp.tool_cache import identity
from glyphoxa_trio.memory.contract import Forgotten, Memory
from glyphoxa_trio.memory.visibility import CampaignKey
from glyphoxa_trio.npc import (
    CostStatistics,
    Npc,
    Provide,
    Scene,
    SpeculationStatistics,
    TurnEvent,
)
from glyphoxa_trio.npc.arguments import check_names, check_session, check_values
from glyphoxa_trio.npc.hot_context import HotContext
from glyphoxa_trio.npc.identity import DEFAULT, NpcId, SessionKey
from glyphoxa_trio.providers.chain import ModelStatistics
from glyphoxa_trio.providers.llm import LLM
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.naming import NameCollision
from glyphoxa_trio.tools.usability import Usability

from . import prompts
from .config_reload import ConfigReload, Reloaded
from .config_source import ConfigSource
from .given import tools_given
from .grants import (
    NameProblem,
    Problem,
    PromptGrantProblem,
    Unapproved,
    approved_by,
    check_grants,
    check_prompt_grants,
    shadowed_groups,
    unapproved,
)
from .hooks import Hooks
from .kept_table import id_by_name
from .loop_lag import OverloadEvent
from .models import Models
from .overload import Overload
from .plans import in_environment
from .plans import plan as plan_for
from .prices import wrong_prices
from .publisher import CALIBRATION, Publisher
from .session import Session
from .session_registry import SessionRegistry, WordsKeeper, find_npc
from .session_snapshot import SessionSnapshot, SnapshotRefused
from .session_status import SessionOverview, status_of_session
from .unready import Unready, unready
from .unused_keys import idle_keys
from .usability import hidden_tools, usability_of, warnings_of
from .warned import Warnings

if TYPE_CHECKING:
    from glyphoxa_trio.builtin.music import MusicEvent


# Seconds to wait for the servers' start, and then for the measurement of tools, before
# an operator is warned of tools that NPCs cannot use.
_STARTING: Final = 60.0
_MEASURING: Final = 5.0

PROMPT_PATIENCE: Final = 30.0  # seconds for a server to word a prompt


class RuntimeClosed(GlyphoxaError):
    """The block of the runtime was left."""


@attrs.define(eq=False, kw_only=True)
class Runtime:
    """A running configuration: its NPCs, their tools and the servers behind those.

        async with open_runtime("config/tavern.yaml") as runtime:
            async with runtime.npc("Bartok").say("An ale!", speaker="Aria") as turn:
                done = await turn.finish()
            print(done.text, runtime.cost.total)

    Made by `open_runtime`, and usable from any task of the same trio run until its
    block is left; then `npc`, `scene`, `session` and `reload` raise `RuntimeClosed`.
    One runtime serves many players: `npc` and `scene` belong to a default session, and
    `session` opens others, each with its own conversations over the same characters.

    Attributes:
      host: the tool host: the catalogue, the gate and the measurements.
      events: every event of every turn but its audio.
      overload_events: published when refusing turns because of overload begins and
        ends.
      music: music to play where no program of this machine plays it.
      run_id: the id of this run, 32 hexadecimal digits.
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
        """The configuration in use now; a reload replaces it."""
        return self._source.current

    @property
    def llm(self) -> LLM:
        """The model of every NPC that names no other."""
        return self._cast.models.for_npc(None)

    @property
    def warnings(self) -> deque[ServerWarning]:
        """The last 100 warnings, newest last; ``on_warning`` is called with each."""
        return self._warnings.kept

    @property
    def turns_running(self) -> int:
        """The number of NPCs that are in a turn now."""
        return self._cast.services.activity.running

    @property
    def overload(self) -> Overload:
        """The measured load: if turns are refused, and if work should be put off."""
        return self._cast.overload

    @property
    def speculation(self) -> SpeculationStatistics:
        """Statistics of work begun on partial transcripts, and how much of it was
        wasted."""
        return self._cast.services.tally.statistics()

    @property
    def cost(self) -> CostStatistics:
        """The tokens and costs of models since the runtime was opened, by NPC and by
        model."""
        return self._cast.services.costs.statistics()

    def costs_limited(
        self, refusal: Callable[[NpcId], str]
    ) -> AbstractContextManager[None]:
        """Refuse turns, as ceilings of cost do, for which ``refusal`` returns a reason,
        inside the block; one such block at a time."""
        return self._cast.services.costs.limited(refusal)

    @property
    def models(self) -> tuple[ModelStatistics, ...]:
        """Statistics of the models of ``llm`` and ``llm.fallbacks``; empty without
        fallbacks."""
        return self._cast.models.statistics()

    @property
    def s2s_label(self) -> str:
        """The name of the speech-to-speech model in use, for people."""
        return self._cast.voices.s2s_label(self.config)

    @property
    def npcs(self) -> tuple[NpcConfig, ...]:
        """The NPCs of the configuration in use."""
        return self.config.npcs

    def npc(self, name: str) -> Npc:
        """Return the NPC of that name, or of that beginning of a name if it is unique.

        It is the NPC of the default session; `Session.npc` returns those of others.

        Raises:
          UnknownNpc: with the nearest names.
          RuntimeClosed: if the runtime has ended.
        """
        return self.session().npc(name)

    def scene(self, *npcs: str) -> Scene:
        """Return a scene of several NPCs in one place: the named ones, or all.

        The same names give the same scene each time.

        Raises:
          UnknownNpc: with the nearest names.
          RuntimeClosed: if the runtime has ended.
        """
        return self.session().scene(*npcs)

    def session(
        self,
        id: str = DEFAULT,  # noqa: A002 - the usual word for it
        *,
        tenant: str | None = None,
        campaign: str | None = None,
        players: Mapping[str, str] | None = None,
        variables: Mapping[str, object] | None = None,
        restore: SessionSnapshot | bytes | None = None,
    ) -> Session:
        """Return the session of that id; it begins now if there is none.

        A session is one game table, or one phone call, over the same characters as all
        others. `npc` and `scene` belong to the session ``default``.

            names = {"caller_name": "Ann"}
            async with runtime.session("call-17", variables=names) as call:
                async with call.npc("Concierge").greet() as turn:
                    await turn.finish()

        If more than `sessions.most` sessions are open, the one that was idle longest is
        set aside. It comes back when it is used again; its holder notices nothing but
        the time that takes.

        Args:
          id: any text; the name of the table, or of the call.
          tenant: the owner, where several share this runtime. Two tenants may have
            sessions of the same id.
          campaign: the campaign whose memory the session's NPCs share; None is that of
            `memory.campaign`, or one of its own. A session keeps its campaign.
          players: the stable ids of players, for memory, by the names under which they
            speak: ``{"Aria": "discord:17"}``. A player without one is known by name.
          variables: values for templates of prompts and greetings, such as
            ``caller_name``, for a session that begins now.
          restore: continue from this snapshot, which may be of another id: the value
            that `Session.snapshot` returned, or its bytes. ``variables`` override those
            of the snapshot.

        Raises:
          TooManySessions: `sessions.most` are open, and none of them is idle.
          StoreFull: the store of sessions that are set aside is full.
          SnapshotRefused: a session of that id exists; or ``restore`` belongs to
            another tenant, is of a newer version, damaged, or not made with
            `sessions.key`.
          ValueError: the session exists, and has other ``variables``, or belongs to
            another campaign.
          RuntimeClosed: if the runtime has ended.
        """
        self._refuse_if_closed()
        check_session(id, tenant)
        check_values(variables or {})
        known = {x: None if y is None else str(y) for x, y in (variables or {}).items()}
        key = SessionKey(id, tenant or "")
        begins = self._cast.states.get(key) is None
        check_names(campaign=campaign, players=players)
        kept = None
        if restore is not None:
            if not begins:
                raise SnapshotRefused(f"the session {key} exists: end it first")
            kept = self._cast.resting.admit(restore, key)
        state = self._cast.states.sit(key, known)
        if self._cast.remembering is not None:
            self._cast.remembering.table(key, campaign, players)
        if kept is not None and state.resting:
            state.continue_from(kept)
        elif kept is not None:
            self._cast.resting.restore(state, kept)
            state.set_variables(known)
        if kept is not None:
            self._hooks.restored(key, kept)
        if begins and known and not state.resting:  # otherwise at its first use
            self._hooks.knows(key, known)
        return Session(state, self._cast, self._hooks)

    @property
    def sessions(self) -> tuple[SessionKey, ...]:
        """The sessions that are open and not set aside, in the order of last use."""
        return tuple(state.key for state in self._cast.states.open)

    def session_status(self, most: int = 100) -> tuple[SessionOverview, ...]:
        """Return the state of sessions, the one used last first, and then of those that
        are set aside; ``most`` of either. It uses none of them."""
        cost, states = self._cast.resting.cost, self._cast.states
        # A session that is set aside keeps its place, so the last one comes last.
        shown = (*states.open[-most:][::-1], *states.set_aside[-most:][::-1])
        return tuple(status_of_session(state, cost) for state in shown)

    def call_id(self, npc: NpcId) -> str:
        """Return the id of an NPC's conversation in a session, ``{call_id}`` in
        templates; the log has it in each line of a turn. It opens no session."""
        return self._cast.call_id(npc)

    @property
    def set_aside(self) -> int:
        """The number of sessions that are set aside until they are used again; with
        memory, of those that the program still holds."""
        return self._cast.states.resting

    @property
    def memory(self) -> Memory | None:
        """The store of what is remembered after the run; None if nothing is kept.

        found = await runtime.memory.transcripts.search(campaign, viewer, "wyrm")
        """
        return None if self._cast.remembering is None else self._cast.remembering.memory

    def campaign_of(self, session: str = DEFAULT, *, tenant: str = "") -> CampaignKey:
        """Return the campaign whose memory a session has, or would have if it began.

        It opens no session.
        """
        return self._cast.campaign_of(SessionKey(session, tenant))

    @property
    def memory_queue(self) -> tuple[int, int]:
        """The numbers of turns and other things that wait to be written to memory, and
        of those that were lost because too many waited."""
        if self._cast.remembering is None:
            return 0, 0
        keeper = self._cast.remembering.keeper
        return keeper.writer.waiting, keeper.writer.lost

    @property
    def memory_lag(self) -> float:
        """The seconds for which the oldest of those that wait to be written to memory
        has waited; 0 if nothing waits."""
        if self._cast.remembering is None:
            return 0.0
        return self._cast.remembering.keeper.writer.lag

    async def kept(self) -> None:
        """Return when every turn that has ended by now is written to memory, or lost.

        `TurnKept` events tell of each of them.
        """
        if self._cast.remembering is not None:
            await self._cast.remembering.keeper.flush()

    async def forget(
        self, player: str, *, tenant: str = "", campaign: str | None = None
    ) -> Forgotten:
        """Forget a player: all that they have said, and all that was made of it.

        Sessions that still know their words end, also those that are set aside. Backups
        of memory are not covered.

        Args:
          player: the stable id of the player; or the name of one without an id, in any
            case of letters.
          campaign: only what is in this campaign. A name may be another player's in
            another campaign; None forgets all of them.

        Raises:
          SnapshotRefused: what was set aside of a session cannot be read, so that it
            may still have their words; nothing is removed from memory.
          MemoryUnavailable: memory cannot be changed now; the sessions have ended.
          RuntimeClosed: if the runtime has ended.
        """
        self._refuse_if_closed()
        remembering, gone = self._cast.remembering, Forgotten()
        for id_ in dict.fromkeys((player, id_by_name(player))):
            ended = await self._cast.end_those_with(id_, tenant, campaign)
            if remembering is not None:
                gone = await remembering.forget(tenant, id_, campaign)
                # A session may have come back meanwhile, with what it was loaded with.
                if await self._cast.end_those_with(id_, tenant, campaign):
                    ended = True
                    await remembering.forget(tenant, id_, campaign, again=True)
            if ended or gone != Forgotten():
                break
        return gone

    @contextmanager
    def words_kept(self, keeper: WordsKeeper) -> Generator[None]:
        """Have ``keeper`` forget players, too, until the block is left."""
        self._cast.words.append(keeper)
        try:
            yield
        finally:
            self._cast.words.remove(keeper)

    def player_of(self, session: SessionKey, speaker: str) -> str:
        """Return the stable id of the player who speaks under this name in a session;
        of one without an id, the name in lower case."""
        return self._cast.player_of(session, speaker)

    def _refuse_if_closed(self) -> None:
        if self._background.cancel_scope.cancel_called:
            raise RuntimeClosed("the runtime is closed")

    def add_context(
        self, provide: Provide, *, npc: str | None = None
    ) -> Callable[[], None]:
        """Call ``provide`` in each turn for lines to add to its prompt; see `Moment`.

        A provider that takes longer than ``turn.context_ms``, or fails, is left out of
        that turn, and the turn's `ContextAdded` event says so. A plain function must
        not block.

        Args:
          npc: only in turns of this NPC; None means all.

        Returns:
          A function that removes the provider.

        Raises:
          UnknownNpc: with the nearest names.
        """
        name = None if npc is None else find_npc(self.config, npc).name
        return self._context.add(provide, npc=name)

    def register(self, *tools: Tool) -> None:
        """Add tools of your own, at any time.

        Raises:
          NameCollision: two tools under one name; also for a group that has the name of
            a server, whose next list of tools would replace it, and for the name of a
            tool that a reload is about to bring. Otherwise as `ToolHost.register`.
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
        """Remove a group of tools, or one tool by its key; return the keys removed."""
        gone = self.host.deregister(name)
        self._hooks.registered()
        return gone

    def add_server(self, spec: ServerSpec) -> None:
        """Connect one more MCP server; its tools appear when it is ready.

        Reads a small file: the approvals that earlier runs gave to this server's tools.

        Raises:
          ServerPoolError: if a server of that name exists.
          ConfigError: if a group of built-in or own tools has that name.
        """
        if problems := shadowed_groups([spec], self.host.snapshot):
            raise ConfigError(*problems)
        spec = in_environment(spec, self.config)
        self._fleet.add(spec)
        found = {}
        if self._approved is not None:
            found = self._read(outcome.capture(self._approved.load_of, (spec,)))
        # Before it can send its tools.
        self.host.approvals.serve(spec.name, identity(spec), found)

    async def remove_server(self, name: str) -> None:
        """Disconnect a server; its tools are gone at once.

        Returns when its process has ended. A reload whose configuration has the server
        connects it again.

        Raises:
          ServerPoolError: if there is no server of that name.
        """
        member = self._fleet.withdraw(name)
        self._generations.taken_away(name)
        self.host.deregister(name)  # at once; its process takes longer to end
        await self._fleet.let_go(member)

    def servers(self) -> tuple[ServerStatus, ...]:
        """Return every server with its state, also those that are not ready."""
        return self._fleet.status()

    def server_lines(self, name: str) -> tuple[str, ...]:
        """Return the last 20 lines that a server wrote to stderr, the oldest first.

        They have no secrets of its configuration in them; of a server that writes more
        than four a second, some are left out.
        """
        return self._fleet.lines(name)

    def prompts(self, npc: str | None = None) -> tuple[ServerPrompt, ...]:
        """Return the prompts that servers offer: all, or those granted to an NPC.

        As of now: a server that is starting may have some that are not known yet. No
        server is asked.

        Raises:
          UnknownNpc: with the nearest names.
        """
        rows = self._fleet.status()
        if npc is None:
            return prompts.offered(rows)
        config = find_npc(self.config, npc)
        return tuple(x for x in prompts.offered(rows) if prompts.is_granted(config, x))

    async def fill_prompt(
        self,
        npc: str,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        within: float = PROMPT_PATIENCE,
    ) -> FilledPrompt:
        """Return a prompt of a server with its arguments filled in, for an NPC.

            values = {"what": "ale"}
            filled = await runtime.fill_prompt("Bartok", "tavern.order", values)
            async with runtime.npc("Bartok").say(filled.text) as turn:
                await turn.finish()

        The server words it, so show it to the person in whose name it is said. If
        cancelled, the server is told.

        Args:
          npc: the NPC whose ``prompts`` must grant it.
          name: the prompt's key, ``server.name``, or its name if only one has it.
          arguments: its arguments, all of them texts.
          within: seconds to wait at most.

        Raises:
          UnknownNpc: with the nearest names.
          PromptRefused: there is no such prompt, it is not granted, or an argument is
            wrong. No server was asked.
          ToolError: the server refused.
          ToolUnavailable, ConnectionLost, DeadlineExceeded: it did not answer.
          RuntimeClosed: if the runtime has ended.
        """
        self._refuse_if_closed()
        found = prompts.found(find_npc(self.config, npc), self._fleet.status(), name)
        return await prompts.fill(self._fleet, found, arguments or {}, within=within)

    async def complete_prompt(
        self,
        npc: str,
        name: str,
        argument: str,
        beginning: str = "",
        *,
        given: Mapping[str, str] | None = None,
        within: float = PROMPT_PATIENCE,
    ) -> tuple[str, ...]:
        """Return the values that its server suggests for an argument of a prompt.

        Args:
          npc, name, within: as for `fill_prompt`.
          argument: the argument's name.
          beginning: what was typed of its value.
          given: the values of other arguments.

        Raises:
          GlyphoxaError: as `fill_prompt`; `ToolError` also from a server that suggests
            nothing.
        """
        self._refuse_if_closed()
        found = prompts.found(find_npc(self.config, npc), self._fleet.status(), name)
        return await prompts.suggestions(
            self._fleet, found, argument, beginning, given or {}, within=within
        )

    async def wait_ready(self, *, within: float, known: bool = False) -> bool:
        """Wait until every server is ready or has failed its first attempt.

        Args:
          within: seconds to wait at most.
          known: do not wait for a server whose tools are known from an earlier run:
            they are listed already, and calls of them wait for it.

        Returns:
          True if all of them are ready.
        """
        return await self._fleet.wait_ready(within, known=known)

    def problems(self) -> list[Problem]:
        """Return the granted names that no tool or prompt matches, the name collisions,
        and the tools that NPCs are not shown for now, as of now.

        A collision leaves out tools of servers that would share one exposed name. A
        tool that is hidden says why, and when it is tried again.
        """
        snapshot = self.host.snapshot
        listed = {x.definition.group for x in snapshot.offered}
        rows = self.servers()
        there = {
            row.name
            for row in rows
            # A ready server without listed tools: they were left out, with a warning.
            if row.state is ServerState.READY and (row.name in listed or not row.tools)
        }
        absent = [spec for spec in self.config.mcp.servers if spec.name not in there]
        return [
            *(
                NameProblem(x, shared=self.config.mcp.from_mcp_json)
                for x in snapshot.collisions
            ),
            *check_grants(self.config, snapshot, absent=absent),
            *self._prompt_problems(rows),
            *hidden_tools(self.npcs, self.usability()),
        ]

    def _prompt_problems(
        self, rows: Iterable[ServerStatus]
    ) -> list[PromptGrantProblem]:
        ready = {row.name for row in rows if row.state is ServerState.READY}
        absent = [x for x in self.config.mcp.servers if x.name not in ready]
        offered = prompts.offered(rows)
        return check_prompt_grants(self.config, offered, absent=absent)

    def unapproved(self) -> list[Unapproved]:
        """Return the tools that NPCs are granted but that are not approved now."""
        approvals = self.host.approvals
        return unapproved(
            self.config,
            self.host.snapshot,
            held=approvals.held,
            agreed=approvals.agreed,
        )

    async def expect_approvals(self, *, expected: bool) -> None:
        """Say if `ApprovalNeeded` events are answered from now on, with `Npc.approve`.

        Without an answerer, and without an approver, NPCs are not shown the tools that
        need one. NPCs that talk take it when their turn is over. What `open_runtime`
        was given (``approvals``, ``approver``) holds in any case.
        """
        await self._cast.expect_approvals(expected=expected)

    def usability(
        self, npc: str | None = None, *, granted: bool = True
    ) -> tuple[Usability, ...]:
        """Return if an NPC can use each tool that it is granted, as of now, and the
        remedy.

        Args:
          npc: None means all NPCs.
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
        """Return a line for each NPC that cannot use any of its tools, or can never use
        some, and for each grant of a prompt that no server offers.

        Each line has the remedy. `warnings` has the lines reported since the start.
        """
        problems = self.problems()
        of_prompts = [x for x in problems if isinstance(x, PromptGrantProblem)]
        return (
            *warnings_of(self.npcs, self.usability(), problems),
            *(() if self._rehearsed else map(str, of_prompts)),
        )

    def unready(self) -> tuple[Unready, ...]:
        """Return what makes this configuration unfit for production.

        That is: words that no player would hear, and NPCs that the offline stand-in
        would answer for. `check_production` makes an error of it.
        """
        cast = self._cast
        return unready(self.config, cast.voices, cast.models.stands_in)

    def _settle(self) -> None:
        """Measure all registered tools, and warn of those that NPCs cannot use."""
        self._publisher.measure()
        self._advise()

    def _advise(self) -> None:
        """Warn of tools that NPCs cannot use, as soon as the servers have started."""
        if self._rehearsed or self._advice_due:
            return
        if self._fleet.settled and not self._publisher.measuring:
            self._tell_advice()
        else:  # tools that are not listed or measured yet would seem to be missing
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

    async def reload(
        self, config: Config | None = None, *, now: bool = False
    ) -> Reloaded:
        """Switch to another configuration: the given one, or the source read again.

        NPCs keep their conversations, and unchanged servers keep their processes.
        Whatever the new configuration no longer has is removed at once. The switch to
        the rest waits for a moment when no turn runs, a minute at most. A reload that
        comes while another waits replaces it: both return when its configuration is in
        use.

        Cancelling the caller does not cancel the reload.

        Args:
          now: do not wait for a moment without turns. Turns that run go on; calls to a
            server that changed or is gone may still end within its timeout.

        Returns:
          The changes, by name.

        Raises:
          ConfigError: if the configuration cannot serve. Nothing has changed, and a
            warning says why.
          RuntimeClosed: if the runtime has ended, or ends meanwhile.
        """
        end = trio.Event()
        result: outcome.Maybe[Reloaded] = outcome.Error(
            RuntimeClosed("the runtime is closed")
        )

        async def carry_out() -> None:
            nonlocal result
            try:
                result = outcome.Value(await self._reload(config, now=now))
            except Exception as error:  # raised to the caller of reload
                result = outcome.Error(error)
                why = words(error) or type(error).__name__
                self._warnings.say(f"not reloaded, the old one goes on: {why}")
            finally:
                end.set()

        if not self._background.cancel_scope.cancel_called:
            self._background.start_soon(carry_out)
            await end.wait()
        return result.unwrap()

    async def _reload(self, config: Config | None, *, now: bool) -> Reloaded:
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
            models.for_npc(None)  # may raise: nothing has changed yet
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
            if self._cast.remembering is not None:
                self._cast.remembering.adopt(plan.config)
        done = await self._generations.carry_out(now=now)
        self._hooks.registered()
        self._settle()
        return done

    async def _recall(self, servers: Iterable[ServerSpec]) -> dict[str, str]:
        """Return the approvals that earlier runs gave to servers that are new in this
        one."""
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
        """Measure the tools that only read local data; with ``unsafe``, all tools.

        Args:
          within: seconds for all of it.

        See `ToolHost.calibrate`.
        """
        return await self.host.calibrate(within=within, unsafe=unsafe)
