"""The process of a stdio server: its environment, its output, its end.

It gets a short safe list of the host's environment variables and its configured ones, a
process group of its own, and three pipes. Its stderr never reaches the host's screen:
the last lines are kept, for warnings.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import attrs

import trio

from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.secret import Mask, Secret

from .descendants import Descendants

# The process groups that run now, for a program that must exit without a shutdown.
_groups: set[int] = set()

_SAFE: Final = frozenset({"HOME", "LANG", "LANGUAGE", "PATH", "TMPDIR", "TZ"})

KEPT_LINES: Final = 20
LONGEST_LINE: Final = 2_000
_BURST: Final = 20.0
_LINES_PER_SECOND: Final = 4.0  # lines a second that are logged
_CHUNK: Final = 2**14  # bytes: reading a flood on stderr must not delay other tasks

# Seconds for a server to exit when its stdin closes, to obey SIGTERM, and for its whole
# end. The rest of the time is left to the kernel, to report the exits and to deliver
# the rest of the output.
_GOODBYE: Final = 0.8
_OBEY: Final = 0.5
ENDING: Final = 1.5
_LAST_WORDS: Final = 0.1


def environment(
    configured: Mapping[str, Secret], host: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the environment of a stdio server: the safe list and its own variables."""
    safe = {
        name: value
        for name, value in host.items()
        if name in _SAFE or name.startswith("LC_")
    }
    return safe | {name: value.reveal() for name, value in configured.items()}


def command_line(command: Sequence[str]) -> list[str]:
    """Return the command to run.

    A bare ``python`` is the interpreter that runs us, a bare ``glyphoxa`` the command
    beside it, if there is one.
    """
    first, *rest = command
    if first in ("python", "python3"):
        return [sys.executable, *rest]
    ours = Path(sys.executable).with_name("glyphoxa")
    return [str(ours) if first == ours.name and ours.is_file() else first, *rest]


@attrs.define(eq=False)
class LastLines:
    """The last lines a server wrote: cut, printable, and without its secrets.

    Args:
      mask: hides the secrets.
      log: called with each line, at most four a second after a burst of twenty.
    """

    mask: Mask = attrs.field(factory=Mask)
    log: Callable[[str], None] | None = None
    _lines: deque[str] = attrs.field(
        factory=lambda: deque(maxlen=KEPT_LINES), init=False
    )
    _unfinished: bytearray = attrs.field(factory=bytearray, init=False)
    _allowance: float = attrs.field(default=_BURST, init=False)
    _counted: float = attrs.field(default=float("-inf"), init=False)

    def feed(self, data: bytes) -> None:
        """Take what was read; a line counts once it has ended."""
        first, *others = data.split(b"\n")
        self._grow(first)
        if others:
            self.finish()
            *finished, rest = others
            for line in finished:
                self.note(line)
            self._grow(rest)

    def finish(self) -> None:
        """Treat what has been written so far as a line, ended or not."""
        text = bytes(self._unfinished)
        self._unfinished.clear()
        self.note(text)

    def note(self, line: bytes) -> None:
        """Add a whole line that came another way, beside the unfinished one."""
        text = self.mask.text(line[: 4 * LONGEST_LINE].decode(errors="replace"))
        if not text.isprintable():
            # Escape sequences of a server must neither control a terminal nor split a
            # secret so that the mask does not see it.
            text = self.mask.text("".join(filter(str.isprintable, text)))
        text = text[:LONGEST_LINE].rstrip()
        if text:
            self._lines.append(text)
            self._forward(text)

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines that are kept, oldest first."""
        return tuple(self._lines)

    def _grow(self, data: bytes) -> None:
        # A character has at most four bytes: this is enough for the longest line.
        self._unfinished += data[: max(0, 4 * LONGEST_LINE - len(self._unfinished))]

    def _forward(self, line: str) -> None:
        """Log a line, if the rate allows it."""
        if self.log is None:
            return
        now = trio.current_time()
        earned = (now - self._counted) * _LINES_PER_SECOND
        self._allowance = min(_BURST, self._allowance + earned)
        self._counted = now
        if self._allowance >= 1:
            self._allowance -= 1
            self.log(line)


async def start(spec: ServerSpec, descendants: Descendants) -> trio.Process:
    """Start the server of ``spec`` as the leader of a process group of its own.

    Not cancelled half-way: it starts or it does not.

    Args:
      descendants: the mark by which `end` finds its descendants.

    Raises:
      OSError: if it cannot be run.
    """
    return await trio.lowlevel.open_process(
        command_line(spec.command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**environment(spec.env), **descendants.environment},
        cwd=spec.cwd,
        start_new_session=True,
    )


@asynccontextmanager
async def running(spec: ServerSpec, said: LastLines) -> AsyncGenerator[trio.Process]:
    """Run the server of ``spec`` within the block; leaving the block ends it.

    This is not the SDK's transport, because that one does not tell which process it
    runs, leaves children of a server behind, and takes up to 6 s to end.

    Raises:
      OSError: if it cannot be run.
    """
    descendants = Descendants()
    server = await start(spec, descendants)
    _groups.add(server.pid)
    try:
        yield server
    finally:
        await end(server, descendants, said)
        _groups.discard(server.pid)


async def listen(process: trio.Process, said: LastLines) -> None:
    """Read a server's stderr until no process holds it open."""
    assert process.stderr is not None
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        while chunk := await process.stderr.receive_some(_CHUNK):
            said.feed(bytes(chunk))
    said.finish()


async def end(process: trio.Process, descendants: Descendants, said: LastLines) -> None:
    """End a server: close its stdin, then SIGTERM, then SIGKILL; kill its descendants.

    Takes at most 1.5 s, shielded from cancellation; a server that exits when its stdin
    closes takes as long as it needs to exit. The pipes are read here, because a server
    that cannot write its output cannot exit either; nothing else may read them any
    more.
    """
    with trio.CancelScope(shield=True):
        until = trio.current_time() + ENDING
        async with trio.open_nursery() as nursery:
            silent = trio.Event()
            nursery.start_soon(_hear_out, process, said, silent)
            if process.stdin is not None:
                await process.stdin.aclose()
            if not await _exits(process, within=_GOODBYE):
                _signal_group(process, signal.SIGTERM)
                # Stopped processes obey only then.
                _signal_group(process, signal.SIGCONT)
                if not await _exits(process, within=_OBEY):
                    _signal_group(process, signal.SIGKILL)
                    await _exits(process, within=until - trio.current_time())
            # Most children that outlive their parent are still in its group.
            _signal_group(process, signal.SIGKILL)
            with trio.move_on_at(until):
                await descendants.end()
                with trio.move_on_after(_LAST_WORDS):
                    await silent.wait()
            nursery.cancel_scope.cancel()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                await pipe.aclose()


async def _hear_out(process: trio.Process, said: LastLines, silent: trio.Event) -> None:
    """Read both pipes until no process holds them open."""

    async def forget() -> None:
        assert process.stdout is not None
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for _ in process.stdout:
                pass

    async with trio.open_nursery() as nursery:
        nursery.start_soon(forget)
        nursery.start_soon(listen, process, said)
    silent.set()


def kill_all() -> None:
    """Kill every server of this process, at once and from any thread.

    Only for a process that is about to exit: no state is updated, and no callback is
    called.
    """
    for group in tuple(_groups):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


def how_it_ended(process: trio.Process) -> str:
    """Describe how a process ended: ``exited with status 3``, for example."""
    code = process.returncode
    if code is None:
        return "closed its stdout"
    if code >= 0:
        return f"exited with status {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


async def _exits(process: trio.Process, *, within: float) -> bool:
    """Return whether the process exits within ``within`` seconds."""
    with trio.move_on_after(max(0, within)):
        await process.wait()
    return process.returncode is not None


def _signal_group(process: trio.Process, number: signal.Signals) -> None:
    # The group has the leader's pid, and exists as long as it has members.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
