"""`Runtime` for asyncio: the NPCs, tools and servers of a running configuration."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import attrs

from glyphoxa_trio.config import Config, NpcConfig, ServerSpec
from glyphoxa_trio.host import Probed
from glyphoxa_trio.mcp import FilledPrompt, ServerPrompt, ServerStatus, ServerWarning
from glyphoxa_trio.memory.contract import Forgotten
from glyphoxa_trio.memory.visibility import CampaignKey
from glyphoxa_trio.npc import CostStatistics, Provide, TurnEvent
from glyphoxa_trio.npc.arguments import check_names, check_session
from glyphoxa_trio.npc.identity import DEFAULT, NpcId, SessionKey
from glyphoxa_trio.providers.chain import ModelStatistics
from glyphoxa_trio.runtime import (
    OverloadEvent,
    Reloaded,
    RuntimeClosed,
    SessionOverview,
    SessionSnapshot,
    find_npc,
)
from glyphoxa_trio.runtime import Runtime as NativeRuntime
from glyphoxa_trio.runtime.grants import Problem, Unapproved
from glyphoxa_trio.runtime.publisher import CALIBRATION
from glyphoxa_trio.runtime.runtime import PROMPT_PATIENCE
from glyphoxa_trio.runtime.unready import Unready
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.usability import Usability

from .bridge import LoopBridge
from .npc import Npc
from .scene import Scene
from .session import LazySession, Session
from .tools import context
from .topic import Topic

if TYPE_CHECKING:
    from glyphoxa_trio.builtin.music import MusicEvent

P = ParamSpec("P")
R = TypeVar("R")


@attrs.define(eq=False)
class Runtime:
    """A running configuration: its NPCs, their tools and the servers behind those.

        async with aio.open_runtime("config/tavern.yaml") as runtime:
            async with runtime.npc("Bartok").say("An ale!", speaker="Aria") as turn:
                done = await turn.finish()

    Made by `aio.open_runtime`; works until its block is left. It stands for a
    `glyphoxa_trio.Runtime` on trio's side. Methods that touch state over there are
    coroutines, even where the original is a plain method or a property. Cancelling one
    cancels the work in trio and waits for its end. After the block, every method raises
    `RuntimeClosed`.
    """

    events: Topic[TurnEvent]
    overload_events: Topic[OverloadEvent]
    music: Topic[MusicEvent]
    warnings: deque[ServerWarning]
    _bridge: LoopBridge
    _native: NativeRuntime

    @property
    def config(self) -> Config:
        """The configuration in use now; a reload replaces it."""
        return self._native.config

    @property
    def npcs(self) -> tuple[NpcConfig, ...]:
        """The NPCs of the configuration in use."""
        return self._native.npcs

    @property
    def run_id(self) -> str:
        """The id of this run, 32 hexadecimal digits."""
        return self._native.run_id

    @property
    def set_aside(self) -> int:
        """The number of sessions that are set aside until they are used again; with
        memory, of those that the program still holds."""
        return self._native.set_aside

    @property
    def memory_queue(self) -> tuple[int, int]:
        """The numbers of turns and other things that wait to be written to memory, and
        of those that were lost because too many waited."""
        return self._native.memory_queue

    @property
    def memory_lag(self) -> float:
        """The seconds for which the oldest of those that wait to be written to memory
        has waited; 0 if nothing waits."""
        return self._native.memory_lag

    @property
    def turns_running(self) -> int:
        """The number of NPCs that are in a turn now."""
        return self._native.turns_running

    def unready(self) -> tuple[Unready, ...]:
        """Return what makes this configuration unfit for production; see the native
        runtime."""
        return self._native.unready()

    def npc(self, name: str) -> Npc:
        """Return the NPC of that name, or of that beginning of a name if it is unique.

        Raises:
          UnknownNpc: with the nearest names.
          RuntimeClosed: if the runtime has ended.
        """
        if self._bridge.closed:
            raise RuntimeClosed("the runtime is closed")
        config = find_npc(self._native.config, name)
        return Npc(config, self._bridge, partial(self._native.npc, config.name))

    def scene(self, *npcs: str) -> Scene:
        """Return a scene of several NPCs in one place: the named ones, or all.

        The same names mean the same scene each time.

        Raises:
          UnknownNpc: with the nearest names.
          RuntimeClosed: if the runtime has ended.
        """
        names = frozenset(self.npc(name).name for name in npcs)
        return Scene(self._bridge, names, partial(self._native.scene, *names))

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
        """Return the session of that id: one game table, or one phone call.

        All sessions use the same characters, each with its own conversations. If there
        is none of that id, it begins when its block is entered or it is first used.
        Then it raises the errors of `glyphoxa_trio.Runtime.session`: `SnapshotRefused`
        if the snapshot cannot be restored, ValueError if the session exists and has
        other ``variables``.

        Args:
          tenant: the owner, where several share this runtime.
          campaign: the campaign whose memory the session's NPCs share.
          players: the stable ids of players by the names under which they speak.
          variables: values for templates of prompts and greetings, such as
            ``caller_name``.
          restore: continue from this snapshot, which may be of another id.

        Raises:
          RuntimeClosed: if the runtime has ended.
        """
        if self._bridge.closed:
            raise RuntimeClosed("the runtime is closed")
        check_session(id, tenant)
        key = SessionKey(id, tenant or "")
        check_names(campaign=campaign, players=players)
        lazy = LazySession(self._native, key, variables, restore, campaign, players)
        return Session(self._bridge, lazy)

    async def sessions(self) -> tuple[SessionKey, ...]:
        """Return the keys of the sessions that are open and not set aside."""
        return await self._do(lambda native: native.sessions)

    async def call_id(self, npc: NpcId) -> str:
        """Return the id of an NPC's conversation in a session, as
        `glyphoxa_trio.Runtime.call_id` does."""
        return await self._do(lambda native: native.call_id(npc))

    async def expect_approvals(self, *, expected: bool) -> None:
        """Say if `ApprovalNeeded` events are answered from now on, as
        `glyphoxa_trio.Runtime.expect_approvals` does."""
        await self._bridge.ask(
            partial(self._native.expect_approvals, expected=expected)
        )

    async def server_lines(self, name: str) -> tuple[str, ...]:
        """Return the last lines of a server's stderr, as
        `glyphoxa_trio.Runtime.server_lines` does."""
        return await self._do(lambda native: native.server_lines(name))

    async def session_status(self, most: int = 100) -> tuple[SessionOverview, ...]:
        """Return the state of sessions, as `glyphoxa_trio.Runtime.session_status`
        does."""
        return await self._do(lambda native: native.session_status(most))

    async def campaign_of(
        self, session: str = DEFAULT, *, tenant: str = ""
    ) -> CampaignKey:
        """Return the campaign of a session, as `glyphoxa_trio.Runtime.campaign_of`
        does."""
        return await self._do(lambda native: native.campaign_of(session, tenant=tenant))

    async def forget(
        self, player: str, *, tenant: str = "", campaign: str | None = None
    ) -> Forgotten:
        """Forget a player, as `glyphoxa_trio.Runtime.forget` does."""
        return await self._bridge.ask(
            partial(self._native.forget, player, tenant=tenant, campaign=campaign)
        )

    async def kept(self) -> None:
        """Return when every turn that has ended by now is written to memory, or lost.

        `TurnKept` events tell of each of them.
        """
        await self._bridge.ask(self._native.kept)

    async def add_context(
        self, provide: Provide, *, npc: str | None = None
    ) -> Callable[[], None]:
        """Call ``provide``, on the loop, in each turn for lines to add to its prompt.

        A provider that takes longer than ``turn.context_ms``, or fails, is left out of
        that turn, and the turn's `ContextAdded` event says so. A plain function must
        not block.

        Args:
          npc: only in turns of this NPC; None means all.

        Returns:
          A function that removes the provider, to be called on the loop.

        Raises:
          UnknownNpc: with the nearest names.
        """
        provided = context(provide)
        remove = await self._do(lambda native: native.add_context(provided, npc=npc))
        return lambda: self._bridge.post(remove)

    async def cost(self) -> CostStatistics:
        """Return tokens and costs of models since the start, by NPC and by model."""
        return await self._do(lambda native: native.cost)

    async def models(self) -> tuple[ModelStatistics, ...]:
        """Return statistics of ``llm`` and its fallbacks; empty without fallbacks."""
        return await self._do(lambda native: native.models)

    async def run(
        self,
        function: Callable[Concatenate[NativeRuntime, P], Awaitable[R]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Run a trio function with the runtime of trio's side, and return its result.

        For everything that has no method here. It raises the function's exceptions.
        """
        return await self._bridge.ask(partial(function, self._native, *args, **kwargs))

    async def register(self, *tools: Tool) -> None:
        """Add tools of your own, at any time; see `glyphoxa_trio.Runtime.register`.

        Raises:
          NameCollision: also for a group that has the name of a server.
        """
        await self._do(lambda native: native.register(*tools))

    async def deregister(self, name: str) -> tuple[str, ...]:
        """Remove a group of tools, or one tool by its key; return the keys removed."""
        return await self._do(lambda native: native.deregister(name))

    async def add_server(self, spec: ServerSpec) -> None:
        """Connect one more MCP server; its tools appear when it is ready.

        Raises:
          ServerPoolError: if a server of that name exists.
          ConfigError: if a group of built-in or own tools has that name.
        """
        await self._do(lambda native: native.add_server(spec))

    async def remove_server(self, name: str) -> None:
        """Disconnect a server; its tools are gone at once.

        Raises:
          ServerPoolError: if there is no server of that name.
        """
        await self.run(NativeRuntime.remove_server, name)

    async def servers(self) -> tuple[ServerStatus, ...]:
        """Return every server with its state, also those that are not ready."""
        return await self._do(NativeRuntime.servers)

    async def prompts(self, npc: str | None = None) -> tuple[ServerPrompt, ...]:
        """Return the prompts that servers offer: all, or those granted to an NPC.

        Raises:
          UnknownNpc: with the nearest names.
        """
        return await self._do(lambda runtime: runtime.prompts(npc))

    async def fill_prompt(
        self,
        npc: str,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        within: float = PROMPT_PATIENCE,
    ) -> FilledPrompt:
        """Return a prompt of a server with its arguments filled in, for an NPC.

        The server words it, so show it to the person in whose name it is said.

        Args:
          npc: the NPC whose ``prompts`` must grant it.
          name: the prompt's key, ``server.name``, or its name if only one has it.
          arguments: its arguments, all of them texts.
          within: seconds to wait at most.

        Raises:
          GlyphoxaError: as trio's `Runtime.fill_prompt`.
        """
        return await self.run(
            NativeRuntime.fill_prompt, npc, name, arguments, within=within
        )

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
          GlyphoxaError: as `fill_prompt`.
        """
        return await self.run(
            NativeRuntime.complete_prompt,
            npc,
            name,
            argument,
            beginning,
            given=given,
            within=within,
        )

    async def wait_ready(self, *, within: float, known: bool = False) -> bool:
        """Wait until every server is ready or has failed its first attempt.

        Args:
          within: seconds to wait at most.
          known: do not wait for a server whose tools are known from an earlier run.

        Returns:
          True if all of them are ready.
        """
        return await self.run(NativeRuntime.wait_ready, within=within, known=known)

    async def problems(self) -> list[Problem]:
        """Return the granted names that no tool matches, and the name collisions, as of
        now."""
        return await self._do(NativeRuntime.problems)

    async def unapproved(self) -> list[Unapproved]:
        """Return the tools that NPCs are granted but that are not approved now."""
        return await self._do(NativeRuntime.unapproved)

    async def usability(
        self, npc: str | None = None, *, granted: bool = True
    ) -> tuple[Usability, ...]:
        """Return which of its tools an NPC can use, as of now, and remedies for the
        others."""
        return await self._do(lambda runtime: runtime.usability(npc, granted=granted))

    async def advice(self) -> tuple[str, ...]:
        """Return a line for each NPC that cannot use any of its tools, or can never use
        some."""
        return await self._do(NativeRuntime.advice)

    async def reload(
        self, config: Config | None = None, *, now: bool = False
    ) -> Reloaded:
        """Switch to another configuration: the given one, or the source read again.

        With ``now`` it does not wait for a moment without turns. Cancelling the caller
        does not cancel the reload.

        Raises:
          ConfigError: if the configuration cannot serve. Nothing has changed.
          RuntimeClosed: if the runtime ends meanwhile.
        """
        return await self.run(NativeRuntime.reload, config, now=now)

    async def calibrate(
        self, *, within: float = CALIBRATION, unsafe: bool = False
    ) -> tuple[Probed, ...]:
        """Measure every tool that may be probed; see `ToolHost.calibrate`."""
        return await self.run(NativeRuntime.calibrate, within=within, unsafe=unsafe)

    async def _do(self, what: Callable[[NativeRuntime], R]) -> R:
        """Call a plain method on trio's side, where its state belongs."""

        async def do(native: NativeRuntime) -> R:
            return what(native)

        return await self.run(do)
