"""The scenarios for servers: ours is started once, and the suite is its client."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import attrs

import trio

from .judge import SERVED, Plan, judge, unlisted
from .suite import Offered, conformance, offered

_AT_ONCE: Final = 2  # plans
_SUITE: Final = 120.0  # seconds for all scenarios of one plan
_START: Final = 30.0
_LEAVE: Final = 10.0
_AT: Final = re.compile(r" at (http://\S+)$")
_RESULT: Final = re.compile(r"server-(.+)-\d{4}-\d\d-\d\dT")

# From where `-m` finds the fixture.
ROOT: Final = Path(__file__).parents[2]
GLYPHOXA: Final = Path(sys.executable).with_name("glyphoxa")
# The servers under test, as commands, by what a plan says that it is about.
PROGRAMS: Final[Mapping[str, Sequence[str]]] = {
    "fixture": (sys.executable, "-m", "tests.conformance.fixture"),
    "campaign": (str(GLYPHOXA), "serve", "campaign", "--db", ":memory:"),
}


@attrs.define(eq=False)
class Server:
    """One of our servers as a process, at ``url``; ``lines`` are what it says."""

    process: trio.Process
    url: str = ""
    lines: list[str] = attrs.field(factory=list)
    _listening: trio.Event = attrs.field(factory=trio.Event)

    async def ready(self) -> None:
        await self._listening.wait()
        if not self.url:
            raise RuntimeError("\n".join(["the server ended", *self.lines]))

    async def read(self) -> None:
        rest = b""
        assert self.process.stderr is not None
        async for chunk in self.process.stderr:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self.lines.append(line.decode())
                if found := _AT.search(self.lines[-1]):
                    self.url = found[1]
                    self._listening.set()
        self._listening.set()


@asynccontextmanager
async def serving(*command: str) -> AsyncGenerator[Server]:
    """A program of ours over HTTP, at any free port of this machine."""
    process = await trio.lowlevel.open_process(
        [*command, "--transport", "http", "--http-addr", "127.0.0.1:0"],
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    server = Server(process)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.read)
        try:
            with trio.fail_after(_START):
                await server.ready()
            yield server
        finally:
            process.terminate()
            with trio.move_on_after(_LEAVE, shield=True):
                await process.wait()
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()


async def run_servers(
    plans: Mapping[str, Plan], chosen: Sequence[str], wrong: list[str]
) -> int:
    """Run these plans, or what is chosen of them; how many scenarios that were."""
    wanted = {
        name: plan
        for name, plan in plans.items()
        if not chosen or any(scenario in plan.scenarios for scenario in chosen)
    }
    limiter = trio.CapacityLimiter(_AT_ONCE)
    async with trio.open_nursery() as nursery:
        for program in {plan.serves for plan in wanted.values()}:
            those = {n: plan for n, plan in wanted.items() if plan.serves == program}
            nursery.start_soon(_program, program, those, chosen, limiter, wrong)
    return sum(len(_names(plan, chosen)) for plan in wanted.values())


async def _program(
    program: str,
    plans: Mapping[str, Plan],
    chosen: Sequence[str],
    limiter: trio.CapacityLimiter,
    wrong: list[str],
) -> None:
    async with serving(*PROGRAMS[program]) as server:
        async with trio.open_nursery() as nursery:
            for name, plan in plans.items():
                nursery.start_soon(
                    _plan, name, plan, server.url, chosen, limiter, wrong
                )
    complaints = [line for line in server.lines if not _AT.search(line)]
    status = server.process.returncode
    if complaints or status:
        wrong.append(f"{program}: ended with {status}, and said")
        wrong += complaints[:20]


async def _plan(
    name: str,
    plan: Plan,
    url: str,
    chosen: Sequence[str],
    limiter: trio.CapacityLimiter,
    wrong: list[str],
) -> None:
    names = _names(plan, chosen)
    async with limiter:
        offer = applicable(plan, await offered(plan.package, "server"))
        wrong += [f"{name}: {x}" for x in unlisted(plan, offer)]
        runs = [["--scenario", x] for x in names] if chosen else [["--suite", "all"]]
        with tempfile.TemporaryDirectory() as folder:
            options = ["--url", url, "--spec-version", plan.revision or "", "-o"]
            for which in runs:
                await conformance(
                    plan.package, "server", *options, folder, *which, within=_SUITE
                )
            found = read_results(Path(folder))
    for scenario in names:
        expected = plan.scenarios[scenario]
        problems = judge(expected, found.get(scenario, []), SERVED)
        verdict = f"as expected: {expected.why}" if expected.why else "passes"
        verdict = "not as expected" if problems else verdict
        print(f"{name} {scenario}: {verdict}", *problems, sep="\n  ", flush=True)
        if problems:
            wrong.append(f"{name} {scenario}")
            print(*_complaints(found.get(scenario, [])), sep="\n", flush=True)


def _names(plan: Plan, chosen: Sequence[str]) -> list[str]:
    return [name for name in plan.scenarios if not chosen or name in chosen]


def applicable(plan: Plan, offer: Iterable[Offered]) -> list[str]:
    """Of what the suite offers, what this plan has to account for."""
    return [
        scenario.name
        for scenario in offer
        if plan.revision in scenario.revisions
        or (plan.extensions and scenario.extension)
    ]


def read_results(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The checks of each scenario that was run."""
    found = {}
    for file in folder.rglob("checks.json"):
        if scenario := _RESULT.match(file.parent.name):
            found[scenario[1]] = [_strict(x) for x in json.loads(file.read_text())]
    return found


def _strict(check: dict[str, Any]) -> dict[str, Any]:
    """What was skipped has not passed: it needs as much of a reason as a warning."""
    skipped = check["status"] == "SKIPPED"
    return {**check, "status": "WARNING"} if skipped else check


def _complaints(checks: Iterable[Mapping[str, Any]]) -> list[str]:
    return [
        f"    {check['id']}: {check.get('errorMessage')} "
        f"{json.dumps(check.get('details'))[:2000]}"
        for check in checks
        if check["status"] in ("FAILURE", "WARNING")
    ]
