"""Write into a memory file on a disk that is full, and again when there is room.

    unshare -rm python -m tests.memory.sqlite.full_disk FOLDER

Mounts a file system of two MiB there, which nothing outside of this process sees.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import trio

from glyphoxa_trio.memory.entries import Claim, Entry, EntryKind
from glyphoxa_trio.memory.errors import MemoryUnavailable
from glyphoxa_trio.memory.sqlite.store import SqliteMemory, open_sqlite
from glyphoxa_trio.memory.visibility import CampaignKey


def turn(number: int) -> Entry:
    data = {"number": number, "filler": "x" * 2000}
    return Entry(kind=EntryKind.TURN, at=1.0, npc="Bo", turn=number, data=data)


async def until_full(memory: SqliteMemory, claim: Claim, begin: int = 1) -> int:
    """Append until nothing more fits, and return the number of the last turn."""
    for number in range(begin, 10_000):
        try:
            await memory.journal.append(claim, [turn(number)])
        except MemoryUnavailable:
            return number - 1
    raise AssertionError("the disk is never full")


async def numbers(memory: SqliteMemory, claim: Claim) -> list[int]:
    return [x.entry.turn for x in await memory.journal.load(claim)]


async def fill(folder: Path) -> None:
    ballast = [folder / "one", folder / "other"]
    for file in ballast:
        file.write_bytes(b"x" * 400_000)
    path = folder / "memory.db"
    async with open_sqlite(path) as memory:
        claim = await memory.journal.claim("", "table", CampaignKey("barrow"))
        last = await until_full(memory, claim)
        assert last > 1
        assert await numbers(memory, claim) == list(range(1, last + 1))
        ballast[0].unlink()
        assert await until_full(memory, claim, last + 1) > last + 10
        kept = await numbers(memory, claim)
    ballast[1].unlink()
    async with open_sqlite(path) as memory:
        claim = await memory.journal.claim("", "table", CampaignKey("barrow"))
        assert await numbers(memory, claim) == kept == list(range(1, len(kept) + 1))


def main() -> None:
    folder = Path(sys.argv[1])
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if subprocess.run(mount, check=False).returncode:
        sys.exit(77)
    trio.run(fill, folder)


if __name__ == "__main__":
    main()
