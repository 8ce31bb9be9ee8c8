"""The cost of many conversations with speech-to-speech models in one process.

Promised: with 40 of them, each with 50 frames of audio a second both ways, the process
takes about half a core, and what is not audio is not held up by it: a call is begun,
and its result on the wire, within 20 ms (p99) each. When the sockets of 200 are cut at
once, they come back spread out, and all of them.

Measured: `open_runtime` with so many NPCs, a `voice` at each, which is given a frame of
20 ms every 20 ms and is heard out. The other end of the sockets is a process of its own
(`benchmarks/servers/realtime_peer.py`): it speaks without a pause, but for a call of a
tool of ours before each four seconds of speech. It checks nothing, because the strict
fakes would be the measurement. Both stamp with the monotonic clock, which all processes
of a Linux machine share.

    call begun         from the peer's ``response.done`` to the handler
    result on the wire from the handler's return to the peer
    round trip         both, and what is between; as the peer sees it
    a frame            `process_time` of our process over the frames in and out
    processor          that, for all frames at their pace, in cores: where the machine
                       is too busy, fewer frames come, and that must not look cheap

Against: the same peer, and as many bare trio-websockets with `json` and `base64`, which
answer the call at once, with as many frames at the same pace, before it in a process of
its own.

    all back     from the cut to the last socket's being set up again
    in 100 ms    attempts to connect, in each tenth of a second since the cut

*Cut*: the server is there again at once. *Away*: it refuses connections for 2 seconds.
The microphones go on, as those of a table do. Against: 200 bare sockets opened at once.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from array import array
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Final

import attrs
from trio_websocket import open_websocket_url

import trio

from benchmarks.common import Benchmark, Budget, Figure, figure, in_fresh_process, main
from benchmarks.stress.table import count
from glyphoxa_trio import Config, Runtime, TurnDone, open_runtime, tool
from glyphoxa_trio.config import McpConfig, NpcConfig
from glyphoxa_trio.config.model import CalibrationConfig
from glyphoxa_trio.config.voices import Engine, S2SConfig, S2SProvider
from glyphoxa_trio.npc import TurnEnd
from glyphoxa_trio.npc.events import Speech
from glyphoxa_trio.npc.voice import Voice
from glyphoxa_trio.secret import Secret

PEER: Final = Path(__file__).parent / "servers" / "realtime_peer.py"
RATE: Final = 24_000
FRAME: Final = 0.02  # seconds
PACE: Final = 100  # frames a second, both ways together
SESSIONS: Final = 40
SPEECH: Final = 4.0
RAMP: Final = 3.0
WINDOW: Final = 20.0
CUT: Final = 200
CUT_FRAME: Final = 0.1  # of microphones that are on, and cost little
AWAY: Final = 2.0
PATIENCE: Final = 60.0  # seconds; only a hang takes so long


@attrs.define(eq=False)
class Seen:
    """Measurements of one run; seconds on the monotonic clock."""

    begun: dict[str, float] = attrs.field(factory=dict)
    returned: dict[str, float] = attrs.field(factory=dict)
    asked: Mapping[str, float] = attrs.field(factory=dict)
    told: Mapping[str, float] = attrs.field(factory=dict)
    frames: int = 0
    wall: float = 0.0
    processor: float = 0.0
    ends: Counter[TurnEnd] = attrs.field(factory=Counter)

    def between(
        self, first: Mapping[str, float], then: Mapping[str, float]
    ) -> list[float]:
        return [then[call] - at for call, at in first.items() if call in then]


@attrs.define(eq=False)
class Peer:
    """The process at the other end."""

    port: int
    _process: trio.Process

    async def order(self, line: str) -> None:
        assert self._process.stdin is not None
        await self._process.stdin.send_all(line.encode() + b"\n")

    async def report(self) -> dict[str, Any]:
        await self.order("report")
        found: dict[str, Any] = json.loads(await _line(self._process))
        return found


async def _line(process: trio.Process) -> bytes:
    assert process.stdout is not None
    heard = b""
    with trio.fail_after(PATIENCE):
        while not heard.endswith(b"\n"):
            heard += await process.stdout.receive_some()
    return heard


@asynccontextmanager
async def _peer(speech: float) -> AsyncIterator[Peer]:
    process = await trio.lowlevel.open_process(
        [sys.executable, str(PEER), str(speech)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield Peer(int(await _line(process)), process)
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


def measure(quick: bool) -> list[Figure]:
    size, window, speech = (4, 3.0, 0.5) if quick else (SESSIONS, WINDOW, SPEECH)
    bare = in_fresh_process(measure_bare, size, window, speech)
    ours = in_fresh_process(measure_sessions, size, window, speech)
    found = _of_sessions(size, ours, bare)
    cut = 20 if quick else CUT
    found += in_fresh_process(measure_cut, cut, 0.0)
    return found + in_fresh_process(measure_cut, cut, 0.3 if quick else AWAY)


# -------------------------------------------------------------------- the sessions


def _of_sessions(size: int, ours: Seen, bare: Seen) -> list[Figure]:
    name = f"{size} sessions"
    trip = ours.between(ours.asked, ours.told)
    bare_trip = bare.between(bare.asked, bare.told)
    begun = ours.between(ours.asked, ours.begun)
    told = ours.between(ours.returned, ours.told)
    turns = sum(ours.ends.values())
    one = Figure(name="", unit="", n=max(1, ours.frames))

    def beside(what: str, unit: str, value: Callable[[Seen], float]) -> Figure:
        mine, other = value(ours), value(bare)
        return attrs.evolve(
            one,
            name=f"{name}: {what}",
            unit=unit,
            p50=mine,
            bare_p50=other,
            ratio=mine / other,
        )

    return [
        figure(f"{name}: call begun", begun, unit="ms"),
        figure(f"{name}: result on the wire", told, unit="ms"),
        figure(f"{name}: round trip", trip, unit="ms", bare=bare_trip),
        beside("processor, cores", "", lambda x: size * PACE * x.processor / x.frames),
        beside("a frame", "µs", lambda x: 1e6 * x.processor / x.frames),
        beside("frames", "1/s", lambda x: x.frames / x.wall),
        *(
            count(f"{name}: turns {end.value}", ours.ends[end], n=max(1, turns))
            for end in (TurnEnd.COMPLETED, TurnEnd.SHED)
        ),
        count(
            f"{name}: turns not completed",
            turns - ours.ends[TurnEnd.COMPLETED],
            n=max(1, turns),
        ),
    ]


def measure_sessions(size: int, window: float, speech: float) -> Seen:
    return trio.run(_measure_sessions, size, window, speech)


async def _measure_sessions(size: int, window: float, speech: float) -> Seen:
    seen = Seen()

    @tool(group="own", estimated_duration_ms=1, read_only=True)
    async def look(call: str) -> str:
        """Look around."""
        seen.begun[call] = perf_counter()
        await trio.lowlevel.checkpoint()
        seen.returned[call] = perf_counter()
        return "A door, and behind it another one."

    async with _peer(speech) as peer:
        config = _config(size, peer)
        async with (
            open_runtime(config, tools=[look]) as runtime,
            AsyncExitStack() as on,
        ):
            voices = await _listen(runtime, on, size)
            async with trio.open_nursery() as nursery:
                for voice in voices:
                    nursery.start_soon(_microphone, voice.hear, FRAME)
                    nursery.start_soon(_hear_out, voice, seen)
                await _look_at(peer, seen, window)
                nursery.cancel_scope.cancel()
    return seen


async def _look_at(peer: Peer, seen: Seen, window: float) -> None:
    """Measure for so long, once all speak; calls begun before are not counted."""
    await trio.sleep(min(RAMP, window))
    await peer.report()
    seen.ends.clear()
    wall, processor = perf_counter(), process_time()
    await trio.sleep(window)
    seen.wall, seen.processor = perf_counter() - wall, process_time() - processor
    found = await peer.report()
    seen.frames = found["heard"] + found["said"]
    seen.asked, seen.told = found["asked"], found["told"]


async def _listen(runtime: Runtime, on: AsyncExitStack, size: int) -> list[Voice]:
    """A microphone at every NPC."""
    return [
        await on.enter_async_context(
            runtime.npc(f"Guest {at}").voice(speaker="Ann", rate=RATE)
        )
        for at in range(size)
    ]


def _buzz(seconds: float) -> bytes:
    """Return audio that a speech detector takes for a voice: a pulse of 150 Hz and its
    overtones. Silence would go in larger pieces, and keep no socket open."""
    period = RATE // 150
    samples = (8000 - 16_000 * (at % period) // period for at in range(_of(seconds)))
    return array("h", samples).tobytes()


def _of(seconds: float) -> int:
    return int(RATE * seconds)


async def _microphone(hear: Callable[[bytes], None], frame: float) -> None:
    """A player who speaks all the time, at a real pace."""
    pcm = _buzz(frame)
    following = trio.current_time() + random.uniform(0, frame)
    while True:
        await trio.sleep_until(following)
        hear(pcm)
        following += frame


async def _hear_out(voice: Voice, seen: Seen) -> None:
    played = 0.0
    async for event in voice:
        if isinstance(event, Speech):
            played += event.seconds
        elif isinstance(event, TurnDone):
            seen.ends[event.end] += 1


def _config(size: int, peer: Peer) -> Config:
    return Config(
        npcs=tuple(
            NpcConfig(name=f"Guest {at}", engine=Engine.S2S, tools=("own",))
            for at in range(size)
        ),
        s2s=S2SConfig(
            provider=S2SProvider.OPENAI_REALTIME,
            model="gpt-realtime-2",
            base_url=f"http://127.0.0.1:{peer.port}/v1",
            api_key=Secret("k-123"),
        ),
        mcp=McpConfig(remember=False),
        calibration=CalibrationConfig(at_start=False),
    )


# ----------------------------------------------------------------------------- bare


def measure_bare(size: int, window: float, speech: float) -> Seen:
    return trio.run(_measure_bare, size, window, speech)


async def _measure_bare(size: int, window: float, speech: float) -> Seen:
    seen = Seen()
    async with _peer(speech) as peer, trio.open_nursery() as nursery:
        for _ in range(size):
            nursery.start_soon(_bare_socket, peer)
        await _look_at(peer, seen, window)
        nursery.cancel_scope.cancel()
    return seen


async def _bare_socket(peer: Peer) -> None:
    """The least that any client does: frames out, frames in, and the call answered."""
    url = f"ws://127.0.0.1:{peer.port}/"
    pcm = bytes(int(RATE * FRAME) * 2)
    played = 0
    async with open_websocket_url(url) as socket, trio.open_nursery() as nursery:

        async def speak() -> None:
            following = trio.current_time() + random.uniform(0, FRAME)
            while True:
                await trio.sleep_until(following)
                audio = b64encode(pcm).decode()
                message = {"type": "input_audio_buffer.append", "audio": audio}
                # As ours are, so that the peer has as little to do.
                text = json.dumps(message, separators=(",", ":"))
                await socket.send_message(text)
                following += FRAME

        await socket.send_message('{"type":"session.update","session":{}}')
        nursery.start_soon(speak)
        while True:
            event = json.loads(await socket.get_message())
            if event["type"] == "response.output_audio.delta":
                played += len(b64decode(event["delta"]))
            elif event["type"] == "response.done":
                for item in event["response"]["output"]:
                    if item["type"] == "function_call":
                        await _bare_answer(socket.send_message, item["call_id"])


async def _bare_answer(send: Callable[[str], Any], call: str) -> None:
    item = {"type": "function_call_output", "call_id": call, "output": "A door."}
    await send(json.dumps({"type": "conversation.item.create", "item": item}))
    await send('{"type":"response.create"}')


# -------------------------------------------------------------------------- the cut


def measure_cut(size: int, away: float) -> list[Figure]:
    return trio.run(_measure_cut, size, away)


async def _measure_cut(size: int, away: float) -> list[Figure]:
    name = f"{size} away" if away else f"{size} cut"
    async with _peer(0.0) as peer:
        bare = await _bare_opening(peer, size)
        await peer.report()
        config = _config(size, peer)
        config = attrs.evolve(
            config, npcs=tuple(attrs.evolve(npc, tools=()) for npc in config.npcs)
        )
        async with open_runtime(config) as runtime, AsyncExitStack() as on:
            voices = await _listen(runtime, on, size)
            async with trio.open_nursery() as nursery:
                for voice in voices:
                    nursery.start_soon(_microphone, voice.hear, CUT_FRAME)
                await _wait_opened(peer, size)
                await trio.sleep(1)
                await peer.order(f"away {away}" if away else "cut")
                found = await _wait_opened(peer, size)
                nursery.cancel_scope.cancel()
    since = found["cut"]
    back = [at - since for at in found["opened"]]
    windows = [0] * (1 + int(10 * (max(found["attempts"]) - since)))
    for at in found["attempts"]:
        windows[int(10 * (at - since))] += 1
    print(f"{name}: attempts in 100 ms: {windows}", file=sys.stderr)
    one = partial(figure, unit="s")
    return [
        one(f"{name}: back", back, bare=bare),
        one(f"{name}: all back", [max(back)], bare=[max(bare)]),
        count(f"{name}: not back", size - len(back), n=size),
        count(f"{name}: attempts", len(found["attempts"]), n=size),
        count(f"{name}: attempts in the busiest 100 ms", max(windows), n=size),
    ]


async def _wait_opened(peer: Peer, size: int) -> dict[str, Any]:
    """Return what the peer has seen until so many sockets are set up, or time is up."""
    whole: dict[str, Any] = {"attempts": [], "opened": []}
    with trio.move_on_after(PATIENCE):
        while len(whole["opened"]) < size:
            await trio.sleep(0.1)
            found = await peer.report()
            whole["cut"] = found["cut"]
            whole["attempts"] += found["attempts"]
            whole["opened"] += found["opened"]
    return whole


async def _bare_opening(peer: Peer, size: int) -> list[float]:
    """So many bare sockets, opened and set up in the same moment."""
    took: list[float] = []
    began = perf_counter()

    async def open_one() -> None:
        async with open_websocket_url(f"ws://127.0.0.1:{peer.port}/") as socket:
            await socket.get_message()
            await socket.send_message('{"type":"session.update","session":{}}')
            await socket.get_message()
            took.append(perf_counter() - began)

    async with trio.open_nursery() as nursery:
        for _ in range(size):
            nursery.start_soon(open_one)
    return took


BENCHMARK = Benchmark(
    name="voices_many",
    promise=(
        "40 conversations with 50 frames a second both ways leave calls and results"
        " within 20 ms; 200 that are cut at once come back, spread out"
    ),
    measure=measure,
    budgets=(
        Budget(figure="40 sessions: call begun", statistic="p99", at_most=20),
        Budget(figure="40 sessions: result on the wire", statistic="p99", at_most=20),
        Budget(figure="40 sessions: processor, cores", statistic="p50", at_most=0.5),
        Budget(figure="40 sessions: turns not completed", statistic="p50", at_most=0),
        Budget(figure="200 cut: not back", statistic="p50", at_most=0),
        Budget(
            figure="200 cut: attempts in the busiest 100 ms",
            statistic="p50",
            at_most=100,
        ),
        Budget(figure="200 away: not back", statistic="p50", at_most=0),
        Budget(
            figure="200 away: attempts in the busiest 100 ms",
            statistic="p50",
            at_most=100,
        ),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
