"""Forgetting in a memory file: no byte of the words is left in any of its files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

import trio

from glyphoxa_trio.memory.entries import Entry, EntryKind, Line
from glyphoxa_trio.memory.errors import MemoryUnavailable
from glyphoxa_trio.memory.knowledge import Entity, EntityKind, Fact, Provenance
from glyphoxa_trio.memory.sqlite import forgetting
from glyphoxa_trio.memory.sqlite.store import SqliteMemory, open_sqlite
from glyphoxa_trio.memory.visibility import EVERYONE, GAME_MASTER, CampaignKey, Reach

BARROW = CampaignKey("barrow")
# Letters that nothing else has; an index may keep the end of a word without the rest.
MARK = "qxzjvwk"
MINE, YOURS = f"my{MARK}", "yxqqzkeeps"
FILES = ("", "-wal", "-shm", "-journal")
Forget = Callable[[SqliteMemory], "object"]


def counted(path: Path, word: str) -> int:
    """Return how often a word is in the bytes of the files, in upper case or lower."""
    several = (path.with_name(path.name + x) for x in FILES)
    data = b"".join(x.read_bytes() for x in several if x.exists())
    return data.lower().count(word.encode())


def answered(word: str, player: str, at: float, *, evening: str = "") -> Entry:
    line = Line(
        text=f"You say {word}",
        speaker="Bo",
        reach=Reach.of("Bo"),
        evening=evening,
        answers=(player,),
    )
    return Entry(kind=EntryKind.LINE, at=at, line=line)


def said(word: str, player: str, at: float, *, evening: str = "") -> Entry:
    line = Line(
        text=f"I say {word}, {word.upper()}! " * 3,
        speaker="Ann",
        player=player,
        to="Bo",
        reach=Reach.of("Bo"),
        corrected=f"I say {word}",
        evening=evening,
    )
    return Entry(kind=EntryKind.LINE, at=at, line=line)


async def plant(store: SqliteMemory, word: str, player: str, at: float) -> None:
    """Plant a word everywhere it can be."""
    claim = await store.journal.claim("", f"table of {player}", BARROW)
    evening = await store.transcripts.begin_evening(claim, at)
    n = 0
    for number in range(30):
        make = said if number % 2 else answered
        line = make(f"{word}{number}", player, at + number, evening=evening.id)
        n = await store.journal.append(claim, [line])
        for kind in (EntryKind.SNAPSHOT, EntryKind.TURN, EntryKind.HEARD):
            data = {"heard": word, "all": word * 3000}  # on pages of its own
            entry = Entry(kind=kind, at=at + number, npc="Bo", data=data)
            await store.journal.append(claim, [entry])
    await store.transcripts.end_evening(BARROW, evening.id, at + 100)
    await store.transcripts.set_summary(BARROW, evening.id, word * 9, EVERYONE)
    entity = Entity(
        id=player,
        kind=EntityKind.PLAYER,
        name=f"{word} the Red",
        aliases=(f"Ann {word}",),
        summary=word,
        attributes={"race": word},
    )
    facts = [
        Fact(text=f"{word} it is said", lines=((claim.session, n),)),
        Fact(
            text=f"{word} they claim",
            provenance=Provenance(player=player, by=word, at=at),
        ),
    ]
    await store.graph.put(BARROW, entities=[entity], facts=facts)
    chunks = await store.index.pending("m", limit=100)
    await store.index.add("m", [(x.id, [1.0] * 16) for _, x in chunks])


async def planted(store: SqliteMemory) -> None:
    await plant(store, MINE, "p1", 1000.0)
    await plant(store, YOURS, "p2", 5000.0)
    # Pages that are freed, and the log that is written back, have the words as well.
    removed = f"{MINE}removed"
    facts = [Fact(text=f"{removed} {x}") for x in range(50)]
    await store.graph.put(BARROW, facts=facts)
    for found in await store.graph.facts(BARROW, GAME_MASTER, removed, limit=99):
        await store.graph.remove(BARROW, fact=found.fact.id)


async def test_no_byte_of_what_a_player_said_is_left(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with open_sqlite(path) as store:
        await planted(store)
        assert counted(path, MARK) > 100
        gone = await store.forget("", "p1")
        assert gone.lines == 30
        assert min(gone.facts, gone.chunks, gone.entities, gone.snapshots) > 0
        assert counted(path, MARK) == 0
        # What others said is there, and is found.
        assert counted(path, YOURS) > 0
        answer = await store.transcripts.search(BARROW, GAME_MASTER, f"{YOURS}7")
        assert len(answer.lines) == 1
        assert len(await store.graph.facts(BARROW, GAME_MASTER, YOURS)) == 2
    assert counted(path, MARK) == 0


async def test_no_byte_of_what_is_old_is_left(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with open_sqlite(path) as store:
        await planted(store)
        await store.graph.remove(BARROW, entity="p1")
        for found in await store.graph.facts(BARROW, GAME_MASTER, MINE, limit=99):
            if found.fact.provenance.player:  # no line's
                await store.graph.remove(BARROW, fact=found.fact.id)
        gone = await store.forget_before(4000.0)
        assert (gone.lines, gone.facts) == (30, 1)
        assert counted(path, MARK) == 0
        answer = await store.transcripts.search(BARROW, GAME_MASTER, f"{YOURS}7")
        assert len(answer.lines) == 1


async def test_a_reader_of_an_older_state_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with open_sqlite(path) as store:
        await planted(store)
        reader = apsw.Connection(str(path))
        reader.execute("begin; select count(*) from line")

        async def leave() -> None:
            await trio.sleep(0.2)
            await trio.to_thread.run_sync(reader.close)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(leave)
            await store.forget("", "p1")
        assert counted(path, MARK) == 0


async def test_a_reader_that_stays_is_said_and_the_next_time_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgetting, "_PATIENCE", 0.1)
    path = tmp_path / "memory.db"
    async with open_sqlite(path) as store:
        await planted(store)
        reader = apsw.Connection(str(path))
        reader.execute("begin; select count(*) from line")
        with pytest.raises(MemoryUnavailable, match="another program is reading"):
            await store.forget("", "p1")
        reader.close()
        assert counted(path, MARK) > 0
        assert (await store.forget("", "p1")).lines == 0
        assert counted(path, MARK) == 0
