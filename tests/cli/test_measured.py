"""What one command measured, the next one knows; and what it says of `tier_by`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from glyphoxa_trio.storage.measurements import MeasurementFile, read_latencies
from glyphoxa_trio.tools.history import Measured, ToolPlace
from glyphoxa_trio.tools.window import SampleKind

from .support import run, written
from .test_tools import table

ROLL = ToolPlace("local", "", "dice.roll")


def dice(folder: Path, **calibration: Any) -> Path:
    rules = {"enabled": False}
    return written(folder, builtin={"rules": rules}, calibration=calibration)


def test_what_was_calibrated_is_known_to_the_next_command(
    tmp_path: Path, state_folder: Path
) -> None:
    # G25
    path = dice(tmp_path)
    first = run("calibrate", path)
    assert first.returncode == 0, first.stderr
    assert "tier_by stays adaptive: no tool has the 20 measured calls" in first.stdout
    kept = read_latencies(state_folder / "glyphoxa" / "measurements.db")
    assert len(kept["local", "dice.roll"].ended) == 5
    shown = run("tools", path)
    row = table(shown.stdout)["dice.roll"]
    assert row[3].endswith("ms")  # p50, and nobody has measured it in this run
    assert "(n=" not in row[3]
    for _ in range(3):
        again = run("calibrate", path)
    assert "tools with 20 measured calls or more, 0 overrun" in again.stdout
    assert ": adaptive is right" in again.stdout


def test_a_statistic_that_does_not_fit_is_said_with_the_tools(
    tmp_path: Path, state_folder: Path
) -> None:
    # G40
    file = MeasurementFile.open(state_folder / "glyphoxa" / "measurements.db")
    now = time.time()
    file.write(
        [
            Measured(ROLL, SampleKind.OK, 3.0 if n % 10 < 3 else 0.2, now)
            for n in range(100)
        ],
        keep=100,
    )
    file.close()
    by_p50 = run("tools", dice(tmp_path, tier_by="p50")).stdout
    assert "1 overrun the ceiling of their tier under p50" in by_p50
    assert "set calibration.tier_by to adaptive" in by_p50
    assert "  dice.roll: two speeds: p50 (200 ms) makes it fast, where 30 %" in by_p50
    assert table(by_p50)["dice.roll"][-2] == "fast"
    adaptive = run("tools", dice(tmp_path)).stdout
    assert table(adaptive)["dice.roll"][-2] == "deep"
    assert "tier_by" not in adaptive
    elsewhere = run("tools", dice(tmp_path, environment="laptop")).stdout
    assert table(elsewhere)["dice.roll"][3] == "–"  # noqa: RUF001


def test_a_broken_file_is_a_warning_and_stays_as_it_is(
    tmp_path: Path, state_folder: Path
) -> None:
    path = state_folder / "glyphoxa" / "measurements.db"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"Dear diary " * 999)
    done = run("calibrate", dice(tmp_path))
    assert done.returncode == 0
    assert f"{path}: it is damaged" in done.stderr
    assert table(done.stdout)["dice.roll"][3].endswith("ms")
    assert path.read_bytes() == b"Dear diary " * 999


def test_what_is_not_to_be_remembered_leaves_no_file(
    tmp_path: Path, state_folder: Path
) -> None:
    assert run("calibrate", dice(tmp_path, remember=False)).returncode == 0
    assert not (state_folder / "glyphoxa" / "measurements.db").exists()
