"""Handlers that block the event loop are named, and refused when they go on. Issue 13.

Real clocks, real handlers and a real second thread. Nothing here asserts that anything
was quick: what is asserted is who is blamed, for what, and for how long at least.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import pytest

import trio

from glyphoxa_trio import tool
from glyphoxa_trio.actors import HOLD
from glyphoxa_trio.actors.watchdog import PERIOD
from glyphoxa_trio.host import ToolHost, ToolStalled, open_host
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.gate import Reason
from glyphoxa_trio.tools.holding import STRIKES
from glyphoxa_trio.tools.outcome import Status
from glyphoxa_trio.tools.tier import Tier

pytestmark = [pytest.mark.border, pytest.mark.alone]

LONG = 2 * HOLD


def spin(seconds: float = LONG) -> None:
    """Compute for so much processor time."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def in_c() -> None:
    until = time.thread_time() + LONG
    while time.thread_time() < until:  # one or two of these; each lets nobody in
        re.match(r"(a|aa)+$", "a" * 29 + "b")


def hog(work: Callable[[], Any]) -> Tool:
    @tool(read_only=True, name="hog")
    async def its_handler() -> str:
        """Hold the loop."""
        work()
        return "done"

    return its_handler


@asynccontextmanager
async def watched(*tools: Tool) -> AsyncGenerator[tuple[ToolHost, list[ToolStalled]]]:
    told: list[ToolStalled] = []

    def note(event: object) -> None:
        if isinstance(event, ToolStalled):
            told.append(event)

    async with open_host() as host:
        host.register(*tools)
        with host.events.tap(note):
            yield host, told


def keeps_the_interpreter() -> None:
    # PyDLL keeps the interpreter's lock, as much code in C does while it waits.
    ctypes.PyDLL(None).usleep(int(LONG * 1e6))


WORK = {
    "keeps_the_interpreter": keeps_the_interpreter,
    "sleeps": lambda: time.sleep(LONG),  # what everybody does first
    "computes": spin,
    "in_c": in_c,
}


@pytest.mark.parametrize("name", WORK)
async def test_a_handler_that_holds_the_loop_is_named(name: str) -> None:
    """Found: `time.sleep(2)` in an async tool was `ok` after 2 s, without a word."""
    sleeps = name in ("sleeps", "keeps_the_interpreter")
    if sleeps and sys.platform != "linux":
        pytest.skip("only Linux tells who sleeps from who is kept waiting")
    async with watched(hog(WORK[name])) as (host, told):
        # A busy machine may be too late to look at one call; there are others.
        for _ in range(20):
            assert (await host.execute("custom.hog")).ok
            if told and told[-1].place.startswith("test_stalls.py"):
                break
            host.deregister("custom.hog")  # so that it is not refused
            host.register(hog(WORK[name]))
            await trio.sleep(0.05)
    event = told[-1]
    assert event.key == "custom.hog"
    assert "its_handler" in event.handler
    assert event.handler.startswith(__name__)
    assert event.seconds >= HOLD
    assert re.match(r"test_stalls\.py:\d+ in ", event.place), event.place
    assert (event.busy >= HOLD) == (not sleeps)
    for word in ("custom.hog", event.place, "blocking=True", "isolated=True"):
        assert word in event.text


@pytest.mark.long
async def test_the_line_is_the_one_that_holds_the_loop() -> None:
    async with watched(hog(spin)) as (host, told):
        for _ in range(10):
            await host.execute("custom.hog")
            if told and told[-1].place.endswith("in spin"):
                break
            told.clear()
        assert told
        lines = range(spin.__code__.co_firstlineno, spin.__code__.co_firstlineno + 6)
        assert int(told[-1].place.partition(":")[2].split()[0]) in lines


@pytest.mark.long
async def test_time_in_c_that_holds_the_interpreter_is_seen_if_it_computes() -> None:
    """Nobody can look meanwhile, but the step measures itself."""
    async with watched(hog(lambda: sorted(range(3_000_000), key=lambda x: -x))) as (
        host,
        told,
    ):
        await host.execute("custom.hog")
    assert [event.key for event in told] == ["custom.hog"]


async def refuse(host: ToolHost) -> None:
    for _ in range(STRIKES):
        assert (await host.execute("custom.hog")).ok


async def test_after_three_such_calls_the_tool_is_refused_with_the_remedy() -> None:
    async with watched(hog(spin)) as (host, told):
        await refuse(host)
        assert [event.refused for event in told] == [False, False, True]
        end = await host.execute("custom.hog")
        assert end.status is Status.UNAVAILABLE
        assert "blocking" not in end.message  # that is for operators
        ((_, no),) = host.explain()
        assert no is not None
        assert no.reason is Reason.HOLDS_LOOP
        for word in ("blocking=True", "isolated=True", "test_stalls.py", "tried again"):
            assert word in no.remedy
        assert host.tools() == ()
        probed = await host.calibrate(within=5, keys=["custom.hog"])
        assert len(told) == STRIKES, probed  # nor is it measured
        # Another function under its name begins anew.
        host.deregister("custom.hog")
        host.register(hog(lambda: None))
        assert (await host.execute("custom.hog")).ok


async def test_a_probe_that_holds_the_loop_is_the_last_one() -> None:
    # Found: two more probes beside a turn of 500 ms made 6 s of it.
    async with watched(hog(spin)) as (host, told):
        (probed,) = await host.calibrate(within=60, keys=["custom.hog"])
        assert (probed.samples, len(told)) == (1, 1)
        assert "held the event loop" in probed.note
        assert "blocking=True" in probed.note
        assert (await host.execute("custom.hog")).ok  # which a model may still call


@pytest.mark.long
async def test_one_call_counts_once() -> None:
    @tool(read_only=True)
    async def often() -> str:
        """Hold the loop three times."""
        for _ in range(STRIKES):
            spin(HOLD * 1.2)
            await trio.lowlevel.checkpoint()
        return "done"

    async with watched(often) as (host, told):
        assert (await host.execute("custom.often")).ok
        assert len(told) == 1
        assert (await host.execute("custom.often")).ok


# False alarms.


async def test_nobody_is_blamed_for_what_others_do() -> None:
    @tool(read_only=True)
    async def waits() -> str:
        """Wait, while somebody else holds the loop."""
        for _ in range(6):
            await trio.sleep(0.01)
        return "done"

    async with watched(waits) as (host, told):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(host.execute, "custom.waits")
            for _ in range(3):
                await trio.sleep(0.01)
                spin()
                time.sleep(LONG)  # noqa: ASYNC251 - that is the point
    assert told == []


@pytest.mark.long
async def test_a_thread_that_keeps_the_interpreter_is_not_the_handlers_fault() -> None:
    @tool(read_only=True)
    async def steps() -> str:
        """Go on in small steps."""
        for _ in range(200):
            await trio.sleep(0.001)
            spin(0.0005)
        return "done"

    async with watched(steps) as (host, told):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(host.execute, "custom.steps", tier=Tier.DEEP))
            await trio.sleep(0.05)
            await trio.to_thread.run_sync(keeps_the_interpreter)
    assert told == []


@contextmanager
def garbage() -> Iterator[None]:
    """So much to collect that it takes as long as a hold."""
    gc.collect()
    was = gc.get_threshold()
    gc.disable()
    try:
        heap = []
        while True:
            for _ in range(400_000):
                cycle: list[Any] = []
                cycle.append(cycle)
                heap.append(cycle)
            began = time.thread_time()
            gc.collect()
            if time.thread_time() - began > 3 * HOLD:
                break
        yield
    finally:
        del heap
        gc.enable()
        gc.set_threshold(*was)
        gc.collect()


@pytest.mark.long
async def test_a_collection_of_garbage_in_its_step_is_not_its_fault() -> None:
    paused: list[float] = []

    def collect() -> None:
        began = time.thread_time()
        gc.collect()
        paused.append(time.thread_time() - began)
        spin(0.02)  # so that the look that was late comes within the step

    @tool(read_only=True)
    async def warm() -> str:
        """Have the second thread look before the collection begins."""
        return "done"

    with garbage():
        async with watched(warm, hog(collect)) as (host, told):
            assert (await host.execute("custom.warm")).ok
            await trio.sleep(2.5 * PERIOD)
            assert (await host.execute("custom.hog")).ok
    assert paused[0] > HOLD
    assert told == []


STOPPED = """
import os, signal, subprocess, sys, time
import trio
{before}
from glyphoxa_trio import tool
from glyphoxa_trio.host import open_host, ToolStalled

@tool(read_only=True)
async def innocent() -> str:
    "Have the whole process stopped for a second in the midst of a step."
    {how}
    return "done"

async def main():
    told = []
    async with open_host() as host:
        host.register(innocent)
        with host.events.tap(lambda e: isinstance(e, ToolStalled) and told.append(e)):
            began = time.perf_counter()
            await host.execute("custom.innocent")
            print(time.perf_counter() - began > {least}, told)

trio.run(main)
"""


def stopped(how: str, *, least: float, before: str = "") -> str:
    filled = STOPPED.replace("{how}", how.strip()).replace("{least}", str(least))
    return filled.replace("{before}", textwrap.dedent(before))


def run(source: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", source],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout.strip()


@pytest.mark.skipif(sys.platform != "linux", reason="starves it by priority")
@pytest.mark.long
def test_a_busy_machine_is_not_the_tools_fault() -> None:
    """Three others want its processor more, so that a step which computes for 20 ms
    takes much longer than a hold."""
    core = min(os.sched_getaffinity(0))
    how = f"""
    os.sched_setaffinity(0, [{core}]); os.nice(8)
    until = time.thread_time() + 0.02
    while time.thread_time() < until: pass
    """
    rivals = [
        subprocess.Popen(
            [
                sys.executable,
                "-S",
                "-c",
                f"import os; os.sched_setaffinity(0, [{core}])\nwhile True: pass",
            ]
        )
        for _ in range(3)
    ]
    try:
        said = run(stopped(how, least=0.1))
    finally:
        for rival in rivals:
            rival.kill()
            rival.wait()
    assert said == "True []"


@pytest.mark.skipif(sys.platform == "win32", reason="SIGSTOP")
def test_a_process_that_was_stopped_blames_nobody() -> None:
    """As a laptop that sleeps: the step lasts a second, and had no processor."""
    before = """
    pid = os.getpid()
    code = (f"import os,signal,time; print('ready', flush=True); input();"
            f"os.kill({pid}, signal.SIGSTOP); time.sleep(1);"
            f"os.kill({pid}, signal.SIGCONT); print('done', flush=True)")
    stopper = subprocess.Popen([sys.executable, "-S", "-c", code], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert stopper.stdout.readline() == "ready\\n"
    """
    how = """
    stopper.stdin.write("stop\\n"); stopper.stdin.flush()
    stopper.stdout.readline()
    """
    assert run(stopped(how, least=0.9, before=before)) == "True []"


@pytest.mark.long
async def test_a_synchronous_handler_may_take_its_time() -> None:
    @tool(read_only=True)
    def hog() -> str:
        """Runs in a thread."""
        spin()
        time.sleep(LONG)
        return "done"

    async with watched(hog) as (host, told):
        for _ in range(STRIKES + 1):
            assert (await host.execute("custom.hog")).ok
    assert told == []


@pytest.mark.long
async def test_a_step_without_an_end_is_in_the_log_while_it_stands(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def until_told() -> None:
        until = time.thread_time() + 30
        while not caplog.records and time.thread_time() < until:
            pass

    async with watched(hog(until_told)) as (host, told):
        await host.execute("custom.hog")
    assert len(told) == 1
    (record,) = caplog.records
    assert "custom.hog holds the event loop, at test_stalls.py:" in record.getMessage()
