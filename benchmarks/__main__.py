"""Every benchmark, one after the other, in one table.

    python -m benchmarks [--runs 5] [--quick] [--json FILE] [--report FILE] [NAME ...]

Exits with 1 if a promise is broken, unless the runs are quick, or if a script did
not run. The full set takes hours with five runs: several promises are about what
happens once in a thousand times.
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
    "measurement",
    "call_overhead",
    "connection",
    "whole_call",
    "serve_stdio",
    "serve_http",
    "selection",
    "catalogue",
    "tier_by",
    "fan_out",
    "hung_tool",
    "overshoot",
    "sessions",
    "turn",
    "snapshots",
    "transcripts",
    "semantic_index",
    "journal",
    "postgres_memory",
    "knowledge_graph",
    "memory_tools",
    "hot_context",
    "tables",
    "metrics",
    "observing",
    "speculation",
    "first_sentence",
    "hedging",
    "chaos",
    "storm",
    "killed",
    "runaway",
    "dying",
    "overload",
    "soak",
    "gateway",
    "nats",
    "cluster",
    "shared_calls",
    "pages",
    "asyncio_hosts",
    "livekit",
    "pipecat",
    "voices",
    "interruptions",
    "voices_many",
    "simulator",
    "campaign",
    "side_by_side",
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure every promise.")
    add_options(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write JSON there")
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="write one HTML page with plots"
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in NAMES]:
        parser.error(f"no {', '.join(unknown)}; there are {', '.join(NAMES)}")
    reports: list[dict[str, Any]] = []
    lost: list[str] = []
    for name in options.names or NAMES:
        print(f"{name} ...", file=sys.stderr, flush=True)
        report = _report(name, runs=options.runs, quick=options.quick)
        if report is None:
            lost.append(name)
            continue
        reports.append(report)
        _write(reports, options.json, options.report)  # as far as it got
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
    if lost:
        sys.exit(f"did not run: {', '.join(lost)}")
    if not (options.quick or all(report["kept"] for report in reports)):
        sys.exit(1)


def _write(
    reports: list[dict[str, Any]], plain: Path | None, readable: Path | None
) -> None:
    for path in filter(None, (plain, readable)):
        path.parent.mkdir(parents=True, exist_ok=True)
    if plain is not None:
        text = json.dumps(reports, indent=2, ensure_ascii=False)
        plain.write_text(text + "\n", encoding="utf-8")
    if readable is not None:
        from .report import page

        readable.write_text(page(reports), encoding="utf-8")


def _report(name: str, *, runs: int, quick: bool) -> dict[str, Any] | None:
    """None if it broke down; what it wrote about that has been seen."""
    command = [sys.executable, "-m", f"benchmarks.{name}", "--json", f"--runs={runs}"]
    if quick:
        command.append("--quick")
    # A status of 1 is a broken promise, and has its figures all the same.
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if not done.stdout:
        return None
    report: dict[str, Any] = json.loads(done.stdout)
    return report


if __name__ == "__main__":
    main()
