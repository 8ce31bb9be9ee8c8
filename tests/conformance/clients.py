"""The scenarios for clients: the suite is the server, and runs our client."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import trio

from .judge import Plan, judge, unlisted
from .suite import conformance, offered

CLIENT: Final = Path(__file__).with_name("client.py")

_AT_ONCE: Final = 2
_SUITE: Final = 60.0  # seconds for one scenario, of which the client gets 30

# Those that measure time are run alone.
_ALONE: Final = frozenset({"sse-retry"})


async def run_clients(
    name: str, plan: Plan, chosen: Sequence[str], wrong: list[str]
) -> int:
    """Run a plan, or what is chosen of it; how many scenarios that were."""
    offer = [scenario.name for scenario in await offered(plan.package, "client")]
    wrong += [f"{name}: {x}" for x in unlisted(plan, offer)]
    names = [x for x in plan.scenarios if not chosen or x in chosen]
    limiter = trio.CapacityLimiter(_AT_ONCE)
    async with trio.open_nursery() as nursery:
        for scenario in names:
            if scenario not in _ALONE:
                nursery.start_soon(_run, plan, name, scenario, limiter, wrong)
    for scenario in names:
        if scenario in _ALONE:
            await _run(plan, name, scenario, limiter, wrong)
    return len(names)


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
            done = await conformance(plan.package, "client", *options, within=_SUITE)
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
