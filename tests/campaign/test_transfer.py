"""A campaign as documents, and back: all of it, or nothing."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio

from glyphoxa_trio.campaign.stamps import Stamps
from glyphoxa_trio.campaign.tools import transfer
from glyphoxa_trio.tools.arguments import MAX_BYTES

from .table import Guest, Refused, Served, served


async def filled(guest: Guest, actors: int = 3, notes: str = "n") -> None:
    """A campaign with some of everything, chosen."""
    campaign = await guest.call("campaign_create", name="C", gm_mode="AI")
    await guest.call("set_context", campaign_id=campaign["id"])
    alice = await guest.call("participant_create", display_name="Alice", role="PLAYER")
    for n in range(actors):
        actor = await guest.call("actor_create", name=f"A{n}", kind="NPC", notes=notes)
        if n % 2:
            by = "GM" if n % 4 == 1 else alice["id"]
            await guest.call("actor_control_set", actor_id=actor["id"], controller=by)
    for end in ("session_end", "session_pause", "get_context"):
        await guest.call("session_start", name=end)
        await guest.call(end)


async def exported(guest: Guest, **of: str) -> list[dict[str, Any]]:
    documents = []
    while True:
        documents.append(await guest.call("campaign_export", **of))
        if "next_cursor" not in documents[-1]:
            return documents
        of["cursor"] = documents[-1]["next_cursor"]


async def everything(server: Served, campaign: str) -> dict[str, Any]:
    guest = server.guest("reader")
    return {
        uri: json.loads(await guest.read(uri))
        for uri in (
            f"campaign://{campaign}",
            *(f"campaign://{campaign}/{x}" for x in ("participants", "actors")),
            f"campaign://{campaign}/sessions",
        )
    }


async def test_what_is_exported_here_is_the_same_when_it_is_imported_there() -> None:
    async with served() as here, served() as there:
        ann, bob = here.guest(), there.guest()
        await filled(ann)
        (document,) = await exported(ann)
        answer = await bob.call("campaign_import", document=document)
        assert answer == {
            "campaign_id": "camp_1",
            "added": {"campaigns": 1, "participants": 1, "actors": 3, "sessions": 3},
            "already_there": 0,
        }
        assert await everything(there, "camp_1") == await everything(here, "camp_1")
        again = await bob.call("campaign_import", document=document)
        assert set(again["added"].values()) == {0}
        assert again["already_there"] == 8
        assert await exported(bob, campaign_id="camp_1") == [document]


@pytest.mark.parametrize("notes", ["n" * 8000, "雪" * 8000, "\U0001f409" * 8000])
async def test_one_that_is_too_long_comes_in_parts_that_can_be_taken_back(
    notes: str,
) -> None:
    async with served() as here, served() as there:
        ann, bob = here.guest(), there.guest()
        await filled(ann, 12, notes)
        documents = await exported(ann)
        assert len(documents) > 2
        with pytest.raises(Refused, match="camp_1") as refused:
            await bob.call("campaign_import", document=documents[1])
        assert refused.value.code == "NotFound"
        for document in documents:
            size = len(json.dumps({"document": document}, ensure_ascii=False).encode())
            assert size < MAX_BYTES
            await bob.call("campaign_import", document=document)
        assert await everything(there, "camp_1") == await everything(here, "camp_1")


CHANGES: list[tuple[list[str | int], Any, str, str]] = [
    (["format"], "other/1", "InvalidArgument", "format"),
    (["campaign_id"], "camp_2", "InvalidArgument", "campaign.id"),
    (["campaign", "gm_mode"], "X", "InvalidArgument", "document.campaign.gm_mode"),
    (["campaign", "id"], "part_1", "InvalidArgument", "document.campaign.id"),
    (["campaign", "name"], 5, "InvalidArgument", "document.campaign.name"),
    (["campaign", "created_at"], "now", "InvalidArgument", "campaign.created_at"),
    (["campaign"], [], "InvalidArgument", "document.campaign must be an object"),
    (["campaign", "pet"], "cat", "InvalidArgument", "unknown pet"),
    (["pets"], [], "InvalidArgument", "unknown pets"),
    (["actors"], {}, "InvalidArgument", "document.actors must be an array"),
    (["actors", 1], None, "InvalidArgument", r"document.actors\[1\]"),
    (["actors", 2, "id"], "sess_9", "InvalidArgument", r"actors\[2\].id"),
    (["actors", 2, "campaign_id"], "camp_9", "InvalidArgument", r"actors\[2\]"),
    (["actors", 1, "controller"], "part_9", "NotFound", "part_9"),
    (["actors", 1, "name"], "  ", "InvalidArgument", r"actors\[1\].name"),
    (["sessions", 0, "status"], "ACTIVE", "InvalidArgument", r"sessions\[0\]"),
    (["sessions", 1, "status"], "ACTIVE", "FailedPrecondition", "active session"),
    (["sessions", 1, "status"], "ENDED", "InvalidArgument", "ended_at"),
    (["participants", 0, "role"], "KING", "InvalidArgument", "GM, PLAYER"),
]


@pytest.mark.parametrize(("place", "value", "code", "says"), CHANGES)
async def test_what_is_wrong_in_it_is_named_and_nothing_is_taken(
    place: list[Any], value: Any, code: str, says: str
) -> None:
    async with served() as here, served() as there:
        ann, bob = here.guest(), there.guest()
        await filled(ann)
        (document,) = await exported(ann)
        spoiled: Any = copy.deepcopy(document)
        inner = spoiled
        for step in place[:-1]:
            inner = inner[step]
        inner[place[-1]] = value
        with pytest.raises(Refused, match=says) as refused:
            await bob.call("campaign_import", document=spoiled)
        assert refused.value.code == code
        assert await bob.call("campaign_list") == {"campaigns": []}


async def test_something_else_of_the_same_id_is_not_overwritten() -> None:
    async with served() as here, served() as there:
        ann, bob = here.guest(), there.guest()
        await filled(ann)
        (document,) = await exported(ann)
        await bob.call("campaign_import", document=document)
        await bob.call(
            "actor_update", campaign_id="camp_1", actor_id="actor_3", name="Changed"
        )
        before = await everything(there, "camp_1")
        with pytest.raises(Refused, match="actor_3") as refused:
            await bob.call("campaign_import", document=document)
        assert refused.value.code == "AlreadyExists"
        assert await everything(there, "camp_1") == before


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "campaign_id", "name", "actors", "campaign", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(json_values, st.sampled_from(["campaign", "actors", "sessions", "participants"]))
def test_whatever_stands_in_a_document_is_taken_or_refused(
    value: Any, place: str
) -> None:
    async def run() -> None:
        async with served() as server:
            guest = server.guest()
            document = {
                "format": "glyphoxa.campaign/1",
                "campaign_id": "camp_1",
                place: value,
            }
            code = ""
            try:
                await guest.call("campaign_import", document=document)
            except Refused as refused:
                code = refused.code
            assert code in ("", "InvalidArgument", "NotFound")

    trio.run(run)


async def test_a_backup_is_a_whole_file_in_the_folder_of_the_operator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "backups"
    db = tmp_path / "campaigns.db"
    async with served(db, "--backups", str(folder), counted=False) as server:
        ann = server.guest()
        await filled(ann)
        before = await ann.call("campaign_export")
        made = await ann.call("campaign_backup")
        await ann.call("campaign_delete", campaign_id=before["campaign_id"])
        assert [path.name for path in folder.iterdir()] == [made["file"]]
        assert (folder / made["file"]).stat().st_size == made["bytes"]
        monkeypatch.setattr(transfer, "MOST_BACKUPS", 1)
        with pytest.raises(Refused) as refused:
            await ann.call("campaign_backup")
        assert refused.value.code == "ResourceExhausted"
    async with served(folder / made["file"]) as server:
        again = server.guest()
        campaign = before["campaign_id"]
        assert await again.call("campaign_export", campaign_id=campaign) == before


async def test_without_a_folder_there_are_no_backups(tmp_path: Path) -> None:
    async with served() as server:
        names = [tool.definition.name for tool in server.offer.tools]
        assert "campaign_backup" not in names
    occupied = tmp_path / "occupied"
    occupied.touch()
    async with served(None, "--backups", str(occupied)) as server:
        with pytest.raises(Refused, match="could not be made") as refused:
            await server.guest().call("campaign_backup")
        assert refused.value.code == "Unavailable"


def test_stamps_are_of_the_wall_clock_unless_a_test_says_otherwise() -> None:
    assert Stamps().moment().text.startswith("20")
