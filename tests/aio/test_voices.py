"""Voices and scenes from asyncio: what goes in, what comes out, and how each ends."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from glyphoxa_trio import Runtime, aio
from glyphoxa_trio.aio import Mode
from glyphoxa_trio.aio.voice import MOST_PIECES
from glyphoxa_trio.config import NpcConfig, TurnConfig
from glyphoxa_trio.npc import (
    CannotHear,
    ContextAdded,
    HearingFailed,
    Moment,
    NobodyAddressed,
    NpcMuted,
    Scene,
    Speech,
    Transcript,
    TurnDone,
    TurnEnd,
)
from glyphoxa_trio.providers.speech import Began, Final, Recognized, SpeechError
from glyphoxa_trio.runtime import RuntimeClosed, UnknownNpc

from ..npc.support import HANG, ScriptedLLM
from ..npc.voices import RATE, FakeRecognizer, FakeSynthesizer, audio_of
from .support import LIMIT, config, opened, play

WORDS = "The door is locked. Go away."


async def tell(
    runtime: aio.Runtime, ears: FakeRecognizer, *events: Recognized | Exception
) -> None:
    """Have the one who listens understand this."""

    async def understand(_: Runtime) -> None:
        ears.listeners[-1].tell(*events)

    await runtime.run(understand)


def test_of_an_answer_that_is_played_what_was_heard_counts(mode: Mode) -> None:
    async def main() -> None:
        llm = ScriptedLLM([[WORDS], ["Yes."]])
        async with opened(mode, llm=llm, synthesizer=FakeSynthesizer()) as runtime:
            async with runtime.npc("Bo").say("knock knock") as turn:
                turn.played(0)
                speech = [
                    event.pcm async for event in turn if isinstance(event, Speech)
                ]
            assert b"".join(speech) == b"".join(
                audio_of(sentence) for sentence in ("The door is locked.", "Go away.")
            )
            assert turn.delivered == ""
            turn.played(2000)  # 1.9 s are the first sentence
            await runtime.servers()  # there and back
            assert turn.delivered == "The door is locked."
            async with runtime.npc("Bo").say("and?") as turn:
                await turn.finish()
            assert llm.told()[1] == ("assistant", "The door is locked.")

    play(main)


def test_a_microphone_and_a_loudspeaker(mode: Mode) -> None:
    async def main() -> None:
        ears = FakeRecognizer()
        async with opened(
            mode, config(), [WORDS], recognizer=ears, synthesizer=FakeSynthesizer()
        ) as runtime:
            voice = runtime.npc("Bo").voice(speaker="Ann", rate=RATE)
            for at in range(5):
                voice.hear(bytes([at, at]))
            async with voice:
                for at in range(5, 10):
                    voice.hear(bytes([at, at]))
                voice.played(0)
                await tell(runtime, ears, Began(), Final("knock knock"))
                said, spoken = "", b""
                async for event in voice:
                    match event:
                        case Transcript(speaker="Ann", text=text, final=True):
                            said = text
                        case Speech(pcm=pcm):
                            spoken += pcm
                        case TurnDone(end=end):
                            assert end is TurnEnd.COMPLETED
                            break
            assert ears.listeners[0].heard == bytes(
                at for x in range(10) for at in (x, x)
            )
            assert said == "knock knock"
            assert len(spoken) == len(audio_of(WORDS)) - len(audio_of(" "))
            assert ears.listeners[0].over
            with pytest.raises(RuntimeError, match="enter it first"):
                await anext(voice)

    play(main)


def test_a_voice_that_is_left_interrupts_what_it_asked(mode: Mode) -> None:
    async def main() -> None:
        ears, llm = FakeRecognizer(), ScriptedLLM([[HANG]])
        async with opened(mode, config(), llm=llm, recognizer=ears) as runtime:
            async with runtime.npc("Bo").voice(rate=RATE) as voice:
                await tell(runtime, ears, Began(), Final("knock knock"))
                async for event in voice:
                    if type(event).__name__ == "ToolsShown":
                        break

                async def read() -> int:
                    return len([event async for event in voice])

                reading = asyncio.create_task(read())
                await runtime.servers()
            assert await reading == 0  # it ended without another event
            assert (runtime.turns_running, llm.open) == (0, 0)

    play(main)


def test_who_cannot_hear_says_so_on_entering(mode: Mode) -> None:
    async def main() -> None:
        async with opened(mode) as runtime:
            with pytest.raises(CannotHear):
                async with runtime.npc("Bo").voice(rate=RATE):
                    raise AssertionError("it hears")
        ears = FakeRecognizer(fails=SpeechError("no model here"))
        async with opened(mode, recognizer=ears) as runtime:
            with pytest.raises(SpeechError, match="no model here"):
                async with runtime.npc("Bo").voice(rate=RATE):
                    raise AssertionError("it hears")

    play(main)


def test_a_recognizer_that_dies_ends_the_voice_and_not_the_npc(mode: Mode) -> None:
    async def main() -> None:
        ears = FakeRecognizer()
        async with opened(mode, config(), ["Aye."], recognizer=ears) as runtime:
            async with runtime.npc("Bo").voice(rate=RATE) as voice:
                await tell(runtime, ears, SpeechError("the worker is dead"))
                failed = await anext(voice)
                assert isinstance(failed, HearingFailed)
                with pytest.raises(SpeechError, match="the worker is dead"):
                    await anext(voice)
            async with runtime.npc("Bo").say("well?") as turn:
                assert (await turn.finish()).text == "Aye."

    play(main)


def test_a_voice_ends_with_its_runtime(mode: Mode) -> None:
    async def main() -> None:
        inside = asyncio.Event()

        async def listen(runtime: aio.Runtime) -> None:
            async with runtime.npc("Bo").voice(rate=RATE) as voice:
                inside.set()
                async for _ in voice:
                    pass

        async with opened(mode, recognizer=FakeRecognizer()) as runtime:
            listening = asyncio.create_task(listen(runtime))
            await inside.wait()
        with pytest.raises(RuntimeClosed):
            await listening
        assert not listening.cancelled()

    play(main)


def test_what_is_no_audio_is_the_loops_to_tell(mode: Mode) -> None:
    """And costs nothing but itself: in a thread it could have ended the run."""

    async def main() -> None:
        told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.put_nowait(context))
        async with opened(mode, config(), ["Aye."], recognizer=FakeRecognizer()) as one:
            async with one.npc("Bo").voice(rate=RATE) as voice:
                voice.hear("not bytes")  # type: ignore[arg-type]
                context = await told.get()
                assert isinstance(context["exception"], TypeError)
                voice.hear(b"\1\1")
            async with one.npc("Bo").say("well?") as turn:
                assert (await turn.finish()).text == "Aye."

    play(main)


def test_a_microphone_never_waits_and_has_a_bound() -> None:
    """Trio's side hears nothing while more is said than may wait."""
    more = 100

    async def main() -> None:
        ears = FakeRecognizer()
        held_up, go_on = threading.Event(), threading.Event()

        async def hold_up(_: Runtime) -> None:
            held_up.set()
            go_on.wait(LIMIT)

        async with opened("thread", recognizer=ears) as runtime:
            async with runtime.npc("Bo").voice(rate=RATE) as voice:
                holding = asyncio.create_task(runtime.run(hold_up))
                await asyncio.to_thread(held_up.wait)
                pieces = [at.to_bytes(2, "little") for at in range(MOST_PIECES + more)]
                for piece in pieces:
                    voice.hear(piece)
                go_on.set()
                await holding
                await runtime.servers()
        assert ears.listeners[0].heard == b"".join(pieces[more:])

    play(main)


def test_a_scene(mode: Mode) -> None:
    async def main() -> None:
        npcs = tuple(NpcConfig(name=name) for name in ("Bo Peep", "Cy Clone"))
        llm = ScriptedLLM(lambda _: ["Aye."])
        async with opened(mode, config(npcs=npcs), llm=llm) as runtime:
            scene = runtime.scene()
            async with scene.say("Cy, are you there?", speaker="Ann") as turn:
                assert turn.npc == "Cy Clone"
                assert (await turn.finish()).text == "Aye."
            assert turn.delivered == "Aye."
            assert (await scene.addressed("and you?", speaker="Ann")).npc == "Cy Clone"
            assert await scene.turn_to("bo", speaker="Ben") == "Bo Peep"
            assert await scene.mute("cy") == "Cy Clone"
            with pytest.raises(NpcMuted):
                async with scene.say("Cy, go on", speaker="Ann"):
                    raise AssertionError("it speaks")
            assert await scene.unmute("cy") == "Cy Clone"
            assert await scene.puppet("bo") == "Bo Peep"
            async with scene.say("Cy, go on", speaker="Ann") as turn:
                assert (await turn.finish()).npc == "Bo Peep"
            assert await scene.puppet(None) is None
            async with scene.speak_as("cy", "I was never here.") as turn:
                assert (await turn.finish()).text == "I was never here."
            async with scene.greet("cy") as turn:
                await turn.finish()
            await scene.tell("It rains.")
            await scene.overhear("Ann", "what a place")
            await scene.hearing("Bo, what", speaker="Ann")
            seen = await scene.look()
            assert (seen.npcs, seen.context) == (
                ("Bo Peep", "Cy Clone"),
                ("It rains.",),
            )
            assert seen.said == 4
            with pytest.raises(UnknownNpc):
                runtime.scene("Dee")
            one = runtime.scene("cy")
            async with one.say("hello") as turn:
                assert (await turn.finish()).npc == "Cy Clone"

    play(main)


def test_nobody_is_meant_by_what_is_said_to_nobody(mode: Mode) -> None:
    async def main() -> None:
        npcs = tuple(NpcConfig(name=name) for name in ("Bo Peep", "Cy Clone"))
        async with opened(mode, config(npcs=npcs)) as runtime:
            with pytest.raises(NobodyAddressed):
                async with runtime.scene().say("hello there"):
                    raise AssertionError("somebody answers")

    play(main)


def test_leaving_a_turn_of_a_scene_ends_it_for_those_who_read_it(mode: Mode) -> None:
    async def main() -> None:
        llm = ScriptedLLM([[HANG]])
        async with opened(mode, llm=llm) as runtime:
            async with runtime.scene().say("hello") as turn:
                async for event in turn:
                    if type(event).__name__ == "ToolsShown":
                        break

                async def read() -> int:
                    return len([event async for event in turn])

                reading = asyncio.create_task(read())
                await runtime.servers()
            assert await reading == 0
            assert llm.open == 0

    play(main)


def test_words_that_are_no_models(mode: Mode) -> None:
    async def main() -> None:
        npc = NpcConfig(name="Bo", greeting="Hello, {caller_name}.")
        llm = ScriptedLLM([["Aye."]])
        async with opened(mode, config(npcs=(npc,)), llm=llm) as runtime:
            bo = runtime.npc("Bo")
            await bo.set_variables({"caller_name": "Ann"})
            async with bo.greet() as turn:
                assert (await turn.finish()).text == "Hello, Ann."
            async with bo.speak_as("Mind the step.") as turn:
                assert (await turn.finish()).text == "Mind the step."
            await bo.overhear("Ben", "where are we?", to="Ann")
            await bo.set_scene("It is dark.")
            async with bo.say("well?") as turn:
                assert (await turn.finish()).text == "Aye."
            prompt = str(llm.requests[0].messages)
            assert "It is dark." in prompt
            assert "where are we?" in prompt
            assert (await runtime.cost()).turned_away == 0
            assert isinstance(await runtime.models(), tuple)
            assert runtime.run_id

    play(main)


def test_context_is_asked_for_on_the_loop(mode: Mode) -> None:
    here, asked = threading.get_ident(), set()

    async def weather(moment: Moment) -> str:
        await asyncio.sleep(0)
        asked.add(threading.get_ident())
        return f"It rains on {moment.npc}."

    def date(_: Moment) -> str:
        asked.add(threading.get_ident())
        return "It is Midsummer."

    async def late(_: Moment) -> str:
        await asyncio.sleep(LIMIT)
        return "never"

    async def main() -> None:
        llm = ScriptedLLM([["Aye."], ["Aye."]])
        chosen = config(turn=TurnConfig(context=0.5))
        async with opened(mode, chosen, llm=llm) as runtime:
            removes = [
                await runtime.add_context(weather, npc="Bo"),
                await runtime.add_context(date),
                await runtime.add_context(late),
            ]
            with pytest.raises(UnknownNpc):
                await runtime.add_context(date, npc="Nobody")
            async with runtime.events.subscribe(only=ContextAdded) as told:
                async with runtime.npc("Bo").say("well?") as turn:
                    await turn.finish()
                added = await anext(told)
                assert isinstance(added, ContextAdded)
                assert [name.split(".")[-1] for name, _ in added.missed] == ["late"]
            for remove in removes:
                remove()
            async with runtime.npc("Bo").say("well?") as turn:
                await turn.finish()
            first, second = (str(request.messages) for request in llm.requests)
            for line in ("It rains on Bo.", "It is Midsummer."):
                assert line in first
                assert line not in second

    play(main)
    assert asked == {here}


def test_a_microphone_in_a_scene(mode: Mode) -> None:
    async def main() -> None:
        npcs = tuple(NpcConfig(name=name) for name in ("Bo Peep", "Cy Clone"))
        llm, ears = ScriptedLLM(lambda _: ["Aye."]), FakeRecognizer()
        async with opened(mode, config(npcs=npcs), llm=llm, recognizer=ears) as runtime:
            scene = runtime.scene()
            assert not await scene.interrupt()
            async with scene.voice(speaker="Ann", rate=RATE) as voice:
                for text, npc in (("Cy, well?", "Cy Clone"), ("And Bo?", "Bo Peep")):
                    await tell(runtime, ears, Began(), Final(text))
                    async for event in voice:
                        if isinstance(event, TurnDone):
                            assert (event.npc, event.text) == (npc, "Aye.")
                            break

    play(main)


def test_everything_that_a_scene_can_do_can_be_done_from_asyncio() -> None:
    native = {name for name in dir(Scene) if not name.startswith("_")}
    assert native - {"name", "dismiss", "idle"} == {
        x for x in dir(aio.Scene) if not x.startswith("_")
    }
