"""How well the rules understand players: what they say, labelled (G18).

The halves of ``selection_corpus.tsv`` are told apart by a checksum of the words. The
rules were made with one half in view; what they get wrong in the other nobody saw.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from glyphoxa_trio.npc.selection import SelectionRules, Situation, select
from glyphoxa_trio.npc.topics import topics
from glyphoxa_trio.tools.tier import Tier

HERE = Path(__file__).parent
LISTENER = "Bartok the Barkeep"
RULES = SelectionRules(
    topics=topics(
        [LISTENER, "Greymantle the Sage", "Ysolde the Seer"],
        [
            "Keeper of the library at Hollow Hill.",
            "The history of the northern kingdoms.",
            "What became of the Ashen Crown.",
            "It is autumn in Emberfall.",
        ],
    )
)


def lines(name: str) -> Iterator[tuple[str, frozenset[Tier]]]:
    """The words, and the tiers that are right for them: several if it is ambiguous."""
    for line in (HERE / f"selection_{name}.tsv").read_text("utf-8").splitlines():
        if not line.startswith("#"):
            label, text, *note = line.split("\t")
            right = note[0].split() if label == "ambiguous" else [label]
            yield text, frozenset(map(Tier.parse, right))


CORPUS = list(lines("corpus"))
TUNED, HELD_OUT = (
    [x for x in CORPUS if zlib.crc32(x[0].encode()) % 2 == half] for half in (0, 1)
)


def tier_of(text: str) -> Tier:
    return select(RULES, Situation(text=text, npc=LISTENER)).tier


def macro_f1(said: Iterable[tuple[str, frozenset[Tier]]]) -> float:
    """The mean over the tiers of F1; what is ambiguous is left out."""
    judged = [(*right, tier_of(text)) for text, right in said if len(right) == 1]
    scores = []
    for tier in Tier:
        hits = sum(right is tier is found for right, found in judged)
        wrong = sum((right is tier) is not (found is tier) for right, found in judged)
        scores.append(2 * hits / (2 * hits + wrong))
    return sum(scores) / len(scores)


def test_the_corpus_is_large_and_balanced() -> None:
    assert len(CORPUS) >= 400
    assert len({text for text, _ in CORPUS}) == len(CORPUS)
    for tier in Tier:
        assert sum(right == {tier} for _, right in CORPUS) >= 100
    assert abs(len(TUNED) - len(HELD_OUT)) < len(CORPUS) / 10


def test_the_held_out_half_is_understood() -> None:
    # G18. First score 0.96; but who wrote the rules had written these lines, too.
    assert macro_f1(HELD_OUT) >= 0.9


def test_what_was_tuned_on_is_understood() -> None:
    assert macro_f1(TUNED) >= 0.97
    assert macro_f1(lines("tuning")) >= 0.97


def test_words_that_came_later_are_mostly_understood() -> None:
    # The honest figure: written after the rules, by somebody who no longer saw them
    # before him, and never tuned on. First score 0.87.
    assert macro_f1(lines("unseen")) >= 0.85


def test_an_ambiguous_line_gets_one_of_its_tiers() -> None:
    ambiguous = [(text, right) for text, right in TUNED if len(right) > 1]
    assert len(ambiguous) >= 5
    assert [text for text, right in ambiguous if tier_of(text) not in right] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Seeds 000 and 001, in their own words.
        ("what's your name?", Tier.FAST),
        ("tell me everything you know about the Shadowfell conspiracy", Tier.DEEP),
        ("tell me everything about the conspiracy", Tier.DEEP),
        ("think carefully", Tier.DEEP),
        ("take your time", Tier.DEEP),
        ("deep search", Tier.DEEP),
        ("generate image", Tier.DEEP),
        ("search the web", Tier.DEEP),
        ("remember", Tier.STANDARD),
        ("last time", Tier.STANDARD),
        ("rules", Tier.STANDARD),
        ("quest", Tier.STANDARD),
        ("who is", Tier.STANDARD),
        ("tell me about", Tier.STANDARD),
        # References to past events, distant locations, specific rules.
        ("the battle we fought", Tier.STANDARD),
        ("what happened yesterday", Tier.STANDARD),
        ("in the far north", Tier.STANDARD),
        ("what is going on in Waterdeep", Tier.STANDARD),
        ("What is the rule for grappling?", Tier.STANDARD),
        ("how does concentration work", Tier.STANDARD),
        ("what does blinded mean", Tier.STANDARD),
        # What used to be FAST.
        ("any quests for us?", Tier.STANDARD),
        ("She remembered the war", Tier.STANDARD),
        ("Who's the king?", Tier.STANDARD),
        ("who are they", Tier.STANDARD),
        ("tell us about the war", Tier.STANDARD),
        ("tell me more about it", Tier.STANDARD),
        ("last session you promised us a reward", Tier.STANDARD),
        ("Where is Greymantle's tower?", Tier.STANDARD),
        ("think very carefully", Tier.DEEP),
    ],
)
def test_the_examples_of_the_seeds_are_all_right(text: str, expected: Tier) -> None:
    # G18
    assert tier_of(text) is expected
