"""Pages: whole, in order, and right while others write (F44 to F49)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glyphoxa_trio.campaign import listing
from glyphoxa_trio.campaign.changing import delete, set_controller, update
from glyphoxa_trio.campaign.cursors import read, written
from glyphoxa_trio.campaign.errors import InvalidArgument
from glyphoxa_trio.campaign.listing import listed
from glyphoxa_trio.campaign.model import (
    Campaign,
    Character,
    Controller,
    Participant,
    Role,
)
from glyphoxa_trio.campaign.rules import create_campaign, create_character
from glyphoxa_trio.campaign.sqlite import SqliteFile
from glyphoxa_trio.campaign.store import Records
from glyphoxa_trio.servers.dispatch import RpcError

from .table import Guest, Refused, served, stamps


async def actors(guest: Guest, count: int, notes: str = "") -> list[str]:
    return [
        (await guest.call("actor_create", name=f"A{n}", kind="NPC", notes=notes))["id"]
        for n in range(count)
    ]


async def pages(guest: Guest, tool: str, word: str, **more: Any) -> list[list[str]]:
    """The ids of all pages, one after the other."""
    found: list[list[str]] = []
    while True:
        page = await guest.call(tool, **more)
        found.append([record["id"] for record in page[word]])
        if "next_cursor" not in page:
            return found
        more["cursor"] = page["next_cursor"]


async def test_pages_have_everything_once_in_the_order_of_its_making() -> None:
    async with served() as server:
        ann = server.guest()
        await ann.call("campaign_create", name="C", gm_mode="AI")
        await ann.call("set_context", campaign_id="camp_1")
        ids = await actors(ann, 7)
        got = await pages(ann, "actor_list", "actors", limit=3)
        assert got == [ids[:3], ids[3:6], ids[6:]]
        # A page that is just full is followed by none.
        assert await pages(ann, "actor_list", "actors", limit=7) == [ids]
        assert await pages(ann, "actor_list", "actors") == [ids]
        assert await pages(ann, "session_list", "sessions", limit=None) == [[]]


async def test_what_is_too_large_for_a_page_goes_on_on_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with served() as server:
        ann = server.guest()
        await ann.call("campaign_create", name="C", gm_mode="AI")
        await ann.call("set_context", campaign_id="camp_1")
        ids = await actors(ann, 40, notes="雪" * 4000)  # 12 kB each
        got = await pages(ann, "actor_list", "actors")
        assert [len(page) for page in got] == [10, 10, 10, 10]
        assert [*chain(*got)] == ids

        # A document of a resource says so as well, and the tool has the rest.
        monkeypatch.setattr("glyphoxa_trio.campaign.documents.MOST_DOCUMENT", 240_000)
        document = json.loads(await ann.read("campaign://camp_1/actors"))
        first = [record["id"] for record in document["actors"]]
        rest = await pages(ann, "actor_list", "actors", cursor=document["next_cursor"])
        assert [*first, *chain(*rest)] == ids
        assert len(first) == 19


async def test_a_cursor_is_of_one_list_only() -> None:
    async with served() as server:
        ann = server.guest()
        for name in ("C", "D"):
            await ann.call("campaign_create", name=name, gm_mode="AI")
        await ann.call("set_context", campaign_id="camp_1")
        await actors(ann, 3)
        cursor = (await ann.call("actor_list", limit=1))["next_cursor"]
        for tool, more in (
            ("actor_list", {"campaign_id": "camp_2"}),
            ("session_list", {}),
            ("campaign_list", {}),
            ("campaign_export", {}),
        ):
            with pytest.raises(Refused, match="cursor") as refused:
                await ann.call(tool, cursor=cursor, **more)
            assert refused.value.code == "InvalidArgument"


async def test_resources_are_listed_by_pages_with_the_campaigns() -> None:
    async with served() as server:
        ann = server.guest()
        for n in range(205):
            await ann.call("campaign_create", name=f"C{n}", gm_mode="AI")
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        sizes = []
        while True:
            page = await ann.ask("resources/list", cursor=cursor)
            found += page["resources"]
            sizes.append(len(page["resources"]))
            cursor = page.get("nextCursor")
            if cursor is None:
                break
        assert sizes == [102, 100, 5]
        assert [one["uri"] for one in found] == [
            "campaigns://list",
            "context://current",
            *(f"campaign://camp_{n}" for n in range(1, 206)),
        ]
        assert found[2]["title"] == "C0"
        with pytest.raises(RpcError) as refused:
            await ann.ask("resources/list", cursor="?")
        assert refused.value.data["code"] == "InvalidArgument"
        templates = await ann.ask("resources/templates/list")
        assert [one["uriTemplate"] for one in templates["resourceTemplates"]] == [
            "campaign://{campaign_id}",
            "campaign://{campaign_id}/participants",
            "campaign://{campaign_id}/actors",
            "campaign://{campaign_id}/sessions",
        ]


@given(
    limit=st.integers(1, 4),
    steps=st.lists(st.sampled_from(["add", "remove", "page"]), max_size=30),
)
def test_whoever_reads_on_while_others_write_misses_nothing_that_stays(
    limit: int, steps: list[str]
) -> None:
    clock = stamps()
    file = SqliteFile.open(None)
    campaign = file.write(
        lambda r: create_campaign(r, clock.moment(), name="C", gm_mode="AI")
    )
    there: list[str] = []  # now, in the order of making
    always: set[str] | None = None  # since the first page
    got: list[str] = []
    cursor: str | None = None

    def add(records: Records) -> str:
        of = {"name": "A", "kind": "PC"}
        return create_character(records, clock.moment(), campaign.id, **of).id

    def remove(records: Records, one: str) -> None:
        delete(records, clock.moment(), Character, campaign.id, one)

    def page(records: Records) -> listing.RecordPage:
        return listed(
            records, Character, campaign.id, cursor=cursor, limit=limit, size=10**6
        )

    there += [file.write(add) for _ in range(5)]
    for step in [*steps, *["page"] * 40]:
        if step == "add":
            there.append(file.write(add))
        elif step == "remove" and there:
            gone = there.pop(len(there) // 2)
            file.write(partial(remove, one=gone))
            always = None if always is None else always - {gone}
        elif step == "page" and (cursor is not None or not got):
            always = set(there) if always is None else always
            found = file.read(page)
            got += [record["id"] for record in found.records]
            cursor = found.next_cursor
            if cursor is None:
                break
    assert len(set(got)) == len(got)
    assert always is None or always <= set(got)
    assert got == sorted(got, key=lambda one: int(one.rpartition("_")[2]))
    file.close()


@given(st.text(st.characters(codec="ascii"), max_size=40), st.integers(0, 2**62))
def test_a_cursor_is_read_as_it_was_written(place: str, number: int) -> None:
    assert read(place, written(place, number)) == number
    assert read(place, None) == 0


@given(st.text(max_size=60))
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        read("actor camp_1", text)


def test_nothing_is_found_by_looking_at_all_of_it(tmp_path: Path) -> None:
    """By what SQLite has to look at, which is the same on every machine."""
    file = SqliteFile.open(tmp_path / "campaigns.db")
    plans = file.read(_plans)
    assert all("USING INDEX" in plan or "PRIMARY KEY" in plan for plan in plans), plans
    assert not any("TEMP B-TREE" in plan for plan in plans), plans
    file.close()


_ALICE = Participant(
    id="part_1",
    campaign_id="camp_1",
    display_name="Alice",
    role=Role.PLAYER,
    controller=Controller.HUMAN,
    created_at="",
    updated_at="",
)


def _plans(records: Any) -> list[str]:
    """How the queries of a page and of a look are carried out."""
    seen: list[str] = []
    connection = records._connection

    def trace(cursor: Any, sql: str, bindings: Any) -> bool:
        if sql.startswith(("select", "update")):
            seen.append(sql)
        return True

    connection.exec_trace = trace
    try:
        records.page(Character, "camp_1", 0, 10)
        records.page(Campaign, None, 0, 10)
        records.get(Character, "actor_1")
        records.active_session("camp_1")
        records.release(_ALICE, "")
        records.kept("key", 0.0)
    finally:
        connection.exec_trace = None
    found = []
    for sql in seen:
        values = (None,) * sql.count("?")
        rows = connection.execute(f"explain query plan {sql}", values)
        found += [str(detail) for *_, detail in rows]
    return found


def test_what_is_done_in_a_large_campaign_takes_no_more_steps(tmp_path: Path) -> None:
    """Counted in steps of SQLite's machine, which are the same on every machine."""
    clock = stamps()
    small, large = (SqliteFile.open(tmp_path / f"{n}.db") for n in range(2))
    of = {"name": "A", "kind": "PC"}

    def fill(records: Records, count: int) -> list[str]:
        campaign = create_campaign(records, clock.moment(), name="C", gm_mode="AI")
        ids = [campaign.id]
        for n in range(count):
            key = f"key {n}"
            made = create_character(records, clock.moment(), campaign.id, **of, key=key)
            ids.append(made.id)
        return ids

    def steps(file: SqliteFile, ids: list[str]) -> dict[str, int]:
        campaign, actor = ids[0], ids[len(ids) // 2]

        def do(records: Records, what: str) -> None:
            moment = clock.moment()
            match what:
                case "create":
                    create_character(records, moment, campaign, **of, key="new")
                case "control":
                    set_controller(records, moment, campaign, actor, "GM")
                case "rename":
                    update(records, moment, Campaign, "", campaign, {"name": "D"})
                case "delete":
                    delete(records, moment, Character, campaign, actor)
                case "page":
                    listed(records, Character, campaign, limit=5, size=10**6)

        found: dict[str, int] = {}
        for what in ("create", "control", "rename", "delete", "page"):
            counted = itertools.count()

            def count(counted: Iterator[int] = counted) -> bool:
                next(counted)
                return False

            file._database.connection.set_progress_handler(count, 1)
            file.write(partial(do, what=what))
            found[what] = next(counted)
        return found

    few = steps(small, small.write(partial(fill, count=20)))
    many = steps(large, large.write(partial(fill, count=2000)))
    assert min(few.values()) > 10
    for what in few:
        assert many[what] <= few[what] * 1.1, (what, few, many)
    for file in (small, large):
        file.close()
