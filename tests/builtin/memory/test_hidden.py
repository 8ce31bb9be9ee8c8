"""Property: the tools answer as if nothing existed that the viewer may not know."""

from __future__ import annotations

from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

import trio

from glyphoxa_trio.memory.entries import Line
from glyphoxa_trio.memory.knowledge import (
    Entity,
    EntityKind,
    Fact,
    Relationship,
    Standing,
)
from glyphoxa_trio.memory.visibility import Reach, Viewer
from glyphoxa_trio.tools.definition import ToolError

from .support import HERE, Told

WORDS = ("dragon", "crown", "mill", "silver", "heir", "Red Wyrm", "ale")
NPCS = ("Bartok", "Ysolde", "Greta")

reaches = st.builds(
    Reach,
    st.none() | st.sets(st.sampled_from(NPCS)).map(frozenset),
    st.sampled_from([frozenset(), frozenset({"court"}), frozenset({"sea"})]),
    st.booleans(),
)
heard = st.builds(Reach, st.none() | st.sets(st.sampled_from(NPCS)).map(frozenset))
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
ids = st.sampled_from(("a", "b", "heir", "red-wyrm"))


@attrs.frozen
class Campaign:
    """What is put into a store."""

    evenings: list[tuple[list[Line | None], list[tuple[str, Reach]]]]
    entities: list[Entity]
    edges: list[Relationship]
    facts: list[Fact]

    def seen_by(self, viewer: Viewer) -> Campaign:
        """The same without everything that the viewer may not know."""

        def seen(things: list[Any]) -> list[Any]:
            return [x for x in things if x.reach.reaches(viewer)]

        entities = seen(self.entities)
        known = {x.id for x in entities}
        return Campaign(
            [
                (
                    [x if x and x.reach.reaches(viewer) else None for x in lines],
                    [x for x in told if x[1].reaches(viewer)],
                )
                for lines, told in self.evenings
            ],
            entities,
            [x for x in seen(self.edges) if {x.source, x.target} <= known],
            [
                attrs.evolve(x, about=tuple(y for y in x.about if y in known))
                for x in seen(self.facts)
            ],
        )

    async def told(self, topics: frozenset[str]) -> Told:
        told = Told(topics=topics)
        for number, (lines, summaries) in enumerate(self.evenings):
            await told.evening(*lines, table=f"t{number}", summaries=summaries)
        await told.memory.graph.put(
            HERE, entities=self.entities, relationships=self.edges, facts=self.facts
        )
        return told


@st.composite
def campaigns(draw: st.DrawFn) -> Campaign:
    lines = st.lists(
        st.builds(Line, text=texts, speaker=st.sampled_from(NPCS), reach=heard),
        max_size=4,
    )
    summaries = st.lists(st.tuples(texts, heard), max_size=1)
    entities = draw(
        st.lists(
            st.builds(
                Entity,
                id=ids,
                kind=st.sampled_from(EntityKind),
                name=texts,
                reach=reaches,
            ),
            unique_by=lambda x: x.id,
            max_size=4,
        )
    )
    known = st.sampled_from([x.id for x in entities] or ["a"])
    edges = st.builds(
        Relationship, source=known, target=known, type=st.just("x"), reach=reaches
    )
    facts = st.builds(
        Fact,
        text=texts,
        about=st.lists(known, max_size=2).map(tuple) if entities else st.just(()),
        standing=st.sampled_from(Standing),
        reach=reaches,
    )
    return Campaign(
        draw(st.lists(st.tuples(lines, summaries), max_size=3)),
        entities,
        draw(st.lists(edges, max_size=3)) if entities else [],
        draw(st.lists(facts, max_size=4, unique_by=lambda x: x.text)),
    )


names = st.sampled_from((*WORDS, "a", "b", "red-wyrm", "wyrm", "dragons", "me"))
sessions = st.sampled_from(("last", "current", "t0", "t1", "t1-2026-11-13", "t9"))
calls = st.one_of(
    st.tuples(st.just("memory.search_sessions"), st.fixed_dictionaries(
        {"query": texts}, optional={"session_id": sessions})),
    st.tuples(st.just("memory.query_entities"), st.fixed_dictionaries(
        {}, optional={"name": names, "type": st.sampled_from(EntityKind)})),
    st.tuples(st.just("memory.get_summary"), st.fixed_dictionaries(
        {"entity_id": names})),
    st.tuples(st.just("memory.search_facts"), st.fixed_dictionaries({"query": texts})),
    st.tuples(st.just("memory.remember"), st.fixed_dictionaries(
        {"fact": texts, "about": st.lists(names, max_size=2)})),
    st.tuples(st.just("sessions.get_summary"), st.fixed_dictionaries(
        {"session_id": sessions})),
    st.tuples(st.just("sessions.search_history"), st.fixed_dictionaries(
        {"query": texts})),
)  # fmt: skip


async def answer_of(told: Told, npc: str, name: str, arguments: dict[str, Any]) -> Any:
    try:
        return await told.ask(npc, name, **arguments)
    except ToolError as error:
        return str(error)


@settings(max_examples=60, deadline=None)
@given(
    campaigns(),
    st.sampled_from(NPCS),
    st.sampled_from([frozenset[str](), frozenset({"court"})]),
    st.lists(calls, max_size=8),
)
def test_what_is_hidden_changes_no_answer(
    campaign: Campaign,
    npc: str,
    topics: frozenset[str],
    asked: list[tuple[str, dict[str, Any]]],
) -> None:  # G38
    async def compare() -> None:
        everything = await campaign.told(topics)
        visible = await campaign.seen_by(Viewer(npc, topics)).told(topics)
        for name, arguments in asked:
            with_more = await answer_of(everything, npc, name, arguments)
            without = await answer_of(visible, npc, name, arguments)
            assert with_more == without, name

    trio.run(compare)
