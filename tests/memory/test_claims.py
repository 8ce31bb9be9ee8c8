"""What becomes of a statement that was extracted or remembered (G38)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.memory.claims import (
    claimed_by,
    extracted_fact,
    remembered_fact,
    standing_of,
)
from glyphoxa_trio.memory.entries import Line
from glyphoxa_trio.memory.errors import KnowledgeRefused
from glyphoxa_trio.memory.knowledge import Basis, Standing
from glyphoxa_trio.memory.visibility import NO_NPC, Reach

BOTH = Reach.of("Bartok", "Ann")
DAN = Line(text="I am the king!", speaker="Dan", player="p1", reach=BOTH, evening="e")
EVE = Line(text="He is.", speaker="Eve", player="p2", reach=BOTH, evening="e")
BARTOK = Line(text="All hail.", speaker="Bartok", reach=Reach.of("Bartok"))
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


@given(st.floats(0, 1), st.floats(0, 1), st.booleans())
def test_no_confidence_makes_the_word_of_players_a_fact(
    confidence: float, accept_above: float, inferred: bool
) -> None:
    fact = extracted_fact(
        "Dan is the king.",
        [(("t", 1), DAN), (("t", 2), EVE)],
        at=1.0,
        confidence=confidence,
        accept_above=accept_above,
        inferred=inferred,
    )
    assert fact.standing is Standing.CLAIMED
    told = fact.provenance
    assert (told.basis, told.player, told.by) == (Basis.CLAIMED, "p1", "Dan")
    assert not told.confirmed


def test_a_statement_that_an_npc_made_too_is_no_claim() -> None:
    assert claimed_by([DAN, BARTOK]) == ("", "")
    for confidence, standing in ((0.9, Standing.ACCEPTED), (0.1, Standing.QUEUED)):
        fact = extracted_fact(
            "Dan is the king.",
            [(("t", 1), DAN), (("t", 2), BARTOK)],
            at=1.0,
            confidence=confidence,
            accept_above=ACCEPT,
        )
        assert fact.standing is standing
        assert fact.provenance.basis is Basis.STATED
        assert fact.reach == Reach.of("Bartok")  # Ann did not hear all of it
        assert fact.lines == (("t", 1), ("t", 2))


def test_what_no_line_says_reaches_no_npc() -> None:
    fact = extracted_fact("Hm.", [], at=1.0, confidence=1.0, accept_above=ACCEPT)
    assert fact.reach == NO_NPC


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
    with pytest.raises(KnowledgeRefused, match=r"confidence.*from 0 to 1"):
        extracted_fact("Hm.", [], at=1.0, confidence=2.0, accept_above=ACCEPT)
    with pytest.raises(KnowledgeRefused, match=r"text: it is empty"):
        remembered_fact("  ", npc="Bartok", at=1.0)
