"""Facts are told by how sure they are, and how new."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trio.testing import MockClock

from glyphoxa_trio.memory.knowledge import AUTHORED, Basis, Fact, Provenance, Standing
from glyphoxa_trio.recall.ranking import by_worth, worth

from .support import KEY, NOW, open_recall
from .test_context import without

DAY = 86_400.0
FACTS = st.builds(
    Fact,
    text=st.just("It is so."),
    standing=st.sampled_from([Standing.ACCEPTED, Standing.CLAIMED]),
    provenance=st.builds(
        Provenance,
        basis=st.sampled_from(Basis),
        at=st.floats(0, 2 * NOW),
        confidence=st.floats(0, 1),
        confirmed=st.booleans(),
    ),
)


def said(text: str, days_ago: float, confidence: float = 0.9) -> Fact:
    told = Provenance(
        basis=Basis.STATED, at=NOW - days_ago * DAY, confidence=confidence
    )
    return Fact(text=text, provenance=told)


def test_what_is_sure_and_new_comes_first() -> None:
    claimed = Provenance(basis=Basis.CLAIMED, by="Aria", player="a", at=NOW)
    facts = [
        said("old", 300),
        Fact(text="claimed", standing=Standing.CLAIMED, provenance=claimed),
        said("unsure", 0, 0.6),
        said("new", 1),
        Fact(text="written", provenance=AUTHORED),
    ]
    ranked = [x.text for x in by_worth(facts, NOW)]
    assert ranked == ["written", "new", "unsure", "claimed", "old"]


@given(FACTS, st.floats(0, 2 * NOW), st.floats(0, NOW))
def test_worth_is_bounded_and_never_grows_with_age(
    fact: Fact, now: float, later: float
) -> None:
    assert 0 < worth(fact, now + later) <= worth(fact, now) <= 1


async def test_of_facts_that_fit_alike_the_newer_and_surer_is_told_first(
    autojump_clock: MockClock,
) -> None:
    facts = [
        said("Kael is at the mill.", 1),
        said("Kael is at the inn.", 200),
        said("Kael is at sea.", 1, 0.3),
    ]
    async with open_recall(without(facts=400)) as table:
        await table.memory.store.graph.put(KEY, facts=facts)
        told = await table.told("Tell me about Kael.")
        assert [x.partition("at ")[2][:4] for x in told] == ["the ", "the ", "sea."]
        assert "mill" in told[0]
    async with open_recall(without(identity=400)) as table:
        about = [
            Fact(text=x.text, provenance=x.provenance, about=("bartok",)) for x in facts
        ]
        await table.memory.store.graph.put(KEY, facts=about)
        told = await table.told("Hm?")
        assert "waters his ale" in told[1]  # the game master wrote it
        assert "mill" in told[2]
