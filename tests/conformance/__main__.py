"""Run the official conformance suite against our client: ``make conformance``.

    python -m tests.conformance [SCENARIO …]

Every scenario that the suite has for clients is run, or left out for a reason
(`expected.toml`), two at a time. Ends with status 1 if one does not come as
expected, in either direction, 2 if the suite is not installed.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import trio

from .judge import FILE, Plan, judge, read, unlisted

MODULES: Final = Path(__file__).parents[1] / "peers" / "node_modules"
NODE: Final = MODULES / ".bin" / "node"
CLIENT: Final = Path(__file__).with_name("client.py")

_AT_ONCE: Final = 2
_SUITE: Final = 60.0  # seconds for one scenario, of which the client gets 30
_OFFERED: Final = re.compile(r"^ +- (\S+)", re.MULTILINE)

# Those that measure time are run alone.
_ALONE: Final = frozenset({"sse-retry"})


async def main(chosen: Sequence[str]) -> int:
    if not NODE.exists():
        print("the conformance suite is not installed: make peers", file=sys.stderr)
        return 2
    wrong: list[str] = []
    ran = 0
    for name, plan in read(FILE.read_text()).plans.items():
        wrong += [f"{name}: {x}" for x in unlisted(plan, await _offered(plan))]
        names = [x for x in plan.scenarios if not chosen or x in chosen]
        ran += len(names)
        limiter = trio.CapacityLimiter(_AT_ONCE)
        async with trio.open_nursery() as nursery:
            for scenario in names:
                if scenario not in _ALONE:
                    nursery.start_soon(_run, plan, name, scenario, limiter, wrong)
        for scenario in names:
            if scenario in _ALONE:
                await _run(plan, name, scenario, limiter, wrong)
    if not ran:
        wrong.append("nothing was run")
    print(f"{ran} scenarios, {len(wrong)} problems", *wrong, sep="\n  ")
    return 1 if wrong else 0


async def _offered(plan: Plan) -> list[str]:
    done = await _conformance(plan, "list", "--client")
    return _OFFERED.findall(done.stdout.decode())


async def _run(
    plan: Plan,
    name: str,
    scenario: str,
    limiter: trio.CapacityLimiter,
    wrong: list[str],
) -> None:
    expected = plan.scenarios[scenario]
    # A word of the shell each: the suite puts them into one line.
    command = shlex.join([sys.executable, str(CLIENT)])
    async with limiter:
        with tempfile.TemporaryDirectory() as folder:
            options = ["--scenario", scenario, "--command", command, "-o", folder]
            if plan.revision is not None:
                # Extensions belong to no revision, and run all the same.
                options += ["--spec-version", plan.revision, "--force"]
            done = await _conformance(plan, "client", *options)
            checks, said, complaint = _read(Path(folder))
    ended = (said.strip().splitlines() or [""])[-1]
    problems = judge(expected, checks, ended, complaint)
    verdict = f"as expected: {expected.why}" if expected.fails else "passes"
    verdict = "not as expected" if problems else verdict
    print(f"{name} {scenario}: {verdict}", *problems, sep="\n  ", flush=True)
    if problems:
        wrong.append(f"{name} {scenario}")
        print(said, complaint, done.stderr.decode()[-4000:], sep="\n", flush=True)


def _read(folder: Path) -> tuple[list[dict[str, Any]], str, str]:
    """The checks of the one scenario in ``folder``, and what the client said."""
    for file in folder.rglob("checks.json"):
        texts = [(file.parent / f"{x}.txt").read_text() for x in ("stdout", "stderr")]
        return json.loads(file.read_text()), texts[0], texts[1]
    return [], "", ""


async def _conformance(plan: Plan, *words: str) -> subprocess.CompletedProcess[bytes]:
    entry = MODULES / plan.package / "dist" / "index.js"
    with trio.fail_after(_SUITE):
        return await trio.run_process(
            [str(NODE), str(entry), *words],
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            env={**os.environ, "NO_COLOR": "1"},
        )


if __name__ == "__main__":
    sys.exit(trio.run(main, sys.argv[1:]))
