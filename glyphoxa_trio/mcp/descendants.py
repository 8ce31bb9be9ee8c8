"""Whoever came of a server's process: found by a mark, ended one by one.

A process group is left by `setsid`, and a daemon has no parent either, so neither
tells whose child a process is. What children do keep is their environment: a
server is started with a mark of its own there, and `/proc` shows who has it, and
whose parent had it. Only a process that is a daemon *and* threw its environment
away is not found. (Being a subreaper would find that one too, but it is a property
of the whole host process, and would hand it the orphans of everybody else.)

Linux only: without ``/proc`` nobody is found, and the group is all that is ended.
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
_PAUSE: Final = 0.01  # seconds for the killed to be gone, before looking again


@attrs.frozen
class Kin:
    """A living process. ``began`` tells it from a later one of the same pid."""

    pid: int
    parent: int
    began: int


@attrs.frozen
class Descendants:
    """The processes that come of one server, and nobody else's.

    Start the server with `environment`; look for them, or end them, at any time,
    also when the server itself is long dead.
    """

    mark: str = attrs.field(factory=lambda: secrets.token_hex(16), repr=False)

    @property
    def environment(self) -> Mapping[str, str]:
        """What the server gets beside its own environment."""
        return {NAME: self.mark}

    def living(self) -> tuple[Kin, ...]:
        """Who is there, the server included; reads all of ``/proc``, so it takes
        some milliseconds."""
        return self._look(lambda kin: None)

    async def end(self) -> tuple[int, ...]:
        """Kill all of them; the pids of those that do not even die of that.

        Looks again until nobody is left, because they may fork meanwhile: some
        milliseconds as a rule, and 0.5 s at most. Cancelled, it has killed some.
        """
        left: tuple[Kin, ...] = ()
        for _ in range(_ROUNDS):
            left = await trio.to_thread.run_sync(self._strike, abandon_on_cancel=True)
            if not left:
                break
            await trio.sleep(_PAUSE)
        return tuple(kin.pid for kin in left)

    def _strike(self) -> tuple[Kin, ...]:
        # Who is stopped as soon as he is found forks no more while others are.
        found = self._look(lambda kin: _send(kin, signal.SIGSTOP))
        for kin in found:
            _send(kin, signal.SIGKILL)
        return found

    def _look(self, on_found: Callable[[Kin], None]) -> tuple[Kin, ...]:
        written = f"{NAME}={self.mark}".encode()
        read: dict[int, Kin | None] = {}
        found: dict[int, Kin] = {}
        for _ in range(_GLANCES):
            # Whoever was born while we looked has a pid that is new to us: a family
            # in which each forks and leaves would always be one step ahead else.
            fresh = [pid for pid in _pids() if pid not in read]
            if not fresh:
                break
            for pid in fresh:
                kin = read[pid] = _kin(pid)
                # Who threw the mark away is known by a parent who did not.
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
    """A process by its pid; None if it is dead."""
    with suppress(OSError, ValueError, IndexError):
        # The command's name, in parentheses, may have anything in it.
        _, _, text = _read(pid, "stat").rpartition(b") ")
        fields = text.split()
        if fields[0] not in (b"Z", b"X"):
            return Kin(pid, int(fields[1]), int(fields[19]))
    return None


def _has(pid: int, written: bytes) -> bool:
    with suppress(OSError):  # somebody else's, or gone
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
    """Signal this very process, never one that has its pid by now."""
    with suppress(OSError):
        handle = os.pidfd_open(kin.pid)
        try:
            now = _kin(kin.pid)
            if now is not None and now.began == kin.began:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
