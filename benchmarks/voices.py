"""The time that a speech-to-speech NPC adds to its model: results, other tools.

Promised: between the end of a tool and its result on the wire at most 20 ms (p99);
another tier's tools are one message where the wire can change tools, and elsewhere
(Gemini 2.5) a new socket, over which at most 2 s of the microphone and no result is
lost.

Measured: the runtime, or the bridge, at the strict fakes of both vendors, over real
sockets in the same process; so the time that a fake takes to read and check a message
is in every figure, and all of it on one core.

    result on the wire  from the handler's return to the fake that has read it
    update_tier         from the call to its return: the model has been told. *In a
                        call*: a call of the model runs meanwhile, and its socket is
                        replaced, after 200 ms, before it ends
    audio lost          of a microphone that goes on all the time, what none of the
                        servers' sockets has got

A new socket of Gemini 2.5 takes its server 200 ms to set up.

Against: for a result, a text of the same size over a bare trio-websocket.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Final

import attrs
from trio_websocket import (
    ConnectionClosed,
    WebSocketRequest,
    open_websocket_url,
    serve_websocket,
)

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, main
from benchmarks.stress.fakes import (
    GEMINI,
    GEMINI_25,
    KEY,
    OPENAI,
    Fake,
    Message,
    open_fake,
    open_table,
)
from benchmarks.stress.table import count
from glyphoxa_trio import Tier, Tool, tool
from glyphoxa_trio.host import open_host
from glyphoxa_trio.npc.s2s import (
    LiveSettings,
    RealtimeConversation,
    StandingBridge,
    open_bridge,
    open_live,
)
from glyphoxa_trio.providers.gemini_live import GeminiLive
from glyphoxa_trio.providers.openai_realtime import OpenAIRealtime
from glyphoxa_trio.providers.s2s import S2S
from glyphoxa_trio.testing.realtime_server import (
    ModelTurn,
    Reply,
    Script,
    Speak,
    SpokenCallTools,
)
from glyphoxa_trio.tools.gate import Grant

FRAME: Final = 0.02  # seconds of audio
IN_A_CALL: Final = LiveSettings(swap=0.2)
OPENS_AFTER: Final = 0.2
BEFORE: Final = 0.3  # seconds of the microphone before and after an update


@attrs.frozen(kw_only=True)
class Sizes:
    """The number of repetitions of each part."""

    results: int
    updates: int
    sockets: int


FULL: Final = Sizes(results=300, updates=200, sockets=12)
QUICK: Final = Sizes(results=10, updates=10, sockets=1)


def measure(quick: bool) -> list[Figure]:
    return trio.run(_measure, QUICK if quick else FULL)


async def _measure(sizes: Sizes) -> list[Figure]:
    bare = await _bare_messages(sizes.results)
    found: list[Figure] = []
    for name, model in (("OpenAI", OPENAI), ("Gemini", GEMINI)):
        took = await _results(model, sizes.results)
        found.append(figure(f"{name}: result on the wire", took, unit="ms", bare=bare))
    found += await _live_updates(sizes.updates)
    return found + await _new_sockets(sizes.sockets)


# ------------------------------------------------------------------------- results


async def _results(model: str, turns: int) -> list[float]:
    """Seconds from a handler's return to its result at the server."""
    returned, arrived = [], []

    @tool(group="own", estimated_duration_ms=1, read_only=True)
    async def look() -> str:
        """Look around."""
        await trio.sleep(0.002)
        returned.append(perf_counter())
        return "A door, and behind it another one."

    def script(turn: ModelTurn) -> Reply:
        if not turn.outputs:
            return SpokenCallTools([("look", {})])
        return Speak("A door.", ms=40)

    def see(message: Message) -> bool:
        if _is_result(message):
            arrived.append(perf_counter())
        return False

    async with open_table(model, script, [look], see=see) as (runtime, _):
        for _ in range(turns):
            async with runtime.npc("Bartok").say("What is there?") as turn:
                await turn.finish()
    return [b - a for a, b in zip(returned, arrived, strict=True)]


def _is_result(message: Message) -> bool:
    item = message.get("item", {})
    return "toolResponse" in message or item.get("type") == "function_call_output"


async def _bare_messages(times: int) -> list[float]:
    """Seconds that a text of the same size takes over a bare socket."""
    took: list[float] = []
    text = json.dumps({"item": {"output": "A door, and behind it another one." * 4}})

    async def serve(request: WebSocketRequest) -> None:
        socket = await request.accept()
        try:
            while True:
                json.loads(await socket.get_message())
                took.append(perf_counter() - sent)
                await socket.send_message("{}")
        except ConnectionClosed:
            return

    sent = 0.0
    async with trio.open_nursery() as nursery:
        listener = await nursery.start(serve_websocket, serve, "127.0.0.1", 0, None)
        async with open_websocket_url(f"ws://127.0.0.1:{listener.port}/") as socket:
            for _ in range(times):
                sent = perf_counter()
                await socket.send_message(text)
                await socket.get_message()
        nursery.cancel_scope.cancel()
    return took


# ----------------------------------------------------------------------- the tools


async def _live_updates(times: int) -> list[Figure]:
    """Another tier's tools on a wire that can change them."""
    took: list[float] = []
    async with _bridged(OPENAI, [Speak("Hm.")], _tools(())) as (live, bridge, fake):
        live.hear(bytes(960))
        await bridge.update_tier(Tier.STANDARD)
        before = _declarations(fake)
        for at in range(times):
            began = perf_counter()
            if not await bridge.update_tier((Tier.DEEP, Tier.STANDARD)[at % 2]):
                raise RuntimeError("the model was not told of its tools")
            took.append(perf_counter() - began)
        messages = _declarations(fake) - before
        sockets = len(fake.sessions)
    return [
        figure("OpenAI: update_tier", took, unit="ms"),
        count("OpenAI: messages per update", messages / times, n=times),
        count("OpenAI: sockets", sockets, n=times),
    ]


def _declarations(fake: Fake) -> int:
    return sum(
        message.get("type") == "session.update"
        for session in fake.sessions
        for message in session.wire.received
    )


async def _new_sockets(times: int) -> list[Figure]:
    """Another tier's tools on a wire that cannot change them, while somebody speaks
    into the microphone; and in the middle of a call."""
    idle, calling = _Swaps(), _Swaps()
    for at in range(times):
        await _new_socket(idle, at, in_a_call=False)
        await _new_socket(calling, at, in_a_call=True)
    return [
        figure("Gemini 2.5: update_tier", idle.took, unit="ms"),
        figure("Gemini 2.5: audio lost", idle.lost, unit="ms"),
        figure("Gemini 2.5, in a call: update_tier", calling.took, unit="ms"),
        figure("Gemini 2.5, in a call: audio lost", calling.lost, unit="ms"),
        count("Gemini 2.5, in a call: results", calling.results, n=times),
        count("Gemini 2.5, in a call: results lost", times - calling.results, n=times),
        count(
            "Gemini 2.5: sockets per update",
            (idle.sockets + calling.sockets) / (2 * times),
            n=2 * times,
        ),
    ]


@attrs.define(eq=False)
class _Swaps:
    """Seconds, and what the servers have got."""

    took: list[float] = attrs.field(factory=list)
    lost: list[float] = attrs.field(factory=list)
    results: int = 0
    sockets: int = 0


async def _new_socket(swaps: _Swaps, at: int, *, in_a_call: bool) -> None:
    found: list[str] = []

    def script(turn: ModelTurn) -> Reply:
        if in_a_call and not found:
            return SpokenCallTools([("look", {})])
        return Speak("I see.", ms=40)

    settings = IN_A_CALL if in_a_call else LiveSettings()
    tools = _tools(found, token=f"door-{at}")
    async with _bridged(
        GEMINI_25, script, tools, settings, opens_after=OPENS_AFTER
    ) as (live, bridge, fake):
        rate = live.capabilities.input_rate
        frame = bytes(int(rate * FRAME) * 2)
        live.hear(frame)
        sent = 1
        over = trio.Event()

        async def microphone() -> None:
            nonlocal sent
            following = trio.current_time()
            while not over.is_set():
                live.hear(frame)
                sent += 1
                following += FRAME
                await trio.sleep_until(following)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(microphone)
            await trio.sleep(BEFORE)
            before = live.statistics().sockets
            if in_a_call:
                bridge.say("What is there?")
                while not live.statistics().owed:  # noqa: ASYNC110
                    await trio.sleep(0.005)
            began = perf_counter()
            if not await bridge.update_tier(Tier.DEEP):
                raise RuntimeError("the model was not told of its tools")
            swaps.took.append(perf_counter() - began)
            await trio.sleep(BEFORE)
            if in_a_call:
                while not found or live.statistics().owed:  # noqa: ASYNC110
                    await trio.sleep(0.005)
            over.set()
        swaps.sockets += live.statistics().sockets - before
        with trio.move_on_after(0.5):  # let messages on their way arrive
            while _heard(fake) < sent * len(frame):  # noqa: ASYNC110
                await trio.sleep(0.01)
        swaps.lost.append((sent * len(frame) - _heard(fake)) / 2 / rate)
        if in_a_call:
            with trio.move_on_after(0.5):
                while not _was_told(fake, found[0]):  # noqa: ASYNC110
                    await trio.sleep(0.01)
            swaps.results += _was_told(fake, found[0])


def _heard(fake: Fake) -> int:
    return sum(len(session.hearing.audio) for session in fake.sessions)


def _was_told(fake: Fake, words: str) -> bool:
    """Return True if any socket was given the result, in whatever form."""
    return any(words in json.dumps(x.wire.received) for x in fake.sessions)


def _tools(found: list[str] | tuple[()], token: str = "") -> list[Tool]:
    """One that is quick to be let in and takes a second, and one for slow turns."""

    @tool(group="own", estimated_duration_ms=900, read_only=True)
    async def look() -> str:
        """Look around."""
        await trio.sleep(0.9)
        if isinstance(found, list):
            found.append(token)
        return token

    @tool(group="own", estimated_duration_ms=3000, read_only=True)
    async def study() -> str:
        """Study it."""
        await trio.sleep(3)
        return token

    return [look, study]


@asynccontextmanager
async def _bridged(
    model: str,
    script: Script,
    tools: Sequence[Tool],
    settings: LiveSettings | None = None,
    *,
    opens_after: float = 0.0,
) -> AsyncIterator[tuple[RealtimeConversation, StandingBridge, Fake]]:
    """A bridge without an NPC, at a fake of its vendor."""
    async with (
        open_fake(model, script, opens_after=opens_after) as fake,
        open_host() as host,
    ):
        host.register(*tools)
        live = RealtimeConversation(
            provider=_provider(model, fake), settings=settings or LiveSettings()
        )
        grant = Grant(npc="", tools=("*",))
        async with open_live(live):
            async with open_bridge(
                host, live, grant=grant, tier=Tier.STANDARD
            ) as bridge:
                yield live, bridge, fake


def _provider(model: str, fake: Fake) -> S2S:
    if model == OPENAI:
        return OpenAIRealtime(model=model, base_url=fake.base_url, api_key=KEY)
    return GeminiLive(model=model, base_url=fake.base_url, api_key=KEY)


BENCHMARK = Benchmark(
    name="voices",
    promise=(
        "a result is on the wire within 20 ms, and other tools cost one message, or a"
        " new socket with at most 2 s of audio and no result lost"
    ),
    measure=measure,
    budgets=(
        Budget(figure="OpenAI: result on the wire", statistic="p99", at_most=20),
        Budget(figure="Gemini: result on the wire", statistic="p99", at_most=20),
        Budget(figure="OpenAI: messages per update", statistic="p50", at_most=1),
        Budget(figure="OpenAI: sockets", statistic="p50", at_most=1),
        Budget(figure="Gemini 2.5: audio lost", statistic="p99", at_most=2000),
        Budget(
            figure="Gemini 2.5, in a call: audio lost", statistic="p99", at_most=2000
        ),
        Budget(
            figure="Gemini 2.5, in a call: results lost", statistic="p50", at_most=0
        ),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
