"""The process of a stdio server: what it is given, what it says, how it ends.

It gets a short safe list of the host's environment and its configured one
(D15), its own process group, and three pipes. Nothing of it reaches the host's
screen: stderr is kept as the last lines, for warnings (A41).
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

# The groups that run now, for whoever must leave without an end in order.
_groups: set[int] = set()

_SAFE: Final = frozenset({"HOME", "LANG", "LANGUAGE", "PATH", "TMPDIR", "TZ"})

KEPT_LINES: Final = 20
LONGEST_LINE: Final = 2_000
_BURST: Final = 20.0
_LINES_PER_SECOND: Final = 4.0  # seed 003: one line per 250 ms
_CHUNK: Final = 2**14  # bytes: who floods stderr must not keep the others waiting

# Seconds for a server to leave by itself when its stdin closes, to obey
# SIGTERM, and for all of its end; what is left over is the kernel's, to hand
# over the dead, and for what they still have in their pipes.
_GOODBYE: Final = 0.8
_OBEY: Final = 0.5
ENDING: Final = 1.5
_LAST_WORDS: Final = 0.1


def environment(
    configured: Mapping[str, Secret], host: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """What a stdio server sees of the world: the safe list and its own (D15)."""
    safe = {
        name: value
        for name, value in host.items()
        if name in _SAFE or name.startswith("LC_")
    }
    return safe | {name: value.reveal() for name, value in configured.items()}


def command_line(command: Sequence[str]) -> list[str]:
    """The command to run. A bare ``python`` is the interpreter that runs us, a bare
    ``glyphoxa`` the command beside it, if there is one."""
    first, *rest = command
    if first in ("python", "python3"):
        return [sys.executable, *rest]
    ours = Path(sys.executable).with_name("glyphoxa")
    return [str(ours) if first == ours.name and ours.is_file() else first, *rest]


@attrs.define(eq=False)
class LastLines:
    """The last lines a server wrote: cut, printable, and without its secrets.

    Args:
      mask: hides what is never kept.
      log: told of each line, at most four a second after a burst of twenty.
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
        """What has been written so far is a line, ended or not."""
        text = bytes(self._unfinished)
        self._unfinished.clear()
        self.note(text)

    def note(self, line: bytes) -> None:
        """Take a whole line that came another way, whatever is unfinished."""
        text = self.mask.text(line[: 4 * LONGEST_LINE].decode(errors="replace"))
        if not text.isprintable():
            # Escape sequences of a server must not steer somebody's terminal, nor
            # hide half of a secret from the other half.
            text = self.mask.text("".join(filter(str.isprintable, text)))
        text = text[:LONGEST_LINE].rstrip()
        if text:
            self._lines.append(text)
            self._forward(text)

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(self._lines)

    def _grow(self, data: bytes) -> None:
        # Four bytes are the longest character: enough for the longest line.
        self._unfinished += data[: max(0, 4 * LONGEST_LINE - len(self._unfinished))]

    def _forward(self, line: str) -> None:
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
      descendants: the mark by which `end` finds who came of it.

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
    """The server of ``spec`` for as long as the block lasts; left, it is ended.

    It is ours and not the SDK's, because the SDK's own transport does not say whose
    process it runs, leaves children of a server behind, and takes up to 6 s.

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
    """Take what a server writes to stderr, until nobody writes there any more."""
    assert process.stderr is not None
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        while chunk := await process.stderr.receive_some(_CHUNK):
            said.feed(bytes(chunk))
    said.finish()


async def end(process: trio.Process, descendants: Descendants, said: LastLines) -> None:
    """Close stdin, ask, then kill, and leave nothing that came of it behind.

    At most 1.5 s, shielded from cancellation; a server that leaves when its stdin
    closes takes as long as it takes to leave (A43, T8). Nobody else may read its
    pipes any more: they are read here, because a server that cannot write what it
    has to say cannot leave either.
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
                _signal_group(process, signal.SIGCONT)  # the stopped obey only so
                if not await _exits(process, within=_OBEY):
                    _signal_group(process, signal.SIGKILL)
                    await _exits(process, within=until - trio.current_time())
            # Children that outlive their parent are still in its group, most of them.
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
    """Read both pipes until nobody holds them any more."""

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

    Only for a process that is about to be gone: nobody is told.
    """
    for group in tuple(_groups):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


def how_it_ended(process: trio.Process) -> str:
    """For people: ``exited with status 3``, ``was ended by SIGKILL``."""
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
    with trio.move_on_after(max(0, within)):
        await process.wait()
    return process.returncode is not None


def _signal_group(process: trio.Process, number: signal.Signals) -> None:
    # The group has the leader's pid, and outlives it while it has members.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
