"""`open_runtime`: the one place that wires the rooms.

Above 300 lines, because what is opened must be closed in the reverse order, which is
read best in one place.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from glyphoxa_trio.actors import (
    Flights,
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
from glyphoxa_trio.mcp import Approved, Known, ServerStatus, ServerWarning, open_fleet
from glyphoxa_trio.npc import Approver, Costs, TurnEvent
from glyphoxa_trio.npc.approval import APPROVAL_TIMEOUT
from glyphoxa_trio.npc.hot_context import HotContext
from glyphoxa_trio.providers.at_endpoint import AtEndpoint
from glyphoxa_trio.providers.foreign import Foreign
from glyphoxa_trio.providers.llm import LLM
from glyphoxa_trio.providers.s2s import S2S
from glyphoxa_trio.providers.speech import Recognizer, Synthesizer
from glyphoxa_trio.quiet import quiet
from glyphoxa_trio.tools.definition import Tool

from .assembly import history_of, settings_of, state_folder
from .cast import Cast
from .collector import Collector, collecting
from .generations import Generations, Reloaded
from .given import needs_trio, tools_given
from .grants import GrantProblem, approved_by, grants_of, refuse_faults
from .idle import idle_keys
from .lasting import open_lasting
from .lateness import OverloadEvent, name_stalls
from .lateness import watch as watch_lateness
from .models import Models
from .overload import Overload
from .periodic import Periodic
from .plans import plan, servers_of
from .publisher import Publisher
from .runtime import Runtime
from .source import Source
from .voices import voices_of
from .warned import Warnings
from .watching import changes, files_of, look
from .witness import Beginning
from .world import REAL, World

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
    collector: Collector = "leave",
    world: World = REAL,
) -> AsyncGenerator[Runtime]:
    """Everything a configuration describes, running, until the block is left.

    Leaving interrupts every turn, ends every server process, and takes at most 2
    seconds, also with servers that resist, and 2 more while a disk hangs; a handler
    that shields itself can hold it up for longer, since nothing in trio ends that.

    Args:
      config: a file, or what `load_config` made of one, or whatever makes one,
        called in a thread at each `Runtime.reload`.
      tools: your own, registered before the NPCs' grants are checked.
      llm: the model for every NPC, instead of the configured one.
      synthesizer, recognizer: what NPCs speak and hear with, instead of what is
        configured; closed by whoever made them.
      s2s: the model of NPCs that speak by themselves, instead of the configured one.
      approver: asked about external tools that nobody trusted yet (D13a).
      approvals: somebody listens for `ApprovalNeeded` and answers it with
        `Npc.approve`, beside the approver or in place of it.
      approval_timeout: seconds for either, on no tool's clock; then it is a no.
      approve_servers: which servers of a ``.mcp.json`` may be started: False for none
        but those that the configuration itself names, True for all, or a function
        that is asked about each `SharedServer`, at a reload in a thread.
      wait_for_servers: seconds to wait for servers that are starting and whose
        tools are not known from an earlier run. Whatever is not there by then
        appears when it is ready.
      watch: reload when the file, or the ``.mcp.json`` beside it, changes; or when
        one of these files does. What cannot serve is a warning.
      reload_on: signals that reload, as SIGHUP does for many; in the main thread.
      on_warning: told of each warning; none of these may block. What one of them
        raises goes to the log.
      on_reload: told of each reload that ``watch`` or ``reload_on`` brought about.
      on_server_event: told of each change of a server's status, and of its lives,
        failures and restarts.
      on_server_line: told of a server's name and a line of its stderr,
        rate-limited.
      collector: what to do about Python's garbage collector, which makes ceilings
        late when it walks everything: ``leave`` it as it is; ``freeze`` what is there
        once this has opened; or ``settle``, which also has it walk everything only
        while no turn runs. ``freeze`` and ``settle`` are for a program that is this
        runtime and little else, and are undone at the end.
      world: what stands in for servers and handlers in a rehearsal.

    Raises:
      ConfigError: with every problem and its place; also for a grant that a
        server which is ready by then does not keep.
      NameCollision: two tools under one name.
      NotOnTrio: from asyncio, which has `aio.open_runtime`.
    """
    needs_trio()
    own_tools = tools_given(tools)
    warnings = Warnings(on_warning)
    on_server_event, on_server_line = careful(on_server_event), careful(on_server_line)
    files = files_of(config, watch)
    seen = () if files is None else look(files)
    source = Source.of(config, approve_servers)
    chosen = source.open()
    source.tell(warnings.add)
    witness = world.witness
    remembered = state_folder(chosen) if chosen.mcp.remember else None
    store = None
    if remembered is not None:
        store = Approved(remembered / "approvals", lambda: servers_of(chosen))
    async with AsyncExitStack() as stack:
        stack.enter_context(lone_errors())
        keeper = stack.enter_context(collecting(collector))
        host = await _host(stack, source, store, world, warnings)
        music: Topic[MusicEvent] = Topic()
        stack.callback(music.close)
        playing = open_lasting(
            chosen,
            prepare=world.stand_in is None,
            tell=music.publish,
            warn=warnings.say,
        )
        lasting = await stack.enter_async_context(playing)
        first = plan(chosen, chosen, lasting)
        host.register(*first.builtin, *own_tools)
        # Before any process is started.
        refuse_faults(chosen, host.snapshot, first.problems)
        for text in idle_keys(chosen):
            warnings.say(text)
        events: Topic[TurnEvent] = Topic()
        stack.callback(events.close)  # after the last turn has told its end
        overload = Overload(chosen.overload)
        # A stack of its own: NPCs make models later, and use them until they end.
        links = await stack.enter_async_context(AsyncExitStack())
        make_models = await _models(stack, links, llm, world, warnings)
        voices = voices_of(
            chosen, synthesizer=synthesizer, recognizer=recognizer, s2s=s2s, stack=links
        )
        models = make_models(chosen.llm)
        models.for_npc(None)
        stack.enter_context(quiet(Masks(lambda: source.current).text))
        run_id = world.run or os.urandom(16).hex()
        witness.began(
            Beginning(
                run_id=run_id,
                config=chosen,
                host=host,
                events=events,
                approver=approvals or approver is not None,
                patience=approval_timeout,
            )
        )
        holder = await stack.enter_async_context(trio.open_nursery())
        # In a task of its own: ending it must not cancel what is opened below.
        background: trio.Nursery = await holder.start(_nursery)
        publisher = Publisher(
            host, background, chosen.calibration.at_start, warnings.add
        )
        fleet = await stack.enter_async_context(
            open_fleet(
                servers_of(chosen),
                publish=witness.publishing(publisher),
                warn=warnings.add,
                log=on_server_line,
                on_event=on_server_event,
                on_status=on_server_event,
                open_session=world.open_session,
                rng=world.rng,
                known=None if remembered is None else Known(remembered / "catalogues"),
            )
        )
        context = HotContext(Flights(background))
        if store is not None:
            store.follow(fleet.specs)  # with those that are added
            store.tell(warnings.add)
        sessions = await stack.enter_async_context(trio.open_nursery())
        cast = Cast(
            nursery=sessions,
            config=chosen,
            host=host,
            models=models,
            events=events,
            approver=approver,
            approvals=approvals,
            approval_timeout=approval_timeout,
            overload=overload,
            costs=Costs(chosen.cost, warnings.say),
            run=run_id,
            context=witness.context(context),
            voices=voices,
            warn=warnings.say,
        )
        overload_events: Topic[OverloadEvent] = Topic()
        stack.callback(overload_events.close)
        runtime = Runtime(
            host=host,
            events=events,
            overload_events=overload_events,
            music=music,
            run_id=run_id,
            source=source,
            warnings=warnings,
            approved=store,
            witness=witness,
            context=context,
            fleet=fleet,
            publisher=publisher,
            cast=cast,
            generations=Generations(
                host=host,
                fleet=fleet,
                activity=cast.activity,
                nursery=background,
                serving=first,
            ),
            models=make_models,
            lasting=lasting,
            background=background,
            rehearsed=world.stand_in is not None,
        )
        background.start_soon(
            partial(
                watch_lateness,
                overload,
                cast.activity,
                events=overload_events,
                warn=warnings.add,
                on_late=host.disregard,
            )
        )
        background.start_soon(name_stalls, host, warnings.add)
        try:
            if wait_for_servers > 0:
                await runtime.wait_ready(within=wait_for_servers, known=True)
                grants = (x for x in runtime.problems() if isinstance(x, GrantProblem))
                if certain := [str(x) for x in grants if x.error]:
                    raise ConfigError(*certain)
            publisher.measure()
            runtime._advise()
            if (every := chosen.calibration.every) is not None:
                periodic = Periodic(host, cast.activity, every)
                background.start_soon(periodic.run)
            if files is not None:
                changed = changes(files, seen)
                background.start_soon(
                    _reload_after, runtime, changed, warnings, on_reload
                )
            if signals := tuple(reload_on):
                received = stack.enter_context(trio.open_signal_receiver(*signals))
                background.start_soon(
                    _reload_after, runtime, received, warnings, on_reload
                )
            keeper.wired()
            background.start_soon(keeper.tend, lambda: not runtime.turns_running)
            yield runtime
        finally:
            await witness.leaving()
            sessions.cancel_scope.cancel("the runtime is closed")
            background.cancel_scope.cancel("the runtime is closed")


async def _host(
    stack: AsyncExitStack,
    source: Source,
    store: Approved | None,
    world: World,
    warnings: Warnings,
) -> ToolHost:
    config = source.current

    def told(server: str, text: str) -> None:
        warnings.say(text, server=server)

    return await stack.enter_async_context(
        open_host(
            settings=settings_of(config),
            naming=config.mcp.naming,
            stand_in=world.stand_in,
            approvals=Approvals(approved=approved_by(config), store=store, warn=told),
            history=world.witness.history(history_of(config, warnings.say)),
            hedging=config.hedging,
            granted=lambda: grants_of(source.current),
        )
    )


async def _models(
    stack: AsyncExitStack,
    links: AsyncExitStack,
    given: LLM | None,
    world: World,
    warnings: Warnings,
) -> Callable[[LlmConfig], Models]:
    """What makes the models of a configuration; ``links`` ends them."""
    loads = await stack.enter_async_context(trio.open_nursery())
    stack.callback(loads.cancel_scope.cancel, "the runtime ends")
    if given is not None and not isinstance(given, AtEndpoint) and not world.stand_in:
        given = Foreign(given, loads, warnings.say)
    return partial(
        Models,
        given,
        stack=links,
        loads=loads,
        heard=world.witness.model,
        warn=warnings.say,
    )


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
    async for _ in occasions:
        try:
            done = await runtime.reload()
            if told is not None:
                tell(told, done)
        except Exception as error:  # border: what reads it may be foreign code
            why = words(error) or type(error).__name__
            text = f"not reloaded, the old one goes on: {why}"
            warnings.say(text)
