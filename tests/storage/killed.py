"""Writes measurements until it is killed: by others, or by itself at a given point.

    python -m tests.storage.killed PATH            for ever, a line after each batch
    python -m tests.storage.killed PATH FIRST LAST

The second form dies at the FIRST to the LAST operation on the disk, one process
after the other on the same file, and half of the writes are half done then. After
each it prints how many batches are certainly on the disk.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

import apsw

from glyphoxa_trio.storage.measurements import MeasurementFile
from glyphoxa_trio.tools.history import Measured, ToolPlace
from glyphoxa_trio.tools.window import SampleKind

PLACES = [ToolPlace("local", "", f"fake.t{n}") for n in range(3)]
EACH = 4  # samples of each tool in a batch
KEEP = 10
BATCHES = 12  # of one process
ENDS_WELL = 0


def batch(number: int) -> list[Measured]:
    """All samples of a batch say which one they are of."""
    return [
        Measured(place, SampleKind.OK, float(number), 1e9 + number)
        for _ in range(EACH)
        for place in PLACES
    ]


class Dying(apsw.VFS):
    """Every call that changes something counts; the last one of a life kills."""

    def __init__(self, last: int) -> None:
        self.half = last % 2 == 0
        self.left = last
        super().__init__("dying", "unix", makedefault=True)

    def xOpen(self, name: Any, flags: Any) -> DyingFile:
        self.step()
        return DyingFile(self, name, flags)

    def xDelete(self, name: str, sync: bool) -> None:
        self.step()
        super().xDelete(name, sync)

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class DyingFile(apsw.VFSFile):
    def __init__(self, vfs: Dying, name: Any, flags: Any) -> None:
        self.vfs = vfs
        super().__init__("unix", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        if self.vfs.left == 1 and self.vfs.half:
            super().xWrite(data[: len(data) // 2], offset)
        self.vfs.step()
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:
        self.vfs.step()
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:
        self.vfs.step()
        super().xSync(flags)


def write_some(path: Path, begin: int, told: int) -> None:
    file = MeasurementFile.open(path)
    for number in range(begin, begin + BATCHES):
        file.write(batch(number), keep=KEEP)
        os.write(told, b".")
    file.close()


def die_at(path: Path, point: int, begin: int) -> tuple[int, bool]:
    """How many batches were written for certain, and whether it was killed."""
    hears, tells = os.pipe()
    if (child := os.fork()) == 0:
        try:
            vfs = Dying(point)
            write_some(path, begin, tells)
            vfs.unregister()
            os._exit(ENDS_WELL)
        except BaseException:
            traceback.print_exc()
            os._exit(70)  # a bug of ours
    os.close(tells)
    _, status = os.waitpid(child, 0)
    with os.fdopen(hears, "rb") as heard:
        written = len(heard.read())
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) != ENDS_WELL:
        sys.exit("it failed in another way")
    return written, os.WIFSIGNALED(status)


def say(*numbers: int) -> None:
    sys.stdout.write(" ".join(map(str, numbers)) + "\n")
    sys.stdout.flush()


def main() -> None:
    path = Path(sys.argv[1])
    if len(sys.argv) == 2:
        file = MeasurementFile.open(path)
        number = 0
        while True:
            number += 1
            file.write(batch(number), keep=KEEP)
            say(number)
    first, last = map(int, sys.argv[2:])
    for point in range(first, last + 1):
        begin = point * 100
        written, killed = die_at(path, point, begin)
        say(point, begin, written, int(killed))
        if sys.stdin.readline() != "next\n":
            return


if __name__ == "__main__":
    main()
