"""The rules of visibility: what is made of several reaches no NPC that one lacks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.memory.errors import KnowledgeRefused
from glyphoxa_trio.memory.visibility import (
    EVERYONE,
    GAME_MASTER,
    NO_NPC,
    Reach,
    Viewer,
    common,
)

NPCS = st.sampled_from(["Ann", "Bartok", "Nix", "ann"])
TOPICS = st.sampled_from(["magic", "Magic ", "war", "a b", "ß", "İ", "ǰ"])
REACHES = st.builds(
    Reach,
    st.none() | st.frozensets(NPCS, max_size=3),
    st.frozensets(TOPICS, max_size=3),
    st.booleans(),
)
VIEWERS = st.builds(Viewer, NPCS, st.frozensets(TOPICS | st.just(""), max_size=3))


@given(REACHES, REACHES, VIEWERS)
def test_both_reach_a_viewer_that_their_intersection_reaches(
    one: Reach, other: Reach, viewer: Viewer
) -> None:
    if (one & other).reaches(viewer):
        assert one.reaches(viewer)
        assert other.reaches(viewer)


@given(st.lists(REACHES, min_size=1, max_size=5), VIEWERS)
def test_all_sources_reach_a_viewer_that_what_is_made_of_them_reaches(
    several: list[Reach], viewer: Viewer
) -> None:
    if common(several).reaches(viewer):
        assert all(x.reaches(viewer) for x in several)


@given(REACHES, REACHES, VIEWERS)
def test_an_intersection_loses_no_npc_unless_topics_differ(
    one: Reach, other: Reach, viewer: Viewer
) -> None:
    both = one.reaches(viewer) and other.reaches(viewer)
    exact = not (one.topics and other.topics) or one.topics == other.topics
    if exact:
        assert (one & other).reaches(viewer) == both
    assert (one & other).reaches(viewer) == (other & one).reaches(viewer)


@given(REACHES)
def test_everyone_changes_nothing_and_the_game_master_sees_all(one: Reach) -> None:
    assert one & one == one
    for viewer in (Viewer("Ann"), Viewer("Nix", frozenset({"magic", "war"}))):
        assert (one & EVERYONE).reaches(viewer) == one.reaches(viewer)
    assert one.reaches(GAME_MASTER)
    assert not (one & NO_NPC).reaches(Viewer("Ann", one.topics))


def test_what_is_made_of_nothing_reaches_no_npc() -> None:
    assert common([]) == NO_NPC
    assert not NO_NPC.reaches(Viewer("Ann"))


@pytest.mark.parametrize(
    ("reach", "knowing"),
    [
        (Reach(), "Ann Bartok"),
        (Reach.of("Ann"), "Ann"),
        (Reach(secret=True), ""),
        (Reach(frozenset({"Ann"}), secret=True), "Ann"),
        (Reach(topics=frozenset({"MAGIC "})), "Bartok"),
        (Reach(frozenset({"Ann"}), frozenset({"magic"})), ""),
        (Reach(frozenset({"Bartok"}), frozenset({"magic", "x"}), True), "Bartok"),
        (Reach(topics=frozenset({"magic"}), secret=True), ""),
    ],
)
def test_topics_and_secrets(reach: Reach, knowing: str) -> None:
    viewers = Viewer("Ann", frozenset({"war"})), Viewer("Bartok", frozenset({"Magic"}))
    assert [x.npc for x in viewers if reach.reaches(x)] == knowing.split()


def test_an_empty_topic_is_refused_since_without_it_more_would_know() -> None:
    with pytest.raises(KnowledgeRefused, match="topics: one is empty"):
        Reach(topics=frozenset({"magic", " "}))
    assert Viewer("Ann", frozenset({""})).topics == frozenset()
