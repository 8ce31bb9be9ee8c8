"""What each client works on: chosen, replaced, honoured, forgotten (F16 to F25)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio

from glyphoxa_trio.campaign.context import CampaignContext, Contexts
from glyphoxa_trio.campaign.errors import ResourceExhausted

from .table import Guest, Refused, Served, served

NONE = {"campaign_id": None, "session_id": None, "participant_id": None}


async def two_campaigns(guest: Guest) -> dict[str, dict[str, str]]:
    """The ids of two campaigns, each with a session and a participant."""
    found: dict[str, dict[str, str]] = {}
    for name in ("mine", "other"):
        campaign = await guest.call("campaign_create", name=name, gm_mode="AI")
        of = {"campaign_id": campaign["id"]}
        session = await guest.call("session_start", **of)
        alice = {"display_name": "Alice", "role": "PLAYER"}
        participant = await guest.call("participant_create", **of, **alice)
        found[name] = of | {
            "session_id": session["id"],
            "participant_id": participant["id"],
        }
    return found


async def current(guest: Guest) -> dict[str, Any]:
    context: dict[str, Any] = json.loads(await guest.read("context://current"))
    assert await guest.call("get_context") == context
    found: dict[str, Any] = context["context"]
    return found


async def test_what_is_left_out_is_cleared() -> None:
    # F16, F17, F19
    async with served() as server:
        ann = server.guest()
        mine = (await two_campaigns(ann))["mine"]
        assert await current(ann) == NONE
        assert await ann.call("set_context", **mine) == {"context": mine}
        assert await current(ann) == mine
        campaign = {"campaign_id": mine["campaign_id"]}
        told = await ann.call("set_context", **campaign, session_id=None)
        assert told == {"context": campaign}
        assert await current(ann) == NONE | campaign


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"campaign_id": "camp_nobody"}, "NotFound"),  # F20, F23
        ({"session_id": "sess_nobody"}, "NotFound"),  # F21, F23
        ({"participant_id": "part_nobody"}, "NotFound"),  # F22, F23
        ({"session_id": "other"}, "InvalidArgument"),  # F21, F24
        ({"participant_id": "other"}, "InvalidArgument"),  # F22, F24
        ({"campaign_id": ""}, "InvalidArgument"),  # F24
        ({"campaign_id": "  "}, "InvalidArgument"),
        ({"session_id": ""}, "InvalidArgument"),
        ({"participant_id": "\t"}, "InvalidArgument"),
        ({"campaign_id": None}, "InvalidArgument"),
        ({"session_id": 7}, "InvalidArgument"),
    ],
)
async def test_a_call_that_fails_leaves_the_context_as_it_was(
    change: dict[str, Any], code: str
) -> None:
    async with served() as server:
        ann = server.guest()
        found = await two_campaigns(ann)
        await ann.call("set_context", **found["mine"])
        foreign = {
            field: found["other"][field] if value == "other" else value
            for field, value in change.items()
        }
        with pytest.raises(Refused) as refused:
            await ann.call("set_context", **found["mine"] | foreign)
        assert refused.value.code == code
        assert await current(ann) == found["mine"]


async def test_every_client_has_its_own_until_it_leaves(tmp_path: Path) -> None:
    # F18
    path = tmp_path / "campaigns.db"
    async with served(path) as server:
        ann, bob = server.guest("ann"), server.guest("bob")
        found = await two_campaigns(ann)
        await ann.call("set_context", **found["mine"])
        await bob.call("set_context", **found["other"])
        assert await current(ann) == found["mine"]
        assert await current(bob) == found["other"]
        server.offer.ended("ann")
        server.offer.ended("ann")
        assert await current(ann) == NONE
        assert await current(bob) == found["other"]
    async with served(path) as server:  # nothing of it outlives the program
        assert await current(server.guest("bob")) == NONE


async def test_tools_mean_what_is_chosen_where_an_argument_is_absent() -> None:
    # F25
    async with served() as server:
        ann = server.guest()
        found = await two_campaigns(ann)
        mine, other = found["mine"], found["other"]
        with pytest.raises(Refused, match="set_context") as refused:
            await ann.call("actor_create", name="A", kind="PC")
        assert refused.value.code == "InvalidArgument"

        await ann.call("set_context", **mine)
        created = await ann.call("actor_create", name="A", kind="PC")
        assert created["campaign_id"] == mine["campaign_id"]
        # What is given goes before what is chosen.
        far = {"name": "B", "kind": "PC", "campaign_id": other["campaign_id"]}
        there = await ann.call("actor_create", **far)
        assert there["campaign_id"] == other["campaign_id"]
        assert (await ann.call("session_get"))["id"] == mine["session_id"]
        assert (await ann.call("participant_get"))["id"] == mine["participant_id"]
        assert (await ann.call("session_pause"))["id"] == mine["session_id"]
        # The session of one campaign is never meant for another.
        ended = await ann.call("session_end", campaign_id=other["campaign_id"])
        assert ended["id"] == other["session_id"]
        with pytest.raises(Refused, match="does not belong") as refused:
            await ann.call("actor_get", actor_id=there["id"])
        assert refused.value.code == "InvalidArgument"


async def test_what_is_chosen_and_gone_is_not_found() -> None:
    async with served() as server:
        ann = server.guest()
        mine = (await two_campaigns(ann))["mine"]
        await ann.call("set_context", **mine)
        await ann.call("session_delete", session_id=mine["session_id"])
        with pytest.raises(Refused, match=mine["session_id"]) as refused:
            await ann.call("session_end")
        assert refused.value.code == "NotFound"
        await ann.call("campaign_delete", campaign_id=mine["campaign_id"])
        with pytest.raises(Refused, match=mine["campaign_id"]) as refused:
            await ann.call("actor_list")
        assert refused.value.code == "NotFound"


async def test_without_a_session_nothing_can_be_chosen() -> None:
    async with served() as server:
        passer_by = server.guest("")
        mine = (await two_campaigns(passer_by))["mine"]
        with pytest.raises(Refused, match="give campaign_id") as refused:
            await passer_by.call("set_context", **mine)
        assert refused.value.code == "FailedPrecondition"
        assert await current(passer_by) == NONE
        with pytest.raises(Refused) as refused:
            await passer_by.call("actor_list")
        assert refused.value.code == "InvalidArgument"
        listed = await passer_by.call("actor_list", campaign_id=mine["campaign_id"])
        assert listed == {"actors": []}


async def test_of_choices_at_once_one_is_whole() -> None:
    async with served() as server:
        ann = server.guest()
        found = await two_campaigns(ann)

        async def choose(which: str) -> None:
            await ann.call("set_context", **found[which])

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(choose, "mine")
                nursery.start_soon(choose, "other")
        assert await current(ann) in (found["mine"], found["other"])


async def _chosen(server: Served, steps: list[tuple[str, str, frozenset[str]]]) -> None:
    """Contexts are what was last chosen whole, per client."""
    found = await two_campaigns(server.guest("maker"))
    model: dict[str, dict[str, Any]] = {}
    for who, what, fields in steps:
        if what == "leave":
            server.offer.ended(who)
            model.pop(who, None)
        else:
            wanted = {"campaign_id": found[what]["campaign_id"]}
            wanted |= {field: found[what][field] for field in fields}
            await server.guest(who).call("set_context", **wanted)
            model[who] = wanted
        for guest in ("ann", "bob"):
            expected = NONE | model.get(guest, {})
            assert await current(server.guest(guest)) == expected


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ann", "bob"]),
            st.sampled_from(["mine", "other", "leave"]),
            st.frozensets(st.sampled_from(["session_id", "participant_id"])),
        ),
        max_size=12,
    )
)
def test_contexts_are_what_was_chosen_last(
    steps: list[tuple[str, str, frozenset[str]]],
) -> None:
    async def run() -> None:
        async with served() as server:
            await _chosen(server, steps)

    trio.run(run)


def test_the_number_of_contexts_has_a_bound() -> None:
    contexts = Contexts(most=2)
    context = CampaignContext(campaign_id="camp_1")
    for session in ("a", "b", "a"):
        contexts.put(session, context)
    with pytest.raises(ResourceExhausted):
        contexts.put("c", context)
    contexts.forget("a")
    contexts.put("c", context)
    assert contexts.of("a") is None
