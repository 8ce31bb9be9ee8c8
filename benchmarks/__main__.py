"""Every benchmark, one after the other, in one table.

    python -m benchmarks [--runs 5] [--quick] [--json FILE]

Exits with 1 if a promise is broken, unless the runs are quick. The full set
takes about half an hour: several promises are about what happens once in a
thousand times.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from .common import add_options, machine, table

NAMES = (
    "import_time",
    "start",
    "call_overhead",
    "connection",
    "selection",
    "catalogue",
    "fan_out",
    "hung_tool",
    "overshoot",
    "sessions",
    "chaos",
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure every promise.")
    add_options(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write JSON there")
    options = parser.parse_args()
    reports: list[dict[str, Any]] = []
    for name in NAMES:
        print(f"{name} ...", file=sys.stderr, flush=True)
        reports.append(_report(name, runs=options.runs, quick=options.quick))
    if options.json is not None:
        text = json.dumps(reports, indent=2, ensure_ascii=False)
        options.json.write_text(text + "\n", encoding="utf-8")
    print(machine())
    print(
        table(
            [
                figure | {"name": f"{report['name']}: {figure['name']}"}
                for report in reports
                for figure in report["figures"]
            ]
        )
    )
    for report in reports:
        load = " to ".join(f"{value:.2f}" for value in report["load"])
        print(f"\n{report['name']} (load {load}): {report['promise']}")
        for check in report["checks"]:
            print(f"  {check['text']}")
    if not (options.quick or all(report["kept"] for report in reports)):
        sys.exit(1)


def _report(name: str, *, runs: int, quick: bool) -> dict[str, Any]:
    command = [sys.executable, "-m", f"benchmarks.{name}", "--json", f"--runs={runs}"]
    if quick:
        command.append("--quick")
    # A status of 1 is a broken promise, and has its figures all the same.
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if not done.stdout:
        sys.exit(f"{name} did not run")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


if __name__ == "__main__":
    main()
