"""The time of a search in everything that was ever said at a table.

Promised, with 1,000,000 lines in a file, as p99: a search for rare words takes at most
10 ms; one for a word that a tenth of all lines have at most 100 ms; the last lines, and
the list of evenings, at most 5 ms; and a search ends at most 5 ms after its deadline.

Measured: a memory file, written through its journal, with one campaign of 1,000,
10,000, 100,000 and 1,000,000 lines, and three others that are a tenth as long. Scenes
have one of twelve audiences. Half of the questions are an NPC's, half the game
master's. Words are as frequent as in speech, by Zipf's law. ``rare``: a question with a
name that one line of 20,000 has (at least one line), and common words. ``a tenth``: the
word "gold". ``mixed``: both. ``the most frequent``: a word that a third of all lines
have. ``after the deadline``: how late a search for many lines ends.

Against: for searches the full-text index alone, asked for the same words by bm25() in
one thread, without audiences, lines, evenings or snippets; for lists the smallest query
that goes the same way to the file and back; for deadlines how late a `trio.sleep` ends.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import apsw
import attrs

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.entries import Claim, Entry, EntryKind, Line
from glyphoxa_trio.memory.opening import open_memory
from glyphoxa_trio.memory.sqlite.line_words import query_of
from glyphoxa_trio.memory.visibility import EVERYONE, GAME_MASTER, CampaignKey, Reach
from glyphoxa_trio.memory.visibility import Viewer as NPC

SIZES = (1_000, 10_000, 100_000, 1_000_000)
NPCS = ("Bo", "Mira", "Odo", "Tess", "Ann", "Greymantle")
PLAYERS = tuple(f"player-{number}" for number in range(100))
MAIN = CampaignKey("barrow")
OTHERS = tuple(CampaignKey(f"other {number}") for number in range(3))
SCENE, EVENING, AT_ONCE = 40, 500, 500  # lines
START = 1.7e9
# Searches for words in an index alone, and returns the times of that.
Bare = Callable[[Iterator[list[str]]], list[float]]


def vocabulary(size: int, made: random.Random) -> list[str]:
    """Return words as people can say them, the most frequent first."""
    words = dict[str, None]()
    while len(words) < size:
        parts = made.choices("bdfghklmnprstvw", k=made.choice((1, 2, 2, 3)))
        ends = made.choice(("", "", "n", "r", "st"))
        word = "".join(part + made.choice("aeiou") for part in parts) + ends
        words[word] = None
    return list(words)


@attrs.frozen
class Talk:
    """A source of sentences. ``names`` are rare: line ``n`` may have one of them."""

    words: list[str]
    names: list[str]
    weights: list[float]
    made: random.Random

    @classmethod
    def begin(cls) -> Talk:
        made = random.Random(17)
        words = vocabulary(30_000, made)
        names = [f"Xan{name}" for name in vocabulary(1_000, made)]
        weights = list(itertools.accumulate(1 / (n + 3) for n in range(len(words))))
        return cls(words, names, weights, made)

    def sentence(self, n: int) -> str:
        length = max(2, round(self.made.gauss(11, 5)))
        words = self.made.choices(self.words, cum_weights=self.weights, k=length)
        if self.made.random() < 0.1:
            words[self.made.randrange(length)] = "gold"
        if n % 20 == 0:  # one of a thousand names
            words[0] = self.names[n // 20 % len(self.names)]
        return " ".join(words).capitalize() + self.made.choice(".?!…")


@attrs.define
class Table:
    """A campaign that is being played; ``lines`` were said so far."""

    claim: Claim
    audiences: list[Reach]
    lines: int = 0
    evening: str = ""

    async def play(self, store: Memory, talk: Talk, until: int) -> None:
        while self.lines < until:
            if self.lines % EVENING == 0:
                evening = await store.transcripts.begin_evening(self.claim, self.now)
                self.evening = evening.id
            most = min(AT_ONCE, until - self.lines)
            entries = [self.line(talk) for _ in range(most)]
            await store.journal.append(self.claim, entries)

    @property
    def now(self) -> float:
        # An evening has 500 lines and is on another day.
        return START + self.lines // EVENING * 86400 + self.lines % EVENING * 20

    def line(self, talk: Talk) -> Entry:
        number, scene = self.lines, self.lines // SCENE
        said_by_player = number % 2 == 0
        player = PLAYERS[scene % len(PLAYERS)]
        line = Line(
            text=talk.sentence(number),
            speaker=f"Name of {player}" if said_by_player else "Bo",
            player=player if said_by_player else "",
            to="Bo" if said_by_player else "",
            reach=self.audiences[scene % len(self.audiences)],
            seconds=3.5,
            evening=self.evening,
        )
        entry = Entry(kind=EntryKind.LINE, at=self.now, line=line)
        self.lines += 1
        return entry


async def tables(store: Memory) -> list[Table]:
    made = random.Random(18)
    found = []
    for key in (MAIN, *OTHERS):
        claim = await store.journal.claim("", f"table of {key}", key)
        several = [Reach.of(*made.sample(NPCS, made.randint(1, 4))) for _ in range(11)]
        found.append(Table(claim, [*several, EVERYONE]))
    return found


async def timed(
    times: int, once: Callable[[NPC, int], Awaitable[object]]
) -> list[float]:
    found = []
    for number in range(times):
        viewer = NPC("Bo") if number % 2 else GAME_MASTER
        began = perf_counter()
        await once(viewer, number)
        found.append(perf_counter() - began)
    return found


async def lateness(times: int, once: Callable[[], Awaitable[object]]) -> list[float]:
    """Return how long after its deadline a call ended, if it did not end before."""
    made, found = random.Random(19), []
    for _ in range(times):
        deadline = perf_counter() + made.uniform(0.002, 0.03)
        with trio.move_on_after(deadline - perf_counter()) as scope:
            await once()
        if scope.cancelled_caught:
            found.append(perf_counter() - deadline)
    return found


def bare(path: Path, queries: Iterator[list[str]]) -> list[float]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    found = []
    for words in queries:
        began = perf_counter()
        connection.execute(
            """select rowid from (
                select rowid, bm25(line_words) as cost from line_words(?)
                order by cost limit 10)""",
            (query_of(1, words),),
        ).fetchall()
        found.append(perf_counter() - began)
    connection.close()
    return found


def bytes_in(path: Path) -> int:
    return path.stat().st_size


async def of_size(
    store: Memory, bare: Bare, talk: Talk, size: int, times: int
) -> list[Figure]:
    names = talk.names[: max(1, min(len(talk.names), size // 20))]
    few = max(10, times // 4)
    most = max(talk.words[:9], key=len)
    found = store.transcripts

    def name(number: int) -> str:
        return names[number * 7 % len(names)]

    async def rare(viewer: NPC, number: int) -> None:
        answer = await found.search(MAIN, viewer, f"What did you do to {name(number)}?")
        assert all(name(number) in x.line.text for x in answer.lines)

    async def mixed(viewer: NPC, number: int) -> None:
        answer = await found.search(
            MAIN, viewer, f"Where is the gold of {name(number)}"
        )
        assert answer.lines

    rares = ([name(number).lower()] for number in range(times))
    mixes = ([name(number).lower(), "gold"] for number in range(few))
    least = await timed(times, lambda _, __: store.journal.sessions("nobody"))
    on = f"of {size:,}"
    figures = [
        figure(f"rare {on}", await timed(times, rare), unit="ms", bare=bare(rares)),
        figure(
            f"a tenth {on}",
            await timed(few, lambda x, _: found.search(MAIN, x, "the gold")),
            unit="ms",
            bare=bare(iter([["gold"]] * few)),
        ),
        figure(f"mixed {on}", await timed(few, mixed), unit="ms", bare=bare(mixes)),
        figure(
            f"the most frequent {on}",
            await timed(few, lambda x, _: found.search(MAIN, x, most)),
            unit="ms",
            bare=bare(iter([[most]] * few)),
        ),
        figure(
            f"the last 20 {on}",
            await timed(times, lambda x, _: found.recent(MAIN, x)),
            unit="ms",
            bare=least,
        ),
        figure(
            f"20 evenings {on}",
            await timed(times, lambda x, _: found.evenings(MAIN, x)),
            unit="ms",
            bare=least,
        ),
    ]
    if size >= 100_000:
        late = await lateness(
            times, lambda: found.search(MAIN, GAME_MASTER, f"gold {most}")
        )
        slept = await lateness(times, partial(trio.sleep, 60))
        figures.append(figure(f"after the deadline {on}", late, unit="ms", bare=slept))
    return figures


async def measured(path: Path, sizes: tuple[int, ...], times: int) -> list[Figure]:
    figures = list[Figure]()
    talk = Talk.begin()
    async with open_memory(str(path)) as store:
        everyone = await tables(store)
        for size in sizes:
            for place, table in enumerate(everyone):
                await table.play(store, talk, size if not place else size // 10)
            figures += await of_size(store, partial(bare, path), talk, size, times)
        began = perf_counter()
        gone = await store.forget("", PLAYERS[0])
        took = perf_counter() - began
        lines = sum(table.lines for table in everyone)
        figures.append(figure("a player is forgotten", [took], unit="s"))
        assert gone.lines > lines / 1000
        a_line = bytes_in(path) / (lines - gone.lines)
        figures.append(Figure(name="bytes a line", unit="bytes", n=1, p50=a_line))
    return figures


def measure(quick: bool) -> list[Figure]:
    sizes = SIZES[:2] if quick else SIZES
    with TemporaryDirectory() as folder:
        path = Path(folder, "memory.db")
        return trio.run(measured, path, sizes, 20 if quick else 400)


MOST = f"of {SIZES[-1]:,}"
BENCHMARK = Benchmark(
    name="transcripts",
    promise="of 1,000,000 lines, rare words are found in 10 ms, frequent ones in 100",
    measure=measure,
    budgets=(
        Budget(figure="rare of 10,000", statistic="p99", at_most=10.0),
        Budget(figure=f"rare {MOST}", statistic="p99", at_most=10.0),
        Budget(figure=f"a tenth {MOST}", statistic="p99", at_most=100.0),
        Budget(figure=f"mixed {MOST}", statistic="p99", at_most=100.0),
        Budget(figure=f"the last 20 {MOST}", statistic="p99", at_most=5.0),
        Budget(figure=f"20 evenings {MOST}", statistic="p99", at_most=5.0),
        Budget(figure=f"after the deadline {MOST}", statistic="p99", at_most=5.0),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
