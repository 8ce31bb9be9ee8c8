"""A runtime, as an asyncio program holds it."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

import attrs

from glyphoxa_trio.config import Config, NpcConfig, ServerSpec
from glyphoxa_trio.host import Probed
from glyphoxa_trio.mcp import ServerStatus, ServerWarning
from glyphoxa_trio.npc import CostStatistics, Provide, TurnEvent
from glyphoxa_trio.npc.arguments import check_session
from glyphoxa_trio.npc.identity import DEFAULT, SessionKey
from glyphoxa_trio.providers.chain import ModelStatistics
from glyphoxa_trio.runtime import (
    OverloadEvent,
    Reloaded,
    RuntimeClosed,
    SessionSnapshot,
    find_npc,
)
from glyphoxa_trio.runtime import Runtime as NativeRuntime
from glyphoxa_trio.runtime.grants import Problem, Unapproved
from glyphoxa_trio.runtime.publisher import CALIBRATION
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
    """NPCs, their tools and servers, for as long as `open_runtime`'s block lasts.

    What belongs to trio's side is awaited here, also where it is a plain method
    there. Cancelling any of it cancels the work in trio and waits for its end; after
    the block everything raises `RuntimeClosed`.
    """

    events: Topic[TurnEvent]
    overload_events: Topic[OverloadEvent]
    music: Topic[MusicEvent]
    warnings: deque[ServerWarning]
    _bridge: LoopBridge
    _native: NativeRuntime

    @property
    def config(self) -> Config:
        """What it runs on now."""
        return self._native.config

    @property
    def npcs(self) -> tuple[NpcConfig, ...]:
        return self._native.npcs

    @property
    def run_id(self) -> str:
        """Tells this run from others."""
        return self._native.run_id

    @property
    def set_aside(self) -> int:
        """How many sessions are set aside, until somebody speaks to them."""
        return self._native.set_aside

    @property
    def turns_running(self) -> int:
        """How many NPCs are in a turn now."""
        return self._native.turns_running

    def unready(self) -> tuple[Unready, ...]:
        """Return what is not fit for people who play: see the native runtime."""
        return self._native.unready()

    def npc(self, name: str) -> Npc:
        """The NPC of that name; the beginning of a name is enough if it is unique.

        Raises:
          UnknownNpc: with the nearest names.
          RuntimeClosed: if the runtime has ended.
        """
        if self._bridge.closed:
            raise RuntimeClosed("it is closed")
        config = find_npc(self._native.config, name)
        return Npc(config, self._bridge, partial(self._native.npc, config.name))

    def scene(self, *npcs: str) -> Scene:
        """Several NPCs in one place: all, or the named ones. The same scene each time.

        Raises:
          UnknownNpc: with the nearest names.
          RuntimeClosed: if the runtime has ended.
        """
        names = frozenset(self.npc(name).name for name in npcs)
        return Scene(self._bridge, names, partial(self._native.scene, *names))

    def session(
        self,
        id: str = DEFAULT,  # noqa: A002 - as natively
        *,
        tenant: str | None = None,
        variables: Mapping[str, object] | None = None,
        restore: SessionSnapshot | bytes | None = None,
    ) -> Session:
        """The session of that id: one table, or one phone call, over the same
        characters as all others. It begins with the first thing that is done in it, if
        there is none; that raises what it raises natively: `SnapshotRefused` for what
        cannot be restored, and ValueError if it is there and ``variables`` are not what
        it has.

        Args:
          tenant: whose it is, where several share this runtime.
          variables: for templates of prompts and greetings, such as ``caller_name``.
          restore: go on where that one was, of this id or another.

        Raises:
          RuntimeClosed: if the runtime has ended.
        """
        if self._bridge.closed:
            raise RuntimeClosed("it is closed")
        check_session(id, tenant)
        key = SessionKey(id, tenant or "")
        return Session(self._bridge, LazySession(self._native, key, variables, restore))

    async def sessions(self) -> tuple[SessionKey, ...]:
        """Those that have begun, have not ended, and are not set aside."""
        return await self._do(lambda native: native.sessions)

    async def add_context(
        self, provide: Provide, *, npc: str | None = None
    ) -> Callable[[], None]:
        """Ask ``provide``, on the loop, in each turn for lines to add to its prompt.

        Whoever takes longer than ``turn.context_ms``, or fails, is left out of that
        turn, and its `ContextAdded` says so. A plain function must not block.

        Args:
          npc: in turns of this one only; None is all of them.

        Returns what ends it, to be called on the loop.

        Raises:
          UnknownNpc: with the nearest names.
        """
        provided = context(provide)
        remove = await self._do(lambda native: native.add_context(provided, npc=npc))
        return lambda: self._bridge.post(remove)

    async def cost(self) -> CostStatistics:
        """What models took and cost since it was opened, by NPC and by model."""
        return await self._do(lambda native: native.cost)

    async def models(self) -> tuple[ModelStatistics, ...]:
        """How the models of ``llm`` and ``llm.fallbacks`` do; none without those."""
        return await self._do(lambda native: native.models)

    async def run(
        self,
        function: Callable[Concatenate[NativeRuntime, P], Awaitable[R]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Run a trio function with the runtime of trio's side, for all that has no
        method here; returns what it returns, raises what it raises."""
        return await self._bridge.ask(partial(function, self._native, *args, **kwargs))

    async def register(self, *tools: Tool) -> None:
        """Add tools of your own, at any time; see `glyphoxa_trio.Runtime.register`.

        Raises:
          NameCollision: also for a group that has the name of a server.
        """
        await self._do(lambda native: native.register(*tools))

    async def deregister(self, name: str) -> tuple[str, ...]:
        """Remove a group of tools, or one by its key; returns what went."""
        return await self._do(lambda native: native.deregister(name))

    async def add_server(self, spec: ServerSpec) -> None:
        """Connect one more MCP server; its tools appear when it is ready.

        Raises:
          FleetError: if there is one of that name.
          ConfigError: if a group of built-in or own tools has that name.
        """
        await self._do(lambda native: native.add_server(spec))

    async def remove_server(self, name: str) -> None:
        """Disconnect a server; its tools are gone at once.

        Raises:
          FleetError: if there is none of that name.
        """
        await self.run(NativeRuntime.remove_server, name)

    async def servers(self) -> tuple[ServerStatus, ...]:
        """Every server with its state, also the ones that are absent."""
        return await self._do(NativeRuntime.servers)

    async def wait_ready(self, *, within: float, known: bool = False) -> bool:
        """Wait until every server is ready or has failed its first attempt.

        Args:
          known: do not wait for a server whose tools are known from an earlier run.

        Returns whether all of them are ready.
        """
        return await self.run(NativeRuntime.wait_ready, within=within, known=known)

    async def problems(self) -> list[Problem]:
        """Granted names that no tool answers to, and tools left out because of their
        names, as of now."""
        return await self._do(NativeRuntime.problems)

    async def unapproved(self) -> list[Unapproved]:
        """The tools that NPCs are granted and that nobody has approved, as of now."""
        return await self._do(NativeRuntime.unapproved)

    async def usability(
        self, npc: str | None = None, *, granted: bool = True
    ) -> tuple[Usability, ...]:
        """Which of its tools an NPC can use, as of now, and how to change the rest."""
        return await self._do(lambda runtime: runtime.usability(npc, granted=granted))

    async def advice(self) -> tuple[str, ...]:
        """A line for each NPC that cannot use any of its tools, or can never use
        some."""
        return await self._do(NativeRuntime.advice)

    async def reload(self, config: Config | None = None) -> Reloaded:
        """Go over to another configuration; the file, read again, if none is given.

        Cancelled, it is done all the same.

        Raises:
          ConfigError: if it cannot serve. The old one goes on; nothing has changed.
          RuntimeClosed: if the runtime ends meanwhile.
        """
        return await self.run(NativeRuntime.reload, config)

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
