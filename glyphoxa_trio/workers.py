"""Work that may take too long, in processes that can be killed.

A parser, a checker, a handler that holds the interpreter: none of them can be told
to stop, and a thread of ours that runs them stops everybody. A process can be
killed, and has a limit of memory. It starts at the first need, is used again, and
ends by itself when it is idle or when we are gone.
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

_CHUNK: Final = 2**16  # what a pipe holds: what is more would be copied at once
_GRACE: Final = 5.0  # seconds: a worker that is about to end gets nothing to do
_PROGRAM: Final = "glyphoxa_trio.worker"


class WorkerDied(GlyphoxaError):
    """The process ended before it had an answer; the text says how."""


class WorkFailed(GlyphoxaError):
    """The function raised; the text is its exception's type and first words."""


class WorkersBusy(GlyphoxaError):
    """Too much waits for these workers already."""


@attrs.define(eq=False)
class Workers:
    """At most so many processes that run one function, each one task at a time.

    What is printed in them goes nowhere. Their environment is short, and they import
    what this process can import. Use them in one run of trio: its end is theirs.

    Args:
      target: the function, as ``module:name``; from bytes to bytes.
      most: processes at once; who comes then waits.
      memory: bytes of address space of each; beyond, the function gets a MemoryError.
      idle: seconds after which a process without work ends.
      waiting: how many may wait.
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

    async def run(self, task: bytes | bytearray | memoryview) -> bytes:
        """What the function makes of ``task``.

        Cancelling kills the process that is at it; the next task gets another one.

        Raises:
          WorkFailed: the function raised.
          WorkerDied: the process ended, said too much, or could not be started.
          WorkersBusy: too many wait already.
        """
        if self._seats.statistics().tasks_waiting >= self.waiting:
            raise WorkersBusy("too much waits for the worker processes")
        async with self._seats:
            worker = self._free_one() or await self._started()
            try:
                answer = await worker.run(task, self.largest)
            except BaseException:
                await worker.end()
                raise
            worker.since = trio.current_time()
            self._free.append(worker)
            return answer

    async def aclose(self) -> None:
        """Kill them all; tasks that run end with `WorkerDied`. Takes about a second at
        most, and is not cancelled."""
        self._free.clear()
        async with trio.open_nursery() as nursery:
            for worker in tuple(self._all):
                nursery.start_soon(worker.end)

    @property
    def running(self) -> int:
        """How many processes there are."""
        return len(self._all)

    def _free_one(self) -> _Worker | None:
        """The one that was used last: so those that are not needed become idle."""
        while self._free:
            worker = self._free.pop()
            fresh = trio.current_time() - worker.since < self.idle
            if fresh and worker.process.returncode is None:
                return worker
            worker.ended.set()  # or it is about to end
        return None

    async def _started(self) -> _Worker:
        # Found as we were, also where it is only checked out.
        path = {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
        numbers = [str(self.memory), str(self.idle + _GRACE)]
        command = [sys.executable, "-P", "-m", _PROGRAM, self.target, *numbers]
        try:
            process = await start(command, env=path, stderr=False)
        except OSError as error:
            raise WorkerDied(f"it cannot be started: {error}") from error
        worker = _Worker(process)
        self._all.add(worker)
        trio.lowlevel.spawn_system_task(self._mind, worker)
        return worker

    async def _mind(self, worker: _Worker) -> None:
        """See a worker to its end, at the latest at the end of the run."""
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


@attrs.define(eq=False)
class _Worker:
    process: trio.Process
    since: float = 0.0
    ended: trio.Event = attrs.field(factory=trio.Event)

    async def run(self, task: bytes | bytearray | memoryview, largest: int) -> bytes:
        stdin = self.process.stdin
        assert stdin is not None
        try:
            await stdin.send_all(len(task).to_bytes(LENGTH))
            rest = memoryview(task)
            while rest:
                await stdin.send_all(rest[:_CHUNK])
                rest = rest[_CHUNK:]
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
        """Kill it, if it lives, and close its pipes."""
        await end(self.process)
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
        with trio.move_on_after(1):  # its pipes are closed a little before it is gone
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
