"""Open a session: the only way to a server.

The SDK is loaded on first use, in a thread, because that takes over a second; `sdk`
does the work. A session must be opened and closed in the same task; its calls may come
from any task.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from types import ModuleType
from typing import Any

import trio

from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.quiet import quiet

from .masking import Masking
from .process import LastLines, running
from .questions import Answers
from .starts import starting
from .transport import ConnectionFailed, ServerSession


@asynccontextmanager
async def open_session(
    spec: ServerSpec,
    *,
    on_tools_changed: Callable[[], None],
    stderr: LastLines,
    answers: Answers | None = None,
) -> AsyncGenerator[ServerSession]:
    """Start or reach the server of ``spec``, and open a session with it.

    Leaving the block ends a stdio server within 1.5 s, cancelled or not.

    Args:
      on_tools_changed: called when the list of tools should be read again.
      stderr: takes what a stdio server writes there.
      answers: asks a person what the server wants to know; None refuses its questions.

    Raises:
      ConnectionFailed: for anything that went wrong while opening, within
        ``start_timeout``, or that broke the session from below.
    """
    async with AsyncExitStack() as stack:
        masking = Masking.of(spec)
        stack.enter_context(quiet(masking.text))
        start = stack.enter_context(starting())
        server: trio.Process | None = None
        if spec.url is None:
            try:
                # The server starts while the SDK is loaded: either may take over a
                # second.
                server = await stack.enter_async_context(running(spec, stderr))
            except OSError as error:
                why = masking.text(f"cannot be started: {error}")
                raise ConnectionFailed(why) from error
        begun = trio.current_time()
        sdk: Any = await trio.to_thread.run_sync(_load, abandon_on_cancel=True)
        start.waited = trio.current_time() - begun
        yield await stack.enter_async_context(
            sdk.open_session(
                spec,
                on_tools_changed=on_tools_changed,
                stderr=stderr,
                server=server,
                start=start,
                masking=masking,
                answers=answers,
            )
        )


def _load() -> ModuleType:
    """Load the SDK, in a thread."""
    from . import sdk

    return sdk
