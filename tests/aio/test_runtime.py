"""A runtime from asyncio: servers, reloads, events, and errors as what they are."""

from __future__ import annotations

import asyncio
import signal
import threading
from pathlib import Path

import pytest

import trio

from glyphoxa_trio import Config, ConfigError, Runtime, aio, tool
from glyphoxa_trio.actors import Lag, Lagged
from glyphoxa_trio.aio import Mode
from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.host import Probed
from glyphoxa_trio.mcp import ServerState, ServerWarning
from glyphoxa_trio.mcp.server_pool import ServerPoolError
from glyphoxa_trio.npc import TextDelta, ToolStarted, TurnEnd, TurnEvent
from glyphoxa_trio.runtime import Reloaded, RuntimeClosed, UnknownNpc
from glyphoxa_trio.tools.naming import NameCollision
from glyphoxa_trio.tools.outcome import Effect, Status, ToolCall

from ..npc.support import ScriptedLLM
from .support import config, opened, play, say, seer

WHISPER = (ToolCall("1", "mcp__seer__whisper", "{}"),)
VANISH = (ToolCall("1", "mcp__seer__vanish", "{}"),)


@pytest.mark.border
def test_a_tool_on_a_server(mode: Mode) -> None:
    async def main() -> None:
        chosen = config("seer.whisper", servers=(seer(),))
        async with opened(mode, chosen, WHISPER, ["So be it."]) as runtime:
            (status,) = await runtime.servers()
            assert status.state is ServerState.READY
            done = await say(runtime, "ask the seer")
            assert done.outcomes[0].message == "a word about whisper"

    play(main)


@pytest.mark.border
def test_a_server_that_is_killed_in_the_middle_of_a_call(mode: Mode) -> None:
    async def main() -> None:
        chosen = config("seer.vanish", "seer.whisper", servers=(seer(),))
        script = (VANISH, ["It is gone."], WHISPER, ["It is back."])
        async with opened(mode, chosen, *script) as runtime:
            done = await say(runtime, "vanish")
            assert done.end is TurnEnd.COMPLETED
            assert done.outcomes[0].status is Status.UNAVAILABLE
            assert done.outcomes[0].effect is Effect.UNKNOWN
            done = await say(runtime, "whisper")  # waits for the next life
            assert done.outcomes[0].status is Status.OK
            assert [row.restarts for row in await runtime.servers()] == [1]

    play(main)


@pytest.mark.border
def test_servers_come_and_go(mode: Mode) -> None:
    async def main() -> None:
        async with opened(mode, config("seer.*")) as runtime:
            await runtime.add_server(seer())
            with pytest.raises(ServerPoolError, match="seer"):
                await runtime.add_server(seer())
            assert await runtime.wait_ready(within=10)
            (status,) = await runtime.servers()
            assert (status.name, status.state) == ("seer", ServerState.READY)
            await runtime.remove_server("seer")
            assert await runtime.servers() == ()
            with pytest.raises(ServerPoolError, match="seer"):
                await runtime.remove_server("seer")

    play(main)


def test_own_tools_come_and_go(mode: Mode) -> None:
    @aio.tool
    @tool(group="weather", read_only=True, estimated_duration_ms=10)
    async def look_up() -> str:
        return "rain"

    async def main() -> None:
        call = (ToolCall("1", "look_up", "{}"),)
        chosen = config("weather.*")
        async with opened(mode, chosen, call, ["Rain."], ["No."]) as runtime:
            await runtime.register(look_up)
            with pytest.raises(NameCollision):
                await runtime.register(look_up)
            assert (await say(runtime, "weather?")).outcomes[0].message == "rain"
            assert await runtime.deregister("weather") == ("weather.look_up",)
            assert (await say(runtime, "weather?")).outcomes == ()

    play(main)


def test_a_reload_changes_the_cast(mode: Mode) -> None:
    async def main() -> None:
        one, two = config(), config(npcs=(NpcConfig(name="Cy"),))
        async with opened(mode, one, llm=ScriptedLLM([["Aye."]])) as runtime:
            bo = runtime.npc("Bo")
            done = await runtime.reload(two)
            assert done.generation == 2
            assert [npc.name for npc in runtime.npcs] == ["Cy"]
            assert runtime.config == two
            with pytest.raises(UnknownNpc, match="Cy"):
                runtime.npc("Bo")
            with pytest.raises(UnknownNpc):
                await bo.interrupt()
            with pytest.raises(UnknownNpc):
                async with bo.say("still there?"):
                    raise AssertionError("nobody answers")
            assert (await say(runtime, "hello", "Cy")).text == "Aye."
            with pytest.raises(ConfigError):
                await runtime.reload(config("nothing.at_all"))
            assert runtime.config == two

    play(main)


def test_a_signal_reloads_a_guest() -> None:
    async def main() -> None:
        told: asyncio.Queue[Reloaded] = asyncio.Queue()
        async with aio.open_runtime(
            config, reload_on=[signal.SIGHUP], on_reload=told.put_nowait
        ):
            signal.raise_signal(signal.SIGHUP)
            assert isinstance(await told.get(), Reloaded)

    play(main)


def test_a_thread_takes_no_signals() -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match=r"reload_on: .*mode='guest'"):
            async with opened("thread", reload_on=[signal.SIGHUP]):
                raise AssertionError("it opened")

    play(main)


def test_tools_are_measured(mode: Mode) -> None:
    async def main() -> None:
        async with opened(mode, config("dice")) as runtime:
            found = await runtime.calibrate()
            assert {type(row) for row in found} == {Probed}
            assert "dice.roll" in {row.key for row in found}

    play(main)


def test_whatever_has_no_method_here_is_run_in_trio(mode: Mode) -> None:
    async def count(runtime: Runtime, step: float, *, times: int) -> tuple[int, int]:
        for _ in range(times):
            await trio.sleep(step)
        return times, threading.get_ident()

    async def main() -> None:
        async with opened(mode) as runtime:
            times, thread = await runtime.run(count, 0.0, times=3)
            assert times == 3
            assert (thread == threading.get_ident()) is (mode == "guest")
            assert await runtime.problems() == []

    play(main)


def test_errors_of_the_start_are_those_of_the_configuration(
    mode: Mode, tmp_path: Path
) -> None:
    path = tmp_path / "tavern.yaml"
    path.write_text("npcs: [{name: Bo, budget_tier: brisk}]\n")

    async def main() -> None:
        with pytest.raises(ConfigError, match="budget_tier"):
            async with opened(mode, path):  # type: ignore[arg-type]
                raise AssertionError("it opened")
        with pytest.raises(ConfigError, match="nothing"):
            async with opened(mode, config("nothing.at_all")):
                raise AssertionError("it opened")

    play(main)


def test_another_mode_is_an_error() -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="mode: 'guest' or 'thread', not 'ghost'"):
            async with opened("ghost"):  # type: ignore[arg-type]
                raise AssertionError("it opened")

    play(main)


def test_a_thread_has_room_for_one_guest_and_for_any_number_of_threads() -> None:
    async def main() -> None:
        async with opened("guest", config(), ["One."]) as guest:
            with pytest.raises(RuntimeError, match="mode='thread'"):
                async with opened("guest"):
                    raise AssertionError("it opened")
            async with (
                opened("thread", config(), ["Two."]) as first,
                opened("thread", config(), ["Three."]) as second,
            ):
                dones = await asyncio.gather(
                    *(say(x, "?") for x in (guest, first, second))
                )
            assert [done.text for done in dones] == ["One.", "Two.", "Three."]

    play(main)


def test_after_the_block_everything_says_so(mode: Mode) -> None:
    async def main() -> None:
        async with opened(mode) as runtime:
            bo = runtime.npc("Bo")
            topic = runtime.events.subscribe()
        with pytest.raises(RuntimeClosed):
            runtime.npc("Bo")
        for late in (
            lambda: runtime.servers(),
            lambda: runtime.reload(),
            lambda: bo.interrupt(),
            lambda: bo.say("hello").__aenter__(),
            lambda: topic.__aenter__(),
        ):
            with pytest.raises(RuntimeClosed):
                await late()

    play(main)


def test_whoever_listens_when_the_runtime_ends_is_told(mode: Mode) -> None:
    async def main() -> None:
        inside, done = asyncio.Event(), asyncio.Event()

        async def listen(runtime: aio.Runtime) -> str:
            async with runtime.events.subscribe() as events:
                inside.set()
                try:
                    async for _ in events:
                        pass
                except RuntimeClosed:
                    return "told"
            return "ended"

        async with opened(mode) as runtime:
            task = asyncio.create_task(listen(runtime))
            await inside.wait()
        assert await task in ("told", "ended")
        done.set()

    play(main)


def test_events_are_bounded_and_say_what_was_missed(mode: Mode) -> None:
    def delta(at: int) -> TextDelta:
        return TextDelta(npc="Bo", turn=1, text=str(at))

    async def publish(runtime: Runtime) -> None:
        for at in range(5):
            runtime.events.publish(delta(at))

    async def main() -> None:
        async with opened(mode) as runtime:
            async with (
                runtime.events.subscribe(capacity=2) as old,
                runtime.events.subscribe(capacity=2, lag=Lag.DROP_NEWEST) as new,
                runtime.events.subscribe(capacity=2, lag=Lag.CUT_OFF) as cut,
                runtime.events.subscribe(only=ToolStarted) as other,
            ):
                waiting = asyncio.create_task(anext(other))
                await runtime.run(publish)
                assert [await anext(old), await anext(old)] == [delta(3), delta(4)]
                assert [await anext(new), await anext(new)] == [delta(0), delta(1)]
                assert [await anext(cut), await anext(cut)] == [delta(0), delta(1)]
                with pytest.raises(Lagged, match="3 events missed"):
                    await anext(cut)
                assert (old.missed, new.missed, cut.missed) == (3, 3, 3)
                assert not waiting.done()
            with pytest.raises(StopAsyncIteration):
                await waiting  # the block was left

    play(main)


@pytest.mark.border
def test_the_world_is_told_on_the_loop(mode: Mode) -> None:
    """Warnings, servers' events and their lines; what they raise is the loop's."""
    here = threading.get_ident()
    told: dict[str, set[int]] = {"warning": set(), "event": set(), "line": set()}
    failed: list[BaseException] = []

    def on_warning(_: ServerWarning) -> None:
        told["warning"].add(threading.get_ident())
        raise ZeroDivisionError("a bug of the embedder's")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, said: failed.append(said["exception"]))
        async with opened(
            mode,
            config(servers=(seer("exits"),)),
            on_warning=on_warning,
            on_server_event=lambda _: told["event"].add(threading.get_ident()),
            on_server_line=lambda *_: told["line"].add(threading.get_ident()),
        ) as runtime:
            while not all(told.values()):
                await runtime.servers()
            assert "the crystal is cracked" in "".join(
                warning.text for warning in runtime.warnings
            )

    play(main)
    assert told == {"warning": {here}, "event": {here}, "line": {here}}
    assert {type(error) for error in failed} == {ZeroDivisionError}


def test_a_loop_that_is_held_up_does_not_hold_up_a_thread() -> None:
    """The loop does not run until a turn of its own NPC has ended."""
    ended, tapped = threading.Event(), threading.Event()

    def tap(event: TurnEvent) -> None:
        if type(event).__name__ == "TurnDone":
            ended.set()

    async def listen(runtime: Runtime) -> None:
        with runtime.events.tap(tap):
            tapped.set()
            await trio.sleep_forever()

    async def main() -> None:
        roll = (ToolCall("1", "roll", '{"expression": "1d1"}'),)
        async with opened("thread", config("roll"), roll, ["One."]) as runtime:
            tapping = asyncio.create_task(runtime.run(listen))
            await asyncio.to_thread(tapped.wait)
            async with runtime.npc("Bo").say("roll") as turn:
                assert ended.wait(10)  # blocks the loop, on purpose
                done = await turn.finish()
            assert done.outcomes[0].status is Status.OK
            tapping.cancel()
            await asyncio.gather(tapping, return_exceptions=True)

    play(main)


def test_a_runtime_belongs_to_its_loop(mode: Mode) -> None:
    async def main() -> None:
        async with opened(mode) as runtime:

            def elsewhere() -> None:
                with pytest.raises(RuntimeError, match="another loop"):
                    asyncio.run(_ask(runtime))

            await asyncio.to_thread(elsewhere)

    async def _ask(runtime: aio.Runtime) -> None:
        await runtime.servers()

    play(main)


def test_a_configuration_may_be_made_anew_by_a_function(mode: Mode) -> None:
    made: list[Config] = [config(), config(npcs=(NpcConfig(name="Cy"),))]

    async def main() -> None:
        async with aio.open_runtime(lambda: made.pop(0), mode=mode) as runtime:
            await runtime.reload()
            assert [npc.name for npc in runtime.npcs] == ["Cy"]

    play(main)
