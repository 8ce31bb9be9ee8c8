"""One runtime, a good server that is called every 10 ms, and bad ones beside it.

    python -m tests.mcp.hostile.company SECONDS CASE ...

is one run in a process of its own, which can be killed if it freezes; it prints what
it saw as JSON. `kept` starts one from a test, and `make hostile` one for each case.

What "late by our doing" means. A call of the good server is due at a time. From then
to its answer some time passes, and some processor time of this process. What passes
while this process does not run is the machine's doing, or the server's: two busy
cores make any timer late, as the bare timer shows that the parent keeps meanwhile.
What our process computes meanwhile, whatever it is, keeps the call waiting. So a call
is late by the smaller one of the two, and the median of a control run, beside an idle
server only, is taken off: that is what a call costs. It errs against us, because work
in other threads of ours counts, too, and what was done just before the call was due.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import AsyncExitStack
from typing import Any

import attrs

import trio

from glyphoxa_trio import Config, Runtime, Tier, open_runtime
from glyphoxa_trio.config import CalibrationConfig, McpConfig, ServerSpec
from glyphoxa_trio.mcp import ServerState
from glyphoxa_trio.testing import hostile
from glyphoxa_trio.tools.outcome import Status

from .catalogue import CASES, IDLE, Case

EVERY = 0.01  # seconds between two calls of the good server
TIMEOUT = 0.5  # seconds that a call of a bad one may take
PAUSE = 0.05


@attrs.define
class Seen:
    """What one run saw. Times in ms, memory in MB.

    ``ours``: of each call of the good server, how late it was by our doing, with
    what a call costs; ``wall``: how long it took. ``over``: by how much the longest
    call of a bad server exceeded its limit, by our doing. ``failed``: calls of the
    good server without their answer.
    """

    ours: list[float] = attrs.field(factory=list)
    wall: list[float] = attrs.field(factory=list)
    over: float = 0.0
    over_wall: float = 0.0
    failed: list[str] = attrs.field(factory=list)
    ended: dict[str, dict[str, int]] = attrs.field(factory=dict)
    warnings: list[str] = attrs.field(factory=list)
    memory: float = 0.0
    closing: float = 0.0
    bare: float = 0.0  # the worst loop lag of an idle process meanwhile


async def watch(seconds: float, cases: list[Case]) -> Seen:
    """Be in bad company for so long."""
    # The SDK takes a second of processor time the first time, whoever is beside us.
    from glyphoxa_trio.mcp import sdk

    assert sdk
    seen = Seen()
    async with AsyncExitStack() as stack:
        specs = [hostile.server("good", name="good")]
        for number, case in enumerate(cases):
            specs.append(await _spec(stack, case, f"bad{number}"))
        config = Config(
            mcp=McpConfig(servers=tuple(specs), remember=False),
            calibration=CalibrationConfig(at_start=False),
        )
        async with (
            open_runtime(
                config,
                collector="settle",  # as the program has it
                on_warning=lambda w: seen.warnings.append(
                    f"{w.server}: {w.text}"[:200]
                ),
            ) as runtime
        ):
            while _state(runtime, "good") is not ServerState.READY:  # noqa: ASYNC110
                await trio.sleep(0.001)
            async with trio.open_nursery() as nursery:
                for number, case in enumerate(cases):
                    nursery.start_soon(_bother, runtime, f"bad{number}", case, seen)
                await _call(runtime, seconds, seen)
                nursery.cancel_scope.cancel()
            closing = trio.current_time()
        seen.closing = 1000 * (trio.current_time() - closing)
    seen.memory = _peak()
    return seen


async def _spec(stack: AsyncExitStack, case: Case, name: str) -> ServerSpec:
    options = {**case.options, "name": name, "timeout": TIMEOUT}
    if not case.http:
        return hostile.server(case.behaviour, **options)
    web = hostile.open_web(case.behaviour, http=case.http, **options)
    return await stack.enter_async_context(web)


async def _call(runtime: Runtime, seconds: float, seen: Seen) -> None:
    """Call the good server when a call is due, also if the one before is not back."""
    begun, number = trio.current_time(), 0
    ends = begun + seconds
    async with trio.open_nursery() as nursery:
        while (due := begun + number * EVERY) < ends:
            worked = time.process_time()
            await trio.sleep_until(due)
            late = trio.current_time() - due
            nursery.start_soon(_one, runtime, due, worked, seen)
            number += 1
            if late > EVERY:  # one late call is enough to show a stall
                begun, number = trio.current_time(), 1


async def _one(runtime: Runtime, due: float, worked: float, seen: Seen) -> None:
    said = {"say": len(seen.wall)}
    outcome = await runtime.host.execute("good.echo", said, tier=Tier.DEEP)
    if outcome.data != said:
        seen.failed.append(f"{outcome.status.value}: {outcome.message}"[:200])
    wall = trio.current_time() - due
    seen.wall.append(1000 * wall)
    seen.ours.append(1000 * min(wall, time.process_time() - worked))


async def _bother(runtime: Runtime, name: str, case: Case, seen: Seen) -> None:
    """Call the bad server again and again."""
    ended = seen.ended.setdefault(f"{name} {case.name}", {})
    while True:
        began, worked = trio.current_time(), time.process_time()
        arguments = dict(case.arguments)
        outcome = await runtime.host.execute(f"{name}.bad", arguments, tier=Tier.DEEP)
        over = 1000 * (trio.current_time() - began - TIMEOUT)
        ours = 1000 * (time.process_time() - worked)
        seen.over = max(seen.over, min(over, ours))
        seen.over_wall = max(seen.over_wall, over)
        ended[outcome.status.value] = ended.get(outcome.status.value, 0) + 1
        if outcome.status is Status.CRASHED:
            seen.failed.append(f"{case.name} crashed: {outcome.message}"[:200])
        await trio.sleep(PAUSE)


def _state(runtime: Runtime, name: str) -> ServerState:
    return next(row.state for row in runtime.servers() if row.name == name)


def _peak() -> float:
    """The most memory that this process ever had, in MB."""
    with open("/proc/self/status") as status:
        found = next(line for line in status if line.startswith("VmHWM"))
    return int(found.split()[1]) / 1024


async def kept(seconds: float, cases: list[Case], *, within: float) -> Seen:
    """One run in a process of its own; killed if it is not over ``within`` seconds.

    Raises:
      TimeoutError: it was killed; nothing of it could be asked any more.
    """
    words = [sys.executable, "-m", __spec__.name, f"{seconds:g}"]
    words += [case.name for case in cases]
    bare = 0.0

    async def tick() -> None:
        nonlocal bare
        while True:
            due = trio.current_time() + EVERY
            await trio.sleep_until(due)
            bare = max(bare, 1000 * (trio.current_time() - due))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        done = None
        with trio.move_on_after(within):
            done = await trio.run_process(
                words, capture_stdout=True, capture_stderr=True, check=False
            )
        nursery.cancel_scope.cancel()
    if done is None:
        raise TimeoutError(f"frozen for {within:g} s beside {words[4:]}")
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace")[-3000:])
    seen = Seen(**json.loads(done.stdout.splitlines()[-1]))
    seen.bare = bare
    return seen


def main() -> None:
    seconds, *names = sys.argv[1:]
    cases = [IDLE if name == IDLE.name else CASES[name] for name in names]
    seen: Seen = trio.run(watch, float(seconds), cases)
    told: dict[str, Any] = attrs.asdict(seen)
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
