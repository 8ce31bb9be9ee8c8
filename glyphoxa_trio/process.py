"""Programs that we run: started with little of our world, and killed whole."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final

import trio

# What a program needs to find itself, its data and its temporary files (D15).
_SAFE: Final = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL")
_END: Final = 1.0  # seconds for the kernel to hand over a process that was killed


async def start(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    pass_fds: Collection[int] = (),
    stderr: bool = True,
) -> trio.Process:
    """Start it with three pipes, as the leader of a process group of its own.

    Without ``stderr``, what it writes there goes nowhere.

    Not cancelled half-way: it starts or it does not. Beside the pipes it has
    ``pass_fds``, and no other descriptor of ours.

    Raises:
      OSError, ValueError: if it cannot be run.
    """
    safe = {name: os.environ[name] for name in _SAFE if name in os.environ}
    return await trio.lowlevel.open_process(
        list(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if stderr else subprocess.DEVNULL,
        env=safe | dict(env or {}),
        pass_fds=tuple(pass_fds),
        start_new_session=True,  # a Ctrl-C is for us to understand
    )


async def end(process: trio.Process) -> None:
    """Kill it and whatever it has started, at once, and wait until it is gone.

    Shielded from cancellation, for at most a second.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    with trio.move_on_after(_END, shield=True):
        await process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                await pipe.aclose()


def one_line(words: bytes) -> str:
    """What a program said to stderr, for people: on one line, printable, cut."""
    text = words.decode(errors="replace")
    text = "".join(mark if mark.isprintable() else " " for mark in text)
    return " ".join(text.split())[:500]
