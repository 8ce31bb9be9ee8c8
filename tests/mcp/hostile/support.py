"""A bad server beside a good one, and what must be true whatever the bad one does.

Real processes, under `open_runtime`, called as a host calls. Leaving `beside`
checks that there was an end, that the good server never noticed anything, and that
nothing is left: no process, no descriptor, no task. Nothing here is judged by a real
clock: the limits only keep a failure from taking for ever, and `make hostile` measures.

A test with ``mock_clock`` has time that stands still, so that no call is too slow on a
busy machine. `Table.in_vain` lets a call's time pass, and at the end it passes by
itself.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path
from typing import Any

import attrs

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio import Config, Outcome, Runtime, Tier, open_runtime
from glyphoxa_trio.config import (
    CalibrationConfig,
    McpConfig,
    NpcConfig,
    RestartConfig,
    ServerSpec,
)
from glyphoxa_trio.mcp import ServerState, ServerStatus, ServerWarning
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing import hostile
from glyphoxa_trio.tools.tier import TierLimits

LIMIT = 60.0  # seconds; no test that passes comes near it
CALLS = 20  # of another server beside a flood
ENDS = 2.0  # seconds of virtual time that the end of a runtime may take
# Seconds of virtual time that a server's call may take, where a test lets them pass.
PATIENCE = 5.0
SHORTLY = 0.005
FAST = 0.3  # seconds that a FAST turn's tools have here

READY, FAILED = ServerState.READY, ServerState.FAILED
RESTARTING = ServerState.RESTARTING

QUICKLY = RestartConfig(backoff=0.01)
ONCE = RestartConfig(enabled=False)

# No ceiling but FAST's ends what a test wants to end itself.
TIERS = TierLimits(fast_ceiling=FAST, standard_ceiling=LIMIT, deep_ceiling=LIMIT)


@attrs.define(eq=False)
class Table:
    """A running runtime with the servers of a test; ``name`` is the bad one."""

    runtime: Runtime
    name: str
    warned: list[ServerWarning]

    async def call(
        self, tool: str, tier: Tier = Tier.DEEP, /, *, of: str = "", **arguments: Any
    ) -> Outcome:
        """Call a tool of the bad server, as an operator would."""
        key = f"{of or self.name}.{tool}"
        return await self.runtime.host.execute(key, arguments, tier=tier)

    async def in_vain(
        self, tool: str, tier: Tier = Tier.DEEP, /, **arguments: Any
    ) -> Outcome:
        """Call a tool that does not answer, and let the time pass that it has."""
        ended: list[Outcome] = []

        async def call() -> None:
            ended.append(await self.call(tool, tier, **arguments))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await wait_all_tasks_blocked(0.01)
            # What was not sent by then is said so shortly before the end.
            pass_time((FAST if tier is Tier.FAST else PATIENCE) - SHORTLY)
            await wait_all_tasks_blocked(0.01)
            pass_time(SHORTLY + 1e-6)  # sums of floats may be a little less
        return ended[0]

    async def good(self) -> None:
        """The other server answers, and has never been away."""
        outcome = await self.call("echo", of="good", say="hi")
        assert outcome.ok, outcome
        assert outcome.data == {"say": "hi"}
        row = self.row("good")
        assert (row.state, row.restarts) == (READY, 0)

    async def good_many_times(self) -> None:
        """Call the other server again and again, as beside a flood."""
        for _ in range(CALLS):
            await self.good()

    def row(self, server: str = "") -> ServerStatus:
        rows = {row.name: row for row in self.runtime.servers()}
        return rows[server or self.name]

    @property
    def pid(self) -> int:
        pid = self.row().pid
        assert pid is not None
        return pid

    @property
    def tools(self) -> set[str]:
        """What a model may be shown of the bad server."""
        listed = self.runtime.host.tools(Tier.DEEP)
        return {x.definition.name for x in listed if x.definition.group == self.name}

    @property
    def warnings(self) -> list[str]:
        """What an operator was told of the bad server."""
        return [w.text for w in self.warned if w.server == self.name]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for what no event tells; the limit of the test is the end of it."""
        while not condition():
            await trio.to_thread.run_sync(time.sleep, 0.005)  # the clock may stand


@asynccontextmanager
async def beside(
    behaviour: str,
    *,
    extra: tuple[ServerSpec, ...] = (),
    env: Mapping[str, str] | None = None,
    npcs: tuple[NpcConfig, ...] = (),
    **options: Any,
) -> AsyncGenerator[Table]:
    """A bad server beside a good one, once the first attempt of both is over."""
    mark = uuid.uuid4().hex
    options.setdefault("restart", QUICKLY)
    options.setdefault("start_timeout", LIMIT)
    options.setdefault("timeout", LIMIT)
    bad = hostile.server(behaviour, **options)
    good = hostile.server("good", start_timeout=LIMIT, timeout=LIMIT)
    specs = tuple(
        attrs.evolve(spec, env={"HOSTILE_MARK": Secret(mark), **spec.env})
        for spec in (bad, good, *extra)
    )
    config = Config(
        mcp=McpConfig(servers=specs, remember=False),
        calibration=CalibrationConfig(at_start=False),
        tiers=TIERS,
        npcs=npcs,
    )
    await _warmed()
    descriptors, tasks = _descriptors(), _tasks()
    warned: list[ServerWarning] = []
    with trio.fail_after(LIMIT):
        async with open_runtime(
            config, wait_for_servers=LIMIT, on_warning=warned.append
        ) as runtime:
            table = Table(runtime, bad.name, warned)
            await table.good()
            yield table
            await table.good()
            closing = trio.current_time()
            if (clock := _virtual()) is not None:
                clock.autojump_threshold = 0.02
        if clock is not None:
            clock.autojump_threshold = inf
            assert trio.current_time() - closing <= ENDS
        # What was killed may still be dying.
        await table.until(lambda: not marked(mark))
        # A thread may be in the middle of something.
        await table.until(lambda: _descriptors() == descriptors)
    assert _descriptors() == descriptors
    assert _tasks() == tasks


def _virtual() -> MockClock | None:
    clock = trio.lowlevel.current_clock()
    return clock if isinstance(clock, MockClock) else None


def pass_time(seconds: float) -> None:
    """Let so much virtual time pass."""
    clock = _virtual()
    assert clock is not None
    clock.jump(seconds)


def marked(mark: str) -> list[int]:
    """Every process that was started with this mark, or by one that was."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                environ = (folder / "environ").read_bytes()
            except OSError:  # somebody else's, or gone by now
                continue
            if mark.encode() in environ:
                found.append(int(folder.name))
    return found


async def _warmed() -> None:
    """What a first start opens once and keeps (the SDK, trio's own machinery)."""
    global _warm
    if not _warm:
        _warm = True
        spec = hostile.server("good")
        config = Config(mcp=McpConfig(servers=(spec,), remember=False))
        with trio.fail_after(LIMIT):
            async with open_runtime(config, wait_for_servers=LIMIT):
                pass


_warm = False


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


def restarts(**options: Any) -> RestartConfig:
    return RestartConfig(**options)
