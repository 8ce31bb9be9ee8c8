"""The cost of what an NPC is told of its memory before each call of its model.

Promised, with 1,000 entities, 5,000 relationships, 5,000 facts and 100,000 lines in a
file: the whole context of a turn is gathered in at most 50 ms (p99); within the usual
limits, beside a busy process, at most one turn in a hundred misses a part of it. A text
of 16 words is searched for 1,000 names in 1 ms (p99), and these are compiled in 50 ms.
In PostgreSQL talk keeps that, and a question does not yet.

Measured: `HotContext.gather` with `MemoryContext` over the store in a file, without a
time limit, of an NPC among 999 others and 200 evenings: for talk that names nothing;
for a question that names two entities, one of them misheard, and refers to the past;
and for the same question after its words were heard as a partial transcript, 100 ms
before. ``turns that miss a part`` counts them, of a hundred questions. ``find`` is
`NameIndex.find`, in talk of players in which little is named. Where there is no
PostgreSQL, only the file is measured.

Against: for the context, a read of the same file that crosses to its thread and back;
for the names, a loop over all of them with `in`.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, time

import attrs

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from benchmarks.knowledge_graph import world
from glyphoxa_trio.actors import SharedTasks
from glyphoxa_trio.config.memory import RecallConfig
from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.entries import Entry, EntryKind, Line
from glyphoxa_trio.memory.opening import open_memory
from glyphoxa_trio.memory.postgres import open_postgres
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey, Reach, Viewer
from glyphoxa_trio.npc.hot_context import Gathered, HotContext, Moment
from glyphoxa_trio.recall.context import MemoryContext
from glyphoxa_trio.recall.names import NameIndex
from tests.memory.postgres.server import a_server

KEY = CampaignKey("the realm")
EVENINGS = 200
FOREVER = 60.0  # seconds
BEGIN = ("b", "br", "c", "d", "dr", "g", "gr", "k", "l", "m", "r", "st", "th", "v")
SAID = (
    "two ales and a mead please, and whatever the lady is having tonight with the stew",
    "I draw my axe and swing it at the biggest one of them while the others run away",
    "no, I do not think that we should trust a single word of it, nor should you",
    "where would one find this tower of Karthagosh that they all speak of in town",
    "how does concentration work when I am hit by two arrows and the cleric is away",
)


def measure(quick: bool) -> list[Figure]:
    size, lines, times = (100, 2000, 20) if quick else (1000, 100_000, 500)
    with TemporaryDirectory() as folder:
        opening = open_memory(str(Path(folder) / "memory.db"))
        figures = trio.run(told, opening, "", size, lines, times)
    with a_server() as server:
        if server is not None:
            with server.database() as address:
                in_postgres = open_postgres(address)
                of = "PostgreSQL: "
                figures += trio.run(told, in_postgres, of, size, lines, times)
    return [*figures, *names(size, times)]


async def told(
    opening: AbstractAsyncContextManager[Memory],
    of: str,
    size: int,
    lines: int,
    times: int,
) -> list[Figure]:
    known = world(size)
    bartok, other, third = known["entities"][:3]
    public = [attrs.evolve(x, reach=Reach()) for x in (bartok, other, third)]
    known["entities"][:3] = public
    question = Moment(
        npc=bartok.name,
        turn=1,
        speaker=other.name,
        text=f"What did {third.name} say about {misheard(other.name)} last time?",
        session="table",
    )
    talk = attrs.evolve(question, text=SAID[0])
    async with opening as memory, trio.open_nursery() as nursery:
        await remember(memory, [x.name for x in known["entities"]], lines)
        await memory.graph.put(KEY, **known)
        index = NameIndex.of(await memory.graph.names(KEY))
        recall = MemoryContext(
            memory,
            attrs.evolve(RecallConfig(), timeout=FOREVER),
            campaign_of=lambda _: KEY,
            viewer_of=lambda npc: Viewer(npc, frozenset({"magic", "war"})),
            names=lambda _: index,
            nursery=nursery,
        )
        context = HotContext(SharedTasks(nursery))
        context.add(recall.provide)

        async def gather(moment: Moment) -> None:
            gathered = await context.gather(moment, within=FOREVER)
            whole(gathered)

        async def hop() -> None:
            await memory.graph.identity(KEY, GAME_MASTER, bartok.id)

        async def ahead() -> float:
            recall.prefetch(attrs.evolve(question, turn=0))
            await trio.sleep(0.1)
            began = perf_counter()
            await gather(question)
            return perf_counter() - began

        await gather(question)
        figures = []
        for name, moment in (("talk", talk), ("a question", question)):
            bare = await timed(times, hop)
            taken = await timed(times, partial(gather, moment))
            figures.append(figure(f"{of}{name}", taken, unit="ms", bare=bare))
        bare = await timed(times, hop)
        fetched = [await ahead() for _ in range(max(5, times // 5))]
        figures.append(
            figure(f"{of}a question, heard before", fetched, unit="ms", bare=bare)
        )
        recall.configure(RecallConfig())
        with beside_a_busy_process():
            missed = 0
            for _ in range(turns := 20 if times < 100 else 100):
                gathered = await context.gather(question, within=0.05)
                missed += gathered is None or bool(gathered.missed)
                await trio.sleep(0.05)  # nobody asks without a pause
        missed_ = 100 * missed / turns
        figures.append(
            Figure(name=f"{of}turns that miss a part", unit="%", n=turns, p50=missed_)
        )
        nursery.cancel_scope.cancel()
        return figures


@contextmanager
def beside_a_busy_process() -> Iterator[None]:
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        busy.kill()
        busy.wait()


def whole(gathered: Gathered | None) -> None:
    if gathered is None or gathered.missed or len(gathered.lines) < 5:
        raise RuntimeError(f"something is not told: {gathered}")


def misheard(name: str) -> str:
    return name.lower().replace("w", "v", 1)


async def remember(memory: Memory, names: list[str], lines: int) -> None:
    """Have evenings at one table, with two lines in five in the NPC's hearing."""
    chance = random.Random(11)
    words = " ".join(SAID).split()
    now = time()
    claim = await memory.journal.claim("", "table", KEY)
    for number in range(EVENINGS):
        at = now - (EVENINGS - number) * 86400.0
        evening = await memory.transcripts.begin_evening(claim, at)
        entries = []
        for n in range(lines // EVENINGS):
            heard = chance.random() < 0.4
            text = [chance.choice(names), *chance.choices(words, k=10)]
            line = Line(
                text=" ".join(text),
                speaker=chance.choice(names[:5]),
                reach=Reach() if heard else Reach.of(chance.choice(names)),
                evening=evening.id,
            )
            entries.append(Entry(kind=EntryKind.LINE, at=at + 10 * n, line=line))
        await memory.journal.append(claim, entries)
        await memory.transcripts.end_evening(KEY, evening.id, at + 10_000)
    evening = await memory.transcripts.begin_evening(claim, now)
    line = Line(text="Well met!", speaker=names[1], reach=Reach(), evening=evening.id)
    await memory.journal.append(claim, [Entry(kind=EntryKind.LINE, at=now, line=line)])


def names(size: int, times: int) -> list[Figure]:
    from glyphoxa_trio.memory.contract import Named
    from glyphoxa_trio.memory.knowledge import EntityKind

    chance = random.Random(3)

    def word() -> str:
        parts = (chance.choice(BEGIN) + chance.choice("aeiou") for _ in range(3))
        return "".join(parts).title() + chance.choice("lnrsk")

    named = [
        Named(
            name=f"{word()} {word()}" if at % 2 else word(),
            entity=str(at),
            kind=EntityKind.NPC,
            reach=Reach(),
        )
        for at in range(size)
    ]
    index = NameIndex.of(named)
    plain = [x.name.lower() for x in named]
    took, bare, built = [], [], []
    for text in SAID:
        index.find(text, GAME_MASTER)
    for at in range(4 * times):
        text = SAID[at % len(SAID)]
        began = perf_counter()
        index.find(text, GAME_MASTER)
        took.append(perf_counter() - began)
        began = perf_counter()
        text = text.lower()
        any(name in text for name in plain)
        bare.append(perf_counter() - began)
    for _ in range(max(3, times // 25)):
        began = perf_counter()
        NameIndex.of(named)
        built.append(perf_counter() - began)
    return [
        figure("find", took, unit="ms", bare=bare),
        figure("compile", built, unit="ms"),
    ]


async def timed(times: int, act: Callable[[], Awaitable[object]]) -> list[float]:
    found = []
    for _ in range(times):
        began = perf_counter()
        await act()
        found.append(perf_counter() - began)
    return found


BENCHMARK = Benchmark(
    name="hot_context",
    promise="what an NPC remembers is there within 50 ms, with 100,000 lines",
    measure=measure,
    budgets=(
        Budget(figure="talk", statistic="p99", at_most=50),
        Budget(figure="a question", statistic="p99", at_most=50),
        Budget(figure="a question, heard before", statistic="p99", at_most=50),
        Budget(figure="turns that miss a part", statistic="p50", at_most=1),
        Budget(figure="PostgreSQL: talk", statistic="p99", at_most=50),
        Budget(figure="find", statistic="p99", at_most=1),
        Budget(figure="compile", statistic="p50", at_most=50),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
