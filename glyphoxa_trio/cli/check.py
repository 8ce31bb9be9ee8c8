"""``glyphoxa check``: every problem of a configuration at once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import attrs

from glyphoxa_trio.config import Config
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.mcp import ServerState, ServerStatus
from glyphoxa_trio.runtime import Runtime, open_runtime
from glyphoxa_trio.runtime.grants import needs
from glyphoxa_trio.runtime.model_check import check_models

from .common import WAIT, Model, run, without_calibration
from .console import SafeConsole
from .render import on_screen, reach_in_words

# A lazy server is started by its first call; its tools are known from an earlier run.

_THERE: Final = (ServerState.READY, ServerState.IDLE)
COLD: Final = 300.0  # seconds for a model that has to be loaded first


def check(
    path: Path, *, servers: bool, model: bool = False, production: bool = False
) -> int:
    """Print problems and warnings; 1 if there is a problem, else 0.

    A server that is not there is a problem if an NPC's grant names it, else a warning.
    What is not fit for people who play is a problem in ``production``.
    """
    console = SafeConsole(highlight=False, soft_wrap=True)

    async def main(config: Config) -> int:
        if not servers:
            config = attrs.evolve(config, mcp=attrs.evolve(config.mcp, enabled=False))
        async with open_runtime(
            without_calibration(config), wait_for_servers=0.0
        ) as runtime:
            await runtime.wait_ready(within=WAIT)
            problems = runtime.problems()
            missing = _missing(config, runtime.servers()) if servers else []
            advice = runtime.advice()
            for warning in runtime.warnings:
                if warning.text not in advice:
                    _line(console, "warning", f"{warning.server}: {warning.text}")
            for problem in problems:
                if (problem.npc, problem.pattern) in {
                    (x.npc, x.pattern) for x in missing
                }:
                    continue  # the missing server is told below
                _line(console, "problem" if problem.error else "warning", str(problem))
            for need in missing:
                _line(console, "problem", str(need))
            unready = [x for x in runtime.unready() if x.always or production]
            for each in unready:
                _line(console, "problem" if production else "warning", str(each))
            if servers:  # without them, each NPC would seem to lack tools
                for text in advice:
                    _line(console, "warning", text)
                _reach(console, runtime)
            ready = [row for row in runtime.servers() if row.state == "ready"]
            console.print(
                f"{path}: {len(config.npcs)} NPCs,"
                f" {len(runtime.host.snapshot.listings)} tools,"
                f" {len(ready)} of {len(config.mcp.servers)} servers ready",
                markup=False,
            )
            errors = any(problem.error for problem in problems)
            mute = model and await _ask_models(console, config)
            unfit = production and unready
            return 1 if errors or missing or mute or unfit else 0

    def on_error(error: GlyphoxaError) -> int:
        for line in str(error).splitlines():
            _line(console, "problem", line)
        return 1

    def on_warning(text: str) -> None:
        _line(console, "warning", text)

    return run(
        main,
        path,
        Model(),
        on_error=on_error,
        on_warning=on_warning,
        starts=servers,
    )


async def _ask_models(console: SafeConsole, config: Config) -> bool:
    """Say how each model did; true if one of them did not answer."""
    reports = await check_models(config, within=COLD)
    if not reports:
        console.print("no model to ask: the offline one is always there")
    for report in reports:
        for note in report.notes:
            _line(console, "warning", note)
        if report.error:
            _line(console, "problem", f"{report.label}: {report.error}")
            continue
        call = "called the tool" if report.called else "called no tool"
        first = (report.first or 0.0) * 1000
        text = (
            f"{report.label}: answers, first word after {first:.0f} ms, all of it"
            f" after {report.seconds * 1000:.0f} ms, and {call}"
        )
        console.print(on_screen(text), markup=False)
    return any(report.error for report in reports)


@attrs.frozen
class MissingServer:
    """A grant that names a server which is not there, and why it is not."""

    npc: str
    pattern: str
    server: str
    why: str
    section: str

    def __str__(self) -> str:
        return (
            f"{self.pattern!r} needs the server {self.server!r}, which is not there:"
            f" {self.why} @ {self.section}[{self.npc}].tools"
        )


def _missing(config: Config, rows: Iterable[ServerStatus]) -> list[MissingServer]:
    absent = {row.name: row for row in rows if row.state not in _THERE}
    return [
        MissingServer(
            need.npc,
            need.pattern,
            need.server,
            absent[need.server].last_error or f"it is {absent[need.server].state}",
            need.section,
        )
        for need in needs(config)
        if need.server in absent
    ]


def _reach(console: SafeConsole, runtime: Runtime) -> None:
    """How many of its tools each NPC can use, of those that are there."""
    for npc in runtime.npcs:
        reach = reach_in_words(runtime.usability(npc.name))
        console.print(on_screen(f"{npc.name}: {reach}"), markup=False)


def _line(console: SafeConsole, kind: str, text: str) -> None:
    style = "red" if kind == "problem" else "yellow"
    console.print(on_screen(f"{kind}: {text}"), style=style, markup=False)
