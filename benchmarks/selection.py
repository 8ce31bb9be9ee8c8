"""The cost of choosing the tier of an utterance.

Promised: through its actor at most 200 µs at the median with 100 keywords and
600 characters; the rule alone at most 20 µs with 55 characters, and 30 with the names
of a campaign (required: below a millisecond, on every partial transcript).

Measured: `Ref.ask` of the selector actor, spawned as the runtime spawns it, with
50 deep and 50 standard phrases of which none occurs, so that all are looked for;
and `select` by itself with the shipped phrases and the names of twenty NPCs, on one
sentence that looks like a question for the books until it is understood, and on
sixteen of all kinds in turn, of 55 characters in the mean, also with the names of a
campaign of 1,000 entities. All alternate with their
bare counterpart in the same run: for the actor the rule alone on the same text, for
the rule a look-up of every phrase of the seed as a plain substring.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from time import perf_counter

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from glyphoxa_trio.actors import spawn
from glyphoxa_trio.npc.keywords import Keywords
from glyphoxa_trio.npc.phrases_deep import DEEP_KEYWORDS
from glyphoxa_trio.npc.phrases_standard import STANDARD_KEYWORDS
from glyphoxa_trio.npc.selection import SelectionRules, Situation, select
from glyphoxa_trio.npc.selector import Select, Selector
from glyphoxa_trio.npc.topics import NO_NAMES, PublicNames, topics

SHORT = "Well met, friend. What would a room for the night cost?"
SAID = (
    SHORT,
    "two ales and a mead please, and whatever the lady is having tonight",
    "I draw my axe and swing it at the biggest one of them",
    "no, I do not think that we should trust a single word of it",
    "could you pass me that rope and hold the door a moment",
    "ha, very funny, you say that to all of the girls, don't you",
    "that hits, fourteen points of slashing damage and he is down",
    "we will be upstairs, wake us an hour before dawn would you",
    "do you remember the old man that we met on the bridge",
    "where would one find this tower that they all speak of",
    "how does concentration work when I am hit by two arrows",
    "what did the duke promise us for the head of the beast",
    "is Brannoc really the brother of the one that we buried",
    "tell me everything you know about the cult of the moon",
    "think carefully, which of the guests left the hall early",
    "draw me a picture of the gate as it was before the fire",
)
LETTERS = "abcdefghijklmnoprstuvw"


def measure(quick: bool) -> list[Figure]:
    n = 500 if quick else 5000
    return [
        trio.run(_actor, n),
        _rule("rule, 55 characters", (SHORT,), n),
        _rule("rule, of all kinds", SAID, n),
        _rule("rule, with 1,000 names", SAID, n, _campaign(1000)),
    ]


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
        ref = spawn(nursery, Selector(rules).run, name="selector", capacity=1024)
        request = Select(Situation(text=text))
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


def _campaign(count: int) -> PublicNames:
    """The names of people and places: each with its first word, as parts count."""
    rng = random.Random(77)
    whole = [phrase.title() for phrase in _phrases(rng, count)]
    parts = [x.split()[0] for x in whole if " " in x]
    return PublicNames(tuple((name, name) for name in (*whole, *parts, "Karthagash")))


def _rule(
    name: str, said: tuple[str, ...], n: int, names: PublicNames = NO_NAMES
) -> Figure:
    rng = random.Random(55)
    npcs = [next(iter(_phrases(rng, 1))).title() for _ in range(19)] + ["Brannoc"]
    rules = SelectionRules(topics=topics(npcs, ["They meet at the Gilded Heron."]))
    phrases = (*DEEP_KEYWORDS, *STANDARD_KEYWORDS)
    took: list[float] = []
    bare: list[float] = []
    for at in range(n):
        text = said[at % len(said)]
        begun = perf_counter()
        select(rules, Situation(text=text, npc=npcs[0], names=names))
        took.append(perf_counter() - begun)
        begun = perf_counter()
        lowered = text.lower()
        any(phrase in lowered for phrase in phrases)
        bare.append(perf_counter() - begun)
    return figure(name, took, unit="µs", bare=bare)


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
        Budget(figure="rule, of all kinds", statistic="p50", at_most=20),
        Budget(figure="rule, with 1,000 names", statistic="p50", at_most=30),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
