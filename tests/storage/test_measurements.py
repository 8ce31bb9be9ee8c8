"""The file of measurements: what stays, who else writes, and death at any moment.

G25. Real files and processes; each test with processes has an absolute limit.
"""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from glyphoxa_trio.storage import measurements
from glyphoxa_trio.storage.database import Schema, open_database
from glyphoxa_trio.storage.errors import StorageError, UnusableFile
from glyphoxa_trio.storage.measurements import (
    Latencies,
    MeasurementFile,
    read_latencies,
)
from glyphoxa_trio.tools.history import Measured, ToolPlace
from glyphoxa_trio.tools.window import SampleKind

from . import killed

OK, TOOL_ERROR, TIMEOUT, FAILED, CENSORED = SampleKind
LIMIT = 100.0  # seconds; only a hang comes near it
ROOT = Path(__file__).parents[2]
HERE = ToolPlace("local", "", "fake.look")
FAR = ToolPlace("far.example", "a1b2", "seer.look")


def one(
    place: ToolPlace = HERE,
    kind: SampleKind = OK,
    seconds: float = 0.25,
    when: float = 1e9,
    *,
    probe: bool = False,
) -> Measured:
    return Measured(place, kind, seconds, when, probe)


def everything(file: MeasurementFile) -> list[Measured]:
    return file.load(float("-inf"), float("inf"))


places = st.builds(
    ToolPlace,
    st.sampled_from(["local", "far.example"]),
    st.sampled_from(["", "a1b2"]),
    # Characters, not text: a server may name a tool by half a surrogate pair.
    st.sampled_from(["fake.look", "fake.push"]) | st.text(st.characters(), max_size=5),
)
samples = st.builds(
    Measured,
    places,
    st.sampled_from(SampleKind),
    st.floats(0, 100),
    st.floats(0, 4e9),
    st.booleans(),
)


class MeasurementFileMachine(RuleBasedStateMachine):
    """Two writers on one file, against a list from which the oldest are struck."""

    @initialize(keep=st.integers(1, 5))
    def open_files(self, keep: int) -> None:
        self.folder = TemporaryDirectory()
        self.path = Path(self.folder.name) / "measurements.db"
        self.files = [MeasurementFile.open(self.path) for _ in range(2)]
        self.keep = keep
        self.model: list[Measured] = []

    @rule(who=st.integers(0, 1), batch=st.lists(samples, max_size=8))
    def write(self, who: int, batch: list[Measured]) -> None:
        self.files[who].write(batch, keep=self.keep)
        self.model += [as_stored(sample) for sample in batch]
        kept: list[Measured] = []
        counts: dict[ToolPlace, int] = {}
        touched = {as_stored(sample).place for sample in batch}
        for sample in reversed(self.model):
            counts[sample.place] = counts.get(sample.place, 0) + 1
            if sample.place not in touched or counts[sample.place] <= self.keep:
                kept.append(sample)
        self.model = kept[::-1]

    @rule(who=st.integers(0, 1), batch=st.lists(samples, min_size=1, max_size=3))
    def write_what_cannot_be(self, who: int, batch: list[Measured]) -> None:
        bad = Measured(HERE, OK, -1.0, 1e9)
        with pytest.raises(apsw.ConstraintError):  # a bug of ours, if ever
            self.files[who].write([*batch, bad], keep=self.keep)

    @rule(who=st.integers(0, 1))
    def open_again(self, who: int) -> None:
        self.files[who].close()
        self.files[who] = MeasurementFile.open(self.path)

    @rule(who=st.integers(0, 1), since=st.floats(0, 4e9), until=st.floats(0, 4e9))
    def load_some(self, who: int, since: float, until: float) -> None:
        assert self.files[who].load(since, until) == [
            x for x in self.model if since <= x.when <= until
        ]

    @invariant()
    def both_see_what_stays_in_the_order_of_writing(self) -> None:
        for file in self.files:
            assert everything(file) == self.model

    def teardown(self) -> None:
        for file in self.files:
            file.close()
        self.folder.cleanup()


def as_stored(sample: Measured) -> Measured:
    """Half a surrogate pair is no text that a file takes."""
    names = (part.encode("utf-8", "backslashreplace").decode() for part in sample.place)
    return Measured(
        ToolPlace(*names), sample.kind, sample.seconds, sample.when, sample.probe
    )


TestMeasurementFile = MeasurementFileMachine.TestCase


def test_all_of_a_sample_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "measurements.db"
    batch = [
        one(place, kind, seconds=0.1 + 0.2, when=1e9 + n / 3, probe=bool(n % 2))
        for n, kind in enumerate(SampleKind)
        for place in (HERE, FAR)
    ]
    file = MeasurementFile.open(path)
    file.write(batch, keep=100)
    file.close()
    file = MeasurementFile.open(path)
    assert everything(file) == batch
    file.close()


def test_what_a_clock_put_back_wrote_last_is_the_newest(tmp_path: Path) -> None:
    file = MeasurementFile.open(tmp_path / "measurements.db")
    file.write([one(when=4e9)] * 5, keep=5)
    file.write([one(when=1e9)] * 3, keep=5)
    assert [x.when for x in everything(file)] == [4e9, 4e9, 1e9, 1e9, 1e9]
    file.close()


def test_a_file_does_not_grow_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurements, "MOST_SAMPLES", 10)
    path = tmp_path / "measurements.db"
    file = MeasurementFile.open(path)
    for n in range(30):  # a server that renames its tool
        file.write([one(ToolPlace("local", "", f"fake.t{n}"))], keep=100)
    assert [x.place.key for x in everything(file)] == [
        f"fake.t{n}" for n in range(20, 30)
    ]
    file.close()
    connection = apsw.Connection(str(path))
    assert connection.execute("select count(*) from place").get == 10
    connection.close()


def test_latencies_are_read_by_environment_and_key(tmp_path: Path) -> None:
    path = tmp_path / "measurements.db"
    file = MeasurementFile.open(path)
    file.write(
        [
            one(HERE, OK, 0.25),
            one(HERE, FAILED, 0.5),
            one(HERE, TOOL_ERROR, 0.125),
            one(HERE, TIMEOUT, 10.0),
            one(HERE, CENSORED, 0.5),
            one(FAR, OK, 2.0, when=1.0),  # however old
            one(ToolPlace("local", "", "fake.broken"), FAILED, 1.0),
        ],
        keep=100,
    )
    expected = {
        ("local", "fake.look"): Latencies((0.25, 10.0), (0.5,)),
        ("far.example", "seer.look"): Latencies((2.0,)),
    }
    assert read_latencies(path) == expected
    assert len(everything(file)) == 7  # it is read beside whoever writes
    file.close()
    assert read_latencies(path) == expected
    assert [p.name for p in tmp_path.iterdir()] == ["measurements.db"]


def test_of_two_servers_of_one_name_the_last_measured_is_read(tmp_path: Path) -> None:
    path = tmp_path / "measurements.db"
    file = MeasurementFile.open(path)
    mine, other = (
        ToolPlace("local", "a", "seer.look"),
        ToolPlace("local", "b", "seer.look"),
    )
    file.write([one(mine, seconds=1.0)], keep=5)
    file.write([one(other, seconds=2.0)], keep=5)
    assert read_latencies(path) == {("local", "seer.look"): Latencies((2.0,))}
    file.write([one(mine, seconds=3.0)], keep=5)
    assert read_latencies(path) == {("local", "seer.look"): Latencies((1.0, 3.0))}
    file.close()


def test_there_is_nothing_to_read_in_what_is_not_there_or_not_ours(
    tmp_path: Path,
) -> None:
    path = tmp_path / "measurements.db"
    with pytest.raises(StorageError, match=r"measurements\.db: it cannot be opened"):
        read_latencies(path)
    path.write_text("Dear diary")
    with pytest.raises(UnusableFile, match="it is damaged, or not a database"):
        read_latencies(path)


@pytest.mark.parametrize(
    "spoil",
    [
        "update sample set kind = 'oj'",
        "update sample set seconds = -1.0",
        "update sample set seconds = 9e999",
        # What checks is a part of the file, too.
        """
        create table other as select id, place, kind, 'long' as seconds, at, probe
        from sample;
        drop table sample;
        alter table other rename to sample;
        """,
    ],
)
def test_what_nobody_can_have_measured_is_damage(spoil: str, tmp_path: Path) -> None:
    path = tmp_path / "measurements.db"
    file = MeasurementFile.open(path)
    file.write([one()], keep=5)
    file.close()
    connection = apsw.Connection(str(path))
    connection.execute(f"pragma ignore_check_constraints = on; {spoil}")
    connection.close()
    file = MeasurementFile.open(path)
    for read in (lambda: everything(file), lambda: read_latencies(path)):
        with pytest.raises(
            UnusableFile, match=r"\.db: it is damaged: not a measurement"
        ):
            read()
    file.close()


# Death at any moment


def sound(path: Path) -> list[Measured]:
    """Open what a dead process left; its rows, all of them valid, in their order."""
    file = MeasurementFile.open(path)
    rows = everything(file)
    file.close()
    connection = apsw.Connection(str(path))
    assert connection.pragma("integrity_check") == "ok"
    assert connection.execute("pragma foreign_key_check").get is None
    connection.close()
    return rows


def whole_batches(rows: list[Measured], keep: int) -> list[int]:
    """Their numbers, as far as tools keep them; each is there for all tools alike."""
    of_tools = [
        [int(x.seconds) for x in rows if x.place == place] for place in killed.PLACES
    ]
    assert of_tools[0] == of_tools[1] == of_tools[2]
    assert len(of_tools[0]) <= keep
    # Only the oldest may have lost a part, since the newest push it out.
    numbers = sorted(set(of_tools[0]))
    assert all(of_tools[0].count(n) == killed.EACH for n in numbers[1:])
    return numbers


@contextmanager
def child(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.storage.killed", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    guard = threading.Timer(LIMIT, process.kill)
    guard.start()
    try:
        yield process
    finally:
        guard.cancel()
        process.kill()
        process.communicate()


@pytest.mark.long
@pytest.mark.border
def test_who_dies_at_any_call_of_the_disk_loses_no_more_than_the_batch_on_its_way(
    tmp_path: Path,
) -> None:
    # G25
    path = tmp_path / "measurements.db"
    deaths, last = 0, 0
    with child(path, 1, 400) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:
            point, begin, written, was_killed = map(int, line.split())
            numbers = whole_batches(sound(path), killed.KEEP)
            newest = max(numbers, default=0)
            done = begin + written - 1 if written else last
            # What was said to be written is there; of what was not, the commit may
            # have been the last thing that was done.
            assert newest == done or newest == (begin if not written else done + 1)
            last = newest
            deaths += was_killed
            if not was_killed:  # it came to its end before that call
                break
            process.stdin.write("next\n")
            process.stdin.flush()
        else:
            pytest.fail(f"it ended by itself after {deaths} deaths")
    assert point == deaths + 1
    assert deaths > 50


@pytest.mark.long
def test_who_is_killed_by_others_at_some_moment_leaves_a_sound_file(
    tmp_path: Path,
) -> None:
    # G25
    path = tmp_path / "measurements.db"
    rng = random.Random(25)
    for _ in range(12):
        with child(path) as process:
            assert process.stdout is not None
            said = 0
            for _ in range(rng.randint(0, 30)):
                said = int(process.stdout.readline())
            process.kill()  # wherever it is
            said = max([said, *map(int, process.stdout.read().split())])
        rows = sound(path)
        numbers = whole_batches(rows, killed.KEEP)
        if said:
            assert numbers[-1] in (said, said + 1)


def of_version_one(path: Path, *samples: Measured) -> None:
    """A file as the version before wrote it."""
    first = Schema(
        what=measurements.SCHEMA.what,
        mark=measurements.SCHEMA.mark,
        migrations=measurements.SCHEMA.migrations[:1],
    )
    database = open_database(path, first)
    MeasurementFile(database).write(samples, keep=100)
    database.close()


OLD = (
    one(HERE, OK, 0.1),
    one(HERE, CENSORED, 0.5),
    one(HERE, TIMEOUT, 0.05),
    one(FAR, CENSORED, 1.5),
    one(FAR, OK, 0.2),
    one(FAR, TIMEOUT, 10.0),
    one(FAR, TOOL_ERROR, 0.1),
    one(ToolPlace("local", "c3d4", "oracle.consult"), CENSORED, 1.5),
)
STILL_TRUE = [OLD[0], OLD[1], OLD[2], OLD[4], OLD[6]]


def test_what_the_version_before_cut_of_other_peoples_tools_is_dropped(
    tmp_path: Path,
) -> None:
    path = tmp_path / "old.db"
    of_version_one(path, *OLD)
    file = MeasurementFile.open(path)
    assert everything(file) == STILL_TRUE
    # From now on such samples are the tools' own, and stay over the next start.
    late = one(FAR, CENSORED, 0.5)
    file.write([late], keep=100)
    file.close()
    file = MeasurementFile.open(path)
    assert everything(file) == [*STILL_TRUE, late]
    file.close()
    with open_database(path, measurements.SCHEMA).reading() as connection:
        places = connection.execute("select tool from place").fetchall()
    assert places == [("fake.look",), ("seer.look",)]


def test_a_file_of_the_version_before_is_read_without_being_changed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "old.db"
    of_version_one(path, *OLD)
    assert read_latencies(path) == {
        ("local", "fake.look"): Latencies(ended=(0.1, 0.05), cut=(0.5,)),
        ("far.example", "seer.look"): Latencies(ended=(0.2,)),
    }
    of_version_one(path)  # it is still one: opening it does not say it is newer


def test_what_is_forgotten_is_gone_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    file = MeasurementFile.open(path)
    odd = ToolPlace("local", "c3d4", "odd.\ud800")  # half a surrogate pair
    file.write([one(HERE), one(FAR), one(FAR, CENSORED), one(odd)], keep=100)
    assert file.forget([FAR, odd, ToolPlace("local", "", "nobody.knows")]) == 3
    assert everything(file) == [one(HERE)]
    assert file.forget([]) == 0
    file.write([one(FAR, seconds=0.75)], keep=100)
    assert everything(file) == [one(HERE), one(FAR, seconds=0.75)]
    file.close()
