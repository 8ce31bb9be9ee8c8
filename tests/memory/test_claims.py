"""What becomes of a statement that was extracted or remembered (G38)."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.memory.claims import expired, remembered_fact, standing_of
from glyphoxa_trio.memory.errors import KnowledgeRefused
from glyphoxa_trio.memory.knowledge import Basis, Fact, Provenance, Standing
from glyphoxa_trio.memory.visibility import Reach

ACCEPT = 0.8


@pytest.mark.parametrize(
    ("basis", "confidence", "standing"),
    [
        (Basis.AUTHORED, 0.0, Standing.ACCEPTED),
        (Basis.STATED, 0.8, Standing.ACCEPTED),
        (Basis.STATED, 0.79, Standing.QUEUED),
        (Basis.INFERRED, 0.8, Standing.ACCEPTED),
        (Basis.INFERRED, 0.79, Standing.QUEUED),
        (Basis.CLAIMED, 1.0, Standing.CLAIMED),
        (Basis.CLAIMED, 0.0, Standing.CLAIMED),
    ],
)
def test_the_table(basis: Basis, confidence: float, standing: Standing) -> None:
    assert standing_of(basis, confidence, accept_above=ACCEPT) is standing


def test_what_an_npc_remembers_is_stated_by_it() -> None:
    alone = remembered_fact("The beer is thin.", npc="Bartok", at=1.0)
    assert alone.reach == Reach.of("Bartok")
    assert alone.standing is Standing.ACCEPTED
    told = alone.provenance
    assert (told.basis, told.by, told.player) == (Basis.STATED, "Bartok", "")


def test_what_an_npc_remembers_in_a_players_turn_is_that_players_claim() -> None:
    king = remembered_fact(
        "Dan is the king.", npc="Bartok", at=1.0, player=("p1", "Dan")
    )
    assert king.reach == Reach.of("Bartok")
    assert king.standing is Standing.CLAIMED
    told = king.provenance
    assert (told.basis, told.by, told.player) == (Basis.CLAIMED, "Dan", "p1")


def test_a_statement_that_cannot_be_kept_is_refused() -> None:
    with pytest.raises(KnowledgeRefused, match=r"text: it is empty"):
        remembered_fact("  ", npc="Bartok", at=1.0)


FACTS = st.lists(
    st.builds(
        Fact,
        text=st.just("So it is."),
        about=st.lists(st.sampled_from("ab"), unique=True, max_size=2).map(tuple),
        standing=st.sampled_from(Standing),
        provenance=st.builds(
            Provenance,
            basis=st.just(Basis.CLAIMED),
            at=st.integers(0, 6).map(float),
            confirmed=st.booleans(),
        ),
    ),
    max_size=8,
).map(lambda facts: [attrs.evolve(x, id=n) for n, x in enumerate(facts, 1)])


@given(FACTS)
def test_a_claim_is_dropped_if_nobody_decided_and_nothing_came_of_it(
    facts: list[Fact],
) -> None:
    gone = {x.id for x in expired(facts, 4.0)}

    for fact in facts:
        later = any(
            x.provenance.at > fact.provenance.at and {*x.about} & {*fact.about}
            for x in facts
        )
        waiting = fact.standing in (Standing.QUEUED, Standing.CLAIMED)
        undecided = waiting and not fact.provenance.confirmed
        old = fact.provenance.at in (1.0, 2.0, 3.0)  # 0 is not known
        assert (fact.id in gone) == (undecided and old and not later)
