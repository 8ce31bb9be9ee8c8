"""Turns from asyncio: the same events, delivered in the same sense, and every end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

import trio

from glyphoxa_trio import Runtime, aio, open_runtime, tool
from glyphoxa_trio.aio import Mode
from glyphoxa_trio.config import (
    LlmConfig,
    NpcConfig,
    Provider,
    TurnConfig,
)
from glyphoxa_trio.npc import (
    QueueFull,
    Sentence,
    TierSelected,
    TurnDone,
    TurnEnd,
    TurnEvent,
)
from glyphoxa_trio.testing.model_server import CallTools, Forever, SayText
from glyphoxa_trio.tools.outcome import Status, ToolCall
from glyphoxa_trio.tools.tier import Tier

from ..npc.support import HANG, ScriptedLLM
from ..traced import TRACER, recorded
from .support import config, model_server, opened, play, say

ROLL = (ToolCall("1", "roll", '{"expression": "1d1+3"}'),)
ANSWER = ("It is four. ", "Quite so.")


async def to(kind: type[TurnEvent], turn: AsyncIterator[TurnEvent]) -> TurnEvent:
    """The next event of that kind; those before it are taken as well."""
    async for event in turn:
        if isinstance(event, kind):
            return event
    raise AssertionError(f"no {kind.__name__}")


def test_a_turn_is_below_the_span_of_the_task_that_asks_for_it(mode: Mode) -> None:
    async def command(runtime: aio.Runtime, name: str) -> None:
        with TRACER.start_as_current_span(name):
            await say(runtime, "roll for me")

    async def main() -> None:
        async with opened(mode, config("roll"), ANSWER, ANSWER) as runtime:
            await command(runtime, "one")
            await command(runtime, "other")

    with recorded() as spans:
        play(main)
        assert not spans.open
    above = [spans.above(x) for x in spans.named("invoke_agent Bo")]
    assert [x and x.name for x in above] == ["one", "other"]


def test_a_turn_has_the_events_that_it_has_natively(mode: Mode) -> None:
    async def natively() -> list[type[TurnEvent]]:
        llm = ScriptedLLM((ROLL, ANSWER))
        async with open_runtime(config("roll"), llm=llm) as runtime:
            async with runtime.npc("Bo").say("roll for me") as turn:
                return [type(event) async for event in turn]

    async def main() -> None:
        async with opened(mode, config("roll"), ROLL, ANSWER) as runtime:
            async with runtime.npc("Bo").say("roll for me") as turn:
                kinds = [type(event) async for event in turn]
            assert kinds == expected
            assert turn.done is not None
            assert turn.done.end is TurnEnd.COMPLETED
            assert [x.status for x in turn.done.outcomes] == [Status.OK]
            assert turn.delivered == "It is four. Quite so."

    expected = trio.run(natively)
    play(main)


def test_finish_listens_to_the_end(mode: Mode) -> None:
    async def main() -> None:
        async with opened(mode, config(), ANSWER) as runtime:
            async with runtime.npc("Bo").say("well?") as turn:
                done = await turn.finish()
                assert done is turn.done
                assert turn.delivered == done.text == "It is four. Quite so."
                assert await turn.finish() is done  # nothing follows the end
                with pytest.raises(StopAsyncIteration):
                    await anext(turn)

    play(main)


def test_two_npcs_speak_at_once(mode: Mode) -> None:
    """Each waits for the other, within the same tool."""
    met = asyncio.Barrier(2)

    @aio.tool
    @tool(group="custom", read_only=True, estimated_duration_ms=10)
    async def meet() -> str:
        await met.wait()
        return "met"

    async def main() -> None:
        npcs = tuple(NpcConfig(name=name, tools=("meet",)) for name in ("Bo", "Cy"))
        llm = ScriptedLLM(
            lambda request: (
                [ToolCall("1", "meet", "{}")]
                if request.messages[-1].role == "user"
                else ["There you are."]
            )
        )
        chosen = config(npcs=npcs)
        async with opened(mode, chosen, llm=llm, tools=[meet]) as runtime:
            async with asyncio.TaskGroup() as group:
                turns = [
                    group.create_task(say(runtime, "go", name)) for name in ("Bo", "Cy")
                ]
            assert [turn.result().text for turn in turns] == ["There you are."] * 2

    play(main)


def test_a_hundred_turns_at_once(mode: Mode) -> None:
    async def main() -> None:
        npcs = tuple(NpcConfig(name=f"Guest {n}", tools=("roll",)) for n in range(100))
        llm = ScriptedLLM(
            lambda request: ROLL if request.messages[-1].role == "user" else ANSWER
        )
        async with opened(mode, config(npcs=npcs), llm=llm) as runtime:
            async with asyncio.TaskGroup() as group:
                turns = [
                    group.create_task(say(runtime, "roll", npc.name)) for npc in npcs
                ]
            assert {turn.result().npc for turn in turns} == {npc.name for npc in npcs}
            assert all(turn.result().end is TurnEnd.COMPLETED for turn in turns)
            assert all(len(turn.result().outcomes) == 1 for turn in turns)

    play(main)


def test_a_sentence_counts_once_the_next_event_is_asked_for(mode: Mode) -> None:
    async def main() -> None:
        llm = ScriptedLLM([["One. Two. Three."], ["Yes."]])
        async with opened(mode, llm=llm) as runtime:
            async with runtime.npc("Bo").say("count") as turn:
                await to(Sentence, turn)
                assert turn.delivered == ""
                await to(Sentence, turn)
                assert turn.delivered == "One."
            # Left with the second in hand, and the third on its way.
            assert turn.delivered == "One."
            await say(runtime, "and then?")
            assert llm.told() == [
                ("user", "count"),
                ("assistant", "One."),
                ("user", "and then?"),
            ]

    play(main)


def test_leaving_the_block_is_the_interruption(mode: Mode) -> None:
    async def main() -> None:
        llm = ScriptedLLM([["Well. And ", HANG]])
        async with opened(mode, llm=llm) as runtime:
            async with runtime.events.subscribe(only=TurnDone) as ends:
                async with runtime.npc("Bo").say("tell me") as turn:
                    await to(Sentence, turn)
                    assert llm.open == 1
                assert (llm.open, runtime.turns_running) == (0, 0)
                done = await anext(ends)
                assert isinstance(done, TurnDone)
                assert done.end is TurnEnd.INTERRUPTED

    play(main)


def test_a_task_that_is_cancelled_leaves_when_its_turn_has_ended(mode: Mode) -> None:
    async def main() -> None:
        llm = ScriptedLLM([["Well. And ", HANG]])
        async with opened(mode, llm=llm) as runtime:
            listening = asyncio.Event()

            async def listen() -> None:
                async with runtime.npc("Bo").say("tell me") as turn:
                    await to(Sentence, turn)
                    listening.set()
                    await turn.finish()

            task = asyncio.create_task(listen())
            await listening.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (llm.open, runtime.turns_running) == (0, 0)

    play(main)


def test_a_timeout_works_around_every_wait(mode: Mode) -> None:
    async def main() -> None:
        llm = ScriptedLLM(lambda _: [HANG])
        async with opened(mode, llm=llm) as runtime:
            bo = runtime.npc("Bo")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01), bo.say("one") as turn:
                    await turn.finish()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01), bo.say("two") as turn:
                    async for _ in turn:
                        pass
            async with bo.say("three") as turn:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.01):
                        await turn.finish()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await runtime.run(_for_ever)
            assert (llm.open, runtime.turns_running) == (0, 0)

    async def _for_ever(_: Runtime) -> None:
        await trio.sleep_forever()

    play(main)


def test_a_wait_that_is_cancelled_loses_no_event(mode: Mode) -> None:
    async def main() -> None:
        gate = asyncio.Event()

        @aio.tool
        @tool(group="custom", read_only=True, estimated_duration_ms=10)
        async def wait() -> str:
            await gate.wait()
            return "over"

        call = (ToolCall("1", "wait", "{}"),)
        chosen = config("custom.wait")
        async with opened(mode, chosen, call, ANSWER, tools=[wait]) as runtime:
            async with runtime.npc("Bo").say("hold on") as turn:
                events: list[TurnEvent] = []
                while True:
                    try:
                        async with asyncio.timeout(0.02):
                            events.append(await anext(turn))
                    except TimeoutError:
                        gate.set()  # the next one is not there before
                        break
                events += [event async for event in turn]
            whole = [type(event).__name__ for event in events]
            assert whole.count("ToolFinished") == whole.count("FanOutDone") == 1
            assert whole.count("Sentence") == 2
            assert whole[-1] == "TurnDone"
            assert turn.delivered == "It is four. Quite so."

    play(main)


def test_an_event_that_came_with_a_cancellation_is_finishs(mode: Mode) -> None:
    async def main() -> None:
        async with opened(mode, config(), ANSWER) as runtime:
            async with runtime.npc("Bo").say("well?") as turn:
                waiting = asyncio.ensure_future(anext(turn))
                await asyncio.sleep(0)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                assert (await turn.finish()).text == "It is four. Quite so."

    play(main)


def test_who_speaks_first_is_heard_first(mode: Mode) -> None:
    """Tasks that are made together, as of messages that arrive together; trio by
    itself would begin them in any order."""

    async def main() -> None:
        llm = ScriptedLLM(lambda _: ["Aye."])
        async with opened(mode, llm=llm) as runtime:
            speakers = [f"speaker {at}" for at in range(8)]
            for _ in range(5):

                async def speak(who: str) -> int:
                    async with runtime.npc("Bo").say("well?", speaker=who) as turn:
                        return (await turn.finish()).turn

                numbers = await asyncio.gather(*(speak(who) for who in speakers))
                assert numbers == sorted(numbers)

    play(main)


def test_a_turn_has_one_listener(mode: Mode) -> None:
    async def main() -> None:
        async with opened(mode, config(), [HANG]) as runtime:
            async with runtime.npc("Bo").say("well?") as turn:
                await to(TierSelected, turn)

                async def listen() -> None:
                    async for _ in turn:
                        pass

                first = asyncio.create_task(listen())
                await asyncio.sleep(0)
                with pytest.raises(RuntimeError, match="another task waits"):
                    await anext(turn)
                first.cancel()
                await asyncio.gather(first, return_exceptions=True)

    play(main)


def test_a_turn_is_entered_first_and_once(mode: Mode) -> None:
    async def main() -> None:
        async with opened(mode, config(), ANSWER) as runtime:
            turn = runtime.npc("Bo").say("well?")
            with pytest.raises(RuntimeError, match="enter the turn first"):
                await anext(turn)
            with pytest.raises(RuntimeError, match="enter the turn first"):
                await turn.finish()
            async with turn:
                await turn.finish()
            with pytest.raises(RuntimeError, match="entered once"):
                await turn.__aenter__()

    play(main)


def test_the_same_speaker_interrupts_and_too_many_others_are_refused(
    mode: Mode,
) -> None:
    async def main() -> None:
        chosen = config(turn=TurnConfig(queue=1))
        llm = ScriptedLLM(lambda _: [HANG])
        async with opened(mode, chosen, llm=llm) as runtime:
            bo = runtime.npc("Bo")
            async with bo.say("one", speaker="Ann") as first:
                await to(TierSelected, first)
                async with bo.say("two", speaker="Ben"):
                    with pytest.raises(QueueFull):
                        async with bo.say("three", speaker="Cid"):
                            raise AssertionError("nobody answers")
                    async with bo.say("four", speaker="Ann") as again:
                        assert (await first.finish()).end is TurnEnd.INTERRUPTED
                        await to(TierSelected, again)
                        assert await bo.interrupt() is True
                        assert (await again.finish()).end is TurnEnd.INTERRUPTED

    play(main)


def test_the_levers_of_an_npc(mode: Mode) -> None:
    async def main() -> None:
        npc = NpcConfig(name="Bo", budget_tier=Tier.FAST)
        llm = ScriptedLLM(lambda _: ["Yes."])
        async with opened(mode, config(npcs=(npc,)), llm=llm) as runtime:
            bo = runtime.npc("bo")
            assert (bo.name, bo.config) == ("Bo", npc)
            deep = "think hard about the history of this place"
            assert await bo.tier_for(deep) is Tier.FAST
            await bo.elevate(Tier.DEEP, seconds=60)
            async with bo.say(deep, tier=Tier.DEEP) as turn:
                done = await turn.finish()
            assert done.tier is Tier.DEEP
            await bo.hearing("and what of")
            assert await bo.interrupt() is False
            assert await bo.approve("1.1", True) is False

    play(main)


def test_a_real_model_over_http(mode: Mode) -> None:
    """Whoever is interrupted is hung up on, and the next turn is another request."""
    with model_server(
        [
            [CallTools([("roll", {"expression": "1d1+3"})])],
            [SayText("It is four. Quite so.")],
            [SayText("Well. And "), Forever("and ")],
        ]
    ) as server:

        async def main() -> None:
            llm = LlmConfig(
                provider=Provider.CHAT_COMPLETIONS,
                model="scripted",
                base_url=server.base_url,
            )
            async with opened(mode, config("roll", llm=llm)) as runtime:
                done = await say(runtime, "roll")
                assert done.text == "It is four. Quite so."
                async with runtime.npc("Bo").say("go on") as turn:
                    await to(Sentence, turn)
            assert len(server.requests) == 3

        play(main)
    assert server.hangups == 1


def test_what_is_acknowledged_is_delivered(mode: Mode) -> None:
    async def main() -> None:
        async with opened(mode, config(), ANSWER) as runtime:
            async with runtime.npc("Bo").say("well?") as turn:
                turn.acknowledge()
                events = [event async for event in turn]
                assert (turn.delivered, turn.unplayed) == ("", 0.0)
                kinds = [type(event) for event in events]
                turn.acknowledge(*events[: kinds.index(Sentence) + 1])
            assert turn.delivered == "It is four."

    play(main)


def test_events_of_other_kinds_do_not_cross(mode: Mode) -> None:
    async def main() -> None:
        async with opened(mode, config(), ANSWER) as runtime:
            async with runtime.npc("Bo").say("well?") as turn:
                turn.only(Sentence)
                kinds = {type(event) async for event in turn}
            assert kinds == {Sentence}
            assert turn.done is not None
            assert turn.delivered == turn.done.text

    play(main)


def test_what_another_program_has_spoken_is_delivered(mode: Mode) -> None:
    async def main() -> None:
        async with opened(mode, config(), ANSWER) as runtime:
            async with runtime.npc("Bo").say("well?") as turn:
                turn.heard("")
                await turn.finish()
                assert (turn.delivered, turn.unplayed > 0) == ("", True)
                turn.heard("It is", over=True)
            assert (turn.delivered, turn.unplayed) == ("It is", 0.0)

    play(main)


def test_a_turn_is_interrupted_and_its_last_events_still_come(mode: Mode) -> None:
    async def main() -> None:
        async with opened(mode, config(), ["It is four.\n", HANG]) as runtime:
            async with runtime.npc("Bo").say("well?") as turn:
                await to(Sentence, turn)
                turn.interrupt("the player is tired of it")
                done = await turn.finish()
            assert done.end is TurnEnd.INTERRUPTED
            assert turn.delivered == "It is four."

    play(main)
