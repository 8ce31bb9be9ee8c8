"""Every way out of the block: the error that asyncio sees, and that nothing is left.

What is left is looked at after each test, here as everywhere in this folder.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
import warnings
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager, suppress

import pytest

import trio

from glyphoxa_trio import Config, ConfigError, Runtime, aio, tool
from glyphoxa_trio.aio import Mode, StillRunning
from glyphoxa_trio.npc import TurnDone, TurnEnd
from glyphoxa_trio.runtime import RuntimeClosed
from glyphoxa_trio.tools.outcome import ToolCall

from .support import LIMIT, config, opened, play, seer

pytestmark = pytest.mark.border

BUSY = config("seer.ponder", servers=(seer(), seer("parent", name="other")))
PONDER = (ToolCall("1", "mcp__seer__ponder", "{}"),)


class Crash(Exception):
    """A bug somewhere in trio's part of the program."""


async def crash(runtime: Runtime) -> None:
    """Crash the runtime, from inside, and wait for what comes of it."""

    async def bug() -> None:
        raise Crash("a bug")

    runtime._background.start_soon(bug)
    await trio.sleep_forever()


async def busy(runtime: aio.Runtime, inside: asyncio.Event | None = None) -> None:
    """A turn in the middle of a call that never returns."""
    async with runtime.npc("Bo").say("ponder") as turn:
        async for event in turn:
            if type(event).__name__ == "ToolStarted" and inside is not None:
                inside.set()


def test_an_error_of_the_block_leaves_it_as_it_is(mode: Mode) -> None:
    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            async with opened(mode, BUSY, PONDER) as runtime:
                inside = asyncio.Event()
                async with asyncio.TaskGroup() as group:
                    task = group.create_task(busy(runtime, inside))
                    await inside.wait()
                    task.cancel()
                raise ZeroDivisionError

    play(main)


def test_leaving_while_another_task_is_in_the_middle_of_a_turn(mode: Mode) -> None:
    async def main() -> None:
        inside = asyncio.Event()
        async with opened(mode, BUSY, PONDER) as runtime:
            task = asyncio.create_task(busy(runtime, inside))
            await inside.wait()
        with suppress(RuntimeClosed):  # or it had its last event in time
            await task

    play(main)


def test_cancelled_in_the_middle_of_a_turn(mode: Mode) -> None:
    ends: list[TurnEnd] = []

    def note(event: object) -> None:
        if isinstance(event, TurnDone):
            ends.append(event.end)

    async def watch(runtime: Runtime) -> None:
        with runtime.events.tap(note):
            watching.set()
            await trio.sleep_forever()

    async def live(inside: asyncio.Event) -> None:
        async with opened(mode, BUSY, PONDER) as runtime:
            watcher = asyncio.create_task(runtime.run(watch))
            await asyncio.to_thread(watching.wait)
            try:
                await busy(runtime, inside)
            finally:
                watcher.cancel()

    async def main() -> None:
        inside = asyncio.Event()
        task = asyncio.create_task(live(inside))
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    watching = threading.Event()
    play(main)
    assert ends == [TurnEnd.INTERRUPTED]


def test_cancelled_while_it_starts(mode: Mode) -> None:
    """A server that never shakes hands; cancelled at each of the first steps."""

    async def live() -> None:
        chosen = config(servers=(seer("mute"),))
        async with opened(mode, chosen, wait_for_servers=LIMIT):
            raise AssertionError("it opened")

    async def main() -> None:
        for steps in (0, 1, 2, 3, 5, 8, 13):
            task = asyncio.create_task(live())
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await live()

    play(main)


def test_cancelled_again_while_it_leaves(mode: Mode) -> None:
    """However often: it goes on leaving, and is cancelled when that is done."""

    async def main() -> None:
        inside = asyncio.Event()

        async def live() -> None:
            async with opened(mode, BUSY, PONDER) as runtime:
                await busy(runtime, inside)

        task = asyncio.create_task(live())
        await inside.wait()
        while not task.done():
            task.cancel()
            await asyncio.sleep(0)
        assert task.cancelled()

    play(main)


def test_a_timeout_around_the_block(mode: Mode) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2), opened(mode, BUSY, PONDER) as runtime:
                await busy(runtime)

    play(main)


def test_a_block_that_was_entered_in_one_task_may_be_left_in_another(
    mode: Mode,
) -> None:
    """As a plugin does that is loaded and unloaded by its program."""

    async def main() -> None:
        stack = AsyncExitStack()

        async def load() -> aio.Runtime:
            return await stack.enter_async_context(opened(mode, BUSY, ["Aye."]))

        runtime = await asyncio.create_task(load())
        async with runtime.npc("Bo").say("there?") as turn:
            assert (await turn.finish()).text == "Aye."
        await asyncio.create_task(stack.aclose())

    play(main)


def test_a_crash_is_an_error_of_the_block_and_ends_every_wait(mode: Mode) -> None:
    async def main() -> None:
        waiting: list[asyncio.Task[object]] = []
        with pytest.raises(Crash, match="a bug"):
            async with opened(mode, BUSY, PONDER) as runtime:
                inside = asyncio.Event()
                waiting.append(asyncio.create_task(busy(runtime, inside)))
                await inside.wait()
                waiting.append(asyncio.create_task(runtime.run(crash)))
                await asyncio.sleep(LIMIT)
                raise AssertionError("nobody cancelled it")
        for task in waiting:
            with suppress(RuntimeClosed):  # some had their last event in time
                await task
        task_here = asyncio.current_task()
        assert task_here is not None
        assert task_here.cancelling() == 0

    play(main)


def test_a_crash_and_an_error_of_the_block_are_both_told(mode: Mode) -> None:
    async def main() -> None:
        with pytest.RaisesGroup(ZeroDivisionError, Crash):
            async with opened(mode) as runtime:
                crashing = asyncio.create_task(runtime.run(crash))
                try:
                    await asyncio.sleep(LIMIT)
                except asyncio.CancelledError:
                    raise ZeroDivisionError from None
        with pytest.raises(RuntimeClosed):
            await crashing

    play(main)


def test_a_crash_does_not_hide_that_somebody_else_cancelled(mode: Mode) -> None:
    async def main() -> None:
        with pytest.raises(Crash):
            async with asyncio.timeout(None) as scope:
                async with opened(mode) as runtime:
                    crashing = asyncio.create_task(runtime.run(crash))
                    try:
                        await asyncio.sleep(LIMIT)
                    finally:
                        scope.reschedule(0)
                        await asyncio.sleep(0)
                        await asyncio.sleep(0)
        await asyncio.gather(crashing, return_exceptions=True)
        here = asyncio.current_task()
        assert here is not None
        assert here.cancelling() == 0

    play(main)


def test_what_ends_a_program_ends_it_from_trios_side_as_well(mode: Mode) -> None:
    async def end(_: Runtime) -> None:
        raise SystemExit(4)

    async def main() -> None:
        async with opened(mode) as runtime:
            await runtime.run(end)

    with pytest.raises(SystemExit, match="4"):
        play(main)


def test_what_does_not_end_is_left_behind_and_named(
    mode: Mode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler that shields itself: nothing in trio ends that."""
    monkeypatch.setattr("glyphoxa_trio.aio.call.FAREWELL", 0.05)

    async def main() -> None:
        begun, let_go = asyncio.Event(), trio.Event()
        loop = asyncio.get_running_loop()

        @tool(read_only=True, estimated_duration_ms=10)
        async def act() -> None:
            with trio.CancelScope(shield=True):
                loop.call_soon_threadsafe(begun.set)
                await let_go.wait()

        call = (ToolCall("1", "act", "{}"),)
        with pytest.raises(StillRunning):
            async with opened(mode, config("custom.act"), call, tools=[act]) as runtime:
                bridge = runtime._bridge
                async with runtime.npc("Bo").say("act"):
                    await begun.wait()
        bridge.run.to_trio(let_go.set)
        await asyncio.wait_for(bridge.over, LIMIT)
        bridge.end_without_loop()

    play(main)


# Programs that end in the middle.


def test_an_interrupt_ends_the_program_and_what_it_started(mode: Mode) -> None:
    """Ctrl-C under `asyncio.run`, which cancels the main task."""

    async def main() -> None:
        async with opened(mode, BUSY, PONDER) as runtime:
            inside = asyncio.Event()
            task = asyncio.create_task(busy(runtime, inside))
            await inside.wait()
            signal.raise_signal(signal.SIGINT)
            await task

    with pytest.raises(KeyboardInterrupt):
        play(main)


def test_a_second_interrupt_does_not_break_what_the_first_one_ends(
    mode: Mode,
) -> None:
    """It comes in the midst of trio's own steps, where it would tear the run apart;
    `asyncio.Runner` raises it wherever the program is."""

    async def main() -> None:
        async with opened(mode, BUSY, PONDER) as runtime:
            inside = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                group.create_task(busy(runtime, inside))
                await inside.wait()
                signal.raise_signal(signal.SIGINT)
                await runtime.run(again)

    async def again(_: Runtime) -> None:
        if mode == "guest":  # else trio is not in the thread that is interrupted
            signal.raise_signal(signal.SIGINT)
        await trio.sleep_forever()

    with pytest.raises(KeyboardInterrupt):
        play(main)


def test_an_interrupt_outside_of_trios_steps_is_what_it_always_was() -> None:
    """In a loop without a handler of its own it comes at once, where the host is."""

    async def main() -> None:
        async with opened("guest"):
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                told.append("here")
                raise

    told: list[str] = []
    with hand_made_loop() as loop:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(main())
    assert told == ["here"]


@contextmanager
def hand_made_loop() -> Generator[asyncio.AbstractEventLoop]:
    """A loop whose owner ends it without a thought for its tasks."""
    loop = asyncio.new_event_loop()
    try:
        yield loop
    finally:
        loop.close()


@pytest.fixture
def quiet_loops() -> Generator[None]:
    """The loops of these programs complain of tasks that were pending, rightly."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield


@pytest.mark.usefixtures("quiet_loops")
@pytest.mark.parametrize("ended", ["closed", "stopped"])
def test_a_loop_that_ends_in_the_middle_of_a_turn(mode: Mode, ended: str) -> None:
    """Nobody will ever wait for the task again; when it is collected, trio ends."""

    async def live(inside: asyncio.Event) -> None:
        async with opened(mode, BUSY, PONDER) as runtime:
            await busy(runtime, inside)

    async def until(inside: asyncio.Event) -> None:
        await inside.wait()

    loop = asyncio.new_event_loop()
    inside = asyncio.Event()
    coroutine = live(inside)
    task = loop.create_task(coroutine)
    loop.run_until_complete(until(inside))
    if ended == "closed":
        loop.close()
    coroutine.close()  # what the collector does, and says nothing
    if ended == "stopped":
        with suppress(asyncio.CancelledError, RuntimeError):
            loop.run_until_complete(task)
        loop.close()
    del task, coroutine, inside, loop
    gc.collect()


@pytest.mark.usefixtures("quiet_loops")
def test_a_loop_that_ends_while_it_starts(mode: Mode) -> None:
    async def live() -> None:
        chosen = config(servers=(seer("mute"),))
        async with aio.open_runtime(chosen, mode=mode, wait_for_servers=LIMIT):
            raise AssertionError("it opened")

    for steps in (1, 2, 5):
        loop = asyncio.new_event_loop()
        coroutine = live()
        task = loop.create_task(coroutine)
        for _ in range(steps):
            loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        coroutine.close()
        del task, coroutine, loop
        gc.collect()


def test_errors_of_the_start_leave_nothing(mode: Mode) -> None:
    def broken() -> Config:
        raise Crash("a bug in what makes the configuration")

    async def main() -> None:
        with pytest.raises(Crash):
            async with aio.open_runtime(broken, mode=mode):
                raise AssertionError("it opened")
        with pytest.raises(ConfigError):
            async with opened(mode, config("nobody.has_it", servers=(seer(),))):
                raise AssertionError("it opened")

    play(main)
