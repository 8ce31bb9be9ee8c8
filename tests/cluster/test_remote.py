"""A session somewhere else can be asked for whatever one of this process can."""

from __future__ import annotations

import inspect

import pytest

import trio

from glyphoxa_trio.cluster import (
    ClusterRefused,
    RemoteNpc,
    RemoteScene,
    RemoteSession,
    asked,
)
from glyphoxa_trio.npc import Npc, Scene, Sentence
from glyphoxa_trio.npc.events import TurnEnd
from glyphoxa_trio.runtime import Session
from glyphoxa_trio.tools.tier import Tier

from ..nats.server import RealServer
from .test_cluster import bus, client, database, postgres, said, worker

__all__ = ["bus", "database", "postgres"]

# What needs the worker's own process: audio, and objects that live there.
NOT_FROM_AFAR = {
    Npc: {
        *("attach_microphone", "become", "config", "dismiss", "end", "grant"),
        *("idle", "introduce", "session", "situate", "untouched", "voice"),
    },
    Scene: {"dismiss", "idle", "name", "session", "voice"},
    Session: {"claim", "cost", "ended", "introduce", "release", "variables"},
}


@pytest.mark.parametrize(
    ("here", "there", "table"),
    [
        (Npc, RemoteNpc, asked.NPC),
        (Scene, RemoteScene, asked.SCENE),
        (Session, RemoteSession, asked.SESSION),
    ],
)
def test_every_method_is_there(
    here: type, there: type, table: dict[str, object]
) -> None:
    ours = {x for x in vars(here) if not x.startswith("_")} - NOT_FROM_AFAR[here]
    theirs = {x for x in dir(there) if not x.startswith("_")}
    assert ours <= theirs
    for name in ours & set(table):
        of_here = inspect.signature(getattr(here, name)).parameters
        of_there = inspect.signature(getattr(there, name)).parameters
        assert list(of_here) == list(of_there), name


@pytest.mark.border
async def test_a_scene_is_played_from_afar(bus: RealServer, database: str) -> None:
    async with worker(bus, database), client(bus) as runtime:
        scene = runtime.session("table").scene()
        names = list(await runtime.session("table").npcs())
        assert "Bo" in names
        assert len(names) > 1
        other = next(x for x in names if x != "Bo")
        async with scene.say("hail", to="Bo", speaker="Ann") as turn:
            done = await turn.finish()
        assert (done.npc, done.end) == ("Bo", TurnEnd.COMPLETED)
        assert (await scene.addressed(f"{other}, you!")).npc == other
        assert await scene.turn_to(other, speaker="Ann") == other
        assert (await scene.addressed("hm", speaker="Ann")).npc == other
        await scene.mute("Bo")
        await scene.tell("It rains.")
        look = await scene.look()
        assert look.muted == {"Bo"}
        assert look.context == ("It rains.",)
        assert set(look.npcs) == set(names)
        with pytest.raises(ClusterRefused, match="muted"):
            async with scene.say("hail", to="Bo"):
                pass
        async with scene.speak_as("Bo", "I am a puppet.") as turn:
            heard = [x.text async for x in turn if isinstance(x, Sentence)]
        assert heard == ["I am a puppet."]
        assert await scene.unmute("Bo") == "Bo"
        assert await scene.puppet(other) == other
        assert await scene.puppet(None) is None
        assert await scene.interrupt() is False


async def test_an_npc_is_steered_from_afar(bus: RealServer, database: str) -> None:
    async with worker(bus, database) as (_, one), client(bus) as runtime:
        session = runtime.session("table")
        bo = session.npc("Bo")
        await bo.overhear("Ann", "The king is dead.", to="Cy")
        assert "king is dead" in (await said(runtime, "hail")).text
        await bo.set_scene("It rains.")
        await bo.set_variables({"town": "Ulm"})
        await session.set_variables({"town": "Rome"})
        await bo.hearing("What is")
        before = await bo.tier_for("hail")
        await bo.elevate(Tier.DEEP, seconds=60)
        assert await bo.tier_for("hail") >= before
        assert await bo.approve("no such question", True) is False
        async with bo.speak_as("I say this.") as turn:
            assert (await turn.finish()).text == "I say this."
        async with bo.say("hang") as turn:
            await anext(turn)
            assert await bo.interrupt() is True
            assert (await turn.finish()).end is TurnEnd.INTERRUPTED
        with pytest.raises(ClusterRefused, match="no NPC 'Zed'"):
            await session.npc("Zed").interrupt()
        snapshot = await session.snapshot()
        assert snapshot.key.id == "table"
        await session.end()
        assert "king is dead" not in (await said(runtime, "hail")).text
        assert one.sessions == 1


async def test_a_session_begins_as_it_is_joined(bus: RealServer, database: str) -> None:
    async with worker(bus, database) as (here, _), client(bus) as runtime:
        session = runtime.session("table")
        begun = {"town": "Ulm"}
        await session.join(
            campaign="saga", players={"Ann": "discord:17"}, variables=begun
        )
        assert here.campaign_of("table").campaign == "saga"
        assert here.session("table").variables == begun
        await session.join(variables=begun)  # as often as one likes
        with pytest.raises(ClusterRefused, match="other variables"):
            await session.join(variables={"town": "Rome"})
        with pytest.raises(ClusterRefused, match="no field 'rights'"):
            await session._ask("join", bool, rights="all")


async def test_an_answer_that_is_too_large_is_refused_and_the_worker_goes_on(
    bus: RealServer, database: str
) -> None:
    async with worker(bus, database), client(bus) as runtime:
        session = runtime.session("table")
        await session.set_variables({"one": "x" * 300_000})
        await session.set_variables({"two": "x" * 300_000})
        with pytest.raises(ClusterRefused, match="524288 may be sent"):
            await session.snapshot()
        assert (await said(runtime, "hail")).end is TurnEnd.COMPLETED


async def test_only_what_is_listed_can_be_called(
    bus: RealServer, database: str
) -> None:
    async with worker(bus, database), client(bus) as runtime:
        bo = runtime.session("table").npc("Bo")
        for what, fields, why in (
            ("__init__", {}, "no request '__init__' of an NPC"),
            ("dismiss", {}, "no request 'dismiss' of an NPC"),
            ("interrupt", {"speaker": 7}, "speaker must be text"),
            ("interrupt", {"whom": "x"}, "interrupt has no field 'whom'"),
            ("elevate", {"tier": "warp", "seconds": 1}, "tier must be one of"),
            ("elevate", {"tier": "deep"}, "seconds"),
            ("set_scene", {"context": "rain"}, "context must be a list"),
        ):
            with pytest.raises(ClusterRefused, match=why):
                await bo._ask(what, type(None), **fields)
        assert (await said(runtime, "hail")).end is TurnEnd.COMPLETED


async def test_sessions_are_listed_and_a_worker_is_told_to_drain(
    bus: RealServer, database: str
) -> None:
    async with worker(bus, database) as (_, one), client(bus) as runtime:
        await said(runtime, "hail", "first")
        await said(runtime, "hail", "second")
        (listed,) = await runtime.sessions()
        assert listed.worker == one.name
        assert [(x.session, x.epoch) for x in listed.sessions] == [
            ("first", 1),
            ("second", 1),
        ]
        ((found,),) = [x.sessions for x in await runtime.sessions("second")]
        assert found.session == "second"
        assert await runtime.drain("nobody") is False
        assert await runtime.drain(one.name, within=5.0) is True
        with trio.fail_after(20):
            assert await one.told() == 5.0
            await one.drained(5.0)
        assert one.sessions == 0
        async with worker(bus, database):
            assert "hail" in (await said(runtime, "and now", "first")).text
