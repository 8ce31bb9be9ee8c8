"""`open_runtime`: the one place where the rooms are wired together.

Above 300 lines, because resources must be closed in the reverse order of opening, which
is read best in one place.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

import trio

from glyphoxa_trio.actors import (
    SharedTasks,
    SupervisionEvent,
    Topic,
    careful,
    lone_errors,
    tell,
)
from glyphoxa_trio.config import Approve, Config, ConfigError, LlmConfig
from glyphoxa_trio.config.secrecy import Masks
from glyphoxa_trio.errors import words
from glyphoxa_trio.host import Approvals, ToolHost, open_host
from glyphoxa_trio.mcp import (
    ServerPool,
    ServerStatus,
    ServerWarning,
    ToolApprovals,
    ToolCache,
    open_server_pool,
)
from glyphoxa_trio.npc import Approver, Costs, TurnEvent
from glyphoxa_trio.npc.activity import Activity
from glyphoxa_trio.npc.approval import APPROVAL_TIMEOUT
from glyphoxa_trio.npc.hot_context import HotContext
from glyphoxa_trio.npc.identity import SessionKey
from glyphoxa_trio.npc.turn.settings import Services
from glyphoxa_trio.providers.at_endpoint import AtEndpoint
from glyphoxa_trio.providers.foreign import Foreign
from glyphoxa_trio.providers.llm import LLM
from glyphoxa_trio.providers.s2s import S2S
from glyphoxa_trio.providers.speech import Recognizer, Synthesizer
from glyphoxa_trio.quiet import quiet
from glyphoxa_trio.tools.definition import Tool

from .assembly import history_of, settings_of, state_folder
from .collector import Collector, collecting
from .config_reload import ConfigReload, Reloaded
from .config_source import ConfigSource
from .environment import REAL, Environment
from .given import needs_trio, tools_given
from .grants import GrantProblem, approved_by, grants_of, refuse_faults
from .hooks import RuntimeStart
from .idle import idle_keys
from .idle_sessions import MemoryStore, SessionStore
from .loop_lag import OverloadEvent, name_stalls
from .loop_lag import watch as watch_lateness
from .models import Models
from .overload import Overload
from .periodic import Periodic
from .plans import plan, servers_of
from .prices import wrong_prices
from .publisher import Publisher
from .resources import open_lasting
from .runtime import Runtime
from .session_registry import SessionRegistry
from .voices import Voices, voices_of
from .warned import Warnings
from .watching import changes, files_of, look

if TYPE_CHECKING:
    from glyphoxa_trio.builtin.music import MusicEvent


@asynccontextmanager
async def open_runtime(
    config: Config | Path | str | Callable[[], Config],
    *,
    tools: Iterable[Tool] = (),
    llm: LLM | None = None,
    synthesizer: Synthesizer | None = None,
    recognizer: Recognizer | None = None,
    s2s: S2S | None = None,
    approver: Approver | None = None,
    approvals: bool = False,
    approval_timeout: float = APPROVAL_TIMEOUT,
    approve_servers: bool | Approve = False,
    wait_for_servers: float = 5.0,
    watch: bool | Sequence[Path] = False,
    reload_on: Iterable[signal.Signals] = (),
    on_warning: Callable[[ServerWarning], None] | None = None,
    on_reload: Callable[[Reloaded], None] | None = None,
    on_server_event: Callable[[ServerStatus | SupervisionEvent], None] | None = None,
    on_server_line: Callable[[str, str], None] | None = None,
    session_store: SessionStore | None = None,
    collector: Collector = "leave",
    environment: Environment = REAL,
) -> AsyncGenerator[Runtime]:
    """Run everything that a configuration describes, until the block is left.

        async def main() -> None:
            async with open_runtime("config/tavern.yaml", on_warning=print) as runtime:
                async with runtime.npc("Greymantle").say("Hello!") as turn:
                    async for event in turn:
                        if isinstance(event, Sentence):
                            print(event.text)

        trio.run(main)

    The block gives a `Runtime`: its NPCs, servers and tools work inside the block.
    Entering checks the configuration, starts its MCP servers and waits for them for
    ``wait_for_servers`` seconds at most; a server that fails or needs longer is a
    warning, and its tools appear when it is ready.

    Leaving the block interrupts every turn and ends every server process. It takes at
    most 2 seconds, also with servers that resist, and 2 more while a disk hangs. A tool
    handler that shields itself from cancellation can delay it for longer, since nothing
    in trio ends that.

    Args:
      config: a file; or a `Config`, such as `load_config` returns; or a function that
        returns one, which is called again, in a thread, at each `Runtime.reload`.
      tools: the embedder's own tools, registered before the NPCs' grants are checked.
      llm: the model of every NPC, instead of the configured ones.
      synthesizer, recognizer: the speech synthesizer and the speech recognizer of all
        NPCs, instead of the configured ones. The embedder closes them.
      s2s: the speech-to-speech model of NPCs with that engine, instead of the
        configured one.
      approver: asked about calls of external tools that are not trusted yet.
      approvals: True if the embedder listens for `ApprovalNeeded` events and answers
        them with `Npc.approve`, beside the approver or in place of it.
      approval_timeout: seconds for an answer of either kind; they count on no tool's
        latency limit. After them the answer is no.
      approve_servers: which servers of a ``.mcp.json`` may be started. False: only
        those that the configuration itself names. True: all. Or a function that is
        asked about each `SharedServer`; at a reload it is called in a thread.
      wait_for_servers: seconds to wait for servers that are starting and whose tools
        are not known from an earlier run.
      watch: True reloads when the configuration file, or the ``.mcp.json`` beside it,
        changes; a sequence of files reloads when one of those does. A configuration
        that cannot serve becomes a warning.
      reload_on: signals that reload, such as SIGHUP. Only in the main thread.
      on_warning: called with each warning. None of these callbacks may block; an
        exception of theirs goes to the log.
      on_reload: called after each reload that ``watch`` or ``reload_on`` caused.
      on_server_event: called with each change of a server's status, and with its
        starts, failures and restarts.
      on_server_line: called with a server's name and a line of its stderr,
        rate-limited.
      session_store: keeps the sessions that are set aside because more than
        `sessions.most` are open. None keeps up to 100,000 of them in this process.
      collector: the policy for Python's garbage collector, whose full collections delay
        deadlines. ``leave`` changes nothing. ``freeze`` exempts the objects that exist
        once the runtime is open. ``settle`` also runs full collections only while no
        turn runs. The latter two are for a program that is this runtime and little
        else, and are undone at the end.
      environment: replaces servers and handlers in a simulation.

    Raises:
      ConfigError: with every problem and its place; also for a grant that a server
        which is ready by then does not fulfil.
      NameCollision: two tools under one name.
      NotOnTrio: called from asyncio, which has `glyphoxa_trio.aio.open_runtime`.
    """
    needs_trio()
    own_tools = tools_given(tools)
    warnings = Warnings(on_warning)
    files = files_of(config, watch)
    seen = () if files is None else look(files)
    source = ConfigSource.of(config, approve_servers)
    source.open()
    source.tell(warnings.add)
    async with AsyncExitStack() as stack:
        stack.enter_context(lone_errors())
        keeper = stack.enter_context(collecting(collector))
        opening = _Opening(
            stack=stack,
            source=source,
            warnings=warnings,
            environment=environment,
            tools=own_tools,
            llm=llm,
            voices=(synthesizer, recognizer, s2s),
            approver=approver,
            approvals=approvals,
            approval_timeout=approval_timeout,
            session_store=MemoryStore() if session_store is None else session_store,
            on_server_event=careful(on_server_event),
            on_server_line=careful(on_server_line),
        )
        runtime, background = await opening.runtime()
        if wait_for_servers > 0:
            await runtime.wait_ready(within=wait_for_servers, known=True)
            grants = (x for x in runtime.problems() if isinstance(x, GrantProblem))
            if certain := [str(x) for x in grants if x.error]:
                raise ConfigError(*certain)
        runtime._settle()
        occasions: list[AsyncIterable[object]] = []
        if files is not None:
            occasions.append(changes(files, seen))
        if signals := tuple(reload_on):
            received = trio.open_signal_receiver(*signals)
            occasions.append(stack.enter_context(received))
        for each in occasions:
            background.start_soon(_reload_after, runtime, each, warnings, on_reload)
        keeper.wired()
        background.start_soon(keeper.tend, lambda: not runtime.turns_running)
        yield runtime


@attrs.frozen(eq=False, kw_only=True)
class _Opening:
    """The steps that open one runtime on ``stack``, from the bottom up.

    The resource opened last ends first. The other arguments are those of
    `open_runtime`.
    """

    stack: AsyncExitStack
    source: ConfigSource
    warnings: Warnings
    environment: Environment
    tools: Sequence[Tool]
    llm: LLM | None
    voices: tuple[Synthesizer | None, Recognizer | None, S2S | None]
    approver: Approver | None
    approvals: bool
    approval_timeout: float
    session_store: SessionStore
    on_server_event: Callable[[ServerStatus | SupervisionEvent], None] | None
    on_server_line: Callable[[str, str], None] | None

    async def runtime(self) -> tuple[Runtime, trio.Nursery]:
        """Open everything; return the runtime, with its servers starting, and its
        nursery.

        The nursery runs the background tasks.
        """
        stack, warnings, config = self.stack, self.warnings, self.source.current
        remembered = state_folder(config) if config.mcp.remember else None
        store = None
        if remembered is not None:
            store = ToolApprovals(remembered / "approvals", lambda: servers_of(config))
        host = await self._host(store)
        music: Topic[MusicEvent] = Topic()
        stack.callback(music.close)
        lasting = await stack.enter_async_context(
            open_lasting(
                config,
                prepare=self.environment.stand_in is None,
                tell=music.publish,
                warn=warnings.say,
            )
        )
        first = plan(config, config, lasting)
        host.register(*first.builtin, *self.tools)
        refuse_faults(config, host.snapshot, first.problems)  # no process runs yet
        for text in (*idle_keys(config), *wrong_prices(config)):
            warnings.say(text)
        events: Topic[TurnEvent] = Topic()
        stack.callback(events.close)  # after the last turn has told its end
        make_models, voices = await self._models_and_voices()
        models = make_models(config.llm)
        models.for_npc(None)
        stack.enter_context(quiet(Masks(lambda: self.source.current).text))
        run_id = self.environment.run or os.urandom(16).hex()
        self._tell_hooks(run_id, host, events)
        background = await self._background()
        publisher = Publisher(
            host, background, config.calibration.at_start, warnings.add
        )
        fleet = await self._fleet(publisher, remembered)
        if store is not None:
            store.follow(fleet.specs)  # with those that are added
            store.tell(warnings.add)
        context = HotContext(SharedTasks(background))
        overload = Overload(config.overload)
        overload_events: Topic[OverloadEvent] = Topic()
        stack.callback(overload_events.close)
        sessions = await stack.enter_async_context(trio.open_nursery())
        cast = SessionRegistry(
            nursery=sessions,
            config=config,
            models=models,
            voices=voices,
            overload=overload,
            approvals=self.approvals,
            run=run_id,
            store=self.session_store,
            left=partial(_leave, fleet, host),
            borrow=partial(
                Services,
                host=host,
                events=events,
                activity=Activity(overload),
                costs=Costs(config.cost, warnings.say),
                approver=self.approver,
                approval_timeout=self.approval_timeout,
                context=self.environment.hooks.context(context),
                synthesizer=voices.synthesizer,
                warn=warnings.say,
            ),
        )
        self._end_with(sessions, background)
        activity = cast.services.activity
        runtime = Runtime(
            host=host,
            events=events,
            overload_events=overload_events,
            music=music,
            run_id=run_id,
            source=self.source,
            warnings=warnings,
            approved=store,
            hooks=self.environment.hooks,
            context=context,
            fleet=fleet,
            publisher=publisher,
            cast=cast,
            generations=ConfigReload(
                host=host,
                fleet=fleet,
                activity=activity,
                nursery=background,
                serving=first,
            ),
            models=make_models,
            lasting=lasting,
            background=background,
            rehearsed=self.environment.stand_in is not None,
        )
        watching = partial(
            watch_lateness,
            overload,
            activity,
            events=overload_events,
            warn=warnings.add,
            on_late=host.disregard,
        )
        background.start_soon(watching)
        background.start_soon(name_stalls, host, warnings.add)
        if (every := config.calibration.every) is not None:
            background.start_soon(Periodic(host, activity, every).run)
        return runtime, background

    async def _host(self, store: ToolApprovals | None) -> ToolHost:
        """Open the tool host."""
        config, warnings = self.source.current, self.warnings

        def told(server: str, text: str) -> None:
            warnings.say(text, server=server)

        history = history_of(config, warnings.say)
        opening = open_host(
            settings=settings_of(config),
            naming=config.mcp.naming,
            stand_in=self.environment.stand_in,
            approvals=Approvals(approved=approved_by(config), store=store, warn=told),
            history=self.environment.hooks.history(history),
            hedging=config.hedging,
            granted=lambda: grants_of(self.source.current),
        )
        return await self.stack.enter_async_context(opening)

    async def _models_and_voices(
        self,
    ) -> tuple[Callable[[LlmConfig], Models], Voices]:
        """Return the function that makes a configuration's models, and the NPCs'
        voices."""
        warn = self.warnings.say
        # A separate stack: NPCs make models later, and use them until they end.
        links = await self.stack.enter_async_context(AsyncExitStack())
        loads = await self.stack.enter_async_context(trio.open_nursery())
        self.stack.callback(loads.cancel_scope.cancel, "the runtime ends")
        given, rehearsed = self.llm, self.environment.stand_in is not None
        if given is not None and not isinstance(given, AtEndpoint) and not rehearsed:
            given = Foreign(given, loads, warn)
        make = partial(
            Models,
            given,
            stack=links,
            loads=loads,
            heard=self.environment.hooks.model,
            warn=warn,
        )
        synthesizer, recognizer, s2s = self.voices
        voices = voices_of(
            self.source.current,
            synthesizer=synthesizer,
            recognizer=recognizer,
            s2s=s2s,
            heard=self.environment.hooks.speech,
            warn=warn,
            stack=links,
        )
        return make, voices

    def _tell_hooks(
        self, run_id: str, host: ToolHost, events: Topic[TurnEvent]
    ) -> None:
        """Tell the hooks that the servers are about to be started."""
        self.environment.hooks.began(
            RuntimeStart(
                run_id=run_id,
                config=self.source.current,
                host=host,
                events=events,
                approver=self.approvals or self.approver is not None,
                patience=self.approval_timeout,
            )
        )

    async def _background(self) -> trio.Nursery:
        """Open the nursery of background tasks.

        It is in a task of its own, so that cancelling it does not cancel resources that
        are opened later.
        """
        holder = await self.stack.enter_async_context(trio.open_nursery())
        nursery: trio.Nursery = await holder.start(_nursery)
        return nursery

    async def _fleet(self, publisher: Publisher, remembered: Path | None) -> ServerPool:
        """Open the pool of MCP servers, which starts them."""
        opening = open_server_pool(
            servers_of(self.source.current),
            publish=self.environment.hooks.publishing(publisher),
            warn=self.warnings.add,
            log=self.on_server_line,
            on_event=self.on_server_event,
            on_status=self.on_server_event,
            open_session=self.environment.open_session,
            rng=self.environment.rng,
            known=None if remembered is None else ToolCache(remembered / "catalogues"),
        )
        return await self.stack.enter_async_context(opening)

    def _end_with(self, *nurseries: trio.Nursery) -> None:
        """Have these nurseries cancelled when the block is left, after the hooks were
        told."""
        for nursery in reversed(nurseries):
            self.stack.callback(nursery.cancel_scope.cancel, "the runtime is closed")
        self.stack.push_async_callback(self.environment.hooks.leaving)


def _leave(fleet: ServerPool, host: ToolHost, session: SessionKey) -> None:
    """Release what servers and the host keep for a session that is not open."""
    fleet.leave(session.tenant, session.id)
    host.leave_session(session.tenant, session.id)


async def _nursery(task_status: trio.TaskStatus[trio.Nursery]) -> None:
    async with trio.open_nursery() as nursery:
        task_status.started(nursery)
        await trio.sleep_forever()


async def _reload_after(
    runtime: Runtime,
    occasions: AsyncIterable[object],
    warnings: Warnings,
    told: Callable[[Reloaded], None] | None,
) -> None:
    """Reload at each of the ``occasions``; a failed reload is a warning."""
    async with AsyncExitStack() as stack:
        if isinstance(occasions, AsyncGenerator):  # it may be cancelled in mid-step
            stack.push_async_callback(occasions.aclose)
        async for _ in occasions:
            try:
                done = await runtime.reload()
                if told is not None:
                    tell(told, done)
            except Exception as error:  # border: what reads it may be foreign code
                why = words(error) or type(error).__name__
                warnings.say(f"not reloaded, the old one goes on: {why}")
