"""Measurements from run to run: loaded at the start, written behind.

G25; D7, D10. Virtual time with a file that is a list, and no thread: a thread would
make the virtual clock jump. Real files, threads and processes at the end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.host import CalibratorSettings, SampleHistory, ToolHost, open_host
from glyphoxa_trio.host import history as history_module
from glyphoxa_trio.host.history import AGAIN, GATHERING, LOADING, SAVING
from glyphoxa_trio.storage.errors import StorageError, UnusableFile
from glyphoxa_trio.storage.measurements import MeasurementFile
from glyphoxa_trio.tools.estimate import EstimateSource
from glyphoxa_trio.tools.history import ASKEW, Measured, ToolPlace, kept, recalled
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.tools.window import Sample, SampleKind

from .fakes import Does, fake, fan_out

OK, TOOL_ERROR, TIMEOUT, FAILED, CENSORED = SampleKind
LIMIT = 60.0  # seconds; only a hang comes near it
ROOT = Path(__file__).parents[2]
KEY = "fake.look"
HERE = ToolPlace("local", "", KEY)
TODAY = 1_800_000_000.0  # when virtual time is 0
DAY = 24 * 3600.0


@attrs.define
class Disk:
    """A file that is a list, and fails when it is told to."""

    rows: list[Measured] = attrs.field(factory=list)
    fails: Exception | None = None
    hangs: bool = False
    log: list[tuple[float, int]] = attrs.field(factory=list)
    opened: int = 0
    closed: int = 0

    def open(self) -> Disk:
        self.opened += 1
        return self

    def load(self, since: float, until: float) -> list[Measured]:
        self._may_fail()
        return [row for row in self.rows if since <= row.when <= until]

    def write(self, batch: Sequence[Measured], *, keep: int) -> None:
        self.log.append((trio.current_time(), len(batch)))
        self._may_fail()
        self.rows += batch

    def close(self) -> None:
        self.closed += 1

    def _may_fail(self) -> None:
        if self.fails is not None:
            raise self.fails

    async def beside(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """In place of a thread. One that hangs is left to itself when cancelled."""
        if self.hangs:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return function(*arguments)


def history_on(disk: Disk, **rest: Any) -> SampleHistory:
    rest.setdefault("today", lambda: TODAY + trio.current_time())
    return SampleHistory(disk.open, in_thread=disk.beside, **rest)


def sample(seconds: float = 0.25, kind: SampleKind = OK) -> Sample:
    return Sample(kind, seconds, trio.current_time())


def measured(
    seconds: float = 0.25,
    kind: SampleKind = OK,
    *,
    age: float = 60.0,
    place: ToolPlace = HERE,
) -> Measured:
    return Measured(place, kind, seconds, TODAY - age)


@asynccontextmanager
async def keeping(history: SampleHistory) -> AsyncGenerator[trio.Nursery]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(history.run)
        yield nursery
        nursery.cancel_scope.cancel()


# Two clocks


@given(
    st.floats(0, 1e6), st.floats(0, 2e9), st.floats(0, 1e5), st.floats(0, DAY, width=32)
)
def test_a_sample_keeps_its_age_over_a_restart(
    then: float, today: float, ago: float, away: float
) -> None:
    # G25
    row = kept(HERE, Sample(OK, 0.5, then - ago, probe=True), now=then, today=today)
    back = recalled(row, now=7.0, today=today + away, expiry=10 * DAY)
    assert back is not None
    assert (back.kind, back.seconds, back.probe) == (OK, 0.5, True)
    assert 7.0 - back.at == pytest.approx(ago + away, abs=1e-3)


@pytest.mark.parametrize(
    ("age", "at"),
    [
        (DAY, None),  # exactly so old is expired
        (DAY - 1, 1000 - DAY + 1),
        (0.0, 1000.0),
        (-ASKEW, 1000.0),  # just now, by a clock that was put right since
        (-ASKEW - 1, None),  # nobody knows how old that is
        (-10 * 365 * DAY, None),
        (float("nan"), None),
    ],
)
def test_what_is_expired_or_from_the_future_is_not_believed(
    age: float, at: float | None
) -> None:
    # D7
    back = recalled(measured(age=age), now=1000.0, today=TODAY, expiry=DAY)
    assert (None if back is None else back.at) == at


@given(st.lists(st.floats(-1e6, 1e6), max_size=10))
def test_a_clock_that_is_put_back_makes_nothing_immortal(steps: list[float]) -> None:
    """However the time of day jumps between runs, what was not called again expires
    within so much time as it has run on from where it is believed."""
    when, today = TODAY, TODAY
    lived = 0.0
    for step in steps:
        today += step
        row = Measured(HERE, OK, 0.5, when)
        back = recalled(row, now=0.0, today=today, expiry=DAY)
        if back is None:
            continue
        assert 0.0 <= 0.0 - back.at < DAY
        lived = max(lived, today - when)
    assert lived < DAY


# Writing behind


async def test_what_gathers_in_a_second_is_written_at_once(
    autojump_clock: MockClock,
) -> None:
    disk = Disk()
    history = history_on(disk)
    async with keeping(history):
        await trio.sleep(10)
        for _ in range(5):
            history.add(HERE, sample())
            await trio.sleep(0.1)
        assert disk.log == []
        await trio.sleep(GATHERING)
        assert disk.log == [(11.0, 5)]
        await trio.sleep(100)
        history.add(HERE, sample(0.5))
        await trio.sleep(GATHERING + 0.1)
        assert disk.log == [(11.0, 5), (112.5, 1)]
    at = [10 + n * 0.1 for n in range(5)]
    assert [row.when - TODAY for row in disk.rows] == pytest.approx([*at, 111.5])
    assert history.statistics().written == 6


async def test_what_is_withdrawn_is_not_written_but_for_probes(
    autojump_clock: MockClock,
) -> None:
    disk = Disk()
    history = history_on(disk)
    for at, probe in ((1.0, False), (8.0, False), (9.0, True), (9.5, False)):
        history.add(HERE, Sample(OK, at, at=at, probe=probe))
    history.withdraw(8.0)
    await history.close()
    assert [row.seconds for row in disk.rows] == [1.0, 9.0]


async def test_the_end_writes_what_is_left(autojump_clock: MockClock) -> None:
    disk = Disk()
    history = history_on(disk)
    async with keeping(history):
        history.add(HERE, sample())
    await history.close()
    assert (len(disk.rows), disk.closed) == (1, 1)
    assert trio.current_time() == 0


async def test_the_end_writes_it_also_where_everything_is_cancelled(
    autojump_clock: MockClock,
) -> None:
    disk = Disk()
    history = history_on(disk)
    history.add(HERE, sample())
    with trio.CancelScope() as scope:
        scope.cancel()
        await history.close()
    assert len(disk.rows) == 1


async def test_a_disk_that_hangs_holds_neither_the_start_nor_the_end_up(
    autojump_clock: MockClock,
) -> None:
    disk, told = Disk(hangs=True), list[str]()
    history = history_on(disk, warn=told.append)
    assert await history.load(DAY) == []
    assert trio.current_time() == LOADING
    assert told == [
        "measurements of earlier runs are not loaded: no answer after 0.5 s"
    ]
    async with keeping(history):
        history.add(HERE, sample())
        await trio.sleep(20)
    began = trio.current_time()
    await history.close()
    assert trio.current_time() == began + SAVING
    assert told[1:] == ["the last measurements could not be saved in time"]


async def test_a_disk_that_fails_is_one_warning_and_is_tried_again_slowly(
    autojump_clock: MockClock,
) -> None:
    disk, told = Disk(), list[str]()
    history = history_on(disk, warn=told.append)
    assert await history.load(DAY) == []
    disk.fails = StorageError("x.db: the disk is full")
    async with keeping(history):
        for _ in range(10):
            history.add(HERE, sample())
            await trio.sleep(10)
        assert [at for at, _ in disk.log] == [1.0, 31.0, 61.0, 91.0]
        assert told == ["measurements cannot be saved: x.db: the disk is full"]
        disk.fails = None
        await trio.sleep(AGAIN)
        assert len(disk.rows) == 10
        assert history.statistics().waiting == 0
        disk.fails = StorageError("x.db: the disk is full")
        history.add(HERE, sample())
        await trio.sleep(2)
    assert len(told) == 2  # it had been well in between


async def test_nothing_is_written_twice_when_a_failure_is_tried_again(
    autojump_clock: MockClock,
) -> None:
    disk = Disk()
    history = history_on(disk)
    disk.fails = StorageError("away")
    async with keeping(history):
        history.add(HERE, sample(0.1))
        await trio.sleep(5)
        history.add(HERE, sample(0.2))
        disk.fails = None
        await trio.sleep(AGAIN)
    await history.close()
    assert [row.seconds for row in disk.rows] == [0.1, 0.2]
    # What failed is opened anew.
    assert (disk.opened, disk.closed) == (2, 2)


async def test_a_stuck_disk_keeps_the_newest_and_no_more(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_module, "MOST_WAITING", 10)
    disk = Disk(fails=StorageError("away"))
    history = history_on(disk)
    for n in range(25):
        history.add(HERE, sample(float(n)))
    assert history.statistics().lost == 15
    disk.fails = None
    await history.close()
    assert [row.seconds for row in disk.rows] == [float(n) for n in range(15, 25)]


@pytest.mark.parametrize("when", ["loading", "writing"])
async def test_a_file_that_is_of_no_use_is_left_alone(
    when: str, autojump_clock: MockClock
) -> None:
    disk, told = Disk(), list[str]()
    history = history_on(disk, warn=told.append)
    if when == "loading":
        disk.fails = UnusableFile("x.db: it is damaged")
    assert await history.load(DAY) == []
    disk.fails = UnusableFile("x.db: it is damaged")
    async with keeping(history):
        history.add(HERE, sample())
        await trio.sleep(5)
        opened, tried = disk.opened, len(disk.log)
        disk.fails = None
        for _ in range(3):
            history.add(HERE, sample())
            await trio.sleep(AGAIN)
    await history.close()
    assert (disk.opened, len(disk.log)) == (opened, tried)
    assert disk.rows == []
    (text,) = told
    assert text.endswith("x.db: it is damaged; measurements are kept for this run only")


async def test_a_bug_of_the_file_ends_nothing(autojump_clock: MockClock) -> None:
    disk, told = Disk(fails=ZeroDivisionError()), list[str]()
    async with open_host(history=history_on(disk, warn=told.append)) as host:
        host.register(fake("look", 0.25))
        (outcome,) = await fan_out(host, "look")
        assert outcome.status == "ok"
        await trio.sleep(5)
    assert told == [
        "measurements of earlier runs are not loaded: ZeroDivisionError",
        "measurements cannot be saved: ZeroDivisionError",
    ]


async def test_a_thread_that_takes_the_last_one_meanwhile_is_no_harm(
    autojump_clock: MockClock,
) -> None:
    class Taken(deque[tuple[ToolPlace, Sample]]):
        def __getitem__(self, at: Any) -> Any:
            self.clear()  # as a thread may, after whoever asked how many there are
            return super().__getitem__(at)

    history = history_on(Disk())
    history._waiting = Taken([(HERE, sample())])
    history.withdraw(0.0)
    await history.close()


async def test_what_is_read_is_made_of_use_beside_the_loop(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = list[bool]()

    class Beside(Disk):
        async def beside(self, function: Callable[..., Any], *arguments: Any) -> Any:
            await trio.lowlevel.checkpoint()
            beside.append(True)
            try:
                return function(*arguments)
            finally:
                beside.append(False)

    def spied(*arguments: Any, **rest: Any) -> Any:
        assert beside[-1]
        return recalled(*arguments, **rest)

    monkeypatch.setattr(history_module, "recalled", spied)
    assert len(await history_on(Beside([measured()] * 3)).load(DAY)) == 3


async def test_what_nobody_can_have_measured_stops_no_table(
    autojump_clock: MockClock,
) -> None:
    told = list[str]()
    disk = Disk([measured(-1.0)])
    async with open_host(history=history_on(disk, warn=told.append)) as host:
        host.register(fake("look", 0.25))
        (outcome,) = await fan_out(host, "look")
        assert outcome.status == "ok"
    (text,) = told
    assert text.startswith("measurements of earlier runs are not loaded: ")


# The host


async def open_and_call(disk: Disk, times: int, seconds: float = 0.75) -> ToolHost:
    async with open_host(history=history_on(disk)) as host:
        host.register(fake("look", seconds, read_only=True))
        for _ in range(times):
            await fan_out(host, "look", within=4)
        await wait_all_tasks_blocked()
    return host


async def test_the_next_run_knows_a_tool_before_it_is_called(
    autojump_clock: MockClock,
) -> None:
    # G25, D10
    disk = Disk()
    await open_and_call(disk, 5)
    assert {row.place for row in disk.rows} == {HERE}
    async with open_host(history=history_on(disk)) as host:
        host.register(fake("look", read_only=True))
        assert host.tools(Tier.FAST) == ()  # at once: it was never shown as declared
        (listing,) = host.tools(Tier.STANDARD)
        assert listing.estimate.source is EstimateSource.MEASURED
        assert (listing.estimate.seconds, listing.estimate.samples) == (0.75, 5)
        counts = host.statistics().history
        assert counts is not None
        assert (counts.loaded, counts.written) == (5, 0)


async def test_what_was_measured_elsewhere_or_of_another_server_stays_there(
    autojump_clock: MockClock,
) -> None:
    # G25, D10
    disk = Disk(
        [
            *[measured(0.1, place=ToolPlace("local", "a1", KEY))] * 5,
            *[measured(0.75, place=ToolPlace("far", "a1", KEY))] * 5,
            *[measured(2.0, place=ToolPlace("local", "b2", KEY))] * 5,
        ]
    )
    for environment, origin, expected in [
        (None, "a1", 0.1),
        ("far", "a1", 0.75),
        ("local", "b2", 2.0),
        (None, "", 0.01),  # as declared
    ]:
        async with open_host(history=history_on(disk)) as host:
            host.register(fake("look", environment=environment, origin=origin))
            assert host.snapshot.by_key[KEY].estimate.seconds == expected


async def test_a_configured_environment_has_a_history_of_its_own(
    autojump_clock: MockClock,
) -> None:
    # G25, D10
    disk = Disk([measured(0.75)] * 5)
    settings = CalibratorSettings(environment="laptop")
    async with open_host(history=history_on(disk), settings=settings) as host:
        host.register(fake("look", 0.25))
        assert host.snapshot.by_key[KEY].estimate.source is EstimateSource.DECLARED
        await fan_out(host, "look")
        await wait_all_tasks_blocked()
    assert disk.rows[-1].place == ToolPlace("laptop", "", KEY)


async def test_what_expires_in_the_next_run_counts_from_when_it_was_measured(
    autojump_clock: MockClock,
) -> None:
    # D7
    disk = Disk([measured(0.75, age=DAY - 100)] * 5)
    async with open_host(history=history_on(disk)) as host:
        host.register(fake("look"))
        assert (await host.report())[KEY].samples == 5
        await trio.sleep(101)
        assert (await host.report())[KEY].samples == 0


async def test_failures_of_an_earlier_run_are_forgiven_and_their_latencies_known(
    autojump_clock: MockClock,
) -> None:
    # D7
    disk = Disk([*[measured(0.25)] * 5, *[measured(0.4, TIMEOUT)] * 10])
    async with open_host(history=history_on(disk)) as host:
        host.register(fake("look"))
        estimate = (await host.report())[KEY]
        assert (estimate.samples, estimate.seconds) == (15, 0.4)
        assert estimate.degraded is None
        host.register(fake("fails", does=Does.CRASH))
        for _ in range(4):  # and new ones count as ever
            await fan_out(host, "look")
            await fan_out(host, "fails")
        assert (await host.report())["fake.fails"].degraded is None


async def test_a_server_that_comes_back_has_its_history_and_a_tool_of_ours_has_not(
    autojump_clock: MockClock,
) -> None:
    # D7, D10: it is known which server it is; of our own another function may come
    disk = Disk()
    async with open_host(history=history_on(disk)) as host:
        for origin, known in (("a1", 5), ("", 0)):
            tool = fake("look", 0.25, origin=origin)
            host.register(tool)
            for _ in range(5):
                await fan_out(host, "look")
            await wait_all_tasks_blocked()
            host.deregister("fake")
            await wait_all_tasks_blocked()
            host.register(tool)
            assert (await host.report())[KEY].samples == known
            host.deregister("fake")
            await wait_all_tasks_blocked()
    assert len(disk.rows) == 10  # until it expires, the next run may have it


# Real disks


async def test_a_real_file_has_it_all_in_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "state" / "measurements.db"
    told: list[str] = []
    with trio.fail_after(LIMIT):
        for known in (0, 5, 10):
            history = SampleHistory(
                partial(MeasurementFile.open, path), warn=told.append
            )
            async with open_host(history=history) as host:
                host.register(fake("look", read_only=True))
                assert (await host.report())[KEY].samples == known
                for _ in range(5):
                    await fan_out(host, "look", within=10)
                await wait_all_tasks_blocked()
    assert told == []
    assert [p.name for p in path.parent.iterdir()] == ["measurements.db"]


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda path: path.write_bytes(b"Dear diary" * 999), "it is damaged"),
        (lambda path: path.mkdir(), "it cannot be opened"),
    ],
)
async def test_a_broken_file_never_stops_the_table(
    spoil: Callable[[Path], None], why: str, tmp_path: Path
) -> None:
    path = tmp_path / "measurements.db"
    spoil(path)
    told: list[str] = []
    with trio.fail_after(LIMIT):
        history = SampleHistory(partial(MeasurementFile.open, path), warn=told.append)
        async with open_host(history=history) as host:
            host.register(fake("look", read_only=True))
            for _ in range(5):
                (outcome,) = await fan_out(host, "look", within=10)
                assert outcome.status == "ok"
            await wait_all_tasks_blocked()
            assert (await host.report())[KEY].samples == 5  # in memory
    assert f"{path}: {why}" in told[0]


@pytest.mark.border
async def test_a_file_that_somebody_else_keeps_locked_never_stops_the_table(
    tmp_path: Path,
) -> None:
    path = tmp_path / "measurements.db"
    MeasurementFile.open(path).close()
    theirs = apsw.Connection(str(path))
    theirs.execute("pragma locking_mode = exclusive")
    theirs.execute("insert into place values (1, 'a', 'b', 'c')")
    told: list[str] = []
    try:
        with trio.fail_after(LIMIT):
            history = SampleHistory(
                partial(MeasurementFile.open, path), warn=told.append
            )
            async with open_host(history=history) as host:
                host.register(fake("look", read_only=True))
                (outcome,) = await fan_out(host, "look", within=10)
                assert outcome.status == "ok"
    finally:
        theirs.close()
    assert "of earlier runs are not loaded: no answer after 0.5 s" in told[0]


TABLE = """
import sys
from functools import partial
from pathlib import Path
import trio
from glyphoxa_trio.host import SampleHistory, open_host
from glyphoxa_trio.storage.measurements import MeasurementFile
from tests.host.fakes import fake, fan_out

async def main():
    history = SampleHistory(partial(MeasurementFile.open, Path(sys.argv[1])))
    async with open_host(history=history) as host:
        host.register(fake("look", read_only=True))
        while True:
            await fan_out(host, "look", within=10)
            await trio.sleep(0.001)
            print(host.statistics().history.written, flush=True)

trio.run(main)
"""


@pytest.mark.border
def test_a_table_that_is_killed_has_what_it_had_written(tmp_path: Path) -> None:
    # G25
    path = tmp_path / "measurements.db"
    with subprocess.Popen(
        [sys.executable, "-c", TABLE, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        guard = threading.Timer(LIMIT, process.kill)
        guard.start()
        assert process.stdout is not None
        written = 0
        for line in process.stdout:
            written = int(line)
            if written:
                os.kill(process.pid, signal.SIGKILL)
                break
        process.stdout.read()
        guard.cancel()
    assert written > 0
    file = MeasurementFile.open(path)
    rows = file.load(0, float("inf"))
    assert len(rows) >= min(written, 100)
    assert {row.place for row in rows} == {HERE}
    file.close()
