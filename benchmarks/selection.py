"""What choosing the tier of an utterance costs.

Promised: through its actor at most 200 µs at the median with 100 keywords and
600 characters; the rule alone at most 20 µs with 55 characters (G18: below a
millisecond, on every partial transcript).

Measured: `Ref.ask` of the selector actor, spawned as the runtime spawns it, with
50 deep and 50 standard phrases of which none occurs, so that all are looked for;
and `select` by itself with the shipped phrases. Both alternate with their bare
counterpart in the same run: for the actor the rule alone on the same text, for
the rule a look-up of every phrase as a plain substring.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from time import perf_counter
from typing import Any

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from glyphoxa_trio.actors import Backoff, Ref, spawn
from glyphoxa_trio.npc.selection import (
    DEEP_KEYWORDS,
    STANDARD_KEYWORDS,
    Keywords,
    SelectionRules,
    Situation,
    select,
)
from glyphoxa_trio.npc.selector import Select, Selector

SHORT = "Well met, friend. What would a room for the night cost?"
LETTERS = "abcdefghijklmnoprstuvw"


def measure(quick: bool) -> list[Figure]:
    n = 500 if quick else 5000
    return [trio.run(_actor, n), _rule(n)]


async def _actor(n: int) -> Figure:
    rng = random.Random(600)
    phrases = list(_phrases(rng, 100))
    rules = SelectionRules(
        deep=Keywords.of(phrases[:50]), standard=Keywords.of(phrases[50:])
    )
    text = _text(rng, 600)
    took: list[float] = []
    bare: list[float] = []
    async with trio.open_nursery() as nursery:
        ref: Ref[Any] = spawn(
            nursery,
            Selector(rules).run,
            name="selector",
            capacity=1024,
            restart=Backoff(first=0.05, ceiling=5.0),
        )
        request = Select(session="Greymantle", text=text, commit=True)
        await ref.ask(request, within=1.0)
        for _ in range(n):
            begun = perf_counter()
            answer = await ref.ask(request, within=0.05)
            took.append(perf_counter() - begun)
            begun = perf_counter()
            alone = select(rules, Situation(text=text))
            bare.append(perf_counter() - begun)
            if answer != alone or answer.reason != "ordinary talk":
                raise RuntimeError(f"a phrase was found: {answer}")
        await ref.stop(within=1.0)
    return figure("actor, 600 characters", took, unit="µs", bare=bare)


def _rule(n: int) -> Figure:
    rules = SelectionRules()
    phrases = (*DEEP_KEYWORDS, *STANDARD_KEYWORDS)
    took: list[float] = []
    bare: list[float] = []
    for _ in range(n):
        begun = perf_counter()
        select(rules, Situation(text=SHORT))
        took.append(perf_counter() - begun)
        begun = perf_counter()
        lowered = SHORT.lower()
        any(phrase in lowered for phrase in phrases)
        bare.append(perf_counter() - begun)
    return figure("rule, 55 characters", took, unit="µs", bare=bare)


def _phrases(rng: random.Random, count: int) -> Iterable[str]:
    """Phrases of one to three words, each with a letter that no text here has."""
    for at in range(count):
        words = ["".join(rng.choices(LETTERS, k=5)) for _ in range(at % 3)]
        yield " ".join(["".join(rng.choices(LETTERS, k=4)) + "x", *words])


def _text(rng: random.Random, length: int) -> str:
    text = ""
    while len(text) < length:
        text += "".join(rng.choices(LETTERS, k=rng.randint(2, 8))) + " "
    return text[:length]


BENCHMARK = Benchmark(
    name="selection",
    promise="a tier is chosen within 200 µs, the rule alone within 20 (p50)",
    measure=measure,
    budgets=(
        Budget(figure="actor, 600 characters", statistic="p50", at_most=200),
        Budget(figure="rule, 55 characters", statistic="p50", at_most=20),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
