"""The tools of the last run: shown before their server is there, used by lazy ones.

Real time where the disk is read in a thread; the servers are scripted.
"""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import wait_all_tasks_blocked

from glyphoxa_trio.actors import Ref
from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.mcp import CallTool, ServerState, open_server_pool, spawn_connection
from glyphoxa_trio.mcp.tool_cache import ToolCache
from glyphoxa_trio.mcp.transport import ToolListing
from glyphoxa_trio.secret import Secret

from .fakes import FakeServer, listing
from .support import Watcher

IDLE, STARTING, READY = ServerState.IDLE, ServerState.STARTING, ServerState.READY
HELD_BACK = 60.0  # a server that does not come while a test lasts


def spec(**options: Any) -> ServerSpec:
    return ServerSpec(name="rules", command=("rules",), start_timeout=90, **options)


def offered(known: ToolCache) -> tuple[Mapping[str, Any], ...]:
    kept = known.load(spec())
    assert kept is not None
    return kept.tools


@asynccontextmanager
async def connected(
    server: FakeServer, known: ToolCache | None, of: ServerSpec | None = None
) -> AsyncGenerator[tuple[Ref[Any], Watcher]]:
    watcher = Watcher()
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            ref = spawn_connection(
                nursery,
                of or spec(),
                publish=watcher.publish,
                warn=watcher.warn,
                report=watcher.report,
                open_session=server.open,
                known=known,
            )
            yield ref, watcher
            nursery.cancel_scope.cancel()


async def test_tools_of_the_last_run_are_shown_while_the_server_starts(
    tmp_path: Path,
) -> None:  # D5, A40
    known = ToolCache(tmp_path)
    known.save(spec(), listing("echo", "sleep").tools)
    async with connected(FakeServer(listing_takes=HELD_BACK), known) as (_, watcher):
        await watcher.until(lambda: bool(watcher.published))
        assert watcher.state("rules") is STARTING
        assert tuple(watcher.tools("rules")) == ("echo", "sleep")
        assert watcher.statuses["rules"].tools == ("echo", "sleep")


async def test_what_the_server_offers_now_replaces_them_and_is_kept(
    tmp_path: Path,
) -> None:
    known = ToolCache(tmp_path)
    known.save(spec(), listing("gone", "echo").tools)
    server = FakeServer(tools=listing("echo", "new"))
    async with connected(server, known) as (ref, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        assert tuple(watcher.tools("rules")) == ("echo", "new")
        assert await ref.stop(within=30)
    assert offered(known) == listing("echo", "new").tools


async def test_a_list_that_changes_later_is_kept_too(tmp_path: Path) -> None:
    known = ToolCache(tmp_path)
    server = FakeServer(tools=listing("echo"))
    async with connected(server, known) as (ref, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        server.tools = listing("echo", "new")
        assert server.changed is not None
        server.changed()
        await watcher.until(lambda: "new" in watcher.tools("rules"))
        assert await ref.stop(within=30)
    assert offered(known) == listing("echo", "new").tools


async def test_the_operators_filter_counts_for_remembered_tools_as_well(
    tmp_path: Path,
) -> None:
    known = ToolCache(tmp_path)
    known.save(spec(), listing("echo", "sleep").tools)
    only = spec(allow=("sleep",))
    async with connected(FakeServer(listing_takes=HELD_BACK), known, only) as (
        _,
        watcher,
    ):
        await watcher.until(lambda: bool(watcher.published))
        assert tuple(watcher.tools("rules")) == ("sleep",)


async def test_a_lazy_server_is_started_by_the_first_call(tmp_path: Path) -> None:
    # A40
    known = ToolCache(tmp_path)
    lazy = spec(lazy=True)
    known.save(lazy, listing("echo").tools)
    server = FakeServer()
    async with connected(server, known, lazy) as (_, watcher):
        await watcher.until(lambda: bool(watcher.published))
        await wait_all_tasks_blocked()
        assert watcher.states("rules") == [IDLE]
        assert server.attempts == []
        assert (await watcher.call("rules", "echo")).text == ("{}",)
        assert watcher.states("rules") == [IDLE, STARTING, READY]


async def test_a_lazy_server_that_is_not_known_starts_once_to_be_known(
    tmp_path: Path,
) -> None:
    known = ToolCache(tmp_path)
    lazy = spec(lazy=True)
    async with connected(FakeServer(), known, lazy) as (ref, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        assert await ref.stop(within=30)
    async with connected(FakeServer(), known, lazy) as (_, watcher):
        await watcher.until(lambda: bool(watcher.published))
        assert watcher.states("rules") == [IDLE]


async def test_a_lazy_server_that_nobody_called_stops_at_once(tmp_path: Path) -> None:
    known = ToolCache(tmp_path)
    lazy = spec(lazy=True)
    known.save(lazy, listing("echo").tools)
    async with connected(FakeServer(), known, lazy) as (ref, watcher):
        await watcher.until(lambda: bool(watcher.published))
        assert await ref.stop(within=30)
        assert watcher.states("rules") == [IDLE, ServerState.STOPPED]


async def test_waiting_for_a_fleet_need_not_wait_for_servers_that_are_known(
    tmp_path: Path,
) -> None:
    known = ToolCache(tmp_path)
    known.save(spec(), listing("echo").tools)
    server = FakeServer(listing_takes=HELD_BACK)
    watcher = Watcher()
    with trio.fail_after(20):
        async with open_server_pool(
            [spec()],
            publish=watcher.publish,
            warn=watcher.warn,
            open_session=server.open,
            known=known,
        ) as fleet:
            assert not await fleet.wait_ready(10, known=True)
            (row,) = fleet.status()
            assert (row.state, row.tools) == (STARTING, ("echo",))  # visible
            assert not await fleet.wait_ready(0.01)


async def test_a_call_of_a_known_tool_waits_within_its_own_time(
    tmp_path: Path,
) -> None:
    known = ToolCache(tmp_path)
    known.save(spec(), listing("echo").tools)
    async with connected(FakeServer(listing_takes=0.05), known) as (ref, watcher):
        await watcher.until(lambda: bool(watcher.published))
        assert watcher.states("rules")[0] is STARTING
        result = await ref.ask(CallTool("echo", {}), within=30)
        assert result.text == ("{}",)


async def test_how_long_the_first_start_took_is_known_to_the_next_run(
    tmp_path: Path,
) -> None:  # D17
    known = ToolCache(tmp_path)
    async with connected(FakeServer(starting_takes=0.05), known) as (ref, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        assert watcher.statuses["rules"].ready_at is None
        assert await ref.stop(within=30)
    kept = known.load(spec())
    assert kept is not None
    assert kept.start is not None
    assert kept.start >= 0.05
    began = trio.current_time()
    async with connected(FakeServer(listing_takes=HELD_BACK), known) as (_, watcher):
        await watcher.until(lambda: bool(watcher.published))
        expected = watcher.statuses["rules"].ready_at
        assert watcher.ready_at == [expected]
        assert expected is not None
        assert expected >= began + kept.start


# ----------------------------------------------------------------- the files

_names = st.text(min_size=1, max_size=20)
_tools = st.lists(
    st.fixed_dictionaries(
        {"name": _names, "inputSchema": st.just({"type": "object"})},
        optional={"description": st.text(), "_meta": st.dictionaries(_names, _names)},
    ),
    max_size=5,
).map(tuple)


@given(_tools, _tools)
def test_what_was_saved_last_is_what_is_loaded(
    first: tuple[Any, ...], second: tuple[Any, ...]
) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        known = ToolCache(Path(folder) / "not" / "there" / "yet")
        assert known.load(spec()) is None
        known.save(spec(), first)
        known.save(spec(), second, prompts=({"name": "recap"},))
        kept = ToolListing(second, prompts=({"name": "recap"},))
        assert known.load(spec()) == kept
        assert known.prompts_of("rules") == kept.prompts
        assert known.prompts_of("rule") == ()
        assert len(list(known.folder.iterdir())) == 1


@pytest.mark.parametrize(
    "text",
    [
        *["", "{", "[]", "null", '{"version": 1}', '{"version": 2, "tools": []}'],
        *['{"version": 1, "tools": [7]}', "[" * 200_000, '{"version":1,"tools":"x"}'],
    ],
    ids=range(9),
)
def test_a_file_that_is_none_is_as_if_it_was_not_there(
    text: str, tmp_path: Path
) -> None:
    known = ToolCache(tmp_path)
    known.save(spec(), ())
    (path,) = tmp_path.iterdir()
    path.write_text(text)
    assert known.load(spec()) is None
    path.write_bytes(b"\xff\xfe")
    assert known.load(spec()) is None


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    known = ToolCache(tmp_path / "file" / "folder")
    known.save(spec(), listing("echo").tools)
    assert known.load(spec()) is None


def test_another_command_is_another_server(tmp_path: Path) -> None:
    known = ToolCache(tmp_path)
    known.save(spec(), listing("echo").tools)
    other = attrs.evolve(spec(), command=("rules", "--other"))
    assert known.load(other) is None


def test_no_secret_is_in_the_file_and_nobody_else_can_read_it(tmp_path: Path) -> None:
    # A39
    known = ToolCache(tmp_path / "state")
    private = spec(env={"KEY": Secret("hunter2hunter2")})
    known.save(private, listing("echo").tools)
    (path,) = known.folder.iterdir()
    assert "hunter2" not in path.read_text() + path.name
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(known.folder.stat().st_mode) == 0o700
    # A new password is no new server.
    assert known.load(attrs.evolve(private, env={"KEY": Secret("another")}))
    assert json.loads(path.read_text())["version"] == 1


def _deep(levels: int) -> ToolListing:
    """One tool as it should be, and one whose schema is nested without need."""
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return ToolListing(
        (*listing("echo").tools, {"name": "deep", "inputSchema": schema})
    )


@pytest.mark.parametrize("nonsense", ["1.2", -1, True, None, "1e999", [1.0]])
def test_a_start_that_took_nonsense_is_not_known(
    tmp_path: Path, nonsense: object
) -> None:
    known = ToolCache(tmp_path)
    known.save(spec(), listing("echo").tools, 1.5)
    (path,) = tmp_path.iterdir()
    text = path.read_text()
    written = nonsense if nonsense == "1e999" else json.dumps(nonsense)
    path.write_text(text.replace("1.5", str(written)))
    kept = known.load(spec())
    assert kept is not None
    assert kept.start is None
    assert kept.tools == listing("echo").tools


async def test_a_list_too_deep_to_be_written_costs_the_quick_start_and_no_more(
    tmp_path: Path,
) -> None:
    known = ToolCache(tmp_path)
    server = FakeServer(tools=_deep(2000))
    async with connected(server, known) as (ref, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        assert tuple(watcher.tools("rules")) == ("echo",)
        assert await ref.stop(within=30)
        assert not any("crashed" in warning.text for warning in watcher.warnings)
    with trio.fail_after(20):  # the end does not wait for the disk
        while os.listdir(tmp_path):  # noqa: ASYNC110
            await trio.sleep(0.01)
    assert known.load(spec()) is None


@attrs.frozen
class _Hanging(ToolCache):
    """A disk that does not answer."""

    answer: threading.Event = attrs.field(factory=threading.Event)
    asked: threading.Event = attrs.field(factory=threading.Event)

    def load(self, spec: ServerSpec) -> ToolListing | None:
        self.asked.set()
        self.answer.wait(HELD_BACK)
        return None


async def test_a_disk_that_hangs_does_not_hold_up_the_end(tmp_path: Path) -> None:
    known = _Hanging(tmp_path)
    async with connected(FakeServer(), known):
        while not known.asked.is_set():  # noqa: ASYNC110
            await trio.sleep(0.001)
    assert not known.answer.is_set()
    known.answer.set()


async def test_a_staged_server_that_is_lazy_is_not_waited_for(tmp_path: Path) -> None:
    known = ToolCache(tmp_path)
    lazy = spec(lazy=True)
    known.save(lazy, listing("echo").tools)
    watcher = Watcher()
    with trio.fail_after(20):
        async with open_server_pool(
            [],
            publish=watcher.publish,
            warn=watcher.warn,
            open_session=FakeServer().open,
            known=known,
        ) as fleet:
            staged = fleet.stage(lazy)
            await staged.settled()
            fleet.switch(staged)
            assert watcher.states("rules") == [IDLE]
            assert tuple(watcher.tools("rules")) == ("echo",)


@attrs.frozen
class _Slow(ToolCache):
    """A disk whose first write takes until it may go on."""

    asked: threading.Event = attrs.field(factory=threading.Event)
    go_on: threading.Event = attrs.field(factory=threading.Event)
    done: list[int] = attrs.field(factory=list)

    def save(
        self,
        spec: ServerSpec,
        tools: tuple[Mapping[str, Any], ...],
        start: float | None = None,
        prompts: tuple[Mapping[str, Any], ...] = (),
    ) -> None:
        if not self.asked.is_set():
            self.asked.set()
            self.go_on.wait(HELD_BACK)
        super().save(spec, tools, start, prompts)
        self.done.append(len(tools))


async def test_a_list_written_late_does_not_replace_a_newer_one(tmp_path: Path) -> None:
    known = _Slow(tmp_path)
    server = FakeServer(tools=listing("echo"))
    async with connected(server, known) as (ref, watcher):
        await watcher.until(lambda: watcher.state("rules") is READY)
        while not known.asked.is_set():  # noqa: ASYNC110
            await trio.sleep(0.001)
        server.tools = listing("echo", "new")
        assert server.changed is not None
        server.changed()
        await watcher.until(lambda: "new" in watcher.tools("rules"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(ref.stop, within=30))
            await trio.sleep(0.05)  # long enough for a write that waits for nobody
            known.go_on.set()
        while len(known.done) < 2:  # noqa: ASYNC110
            await trio.sleep(0.001)
    assert offered(known) == listing("echo", "new").tools
