"""The benchmarks run, say what they promise, and can fail. No figure is judged."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from benchmarks.__main__ import NAMES
from benchmarks.common import (
    Benchmark,
    Budget,
    Figure,
    figure,
    main,
    percentile,
    run,
)
from benchmarks.pipecat import PYTHON as PIPECAT
from benchmarks.report import page
from tests.frameworks.support import python_of
from tests.memory.postgres.server import is_there
from tests.nats.server import PROGRAM as nats_server

ROOT = Path(__file__).parents[2]


def _constant(quick: bool) -> list[Figure]:
    return [figure("waiting", [0.002, 0.004], unit="ms", bare=[0.001])]


def _benchmark(at_most: float) -> Benchmark:
    return Benchmark(
        name="constant",
        promise="waiting takes long",
        measure=_constant,
        budgets=(Budget(figure="waiting", statistic="p99", at_most=at_most),),
    )


def test_every_script_is_part_of_the_whole() -> None:
    shared = {"__init__", "__main__", "before", "common", "report"}
    scripts = {path.stem for path in (ROOT / "benchmarks").glob("*.py")} - shared
    assert sorted(NAMES) == sorted(scripts)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_a_script_runs_and_reports_its_figures(name: str) -> None:
    if name in ("cluster", "postgres_memory") and not is_there():
        pytest.skip("PostgreSQL is not installed")
    if name in ("cluster", "nats", "shared_calls") and nats_server is None:
        pytest.skip("nats-server is not installed")
    if name == "pipecat" and not PIPECAT.exists():
        pytest.skip("Pipecat is not installed beside (make peers)")
    if name == "pages" and shutil.which("chromium") is None:
        pytest.skip("chromium is not installed")
    if name == "livekit":
        python_of(name)  # or it is skipped
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", "--quick", "--json", "--runs=1"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    )
    report = json.loads(done.stdout)
    assert report["name"] == name
    assert report["promise"]
    assert report["runs"] == 1
    assert report["quick"] is True
    assert len(report["every_run"]) == 1
    assert report["figures"] == report["every_run"][0]
    for found in report["figures"]:
        assert {"name", "unit", "n", "p50", "p99", "ratio"} <= set(found)
        assert found["n"] >= 1
    # Quick runs are smaller than promised, or nothing is promised.
    if name not in (
        *("catalogue", "knowledge_graph", "semantic_index"),
        *("sessions", "side_by_side", "voices_many"),
    ):
        assert report["checks"]
    # Whatever is held against its budget has something bare beside it.
    assert any(found["bare_p50"] is not None for found in report["figures"])


@pytest.mark.long
def test_figures_stand_beside_those_of_an_earlier_commit() -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.before", "HEAD"),
            *("--quick", "--runs=1", "selection"),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    )
    heading, *rows = done.stdout.splitlines()
    assert heading.startswith("Python")
    assert rows
    for row in rows:
        then, now, ratio = map(float, row.split()[-3:])
        assert now / then == pytest.approx(ratio, rel=0.1)  # three digits of each


def test_the_figures_of_several_runs_are_medians() -> None:
    report = run(_benchmark(5), runs=2, quick=False)
    (found,) = report.figures
    assert (found.n, found.p50, found.p99, found.ratio) == (2, 2.0, 4.0, 2.0)
    assert len(report.every_run) == 2


def test_a_broken_promise_is_an_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(_benchmark(3.9), ["--runs", "1"])
    assert ended.value.code == 1
    assert "FAIL  waiting: p99 is 4 ms, at most 3.9 ms" in capsys.readouterr().out


def test_a_kept_promise_and_a_quick_run_end_well(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(_benchmark(4), ["--runs", "1"])
    assert "PASS  waiting" in capsys.readouterr().out
    main(_benchmark(3.9), ["--runs", "1", "--quick"])
    assert "FAIL  waiting" in capsys.readouterr().out


def test_a_budget_about_nothing_is_an_error_unless_the_run_is_quick() -> None:
    lost = Budget(figure="sleeping", statistic="p50", at_most=1)
    benchmark = attrs.evolve(_benchmark(5), budgets=(lost,))
    assert run(benchmark, runs=1, quick=True).checks == ()
    with pytest.raises(LookupError, match="sleeping"):
        run(benchmark, runs=1, quick=False)


@pytest.mark.long
def test_a_report_shows_every_figure_and_every_promise() -> None:
    report = run(_benchmark(3.9), runs=1, quick=False).as_json()
    shown = page([report])
    assert "0 of 1 promises kept" in shown
    assert "FAIL  waiting: p99 is 4 ms, at most 3.9 ms" in shown
    assert shown.count("<svg") == 1
    assert "<td>waiting<td>ms<td>2<td>2<td>4" in shown


def test_a_percentile_is_the_nearest_rank() -> None:
    thousand = [float(value) for value in range(1000, 0, -1)]
    assert percentile(50, thousand) == 500
    assert percentile(99, thousand) == 990
    assert percentile(99.9, thousand) == 999
    assert percentile(50, [7.0]) == 7
    assert percentile(99, [1.0, 2.0]) == 2
    with pytest.raises(ValueError, match="no samples"):
        percentile(50, [])
