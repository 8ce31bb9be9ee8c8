"""`open_runtime`: the one place that wires the rooms.

async with open_runtime("config/tavern.yaml") as runtime:
    async with runtime.npc("Greymantle").say("What does blinded mean?") as turn:
        async for event in turn:
            ...
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.actors import Backoff, Ref, Topic, lone_errors, spawn
from glyphoxa_trio.assembly import Models, builtin_tools, rules_of, settings_of
from glyphoxa_trio.config import (
    Config,
    ConfigError,
    NpcConfig,
    ServerSpec,
    load_config,
)
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.grants import (
    GrantProblem,
    check_grants,
    grant_of,
    refuse_faults,
    shadowed_groups,
)
from glyphoxa_trio.host import Probed, ToolHost, open_host
from glyphoxa_trio.mcp import (
    Fleet,
    ServerState,
    ServerStatus,
    ServerWarning,
    open_fleet,
)
from glyphoxa_trio.npc import Approver, Npc, NpcSession, TurnEvent
from glyphoxa_trio.npc.selector import Selector
from glyphoxa_trio.providers.llm import LLM
from glyphoxa_trio.publisher import CALIBRATION, Publisher, calibrate
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.naming import NameCollision, nearest

_WARNINGS_KEPT: Final = 100


class UnknownNpc(GlyphoxaError):
    """No NPC of that name; the message has the nearest ones."""


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
    _fleet: Fleet = attrs.field(init=False)
    _open_npc: Callable[[NpcConfig], Npc] = attrs.field(init=False)
    _npcs: dict[str, Npc] = attrs.field(factory=dict, init=False)

    @property
    def npcs(self) -> tuple[NpcConfig, ...]:
        return self.config.npcs

    def npc(self, name: str) -> Npc:
        """The NPC of that name; the beginning of a name is enough if it is unique.

        Raises:
          UnknownNpc: with the nearest names.
        """
        config = find_npc(self.config, name)
        npc = self._npcs.get(config.name)
        if npc is None:
            npc = self._npcs[config.name] = self._open_npc(config)
        return npc

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

    async def wait_ready(self, *, within: float) -> bool:
        """Wait until every server is ready or has failed its first attempt.

        Returns whether all of them are ready.
        """
        return await self._fleet.wait_ready(within)

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

    async def calibrate(
        self, *, within: float = CALIBRATION, unsafe: bool = False
    ) -> tuple[Probed, ...]:
        """Measure every tool that may be probed; see `ToolHost.calibrate`."""
        return await self.host.calibrate(within=within, unsafe=unsafe)


def find_npc(config: Config, name: str) -> NpcConfig:
    """The NPC of that name; the beginning of a name is enough if it is unique.

    Raises:
      UnknownNpc: with the nearest names.
    """
    wanted = name.casefold().strip()
    names = {npc.name.casefold(): npc for npc in config.npcs}
    if wanted in names:
        return names[wanted]
    begun = [npc for full, npc in names.items() if full.startswith(wanted)]
    if wanted and len(begun) == 1:
        return begun[0]
    known = [npc.name for npc in config.npcs]
    near = [npc.name for npc in begun] or nearest(name, known) or known
    raise UnknownNpc(f"no NPC {name!r}, there is {', '.join(near) or 'none'}")


@asynccontextmanager
async def open_runtime(
    config: Config | Path | str,
    *,
    tools: Iterable[Tool] = (),
    llm: LLM | None = None,
    approver: Approver | None = None,
    wait_for_servers: float = 5.0,
    on_warning: Callable[[ServerWarning], None] | None = None,
) -> AsyncGenerator[Runtime]:
    """Everything a configuration describes, running, until the block is left.

    Leaving interrupts every turn, ends every server process, and takes at most 2
    seconds, 5 with servers that resist; a handler that shields itself can hold it
    up for longer, since nothing in trio ends that.

    Args:
      config: a file, or what `load_config` made of one.
      tools: your own, registered before the NPCs' grants are checked.
      llm: the model for every NPC, instead of the configured one.
      approver: asked about external tools that nobody trusted yet (D13a).
      wait_for_servers: seconds to wait for servers that are starting. Whatever
        is not there by then appears when it is ready.
      on_warning: told of each warning; must not block.

    Raises:
      ConfigError: with every problem and its place; also for a grant that a
        server which is ready by then does not keep.
      NameCollision: two tools under one name.
    """
    chosen = config if isinstance(config, Config) else load_config(Path(config))
    own_tools = list(tools)
    async with AsyncExitStack() as stack:
        stack.enter_context(lone_errors())
        host = await stack.enter_async_context(
            open_host(settings=settings_of(chosen), naming=chosen.mcp.naming)
        )
        builtin, problems = builtin_tools(chosen)
        host.register(*builtin, *own_tools)
        refuse_faults(chosen, host.snapshot, problems)  # before any process is started
        events: Topic[TurnEvent] = Topic()
        stack.callback(events.close)  # after the last turn has told its end
        warnings: deque[ServerWarning] = deque(maxlen=_WARNINGS_KEPT)
        # A stack of its own: NPCs make models later, and use them until they end.
        links = await stack.enter_async_context(AsyncExitStack())
        models = Models(llm, chosen.llm, links)
        runtime = Runtime(chosen, host, events, models.for_npc(None), warnings)

        def warn(warning: ServerWarning) -> None:
            warnings.append(warning)
            if on_warning is not None:
                on_warning(warning)

        background = await stack.enter_async_context(trio.open_nursery())
        runtime._fleet = await stack.enter_async_context(
            open_fleet(
                chosen.mcp.servers if chosen.mcp.enabled else (),
                publish=Publisher(host, background, chosen, warn),
                warn=warn,
            )
        )
        sessions = await stack.enter_async_context(trio.open_nursery())
        selector: Ref[Any] = spawn(
            sessions,
            Selector(rules_of(chosen)).run,
            name="selector",
            capacity=1024,
            restart=Backoff(first=0.05, ceiling=5.0),
        )
        runtime._open_npc = partial(
            _open_npc, runtime, models, sessions, selector, approver
        )
        try:
            if wait_for_servers > 0:
                await runtime.wait_ready(within=wait_for_servers)
                if certain := [str(x) for x in runtime.problems() if x.error]:
                    raise ConfigError(*certain)
            if chosen.calibration.at_start:
                background.start_soon(calibrate, host, _own_keys(host))
            yield runtime
        finally:
            sessions.cancel_scope.cancel("the runtime is closed")
            background.cancel_scope.cancel("the runtime is closed")


def _open_npc(
    runtime: Runtime,
    models: Models,
    nursery: trio.Nursery,
    selector: Ref[Any],
    approver: Approver | None,
    npc: NpcConfig,
) -> Npc:
    grant = grant_of(npc, runtime.config, approver=approver is not None)
    session = NpcSession(
        npc=npc,
        config=runtime.config.turn,
        grant=grant,
        llm=models.for_npc(npc.model),
        host=runtime.host,
        selector=selector,
        events=runtime.events,
        approver=approver,
    )
    return Npc(npc, grant, spawn(nursery, session.run, name=f"npc {npc.name}"))


def _own_keys(host: ToolHost) -> list[str]:
    """The tools that are no server's: those are calibrated when they are ready."""
    return [x.key for x in host.snapshot.listings if not x.definition.external]
