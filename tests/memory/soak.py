"""Kill processes that write into a memory file, and look at what they leave.

    python -m tests.memory.soak 200            in a folder of its own, which is removed
    python -m tests.memory.soak 20 FILE SEED   in a file that may exist

Each writer is a process of its own, forked: it claims sessions and appends to all of
them at once, and prints a number when an append has returned. It is killed at a random
moment. After each kill another process opens the file, takes the claims, and compares:
everything that was acknowledged is there, entries follow each other without a gap, and
no append was made in part. Prints how many appends survived how many kills.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw

import trio

from glyphoxa_trio.memory.entries import Claim, Entry, EntryKind, Line
from glyphoxa_trio.memory.sqlite.store import SqliteMemory, open_sqlite
from glyphoxa_trio.memory.visibility import CampaignKey, Reach, Viewer

CAMPAIGN = CampaignKey("soak")
SESSIONS = 3
EVERY = 7  # appends between two snapshots
LONGEST = 0.15  # seconds until a writer is killed, after its first append
MOST_READ = 500  # lines of a session that are compared
LIMIT = 60.0  # seconds for a process; only a hang comes near it
FILLER = "x" * 1000


def text(number: int) -> str:
    return f"The dragon counts {number}."


def appended(number: int) -> list[Entry]:
    """Return what one append writes; the number is in each of its entries."""
    at = 1000.0 + number
    said = Line(text=text(number), speaker="Bo", reach=Reach.of("Bo", "Ann"))
    data = {"number": number, "filler": FILLER}
    entries = [
        Entry(kind=EntryKind.LINE, at=at, npc="Bo", turn=number, line=said),
        Entry(kind=EntryKind.TURN, at=at, npc="Bo", turn=number, data=data),
    ]
    if number % EVERY == 0:
        entries.append(Entry(kind=EntryKind.SNAPSHOT, at=at, data=data))
    return entries


async def claimed(memory: SqliteMemory, session: int) -> Claim:
    return await memory.journal.claim("", f"s{session}", CAMPAIGN)


async def write(path: Path, begin: list[int], told: int) -> None:
    """Append for ever, to each session from its number on."""

    async def one(memory: SqliteMemory, session: int) -> None:
        claim = await claimed(memory, session)
        number = begin[session]
        while True:
            await memory.journal.append(claim, appended(number))
            os.write(told, f"{session} {number}\n".encode())
            number += 1

    async with open_sqlite(path) as memory, trio.open_nursery() as nursery:
        for session in range(SESSIONS):
            nursery.start_soon(one, memory, session)


async def look(path: Path, acknowledged: list[int], told: int) -> None:
    """Check what was left, and tell the last number of each session."""
    every = []
    async with open_sqlite(path) as memory:
        for session in range(SESSIONS):
            claim = await claimed(memory, session)
            kept = [x.entry for x in await memory.journal.load(claim)]
            numbers = [x.data["number"] for x in kept]
            last = max(numbers, default=0)
            # One append was on its way, and may have been made.
            right = range(acknowledged[session], acknowledged[session] + 2)
            assert last in right, (session, last, right)
            first = last // EVERY * EVERY  # of the last snapshot
            assert numbers == list(range(max(first, 1), last + 1)), (session, numbers)
            said = await memory.transcripts.recent(
                CAMPAIGN, Viewer("Ann"), session=claim.session, limit=MOST_READ
            )
            newest = range(max(1, last - MOST_READ + 1), last + 1)
            assert [x.line.text for x in said] == [text(x) for x in newest], session
            await memory.journal.release(claim)
            every.append(last)
            os.write(told, f"{session} {last}\n".encode())
        found = await memory.transcripts.search(CAMPAIGN, Viewer("Ann"), str(last))
        assert text(last) in [x.line.text for x in found.lines] or not last
        rows = await memory.journal.sessions()
        assert not any(x.holder for x in rows), rows
        assert sum(x.lines for x in rows) == sum(every), (rows, every)
    connection = apsw.Connection(str(path))
    assert connection.pragma("integrity_check") == "ok"
    connection.close()
    assert sorted(x.name for x in path.parent.glob(f"{path.name}*")) == [path.name]


def forked(work: Callable[..., Awaitable[None]], *args: Any) -> tuple[int, int]:
    """Return the id of a process that does this, and what it writes into."""
    hears, tells = os.pipe()
    if pid := os.fork():
        os.close(tells)
        return pid, hears
    try:
        trio.run(partial(work, *args, tells))
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(70)


def numbers_in(heard: bytes, begin: list[int]) -> list[int]:
    """Return the last number of each session that a process told."""
    last = list(begin)
    for line in heard.decode().splitlines():
        session, number = map(int, line.split())
        last[session] = number
    return last


def kill_one(path: Path, last: list[int], rng: random.Random) -> list[int]:
    """Have one process write and die; return the last numbers that it told."""
    pid, hears = forked(write, path, [x + 1 for x in last])
    with os.fdopen(hears, "rb", buffering=0) as pipe:
        # Some die before they have opened the file.
        waits = rng.choice([0.0, LIMIT, LIMIT, LIMIT])
        select.select([pipe], [], [], waits)
        time.sleep(rng.uniform(0.0, LONGEST))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        heard = pipe.readall()
    if not os.WIFSIGNALED(status):
        sys.exit("a writer failed")
    return numbers_in(heard, last)


def soak(path: Path, kills: int, seed: int) -> None:
    """Kill so many writers, each after the other.

    Raises:
      SystemExit: something was lost, or a process failed.
    """
    rng = random.Random(seed)
    last = [0] * SESSIONS
    for kill in range(1, kills + 1):
        told = kill_one(path, last, rng)
        pid, hears = forked(look, path, told)
        with os.fdopen(hears, "rb") as pipe:
            last = numbers_in(pipe.read(), told)
        if os.waitpid(pid, 0)[1]:
            sys.exit(f"kill {kill} of seed {seed} lost something")
    sys.stdout.write(f"{sum(last)} appends survived {kills} kills\n")


def main() -> None:
    kills, *where = sys.argv[1:]
    if where:
        soak(Path(where[0]), int(kills), int(where[1]))
        return
    with TemporaryDirectory() as folder:
        soak(Path(folder) / "memory.db", int(kills), random.randrange(1000))


if __name__ == "__main__":
    main()
