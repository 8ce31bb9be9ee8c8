"""An NPC that hears and speaks in another way after a reload, and settings of its model
that an open conversation takes over."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio import Config, Runtime, Tier, open_runtime
from glyphoxa_trio.config import CalibrationConfig, McpConfig, NpcConfig, SelectorConfig
from glyphoxa_trio.config.voices import Engine, S2SConfig
from glyphoxa_trio.npc import EngineSwitched, TurnEnd
from glyphoxa_trio.npc.events import HearingFailed, TurnEvent
from glyphoxa_trio.npc.session.npc import CannotHear
from glyphoxa_trio.npc.voice import Voice
from glyphoxa_trio.providers.s2s import SendAudio
from glyphoxa_trio.providers.speech import SpeechError
from glyphoxa_trio.runtime.voices import Voices

from ..npc.s2s.support import Links
from ..npc.support import Ran, ScriptedLLM
from ..npc.voices import FakeRecognizer

RATE = 24_000


def config(engine: Engine = Engine.CASCADED, **s2s: Any) -> Config:
    bo = NpcConfig(name="Bo", engine=engine, budget_tier=Tier.DEEP, tools=("*",))
    return Config(
        npcs=(bo,),
        s2s=S2SConfig(**s2s),
        selector=SelectorConfig(deep_keywords=("ponder",), min_deep_interval=0.0),
        mcp=McpConfig(remember=False),
        calibration=CalibrationConfig(at_start=False),
    )


SPEAKS = config(Engine.S2S)
READS = config(Engine.CASCADED)


@asynccontextmanager
async def talking(
    chosen: Config, links: Links, *tools: Any, **more: Any
) -> AsyncGenerator[Runtime]:
    llm = ScriptedLLM(lambda _: ["Read."])
    async with open_runtime(chosen, llm=llm, s2s=links, tools=tools, **more) as runtime:
        yield runtime


async def answer_to(
    npc: Any, links: Links, text: str = "hi"
) -> tuple[str, list[TurnEvent]]:
    """What it says to that; its model, if it is asked, says "Spoken."."""
    async with npc.say(text) as turn, trio.open_nursery() as nursery:

        async def reply() -> None:
            await wait_all_tasks_blocked()
            links.last.speak(f"r{trio.current_time()}", "Spoken.")

        if links.opened and not links.last.closed:
            nursery.start_soon(reply)
        events = [event async for event in turn]
    assert turn.done is not None
    assert turn.done.end is TurnEnd.COMPLETED
    return turn.done.text, events


async def test_an_npc_that_reads_can_be_reloaded_to_one_that_hears_for_itself(  # A44
    autojump_clock: MockClock,
) -> None:
    links = Links()
    async with talking(READS, links) as runtime:
        held = runtime.npc("Bo")
        assert (await answer_to(held, links))[0] == "Read."
        with pytest.raises(CannotHear):
            held.voice(rate=RATE)
        await runtime.reload(SPEAKS)
        for npc in (held, runtime.npc("Bo")):  # also as it was held before
            async with npc.voice(rate=RATE) as voice:
                await wait_all_tasks_blocked()
                voice.hear(bytes(960))
                await wait_all_tasks_blocked()
            assert links.last.all(SendAudio)
        assert (await answer_to(held, links))[0] == "Spoken."


async def test_an_npc_that_hears_for_itself_can_be_reloaded_to_one_that_reads(
    autojump_clock: MockClock,
) -> None:
    links = Links()
    async with talking(SPEAKS, links) as runtime:
        npc = runtime.npc("Bo")
        async with npc.voice(rate=RATE):
            await wait_all_tasks_blocked()
        (link,) = links.opened
        assert not link.closed
        await runtime.reload(READS)
        await wait_all_tasks_blocked()
        assert link.closed
        with pytest.raises(CannotHear):
            npc.voice(rate=RATE)
        assert (await answer_to(npc, links))[0] == "Read."
        await runtime.reload(SPEAKS)  # and back again: it knows what was said
        async with npc.voice(rate=RATE):
            await wait_all_tasks_blocked()
        assert [line.text for line in links.last.setup.history] == ["hi", "Read."]
    assert links.faults == []


async def test_whoever_is_heard_is_told_that_they_are_not_any_more(
    autojump_clock: MockClock,
) -> None:
    links = Links()
    async with talking(SPEAKS, links) as runtime:
        for other in (READS, SPEAKS):
            if other is SPEAKS:  # another way of hearing is another microphone
                await runtime.reload(SPEAKS)
                other = config(Engine.S2S, automatic=False)
            async with runtime.npc("Bo").voice(rate=RATE) as voice:
                await wait_all_tasks_blocked()
                await runtime.reload(other)
                said = await _until_deaf(voice)
            assert "open the microphone again" in said


async def _until_deaf(voice: Voice) -> str:
    """Its last event before it ends: why nobody is heard any more."""
    events: list[TurnEvent] = []
    with (
        trio.fail_after(60),
        pytest.raises(SpeechError, match="the speech settings of"),
    ):
        async for event in voice:
            events.append(event)  # noqa: PERF401 it ends with an error
    last = events[-1]
    assert isinstance(last, HearingFailed)
    assert last.deaf
    return last.detail


async def test_a_microphone_in_a_scene_goes_to_whatever_hears_now(
    autojump_clock: MockClock,
) -> None:
    links, recognizer = Links(), FakeRecognizer(rate=RATE)
    async with talking(SPEAKS, links, recognizer=recognizer) as runtime:
        scene = runtime.scene()
        async with scene.voice(speaker="Ann", rate=RATE) as voice:
            await scene.turn_to("Bo", speaker="Ann")
            await wait_all_tasks_blocked()
            voice.hear(bytes(960))
            await wait_all_tasks_blocked()
            assert links.last.all(SendAudio)
            (listener,) = recognizer.listeners
            assert listener.heard == b""
            await runtime.reload(READS)
            await wait_all_tasks_blocked()
            voice.hear(bytes(960))
            assert listener.heard


async def test_a_recognizer_hears_for_an_npc_that_reads_again(
    autojump_clock: MockClock,
) -> None:
    links, recognizer = Links(), FakeRecognizer()
    async with talking(SPEAKS, links, recognizer=recognizer) as runtime:
        npc = runtime.npc("Bo")
        async with npc.voice(rate=RATE):
            await wait_all_tasks_blocked()
        assert recognizer.listeners == []
        await runtime.reload(READS)
        async with npc.voice(rate=RATE):
            await wait_all_tasks_blocked()
        assert len(recognizer.listeners) == 1


async def test_a_turn_ends_as_it_began_before_the_engine_changes(
    autojump_clock: MockClock,
) -> None:  # D16
    links = Links()
    async with talking(SPEAKS, links) as runtime:
        async with runtime.npc("Bo").say("hi") as turn, trio.open_nursery() as nursery:
            await trio.sleep(1)
            nursery.start_soon(runtime.reload, READS)
            await trio.sleep(1)
            assert not links.last.closed
            links.last.speak("r", "Spoken.")
            assert (await turn.finish()).text == "Spoken."
        await wait_all_tasks_blocked()
        assert links.last.closed


async def test_an_open_conversation_is_set_up_anew_for_who_answers_when(
    autojump_clock: MockClock,
) -> None:
    links = Links()
    async with talking(SPEAKS, links) as runtime:
        await answer_to_first(runtime, links)
        await runtime.reload(config(Engine.S2S, automatic=False))
        await trio.sleep(3)
        assert [link.setup.automatic for link in links.opened] == [True, False]
        assert [link.closed for link in links.opened] == [True, False]


async def test_a_shorter_patience_counts_for_the_socket_that_is_open(
    autojump_clock: MockClock,
) -> None:
    links = Links()
    async with talking(SPEAKS, links) as runtime:
        await answer_to_first(runtime, links)
        await runtime.reload(config(Engine.S2S, idle=60.0))
        await trio.sleep(61)
        assert links.last.closed


async def test_the_next_socket_is_opened_with_the_new_key(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two providers that look the same: a label says nothing of a key.
    first, second = Links(), Links()
    async with talking(SPEAKS, first) as runtime:
        await answer_to_first(runtime, first)
        other = attrs.evolve(runtime._cast.voices, s2s=second)
        assert isinstance(other, Voices)
        runtime._cast.voices = other
        await runtime.reload(SPEAKS)
        await trio.sleep(1000)  # nobody speaks, so the socket was closed
        assert first.last.closed
        async with runtime.npc("Bo").say("hi") as turn:
            await wait_all_tasks_blocked()
            second.last.speak("r", "Spoken.")
            assert (await turn.finish()).text == "Spoken."


async def answer_to_first(runtime: Runtime, links: Links) -> None:
    async with runtime.npc("Bo").say("hi") as turn:
        await wait_all_tasks_blocked()
        links.last.speak("first", "Spoken.")
        await turn.finish()


async def test_turns_go_round_the_model_or_do_not_as_it_is_configured_now(
    autojump_clock: MockClock,
) -> None:
    ran, links = Ran(), Links()
    slow = ran.tool("ponder", 2.0)
    async with talking(SPEAKS, links, slow) as runtime:
        npc = runtime.npc("Bo")
        said, events = await answer_to(npc, links, "ponder this")
        assert said == "Read."
        assert any(isinstance(event, EngineSwitched) for event in events)
        await runtime.reload(config(Engine.S2S, route=False))
        async with npc.say("ponder this") as turn:
            await wait_all_tasks_blocked()
            links.last.speak("r", "Spoken.")
            assert (await turn.finish()).text == "Spoken."
