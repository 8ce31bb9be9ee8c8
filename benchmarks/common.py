"""The common part of all benchmarks: samples, figures, budgets, runs and output.

A benchmark is run several times, each time in a process of its own, and every
figure is the median of its runs. Nothing is tuned for the measurement: the
collector of garbage, the scheduler and the package are as in production.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, ParamSpec, TypeVar

import attrs

P = ParamSpec("P")
R = TypeVar("R")

_SCALE = {"µs": 1e6, "ms": 1e3, "s": 1.0}


@attrs.frozen(kw_only=True)
class Figure:
    """One quantity of one run, in ``unit``, beside the same thing done bare.

    ``ratio`` and ``added`` compare the medians, ``ratio_p99``, ``added_p99`` and
    ``added_p999`` the tails; all of them are None where there is nothing bare to
    compare with, and everything is where nothing happened.
    """

    name: str
    unit: str
    n: int
    p50: float | None = None
    p99: float | None = None
    p999: float | None = None
    bare_p50: float | None = None
    bare_p99: float | None = None
    bare_p999: float | None = None
    ratio: float | None = None
    ratio_p99: float | None = None
    added: float | None = None
    added_p99: float | None = None
    added_p999: float | None = None


@attrs.frozen(kw_only=True)
class Budget:
    """A promise: an upper limit for one statistic of one figure."""

    figure: str
    statistic: str
    at_most: float


@attrs.frozen(kw_only=True)
class Benchmark:
    """One promise and how it is measured.

    Args:
      measure: one run; given whether it should be quick rather than exact. It
        must be importable, since it runs in another process.
    """

    name: str
    promise: str
    measure: Callable[[bool], list[Figure]]
    budgets: tuple[Budget, ...]


@attrs.frozen(kw_only=True)
class Check:
    """A budget and what was measured: a promise kept or broken."""

    budget: Budget
    unit: str
    value: float

    @property
    def kept(self) -> bool:
        return self.value <= self.budget.at_most

    def __str__(self) -> str:
        bare = self.budget.statistic.startswith("ratio") or not self.unit
        unit = "" if bare else f" {self.unit}"
        return (
            f"{'PASS' if self.kept else 'FAIL'}  {self.budget.figure}:"
            f" {self.budget.statistic} is {number(self.value)}{unit},"
            f" at most {self.budget.at_most:g}{unit}"
        )


@attrs.frozen(kw_only=True)
class Report:
    """The medians of all runs, and whether the promise is kept."""

    name: str
    promise: str
    runs: int
    quick: bool
    figures: tuple[Figure, ...]
    checks: tuple[Check, ...]
    every_run: tuple[tuple[Figure, ...], ...]
    load: tuple[float, float]

    @property
    def kept(self) -> bool:
        return all(check.kept for check in self.checks)

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "promise": self.promise,
            "runs": self.runs,
            "quick": self.quick,
            "kept": self.kept,
            "figures": [attrs.asdict(figure) for figure in self.figures],
            "checks": [
                {
                    "figure": check.budget.figure,
                    "statistic": check.budget.statistic,
                    "value": check.value,
                    "at_most": check.budget.at_most,
                    "kept": check.kept,
                    "text": str(check),
                }
                for check in self.checks
            ],
            "every_run": [
                [attrs.asdict(figure) for figure in run] for run in self.every_run
            ],
            "machine": machine(),
            "load": self.load,
        }


def percentile(p: float, samples: Sequence[float]) -> float:
    """Nearest rank: the least sample that ``p`` % of them do not exceed.

    Raises:
      ValueError: without samples.
    """
    if not samples:
        raise ValueError("no samples")
    rank = -(-round(p * 10) * len(samples) // 1000)
    return sorted(samples)[max(1, rank) - 1]


def figure(
    name: str,
    seconds: Sequence[float],
    *,
    unit: str,
    bare: Sequence[float] = (),
    tail: bool = False,
) -> Figure:
    """Samples in seconds as a figure in ``unit``; ``tail`` asks for the p99.9."""
    if not seconds:
        return Figure(name=name, unit=unit, n=0)
    scale = _SCALE[unit]
    p50, p99 = percentile(50, seconds) * scale, percentile(99, seconds) * scale
    found = Figure(
        name=name,
        unit=unit,
        n=len(seconds),
        p50=p50,
        p99=p99,
        p999=percentile(99.9, seconds) * scale if tail else None,
    )
    if not bare:
        return found
    bare_p50, bare_p99 = percentile(50, bare) * scale, percentile(99, bare) * scale
    bare_p999 = percentile(99.9, bare) * scale if tail else None
    return attrs.evolve(
        found,
        bare_p50=bare_p50,
        bare_p99=bare_p99,
        bare_p999=bare_p999,
        ratio=p50 / bare_p50,
        ratio_p99=p99 / bare_p99,
        added=p50 - bare_p50,
        added_p99=p99 - bare_p99,
        added_p999=(
            None if bare_p999 is None or found.p999 is None else found.p999 - bare_p999
        ),
    )


def in_fresh_process(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run an importable function in a new interpreter: nothing warm, nothing left."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=spawn) as pool:
        return pool.submit(function, *args, **kwargs).result()


def run(benchmark: Benchmark, *, runs: int, quick: bool) -> Report:
    """Measure ``runs`` times; medians, checks, and the load of the machine."""
    before = os.getloadavg()[0]
    every = [in_fresh_process(benchmark.measure, quick) for _ in range(runs)]
    figures = tuple(_median(same) for same in zip(*every, strict=True))
    return Report(
        name=benchmark.name,
        promise=benchmark.promise,
        runs=runs,
        quick=quick,
        figures=figures,
        checks=tuple(_checks(benchmark.budgets, figures, quick=quick)),
        every_run=tuple(tuple(figures) for figures in every),
        load=(before, os.getloadavg()[0]),
    )


def main(benchmark: Benchmark, arguments: Sequence[str] | None = None) -> None:
    """The command line of one script; exits with 1 if a promise is broken.

    Quick runs are too short to judge by: they never fail.
    """
    parser = argparse.ArgumentParser(description=benchmark.promise)
    add_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead")
    options = parser.parse_args(arguments)
    report = run(benchmark, runs=options.runs, quick=options.quick)
    if options.json:
        print(json.dumps(report.as_json(), ensure_ascii=False))
    else:
        print(f"{benchmark.name}: {benchmark.promise}")
        print(f"{machine()}; load {report.load[0]:.2f} to {report.load[1]:.2f}")
        print(table([attrs.asdict(figure) for figure in report.figures]))
        for check in report.checks:
            print(check)
    if not report.kept and not report.quick:
        sys.exit(1)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=_at_least_one, default=5)
    parser.add_argument(
        "--quick", action="store_true", help="short, and judges nothing"
    )


def table(figures: Sequence[dict[str, Any]]) -> str:
    """Figures as aligned columns; what was not measured is a dash."""
    columns = ("p50", "p99", "p999", "bare_p50", "bare_p99", "bare_p999", "ratio")
    heads = ("p50", "p99", "p99.9", "bare p50", "bare p99", "bare p99.9", "ratio")
    rows = [("figure", "unit", "n", *heads)]
    for row in figures:
        numbers = ("-" if row[c] is None else number(row[c]) for c in columns)
        rows.append((row["name"], row["unit"], str(row["n"]), *numbers))
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if at < 2 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def number(value: float) -> str:
    """Three digits that count."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def machine() -> str:
    return (
        f"Python {platform.python_version()}, {os.cpu_count()} cores,"
        f" {platform.system()} {platform.machine()}"
    )


def _at_least_one(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("at least one run")
    return value


def _checks(
    budgets: Sequence[Budget], figures: Sequence[Figure], *, quick: bool
) -> Iterator[Check]:
    """Each budget held against its figure; a quick run may not have gone so far.

    Raises:
      LookupError: if a budget is about nothing that was measured.
    """
    by_name = {figure.name: figure for figure in figures}
    for budget in budgets:
        found = by_name.get(budget.figure)
        value = getattr(found, budget.statistic) if found else None
        if found is not None and value is not None:
            yield Check(budget=budget, unit=found.unit, value=value)
        elif not quick:
            raise LookupError(f"nothing measured {budget.figure!r}")


def _median(same: Sequence[Figure]) -> Figure:
    """One figure of all runs: the median of each of its numbers."""
    first = same[0]
    merged: dict[str, Any] = {"name": first.name, "unit": first.unit}
    for field in attrs.fields(Figure):
        if field.name in merged:
            continue
        values = [getattr(figure, field.name) for figure in same]
        merged[field.name] = None if None in values else median(values)
    return Figure(**merged | {"n": int(merged["n"])})


def children(pid: int | None = None) -> list[int]:
    """The processes that a process, or this one, has started and not waited for."""
    found: list[int] = []
    for task in Path(f"/proc/{pid or os.getpid()}/task").iterdir():
        with suppress(OSError):  # a thread that has ended just now
            found += map(int, (task / "children").read_text().split())
    return found
