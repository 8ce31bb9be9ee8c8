"""Turns while servers are slow, stop, die, and all come back at once.

Promised: while all of 16 servers are killed at the same moment, again and again, every
turn goes on to its one end; those that touch no server have their first sentence at
the 99th percentile at most one and a half times as late as in the same run without
deaths, no turn waits for tools for more than its ceiling and 100 ms (p99), and all of
the servers are ready again within two seconds. The same while single ones are killed
ten times a second, others are stopped in the middle of something, and a quarter of
them is slow. Afterwards nothing is left: no task, no descriptor, no process.

Measured: `open_runtime` with 16 real servers over stdio, four of which answer after
300 ms, and 40 NPCs in conversation, with a model that thinks, calls tools, and writes
word by word. Twenty of them have dice and rules, the others have the servers' tools.
Three spells of the same length: nothing happens; all servers are killed every two
seconds; servers are killed and stopped one by one. First backoff: 50 ms.

Against: for the turns, those of the first spell; for coming back, 16 bare children
that are started at once, until the last has listed its tools.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import Final

import attrs

import trio

from benchmarks.common import Benchmark, Budget, Figure, children, figure, main
from benchmarks.stress.table import BUILTIN, UTTERANCE, Held, Talker, config_of, count
from glyphoxa_trio import Config, Runtime, open_runtime
from glyphoxa_trio.config import NpcConfig, RestartConfig, ServerSpec
from glyphoxa_trio.mcp import ServerState
from glyphoxa_trio.npc import FanOutDone, Sentence, TurnDone, TurnEnd
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.testing import hostile
from glyphoxa_trio.tools.outcome import Status, ToolCall

SERVERS: Final = 16
SLOW: Final = 4
GUESTS: Final = 40
SPELL: Final = 20.0  # seconds
KILL_ALL: Final = 2.0
KILL_ONE: Final = 0.1
STOPPED: Final = 1.0
BACKOFF: Final = 0.05
RESTART: Final = RestartConfig(backoff=BACKOFF, max_restarts=1_000_000, period=0.001)
PATIENCE: Final = 20.0  # seconds; only a hang takes so long


@attrs.define(eq=False)
class Spell:
    """Times of turns: seconds to the first sentence, and beyond the ceiling."""

    apart: list[float] = attrs.field(factory=list)
    served: list[float] = attrs.field(factory=list)
    beyond: list[float] = attrs.field(factory=list)
    calls: Counter[Status] = attrs.field(factory=Counter)  # of servers
    turns: int = 0


@attrs.define(eq=False)
class Night:
    """All of it; ``wrong`` has a line for each promise that was broken."""

    calm: Spell = attrs.field(factory=Spell)
    storm: Spell = attrs.field(factory=Spell)
    dying: Spell = attrs.field(factory=Spell)
    ready: list[float] = attrs.field(factory=list)
    bare_ready: list[float] = attrs.field(factory=list)
    kills: int = 0
    stopped: dict[int, float] = attrs.field(factory=dict)  # since when, by process
    wrong: list[str] = attrs.field(factory=list)


@attrs.define(eq=False)
class _Guesser(Talker):
    """Calls two tools of those that it is shown."""

    def calls_of(self, request: LLMRequest) -> Sequence[ToolCall]:
        known = {call.name: call for call in BUILTIN}
        names = [spec.name for spec in request.tools]
        return [
            known.get(name) or ToolCall(f"call_{at}", name, '{"id": "1"}')
            for at, name in enumerate(random.sample(names, min(2, len(names))))
        ]


def measure(quick: bool) -> list[Figure]:
    night = trio.run(_measure, 4 if quick else SERVERS, 1.5 if quick else SPELL)
    for line in night.wrong[:20]:
        print(line, file=sys.stderr)
    calm, storm, dying = night.calm, night.storm, night.dying
    return [
        figure("calm: beyond the ceiling", calm.beyond, unit="ms"),
        figure("all killed: turns apart", storm.apart, unit="ms", bare=calm.apart),
        figure(
            "all killed: turns with servers", storm.served, unit="ms", bare=calm.served
        ),
        figure("all killed: beyond the ceiling", storm.beyond, unit="ms"),
        figure(
            "all killed: all ready again", night.ready, unit="ms", bare=night.bare_ready
        ),
        figure("dying: turns apart", dying.apart, unit="ms", bare=calm.apart),
        figure("dying: turns with servers", dying.served, unit="ms", bare=calm.served),
        figure("dying: beyond the ceiling", dying.beyond, unit="ms"),
        *_calls("calm", calm),
        *_calls("all killed", storm),
        *_calls("dying", dying),
        count("kills", night.kills, n=night.kills or 1),
        count(
            "promises broken",
            len(night.wrong),
            n=calm.turns + storm.turns + dying.turns,
        ),
    ]


def _calls(name: str, spell: Spell) -> list[Figure]:
    """Count the calls of servers that worked, and all others."""
    n = sum(spell.calls.values())
    ok, cut = spell.calls[Status.OK], spell.calls[Status.TIMEOUT]
    return [
        count(f"{name}: calls of servers that were ok", ok, n=n),
        count(f"{name}: calls of servers that were cut", cut, n=n),
        count(f"{name}: calls of servers that were refused or lost", n - ok - cut, n=n),
    ]


async def _measure(servers: int, spell: float) -> Night:
    night = Night()
    folder = Path(tempfile.mkdtemp(prefix="dying-"))
    try:
        for _ in range(3):
            await _bare_start(night, servers)
        before = Held.now()
        async with open_runtime(
            _config(folder, servers), llm=_Guesser(), wait_for_servers=PATIENCE
        ) as runtime:
            async with _conversations(runtime, night, night.calm):
                await trio.sleep(spell)
            async with _conversations(runtime, night, night.storm):
                await _for(spell, _kill_all, runtime, night)
            async with _conversations(runtime, night, night.dying):
                await _for(spell, _kill_and_stop, runtime, night)
                alive = [row.pid for row in runtime.servers() if row.pid is not None]
                _wake(night, alive, until=perf_counter())
            if not await _ready(runtime):
                night.wrong.append(f"not ready again: {runtime.servers()}")
        with trio.move_on_after(2):  # what was killed may still be dying
            while _processes(folder) or Held.now() != before:  # noqa: ASYNC110
                await trio.sleep(0.01)
        if (after := Held.now()) != before:
            night.wrong.append(f"{before}, now {after}")
        if left := _processes(folder):
            night.wrong.append(f"processes are left: {left}")
    finally:
        shutil.rmtree(folder)
    return night


def _config(folder: Path, servers: int) -> Config:
    def spec(at: int) -> ServerSpec:
        slow = at % (SERVERS // SLOW) == 0
        return hostile.server(
            "answers_late" if slow else "good",
            name=f"server_{at}",
            journal=str(folder / f"{at}.journal"),
            restart=RESTART,
            allow=("bad",) if slow else ("echo",),
            estimated_duration=0.3 if slow else 0.01,
            **({"ms": 300} if slow else {}),
        )

    config = config_of(0, *map(spec, range(servers)))
    guests = [
        NpcConfig(
            name=f"Guest {at}",
            tools=("dice", "rules") if at % 2 else ("mcp__*",),
        )
        for at in range(GUESTS)
    ]
    trust = attrs.evolve(config.trust, allow_tools=("mcp__*",))
    mcp = attrs.evolve(
        config.mcp, defer_threshold=servers
    )  # none of them is looked for
    return attrs.evolve(config, npcs=tuple(guests), trust=trust, mcp=mcp)


# --------------------------------------------------------------------- the guests


@asynccontextmanager
async def _conversations(
    runtime: Runtime, night: Night, spell: Spell
) -> AsyncIterator[None]:
    """Inside the block all guests talk; at its end all of them are heard out."""
    over = trio.Event()

    async def talk(at: int) -> None:
        await trio.sleep(random.uniform(0, 1))
        while not over.is_set():
            await _turn(runtime, at, night, spell)
            with trio.move_on_after(random.uniform(0.2, 0.8)):
                await over.wait()

    async with trio.open_nursery() as nursery:
        for at in range(GUESTS):
            nursery.start_soon(talk, at)
        yield
        over.set()


async def _turn(runtime: Runtime, at: int, night: Night, spell: Spell) -> None:
    ends: list[TurnDone] = []
    first: float | None = None
    began = perf_counter()
    async with runtime.npc(f"Guest {at}").say(UTTERANCE) as turn:
        async for event in turn:
            if first is None and isinstance(event, Sentence):
                first = perf_counter() - began
            if isinstance(event, FanOutDone):
                spell.beyond.append(max(0.0, event.elapsed - event.budget))
                if not at % 2:
                    spell.calls.update(x.status for x in event.outcomes)
            if isinstance(event, TurnDone):
                ends.append(event)
    spell.turns += 1
    if [x.end for x in ends] != [TurnEnd.COMPLETED] or first is None:
        night.wrong.append(f"guest {at}: ended as {[x.end.value for x in ends]}")
        return
    (spell.apart if at % 2 else spell.served).append(first)


# -------------------------------------------------------------------- the servers


async def _for(
    seconds: float,
    again: Callable[[Runtime, Night], Awaitable[None]],
    runtime: Runtime,
    night: Night,
) -> None:
    end = trio.current_time() + seconds
    while trio.current_time() < end:
        await again(runtime, night)


async def _kill_all(runtime: Runtime, night: Night) -> None:
    """All at the same moment; and how long it takes until the last is back."""
    pids = {row.name: row.pid for row in runtime.servers()}
    killed = perf_counter()
    for pid in pids.values():
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                night.kills += 1
    with trio.move_on_after(PATIENCE):
        while any(  # noqa: ASYNC110
            row.state is not ServerState.READY or row.pid == pids[row.name]
            for row in runtime.servers()
        ):
            await trio.sleep(0.002)
    night.ready.append(perf_counter() - killed)
    await trio.sleep(KILL_ALL)


async def _kill_and_stop(runtime: Runtime, night: Night) -> None:
    """One is killed, and another one stopped for a second, if it lives so long."""
    now = perf_counter()
    alive = [row.pid for row in runtime.servers() if row.pid is not None]
    _wake(night, alive, until=now - STOPPED)
    if len(alive) > 1:
        victim, sleeper = random.sample(alive, 2)
        with suppress(ProcessLookupError):  # it has just ended, and is not known to
            os.kill(victim, signal.SIGKILL)
            night.kills += 1
            os.kill(sleeper, signal.SIGSTOP)
            night.stopped.setdefault(sleeper, now)
    await trio.sleep(random.uniform(0.5, 1.5) * KILL_ONE)


def _wake(night: Night, alive: Sequence[int], *, until: float) -> None:
    """Let those go on that were stopped before ``until`` and are servers still."""
    for pid, since in list(night.stopped.items()):
        if since <= until:
            del night.stopped[pid]
            if pid in alive:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)


async def _ready(runtime: Runtime) -> bool:
    """Left alone, all of them come back."""
    with trio.move_on_after(PATIENCE):
        while not all(  # noqa: ASYNC110
            row.state is ServerState.READY for row in runtime.servers()
        ):
            await trio.sleep(0.01)
        return True
    return False


async def _bare_start(night: Night, servers: int) -> None:
    """The same children without us: started together, listed, ended."""
    began = perf_counter()

    async def child() -> None:
        process = await trio.lowlevel.open_process(
            hostile.command("good"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None
        assert process.stdout is not None
        for number, method in enumerate(("initialize", "tools/list")):
            line = json.dumps({"jsonrpc": "2.0", "id": number, "method": method})
            await process.stdin.send_all(line.encode() + b"\n")
            heard = b""
            while not heard.endswith(b"\n"):
                heard += await process.stdout.receive_some()
        night.bare_ready.append(perf_counter() - began + BACKOFF)
        process.kill()
        await process.wait()
        await process.stdin.aclose()
        await process.stdout.aclose()

    listed = len(night.bare_ready)
    async with trio.open_nursery() as nursery:
        for _ in range(servers):
            nursery.start_soon(child)
    night.bare_ready[listed:] = [max(night.bare_ready[listed:])]


def _processes(folder: Path) -> list[int]:
    """The processes of this night, also those that only start."""
    found: list[int] = []
    for pid in children():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text()
        except OSError:
            continue
        if str(folder) in words:
            found.append(pid)
    return found


BENCHMARK = Benchmark(
    name="dying",
    promise=(
        "while 16 servers are killed at once, again and again, every turn has its end,"
        " ceilings hold, and turns without them do not notice"
    ),
    measure=measure,
    budgets=(
        Budget(figure="promises broken", statistic="p50", at_most=0),
        Budget(figure="all killed: turns apart", statistic="ratio_p99", at_most=1.5),
        Budget(figure="all killed: beyond the ceiling", statistic="p99", at_most=100),
        Budget(figure="all killed: all ready again", statistic="p99", at_most=2000),
        Budget(figure="dying: turns apart", statistic="ratio_p99", at_most=1.5),
        Budget(figure="dying: beyond the ceiling", statistic="p99", at_most=100),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
