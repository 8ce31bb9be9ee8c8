"""After seven evenings with much trivia: does the prompt hold what a player asks for?

The evenings, their summaries and the questions are ours, and so is the trivia: rows of
small facts that a model finds in any evening of talk.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

from trio.testing import MockClock

from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.knowledge import Basis, Fact, Provenance
from glyphoxa_trio.memory.visibility import EVERYONE

from .support import KEY, evening, open_recall, says

SUMMARIES: Final = """
Aria came in out of the storm and asked for work. Bartok told her that the miller's
daughter Wenna has been missing for nine days. Aria offered to look for her in
return for a room over the stable. She paid for her stew with a Tethyrian coin,
which nobody here had seen before.

Aria brought back Wenna's red shawl from the marsh, with burnt edges. Old Fenn swore
that he saw lanterns at the drowned chapel. Bartok lent Aria his father's boat, the
Patient Goose, and she promised to return it before the new moon.

The Patient Goose came back with a hole in its bow. Aria found a crown under the
altar of the drowned chapel, and left it there, since the water rose when she
touched it. Brother Osric begged everyone to let the crown lie.

A stranger named Sable offered forty gold for a map of the chapel. Aria refused, and
Sable broke a chair on the way out. Bartok still wants three silver for that chair.
Aria told Bartok that mushrooms make her ill.

Wenna walked in alive, and remembers nothing but bells. Her father the miller gave
Aria a hunting horn of white bone. Brother Osric left for the capital to warn the
bishop.

Kael, the brother whom Aria seeks, was seen at Gull Rock with a crew of smugglers.
Fenn will sail there for two casks of cider. Bartok warned Aria of the reef that is
called the Widow's Teeth.

Aria came back from Gull Rock without Kael: he has sold himself to Sable for a year
and a day. She drank a toast to her mother, Ilse, who died on this day. Bartok wrote
off her debt of eleven silver.
""".strip().split("\n\n")
QUESTIONS: Final = (
    ("Who is the girl that went missing?", "Wenna"),
    ("What did I pay with on my first night here?", "Tethyrian"),
    ("Where do I sleep, by the way?", "stable"),
    ("What did the shawl look like?", "burnt"),
    ("Who saw the lanterns?", "Fenn"),
    ("Whose boat did you lend me?", "father"),
    ("When did I have to bring the boat back?", "new moon"),
    ("Where is the crown?", "altar"),
    ("Why did I leave the crown?", "water rose"),
    ("What did Brother Osric want of us?", "let the crown lie"),
    ("How much did Sable offer for the map?", "forty"),
    ("What do I owe you for the chair?", "three silver"),
    ("Stew with mushrooms tonight?", "ill"),
    ("What does Wenna remember?", "bells"),
    ("I blow the horn that the miller gave me.", "bone"),
    ("Where has Osric gone?", "capital"),
    ("Has anybody seen my brother?", "Gull Rock"),
    ("What does Fenn want for sailing us there?", "cider"),
    ("What was the reef called?", "Widow's Teeth"),
    ("Let us drink to my mother!", "Ilse"),
)
SMALL_TALK: Final = ("rain", "ale", "the dice", "the cat", "supper", "the roof")
TOKENS: Final = 700


def trivia() -> Iterator[str]:
    """265 small facts about the same people and things."""
    whose = ("Aria", "Fenn", "Wenna", "Brother Osric", "Sable", "the miller")
    did = ("likes", "dislikes", "has seen", "asked about", "paid for", "spoke of")
    what = ("the boat", "stew", "the map", "a chair", "the crown", "cider", "the reef")
    wanted = (f"{who} {does} {it}." for who, does, it in product(whose, did, what))
    yield from wanted
    yield from (f"The candle burnt for {n} hours." for n in range(13))


async def seven_evenings(memory: Memory) -> None:
    for number, summary in enumerate(SUMMARIES):
        chatter = [
            line
            for about in SMALL_TALK
            for line in (
                says(
                    "Aria", f"What do you say about {about}, number {number}?", "Bartok"
                ),
                says("Bartok", f"Of {about} I have nothing new to say.", "Aria"),
            )
        ]
        one = await evening(memory, 7 * (len(SUMMARIES) - number), *chatter)
        await memory.transcripts.set_summary(
            KEY, one, " ".join(summary.split()), EVERYONE
        )
    known = Provenance(basis=Basis.STATED)
    await memory.graph.put(
        KEY, facts=[Fact(text=x, provenance=known) for x in trivia()]
    )


async def test_seven_evenings_answer_seventeen_of_twenty_questions(
    autojump_clock: MockClock,
) -> None:
    async with open_recall() as table:
        await seven_evenings(table.memory.store)
        missed: list[str] = []
        for question, answer in QUESTIONS:
            told = "\n".join(await table.told(question))
            assert len(told) <= 4 * TOKENS
            if answer not in told:
                missed.append(question)
        assert len(missed) <= 3, missed
