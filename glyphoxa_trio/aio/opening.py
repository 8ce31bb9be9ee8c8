"""`open_runtime` for asyncio: `glyphoxa_trio.open_runtime`, across a bridge."""

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
from glyphoxa_trio.mcp.questions import Answers
from glyphoxa_trio.memory.contract import Memory
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
    answers: Answers | None = None,
    approve_servers: bool | Approve | None = None,
    wait_for_servers: float = 5.0,
    watch: bool | Sequence[Path] = False,
    reload_on: Iterable[signal.Signals] = (),
    on_warning: Callable[[ServerWarning], None] | None = None,
    on_reload: Callable[[native.Reloaded], None] | None = None,
    on_server_event: Callable[[ServerStatus | SupervisionEvent], None] | None = None,
    on_server_line: Callable[[str, str], None] | None = None,
    session_store: native.SessionStore | None = None,
    memory: Memory | Path | str | None = None,
    collector: native.Collector = "leave",
    environment: native.Environment | None = None,
) -> AbstractAsyncContextManager[Runtime]:
    """Run everything that a configuration describes, beside this asyncio loop.

        async def main() -> None:
            async with aio.open_runtime("config/tavern.yaml", tools=[find]) as runtime:
                async with runtime.npc("Bartok").say("An ale!", speaker="Aria") as turn:
                    async for event in turn:
                        ...

        asyncio.run(main())

    The arguments are those of `glyphoxa_trio.open_runtime`, except for the ones below.
    Leaving the block takes as long as there. A task that is cancelled while it enters
    or leaves raises its cancellation when that is done. If the runtime crashes, the
    task that entered the block is cancelled, and the block raises the runtime's error.

    Args:
      mode: ``"guest"`` runs trio in the loop's thread, which has room for one such run.
        ``"thread"`` runs it in a thread of its own, where a blocked loop delays neither
        the NPCs nor their time limits.
      tools: the embedder's own tools; wrap those that need asyncio in `aio.tool`.
      llm, synthesizer, recognizer, s2s: objects whose methods trio runs.
      approver, answers: asyncio coroutine functions. All ``on_...`` callbacks are
        called on the loop; their exceptions go to its exception handler.
      approve_servers: a function may be called in any thread.
      reload_on: in guest mode only.

    Raises:
      ConfigError: with every problem and its place.
      NameCollision: two tools under one name.
      NotOnAsyncio: if it is entered from trio, which has `glyphoxa_trio.open_runtime`.
      RuntimeError: in guest mode, if a trio run is in this thread already.
      ValueError: for another mode, or signals in thread mode.
      StillRunning: if code on trio's side ignores its cancellation for ten seconds.
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
            answers=None if answers is None else adapted.answers(answers),
            approve_servers=approve_servers,
            wait_for_servers=wait_for_servers,
            watch=watch,
            reload_on=signals,
            on_warning=bridge.errands.telling(warn),
            on_reload=bridge.errands.telling(on_reload),
            on_server_event=bridge.errands.telling(on_server_event),
            on_server_line=bridge.errands.telling(on_server_line),
            session_store=session_store,
            memory=memory,
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
