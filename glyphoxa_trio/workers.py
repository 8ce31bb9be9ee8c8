"""Worker processes, for work that may take too long and must be killable.

A parser, a checker, a handler that holds the interpreter: none of them can be stopped
from outside, and in a thread of this process they would delay everything else. A
process can be killed, and has a memory limit. It is started when first needed, reused,
and ends by itself when it is idle or when this process has ended.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Final

import attrs

import trio

from .errors import GlyphoxaError
from .process import end, start
from .worker import LENGTH, RETURNED

_CHUNK: Final = 2**16  # the size of a pipe: a larger piece would be copied at once
_GRACE: Final = 5.0  # seconds before its idle end in which a worker gets no task
_PROGRAM: Final = "glyphoxa_trio.worker"


class WorkerDied(GlyphoxaError):
    """The process ended before it had answered; the text says how."""


class WorkFailed(GlyphoxaError):
    """The function raised; the text is its exception's type and first words."""


class WorkersBusy(GlyphoxaError):
    """Too many tasks wait for these workers already."""


@attrs.define(eq=False)
class Workers:
    """A pool of processes that run one function, one task at a time each.

    Their output is discarded. Their environment is short, and they can import what this
    process can. Use them in one run of trio: they end with it.

    Args:
      target: the function, as ``module:name``; from bytes to bytes.
      most: number of processes at once; further tasks wait.
      memory: bytes of address space of each; beyond, the function gets a MemoryError.
      idle: seconds after which a process without work ends.
      waiting: number of tasks that may wait.
      largest: bytes of an answer.
    """

    target: str
    most: int = 1
    memory: int = 512 * 2**20
    idle: float = 30.0
    waiting: int = 64
    largest: int = 16 * 2**20
    _seats: trio.CapacityLimiter = attrs.field(init=False)
    _free: list[_Worker] = attrs.field(factory=list, init=False)
    _all: set[_Worker] = attrs.field(factory=set, init=False)

    def __attrs_post_init__(self) -> None:
        self._seats = trio.CapacityLimiter(self.most)

    async def run(self, task: bytes, more: bytes | bytearray = b"") -> bytes:
        """Return the function's answer to ``task`` followed by ``more``; the two are
        not joined first, which would take long for large ones.

        Cancelling it kills the process that runs the task; the next task gets another.

        Raises:
          WorkFailed: if the function raised.
          WorkerDied: if the process ended, answered too much, or could not be started.
          WorkersBusy: if too many tasks wait already.
        """
        if self._seats.statistics().tasks_waiting >= self.waiting:
            raise WorkersBusy("too many tasks wait for the worker processes")
        async with self._seats:
            worker = self._free_one() or await self._started()
            try:
                answer = await worker.run(task, more, self.largest)
            except BaseException:
                await worker.end()
                raise
            worker.since = trio.current_time()
            self._free.append(worker)
            return answer

    async def aclose(self) -> None:
        """Kill all processes; running tasks end with `WorkerDied`. Takes about a second
        at most, and is shielded from cancellation."""
        self._free.clear()
        async with trio.open_nursery() as nursery:
            for worker in tuple(self._all):
                nursery.start_soon(self._see_off, worker)

    @property
    def running(self) -> int:
        """The number of processes."""
        return len(self._all)

    async def _see_off(self, worker: _Worker) -> None:
        await worker.end()
        with trio.CancelScope(shield=True):
            await worker.gone.wait()

    def _free_one(self) -> _Worker | None:
        """Return the worker used last, so that unneeded ones become idle."""
        while self._free:
            worker = self._free.pop()
            fresh = trio.current_time() - worker.since < self.idle
            if fresh and worker.process.returncode is None:
                return worker
            worker.ended.set()  # or it is about to end by itself
        return None

    async def _started(self) -> _Worker:
        # The worker must find this package as this process did, even if not installed.
        path = {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
        numbers = [str(self.memory), str(self.idle + _GRACE)]
        command = [sys.executable, "-P", "-m", _PROGRAM, self.target, *numbers]
        try:
            theirs, ours = os.pipe()
        except OSError as error:
            raise WorkerDied(f"it cannot be started: {error}") from error
        try:
            process = await start(
                [*command, str(theirs)], env=path, pass_fds=(theirs,), stderr=False
            )
        except BaseException as error:
            os.close(ours)
            if isinstance(error, OSError):
                raise WorkerDied(f"it cannot be started: {error}") from error
            raise
        finally:
            os.close(theirs)
        worker = _Worker(process, ours)
        self._all.add(worker)
        trio.lowlevel.spawn_system_task(self._mind, worker)
        return worker

    async def _mind(self, worker: _Worker) -> None:
        """Watch a worker until it ends, and end it with the run at the latest."""
        try:
            await worker.process.wait()
            if worker in self._free:
                self._free.remove(worker)
                await worker.end()
            await worker.ended.wait()
        finally:
            with trio.CancelScope(shield=True):
                await worker.end()
            self._all.discard(worker)
            worker.gone.set()


@attrs.define(eq=False)
class _Worker:
    """A process, and the end of a pipe with whose closing it ends (`worker`)."""

    process: trio.Process
    _life: int
    since: float = 0.0
    ended: trio.Event = attrs.field(factory=trio.Event)
    gone: trio.Event = attrs.field(factory=trio.Event)

    async def run(self, task: bytes, more: bytes | bytearray, largest: int) -> bytes:
        stdin = self.process.stdin
        assert stdin is not None
        try:
            await stdin.send_all((len(task) + len(more)).to_bytes(LENGTH))
            for rest in (memoryview(task), memoryview(more)):
                for start in range(0, len(rest), _CHUNK):
                    await stdin.send_all(rest[start : start + _CHUNK])
            head = await self._read(1 + LENGTH)
            length = int.from_bytes(head[1:])
            if length > largest:
                raise WorkerDied(f"its answer has more than {largest} bytes")
            answer = await self._read(length)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise await self._death() from None
        if head[:1] != RETURNED:
            raise WorkFailed(answer.decode(errors="replace"))
        return answer

    async def end(self) -> None:
        """Kill the process, if it is alive, and close its pipes."""
        await end(self.process)
        if self._life >= 0:
            os.close(self._life)
            self._life = -1
        self.ended.set()

    async def _read(self, length: int) -> bytes:
        stdout = self.process.stdout
        assert stdout is not None
        read = bytearray()
        while len(read) < length:
            piece = await stdout.receive_some(min(length - len(read), _CHUNK))
            if not piece:
                raise await self._death()
            read += piece
        return bytes(read)

    async def _death(self) -> WorkerDied:
        with trio.move_on_after(1):  # its pipes are closed shortly before its end
            await self.process.wait()
        code = self.process.returncode
        if code is None:
            return WorkerDied("it closed its pipes")
        if code >= 0:
            return WorkerDied(f"it exited with status {code}")
        try:
            return WorkerDied(f"it was ended by {signal.Signals(-code).name}")
        except ValueError:
            return WorkerDied(f"it was ended by signal {-code}")
