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
    environment: Environment | None = None,
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
      session_store: where sessions are kept that are set aside because too many are
        open (`sessions.most`); None keeps up to 100,000 of them in this process.
      collector: what to do about Python's garbage collector, which makes ceilings
        late when it walks everything: ``leave`` it as it is; ``freeze`` what is there
        once this has opened; or ``settle``, which also has it walk everything only
        while no turn runs. ``freeze`` and ``settle`` are for a program that is this
        runtime and little else, and are undone at the end.
      environment: what stands in for servers and handlers in a rehearsal; None is the
        real one.

    Raises:
      ConfigError: with every problem and its place; also for a grant that a
        server which is ready by then does not keep.
      NameCollision: two tools under one name.
      NotOnTrio: from asyncio, which has `aio.open_runtime`.
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
        approve_servers=approve_servers,
        wait_for_servers=wait_for_servers,
        watch=watch,
        reload_on=reload_on,
        on_warning=on_warning,
        on_reload=on_reload,
        on_server_event=on_server_event,
        on_server_line=on_server_line,
        session_store=session_store,
        collector=collector,
        environment=environment,
    )
    async with wiring.opened() as runtime:
        yield runtime


async def _load(config: object) -> None:
    """Import what opening a runtime needs, in a thread: it takes a few tenths of a
    second, for which the caller's other tasks should not have to wait."""
    needed = (*_ALWAYS, *(_FOR_FILES if isinstance(config, str | Path) else ()))
    missing = [name for name in needed if name not in sys.modules]
    if not missing:
        return
    if _clock_jumps():
        _import(missing)
    else:
        await trio.to_thread.run_sync(_import, missing)


def _import(names: Iterable[str]) -> None:
    for name in names:
        import_module(name)


def _clock_jumps() -> bool:
    """Return whether this is a test whose clock does not wait for threads: a caller's
    `trio.fail_after` would expire at once."""
    testing = sys.modules.get("trio.testing")
    clock = trio.lowlevel.current_clock()
    return testing is not None and isinstance(clock, testing.MockClock)
