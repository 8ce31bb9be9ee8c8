"""A campaign leaves each store as an archive, and comes back whole (G38)."""

from __future__ import annotations

import json
from uuid import uuid4

import attrs
import pytest

from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.entries import Entry, EntryKind, Line
from glyphoxa_trio.memory.importing import ImportRefused
from glyphoxa_trio.memory.importing.archive import Archive, archive_of
from glyphoxa_trio.memory.importing.archiving import archived, lines_of, restore
from glyphoxa_trio.memory.knowledge import (
    Basis,
    Entity,
    EntityKind,
    Fact,
    Provenance,
    Relationship,
    Standing,
)
from glyphoxa_trio.memory.visibility import EVERYONE, GAME_MASTER, CampaignKey, Reach
from tests.memory.conftest import OpenStore

BO = Reach.of("Bo")


async def fill(memory: Memory, key: CampaignKey, session: str) -> None:
    """Two evenings of a session, with everything that an archive can have."""
    claim = await memory.journal.claim(key.tenant, session, key)
    for day in (1, 2):
        began = day * 100_000.0
        evening = await memory.transcripts.begin_evening(claim, began)
        said = [
            Line(text="An ale, Böb!", speaker="Ann", player="p1", to="Bo",
                 reach=BO, corrected="An ale, Bob!", seconds=1.5, evening=evening.id),
            Line(text="Here.", speaker="Bo", to="Ann", reach=EVERYONE,
                 evening=evening.id, answers=("p1", "p2")),
        ]  # fmt: skip
        last = await memory.journal.append(
            claim,
            [Entry(kind=EntryKind.LINE, at=began + 1, line=x) for x in said],
        )
        await memory.transcripts.end_evening(key, evening.id, began + 50)
        reach = BO if day == 1 else EVERYONE
        await memory.transcripts.set_summary(key, evening.id, f"Ale {day}.", reach)
    await memory.journal.append(
        claim, [Entry(kind=EntryKind.SNAPSHOT, at=3e5, data={"x": 1})]
    )
    await memory.journal.release(claim)
    told = Provenance(
        basis=Basis.CLAIMED, at=2.5, player="p1", by="Ann", confidence=0.5
    )
    await memory.graph.put(
        key,
        entities=[
            Entity(id="bo", kind=EntityKind.NPC, name="Bo", aliases=("the host",),
                   summary="x", attributes={"age": 4}, reach=Reach(secret=True)),
            Entity(id="inn", kind=EntityKind.LOCATION, name="Inn"),
        ],
        relationships=[
            Relationship(source="bo", type="owns", target="inn", attributes={"s": 1},
                         reach=Reach(topics=frozenset({"a"})), provenance=told)
        ],
        facts=[
            Fact(text="Ann owes ale.", about=("bo",), standing=Standing.QUEUED,
                 reach=BO, provenance=told, lines=((session, last - 1),)),
            Fact(text="No.", standing=Standing.REJECTED),
        ],
    )  # fmt: skip


def names() -> tuple[CampaignKey, str]:
    return CampaignKey(uuid4().hex), f"table-{uuid4().hex[:8]}"


def comparable(archive: Archive) -> Archive:
    """Without what another store numbers in its own way."""
    return attrs.evolve(
        archive,
        lines=tuple(attrs.evolve(x, n=0) for x in archive.lines),
        facts=tuple(attrs.evolve(x, id=0, lines=()) for x in archive.facts),
        evenings=tuple(
            attrs.evolve(x, summaries=tuple(sorted(x.summaries, key=str)))
            for x in archive.evenings
        ),
    )


async def test_an_archive_comes_back_whole(open_store: OpenStore) -> None:
    key, session = names()
    async with open_store() as memory:
        await fill(memory, key, session)
        archive = await archived(memory, key)
        assert len(archive.lines) == 4
        assert len(archive.facts) == 2
        assert [dict(x.summaries) for x in archive.evenings] == [
            {BO: "Ale 1."},
            {EVERYONE: "Ale 2."},
        ]
        text = json.dumps(archive.as_json())
        back = archive_of(json.loads(text), "it")
        # Into another tenant, where the session's name is free.
        there = CampaignKey(key.campaign, "guild")
        first = await restore(memory, there, back)
        counts = (first.lines, first.evenings, first.facts, first.skipped)
        assert counts == (4, 2, 2, ())
        again = await archived(memory, there)
        assert comparable(again) == attrs.evolve(comparable(archive), tenant="guild")
        ((source, number),) = again.facts[0].lines
        (line,) = [x for x in again.lines if (x.session, x.n) == (source, number)]
        assert line.line.text == "An ale, Böb!"
        (row,) = await memory.journal.sessions("guild")
        assert row.ended


async def test_an_older_archive_does_not_say_whom_a_line_answers(
    open_store: OpenStore,
) -> None:
    key, session = names()
    async with open_store() as memory:
        await fill(memory, key, session)
        data = (await archived(memory, key)).as_json()
        for line in data["lines"]:
            del line["answers"]
        back = archive_of(json.loads(json.dumps(data)), "it")
        there = CampaignKey(key.campaign, "guild")
        assert (await restore(memory, there, back)).lines == 4
        assert (await memory.forget("guild", "p1")).lines == 4


async def test_a_crowded_place_leaves_with_all_of_its_relationships(
    open_store: OpenStore,
) -> None:
    key, _ = names()
    places = [
        Entity(id=x, kind=EntityKind.LOCATION, name=x)
        for x in ("a", "b", *(f"x{n}" for n in range(300)))
    ]
    edges = [
        Relationship(source=hub, type="leads_to", target=x.id)
        for hub in ("a", "b")
        for x in places
        if x.id != hub
    ]
    async with open_store() as memory:
        await memory.graph.put(key, entities=places, relationships=edges)
        archive = await archived(memory, key)
        order = [(x.source, x.type, x.target) for x in archive.relationships]
        assert order == sorted((x.source, x.type, x.target) for x in edges)
        assert archive.as_json().keys() == Archive(campaign="x").as_json().keys()


async def test_restoring_twice_adds_nothing(open_store: OpenStore) -> None:
    key, session = names()
    async with open_store() as memory:
        await fill(memory, key, session)
        archive = await archived(memory, key)
        done = await restore(memory, key, archive)
        assert (done.lines, done.evenings, done.facts, done.skipped) == (0, 0, 0, ())
        assert await archived(memory, key) == archive
        claim = await memory.journal.claim("", session, key)
        (kept,) = await memory.journal.load(claim)  # what goes on is as it was
        assert kept.entry.data == {"x": 1}


async def test_half_an_evening_is_completed(open_store: OpenStore) -> None:
    key, session = names()
    async with open_store() as memory:
        await fill(memory, key, session)
        archive = await archived(memory, key)
        there = CampaignKey(key.campaign, "guild")
        half = attrs.evolve(archive, lines=archive.lines[:1], facts=())
        assert (await restore(memory, there, half)).lines == 1
        assert (await restore(memory, there, archive)).lines == 3
        assert len((await archived(memory, there)).lines) == 4


async def test_a_session_that_is_open_elsewhere_is_left_out(
    open_store: OpenStore,
) -> None:
    key, session = names()
    async with open_store() as memory, open_store() as other:
        await fill(memory, key, session)
        archive = await archived(memory, key)
        await other.journal.claim("", session, key)
        done = await restore(memory, key, archive)
        assert [x.where for x in done.skipped] == [f"session {session}", "1 fact"]
        assert "open in" in done.skipped[0].why


async def test_a_session_of_another_campaign_is_left_out(open_store: OpenStore) -> None:
    key, session = names()
    async with open_store() as memory:
        await fill(memory, key, session)
        archive = await archived(memory, key)
        done = await restore(memory, CampaignKey("other"), archive)
        assert done.skipped[0].why == (
            f"there is one of that name in the campaign {key.campaign}"
        )
        assert done.entities == 2


async def test_one_session_alone_is_exported(open_store: OpenStore) -> None:
    key, session = names()
    async with open_store() as memory:
        await fill(memory, key, session)
        await fill(memory, key, f"{session}-2")
        archive = await archived(memory, key, session=session)
        assert {x.session for x in archive.lines} == {session}
        assert len(archive.evenings) == 2
        assert archive.entities == ()


@pytest.mark.parametrize("times", ["distinct", "equal"])
async def test_no_line_is_lost_between_pages(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, times: str
) -> None:
    monkeypatch.setattr("glyphoxa_trio.memory.importing.archiving._PAGE", 3)
    key, session = names()
    async with open_store() as memory:
        claim = await memory.journal.claim("", session, key)
        lines = [
            Entry(
                kind=EntryKind.LINE,
                at=float(n) if times == "distinct" else float(n // 7),
                line=Line(text=f"line {n}", speaker="Bo", reach=EVERYONE),
            )
            for n in range(20)
        ]
        await memory.journal.append(claim, lines)
        found = [x.line.text async for x in lines_of(memory, key, session)]
        assert sorted(found) == sorted(x.line.text for x in lines if x.line)
        seen = await memory.transcripts.recent(key, GAME_MASTER, limit=50)
        assert found == [x.line.text for x in reversed(seen)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": "glyphoxa.memory/2"}, "not glyphoxa.memory/1"),
        ({"lines": 3}, "expected a list @ it.lines"),
        ({"lines": [3]}, "expected an object @ it.lines[0]"),
        ({"facts": [{}]}, "text is missing @ it.facts[0]"),
        ({"facts": [{"text": "x", "more": 1}]}, "unknown key 'more' @ it.facts[0]"),
        ({"entities": [{"id": "a", "kind": "x", "name": "A"}]}, "@ it.entities[0]"),
        ({"facts": [{"text": "x", "reach": {"npcs": "Bo"}}]}, "reach.npcs"),
        ({"facts": [{"text": "x", "provenance": 3}]}, "provenance"),
        ({"evenings": [{"id": 3}]}, "id: expected text @ it.evenings[0]"),
        (
            {"lines": [{"session": "s", "n": 1, "at": "x", "text": "a", "speaker": "b",
                        "reach": {}}]},
            "at: expected a number @ it.lines[0]",
        ),
    ],
)  # fmt: skip
def test_a_damaged_archive_is_refused_with_the_place(
    change: dict[str, object], said: str
) -> None:
    with pytest.raises(ImportRefused) as refused:
        archive_of({"format": "glyphoxa.memory/1", "campaign": "c", **change}, "it")
    assert said in str(refused.value)
