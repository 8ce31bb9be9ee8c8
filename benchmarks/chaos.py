"""The fate of calls when their servers are killed all the time.

Promised: every call has one outcome; one with side effects is executed at most
once, is in the server's journal if it is ``ok``, and is not if it did nothing;
no task, descriptor or process is left (measured before and after). Calls in
flight end within 10 ms of a SIGKILL, and the server is ready again within 300 ms
when its first backoff is 50 ms; with the default of a second that would be the
first backoff, up to 1.25 s of it, and the same 250 ms.

Measured: ten thousand calls of twelve callers through `open_runtime`, to four
real servers over stdio: one that does everything right, one that answers
everything twice, one that prints garbage between its answers, and one that floods
its stderr. Meanwhile their processes are killed at random moments, also while they
start. The two times are taken apart from that, on a table that is otherwise quiet,
with four calls in flight. Against: a bare child that is killed, until its stdout
ends, and one that is started, until it has listed its tools.

What a call ended as is counted per status; the kinds that go wrong are zero or the
run fails.
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
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import attrs

import trio

from benchmarks.common import Benchmark, Budget, Figure, children, figure, main
from glyphoxa_trio import Config, Outcome, Runtime, open_runtime
from glyphoxa_trio.config import CalibrationConfig, McpConfig, RestartConfig, ServerSpec
from glyphoxa_trio.mcp import ServerState
from glyphoxa_trio.testing import hostile
from glyphoxa_trio.tools.outcome import Effect, Status

CALLS: Final = 10_000
CALLERS: Final = 12  # three on a server: five lost at once would open a breaker
BACKOFF: Final = 0.05
# Each kill counts as the first: the growth of the backoff is not measured here.
RESTART: Final = RestartConfig(backoff=BACKOFF, max_restarts=1_000_000, period=0.001)
BEHAVIOURS: Final = ("good", "answers_twice", "prints_garbage", "floods_stderr")
CALLS_A_KILL: Final = 30  # on average
PATIENCE: Final = 20.0  # seconds; only a hang takes so long


@attrs.define(eq=False)
class Storm:
    """One storm: what was called, what it ended as, and what is left behind.

    ``wrong`` has a line for each promise that was broken.
    """

    calls: int
    kills: int = 0
    outcomes: Counter[Status] = attrs.field(factory=Counter)
    effects: Counter[Effect] = attrs.field(factory=Counter)
    ended_after: list[float] = attrs.field(factory=list)
    wrong: list[str] = attrs.field(factory=list)


async def storm(
    calls: int, *, seed: int, callers: int = CALLERS, calls_a_kill: int = CALLS_A_KILL
) -> Storm:
    """Make ``calls`` calls while servers are killed; reproducible but for timing.

    Args:
      calls_a_kill: how many calls there are to one kill, on average.
    """
    found = Storm(calls)
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    try:
        before = _held()
        ends = await _storm(found, folder, random.Random(seed), callers, calls_a_kill)
        with trio.move_on_after(2):  # what was killed may still be dying
            while _servers(folder):  # noqa: ASYNC110
                await trio.sleep(0.01)
        after = _held()
        if after != before:
            found.wrong.append(f"tasks and descriptors: {before}, now {after}")
        if left := _servers(folder):
            found.wrong.append(f"processes are left: {left}")
        _judge(found, folder, ends)
    finally:
        shutil.rmtree(folder)
    return found


async def _storm(
    found: Storm, folder: Path, rng: random.Random, callers: int, calls_a_kill: int
) -> dict[str, list[Outcome]]:
    """The outcomes of every call by its id; one each, if all is well."""
    ends: dict[str, list[Outcome]] = {}
    killed_at: dict[str, float] = {}
    specs = [
        hostile.server(name, journal=_journal(folder, name), restart=RESTART)
        for name in BEHAVIOURS
    ]
    todo = iter(range(found.calls))
    send_kill, take_kill = trio.open_memory_channel[None](found.calls)

    async with open_runtime(_config(specs), wait_for_servers=PATIENCE) as runtime:
        host = runtime.host

        async def caller() -> None:
            for number in todo:
                name = rng.choice(BEHAVIOURS)
                tool = rng.choice(("write", "write", "write", "echo", "bad"))
                ident = f"{number}"
                arguments = {"id": ident, "ms": rng.choice((0, 0, 1, 3))}
                if rng.random() < 1 / calls_a_kill:
                    send_kill.send_nowait(None)
                began = trio.current_time()
                outcome = await host.execute(f"{name}.{tool}", arguments)
                key = f"{tool} {name} {ident}"
                ends.setdefault(key, []).append(outcome)
                killed = killed_at.get(name, -1.0)
                if outcome.effect is Effect.UNKNOWN and killed >= began:
                    found.ended_after.append(trio.current_time() - killed)

        async def kill() -> None:
            async for _ in take_kill:
                await trio.sleep(rng.uniform(0, 0.01))  # or in the middle of a start
                if alive := sorted(_servers(folder).items()):
                    pid, name = rng.choice(alive)
                    killed_at[name] = trio.current_time()
                    os.kill(pid, signal.SIGKILL)
                    found.kills += 1

        async with trio.open_nursery() as weather:
            weather.start_soon(kill)
            async with trio.open_nursery() as table:
                for _ in range(callers):
                    table.start_soon(caller)
            send_kill.close()
        with trio.move_on_after(PATIENCE):  # left alone, all of them come back
            while not _all_ready(runtime):  # noqa: ASYNC110
                await trio.sleep(0.01)
        if not _all_ready(runtime):
            found.wrong.append(f"not ready again: {runtime.servers()}")
        counted = sum(host.statistics().executor.outcomes.values())
        if counted != found.calls:
            found.wrong.append(f"{found.calls} calls, {counted} outcomes")
    return ends


def _judge(found: Storm, folder: Path, ends: dict[str, list[Outcome]]) -> None:
    """Hold what the callers were told against what the servers did."""
    done: Counter[str] = Counter()
    for name in BEHAVIOURS:
        journal = Path(_journal(folder, name))
        if journal.exists():
            done.update(f"write {name} {line}" for line in journal.read_text().split())
    if len(ends) != found.calls:
        found.wrong.append(f"{found.calls} calls, {len(ends)} ended")
    for key, outcomes in ends.items():
        if len(outcomes) != 1:
            found.wrong.append(f"{key}: {len(outcomes)} outcomes")
        (outcome, *_) = outcomes
        found.outcomes[outcome.status] += 1
        found.effects[outcome.effect] += 1
        times, said = done[key], f"{key}: {outcome.status}, {outcome.effect}"
        if times > 1:
            found.wrong.append(f"{said}, but executed {times} times")
        if key.startswith("write ") and outcome.ok and times != 1:
            found.wrong.append(f"{said}, but never executed")
        if key.startswith("write ") and outcome.effect is Effect.NONE and times:
            found.wrong.append(f"{said}, but executed: {outcome.message}")
    if strange := set(done) - set(ends):
        found.wrong.append(f"executed, but never called: {sorted(strange)[:5]}")


def _config(specs: Sequence[ServerSpec]) -> Config:
    return Config(
        mcp=McpConfig(servers=tuple(specs), remember=False),
        calibration=CalibrationConfig(at_start=False),
    )


def _journal(folder: Path, name: str) -> str:
    return str(folder / f"{name}.journal")


def _servers(folder: Path) -> dict[int, str]:
    """The processes of the storm, also those that only start, and whose they are."""
    found: dict[int, str] = {}
    for pid in children():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        except OSError:
            continue
        for word in words:
            if word.startswith(f"journal={folder}"):
                found[pid] = Path(word.partition("=")[2]).stem
    return found


def _held() -> tuple[int, int]:
    """Tasks that live, and descriptors that are open."""
    tasks = trio.lowlevel.current_statistics().tasks_living
    return tasks, len(os.listdir("/proc/self/fd"))


def _all_ready(runtime: Runtime) -> bool:
    return all(row.state is ServerState.READY for row in runtime.servers())


# ------------------------------------------------------ one kill, and nothing else


@attrs.define
class Kills:
    """Seconds from a SIGKILL to the end of the calls, and to the server's return."""

    ended: list[float] = attrs.field(factory=list)
    ready: list[float] = attrs.field(factory=list)
    bare_ended: list[float] = attrs.field(factory=list)
    bare_ready: list[float] = attrs.field(factory=list)


async def kills(times: int, *, in_flight: int = 4) -> Kills:
    """Kill a server ``times`` times, with calls in flight that it answers late."""
    found = Kills()
    spec = hostile.server(
        "answers_late", ms=300, name="seer", writes=1, restart=RESTART
    )
    async with open_runtime(_config([spec]), wait_for_servers=PATIENCE) as runtime:
        for _ in range(times):
            await _bare(found)
            pid = runtime.servers()[0].pid
            assert pid is not None
            ended: list[tuple[float, Outcome]] = []

            async def call(into: list[tuple[float, Outcome]] = ended) -> None:
                outcome = await runtime.host.execute("seer.bad")
                into.append((trio.current_time(), outcome))

            async with trio.open_nursery() as nursery:
                for _ in range(in_flight):
                    nursery.start_soon(call)
                # Answered after all of them were read, so they are in flight: what was
                # not read is sent to the next process.
                await trio.sleep(0.02)
                outcome = await runtime.host.execute("seer.echo")
                if not outcome.ok:
                    raise RuntimeError(f"no answer: {outcome}")
                killed = trio.current_time()
                os.kill(pid, signal.SIGKILL)
                while runtime.servers()[0].pid in (pid, None):  # noqa: ASYNC110
                    await trio.sleep(0.0005)
                found.ready.append(trio.current_time() - killed)
            for at, outcome in ended:
                if outcome.effect is not Effect.UNKNOWN:
                    raise RuntimeError(f"not lost: {outcome}")
                found.ended.append(at - killed)
            # One that works, or the tool's breaker would open at the next loss.
            outcome = await runtime.host.execute("seer.bad")
            if not outcome.ok:
                raise RuntimeError(f"not back: {outcome}")
    return found


async def _bare(found: Kills) -> None:
    """The same child without us: started, listed, killed."""
    began = trio.current_time()
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
    found.bare_ready.append(trio.current_time() - began + BACKOFF)
    killed = trio.current_time()
    process.kill()
    while await process.stdout.receive_some():
        pass
    found.bare_ended.append(trio.current_time() - killed)
    await process.wait()
    await process.stdin.aclose()
    await process.stdout.aclose()


# ------------------------------------------------------------------- the promise


def measure(quick: bool) -> list[Figure]:
    calls, times = (500, 2) if quick else (CALLS, 25)
    # A kill hits calls in flight by chance; a small storm has more of them.
    a_kill = 8 if quick else CALLS_A_KILL
    found = trio.run(partial(storm, calls, seed=20 + quick, calls_a_kill=a_kill))
    quiet = trio.run(partial(kills, times))
    for line in found.wrong[:20]:
        print(line, file=sys.stderr)
    return [
        figure("calls in flight ended", quiet.ended, unit="ms", bare=quiet.bare_ended),
        figure("ready again", quiet.ready, unit="ms", bare=quiet.bare_ready),
        figure("calls in flight ended, in the storm", found.ended_after, unit="ms"),
        _count("promises broken", len(found.wrong), calls),
        _count("kills", found.kills, calls),
        *(
            _count(f"calls that ended as {status}", found.outcomes[status], calls)
            for status in Status
        ),
        _count("effects unknown", found.effects[Effect.UNKNOWN], calls),
    ]


def _count(name: str, value: float, calls: int) -> Figure:
    return Figure(name=name, unit="", n=calls, p50=float(value))


BENCHMARK = Benchmark(
    name="chaos",
    promise=(
        "when servers are killed, every call has one outcome, calls in flight end"
        " within 10 ms, the server is back within 300, and nothing is left behind"
    ),
    measure=measure,
    budgets=(
        Budget(figure="promises broken", statistic="p50", at_most=0),
        Budget(figure="calls in flight ended", statistic="p99", at_most=10),
        Budget(figure="ready again", statistic="p99", at_most=300),
    ),
)

if __name__ == "__main__":
    main(BENCHMARK)
