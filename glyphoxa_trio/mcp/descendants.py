"""Find and kill the descendants of a server's process.

Neither the process group nor the parent tells whose descendant a process is: `setsid`
leaves the group, and a daemon has no parent. Descendants do keep their environment, so
a server is started with a mark of its own there. ``/proc`` shows which processes carry
the mark, and which have a parent that carries it. Only a process that is a daemon *and*
has cleared its environment is missed. (A subreaper would find that one too, but it is a
property of the whole host process, and would make it the parent of every other orphan.)

Linux only: without ``/proc`` no descendants are found, and only the group is ended.
"""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

import attrs

import trio

NAME: Final = "GLYPHOXA_SERVER"

_PROC: Final = "/proc"
_ROUNDS: Final = 20
_GLANCES: Final = 10
_PAUSE: Final = 0.01  # seconds for killed processes to disappear, before looking again


@attrs.frozen
class Kin:
    """A living process. ``began`` tells it from a later process with the same pid."""

    pid: int
    parent: int
    began: int


@attrs.frozen
class Descendants:
    """The processes that descend from one server.

    Start the server with `environment`; look for its descendants, or end them, at any
    time, also when the server itself has been dead for long.
    """

    mark: str = attrs.field(factory=lambda: secrets.token_hex(16), repr=False)

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the variables to add to the server's environment."""
        return {NAME: self.mark}

    def living(self) -> tuple[Kin, ...]:
        """Return the living descendants, with the server itself.

        Reads all of ``/proc``, so it takes some milliseconds.
        """
        return self._look(lambda kin: None)

    async def end(self) -> tuple[int, ...]:
        """Kill all descendants; return the pids of those that survive that.

        Looks again until none is left, because they may fork meanwhile: some
        milliseconds as a rule, and 0.5 s at most. If cancelled, it has killed some of
        them.
        """
        left: tuple[Kin, ...] = ()
        for _ in range(_ROUNDS):
            left = await trio.to_thread.run_sync(self._strike, abandon_on_cancel=True)
            if not left:
                break
            await trio.sleep(_PAUSE)
        return tuple(kin.pid for kin in left)

    def _strike(self) -> tuple[Kin, ...]:
        """Kill the descendants that are found now, in a thread; return them."""
        # Stop each process as soon as it is found, so that it cannot fork while others
        # are being found.
        found = self._look(lambda kin: _send(kin, signal.SIGSTOP))
        for kin in found:
            _send(kin, signal.SIGKILL)
        return found

    def _look(self, on_found: Callable[[Kin], None]) -> tuple[Kin, ...]:
        """Return the living descendants; call ``on_found`` with each as it is found."""
        written = f"{NAME}={self.mark}".encode()
        read: dict[int, Kin | None] = {}
        found: dict[int, Kin] = {}
        for _ in range(_GLANCES):
            # A process that started while we looked has a pid that is new to us.
            # Without this, a family in which each process forks and exits would always
            # be one step ahead.
            fresh = [pid for pid in _pids() if pid not in read]
            if not fresh:
                break
            for pid in fresh:
                kin = read[pid] = _kin(pid)
                # A process that cleared its environment is recognised by a parent that
                # did not.
                if kin and (_has(pid, written) or kin.parent in found):
                    found[pid] = kin
                    on_found(kin)
        while more := [
            kin
            for kin in read.values()
            if kin and kin.parent in found and kin.pid not in found
        ]:
            for kin in more:
                found[kin.pid] = kin
                on_found(kin)
        return tuple(found.values())


def _pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir(_PROC) if name.isdigit()]
    except OSError:
        return []


def _kin(pid: int) -> Kin | None:
    """Return the process with this pid; None if it is dead."""
    with suppress(OSError, ValueError, IndexError):
        # The command's name, in parentheses, may contain anything.
        _, _, text = _read(pid, "stat").rpartition(b") ")
        fields = text.split()
        if fields[0] not in (b"Z", b"X"):
            return Kin(pid, int(fields[1]), int(fields[19]))
    return None


def _has(pid: int, written: bytes) -> bool:
    """Return whether the environment of a process contains the mark."""
    with suppress(OSError):  # it belongs to another user, or is gone
        return written in _read(pid, "environ").split(b"\0")
    return False


def _read(pid: int, what: str) -> bytes:
    handle = os.open(f"{_PROC}/{pid}/{what}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts: list[bytes] = []
        while part := os.read(handle, 2**16):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(handle)


def _send(kin: Kin, number: signal.Signals) -> None:
    """Signal this very process, never a later one that has the same pid."""
    with suppress(OSError):
        handle = os.pidfd_open(kin.pid)
        try:
            now = _kin(kin.pid)
            if now is not None and now.began == kin.began:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
