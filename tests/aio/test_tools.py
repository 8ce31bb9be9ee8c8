"""An embedder's own coroutines: tools and an approver, on the loop, within limits."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from math import inf
from typing import Any, NoReturn

import pytest
import sniffio

import trio

from glyphoxa_trio import CallContext, Runtime, Tool, ToolError, aio, open_runtime, tool
from glyphoxa_trio.aio import Mode
from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.npc import ApprovalRequest, ToolStarted, TurnEnd
from glyphoxa_trio.tools.outcome import Limit, Outcome, Status, ToolCall
from glyphoxa_trio.tools.tier import Tier, TierLimits

from ..npc.support import ScriptedLLM
from .support import LIMIT, config, opened, play, say, seer

CALL = (ToolCall("1", "act", "{}"),)


async def _until_lingering(runtime: Runtime, counts: dict[str, int]) -> None:
    while runtime.host.statistics().shared_tasks.lingering != counts:
        await trio.lowlevel.checkpoint()


async def called(mode: Mode, made: Tool, **more: Any) -> Outcome:
    """What a turn's one call of ``act`` came to."""
    chosen = config("custom.act", **more)
    async with opened(mode, chosen, CALL, ["There."], tools=[made]) as runtime:
        done = await say(runtime, "act")
        assert done.end is TurnEnd.COMPLETED
        return done.outcomes[0]


def test_a_coroutine_runs_on_the_loop_that_opened_the_runtime(mode: Mode) -> None:
    who = contextvars.ContextVar("who", default="nobody")

    @aio.tool
    @tool(read_only=True, estimated_duration_ms=10)
    async def act() -> dict[str, str]:
        await asyncio.sleep(0)
        assert asyncio.get_running_loop() is loop[0]
        assert threading.get_ident() == here
        return {"library": sniffio.current_async_library(), "who": who.get()}

    async def main() -> None:
        loop.append(asyncio.get_running_loop())
        who.set("the one who opens it")
        outcome = await called(mode, act)
        assert outcome.status is Status.OK, outcome
        assert outcome.data == {"library": "asyncio", "who": "the one who opens it"}

    loop: list[asyncio.AbstractEventLoop] = []
    here = threading.get_ident()
    play(main)


def test_a_coroutine_that_hangs_is_cancelled_at_the_ceiling(mode: Mode) -> None:
    ends: list[str] = []

    @aio.tool
    @tool(read_only=True, estimated_duration_ms=10)
    async def act() -> NoReturn:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # it may still wait, to clean up
            ends.append("cancelled")
            raise
        raise AssertionError("nobody sets it")

    async def main() -> None:
        limits = TierLimits(
            standard_threshold=1, fast_ceiling=0.05, standard_ceiling=1, deep_ceiling=1
        )
        while not ends:  # on a busy machine it may be too late to begin
            outcome = await called(mode, act, tiers=limits)
        assert (outcome.status, outcome.limit) == (Status.TIMEOUT, Limit.TURN)
        assert outcome.elapsed < LIMIT

    play(main)
    assert ends == ["cancelled"]


def test_an_interruption_cancels_the_coroutine(mode: Mode) -> None:
    async def main() -> None:
        begun, ended = asyncio.Event(), asyncio.Event()

        @aio.tool
        @tool(read_only=True, estimated_duration_ms=10)
        async def act() -> None:
            begun.set()
            try:
                await asyncio.sleep(LIMIT)
            finally:
                ended.set()

        chosen = config("custom.act")
        async with opened(mode, chosen, CALL, tools=[act]) as runtime:
            async with runtime.npc("Bo").say("act") as turn:
                async for event in turn:
                    if isinstance(event, ToolStarted):
                        break
                await begun.wait()
            await ended.wait()

    play(main)


def test_a_coroutine_that_does_not_stop_is_counted_and_then_refused(
    mode: Mode,
) -> None:
    """Two of them, as of any handler that ignores its cancellation (D3a)."""

    async def main() -> None:
        let_go = asyncio.Event()
        stuck: list[int] = []

        @aio.tool
        @tool(read_only=True, estimated_duration_ms=10, max_duration_ms=20)
        async def act(attempt: int) -> None:
            stuck.append(attempt)
            while not let_go.is_set():
                try:
                    await let_go.wait()
                except asyncio.CancelledError:
                    continue

        llm = ScriptedLLM(
            lambda request: (
                [ToolCall("1", "act", f'{{"attempt": {len(llm.requests)}}}')]
                if request.messages[-1].role == "user"
                else ["There."]
            )
        )
        async with opened(mode, config("custom.act"), llm=llm, tools=[act]) as runtime:
            while len(stuck) < 2:  # on a busy machine one may be too late to begin
                done = await say(runtime, "act")
                assert done.outcomes[0].status is Status.TIMEOUT
            await runtime.run(_until_lingering, {"custom.act": 2})
            done = await say(runtime, "act")
            assert done.outcomes[0].status is Status.UNAVAILABLE
            let_go.set()
            await runtime.run(_until_lingering, {})

    play(main)


def test_a_coroutine_that_never_stops_holds_nobody_up_at_the_end(
    mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glyphoxa_trio.aio.bridge.GRACE", 0.01)

    async def main() -> None:
        let_go, begun = asyncio.Event(), asyncio.Event()
        told: list[dict[str, Any]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.append(context))

        @aio.tool
        @tool(read_only=True, estimated_duration_ms=10)
        async def act() -> None:
            begun.set()
            while not let_go.is_set():
                try:
                    await let_go.wait()
                except asyncio.CancelledError:
                    continue

        chosen = config("custom.act")
        async with opened(mode, chosen, CALL, tools=[act]) as runtime:
            async with runtime.npc("Bo").say("act"):
                await begun.wait()
        (left,) = asyncio.all_tasks() - {asyncio.current_task()}
        assert [context["task"] for context in told] == [left]
        let_go.set()  # it is the embedder's, in the embedder's loop
        await left

    play(main)


def test_errors_of_a_coroutine_are_its_calls(mode: Mode) -> None:
    async def main() -> None:
        @aio.tool
        @tool(name="act", read_only=True, estimated_duration_ms=10)
        async def refuses() -> None:
            raise ToolError("not on a Sunday")

        @aio.tool
        @tool(name="act", read_only=True, estimated_duration_ms=10)
        async def breaks() -> None:
            raise ZeroDivisionError("a bug")

        @aio.tool
        @tool(name="act", read_only=True, estimated_duration_ms=10)
        async def is_ended() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()  # by nobody who waits for it
            await asyncio.sleep(LIMIT)

        refused = await called(mode, refuses)
        assert refused.status is Status.TOOL_ERROR
        assert refused.message == "not on a Sunday"
        assert (await called(mode, breaks)).status is Status.CRASHED
        assert (await called(mode, is_ended)).status is Status.CRASHED

    play(main)


def test_a_coroutine_that_ends_the_program_ends_the_program(mode: Mode) -> None:
    @aio.tool
    @tool(read_only=True, estimated_duration_ms=10)
    async def act() -> None:
        raise SystemExit(3)

    async def main() -> None:
        await called(mode, act)

    with pytest.raises(SystemExit, match="3"):
        play(main)


def test_a_coroutine_may_talk_to_another_npc(mode: Mode) -> None:
    async def main() -> None:
        runtimes: list[aio.Runtime] = []

        @aio.tool
        @tool(estimated_duration_ms=10)
        async def act() -> str:
            return (await say(runtimes[0], "what do you say?", "Cy")).text

        npcs = (NpcConfig(name="Bo", tools=("custom.act",)), NpcConfig(name="Cy"))
        llm = ScriptedLLM(
            lambda request: (
                CALL
                if request.tools and request.messages[-1].role == "user"
                else ["Aye."]
            )
        )
        async with opened(mode, config(npcs=npcs), llm=llm, tools=[act]) as runtime:
            runtimes.append(runtime)
            done = await say(runtime, "ask Cy")
            assert done.outcomes[0].message == "Aye."

    play(main)


def test_the_times_of_a_context_are_the_loops(mode: Mode) -> None:
    seen: list[float] = []

    @aio.tool
    @tool(read_only=True, estimated_duration_ms=10, max_duration_ms=5000)
    async def act(context: CallContext) -> None:
        now = asyncio.get_running_loop().time()
        seen.extend((context.deadline - now, context.awaited_until - now))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout_at(context.deadline - 4.999):
                await asyncio.sleep(LIMIT)

    async def main() -> None:
        assert (await called(mode, act)).status is Status.OK

    play(main)
    assert 4 < seen[0] <= 5.0
    assert LIMIT - 1 < seen[1] <= LIMIT  # of the turn, which is patient here


def test_only_a_coroutine_needs_the_loop() -> None:
    @tool(read_only=True)
    def plain() -> None: ...

    with pytest.raises(TypeError, match=r"custom\.plain is a plain function"):
        aio.tool(plain)


def test_a_coroutine_in_a_run_without_a_loop_says_what_it_needs() -> None:
    @aio.tool
    @tool(read_only=True, estimated_duration_ms=10)
    async def act() -> None: ...

    async def natively() -> Outcome:
        llm = ScriptedLLM((CALL, ["There."]))
        chosen = config("custom.act")
        async with open_runtime(chosen, llm=llm, tools=[act]) as runtime:
            async with runtime.npc("Bo").say("act") as turn:
                return (await turn.finish()).outcomes[0]

    outcome = trio.run(natively)
    assert outcome.status is Status.CRASHED
    # Its author's plain call is what it always was.
    assert asyncio.run(_call(act)) is None


async def _call(made: Tool) -> object:
    return await made()


@pytest.mark.border
def test_an_approver_is_asked_on_the_loop(mode: Mode) -> None:
    asked: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest) -> bool:
        await asyncio.sleep(0)
        asked.append(request)
        if len(asked) == 2:
            raise ZeroDivisionError("a bug is no yes")
        return True

    async def main() -> None:
        call = (ToolCall("1", "mcp__seer__whisper", "{}"),)
        npc = NpcConfig(name="Bo", tools=("seer.*",), budget_tier=Tier.STANDARD)
        chosen = config(npcs=(npc,), servers=(seer(),))
        script = (call, ["There."], call, ["No."])
        async with opened(mode, chosen, *script, approver=approve) as runtime:
            statuses = [
                (await say(runtime, "ask", tier=Tier.STANDARD)).outcomes[0].status
                for _ in range(2)
            ]
            assert statuses == [Status.OK, Status.DENIED]

    play(main)
    assert [request.tool for request in asked] == ["seer.whisper"] * 2


@pytest.mark.border
def test_an_approver_that_hangs_is_cancelled_when_the_turn_is_left(mode: Mode) -> None:
    async def main() -> None:
        asked, left = asyncio.Event(), asyncio.Event()

        async def approve(_: ApprovalRequest) -> bool:
            asked.set()
            try:
                await asyncio.sleep(inf)
            finally:
                left.set()
            return True

        call = (ToolCall("1", "mcp__seer__whisper", "{}"),)
        npc = NpcConfig(name="Bo", tools=("seer.*",), budget_tier=Tier.STANDARD)
        chosen = config(npcs=(npc,), servers=(seer(),))
        async with opened(mode, chosen, call, approver=approve) as runtime:
            async with runtime.npc("Bo").say("ask", tier=Tier.STANDARD):
                await asked.wait()
            await left.wait()

    play(main)
