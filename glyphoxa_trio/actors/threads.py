"""The kernel's figures of a thread of this process; none on systems but Linux."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import attrs


def processor_time(thread: int) -> Callable[[], float] | None:
    """Return a function that reads the processor time of a running thread, from any
    other thread; None on a system that has no such clock."""
    clock_of = getattr(time, "pthread_getcpuclockid", None)
    if clock_of is None or not sys.platform.startswith("linux"):
        return None
    clock = clock_of(thread)
    return lambda: time.clock_gettime(clock)


def sleeps(task: int) -> bool:
    """Return True if a thread waits, but not for the processor or the disk."""
    try:
        text = Path(f"/proc/self/task/{task}/stat").read_bytes()
    except OSError:
        return False
    return text.rpartition(b")")[2].split()[0] == b"S"


@attrs.frozen
class Waits:
    """The number of times that this thread and the loop's have yielded the processor
    themselves, and the seconds for which the loop's was waiting for one."""

    own: int
    loop: int
    starved: float

    @classmethod
    def of(cls, own: int, loop: int) -> Waits:
        """Read the figures; all are zero if the kernel does not have them."""
        try:
            delay = Path(f"/proc/self/task/{loop}/schedstat").read_bytes().split()[1]
            return cls(_switches(own), _switches(loop), int(delay) / 1e9)
        except (OSError, IndexError):
            return cls(0, 0, 0.0)

    def kept_since(self, before: Waits, late: float) -> bool:
        """Return True if the loop's thread slept and kept this one from the
        interpreter, for most of so many seconds."""
        asked = sys.getswitchinterval() * (self.own - before.own)
        theirs = sys.getswitchinterval() * (self.loop - before.loop)
        starved = self.starved - before.starved
        return asked > late / 4 and theirs < late / 4 and starved < late / 4


def _switches(task: int) -> int:
    text = Path(f"/proc/self/task/{task}/status").read_bytes()
    return int(text.partition(b"\nvoluntary_ctxt_switches:")[2].split()[0])
