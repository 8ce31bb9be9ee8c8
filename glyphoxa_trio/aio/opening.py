"""`open_runtime` for asyncio: the one of trio, on the other side of a bridge."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final

from glyphoxa_trio import runtime as native
from glyphoxa_trio.actors import SupervisionEvent
from glyphoxa_trio.config import Approve, Config
from glyphoxa_trio.mcp import ServerStatus, ServerWarning
from glyphoxa_trio.npc import ApprovalRequest
from glyphoxa_trio.providers.llm import LLM
from glyphoxa_trio.providers.s2s import S2S
from glyphoxa_trio.providers.speech import Recognizer, Synthesizer
from glyphoxa_trio.tools.definition import Tool

from . import tools as adapted
from .block import Block
from .bridge import LoopBridge, Mode
from .runtime import Runtime
from .topic import Topic

_WARNINGS_KEPT: Final = 100


def open_runtime(
    config: Config | Path | str | Callable[[], Config],
    *,
    mode: Mode = "guest",
    tools: Iterable[Tool] = (),
    llm: LLM | None = None,
    synthesizer: Synthesizer | None = None,
    recognizer: Recognizer | None = None,
    s2s: S2S | None = None,
    approver: Callable[[ApprovalRequest], Awaitable[bool]] | None = None,
    approvals: bool = False,
    approval_timeout: float = 30.0,
    approve_servers: bool | Approve = False,
    wait_for_servers: float = 5.0,
    watch: bool | Sequence[Path] = False,
    reload_on: Iterable[signal.Signals] = (),
    on_warning: Callable[[ServerWarning], None] | None = None,
    on_reload: Callable[[native.Reloaded], None] | None = None,
    on_server_event: Callable[[ServerStatus | SupervisionEvent], None] | None = None,
    on_server_line: Callable[[str, str], None] | None = None,
    session_store: native.SessionStore | None = None,
    collector: native.Collector = "leave",
    environment: native.Environment | None = None,
) -> AbstractAsyncContextManager[Runtime]:
    """Everything a configuration describes, running beside this asyncio loop.

    The arguments are those of `glyphoxa_trio.open_runtime`, but for these. Leaving
    takes as long as there; whoever is cancelled meanwhile is cancelled when it is
    done. If the runtime crashes, the task that entered is cancelled and the block
    raises what it crashed with.

    Args:
      mode: ``"guest"``, in the loop's thread, which has room for one; or
        ``"thread"``, in a thread of its own, where a loop that is held up does not
        hold up the NPCs and their limits.
      tools: your own; those of asyncio through `aio.tool`.
      llm, synthesizer, recognizer, s2s: their methods are run by trio.
      approver: a coroutine function of asyncio. All ``on_...`` are called on the
        loop; what they raise goes to its exception handler.
      approve_servers: if it is a function, it may be called in any thread.
      reload_on: in guest mode only.

    Raises:
      ConfigError: with every problem and its place.
      NameCollision: two tools under one name.
      NotOnAsyncio: when it is entered from trio, which has
        `glyphoxa_trio.open_runtime`.
      RuntimeError: there is a guest in this thread already.
      ValueError: for another mode, or signals in thread mode.
      StillRunning: if something ignores for ten seconds that it is to end.
    """
    signals = tuple(reload_on)
    if signals and mode == "thread":
        raise ValueError(
            "reload_on: signals come to the main thread; use mode='guest', or call"
            " Runtime.reload from a handler of the loop"
        )
    warnings: deque[ServerWarning] = deque(maxlen=_WARNINGS_KEPT)

    def warn(warning: ServerWarning) -> None:
        warnings.append(warning)
        if on_warning is not None:
            on_warning(warning)

    def opening(bridge: LoopBridge) -> AbstractAsyncContextManager[native.Runtime]:
        return native.open_runtime(
            config,
            tools=tools,
            llm=llm,
            synthesizer=synthesizer,
            recognizer=recognizer,
            s2s=s2s,
            approver=None if approver is None else adapted.approver(approver),
            approvals=approvals,
            approval_timeout=approval_timeout,
            approve_servers=approve_servers,
            wait_for_servers=wait_for_servers,
            watch=watch,
            reload_on=signals,
            on_warning=_telling(bridge, warn),
            on_reload=_telling(bridge, on_reload),
            on_server_event=_telling(bridge, on_server_event),
            on_server_line=_telling(bridge, on_server_line),
            session_store=session_store,
            collector=collector,
            environment=environment,
        )

    def hand_out(bridge: LoopBridge, one: native.Runtime) -> Runtime:
        return Runtime(
            events=Topic(bridge, one.events),
            overload_events=Topic(bridge, one.overload_events),
            music=Topic(bridge, one.music),
            warnings=warnings,
            bridge=bridge,
            native=one,
        )

    return Block(mode, opening, hand_out)


def _telling(
    bridge: LoopBridge, function: Callable[..., None] | None
) -> Callable[..., None] | None:
    """The function, called on the loop."""
    if function is None:
        return None
    return lambda *args: bridge.errands.tell(function, *args)
