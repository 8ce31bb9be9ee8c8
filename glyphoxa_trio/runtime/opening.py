"""`open_runtime`, as an embedder calls it.

Importing this file is quick. What the function opens is in `wiring`, and is imported
when it is called: most of the package, a few tenths of a second of it
(``python -m benchmarks.import_time`` has the figures).
"""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from glyphoxa_trio.errors import GlyphoxaError

if TYPE_CHECKING:
    from glyphoxa_trio.actors import SupervisionEvent
    from glyphoxa_trio.config import Approve, Config
    from glyphoxa_trio.mcp import ServerStatus, ServerWarning
    from glyphoxa_trio.mcp.questions import Answers
    from glyphoxa_trio.memory.contract import Memory
    from glyphoxa_trio.npc import Approver
    from glyphoxa_trio.providers.llm import LLM
    from glyphoxa_trio.providers.s2s import S2S
    from glyphoxa_trio.providers.speech import Recognizer, Synthesizer
    from glyphoxa_trio.tools.definition import Tool

    from .collector import Collector
    from .config_reload import Reloaded
    from .environment import Environment
    from .idle_sessions import SessionStore
    from .runtime import Runtime

# What is imported when a runtime is opened, and not before. The SDK and the HTTP
# client are imported in threads by the code that uses them.
_ALWAYS: Final = ("glyphoxa_trio.runtime.wiring", "jsonschema_rs")
_FOR_FILES: Final = ("cattrs", "ruamel.yaml")
# What is imported completely. `sys.modules` has a module as soon as its import begins;
# importing it then would make the event loop wait for the other thread.
_loaded: set[str] = set()


class NotOnTrio(GlyphoxaError):
    """A function that needs trio was called where trio does not run."""


def needs_trio() -> None:
    """Raise `NotOnTrio` if the caller runs on asyncio, or on no event loop at all."""
    if not trio.lowlevel.in_trio_task():
        raise NotOnTrio(
            "open_runtime runs on trio: start with trio.run(main), or use"
            " glyphoxa_trio.aio.open_runtime from asyncio (docs/asyncio.md)"
        )


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
    approval_timeout: float = 30.0,
    answers: Answers | None = None,
    approve_servers: bool | Approve | None = None,
    wait_for_servers: float = 5.0,
    watch: bool | Sequence[Path] = False,
    reload_on: Iterable[signal.Signals] = (),
    on_warning: Callable[[ServerWarning], None] | None = None,
    on_reload: Callable[[Reloaded], None] | None = None,
    on_server_event: Callable[[ServerStatus | SupervisionEvent], None] | None = None,
    on_server_line: Callable[[str, str], None] | None = None,
    session_store: SessionStore | None = None,
    memory: Memory | Path | str | None = None,
    collector: Collector = "leave",
    environment: Environment | None = None,
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
      answers: asks a person what a server wants to know in the middle of a call, which
        waits meanwhile; returns a value for each field of the `ServerQuestion`, or None
        if the person declines. The questions of one turn are open for
        ``approval_timeout`` at most, all together. With None servers are told that
        nobody can be asked, whatever the approver is.
      approve_servers: which servers of a ``.mcp.json`` may be started, beside those
        that the configuration itself names. None: those that this user has agreed to
        by ``glyphoxa mcp trust``, as they are now. False: none. True: all. Or a
        function that is asked about each `SharedServer`; at a reload it is called in a
        thread.
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
        Not together with memory, which keeps them itself.
      memory: the store of what NPCs remember after this run: a file, which is made if
        there is none, the ``postgresql://`` address of a database, or an open store,
        which the embedder closes. None is the configuration's ``memory.store``, and
        nothing is kept if that is not set. "off" keeps nothing in any case.
      collector: the policy for Python's garbage collector, whose full collections delay
        deadlines. ``leave`` changes nothing. ``freeze`` exempts the objects that exist
        once the runtime is open. ``settle`` also runs full collections only while no
        turn runs. The latter two are for a program that is this runtime and little
        else, and are undone at the end.
      environment: replaces servers and handlers in a simulation; None is the real one.

    Raises:
      ConfigError: with every problem and its place; also for a grant that a server
        which is ready by then does not fulfil.
      NameCollision: two tools under one name.
      MemoryUnusable: the store of memory is damaged, of another program or newer.
      MemoryUnavailable: the store of memory cannot be opened now.
      NotOnTrio: called from asyncio, which has `glyphoxa_trio.aio.open_runtime`.
    """
    needs_trio()
    await _load(config)
    from .wiring import Wiring

    wiring = Wiring(
        config=config,
        tools=tools,
        llm=llm,
        synthesizer=synthesizer,
        recognizer=recognizer,
        s2s=s2s,
        approver=approver,
        approvals=approvals,
        approval_timeout=approval_timeout,
        answers=answers,
        approve_servers=approve_servers,
        wait_for_servers=wait_for_servers,
        watch=watch,
        reload_on=reload_on,
        on_warning=on_warning,
        on_reload=on_reload,
        on_server_event=on_server_event,
        on_server_line=on_server_line,
        session_store=session_store,
        memory=memory,
        collector=collector,
        environment=environment,
    )
    async with wiring.opened() as runtime:
        yield runtime


async def _load(config: object) -> None:
    """Import what opening a runtime needs, in a thread: it takes a few tenths of a
    second, for which the caller's other tasks should not have to wait."""
    needed = (*_ALWAYS, *(_FOR_FILES if isinstance(config, str | Path) else ()))
    missing = [name for name in needed if name not in _loaded]
    if not missing:
        return
    if _clock_jumps():
        _import(missing)
    else:
        # Cancelled, the caller leaves at once, and the thread finishes its import.
        await trio.to_thread.run_sync(_import, missing, abandon_on_cancel=True)


def _import(names: Iterable[str]) -> None:
    for name in names:
        import_module(name)
        _loaded.add(name)


def _clock_jumps() -> bool:
    """Return whether this is a test whose clock does not wait for threads: a caller's
    `trio.fail_after` would expire at once."""
    testing = sys.modules.get("trio.testing")
    clock = trio.lowlevel.current_clock()
    return testing is not None and isinstance(clock, testing.MockClock)
