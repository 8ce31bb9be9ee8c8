"""The one place that wires the rooms: what `open_runtime` opens and runs."""

from __future__ import annotations

import os
import signal
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Iterable,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

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
from glyphoxa_trio.config import Approve, Config, ConfigError, LlmConfig, NpcConfig
from glyphoxa_trio.config.memory import OFF
from glyphoxa_trio.config.secrecy import Masks
from glyphoxa_trio.config.servers import Sharing
from glyphoxa_trio.config.state import NO_STATE, state_folder
from glyphoxa_trio.host import Approvals, ToolHost, open_host
from glyphoxa_trio.loading import load
from glyphoxa_trio.mcp import (
    ServerPool,
    ServerStatus,
    ServerWarning,
    ToolApprovals,
    ToolCache,
    open_server_pool,
)
from glyphoxa_trio.mcp.questions import Answers
from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.npc import Approver, Costs, TurnEvent
from glyphoxa_trio.npc.activity import Activity
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
from glyphoxa_trio.tools.naming import NamingStyle

from .assembly import history_of, settings_of
from .collector import Collector, collecting
from .config_reload import ConfigReload, Reloaded
from .config_source import ConfigSource
from .environment import REAL, Environment
from .given import tools_given
from .grants import (
    GrantProblem,
    approved_by,
    grants_of,
    may_be_of,
    refuse_faults,
    unlisted_grants,
)
from .hooks import RuntimeStart
from .idle_sessions import MemoryStore, SessionStore
from .loop_lag import OverloadEvent, name_stalls
from .loop_lag import watch as watch_lateness
from .models import Models
from .overload import Overload
from .periodic import Periodic
from .plans import plan, servers_of
from .prices import wrong_prices
from .publisher import Publisher
from .questions import ServerQuestions
from .remembering import RuntimeMemory, open_remembering
from .resources import open_lasting
from .runtime import Runtime
from .session_registry import SessionRegistry
from .unused_keys import idle_keys
from .voices import Voices, voices_of
from .warned import Warnings
from .watching import changes, files_of, look

if TYPE_CHECKING:
    from glyphoxa_trio.builtin.music import MusicEvent


@attrs.frozen(eq=False, kw_only=True)
class Wiring:
    """The arguments of `open_runtime`, and what makes a runtime of them."""

    config: Config | Path | str | Callable[[], Config]
    tools: Iterable[Tool]
    llm: LLM | None
    synthesizer: Synthesizer | None
    recognizer: Recognizer | None
    s2s: S2S | None
    approver: Approver | None
    approvals: bool
    approval_timeout: float
    answers: Answers | None
    approve_servers: bool | Approve | None
    wait_for_servers: float
    watch: bool | Sequence[Path]
    reload_on: Iterable[signal.Signals]
    on_warning: Callable[[ServerWarning], None] | None
    on_reload: Callable[[Reloaded], None] | None
    on_server_event: Callable[[ServerStatus | SupervisionEvent], None] | None
    on_server_line: Callable[[str, str], None] | None
    session_store: SessionStore | None
    memory: Memory | Path | str | None
    collector: Collector
    environment: Environment | None

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Runtime]:
        """Run until the block is left. Raises the errors of `open_runtime`."""
        own_tools = tools_given(self.tools)
        warnings = Warnings(self.on_warning)
        files = files_of(self.config, self.watch)
        seen = () if files is None else look(files)
        source = ConfigSource.of(self.config, self.approve_servers)
        source.open()
        source.tell(warnings.add)
        async with AsyncExitStack() as stack:
            stack.enter_context(lone_errors())
            keeper = stack.enter_context(collecting(self.collector))
            store = self.session_store
            if store is not None and self.memory not in (None, OFF):
                raise ValueError("give open_runtime a session_store or a memory")
            opening = _Opening(
                stack=stack,
                source=source,
                warnings=warnings,
                environment=REAL if self.environment is None else self.environment,
                tools=own_tools,
                llm=self.llm,
                voices=(self.synthesizer, self.recognizer, self.s2s),
                approver=self.approver,
                approvals=self.approvals,
                approval_timeout=self.approval_timeout,
                answers=self.answers,
                session_store=MemoryStore() if store is None else store,
                memory=self.memory,
                on_server_event=careful(self.on_server_event),
                on_server_line=careful(self.on_server_line),
            )
            runtime, background = await opening.runtime()
            if self.wait_for_servers > 0:
                await runtime.wait_ready(within=self.wait_for_servers, known=True)
                grants = (x for x in runtime.problems() if isinstance(x, GrantProblem))
                if certain := [str(x) for x in grants if x.error]:
                    raise ConfigError(*certain)
            runtime._settle()
            reload = partial(_reload_after, runtime, self.on_reload)
            if files is not None:
                background.start_soon(reload, changes(files, seen))
            if signals := tuple(self.reload_on):
                await background.start(_on_signals, signals, reload)
            keeper.wired()
            background.start_soon(keeper.tend, lambda: not runtime.turns_running)
            yield runtime


@attrs.frozen(eq=False, kw_only=True)
class _Opening:
    """Open one runtime on ``stack``, from the bottom up: the last part opened is closed
    first. The other fields are arguments of `open_runtime`."""

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
    answers: Answers | None
    session_store: SessionStore
    memory: Memory | Path | str | None
    on_server_event: Callable[[ServerStatus | SupervisionEvent], None] | None
    on_server_line: Callable[[str, str], None] | None

    async def runtime(self) -> tuple[Runtime, trio.Nursery]:
        """Return the runtime, its servers starting, and its background nursery."""
        stack, warnings, config = self.stack, self.warnings, self.source.current
        remembered = state_folder(config) if config.mcp.remember else None
        if config.mcp.remember and remembered is None:
            warnings.say(
                "nothing is remembered for the next run (tools, approvals,"
                f" measurements): {NO_STATE} @ mcp.remember"
            )
        store = None
        if remembered is not None:
            store = ToolApprovals(remembered / "approvals", lambda: servers_of(config))
        host = await self._host(store)
        events: Topic[TurnEvent] = Topic()
        stack.callback(events.close)  # after the last turn has told its end
        run_id = self.environment.run or os.urandom(16).hex()
        remembering = await self._remembering(run_id, events)
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
        if remembering is not None:
            lasting = (*lasting, *remembering.tools())
        first = plan(config, config, lasting)
        host.register(*first.builtin, *self.tools)
        refuse_faults(config, host.snapshot, first.problems)  # no process runs yet
        for text in (*idle_keys(config), *wrong_prices(config)):
            warnings.say(text)
        make_models, voices = await self._models_and_voices()
        models = make_models(config.llm)
        models.for_npc(None)
        stack.enter_context(quiet(Masks(lambda: self.source.current).text))
        self._tell_hooks(run_id, host, events)
        background = await self._background()
        publisher = Publisher(
            host, background, config.calibration.at_start, warnings.add
        )
        fleet = await self._fleet(publisher, remembered, host)
        if store is not None:
            store.follow(fleet.specs)  # with those that are added
            store.tell(warnings.add)
        context = HotContext(SharedTasks(background))
        overload = Overload(config.overload)
        overload_events: Topic[OverloadEvent] = Topic()
        stack.callback(overload_events.close)
        keeper = None
        if remembering is not None:
            keeper = remembering.keeper
            await remembering.begin(background)
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
            entered=partial(_enter, fleet, config.mcp.naming),
            left=partial(_leave, fleet, host),
            remembering=remembering,
            hooks=self.environment.hooks,
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
                log=keeper,
                **({} if remembering is None else remembering.services),
            ),
        )
        if remembering is not None:
            remembering.keeper.snapshots_by(cast.snapshot_of)
            background.start_soon(cast.tend)
            self._serve(remembering, background, context, cast)
        self._end_with(sessions, background)
        activity = cast.services.activity
        host.quiet = activity.quiet
        host.unlisted = lambda npc: unlisted_grants(
            npc, cast.config, fleet.specs(), publisher.states, host.snapshot
        )
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

    async def _remembering(
        self, run_id: str, events: Topic[TurnEvent]
    ) -> RuntimeMemory | None:
        """Open the memory, which lasts until the last session has ended."""
        if self.environment.open_session is not REAL.open_session:  # a rehearsal
            return None
        opening = open_remembering(
            self.memory,
            lambda: self.source.current,
            source=self.source.path,
            run=run_id,
            events=events,
            warn=self.warnings.say,
            recorded=self.environment.stand_in is not None,
        )
        return await self.stack.enter_async_context(opening)

    def _serve(
        self,
        remembering: RuntimeMemory,
        background: trio.Nursery,
        context: HotContext,
        cast: SessionRegistry,
    ) -> None:
        async def forget(tenant: str, player: str, campaign: str | None) -> None:
            await cast.end_those_with(player, tenant, campaign)
            await remembering.forget(tenant, player, campaign, again=True)

        background.start_soon(remembering.elsewhere.run, cast.players, forget)
        services, name = cast.services, self.source.current.memory.model
        stand_in = cast.models.is_stand_in(name)
        remembering.serve(
            background,
            context,
            model=None if stand_in else cast.models.for_npc(name),
            costs=services.costs,
            events=services.events,
            busy=lambda: services.activity.running > 0,
            crowded=lambda: cast.models.crowded,
            warn=services.warn,
        )

    async def _host(self, store: ToolApprovals | None) -> ToolHost:
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
        """Return the function that makes a configuration's models, and the voices."""
        warn = self.warnings.say
        # A stack of its own: NPCs make models later, and use them until they end.
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
        if voices.synthesizer or voices.recognizer or voices.s2s:
            # else the first sentence would wait for them
            loads.start_soon(load, "numpy", "soxr")
        return make, voices

    def _tell_hooks(
        self, run_id: str, host: ToolHost, events: Topic[TurnEvent]
    ) -> None:
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
        """Open a nursery in its own task: its end must not cancel what opens later."""
        holder = await self.stack.enter_async_context(trio.open_nursery())
        nursery: trio.Nursery = await holder.start(_nursery)
        return nursery

    async def _fleet(
        self, publisher: Publisher, remembered: Path | None, host: ToolHost
    ) -> ServerPool:
        open_session = self.environment.open_session
        if self.answers is not None:
            questions = ServerQuestions(self.answers, self.approval_timeout, host)
            open_session = partial(cast("Any", open_session), answers=questions.ask)
        opening = open_server_pool(
            servers_of(self.source.current),
            publish=self.environment.hooks.publishing(publisher),
            warn=self.warnings.add,
            log=self.on_server_line,
            on_event=self.on_server_event,
            on_status=self.on_server_event,
            open_session=open_session,
            rng=self.environment.rng,
            known=None if remembered is None else ToolCache(remembered / "catalogues"),
        )
        return await self.stack.enter_async_context(opening)

    def _end_with(self, *nurseries: trio.Nursery) -> None:
        """When the block is left: the hooks first, then what runs here."""
        for nursery in reversed(nurseries):
            self.stack.callback(nursery.cancel_scope.cancel, "the runtime is closed")
        self.stack.push_async_callback(self.environment.hooks.leaving)


def _enter(
    fleet: ServerPool, naming: NamingStyle, session: SessionKey, npc: NpcConfig
) -> None:
    """Open the connections of its own that the session of an NPC will need."""
    for spec in fleet.specs():
        own = spec.connection is Sharing.PER_SESSION and not spec.lazy
        if own and any(may_be_of(pattern, spec, naming) for pattern in npc.tools):
            fleet.enter(spec.name, session.tenant, session.id)


def _leave(fleet: ServerPool, host: ToolHost, session: SessionKey) -> None:
    fleet.leave(session.tenant, session.id)
    host.leave_session(session.tenant, session.id)


async def _nursery(task_status: trio.TaskStatus[trio.Nursery]) -> None:
    async with trio.open_nursery() as nursery:
        task_status.started(nursery)
        await trio.sleep_forever()


async def _on_signals(
    signals: Iterable[signal.Signals],
    reload: Callable[[AsyncIterable[object]], Awaitable[None]],
    *,
    task_status: trio.TaskStatus[None],
) -> None:
    """Receive the signals for as long as the task that waits for them."""
    with trio.open_signal_receiver(*signals) as received:
        task_status.started()
        await reload(received)


async def _reload_after(
    runtime: Runtime,
    told: Callable[[Reloaded], None] | None,
    occasions: AsyncIterable[object],
) -> None:
    async with AsyncExitStack() as stack:
        if isinstance(occasions, AsyncGenerator):  # which may be in the midst of one
            stack.push_async_callback(occasions.aclose)
        async for _ in occasions:
            try:
                done = await runtime.reload()
                if told is not None:
                    tell(told, done)
            except Exception:  # border: what reads it may be foreign code
                continue  # `Runtime.reload` has warned of it
