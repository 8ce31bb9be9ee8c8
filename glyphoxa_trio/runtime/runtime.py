"""A runtime, as an embedder holds it: NPCs, their tools and servers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

import attrs
import outcome

import trio

from glyphoxa_trio.actors import Topic
from glyphoxa_trio.config import Config, ConfigError, LlmConfig, NpcConfig, ServerSpec
from glyphoxa_trio.host import Probed, ToolHost
from glyphoxa_trio.mcp import Approved, Fleet, ServerState, ServerStatus, ServerWarning
from glyphoxa_trio.npc import Npc, TurnEvent
from glyphoxa_trio.providers.llm import LLM
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.naming import NameCollision

from .assembly import Models
from .cast import Cast
from .generations import Generations, Reloaded
from .grants import GrantProblem, approved_by, check_grants, shadowed_groups
from .publisher import CALIBRATION
from .source import OURS, Source


@attrs.define(eq=False)
class Runtime:
    """NPCs, their tools and servers, for as long as `open_runtime`'s block lasts.

    ``events`` has every event of every turn, ``warnings`` what an operator should
    see, newest last; ``on_warning`` is told of each.
    """

    config: Config
    host: ToolHost
    events: Topic[TurnEvent]
    llm: LLM
    warnings: deque[ServerWarning]
    _source: Source
    _warn: Callable[[ServerWarning], None] = attrs.field(init=False)
    _approved: Approved | None = attrs.field(init=False)
    _fleet: Fleet = attrs.field(init=False)
    _cast: Cast = attrs.field(init=False)
    _generations: Generations = attrs.field(init=False)
    _models: Callable[[LlmConfig], Models] = attrs.field(init=False)
    _background: trio.Nursery = attrs.field(init=False)
    _reloading: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    @property
    def turns_running(self) -> int:
        """How many NPCs are in a turn now."""
        return self._cast.activity.running

    @property
    def npcs(self) -> tuple[NpcConfig, ...]:
        return self.config.npcs

    def npc(self, name: str) -> Npc:
        """The NPC of that name; the beginning of a name is enough if it is unique.

        Raises:
          UnknownNpc: with the nearest names.
        """
        return self._cast.npc(name)

    def register(self, *tools: Tool) -> None:
        """Add tools of your own, at any time.

        Raises:
          NameCollision: also for a group that has the name of a server, whose
            next list of tools would replace it. Else as `ToolHost.register`.
        """
        servers = {row.name for row in self.servers()}
        for tool in tools:
            if tool.definition.group in servers:
                raise NameCollision(
                    f"{tool.key}: {tool.definition.group!r} is a server's name"
                )
        self.host.register(*tools)

    def deregister(self, name: str) -> tuple[str, ...]:
        """Remove a group of tools, or one by its key; returns what went."""
        return self.host.deregister(name)

    def add_server(self, spec: ServerSpec) -> None:
        """Connect one more MCP server (G42, N21); its tools appear when it is ready.

        Raises:
          FleetError: if there is one of that name.
          ConfigError: if a group of built-in or own tools has that name.
        """
        if problems := shadowed_groups([spec], self.host.snapshot):
            raise ConfigError(*problems)
        self._fleet.add(spec)

    async def remove_server(self, name: str) -> None:
        """Disconnect a server; its tools are gone at once.

        Raises:
          FleetError: if there is none of that name.
        """
        if any(row.name == name for row in self.servers()):
            self.host.deregister(name)  # its process takes longer to end
        await self._fleet.remove(name)

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

    def problems(self) -> list[GrantProblem]:
        """What NPCs are granted and nobody offers, as of now."""
        listed = {x.definition.group for x in self.host.snapshot.listings}
        there = {
            row.name
            for row in self.servers()
            # One whose tools were left out has had its warning.
            if row.state is ServerState.READY and (row.name in listed or not row.tools)
        }
        absent = [spec for spec in self.config.mcp.servers if spec.name not in there]
        return check_grants(self.config, self.host.snapshot, absent=absent)

    async def reload(self, config: Config | None = None) -> Reloaded:
        """Go over to another configuration; the file, read again, if none is given.

        NPCs keep their conversations, unchanged servers their processes. What is
        taken away is gone at once. The switch waits for turns that run, at most a
        minute. Cancelled, it is done all the same.

        Raises:
          ConfigError: if it cannot serve. The old one goes on; nothing has changed.
        """
        end = trio.Event()
        result: list[outcome.Maybe[Reloaded]] = []

        async def carry_out() -> None:
            result.append(await outcome.acapture(self._reload, config))
            end.set()

        self._background.start_soon(carry_out)
        await end.wait()
        return result[0].unwrap()

    async def _reload(self, config: Config | None) -> Reloaded:
        async with self._reloading:
            if config is None:
                config = await trio.to_thread.run_sync(self._source.read_again)
                self._source.tell(self._warn)
            plan = self._generations.plan(self.config, config)
            models = self._cast.models
            if plan.config.llm != self.config.llm:
                models = self._models(plan.config.llm)
            self.llm = models.for_npc(None)

            await self._recall((*plan.added, *plan.changed))

            async def adopt() -> None:
                self.config = plan.config
                self.host.approvals.approved = approved_by(plan.config)
                self.host.review()
                await self._cast.adopt(plan.config, models)

            return await self._generations.carry_out(plan, adopt)

    async def _recall(self, servers: Iterable[ServerSpec]) -> None:
        """What was approved in earlier runs of servers that are new in this one."""
        if self._approved is None:
            return
        try:
            found = await trio.to_thread.run_sync(self._approved.load_of, servers)
        except (OSError, ValueError) as error:
            text = f"what was approved in earlier runs is lost: {error}"
            self._warn(ServerWarning(server=OURS, text=text))
        else:
            known = self.host.approvals.remembered
            self.host.approvals.recall(
                {key: value for key, value in found.items() if key not in known}
            )

    async def calibrate(
        self, *, within: float = CALIBRATION, unsafe: bool = False
    ) -> tuple[Probed, ...]:
        """Measure every tool that may be probed; see `ToolHost.calibrate`."""
        return await self.host.calibrate(within=within, unsafe=unsafe)
