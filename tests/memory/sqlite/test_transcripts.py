"""Lines in a memory file: what the contract leaves open, and what its size brings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import trio

from glyphoxa_trio.memory.entries import Entry, EntryKind, Line
from glyphoxa_trio.memory.in_memory import InMemory
from glyphoxa_trio.memory.sqlite import found_lines, line_words
from glyphoxa_trio.memory.sqlite.store import SqliteMemory, open_sqlite
from glyphoxa_trio.memory.visibility import (
    EVERYONE,
    GAME_MASTER,
    CampaignKey,
    Reach,
    Viewer,
)

BARROW = CampaignKey("barrow")
BO, MIRA = Viewer("Bo"), Viewer("Mira")


def said(text: str, at: float, reach: Reach = EVERYONE) -> Entry:
    line = Line(text=text, speaker="Ann", player="p1", reach=reach)
    return Entry(kind=EntryKind.LINE, at=at, line=line)


async def tell(
    store: SqliteMemory | InMemory,
    lines: Sequence[str],
    campaign: CampaignKey = BARROW,
    reach: Reach = EVERYONE,
) -> None:
    claim = await store.journal.claim("", f"table of {campaign}", campaign)
    entries = [said(text, float(at), reach) for at, text in enumerate(lines)]
    await store.journal.append(claim, entries)


_LINES = st.lists(
    st.lists(st.sampled_from(["gold", "dragon", "key", "a", "hm"]), max_size=6).map(
        " ".join
    ),
    max_size=25,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=_LINES, query=st.sampled_from(["gold", "dragon gold", "a key", "hm a"]))
def test_lines_are_found_in_the_order_of_the_model(
    tmp_path: Path, lines: list[str], query: str
) -> None:
    async def run() -> None:
        model = InMemory()
        await tell(model, lines)
        async with open_sqlite(tmp_path / "memory.db") as store:
            number = len(await store.journal.sessions())
            here = CampaignKey(f"barrow {number}")
            await tell(store, lines, here)
            for limit in (3, 100):
                wanted = await model.transcripts.search(
                    BARROW, GAME_MASTER, query, limit=limit
                )
                answer = await store.transcripts.search(
                    here, GAME_MASTER, query, limit=limit
                )
                assert [(x.n, x.score, x.snippet) for x in answer.lines] == [
                    (x.n, x.score, x.snippet) for x in wanted.lines
                ]

    trio.run(run)


async def test_of_too_many_matches_the_newest_are_ranked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(found_lines, "MOST_RANKED", 10)
    async with open_sqlite(tmp_path / "memory.db") as store:
        # The oldest would be the best.
        await tell(store, ["gold gold", *["some gold"] * 9])
        answer = await store.transcripts.search(BARROW, BO, "gold")
        assert not answer.partial
        assert [x.at for x in answer.lines][:2] == [0.0, 9.0]
        await tell(store, ["more gold"])
        answer = await store.transcripts.search(BARROW, BO, "gold")
        assert answer.partial
        assert {x.line.text for x in answer.lines} == {"some gold", "more gold"}


async def test_of_many_frequent_words_the_rarest_are_searched_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(found_lines, "MOST_RANKED", 10)
    async with open_sqlite(tmp_path / "memory.db") as store:
        await tell(store, ["rare", *["some"] * 9, *["more"] * 11, *["most"] * 12])
        answer = await store.transcripts.search(
            BARROW, BO, "more rare some most", limit=4
        )
        assert answer.partial
        assert [x.line.text for x in answer.lines] == ["rare", *["some"] * 3]


async def test_an_audience_beyond_the_numbers_of_the_index_is_searched_by_the_master(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_words, "MOST_AUDIENCES", 0)
    monkeypatch.setattr(found_lines, "MOST_AUDIENCES", 0)
    async with open_sqlite(tmp_path / "memory.db") as store:
        await tell(store, ["gold"], reach=Reach.of("Bo"))
        for viewer, lines in ((BO, 0), (MIRA, 0), (GAME_MASTER, 1)):
            answer = await store.transcripts.search(BARROW, viewer, "gold")
            assert len(answer.lines) == lines
        assert len(await store.transcripts.recent(BARROW, BO)) == 1


async def test_a_search_that_is_cancelled_leaves_the_store_as_it_was(
    tmp_path: Path,
) -> None:
    async with open_sqlite(tmp_path / "memory.db") as store:
        words = [f"word{x} gold silver copper" for x in range(20)]
        await tell(store, words * 250)
        query = " ".join(words)
        for _ in range(5):
            with trio.move_on_after(0.001) as scope:
                for _ in range(1000):
                    await store.transcripts.search(BARROW, GAME_MASTER, query)
            assert scope.cancelled_caught
            answer = await store.transcripts.search(BARROW, GAME_MASTER, "word7")
            assert len(answer.lines) == 10
        await tell(store, ["more"])
