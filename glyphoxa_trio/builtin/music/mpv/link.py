"""`mpv` processes, started and ended: each plays one track.

A process gets its commands over one end of a socket pair, and ends by itself when the
other end is closed. So none is left behind, even if this process is killed.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import attrs

import trio

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.process import end, one_line, start
from glyphoxa_trio.tools.definition import ToolError, ToolUnavailable

from . import wire

PROGRAM: Final = "mpv"
STARTING: Final = 5.0  # seconds until the first answer: it needs 0.1
# Seconds until a process counts as hung; a call for a track waits less.
BEGINNING: Final = 2.0  # until a track is heard: it needs 0.02
PATIENCE: Final = 2.0  # for any other command
_PIECE: Final = 8 * 1024


def installed(program: str = PROGRAM) -> bool:
    return shutil.which(program) is not None


@asynccontextmanager
async def open_mpv(program: str = PROGRAM) -> AsyncGenerator[Mpv]:
    """Play tracks until the block is left; then every process has ended.

    No process is started before the first track.
    """
    with lone_errors():
        async with trio.open_nursery() as nursery:
            yield Mpv(program, nursery)
            nursery.cancel_scope.cancel("the music is over")


@attrs.define(eq=False)
class Mpv:
    """An opener of tracks, each of which is played by a process of its own.

    While a track plays, another process is ready for the next one, since starting it
    takes longer than anything else.
    """

    _program: str
    _nursery: trio.Nursery
    _spare: _MpvProcess | None = attrs.field(default=None, init=False)

    @asynccontextmanager
    async def open_track(self, path: Path, volume: float) -> AsyncIterator[_MpvProcess]:
        """Play the file over and over; when the block is entered, it is heard.

        If cancelled while the program is still starting, the process is kept for the
        next track.

        Raises:
          ToolError: if this file cannot be played.
          ToolUnavailable: if no file can be played at the moment.
        """
        process, self._spare = self._spare, None
        if process is None or process.lost.is_set():
            process = await self._nursery.start(self._run)
        try:
            await process.ready()
            await process.begin(path, volume)
            if self._spare is None:
                self._nursery.start_soon(self._get_ready)
            yield process
        finally:
            if process.is_starting and self._spare is None:
                self._spare = process
            else:
                process.scope.cancel("its track is over")

    async def _get_ready(self) -> None:
        with suppress(ToolUnavailable):  # the next track will report it
            spare = await self._nursery.start(self._run)
            if self._spare is None:
                self._spare = spare
            else:
                spare.scope.cancel("one is enough")

    async def _run(self, task_status: trio.TaskStatus[_MpvProcess]) -> None:
        """Run one process, from its start to its end."""
        # The other end stays blocking, as a program expects.
        near, theirs = socket.socketpair()
        with theirs, trio.socket.from_stdlib_socket(near) as ours:
            try:
                program = await start(
                    [self._program, *wire.options(theirs.fileno())],
                    env=wire.environment(os.environ),
                    pass_fds=[theirs.fileno()],
                )
            except FileNotFoundError:
                raise ToolUnavailable(
                    f"{self._program} is not installed: "
                    "apt install mpv, brew install mpv"
                ) from None
            except (OSError, ValueError) as error:
                raise ToolUnavailable(
                    f"{self._program} cannot be started: {error}"
                ) from None
            theirs.close()
            process = _MpvProcess(trio.SocketStream(ours))
            try:
                with process.scope:
                    task_status.started(process)
                    await process.run(program)
            finally:
                process.gone()
                await end(program)


@attrs.define(eq=False)
class _MpvProcess:
    """One process and the track that it plays."""

    _socket: trio.SocketStream
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    lost: trio.Event = attrs.field(factory=trio.Event, init=False)
    _why: str = attrs.field(default="", init=False)
    _number: int = attrs.field(default=0, init=False)
    _waiting: dict[int, trio.Event] = attrs.field(factory=dict, init=False)
    _errors: dict[int, str] = attrs.field(factory=dict, init=False)
    _ready: trio.Event = attrs.field(factory=trio.Event, init=False)
    _begun: trio.Event = attrs.field(factory=trio.Event, init=False)
    _ended: wire.TrackEnded | None = attrs.field(default=None, init=False)
    _writing: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    @property
    def is_starting(self) -> bool:
        return not (self._ready.is_set() or self.lost.is_set())

    async def run(self, program: trio.Process) -> None:
        """Read its messages until it ends, or has not begun in time."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._give_up)
            nursery.start_soon(self._hear_complaints, program)
            with suppress(trio.BrokenResourceError):
                await self._socket.send_all(wire.observe(0))
                await self._hear()
            self._why = self._why or "mpv has ended"
            nursery.cancel_scope.cancel("it has ended")

    def gone(self) -> None:
        """Wake all waiting tasks: the process has ended."""
        for event in (self.lost, self._ready, self._begun):
            event.set()

    async def ready(self) -> None:
        """Wait until it accepts commands. Raises `ToolUnavailable`."""
        await self._ready.wait()
        self._check()

    async def begin(self, path: Path, volume: float) -> None:
        """Wait until this file is heard. Raises the errors of `Mpv.open_track`."""
        await self.set_volume(volume)
        begun = False
        try:
            with trio.move_on_after(BEGINNING):
                await self._do("loadfile", os.fspath(path))
                await self._begun.wait()
                await self._send(wire.ignore)
                begun = True
        except ToolUnavailable:
            if self._ended is None:
                raise
        if (ended := self._ended) is not None:
            if ended.no_sound:
                raise ToolUnavailable(f"mpv has no sound output: {ended.why}")
            raise ToolError(f"it cannot be played: {ended.why}")
        if not begun:
            raise ToolUnavailable("mpv does not answer")

    async def set_volume(self, volume: float) -> None:
        """Set the volume, 0 to 100. Raises `ToolUnavailable`."""
        await self._do("set_property", "volume", round(volume, 2))

    async def over(self) -> str:
        """Wait until it plays no more, and return why."""
        await self.lost.wait()
        return self._why

    async def _do(self, *command: Any) -> None:
        """Send a command. Raises `ToolUnavailable` if it is not done in time."""
        await self._send(lambda number: wire.request(number, *command))

    async def _send(self, written: Callable[[int], bytes]) -> None:
        self._number += 1
        number = self._number
        done = self._waiting[number] = trio.Event()
        try:
            with trio.move_on_after(PATIENCE):
                async with self._writing:
                    await self._socket.send_all(written(number))
                await done.wait()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.gone()
        finally:
            del self._waiting[number]
        self._check()
        if not done.is_set():
            self.scope.cancel("it does not answer")
            raise ToolUnavailable("mpv does not answer")
        if error := self._errors.pop(number, ""):
            raise ToolUnavailable(f"mpv refuses: {error}")

    def _check(self) -> None:
        if self.lost.is_set():
            raise ToolUnavailable(self._why or "mpv was ended")

    async def _hear(self) -> None:
        rest = bytearray()
        while data := await self._socket.receive_some(_PIECE):
            rest += data
            *lines, last = rest.split(b"\n")
            rest = bytearray(last)
            for line in lines:
                self._take(bytes(line))
            if len(rest) > wire.LONGEST_LINE:
                self._why = "mpv sent too long a line"
                return

    def _take(self, line: bytes) -> None:
        try:
            said = wire.said(line)
        except ValueError:
            return  # the process may send messages that are not known here
        match said:
            case wire.MpvReply(number, error):
                self._ready.set()
                if number in self._waiting:
                    self._errors[number] = error
                    self._waiting[number].set()
            case wire.TrackStarted():
                self._begun.set()
            case wire.TrackEnded():
                self._ended, self._why = said, said.why
                self._begun.set()
                self.lost.set()

    async def _give_up(self) -> None:
        with trio.move_on_after(STARTING):
            await self._ready.wait()
            return
        self._why = f"mpv did not start within {STARTING:g} s"
        self.scope.cancel("it does not start")

    async def _hear_complaints(self, program: trio.Process) -> None:
        """Keep the last line on stderr, for an error report, and drain stdout.

        Both are always read, so that the process never waits for a reader.
        """
        assert program.stdout is not None
        assert program.stderr is not None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_drain, program.stdout)
            async for words in program.stderr:
                self._why = one_line(bytes(words)) or self._why


async def _drain(stream: trio.abc.ReceiveStream) -> None:
    async for _ in stream:
        pass
