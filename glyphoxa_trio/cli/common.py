"""The parts that commands share: the model's options, errors as lines, a sure end."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors.interrupts import interrupts
from glyphoxa_trio.config import Config
from glyphoxa_trio.config.chosen_model import Model as Model
from glyphoxa_trio.config.secrecy import Masks
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.quiet import quiet
from glyphoxa_trio.recall.place import memory_of as memory_of

from .consent import load
from .traces import open_traces

# Seconds for servers to be ready, for commands that need all of them: remembered
# tools are not enough for those.
WAIT: Final = 30.0
BAD_INPUT: Final = 2
INTERRUPTED: Final = 130
# Longer than any orderly end takes; only a handler that shields itself gets here.
HARD_EXIT_AFTER: Final = 6.0


def without_calibration(config: Config) -> Config:
    """Return the configuration without calibration at the start, for short commands."""
    return attrs.evolve(
        config, calibration=attrs.evolve(config.calibration, at_start=False)
    )


def complain(error: GlyphoxaError) -> int:
    from .render import on_screen  # knows every room, and --help needs none

    for line in on_screen(str(error)).splitlines():
        print(f"glyphoxa: {line}", file=sys.stderr)  # noqa: T201 a command speaks
    return BAD_INPUT


def warn(text: str) -> None:
    """Print an oddity of a configuration as a line of the error stream."""
    from .render import on_screen  # knows every room, and --help needs none

    print(f"glyphoxa: warning: {on_screen(text)}", file=sys.stderr)  # noqa: T201


def run(
    main: Callable[[Config], Awaitable[int]],
    path: Path,
    model: Model,
    *,
    on_error: Callable[[GlyphoxaError], int] = complain,
    on_warning: Callable[[str], None] = warn,
    clock: trio.abc.Clock | None = None,
    starts: bool = True,
    traced: bool = False,
) -> int:
    """Load, run, and return the exit status; an error on purpose is a line.

    Ctrl-C and SIGTERM leave in order, so that no server is left behind.

    Args:
      starts: False if no server is started, so that no question is asked.
      traced: export the traces of turns, if the environment asks for that.
    """

    async def body() -> int:
        config = model.applied_to(await load(path, warn=on_warning, starts=starts))
        with quiet(Masks(lambda: config).text):
            async with AsyncExitStack() as stack:
                if traced:
                    await stack.enter_async_context(open_traces(on_warning))
                return await main(config)

    return run_orderly(body, on_error=on_error, clock=clock)


def run_orderly(
    main: Callable[[], Awaitable[int]],
    *,
    on_error: Callable[[GlyphoxaError], int] = complain,
    clock: trio.abc.Clock | None = None,
) -> int:
    """As `run`, for verbs that load no configuration, or more than that."""

    async def body() -> int:
        with trio.CancelScope() as scope:

            def leave(_: int) -> None:
                scope.cancel("a signal")
                end_for_sure()

            async with interrupts(leave):
                return await main()
        return INTERRUPTED

    try:
        return trio.run(body, clock=clock)
    except GlyphoxaError as error:
        return on_error(error)
    except KeyboardInterrupt:
        return INTERRUPTED


def end_for_sure(after: float = HARD_EXIT_AFTER) -> None:
    """Leave the process after so many seconds, even if something resists.

    trio cannot end a handler that shields itself, and a person who has asked to
    leave twice must not wait for one. Servers are killed: not all of them end with
    their stdin.
    """
    timer = threading.Timer(after, _leave_now)
    timer.daemon = True
    timer.start()


def _leave_now() -> None:
    from glyphoxa_trio.mcp.process import kill_all

    kill_all()
    os._exit(INTERRUPTED)


def keep_existing(path: Path | None, force: bool, *, source: str = "") -> None:
    """Refuse to write over a file, unless the user says so; never over the source.

    Raises:
      GlyphoxaError: there is one of that name.
    """
    if path and source and os.path.realpath(path) == os.path.realpath(source):
        raise GlyphoxaError(f"{path}: it is the memory itself: name another file")
    if path is not None and not force and os.path.lexists(path):
        raise GlyphoxaError(
            f"{path}: it exists, and was left as it is: name another file, or write"
            " over it with --force"
        )
