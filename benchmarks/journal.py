"""The cost of keeping a turn in a memory file, in processor time of the whole process.

Promised: the entry of a turn, 1.5 kB of JSON, costs at most 70 µs of processor alone,
and 25 if fifty sessions write at once; and a turn with its two lines, which are indexed
for searches at the same time, costs no more in a file of 1,000,000 lines than twice
what it costs in one of 1,000. A session of a hundred turns since its snapshot is
restored in at most 5 ms (p99).

Measured: appends of one session after the other (``alone``), or of fifty sessions at
once, which share a commit; then the same with two lines of a dozen words, and alone in
files that have lines already. Each sample is the mean of fifty turns, of all threads;
what it costs to start fifty tasks is not counted. ``restored``: a session of
a snapshot and a hundred turns with two calls each is claimed, loaded and put together.

Alone it is not kept on a machine with several cores: most of the time is spent on
waking a thread and being woken by it. On one core it is 105 µs, 28 of them for that.

Against: the same bytes in one table without an index, in SQLite without a thread: a
``begin``, an insert for each row, a ``commit``; for the restored session, `json` alone
with the same data.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Final

import apsw

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.entries import Claim, Entry, EntryKind, Line
from glyphoxa_trio.memory.opening import open_memory
from glyphoxa_trio.memory.visibility import CampaignKey, Reach
from glyphoxa_trio.npc.snapshot import (
    CallSnapshot,
    ExchangeSnapshot,
    NpcSnapshot,
    OpeningSnapshot,
    RoundSnapshot,
)
from glyphoxa_trio.runtime.session_log import restored, snapshot_entry, turn_entry
from glyphoxa_trio.runtime.session_snapshot import SessionSnapshot
from glyphoxa_trio.tools.outcome import ToolCall

EACH: Final = 50  # turns of a sample
RESTORED: Final = 100  # turns
SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)  # lines
CAMPAIGN: Final = CampaignKey("barrow")
HEARD: Final = Reach.of("Bartok", "Mira")
_WORDS: Final = """
    dragon peak silver tavern mayor bridge winter wolves barrow crown miller ghost ferry
    lantern harvest oath smith raven chapel thief letter storm vault queen"""
WORDS: Final = _WORDS.split()
DATA: Final = {
    "exchanges": [{"said": "x" * 130, "number": n, "rounds": []} for n in range(8)],
    "npc": {"name": "Bartok", "cost": 0.0021, "loaded": ["dice", "rules"]},
}


def said(number: int) -> list[Entry]:
    """Return two lines of a dozen words."""
    words = [WORDS[number * step % len(WORDS)] for step in (1, 5, 7, 11)]
    first = f"What do you know of the {words[0]} and the {words[1]} near {number}?"
    second = f"The {words[2]} fears nothing but the {words[3]}, they say by the fire."
    return [
        Entry(
            kind=EntryKind.LINE,
            at=1e9 + number,
            npc="Bartok",
            turn=number,
            line=Line(
                text=text, speaker=who, player=player, reach=HEARD, answers=answers
            ),
        )
        for text, who, player, answers in (
            (first, "Ann", "p1", ()),
            (second, "Bartok", "", ("p1",)),
        )
    ]


def turn(number: int) -> Entry:
    at = 1e9 + number
    return Entry(kind=EntryKind.TURN, at=at, npc="Bartok", turn=number, data=DATA)


async def alone(
    memory: Memory, claim: Claim, turns: Sequence[list[Entry]]
) -> list[float]:
    found = []
    for at in range(0, len(turns), EACH):
        began = process_time()
        for entries in turns[at : at + EACH]:
            await memory.journal.append(claim, entries)
        found.append((process_time() - began) / EACH)
    return found


async def at_once(
    memory: Memory, claims: Sequence[Claim], turns: Sequence[list[Entry]]
) -> list[float]:
    async def nothing(claim: Claim, entries: list[Entry]) -> None:
        await trio.lowlevel.checkpoint()

    async def each(
        work: Callable[[Claim, list[Entry]], Awaitable[object]], at: int
    ) -> float:
        began = process_time()
        async with trio.open_nursery() as nursery:
            for claim, entries in zip(claims, turns[at : at + EACH], strict=True):
                nursery.start_soon(work, claim, entries)
        return (process_time() - began) / EACH

    begins = range(0, len(turns), EACH)
    tasks = median([await each(nothing, at) for at in begins])
    return [await each(memory.journal.append, at) - tasks for at in begins]


def bare(path: Path, rows: Sequence[str], times: int) -> list[float]:
    """Write the same bytes with as little as possible around it."""
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "normal")
    connection.execute("create table entry (id integer primary key, data text)")
    found = []
    for _ in range(times // EACH):
        began = process_time()
        for _ in range(EACH):
            connection.execute("begin immediate")
            for row in rows:
                connection.execute("insert into entry (data) values (?)", (row,))
            connection.execute("commit")
        found.append((process_time() - began) / EACH)
    connection.close()
    return found


def exchange(number: int) -> ExchangeSnapshot:
    """Return a turn with two calls, of 500 characters."""
    calls = tuple(
        CallSnapshot(
            ToolCall(id=f"{number}-{n}", name="roll_dice", arguments='{"dice": "2d6"}'),
            "The dice show 7. " * 4,
        )
        for n in range(2)
    )
    heard = "The crown? It was lost in the barrow, they say, long ago. " * 3
    return ExchangeSnapshot(
        speaker="Ann",
        text="What do you know of the crown?",
        rounds=(RoundSnapshot((), calls), RoundSnapshot((heard,))),
    )


async def restores(memory: Memory, times: int) -> tuple[list[float], list[float]]:
    """Return the times of restoring a session, and of reading its JSON alone."""
    empty = SessionSnapshot(
        id="restored",
        tenant="",
        variables={},
        taken_at=1e9,
        run="a",
        clock=0.0,
        npcs={},
    )
    entries = [snapshot_entry(empty, at=1e9)]
    for n in range(RESTORED):
        state = NpcSnapshot(turns=n + 1, opening=OpeningSnapshot(call_id="1"))
        entry = turn_entry("Bo", n, [exchange(n)], state, at=1e9 + n, heard_out=True)
        entries.append(entry)
    claim = await memory.journal.claim("", "restored", CAMPAIGN)
    await memory.journal.append(claim, entries)
    texts = [json.dumps(dict(entry.data)) for entry in entries]
    found, plain = [], []
    gc.collect()
    gc.freeze()  # as a runtime does
    for _ in range(times):
        began = perf_counter()
        claim = await memory.journal.claim("", "restored", CAMPAIGN)
        back = restored(await memory.journal.load(claim), empty)
        found.append(perf_counter() - began)
        assert len(back.snapshot.npcs["Bo"].history) == RESTORED
        began = perf_counter()
        for text in texts:
            json.loads(text)
        plain.append(perf_counter() - began)
    gc.unfreeze()
    return found, plain


async def appended(
    memory: Memory, times: int, simple: list[float], three: list[float]
) -> list[Figure]:
    """Return the cost of turns, and of turns with lines, beside that of bare rows."""
    turns = [[turn(n)] for n in range(times)]
    whole = [[*said(n), turn(n)] for n in range(times)]
    figures = []
    claims = [
        await memory.journal.claim("", f"table {n}", CAMPAIGN) for n in range(EACH)
    ]
    await alone(memory, claims[0], whole[:EACH])
    for name, entries, plain in (
        ("a turn", turns, simple),
        ("a turn and its lines", whole, three),
    ):
        one = await alone(memory, claims[0], entries)
        several = await at_once(memory, claims, entries)
        figures += [
            figure(f"{name}, alone", one, unit="µs", bare=plain),
            figure(f"{name}, of fifty", several, unit="µs", bare=plain),
        ]
    took, plain = await restores(memory, times // 10)
    return [*figures, figure("a session is restored", took, unit="ms", bare=plain)]


async def kept(folder: Path, times: int, sizes: Sequence[int]) -> list[Figure]:
    whole = [[*said(n), turn(n)] for n in range(times)]
    simple = bare(folder / "simple.db", ["x" * 1500], times)
    three = bare(folder / "three.db", ["x" * 80, "x" * 80, "x" * 1500], times)
    async with open_memory(str(folder / "memory.db")) as memory:
        figures = await appended(memory, times, simple, three)
    return [*figures, *await growing(folder / "large.db", whole, sizes)]


async def growing(
    path: Path, turns: Sequence[list[Entry]], sizes: Sequence[int]
) -> list[Figure]:
    """Return the cost of a turn in files of these sizes, beside that in the first."""
    figures: list[Figure] = []
    first: list[float] = []
    async with open_memory(str(path)) as memory:
        claim = await memory.journal.claim("", "table", CAMPAIGN)
        lines = 0
        for size in sizes:
            while lines < size:
                many = [x for n in range(lines, lines + 500, 2) for x in said(n)]
                await memory.journal.append(claim, many)
                lines += len(many)
            found = await alone(memory, claim, turns)
            first = first or found
            name = f"a turn and its lines, in {size:,} lines"
            figures.append(figure(name, found, unit="µs", bare=first))
    return figures


def measure(quick: bool) -> list[Figure]:
    times = 4 * EACH if quick else 60 * EACH
    sizes = SIZES[:2] if quick else SIZES
    with TemporaryDirectory() as folder:
        return trio.run(kept, Path(folder), times, sizes)


BENCHMARK = Benchmark(
    name="journal",
    promise="keeping a turn costs at most 70 µs of processor alone, 25 among fifty",
    measure=measure,
    budgets=(
        Budget(figure="a turn, alone", statistic="p50", at_most=70.0),
        Budget(figure="a turn, of fifty", statistic="p50", at_most=25.0),
        Budget(figure="a session is restored", statistic="p99", at_most=5.0),
        Budget(
            figure=f"a turn and its lines, in {SIZES[-1]:,} lines",
            statistic="ratio",
            at_most=2.0,
        ),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
