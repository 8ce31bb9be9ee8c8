"""What is told of changes: exactly what reads differently now, whoever changed it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from operator import methodcaller
from pathlib import Path

import pytest

import trio
import trio.testing

from glyphoxa_trio.campaign import campaigns, sqlite
from glyphoxa_trio.campaign.sqlite import SqliteFile
from glyphoxa_trio.servers.definition import Changed

from .table import Served, served

LIST, ONE = "campaigns://list", "campaign://camp_1"
ALL = {ONE, f"{ONE}/participants", f"{ONE}/actors", f"{ONE}/sessions"}


@contextmanager
def told(server: Served) -> Iterator[list[str | None]]:
    """The URIs that clients would hear of inside the block."""
    heard: list[str | None] = []
    assert server.offer.resources is not None
    with server.offer.resources.changes.tap(lambda change: heard.append(change.uri)):
        yield heard


async def test_each_tool_tells_of_what_it_changes() -> None:
    async with served() as server:
        ann = server.guest()
        seen: list[tuple[str, set[str | None]]] = []

        async def call(tool: str, /, **arguments: object) -> dict[str, object]:
            with told(server) as heard:
                answer = await ann.call(tool, **arguments)
            assert len(set(heard)) == len(heard)
            seen.append((tool, set(heard)))
            return answer

        await call("campaign_create", name="C", gm_mode="AI", idempotency_key="k")
        await call("campaign_create", name="C", gm_mode="AI", idempotency_key="k")
        await call("set_context", campaign_id="camp_1")
        part = (await call("participant_create", display_name="A", role="GM"))["id"]
        actor = (await call("actor_create", name="A", kind="PC"))["id"]
        await call("actor_control_set", actor_id=actor, controller=part)
        await call("actor_control_set", actor_id=actor, controller=part)
        await call("actor_update", actor_id=actor, name="B")
        await call("campaign_update", theme_prompt="x")
        await call("session_start")
        await call("session_end")
        await call("participant_delete", participant_id=part)
        await call("actor_delete", actor_id=actor)
        await call("actor_list")
        await call("campaign_delete", campaign_id="camp_1")
        assert seen == [
            ("campaign_create", {None, LIST, ONE}),
            ("campaign_create", set()),
            ("set_context", {"context://current"}),
            ("participant_create", {LIST, ONE, f"{ONE}/participants"}),
            ("actor_create", {LIST, ONE, f"{ONE}/actors"}),
            ("actor_control_set", {f"{ONE}/actors"}),
            ("actor_control_set", set()),
            ("actor_update", {f"{ONE}/actors"}),
            ("campaign_update", {None, LIST, ONE}),
            ("session_start", {f"{ONE}/sessions"}),
            ("session_end", {f"{ONE}/sessions"}),
            ("participant_delete", {LIST, ONE, f"{ONE}/participants", f"{ONE}/actors"}),
            ("actor_delete", {LIST, ONE, f"{ONE}/actors"}),
            ("actor_list", set()),
            ("campaign_delete", {None, LIST, *ALL}),
        ]


@pytest.fixture
def looking_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaigns, "LOOKING", 0.01)


async def heard_until(server: Served, uri: str | None) -> set[str | None]:
    assert server.offer.resources is not None
    found: set[str | None] = set()
    with server.offer.resources.changes.subscribe() as changes:
        async for change in changes:
            assert isinstance(change, Changed)
            found.add(change.uri)
            if change.uri == uri:
                break
    return found


async def test_what_another_program_changes_is_told_too(
    tmp_path: Path, looking_often: None
) -> None:
    path = tmp_path / "campaigns.db"
    with trio.fail_after(30):
        async with served(path) as here, served(path) as there:
            await here.guest().call("campaign_create", name="C", gm_mode="AI")
            heard: set[str | None] = set()

            async def listen() -> None:
                heard.update(await heard_until(there, f"{ONE}/sessions"))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(listen)
                await trio.testing.wait_all_tasks_blocked()
                of = {"campaign_id": "camp_1"}
                await here.guest().call("actor_create", name="A", kind="PC", **of)
            assert heard == {None, LIST, *ALL}


def test_only_others_are_told_and_only_once(tmp_path: Path) -> None:
    path = tmp_path / "campaigns.db"
    writing = SqliteFile.open(path)
    reading = SqliteFile.open(path, program=writing.program)
    other = SqliteFile.open(path)
    for campaign in ("camp_2", "camp_1", "camp_2"):
        writing.write(methodcaller("touch", campaign))
    for ours in (writing, reading):
        assert ours.changed_elsewhere() == frozenset()
    assert other.changed_elsewhere() == frozenset({"camp_1", "camp_2"})
    assert other.changed_elsewhere() == frozenset()
    other.write(methodcaller("touch", "camp_3"))
    assert reading.changed_elsewhere() == frozenset({"camp_3"})
    assert other.changed_elsewhere() == frozenset()
    for file in (writing, reading, other):
        file.close()


async def test_too_many_changes_elsewhere_are_told_in_general(
    tmp_path: Path, looking_often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "MOST_CHANGES", 3)
    path = tmp_path / "campaigns.db"
    first = SqliteFile.open(path)
    with trio.fail_after(30):
        async with served(path) as server:
            ann = server.guest()
            for n in range(6):
                await ann.call("campaign_create", name=f"C{n}", gm_mode="AI")
    assert first.changed_elsewhere() is None
    assert first.changed_elsewhere() == frozenset()
    first.close()
