"""Bugs of ours in an actor: the caller gets an error with its cause, the turn that it
costs says so, the operator sees the traceback, and everything goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio import Config, Runtime, Tier, open_runtime
from glyphoxa_trio.actors import Request
from glyphoxa_trio.config import CalibrationConfig, McpConfig, NpcConfig, ServerSpec
from glyphoxa_trio.config.voices import Engine
from glyphoxa_trio.errors import ActorGone, MessageNotUnderstood
from glyphoxa_trio.host.calibrator import Calibrator
from glyphoxa_trio.mcp.connection import spawn_connection
from glyphoxa_trio.npc import TurnDone, TurnEnd, selector
from glyphoxa_trio.npc.selector import Selector
from glyphoxa_trio.npc.session import NpcSession
from glyphoxa_trio.npc.turn_queue import TurnQueue
from glyphoxa_trio.providers.s2s import SendAudio
from glyphoxa_trio.providers.speech import SpeechError

from ..npc.s2s.support import Links
from ..npc.support import HANG, ScriptedLLM

CONFIG = Config(
    npcs=(NpcConfig(name="Ann"), NpcConfig(name="Bo")),
    mcp=McpConfig(remember=False),
    calibration=CalibrationConfig(at_start=False),
)


@attrs.frozen
class Nonsense(Request[Any, None]):
    """A message that no actor of the package knows."""


@asynccontextmanager
async def playing(*script: Any) -> AsyncIterator[Runtime]:
    async with open_runtime(CONFIG, llm=ScriptedLLM(list(script))) as runtime:
        yield runtime


@asynccontextmanager
async def ann_talks(runtime: Runtime) -> AsyncIterator[list[TurnDone]]:
    """Ann's turn runs and does not end by itself; its end is what this yields."""
    ends: list[TurnDone] = []

    async def listen() -> None:
        async with runtime.npc("Ann").say("Tell me all!") as turn:
            ends.append(await turn.finish())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        await wait_all_tasks_blocked()
        yield ends
        nursery.cancel_scope.cancel()


def fails(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError("a fault of ours")


async def test_a_crash_is_told_with_its_cause_and_costs_no_turn_in_silence(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with playing(["Once.\n", HANG], ["Again."]) as runtime:
        async with ann_talks(runtime) as ends:
            with monkeypatch.context() as broken:
                broken.setattr(NpcSession, "_interrupt", fails)
                with pytest.raises(ActorGone, match="no answer to Interrupt") as gone:
                    await runtime.npc("Ann").interrupt()
            assert isinstance(gone.value.__cause__, ZeroDivisionError)
            await wait_all_tasks_blocked()
            (done,) = ends
        assert (done.end, done.error) == (
            TurnEnd.FAILED,
            "ZeroDivisionError: a fault of ours",
        )
        assert done.text == "Once."
        (warning,) = runtime.warnings
        summary, *trace = warning.text.splitlines()
        assert summary == (
            "npc Ann crashed and is started anew: ZeroDivisionError: a fault of ours"
        )
        assert any("in fails" in line for line in trace), "where it happened"
        async with runtime.npc("Ann").say("Go on!") as turn:
            assert (await turn.finish()).text == "Again."


async def test_what_an_npc_remembers_outlives_its_crash(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedLLM([["Once.\n", HANG], ["Again."]])
    async with open_runtime(CONFIG, llm=model) as runtime:
        npc = runtime.npc("Ann")
        await npc.set_scene("Night.")
        await npc.overhear("Bo", "Hush!")
        await npc.elevate(Tier.DEEP, seconds=100)
        async with ann_talks(runtime):
            async with trio.open_nursery() as nursery:
                # While the turn runs: it is somebody else from the next one on.
                kind = attrs.evolve(CONFIG.npcs[0], personality="Kind.")
                other = attrs.evolve(CONFIG, npcs=(kind, CONFIG.npcs[1]))
                nursery.start_soon(runtime.reload, other)
                await wait_all_tasks_blocked()
                with monkeypatch.context() as broken:
                    broken.setattr(NpcSession, "_interrupt", fails)
                    with pytest.raises(ActorGone):
                        await npc.interrupt()
        async with npc.say("Think carefully: why?") as turn:
            done = await turn.finish()
    assert done.tier is Tier.DEEP
    told = [m.content for m in model.requests[-1].messages]
    assert "Personality: Kind." in told[0]
    assert told[0].endswith("The scene:\n- Night.")
    assert "Bo: Hush!" in told[1]
    assert told[2:] == ["Tell me all!", "Once.", "Think carefully: why?"]


async def test_whoever_is_heard_is_told_that_the_session_has_crashed(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = Links()
    speaks = attrs.evolve(CONFIG, npcs=(NpcConfig(name="Ann", engine=Engine.S2S),))
    async with open_runtime(speaks, llm=ScriptedLLM([]), s2s=links) as runtime:
        npc = runtime.npc("Ann")
        async with npc.voice(rate=24_000) as voice:
            await wait_all_tasks_blocked()
            with monkeypatch.context() as broken:
                broken.setattr(NpcSession, "_interrupt", fails)
                with pytest.raises(ActorGone):
                    await npc.interrupt()
            with trio.fail_after(60), pytest.raises(SpeechError, match="again"):
                async for _ in voice:
                    pass
        async with npc.voice(rate=24_000) as voice:  # and it hears again
            await wait_all_tasks_blocked()
            voice.hear(bytes(960))
            await wait_all_tasks_blocked()
        assert links.last.all(SendAudio)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda npc: npc.elevate(Tier.DEEP, seconds="5"), "seconds must be a number"),
        (lambda npc: npc.elevate(Tier.DEEP, seconds=-1), "seconds must be 0 or more"),
        (lambda npc: npc.elevate("deep", seconds=5), "tier must be one of Tier.FAST"),
        (lambda npc: npc.elevate(None, seconds=5), "tier must be one of"),
        (lambda npc: npc.set_scene(3), "context must be text"),
        (lambda npc: npc.overhear("Cid", None), "text must be text"),
        (lambda npc: npc.set_variables([("caller", "Di")]), "values must be a mapping"),
        (lambda npc: npc.set_variables({1: "Di"}), "the name of a value must be text"),
        (lambda npc: npc.hearing(b"hello"), "text must be text"),
        (lambda npc: npc.tier_for(None), "text must be text"),
        (lambda npc: npc.interrupt(speaker=3), "speaker must be text"),
    ],
)
async def test_a_wrong_argument_is_its_callers_mistake_and_nobody_elses(
    ask: Any, said: str, autojump_clock: MockClock
) -> None:
    async with playing(["Once.\n", HANG], ["Again."]) as runtime:
        async with ann_talks(runtime) as ends:
            with pytest.raises((TypeError, ValueError), match=said):
                await ask(runtime.npc("Ann"))
            await wait_all_tasks_blocked()
            assert not ends, "Ann goes on"
        assert not runtime.warnings


async def test_what_is_said_must_be_text(autojump_clock: MockClock) -> None:
    async with playing() as runtime:
        for words in (None, 3, b"hello"):
            with pytest.raises(TypeError, match="text must be text"):
                runtime.npc("Ann").say(words)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="text must be text"):
                runtime.scene().say(words)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="tier must be one of"):
            runtime.npc("Ann").say("Hello", tier="deep")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="npc must be text"):
            await runtime.scene().mute(3)  # type: ignore[arg-type]


async def test_a_message_for_another_actor_disturbs_nobody(
    autojump_clock: MockClock,
) -> None:
    async with playing(["Once.\n", HANG]) as runtime, ann_talks(runtime) as ends:
        refs: list[Any] = [
            runtime.npc("Ann")._door.ref,
            runtime.scene()._door.ref,
            runtime._cast.services.selector,
            runtime.host._calibrator,
        ]
        for ref in refs:
            with pytest.raises(MessageNotUnderstood, match="Nonsense is a message for"):
                await ref.ask(Nonsense(), within=30)
        await wait_all_tasks_blocked()
        assert not ends
        assert not runtime.warnings


@pytest.mark.border
async def test_a_connection_refuses_what_it_does_not_know() -> None:
    spec = ServerSpec(name="none", command=("/nonexistent/server",))
    async with trio.open_nursery() as nursery:
        ref = spawn_connection(
            nursery,
            spec,
            publish=lambda *_: None,
            warn=lambda _: None,
            report=lambda _: None,
        )
        with pytest.raises(MessageNotUnderstood):
            await ref.ask(Nonsense(), within=30)
        assert await ref.stop(within=30)


async def test_a_scene_that_crashes_keeps_who_is_muted(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with playing() as runtime:
        scene = runtime.scene()
        await scene.mute("Bo")
        with monkeypatch.context() as broken:
            broken.setattr(TurnQueue, "come", fails)
            with pytest.raises(ActorGone) as gone:
                async with scene.say("Ann, hello!"):
                    pass
            assert isinstance(gone.value.__cause__, ZeroDivisionError)
        assert (await scene.look()).muted == {"Bo"}
        (warning,) = runtime.warnings
        assert warning.text.startswith("scene 1 crashed and is started anew: ")


@pytest.mark.parametrize(
    ("actor", "method", "name"),
    [(Selector, "select", "selector"), (Calibrator, "_report", "calibrator")],
)
async def test_an_actor_that_crashed_is_a_warning_and_made_anew(
    actor: type[Any],
    method: str,
    name: str,
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with playing(["Well."], ["Well."]) as runtime:
        await wait_all_tasks_blocked()
        made: list[Any] = []
        real = actor.run

        async def run(self: Any, inbox: Any) -> None:
            made.append(self)
            await real(self, inbox)

        with monkeypatch.context() as broken:
            broken.setattr(actor, "run", run)
            where = selector if actor is Selector else actor
            broken.setattr(where, method, fails)
            if actor is Selector:
                async with runtime.npc("Ann").say("Hello") as turn:
                    assert (await turn.finish()).end is TurnEnd.COMPLETED
            else:
                with pytest.raises(ActorGone):
                    await runtime.host.report()
            await trio.sleep(1)
        (warning,) = runtime.warnings
        assert warning.text.startswith(f"{name} crashed and is started anew: ")
        assert len(made) == 1, "another object, for the next life"
        await runtime.host.report()
        async with runtime.npc("Ann").say("Hello") as turn:
            assert (await turn.finish()).tier is not None
