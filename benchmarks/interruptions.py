"""The time until a speech-to-speech NPC falls silent, and its tools stop.

Promised: an interruption stops what is said within 10 ms (p99), and whoever runs a
tool for it is told: a handler of our own by its cancellation, a server of MCP by a
message.

Measured: the runtime at the strict fakes of both vendors, over real sockets in the
same process.

    the turn is left  the listener leaves its block, in the middle of speech
    interrupted       `Npc.interrupt`, while somebody listens on
    somebody speaks   the server says that it hears somebody (server VAD): from the
                      moment in which the fake has sent that

Until the `Flush` event, and until the last `Speech` after the moment (0 if none came).
Of who leaves, the `Flush` is the table's: to them nothing is given any more. With two
calls running, until the handler was cancelled, and until the server
(`benchmarks/servers/patient.py`) has read that, which it stamps on the monotonic clock
that all processes share.

Against: a nursery with one sleep, cancelled.
"""

from __future__ import annotations

import random
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import attrs

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from benchmarks.stress.fakes import GEMINI, OPENAI, Message, open_table
from glyphoxa_trio import Runtime, Tier, TurnDone, tool
from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.host import Caller
from glyphoxa_trio.npc.events import Flush, Speech, ToolStarted
from glyphoxa_trio.testing.realtime_server import (
    ModelTurn,
    Reply,
    Speak,
    SpokenCallTools,
    UserSpeaks,
)
from glyphoxa_trio.tools.gate import EVERYTHING
from glyphoxa_trio.tools.outcome import ToolCall

SERVER: Final = Path(__file__).parent / "servers" / "patient.py"
TIMES: Final = 100
WITH_TOOLS: Final = 20  # each tool hangs once


def measure(quick: bool) -> list[Figure]:
    return trio.run(_measure, 3 if quick else TIMES)


@attrs.define(eq=False)
class _Stops:
    """Seconds since something was to stop: ``since`` then, 0 while it is not."""

    since: float = 0.0
    flush: list[float] = attrs.field(factory=list)
    speech: list[float] = attrs.field(factory=list)
    handler: list[float] = attrs.field(factory=list)
    server: list[float] = attrs.field(factory=list)


async def _measure(times: int) -> list[Figure]:
    bare = await _bare_cancels(times)
    left, asked, spoken = _Stops(), _Stops(), _Stops()
    await _leave(left, times)
    await _ask(asked, times)
    await _speak(spoken, OPENAI, times)
    gemini = _Stops()
    await _speak(gemini, GEMINI, times)
    await _with_tools(left, spoken, min(times, WITH_TOOLS))

    def stops(name: str, stops: _Stops) -> list[Figure]:
        kinds = (
            ("flush", stops.flush),
            ("last speech", stops.speech),
            ("handler cancelled", stops.handler),
            ("server told", stops.server),
        )
        return [
            figure(f"{name}: {kind}", seconds, unit="ms", bare=bare)
            for kind, seconds in kinds
            if seconds
        ]

    return [
        *stops("the turn is left", left),
        *stops("interrupted", asked),
        *stops("somebody speaks", spoken),
        *stops("somebody speaks, Gemini", gemini),
    ]


def _story(turn: ModelTurn) -> Speak:
    return Speak("A long story.", ms=5000, chunk_ms=20, paced=True)


async def _leave(stops: _Stops, times: int) -> None:
    """The listener leaves: no event can be delivered any more."""
    async with open_table(OPENAI, _story, ()) as (runtime, _):
        for _ in range(times):
            with runtime.events.subscribe(only=Flush) as flushes:
                async with runtime.npc("Bartok").say("Tell me a story") as turn:
                    await _listen_for(turn, random.uniform(0.05, 0.2))
                    began = perf_counter()
                await flushes.__anext__()
                stops.flush.append(perf_counter() - began)


async def _listen_for(turn: AsyncIterator[Any], seconds: float) -> None:
    """Until so much of it has been heard."""
    heard = 0.0
    async for event in turn:
        if isinstance(event, Speech):
            heard += event.seconds
        if heard > seconds:
            return


async def _ask(stops: _Stops, times: int) -> None:
    """Another task interrupts the NPC, and the listener stays."""
    async with open_table(OPENAI, _story, ()) as (runtime, _):
        npc = runtime.npc("Bartok")
        for _ in range(times):
            async with npc.say("Tell me a story") as turn:
                await _listen_for(turn, random.uniform(0.05, 0.2))
                stops.since = perf_counter()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_heard_out, turn, stops)
                    await npc.interrupt()


async def _heard_out(turn: AsyncIterator[Any], stops: _Stops) -> None:
    """Hear the rest; when it was flushed, and when the last of it came."""
    last = 0.0
    async for event in turn:
        now = perf_counter()
        if stops.since and isinstance(event, Speech):
            last = now - stops.since
        if isinstance(event, Flush):
            stops.flush.append(now - stops.since)
    stops.speech.append(last)


async def _speak(stops: _Stops, model: str, times: int) -> None:
    """The server detects speech, and says so."""

    def script(turn: ModelTurn) -> Reply:
        if turn.user == "Stop":
            return Speak("As you wish.", ms=20)
        after = random.uniform(0.1, 0.2)
        return [UserSpeaks("Stop", ms=60, after=after), _story(turn)]

    def see(message: Message) -> bool:
        content = message.get("serverContent", {})
        if content.get("interrupted") or (
            message.get("type") == "input_audio_buffer.speech_started"
        ):
            stops.since = perf_counter()
        return False

    async with open_table(model, script, (), see=see, sent=True) as (runtime, _):
        npc = runtime.npc("Bartok")
        for _ in range(times):
            stops.since = 0.0
            with runtime.events.subscribe(only=TurnDone) as ends:
                async with npc.say("Tell me a story") as turn:
                    await _heard_out(turn, stops)
                for _ in range(2):  # theirs, and the one that answers it
                    await ends.__anext__()


async def _with_tools(left: _Stops, spoken: _Stops, times: int) -> None:
    """The same while a tool of our own runs, and one of a server."""
    spoke = cancelled = 0.0

    @tool(group="own", estimated_duration_ms=5, read_only=True)
    async def wait(number: int) -> str:
        """Wait for something that does not come."""
        nonlocal cancelled
        try:
            await trio.sleep(10)
        except trio.Cancelled:
            cancelled = perf_counter()
            raise
        return "Nothing came."

    def script(turn: ModelTurn) -> Reply:
        if turn.user == "Stop":
            return Speak("As you wish.", ms=20)
        number = turn.user.rpartition(" ")[2]
        calls = SpokenCallTools(
            [("wait", {"number": int(number)}), (f"mcp__patient__slow_{number}", {})]
        )
        if turn.user.startswith("Speak"):
            return [UserSpeaks("Stop", ms=60, after=0.2), calls]
        return calls

    def see(message: Message) -> bool:
        nonlocal spoke
        if message.get("type") == "input_audio_buffer.speech_started":
            spoke = perf_counter()
        return False

    server = ServerSpec(
        name="patient",
        command=(sys.executable, str(SERVER)),
        estimated_duration=0.01,
    )
    began: dict[str, tuple[_Stops, float]] = {}
    async with open_table(
        OPENAI, script, [wait], see=see, sent=True, servers=(server,)
    ) as (runtime, _):
        npc = runtime.npc("Bartok")
        for at in range(2 * times):
            name, stops = ("Leave", left) if at < times else ("Speak", spoken)
            with runtime.events.subscribe(only=TurnDone) as ends:
                async with npc.say(f"{name} {at}") as turn:
                    running = 0
                    async for event in turn:
                        running += isinstance(event, ToolStarted)
                        if running == 2 and stops is left:
                            await trio.sleep(0.05)
                            spoke = perf_counter()
                            break
                for _ in range(1 if stops is left else 2):
                    await ends.__anext__()
            if running != 2:
                raise RuntimeError(f"{running} tools ran")
            stops.handler.append(cancelled - spoke)
            began[f"slow_{at}"] = (stops, spoke)
        told = await _cancellations(runtime)
    for slow, (stops, spoke) in began.items():
        stops.server.append(told[slow] - spoke)


async def _cancellations(runtime: Runtime) -> dict[str, float]:
    await trio.sleep(0.2)
    caller = Caller(grant=EVERYTHING, tier=Tier.DEEP)
    (said,) = await runtime.host.fan_out(
        [ToolCall("1", "patient.cancellations", "{}")],
        caller,
        deadline=trio.current_time() + 2,
    )
    return said.data if isinstance(said.data, dict) else {}


async def _bare_cancels(times: int) -> list[float]:
    took: list[float] = []
    for _ in range(times):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            await trio.sleep(0.005)
            began = perf_counter()
            nursery.cancel_scope.cancel()
        took.append(perf_counter() - began)
    return took


BENCHMARK = Benchmark(
    name="interruptions",
    promise="an interruption stops speech, and the tools with it, within 10 ms",
    measure=measure,
    budgets=(
        Budget(figure="the turn is left: flush", statistic="p99", at_most=10),
        *(
            Budget(figure=f"{name}: {what}", statistic="p99", at_most=10)
            for name in ("interrupted", "somebody speaks", "somebody speaks, Gemini")
            for what in ("flush", "last speech")
        ),
        *(
            Budget(figure=f"{name}: {what}", statistic="p99", at_most=10)
            for name in ("the turn is left", "somebody speaks")
            for what in ("handler cancelled", "server told")
        ),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
