"""`open_runtime`: the one place that wires the rooms.

async with open_runtime("config/tavern.yaml") as runtime:
    async with runtime.npc("Greymantle").say("What does blinded mean?") as turn:
        async for event in turn:
            ...
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Callable,
    Iterable,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import outcome

import trio

from glyphoxa_trio.actors import SupervisionEvent, Topic, lone_errors
from glyphoxa_trio.assembly import (
    Models,
    builtin_tools,
    settings_of,
    state_folder,
)
from glyphoxa_trio.cast import Cast
from glyphoxa_trio.cast import UnknownNpc as UnknownNpc
from glyphoxa_trio.cast import find_npc as find_npc
from glyphoxa_trio.config import (
    Config,
    ConfigError,
    LlmConfig,
    NpcConfig,
    ServerSpec,
    load_config,
)
from glyphoxa_trio.generations import Generations, Reloaded, servers_of
from glyphoxa_trio.grants import (
    GrantProblem,
    approved_by,
    check_grants,
    refuse_faults,
    shadowed_groups,
)
from glyphoxa_trio.host import Approvals, Probed, ToolHost, open_host
from glyphoxa_trio.mcp import (
    Approved,
    Fleet,
    Known,
    ServerState,
    ServerStatus,
    ServerWarning,
    open_fleet,
)
from glyphoxa_trio.npc import Approver, Npc, TurnEvent
from glyphoxa_trio.npc.approval import APPROVAL_TIMEOUT
from glyphoxa_trio.providers.llm import LLM
from glyphoxa_trio.publisher import CALIBRATION, Publisher, calibrate
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.naming import NameCollision
from glyphoxa_trio.watching import changes, files_of, look

_WARNINGS_KEPT: Final = 100
_OURS: Final = "configuration"  # whom a warning is of that is no server's


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
    _source: _Source
    _warn: Callable[[ServerWarning], None] = attrs.field(init=False)
    _fleet: Fleet = attrs.field(init=False)
    _cast: Cast = attrs.field(init=False)
    _generations: Generations = attrs.field(init=False)
    _models: Callable[[LlmConfig], Models] = attrs.field(init=False)
    _background: trio.Nursery = attrs.field(init=False)
    _reloading: trio.Lock = attrs.field(factory=trio.Lock, init=False)

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

            async def adopt() -> None:
                self.config = plan.config
                self.host.approvals.approved = approved_by(plan.config)
                self.host.review()
                await self._cast.adopt(plan.config, models)

            return await self._generations.carry_out(plan, adopt)

    async def calibrate(
        self, *, within: float = CALIBRATION, unsafe: bool = False
    ) -> tuple[Probed, ...]:
        """Measure every tool that may be probed; see `ToolHost.calibrate`."""
        return await self.host.calibrate(within=within, unsafe=unsafe)


@asynccontextmanager
async def open_runtime(
    config: Config | Path | str | Callable[[], Config],
    *,
    tools: Iterable[Tool] = (),
    llm: LLM | None = None,
    approver: Approver | None = None,
    approvals: bool = False,
    approval_timeout: float = APPROVAL_TIMEOUT,
    wait_for_servers: float = 5.0,
    watch: bool | Sequence[Path] = False,
    reload_on: Iterable[signal.Signals] = (),
    on_warning: Callable[[ServerWarning], None] | None = None,
    on_server_event: Callable[[ServerStatus | SupervisionEvent], None] | None = None,
    on_server_line: Callable[[str, str], None] | None = None,
) -> AsyncGenerator[Runtime]:
    """Everything a configuration describes, running, until the block is left.

    Leaving interrupts every turn, ends every server process, and takes at most 2
    seconds, also with servers that resist; a handler that shields itself can hold
    it up for longer, since nothing in trio ends that.

    Args:
      config: a file, or what `load_config` made of one, or whatever makes one,
        called in a thread at each `Runtime.reload`.
      tools: your own, registered before the NPCs' grants are checked.
      llm: the model for every NPC, instead of the configured one.
      approver: asked about external tools that nobody trusted yet (D13a).
      approvals: somebody listens for `ApprovalNeeded` and answers it with
        `Npc.approve`, beside the approver or in place of it.
      approval_timeout: seconds for either, on no tool's clock; then it is a no.
      wait_for_servers: seconds to wait for servers that are starting and whose
        tools are not known from an earlier run. Whatever is not there by then
        appears when it is ready.
      watch: reload when the file, or the ``.mcp.json`` beside it, changes; or when
        one of these files does. What cannot serve is a warning.
      reload_on: signals that reload, as SIGHUP does for many; in the main thread.
      on_warning: told of each warning; none of these may block.
      on_server_event: told of each change of a server's status, and of its lives,
        failures and restarts.
      on_server_line: told of a server's name and a line of its stderr,
        rate-limited.

    Raises:
      ConfigError: with every problem and its place; also for a grant that a
        server which is ready by then does not keep.
      NameCollision: two tools under one name.
    """
    warnings: deque[ServerWarning] = deque(maxlen=_WARNINGS_KEPT)

    def warn(warning: ServerWarning) -> None:
        warnings.append(warning)
        if on_warning is not None:
            on_warning(warning)

    files = files_of(config, watch)
    seen = () if files is None else look(files)
    source = _Source.of(config)
    chosen = source.read()
    source.tell(warn)
    own_tools = list(tools)
    specs: list[Callable[[], Iterable[ServerSpec]]] = [lambda: servers_of(chosen)]
    store = _approved(chosen, lambda: specs[-1]())
    async with AsyncExitStack() as stack:
        stack.enter_context(lone_errors())
        host = await stack.enter_async_context(
            open_host(
                settings=settings_of(chosen),
                naming=chosen.mcp.naming,
                approvals=Approvals(
                    approved=approved_by(chosen),
                    store=store,
                    warn=lambda name, text: warn(
                        ServerWarning(server=name or _OURS, text=text)
                    ),
                ),
            )
        )
        builtin, problems = builtin_tools(chosen)
        host.register(*builtin, *own_tools)
        refuse_faults(chosen, host.snapshot, problems)  # before any process is started
        events: Topic[TurnEvent] = Topic()
        stack.callback(events.close)  # after the last turn has told its end
        # A stack of its own: NPCs make models later, and use them until they end.
        links = await stack.enter_async_context(AsyncExitStack())
        make_models = partial(Models, llm, stack=links)
        models = make_models(chosen.llm)
        runtime = Runtime(chosen, host, events, models.for_npc(None), warnings, source)
        runtime._models = make_models
        runtime._warn = warn
        background = await stack.enter_async_context(trio.open_nursery())
        runtime._fleet = await stack.enter_async_context(
            open_fleet(
                servers_of(chosen),
                publish=Publisher(host, background, chosen.calibration.at_start, warn),
                warn=warn,
                log=on_server_line,
                on_event=on_server_event,
                on_status=on_server_event,
                known=_known(chosen),
            )
        )
        runtime._background = background
        specs.append(runtime._fleet.specs)  # those that are added come with it
        sessions = await stack.enter_async_context(trio.open_nursery())
        runtime._cast = Cast(
            nursery=sessions,
            config=chosen,
            host=host,
            models=models,
            events=events,
            approver=approver,
            approvals=approvals,
            approval_timeout=approval_timeout,
        )
        runtime._generations = Generations(
            host=host,
            fleet=runtime._fleet,
            activity=runtime._cast.activity,
            nursery=background,
            builtin=tuple(builtin),
        )
        try:
            if wait_for_servers > 0:
                await runtime.wait_ready(within=wait_for_servers, known=True)
                if certain := [str(x) for x in runtime.problems() if x.error]:
                    raise ConfigError(*certain)
            if chosen.calibration.at_start:
                background.start_soon(calibrate, host, _own_keys(host))
            if files is not None:
                changed = changes(files, seen)
                background.start_soon(_reload_after, runtime, changed, warn)
            if signals := tuple(reload_on):
                received = stack.enter_context(trio.open_signal_receiver(*signals))
                background.start_soon(_reload_after, runtime, received, warn)
            yield runtime
        finally:
            sessions.cancel_scope.cancel("the runtime is closed")
            background.cancel_scope.cancel("the runtime is closed")


@attrs.define(eq=False)
class _Source:
    """Where the configuration comes from, again and again; reading may be in a
    thread, telling what was odd is not."""

    read: Callable[[], Config]
    _again: bool = True
    _said: list[str] = attrs.field(factory=list)

    @classmethod
    def of(cls, config: Config | Path | str | Callable[[], Config]) -> _Source:
        if isinstance(config, Config):
            return cls(lambda: config, again=False)
        if isinstance(config, str | Path):
            said: list[str] = []
            return cls(partial(load_config, Path(config), warn=said.append), said=said)
        return cls(config)

    def read_again(self) -> Config:
        if not self._again:
            raise ConfigError("there is no file to read again: give a Config")
        return self.read()

    def tell(self, warn: Callable[[ServerWarning], None]) -> None:
        while self._said:
            warn(ServerWarning(server=_OURS, text=self._said.pop(0)))


async def _reload_after(
    runtime: Runtime,
    occasions: AsyncIterable[object],
    warn: Callable[[ServerWarning], None],
) -> None:
    async for _ in occasions:
        try:
            await runtime.reload()
        except ConfigError as error:
            text = f"not reloaded, the old one goes on: {error}"
            warn(ServerWarning(server=_OURS, text=text))


def _approved(
    config: Config, servers: Callable[[], Iterable[ServerSpec]]
) -> Approved | None:
    """Where it is kept which tools were approved as what."""
    if not config.mcp.remember:
        return None
    return Approved(state_folder(config) / "approvals", servers)


def _known(config: Config) -> Known | None:
    """Where servers' tools are kept from run to run, unless that is switched off."""
    if not config.mcp.remember:
        return None
    return Known(state_folder(config) / "catalogues")


def _own_keys(host: ToolHost) -> list[str]:
    """The tools that are no server's: those are calibrated when they are ready."""
    return [x.key for x in host.snapshot.listings if not x.definition.external]
