"""Several servers together: scripted ones on virtual time, real ones for the end."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from math import inf
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.config import RestartConfig, ServerSpec
from glyphoxa_trio.mcp import (
    OpenSession,
    Server,
    ServerPool,
    ServerPoolError,
    ServerSession,
    ServerState,
    open_server_pool,
    open_session,
)
from glyphoxa_trio.mcp.process import LastLines, kill_all
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.definition import (
    CallContext,
    ConnectionLost,
    ToolError,
    ToolUnavailable,
)

from .fakes import FakeServer, listing
from .support import QUICKLY, SERVERS, Watcher, asked, gone, is_dead, is_gone, plain

READY, RESTARTING = ServerState.READY, ServerState.RESTARTING
FAILED, STOPPED = ServerState.FAILED, ServerState.STOPPED


def spec(name: str, **options: Any) -> ServerSpec:
    return ServerSpec(name=name, command=(name,), **options)


def play(**servers: FakeServer) -> OpenSession:
    """Opens the scripted server of the spec's name."""

    def open_fake(
        spec: ServerSpec, *, on_tools_changed: Callable[[], None], stderr: LastLines
    ) -> AbstractAsyncContextManager[ServerSession]:
        return servers[spec.name].open(
            spec, on_tools_changed=on_tools_changed, stderr=stderr
        )

    return open_fake


@asynccontextmanager
async def fleet_of(
    *specs: ServerSpec, opening: OpenSession = open_session
) -> AsyncGenerator[tuple[ServerPool, Watcher]]:
    watcher = Watcher()
    async with open_server_pool(
        specs,
        publish=watcher.publish,
        warn=watcher.warn,
        log=watcher.log,
        on_event=watcher.events.append,
        open_session=opening,
    ) as fleet:
        yield fleet, watcher


# ------------------------------------------------------------ on virtual time


async def test_servers_start_together(autojump_clock: MockClock) -> None:
    # N2, N17, A40, T7
    names = [f"s{number}" for number in range(8)]
    servers = {name: FakeServer(listing_takes=0.25) for name in names}
    async with fleet_of(*map(spec, names), opening=play(**servers)) as (fleet, _):
        assert await fleet.wait_ready(5)
        assert trio.current_time() == 0.25
        rows = fleet.status()
        assert [row.name for row in rows] == names
        assert {row.state for row in rows} == {READY}


async def test_one_that_fails_is_a_warning_and_the_rest_goes_on(
    autojump_clock: MockClock,
) -> None:  # N23
    servers = {"good": FakeServer(), "bad": FakeServer(["refuse"] * 99)}
    opening = play(**servers)
    async with fleet_of(spec("bad"), spec("good"), opening=opening) as (fleet, watcher):
        assert not await fleet.wait_ready(60)
        assert trio.current_time() == 0  # its first attempt is over: nobody waits
        assert [row.state for row in fleet.status()] == [RESTARTING, READY]
        assert fleet.status()[0].last_error == "refused"
        assert [warning.server for warning in watcher.warnings] == ["bad"]
        assert (await watcher.call("good", "echo")).text == ("{}",)


async def test_waiting_ends_when_the_time_is_up(autojump_clock: MockClock) -> None:
    servers = {"slow": FakeServer(["hang"]), "good": FakeServer()}
    opening = play(**servers)
    both = (spec("slow", start_timeout=30), spec("good"))
    async with fleet_of(*both, opening=opening) as (fleet, _):
        assert not await fleet.wait_ready(2)
        assert trio.current_time() == 2
        states = [row.state for row in fleet.status()]
        assert states == [ServerState.STARTING, READY]


async def test_a_server_is_starting_from_the_moment_it_is_added(
    autojump_clock: MockClock,
) -> None:
    # Its connection first reads what the last run knew; who asks meanwhile must not
    # be told that there is no such server.
    opening = play(one=FakeServer(), two=FakeServer())
    async with fleet_of(spec("one"), opening=opening) as (fleet, _):
        fleet.add(spec("two"))
        rows = {row.name: row.state for row in fleet.status()}
        assert rows == dict.fromkeys(("one", "two"), ServerState.STARTING)
        assert not fleet.settled
        assert await fleet.wait_ready(5)


async def test_an_empty_fleet_is_ready(autojump_clock: MockClock) -> None:
    # A11: none but the configured
    async with fleet_of() as (fleet, _):
        assert await fleet.wait_ready(5)
        assert fleet.status() == ()
    assert trio.current_time() == 0


async def test_a_server_can_be_added_and_removed_while_running(
    autojump_clock: MockClock,
) -> None:  # N21, G42
    opening = play(old=FakeServer(), new=FakeServer(listing_takes=1))
    async with fleet_of(spec("old"), opening=opening) as (fleet, watcher):
        await fleet.wait_ready(5)
        fleet.add(spec("new"))
        with pytest.raises(ServerPoolError, match="there is a server 'new' already"):
            fleet.add(spec("new"))
        assert await fleet.wait_ready(5)
        assert (await watcher.call("new", "echo")).text == ("{}",)
        echo = watcher.tools("old")["echo"]
        await fleet.remove("old")
        assert watcher.tools("old") == {}
        assert watcher.state("old") is STOPPED
        assert [row.name for row in fleet.status()] == ["new"]
        with pytest.raises(ServerPoolError, match="no server 'old'"):
            await fleet.remove("old")
        # Whoever kept the tool is told, at once.
        result = asked(echo, {}, CallContext())
        with pytest.raises(ToolUnavailable):
            await result
        fleet.add(spec("old"))
        assert await fleet.wait_ready(5)
        assert [row.name for row in fleet.status()] == ["new", "old"]


async def test_a_server_being_removed_still_has_its_name(
    autojump_clock: MockClock,
) -> None:
    opening = play(slow=FakeServer(closing_takes=2))
    async with fleet_of(spec("slow"), opening=opening) as (fleet, _):
        await fleet.wait_ready(5)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fleet.remove, "slow")
            await wait_all_tasks_blocked()
            with pytest.raises(ServerPoolError):
                fleet.add(spec("slow"))
        assert trio.current_time() == 2
        fleet.add(spec("slow"))


async def test_leaving_ends_all_servers_together(autojump_clock: MockClock) -> None:
    names = [f"s{number}" for number in range(5)]  # N22
    servers = {name: FakeServer(closing_takes=2) for name in names}
    async with fleet_of(*map(spec, names), opening=play(**servers)) as (fleet, watcher):
        await fleet.wait_ready(5)
    assert trio.current_time() == 2
    assert {watcher.state(name) for name in names} == {STOPPED}


async def test_an_error_in_the_block_ends_the_servers_and_goes_on(
    autojump_clock: MockClock,
) -> None:
    opening = play(one=FakeServer())
    with pytest.RaisesGroup(KeyError):
        async with fleet_of(spec("one"), opening=opening) as (fleet, watcher):
            await fleet.wait_ready(5)
            raise KeyError("a bug above")
    assert watcher.state("one") is STOPPED


async def test_a_staged_server_is_not_heard_of_until_it_is_switched_to(
    autojump_clock: MockClock,
) -> None:  # D16
    old, new = FakeServer(), FakeServer(tools=listing("echo", "new"), listing_takes=1)
    opening = play(old=old, new=new)

    def by_command(spec: ServerSpec, **rest: Any) -> Any:
        return opening(attrs.evolve(spec, name=spec.command[0]), **rest)

    before = ServerSpec(name="rules", command=("old",))
    after = ServerSpec(name="rules", command=("new",))
    async with fleet_of(before, opening=by_command) as (fleet, watcher):
        await fleet.wait_ready(5)
        told = len(watcher.published)
        staged = fleet.stage(after)
        await staged.settled()
        assert trio.current_time() == 1
        assert len(watcher.published) == told
        assert "new" not in watcher.tools("rules")
        async with trio.open_nursery() as callers:
            callers.start_soon(partial(watcher.call, "rules", "sleep", seconds=3))
            await wait_all_tasks_blocked()
            replaced = fleet.switch(staged)
            assert tuple(watcher.tools("rules")) == ("echo", "new")
            assert fleet.status()[0].tools == ("echo", "new")
            assert fleet.spec("rules") is after
            assert replaced is not None
            await replaced.end(after=10)  # the call it has is served to the end
            assert trio.current_time() == 4
        assert old.session is None
        # Nothing that the old one says in ending is taken for the new one's word.
        assert watcher.state("rules") is READY
        assert [row.state for row in fleet.status()] == [READY]


async def test_a_replaced_server_is_not_waited_for_without_end(
    autojump_clock: MockClock,
) -> None:
    async with fleet_of(spec("rules"), opening=play(rules=FakeServer())) as (
        fleet,
        watcher,
    ):
        await fleet.wait_ready(5)
        staged = fleet.stage(spec("rules"))
        await staged.settled()

        async def call() -> None:
            with pytest.raises(ConnectionLost):
                await watcher.call("rules", "sleep", seconds=99)
            assert trio.current_time() == 2

        async with trio.open_nursery() as callers:
            callers.start_soon(call)
            await wait_all_tasks_blocked()
            replaced = fleet.switch(staged)
            assert replaced is not None
            await replaced.end(after=2)


async def test_a_staged_server_that_is_not_wanted_leaves_no_trace(
    autojump_clock: MockClock,
) -> None:
    servers = {"rules": FakeServer(["ok", "hang"])}
    async with fleet_of(spec("rules"), opening=play(**servers)) as (fleet, watcher):
        await fleet.wait_ready(5)
        told = len(watcher.published)
        await fleet.discard(fleet.stage(spec("rules")))
        assert len(watcher.published) == told
        assert (await watcher.call("rules", "echo")).text == ("{}",)


async def test_leaving_ends_a_staged_server_as_well(autojump_clock: MockClock) -> None:
    server = FakeServer(goodbye_takes=0.5, closing_takes=1)
    async with fleet_of(opening=play(rules=server)) as (fleet, _):
        await fleet.stage(spec("rules")).settled()
        assert server.session is not None
    assert server.session is None
    assert server.goodbyes == [0.5]
    assert trio.current_time() == 1.5


async def test_a_server_that_is_removed_says_nothing_more(
    autojump_clock: MockClock,
) -> None:  # its tools are gone before its process is, and do not come back
    server = FakeServer(closing_takes=1)
    async with fleet_of(spec("rules"), opening=play(rules=server)) as (fleet, watcher):
        await fleet.wait_ready(5)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fleet.remove, "rules")
            await wait_all_tasks_blocked()
            assert watcher.published[-1] == ("rules", STOPPED, ())
            told = len(watcher.published)
        assert len(watcher.published) == told


async def test_a_server_that_is_removed_takes_its_successor_along(
    autojump_clock: MockClock,
) -> None:  # or it would come back by itself
    server = FakeServer(["ok", "ok"])
    async with fleet_of(spec("rules"), opening=play(rules=server)) as (fleet, watcher):
        await fleet.wait_ready(5)
        staged = fleet.stage(spec("rules"))
        await staged.settled()
        await fleet.remove("rules")
        assert fleet.switch(staged) is None
        assert await staged.ref.stop(within=2)
        assert fleet.specs() == ()
        assert watcher.published[-1] == ("rules", STOPPED, ())


async def test_a_narrowed_server_offers_no_more_whatever_it_lists(
    autojump_clock: MockClock,
) -> None:  # D16: also after a restart
    server = FakeServer([1.0], tools=listing("echo", "sleep"))
    async with fleet_of(spec("rules"), opening=play(rules=server)) as (fleet, watcher):
        await fleet.wait_ready(5)
        fleet.narrow("rules", ("echo", "more"))
        fleet.narrow("nobody", ())
        told = len(watcher.published)
        assert tuple(watcher.tools("rules")) == ("echo",)
        server.tools = listing("echo", "sleep", "more")
        await watcher.until(lambda: "more" in watcher.tools("rules"))
        assert trio.current_time() == 1  # its first death costs no delay
        offered = {
            x.definition.name for _, _, all_ in watcher.published[told:] for x in all_
        }
        assert offered == {"echo", "more"}
        assert fleet.status()[0].tools == ("echo", "more")


async def test_a_replaced_server_ends_with_the_others_and_not_after_them(
    autojump_clock: MockClock,
) -> None:  # A43: 2 s for all, also when its last call was waited for
    opening = play(rules=FakeServer(closing_takes=2))
    async with fleet_of(spec("rules"), opening=opening) as (fleet, watcher):
        await fleet.wait_ready(5)
        staged = fleet.stage(spec("rules"))
        await staged.settled()

        async def call() -> None:
            with pytest.raises(ConnectionLost):
                await watcher.call("rules", "sleep", seconds=99)

        async with trio.open_nursery() as callers, trio.open_nursery() as switching:
            callers.start_soon(call)
            await wait_all_tasks_blocked()
            old = fleet.switch(staged)
            assert old is not None
            switching.start_soon(partial(old.end, after=30))
            await trio.sleep(1)
            switching.cancel_scope.cancel()
    assert trio.current_time() == 3


_NAMES = ("faq", "map")
_OPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "remove", "leave", "stage", "switch", "discard"]),
        st.sampled_from(_NAMES),
        st.sampled_from([0.0, 0.0, 0.3, 1.0, 5.0]),  # and then some time passes
        st.sampled_from(["ok", "refuse", 0.5, 2.0]),  # what a new server does first
    ),
    max_size=20,
)


@given(_OPS, st.booleans())
def test_what_is_published_is_what_was_last_asked_for_and_in_the_end_nothing_lives(
    ops: list[tuple[str, str, float, str | float]], settle: bool
) -> None:  # N21, N22, D16. The model: the version each name has, or none
    async def main() -> None:
        servers: dict[str, FakeServer] = {}
        model: dict[str, str] = {}
        staged: list[tuple[Server, str]] = []
        leaving: set[str] = set()

        def fresh(name: str, first: str | float) -> ServerSpec:
            version = f"v{len(servers)}"
            servers[version] = FakeServer(
                [first], tools=listing(version), closing_takes=0.4
            )
            return ServerSpec(name=name, command=(version,), restart=QUICKLY)

        def opening(spec: ServerSpec, **rest: Any) -> Any:
            return servers[spec.command[0]].open(spec, **rest)

        def offered(name: str) -> set[str]:
            known = any(server == name for server, _, _ in watcher.published)
            return set(watcher.tools(name)) if known else set()

        async def remove(name: str, after: float) -> None:
            leaving.add(name)
            with suppress(ServerPoolError):
                await fleet.remove(name, after=after)
            leaving.discard(name)

        async with fleet_of(opening=opening) as (fleet, watcher):
            async with trio.open_nursery() as nursery:
                for op, name, pause, first in ops:
                    match op:
                        case "add":
                            new = fresh(name, first)
                            try:
                                fleet.add(new)
                            except ServerPoolError:
                                assert name in model or name in leaving
                            else:
                                assert name not in model
                                model[name] = new.command[0]
                        case "remove" | "leave":
                            after = 3.0 if op == "leave" else 0.0
                            nursery.start_soon(remove, name, after)
                            await wait_all_tasks_blocked()
                            if model.pop(name, None) is not None or name in leaving:
                                staged = [x for x in staged if x[0].spec.name != name]
                        case "stage":
                            new = fresh(name, first)
                            staged.append((fleet.stage(new), new.command[0]))
                        case "switch" if staged:
                            member, version = staged.pop()
                            old = fleet.switch(member)
                            model[member.spec.name] = version
                            if old is not None:
                                nursery.start_soon(partial(old.end, after=pause))
                        case "discard" if staged:
                            nursery.start_soon(fleet.discard, staged.pop(0)[0])
                    await trio.sleep(pause)
                    for one in _NAMES:  # at every moment, no other version
                        assert offered(one) <= {model.get(one)}
                if settle:
                    await trio.sleep(60)
                    assert {one: offered(one) for one in _NAMES} == {
                        one: {model[one]} if one in model else set() for one in _NAMES
                    }
                    alive = {name for name, one in servers.items() if one.session}
                    assert alive == {*model.values(), *(name for _, name in staged)}
                nursery.cancel_scope.cancel()
            assert {x.name for x in fleet.specs()} - leaving == model.keys() - leaving
        assert not any(server.session for server in servers.values())

    trio.run(main, clock=MockClock(autojump_threshold=0))


# --------------------------------------------------------- with real processes
#
# With ``mock_clock`` no time passes until a test says so. What happens nevertheless is
# not delayed by us, however long the machine takes for it.

LIMIT = 60.0  # seconds; no test that passes comes near it
ENDS = 2.0  # seconds that the end of all servers may take


@pytest.mark.border
async def test_a_server_that_cannot_start_is_shown_with_what_it_said() -> None:  # N23
    with trio.fail_after(LIMIT):
        async with fleet_of(plain("exits", name="bad"), plain()) as (fleet, watcher):
            assert not await fleet.wait_ready(LIMIT)
            await watcher.until(lambda: watcher.state("plain") is READY)
            warning = watcher.warnings[0]
            assert warning.server == "bad"
            assert warning.text == "exited with status 3\n  the cellar is flooded"
            assert ("bad", "the cellar is flooded") in watcher.logged
            result = await watcher.call("plain", "echo", say="hi")
            assert result.text == ('{"say": "hi"}',)


@pytest.mark.border
async def test_a_killed_server_comes_back_and_its_next_calls_are_answered() -> None:
    with trio.fail_after(LIMIT):  # D17, T2: idle, and in the middle of a call
        async with fleet_of(plain()) as (fleet, watcher):
            assert await fleet.wait_ready(LIMIT)
            first = fleet.status()[0].pid
            assert first is not None
            os.kill(first, signal.SIGKILL)
            await watcher.until(lambda: fleet.status()[0].restarts == 1)
            for _ in range(3):
                assert (await watcher.call("plain", "echo")).text == ("{}",)
            second = fleet.status()[0].pid
            assert second is not None
            with pytest.raises(ConnectionLost):
                await watcher.call("plain", "die")
            assert (await watcher.call("plain", "echo")).text == ("{}",)
            row = fleet.status()[0]
            assert (row.restarts, row.last_error) == (2, "was ended by SIGKILL")
            assert [w.text for w in watcher.warnings] == ["was ended by SIGKILL"] * 2
        await gone(first)
        await gone(second)


async def _call_four_times(watcher: Watcher) -> None:
    answers: list[str] = []

    async def call(say: str) -> None:
        answer = await watcher.call("rules", "echo", say=say)
        answers.extend(answer.text)

    await call("first")
    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(call, str(number))
    assert len(answers) == 4


@pytest.mark.border
async def test_an_idle_server_that_is_killed_is_back_without_a_delay(
    mock_clock: MockClock,
) -> None:  # A26, A42, D17
    async with fleet_of(plain(name="rules")) as (fleet, watcher):
        assert await fleet.wait_ready(LIMIT)
        first = fleet.status()[0].pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await gone(first)
        # The first of them may find out that there is no server any more.
        await _call_four_times(watcher)
        assert fleet.status()[0].pid != first
        assert fleet.status()[0].restarts == 1


LAUNCHED = ("sh", "-c", f"{sys.executable} {SERVERS / 'plain.py'}; true")


@pytest.mark.border
async def test_a_launcher_that_is_killed_is_back_without_a_delay() -> None:
    # A26, A42, D17: a delay would be longer than the test. It is like npx: the server
    # is another process, which goes with it.
    spec = ServerSpec(
        name="rules", command=LAUNCHED, restart=RestartConfig(backoff=3600.0)
    )
    with trio.fail_after(LIMIT):
        async with fleet_of(spec) as (fleet, watcher):
            assert await fleet.wait_ready(LIMIT)
            first = fleet.status()[0].pid
            assert first is not None
            os.kill(first, signal.SIGKILL)
            # Until its loss is known, what it has launched may take a call, and be
            # ended before it answers.
            await watcher.until(lambda: watcher.state("rules") is not READY)
            await _call_four_times(watcher)
            assert fleet.status()[0].pid != first
            assert fleet.status()[0].restarts == 1


@pytest.mark.border
async def test_a_server_that_hangs_is_replaced_and_the_next_call_is_answered(
    mock_clock: MockClock,
) -> None:
    # Stopped, as a debugger or a full disk would: its process and its pipes live.
    spec = plain(name="rules", timeout=1.0, restart=RestartConfig(backoff=3600.0))
    async with fleet_of(spec) as (fleet, watcher):
        assert await fleet.wait_ready(LIMIT)
        first = fleet.status()[0].pid
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(watcher.call, "rules", "echo", deadline=0.2))
            await wait_all_tasks_blocked()
            mock_clock.jump(0.2)
            nursery.cancel_scope.cancel()
        while not is_dead(first):  # it is given up, and has some time to end
            mock_clock.jump(0.1)
            await wait_all_tasks_blocked(0.01)
        while not fleet.status()[0].restarts:  # no faster than real time
            mock_clock.jump(0.01)
            await wait_all_tasks_blocked(0.01)
        answer = await watcher.call("rules", "echo", say="here")
        assert answer.text == ('{"say": "here"}',)
        assert "it does not answer any more" in watcher.warnings[0].text
        assert fleet.status()[0].restarts == 1


@pytest.mark.border
async def test_a_cancelled_call_is_told_to_its_server(
    mock_clock: MockClock,
) -> None:  # T6, D3. How soon: benchmarks/hung_tool.py
    async with fleet_of(plain()) as (fleet, watcher):
        assert await fleet.wait_ready(LIMIT)

        def logged(count: int) -> Callable[[], bool]:
            return lambda: len(watcher.logged) == count

        for number in range(1, 6):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(watcher.call, "plain", "hang"))
                await watcher.until(logged(2 * number - 1))
                nursery.cancel_scope.cancel()
            await watcher.until(logged(2 * number))
        lines = [line.split() for _, line in watcher.logged]
        assert [word for word, _ in lines] == ["hanging", "cancelled"] * 5
        assert all(a[1] == b[1] for a, b in zip(lines[::2], lines[1::2], strict=True))
        assert (await watcher.call("plain", "echo")).text == ("{}",)


@pytest.mark.border
async def test_a_server_that_stops_reading_holds_no_call_and_no_end(
    mock_clock: MockClock,
) -> None:  # T1: the SDK shields the cancellation for 5 s
    async with fleet_of(plain("deaf")) as (fleet, watcher):
        assert await fleet.wait_ready(LIMIT)
        pid = fleet.status()[0].pid
        assert pid is not None
        async with trio.open_nursery() as nursery:
            for _ in range(8):  # together more than the pipe holds
                nursery.start_soon(
                    partial(watcher.call, "plain", "echo", say="x" * 50_000)
                )
            await wait_all_tasks_blocked(0.01)
            nursery.cancel_scope.cancel()
        assert trio.current_time() == 0
        mock_clock.autojump_threshold = 0.05
    assert trio.current_time() <= ENDS  # it resists: it never saw its stdin end
    mock_clock.autojump_threshold = inf
    await gone(pid)


@pytest.mark.border
async def test_bad_servers_delay_nobody_and_all_end() -> None:  # A43, T7, T8
    habits = ("mute", "garbage", "stubborn", "floods", "endless", "exits")
    with trio.fail_after(LIMIT):
        specs = [plain(habit, name=habit, start_timeout=LIMIT) for habit in habits]
        async with fleet_of(plain(), *specs) as (fleet, watcher):

            def is_ready(name: str) -> bool:
                return watcher.state(name) is READY

            await watcher.until(partial(is_ready, "plain"))
            assert (await watcher.call("plain", "echo")).text == ("{}",)
            for name in ("garbage", "endless", "stubborn"):
                await watcher.until(partial(is_ready, name))
                with pytest.raises(ToolError):
                    await watcher.call(name, "refuse")
            child = int((await watcher.call("stubborn", "spawn")).text[0])
            pids = [row.pid for row in fleet.status() if row.pid is not None]
            assert len(pids) == 4
            os.kill(pids[0], signal.SIGSTOP)
        for pid in (*pids, child):
            await gone(pid)


@pytest.mark.border
async def test_well_behaved_servers_end_at_once_even_when_cancelled(
    mock_clock: MockClock,
) -> None:
    with trio.CancelScope() as scope:
        async with fleet_of(plain(name="a"), plain(name="b")) as (fleet, _):
            assert await fleet.wait_ready(LIMIT)
            pids = [row.pid for row in fleet.status()]
            scope.cancel()
            await trio.sleep_forever()
    assert all(pid is not None and is_gone(pid) for pid in pids)


@pytest.mark.border
async def test_secrets_of_a_server_do_not_reach_warnings() -> None:  # A39
    secret = {"GATE_KEY": Secret("sesame-9")}
    with trio.fail_after(LIMIT):
        code = "import os,sys; print('bad gate', os.environ['GATE_KEY'], "
        code += "file=sys.stderr)"
        loud = ServerSpec(
            name="loud", command=("python", "-c", code), env=secret, restart=QUICKLY
        )
        async with fleet_of(loud) as (fleet, watcher):
            await fleet.wait_ready(LIMIT)
            assert watcher.warnings[0].text == (
                "exited with status 0\n  bad gate [secret]"
            )
            assert "sesame" not in repr((watcher.logged, fleet.status()))


@pytest.mark.border
async def test_who_must_leave_at_once_can_kill_every_server() -> None:  # T8
    with trio.fail_after(LIMIT):
        async with fleet_of(plain(), plain(name="other")) as (fleet, watcher):
            assert await fleet.wait_ready(LIMIT)
            pids = [row.pid for row in fleet.status()]
            kill_all()
            for pid in pids:
                assert pid is not None
                await gone(pid)
            await watcher.until(lambda: len(watcher.warnings) == 2)
            assert {w.text for w in watcher.warnings} == {"was ended by SIGKILL"}
