"""Every example of seed 002, as it stands there: tools in, tools out, resources.

Ids are counted and the clock is set by hand; all else is the production code.
"""

from __future__ import annotations

import json
import re

import pytest

from glyphoxa_trio.campaign.stamps import Stamps, is_time, new_id, rfc3339

from .table import Guest, Hands, Refused, served

TEN = 1736935200.0  # 2025-01-15T10:00:00Z
CAMPAIGN = {
    "name": "The Lost Expedition",
    "gm_mode": "HUMAN",
    "theme_prompt": "A dark fantasy campaign set in a cursed forest",
}
ALICE = {"display_name": "Alice", "role": "PLAYER", "controller": "HUMAN"}
THORIN = {
    "name": "Thorin Ironforge",
    "kind": "PC",
    "notes": "Dwarf warrior with a mysterious past",
}
FIRST = {"name": "Session 1: The Journey Begins"}


async def test_the_tools_of_the_seed_answer_as_it_says() -> None:
    # F17, F26 to F30, F33
    hands = Hands(TEN)
    async with served(hands=hands) as server:
        ann = server.guest()
        assert await ann.call("campaign_create", **CAMPAIGN) == {
            "id": "camp_1",
            "name": "The Lost Expedition",
            "gm_mode": "HUMAN",
            "participant_count": 0,
            "actor_count": 0,
            "theme_prompt": "A dark fantasy campaign set in a cursed forest",
        }
        hands.now += 1800
        assert await ann.call("participant_create", campaign_id="camp_1", **ALICE) == {
            "id": "part_2",
            "campaign_id": "camp_1",
            "display_name": "Alice",
            "role": "PLAYER",
            "controller": "HUMAN",
            "created_at": "2025-01-15T10:30:00Z",
            "updated_at": "2025-01-15T10:30:00Z",
        }
        hands.now += 300
        assert await ann.call("actor_create", campaign_id="camp_1", **THORIN) == {
            "id": "actor_3",
            "campaign_id": "camp_1",
            "name": "Thorin Ironforge",
            "kind": "PC",
            "notes": "Dwarf warrior with a mysterious past",
            "created_at": "2025-01-15T10:35:00Z",
            "updated_at": "2025-01-15T10:35:00Z",
        }
        control = {
            "campaign_id": "camp_1",
            "actor_id": "actor_3",
            "controller": "part_2",
        }
        assert await ann.call("actor_control_set", **control) == control
        hands.now += 1500
        assert await ann.call("session_start", campaign_id="camp_1", **FIRST) == {
            "id": "sess_4",
            "campaign_id": "camp_1",
            "name": "Session 1: The Journey Begins",
            "status": "ACTIVE",
            "started_at": "2025-01-15T11:00:00Z",
            "updated_at": "2025-01-15T11:00:00Z",
        }
        everything = {
            "campaign_id": "camp_1",
            "session_id": "sess_4",
            "participant_id": "part_2",
        }
        assert await ann.call("set_context", **everything) == {"context": everything}


async def test_the_resources_of_the_seed_read_as_it_says() -> None:
    # F32, F44, F45, F47 to F49
    hands = Hands(TEN)
    async with served(hands=hands) as server:
        ann = server.guest()
        assert json.loads(await ann.read("campaigns://list")) == {"campaigns": []}
        await ann.call("campaign_create", **CAMPAIGN)
        for word in ("participants", "actors", "sessions"):
            assert json.loads(await ann.read(f"campaign://camp_1/{word}")) == {word: []}
        alice = await ann.call("participant_create", campaign_id="camp_1", **ALICE)
        thorin = await ann.call("actor_create", campaign_id="camp_1", **THORIN)
        first = await ann.call("session_start", campaign_id="camp_1", **FIRST)
        whole = {
            "id": "camp_1",
            "name": "The Lost Expedition",
            "gm_mode": "HUMAN",
            "participant_count": 1,
            "actor_count": 1,
            "theme_prompt": "A dark fantasy campaign set in a cursed forest",
            "created_at": "2025-01-15T10:00:00Z",
            "updated_at": "2025-01-15T10:00:00Z",
        }
        for uri, document in {
            "campaigns://list": {"campaigns": [whole]},
            "campaign://camp_1": {"campaign": whole},
            "campaign://camp_1/participants": {"participants": [alice]},
            "campaign://camp_1/actors": {"actors": [thorin]},
            "campaign://camp_1/sessions": {"sessions": [first]},
        }.items():
            text = await ann.read(uri)
            assert json.loads(text) == document
            # The fields of a record in the order of the seed, for people who read.
            assert text == json.dumps(document, ensure_ascii=False)

        hands.now += 60
        ended = await ann.call("session_end", campaign_id="camp_1")
        assert ended == first | {
            "status": "ENDED",
            "updated_at": "2025-01-15T10:01:00Z",
            "ended_at": "2025-01-15T10:01:00Z",
        }
        assert json.loads(await ann.read("campaign://camp_1/sessions")) == {
            "sessions": [ended]
        }


async def test_words_are_read_however_they_are_written() -> None:
    async with served() as server:
        ann = server.guest()
        mode = {"name": " X ", "gm_mode": " hybrid\n"}
        campaign = await ann.call("campaign_create", **mode)
        assert (campaign["name"], campaign["gm_mode"]) == ("X", "HYBRID")
        assert campaign["theme_prompt"] == ""
        await ann.call("set_context", campaign_id=campaign["id"])
        gm = await ann.call("participant_create", display_name="G", role="gm")
        assert (gm["role"], gm["controller"]) == ("GM", "HUMAN")
        npc = await ann.call("actor_create", name="N", kind="npc", notes=" n ")
        assert (npc["kind"], npc["notes"]) == ("NPC", "n")
        by = await ann.call("actor_control_set", actor_id=npc["id"], controller=" gm ")
        assert by["controller"] == "GM"
        assert (await ann.call("actor_get", actor_id=npc["id"]))["controller"] == "GM"


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("campaign_create", {"name": "", "gm_mode": "AI"}, "name"),
        (
            "campaign_create",
            {"name": " \t ", "gm_mode": "AI"},
            "name must not be empty",
        ),
        ("campaign_create", {"name": "x" * 201, "gm_mode": "AI"}, "200"),
        ("campaign_create", {"name": "x"}, "missing"),
        ("campaign_create", {"name": "x", "gm_mode": "GOD"}, "HUMAN, AI, HYBRID"),
        ("campaign_create", {"name": "\ud800", "gm_mode": "AI"}, "surrogate"),
        (
            "campaign_create",
            {"name": "x", "gm_mode": "AI", "theme_prompt": "x" * 8001},
            "8000",
        ),
        ("participant_create", {"display_name": "A", "role": "BARD"}, "GM, PLAYER"),
        (
            "participant_create",
            {"display_name": "A", "role": "GM", "controller": "robot"},
            "HUMAN, AI",
        ),
        ("actor_create", {"name": "A", "kind": "MOB"}, "PC, NPC"),
        ("actor_create", {"name": "A", "kind": "PC", "campaign_id": ""}, "empty"),
        (
            "actor_create",
            {"name": "A", "kind": "PC", "campaign_id": "a b"},
            "malformed",
        ),
        ("actor_control_set", {"actor_id": "actor_2", "controller": " "}, "controller"),
        ("session_start", {"name": "x" * 201}, "200"),
        ("session_start", {"name": "x", "idempotency_key": " "}, "idempotency_key"),
        ("campaign_update", {}, "nothing to change: give name, gm_mode, theme_prompt"),
        ("campaign_list", {"limit": 0}, "minimum"),
        ("campaign_list", {"cursor": "x"}, "cursor"),
        ("campaign_create", {"name": "x", "gm_mode": "AI", "gm": 1}, "unknown"),
    ],
)
async def test_what_is_wrong_is_an_invalid_argument_and_changes_nothing(
    tool: str, arguments: dict[str, object], says: str
) -> None:
    # F24
    async with served() as server:
        ann = server.guest()
        await ann.call("campaign_create", **CAMPAIGN)
        await ann.call("set_context", campaign_id="camp_1")
        await ann.call("actor_create", **THORIN)
        before = await ann.call("campaign_export")
        with pytest.raises(Refused, match=says) as refused:
            await ann.call(tool, **arguments)
        assert refused.value.code == "InvalidArgument"
        assert await ann.call("campaign_export") == before
        assert len((await ann.call("campaign_list"))["campaigns"]) == 1


@pytest.mark.parametrize(
    "name",
    [
        "Ælfrēd",
        "Дмитрий",
        "عبد الله",
        "שרה",
        "山田太郎",
        "กฤษณา",
        "அருண்",
        "𐎠𐎡𐎢",
        "👩‍👩‍👧",
        "e\u0301",
        "a\u0000b",
        "n",
        "'; drop table campaign; --",
    ],
)
async def test_a_name_in_any_script_comes_back_as_it_was(name: str) -> None:
    async with served() as server:
        ann = server.guest()
        created = await ann.call("campaign_create", name=name, gm_mode="AI")
        assert created["name"] == name
        found = json.loads(await ann.read("campaign://camp_1"))
        assert found["campaign"]["name"] == name
        assert (await ann.call("campaign_get", campaign_id="camp_1"))["name"] == name


async def test_only_one_session_of_a_campaign_is_active() -> None:
    # F31
    async with served() as server:
        ann = server.guest()
        for name in ("One", "Other"):
            await ann.call("campaign_create", name=name, gm_mode="AI")
        first = await ann.call("session_start", campaign_id="camp_1")
        await ann.call("session_start", campaign_id="camp_2")
        with pytest.raises(Refused, match=first["id"]) as refused:
            await ann.call("session_start", campaign_id="camp_1")
        assert refused.value.code == "FailedPrecondition"

        await _moves(ann, first["id"])
        second = await ann.call("session_start", campaign_id="camp_1")
        assert second["status"] == "ACTIVE"


async def _moves(ann: Guest, first: str) -> None:
    """Pause, another one meanwhile, resume, end, and what is refused between."""
    it = {"campaign_id": "camp_1", "session_id": first}
    paused = await ann.call("session_pause", **it)
    assert paused["status"] == "PAUSED"
    assert await ann.call("session_pause", **it) == paused
    other = await ann.call("session_start", campaign_id="camp_1")
    with pytest.raises(Refused, match=other["id"]) as refused:
        await ann.call("session_resume", **it)
    assert refused.value.code == "FailedPrecondition"
    # Without an id it is the active one.
    assert (await ann.call("session_end", campaign_id="camp_1"))["id"] == other["id"]
    assert (await ann.call("session_resume", **it))["status"] == "ACTIVE"
    ended = await ann.call("session_end", **it)
    assert await ann.call("session_end", **it) == ended
    for tool in ("session_pause", "session_resume"):
        with pytest.raises(Refused, match="has ended") as refused:
            await ann.call(tool, **it)
        assert refused.value.code == "FailedPrecondition"
    with pytest.raises(Refused, match="no active session"):
        await ann.call("session_pause", campaign_id="camp_1")


async def test_whoever_leaves_the_table_leaves_its_actors_behind() -> None:
    # F29, F32
    async with served() as server:
        ann = server.guest()
        await ann.call("campaign_create", **CAMPAIGN)
        await ann.call("set_context", campaign_id="camp_1")
        for _ in range(2):
            await ann.call("participant_create", **ALICE)
        controllers = ("part_2", "part_2", "part_3", "GM")
        ids = []
        for by in controllers:
            actor = await ann.call("actor_create", **THORIN)
            ids.append(actor["id"])
            await ann.call("actor_control_set", actor_id=actor["id"], controller=by)
        gone = await ann.call("participant_delete", participant_id="part_2")
        assert gone == {
            "campaign_id": "camp_1",
            "deleted": "part_2",
            "released_actors": 2,
        }
        actors = (await ann.call("actor_list"))["actors"]
        assert [actor["id"] for actor in actors] == ids
        left = [actor.get("controller") for actor in actors]
        assert left == [None, None, "part_3", "GM"]
        assert (await ann.call("campaign_get"))["participant_count"] == 1
        for tool in ("participant_get", "participant_delete"):
            with pytest.raises(Refused, match="part_2") as refused:
                await ann.call(tool, participant_id="part_2")
            assert refused.value.code == "NotFound"
        with pytest.raises(Refused, match="part_2") as refused:
            await ann.call("actor_control_set", actor_id=ids[0], controller="part_2")
        assert refused.value.code == "NotFound"


async def test_a_tool_that_may_be_tried_out_does_nothing_then() -> None:
    """Whoever tries out what is idempotent, with the examples of its schema."""
    async with served() as server:
        ann = server.guest()
        await ann.call("campaign_create", **CAMPAIGN)
        await ann.call("set_context", campaign_id="camp_1")
        writers = [
            tool.definition
            for tool in server.offer.tools
            if tool.definition.repeatable and tool.definition.side_effects
        ]
        assert {one.name for one in writers} >= {"campaign_delete", "actor_control_set"}
        for one in writers:
            (example,) = one.examples
            with pytest.raises(Refused) as refused:
                await ann.call(one.name, **example)
            assert refused.value.code == "NotFound", one.name


def test_an_id_is_a_prefix_and_a_random_uuid_in_base32() -> None:
    # F34
    ids = {new_id("camp_") for _ in range(1000)}
    assert len(ids) == 1000
    assert all(re.fullmatch(r"camp_[a-z2-7]{26}", one) for one in ids)


def test_times_are_in_utc_with_a_z() -> None:
    # F33
    assert rfc3339(TEN) == "2025-01-15T10:00:00Z"
    assert rfc3339(TEN + 0.999) == "2025-01-15T10:00:00Z"
    assert is_time(Stamps().moment().text)
    for bad in ("2025-01-15 10:00:00Z", "2025-13-15T10:00:00Z", "2025-01-15T10:00:00"):
        assert not is_time(bad)
