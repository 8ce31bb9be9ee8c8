"""External programs: started with a short environment, and killed with children."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final

import trio

# The variables a program needs to find itself, its data and its temporary files.
_SAFE: Final = ("PATH", "HOME", "TMPDIR", "LANG", "LC_ALL")
_END: Final = 1.0  # seconds for the kernel to reap a process that was killed


async def start(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    pass_fds: Collection[int] = (),
    stderr: bool = True,
) -> trio.Process:
    """Start a program with three pipes, as the leader of its own process group.

    Without ``stderr``, its error output is discarded.

    A cancellation does not leave it half-started. Beside the pipes it inherits
    ``pass_fds``, and no other file descriptor.

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
        start_new_session=True,  # Ctrl-C must reach this process only
    )


async def end(process: trio.Process) -> None:
    """Kill it and all processes of its group, and wait until it is gone.

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
    """Return a program's error output for people: one printable line, cut."""
    text = words.decode(errors="replace")
    text = "".join(mark if mark.isprintable() else " " for mark in text)
    return " ".join(text.split())[:500]
