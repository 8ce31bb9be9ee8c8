"""Figures of this tree beside those of an earlier commit: what did a change cost?

    python -m benchmarks.before COMMIT [--runs 5] [--quick] NAME ...

The scripts run in turn, this tree's and the other's, on the same interpreter and with
the same libraries, so that a busy machine is as unfair to one as to the other. Printed
is, of each figure, the median of its runs here and there, and the ratio; what only one
of them measures is left out. Judges nothing.

For example, whether what came since has made an embedded runtime heavier:

    python -m benchmarks.before v0.4.0 import_time turn sessions
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from .common import add_options, machine, number

HERE = Path(__file__).parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare with an earlier commit.")
    add_options(parser)
    parser.add_argument("commit", help="what git calls it")
    parser.add_argument("names", nargs="+", metavar="NAME", help="of benchmarks")
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        _unpack(options.commit, folder)
        for name in options.names:
            here: dict[str, list[float]] = {}
            there: dict[str, list[float]] = {}
            for _ in range(options.runs):
                for tree, into in ((folder, there), (str(HERE), here)):
                    for figure, value in _run(tree, name, quick=options.quick).items():
                        into.setdefault(figure, []).append(value)
            for figure in here.keys() & there.keys():
                now, then = median(here[figure]), median(there[figure])
                ratio = f"{now / then:.2f}" if then else "-"
                row = f"{name}: {figure}", number(then), number(now), ratio
                print("{:55} {:>8} {:>8} {:>6}".format(*row), flush=True)


def _unpack(commit: str, folder: str) -> None:
    """The files of a commit that benchmarks need.

    Raises:
      CalledProcessError: there is no such commit; git has said so.
    """
    packed = subprocess.run(
        ["git", "archive", commit, "glyphoxa_trio", "benchmarks", "config"],
        cwd=HERE,
        stdout=subprocess.PIPE,
        check=True,
    )
    subprocess.run(["tar", "-x"], cwd=folder, input=packed.stdout, check=True)
    # The first run would compile it, and would be the only one that does.
    subprocess.run([sys.executable, "-m", "compileall", "-q", folder], check=True)


def _run(tree: str, name: str, *, quick: bool) -> dict[str, float]:
    """The medians of one run, by figure and unit."""
    command = [sys.executable, "-m", f"benchmarks.{name}", "--json", "--runs=1"]
    command += ["--quick"] if quick else []
    # A status of 1 is a broken promise, and has its figures all the same.
    done = subprocess.run(
        command, cwd=tree, stdout=subprocess.PIPE, text=True, check=False
    )
    if not done.stdout:
        sys.exit(f"{name} did not run in {tree}")
    figures = json.loads(done.stdout)["figures"]
    return {
        f"{figure['name']}, {figure['unit'] or 'n'}": figure["p50"]
        for figure in figures
        if figure["p50"] is not None
    }


if __name__ == "__main__":
    main()
