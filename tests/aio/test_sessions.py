"""Sessions from asyncio: separate, kept as snapshots, restored, and set aside."""

from __future__ import annotations

import asyncio

import attrs
import pytest

from glyphoxa_trio import aio
from glyphoxa_trio.aio import Mode
from glyphoxa_trio.config.sessions import SessionsConfig
from glyphoxa_trio.npc import TurnDone
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.runtime import SessionEnded, SnapshotRefused, UnknownNpc

from ..npc.support import ScriptedLLM
from .support import config, play


def echo(request: LLMRequest) -> list[str]:
    return [f"You said {request.messages[-1].content}."]


def said_in(request: LLMRequest) -> str:
    return "\n".join(message.content for message in request.messages)


async def hear(session: aio.Session, text: str) -> TurnDone:
    async with session.npc("Bo").say(text) as turn:
        return await turn.finish()


def test_tables_know_nothing_of_each_other(mode: Mode) -> None:
    llm = ScriptedLLM(echo)

    async def table(runtime: aio.Runtime, number: int) -> None:
        async with runtime.session(f"table {number}") as session:
            for turn in (1, 2):
                done = await hear(session, f"secret {number}")
                assert (done.session, done.turn) == (session.id, turn)
                assert done.text == f"You said secret {number}."
        assert await session.ended()
        with pytest.raises(SessionEnded):
            await hear(session, "hello")

    async def main() -> None:
        async with aio.open_runtime(config(), llm=llm, mode=mode) as runtime:
            await asyncio.gather(*(table(runtime, number) for number in range(8)))
            assert await runtime.sessions() == ()
            scene = runtime.session("evening").scene()
            async with scene.say("Bo, well met.") as turn:
                assert (await turn.finish()).text == "You said Bo, well met.."

    play(main)
    for request in llm.requests[:16]:
        assert len({x for x in said_in(request).split() if x.isdigit()}) == 1


def test_no_queue_is_left_of_sessions_that_were_spoken_to(mode: Mode) -> None:
    async def table(runtime: aio.Runtime, number: int) -> None:
        async with runtime.session(f"table {number}") as session:
            async with session.npc("Bo").say("hello"):
                pass
            with pytest.raises(UnknownNpc):
                await session.npc("Nobody").say("hello").__aenter__()
            left = asyncio.create_task(hear(session, "hello"))
            await asyncio.sleep(0)
            left.cancel()
            await asyncio.wait([left])

    async def main() -> None:
        async with aio.open_runtime(
            config(), llm=ScriptedLLM(echo), mode=mode
        ) as runtime:
            await asyncio.gather(*(table(runtime, number) for number in range(20)))
            assert len(runtime._bridge.order) == 0

    play(main)


def test_one_is_kept_and_gone_on_with(mode: Mode) -> None:
    llm = ScriptedLLM(echo)

    async def main() -> None:
        async with aio.open_runtime(config(), llm=llm, mode=mode) as runtime:
            one = runtime.session(
                "one", tenant="guild", variables={"caller_name": "Eve"}
            )
            await hear(one, "The key is under the mat.")
            await one.set_variables({"caller_name": "Dan"})
            kept = (await one.snapshot()).to_bytes()
            again = runtime.session("one", tenant="guild", restore=kept)
            with pytest.raises(SnapshotRefused, match="exists: end it first"):
                await hear(again, "Well?")
            await one.end()
            again = runtime.session("one", tenant="guild", restore=kept)
            assert (await hear(again, "Well?")).turn == 2
            assert "under the mat" in said_in(llm.requests[-1])
            assert await again.variables() == {"caller_name": "Dan"}
            other = runtime.session("one", tenant="thieves", restore=kept)
            with pytest.raises(SnapshotRefused, match="belongs to another tenant"):
                await other.cost()

    play(main)


def test_one_that_is_set_aside_comes_back(mode: Mode) -> None:
    llm = ScriptedLLM(echo)
    small = attrs.evolve(config(), sessions=SessionsConfig(most=1))

    async def main() -> None:
        async with aio.open_runtime(small, llm=llm, mode=mode) as runtime:
            sessions = [runtime.session(x) for x in ("one", "two", "three")]
            for turn in (1, 2):
                for session in sessions:
                    assert (await hear(session, f"line {turn}")).turn == turn
                    assert runtime.set_aside == (2 if turn == 2 else runtime.set_aside)
            assert "line 1" in said_in(llm.requests[-1])

    play(main)
