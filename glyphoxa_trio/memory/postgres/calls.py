"""Work with a connection in a worker thread, and its cancellation in another."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

import attrs
import psycopg

import trio

from glyphoxa_trio.memory.errors import MemoryUnavailable

_CANCEL: Final = 1.0  # seconds for the server to obey
T = TypeVar("T")
Connection = psycopg.Connection[Any]


@attrs.define(eq=False)
class Slot:
    """A place for one connection, of which there is none before its first use."""

    connection: Connection | None = None

    def fresh(self, connect: Callable[[], Connection]) -> Connection:
        """Return a connection that the server has not closed. Blocks."""
        held, self.connection = self.connection, None
        if held is not None and not (held.closed or _spoke(held)):
            self.connection = held
            return held
        if held is not None:
            held.close()
        self.connection = connect()
        return self.connection


def _spoke(connection: Connection) -> bool:
    """Return True if something came from the server unasked, as its farewell does."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


@attrs.define(eq=False)
class DatabaseCall:
    """Work in a thread, and its cancellation in another."""

    slot: Slot
    work: Callable[[DatabaseCall], Any]
    reads: bool
    give_back: Callable[[Slot], None]
    _token: trio.lowlevel.TrioToken = attrs.field(
        factory=trio.lowlevel.current_trio_token, init=False
    )
    _task: trio.lowlevel.Task | None = attrs.field(default=None, init=False)
    _ended: threading.Event = attrs.field(factory=threading.Event, init=False)
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _began: bool = attrs.field(default=False, init=False)
    _threads: int = attrs.field(default=0, init=False)
    _raise_cancel: Callable[[], Any] | None = attrs.field(default=None, init=False)
    _result: Any = attrs.field(default=None, init=False)

    async def made(self) -> Any:
        """Do the work; the slot is given back when its threads have ended."""
        self._task = trio.lowlevel.current_task()
        self._start(partial(self.work, self), self._delivered)
        await trio.lowlevel.wait_task_rescheduled(self._cancelled)
        try:
            return self._result.unwrap()
        except Exception:
            if self._raise_cancel is not None:
                self._raise_cancel()
            raise

    def begin(self) -> None:
        """Called by the work before its first statement.

        Raises:
          MemoryUnavailable: nobody waits for it any more.
        """
        with self._lock:
            if self._raise_cancel is not None:
                raise MemoryUnavailable("cancelled")
            self._began = True

    def _start(self, work: Callable[[], T], then: Callable[[Any], object]) -> None:
        self._threads += 1
        trio.lowlevel.start_thread_soon(work, then, "glyphoxa postgres")

    def _delivered(self, result: Any) -> None:
        self._ended.set()
        self._in_trio(self._finished, result)

    def _in_trio(self, call: Callable[..., object], *args: Any) -> None:
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(call, *args)

    def _finished(self, result: Any) -> None:
        self._result = result or self._result
        self._threads -= 1
        if self._threads:
            return
        self.give_back(self.slot)
        if self._task is not None:
            trio.lowlevel.reschedule(self._task)

    def _cancelled(self, raise_cancel: Callable[[], Any]) -> trio.lowlevel.Abort:
        with self._lock:
            self._raise_cancel = raise_cancel
            began = self._began
        if began:
            self._start(self._stop, lambda _: self._in_trio(self._finished, None))
        if began and not self.reads:
            return trio.lowlevel.Abort.FAILED  # wait for what becomes of it
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED

    def _stop(self) -> None:
        """Have the server cancel the statement, or cut the connection."""
        connection = self.slot.connection
        if connection is None or self._ended.is_set():
            return
        cancel(connection)
        if not self._ended.wait(_CANCEL):
            cut(connection)


def cancel(connection: Connection) -> None:
    """Have the server cancel the statement that runs. Blocks for a second at most."""
    with suppress(psycopg.Error, OSError):
        connection.cancel_safe(timeout=_CANCEL)


def cut(connection: Connection) -> None:
    """Have another thread, which waits for this connection, find it lost."""
    with suppress(psycopg.Error, OSError):
        with socket.socket(fileno=os.dup(connection.fileno())) as same:
            same.shutdown(socket.SHUT_RDWR)
