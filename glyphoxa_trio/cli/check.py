"""``glyphoxa check``: every problem of a configuration at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
from rich.console import Console

from glyphoxa_trio.config import Config, ConfigError
from glyphoxa_trio.config.mcp_json import MCP_JSON
from glyphoxa_trio.config.memory import OFF
from glyphoxa_trio.control.tools_view import ms_or_none
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.host import ToolHost
from glyphoxa_trio.mcp import ServerState, ServerStatus
from glyphoxa_trio.memory.importing.putting import misnamed
from glyphoxa_trio.memory.opening import exists, open_memory
from glyphoxa_trio.runtime import Runtime, open_runtime
from glyphoxa_trio.runtime.grants import needs
from glyphoxa_trio.runtime.model_check import ModelReport, check_models
from glyphoxa_trio.tools.usability import Usability
from glyphoxa_trio.units import many

from .common import WAIT, Model, memory_of, run, without_calibration
from .console import say, say_json, wide_console
from .grids import FAILED, HELD
from .render import reach_in_words

# A lazy server is started by its first call; its tools are known from an earlier run.

_THERE: Final = (ServerState.READY, ServerState.IDLE)
COLD: Final = 300.0  # seconds for a model that has to be loaded first


def check(
    path: Path,
    *,
    servers: bool,
    model: bool = False,
    production: bool = False,
    as_json: bool = False,
) -> int:
    """Print problems and warnings; 1 if there is a problem, else 0.

    A server that is not there is a problem if an NPC's grant names it, else a warning.
    In ``production``, any such server is a problem, and so is all that is unfit for
    players.
    """
    report = _Report(path, None if as_json else wide_console())

    async def main(config: Config) -> int:
        if not servers:
            config = attrs.evolve(config, mcp=attrs.evolve(config.mcp, enabled=False))
        async with open_runtime(
            without_calibration(config), wait_for_servers=0.0, memory=OFF
        ) as runtime:
            await runtime.wait_ready(within=WAIT)
            problems = runtime.problems()
            missing = _missing(config, runtime.servers()) if servers else []
            advice = runtime.advice()
            warned = {warning.server for warning in runtime.warnings}
            for warning in runtime.warnings:
                if warning.text not in advice:
                    report.add("warning", f"{warning.server}: {warning.text}")
            for problem in problems:
                if (problem.npc, problem.pattern) in {
                    (x.npc, x.pattern) for x in missing
                }:
                    continue  # the missing server is told below
                report.add("problem" if problem.error else "warning", str(problem))
            for need in missing:
                report.add("problem", str(need))
            named = {need.server for need in missing}
            for row in _absent(runtime.servers()) if servers else ():
                if row.name not in (named if production else named | warned):
                    kind = "problem" if production else "warning"
                    report.add(kind, f"{row.name}: {_why(row)} @ {_place(config, row)}")
            unready = [x for x in runtime.unready() if x.always or production]
            for each in unready:
                report.add("problem" if production else "warning", str(each))
            if servers:  # without them, each NPC would seem to lack tools
                for text in (x for x in advice if x not in map(str, problems)):
                    report.add("warning", text)
                _reach(report, runtime)
            ready = [row for row in runtime.servers() if row.state == "ready"]
            report.count(
                npcs=len(config.npcs),
                tools=len(runtime.host.snapshot.listings),
                ready=len(ready),
                servers=len(config.mcp.servers),
            )
            await _known_to(report, config, path)
            if model:
                await _ask_models(report, config, runtime.host)
            return report.end()

    def on_error(error: GlyphoxaError) -> int:
        said = error.problems if isinstance(error, ConfigError) else (str(error),)
        for problem in said:
            report.add("problem", problem)
        return report.end()

    def on_warning(text: str) -> None:
        report.add("warning", text)

    return run(
        main,
        path,
        Model(),
        on_error=on_error,
        on_warning=on_warning,
        starts=servers,
    )


@attrs.define(eq=False)
class _Report:
    """Problems, warnings and figures: printed as they come, or collected.

    Args:
      console: where they are printed; None prints one object of JSON at the end.
    """

    path: Path
    console: Console | None
    _found: dict[str, Any] = attrs.field(factory=dict, init=False)
    _problems: list[str] = attrs.field(factory=list, init=False)
    _warnings: list[str] = attrs.field(factory=list, init=False)
    _npcs: list[dict[str, Any]] = attrs.field(factory=list, init=False)
    _models: list[dict[str, Any]] = attrs.field(factory=list, init=False)

    def add(self, kind: str, text: str) -> None:
        """Add a ``problem`` or a ``warning``."""
        is_problem = kind == "problem"
        (self._problems if is_problem else self._warnings).append(text)
        self._say(f"{kind}: {text}", FAILED if is_problem else HELD)

    def reach(self, npc: str, judged: Sequence[Usability]) -> None:
        """Add how many of its tools an NPC can use."""
        usable = sum(x.usable for x in judged)
        self._npcs.append({"npc": npc, "granted": len(judged), "usable": usable})
        self._say(f"{npc}: {reach_in_words(judged)}")

    def count(self, *, npcs: int, tools: int, ready: int, servers: int) -> None:
        """Add the figures of the configuration."""
        self._found |= {"npc_count": npcs, "tool_count": tools}
        self._found |= {"servers_ready": ready, "servers": servers}
        self._say(
            f"{self.path}: {many(npcs, 'NPC')}, {many(tools, 'tool')},"
            f" {ready} of {servers} servers ready"
        )

    def model(self, report: ModelReport) -> None:
        """Add how a model played its turn."""
        for note in report.notes:
            self.add("warning", note)
        for refusal in report.refused:
            self.add("problem", refusal)
        if report.error:
            self.add("problem", f"{report.label}: {report.error}")
        else:
            self._say(_played(report))
        self._models.append(
            {
                "model": report.label,
                "npc": report.npc or None,
                "first_ms": ms_or_none(report.first),
                "call_ms": ms_or_none(report.call),
                "answer_ms": ms_or_none(report.answer),
                "total_ms": ms_or_none(report.total),
                "called": report.called,
                "tool": report.tool or None,
                "refused": [*report.refused],
                "input_tokens": report.input_tokens,
                "output_tokens": report.output_tokens,
                "error": report.error or None,
            }
        )

    def no_model(self) -> None:
        """Say that no model had to be asked."""
        self._say("no model to ask: the offline one is always there")

    def end(self) -> int:
        """Print the object if that is wanted; return the exit status."""
        if self.console is None:
            say_json(
                {
                    "config": str(self.path),
                    "ok": not self._problems,
                    "problems": self._problems,
                    "warnings": self._warnings,
                    "npcs": self._npcs,
                    "models": self._models,
                    **self._found,
                }
            )
        return 1 if self._problems else 0

    def _say(self, text: str, style: str = "") -> None:
        if self.console is not None:
            say(self.console, text, style)


def _played(report: ModelReport) -> str:
    """Say how a model played its turn, and what each part of it cost."""
    details = [f"as {report.npc}"] if report.npc else []
    if report.call is not None:
        details.append(f"call after {report.call * 1000:.0f} ms")
    if report.answer is not None:
        details.append(f"round after its result {report.answer * 1000:.0f} ms")
    if report.input_tokens is not None:
        details.append(
            f"{many(report.input_tokens, 'token')} in, {report.output_tokens} out"
        )
    call = f"called the tool {report.tool}" if report.called else "called no tool"
    if not report.shows_tools:
        call = "is shown no tools"
    more = f" ({'; '.join(details)})" if details else ""
    first, total = (report.first or 0.0) * 1000, report.total * 1000
    return (
        f"{report.label}: answers, first word after {first:.0f} ms, all of it after"
        f" {total:.0f} ms, and {call}{more}"
    )


async def _ask_models(report: _Report, config: Config, host: ToolHost) -> None:
    """Add how each model did."""
    asked = await check_models(config, host, within=COLD)
    if not asked:
        report.no_model()
    for each in asked:
        report.model(each)


async def _known_to(report: _Report, config: Config, path: Path) -> None:
    """Add the names in memory that may know something and that no NPC has."""
    place = memory_of(config, path)
    if place == OFF or not exists(place):
        return
    npcs = [x.name for x in config.npcs]
    try:
        async with open_memory(place) as memory:
            for key in await memory.campaigns(""):
                if config.memory.campaign in (None, key.campaign):
                    for text in await misnamed(memory, key, npcs):
                        report.add("warning", f"memory of the campaign {key}: {text}")
    except GlyphoxaError as error:
        report.add("warning", f"memory: {error}")


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


def _absent(rows: Iterable[ServerStatus]) -> list[ServerStatus]:
    return [row for row in rows if row.state not in _THERE]


def _why(row: ServerStatus) -> str:
    return row.last_error or f"it is {row.state}"


def _place(config: Config, row: ServerStatus) -> str:
    below = config.mcp.from_mcp_json.get(row.name)
    return f"{'mcp.servers' if below is None else f'{MCP_JSON}.{below}'}[{row.name}]"


def _missing(config: Config, rows: Iterable[ServerStatus]) -> list[MissingServer]:
    absent = {row.name: row for row in _absent(rows)}
    return [
        MissingServer(
            need.npc,
            need.pattern,
            need.server,
            _why(absent[need.server]),
            need.section,
        )
        for need in needs(config)
        if need.server in absent
    ]


def _reach(report: _Report, runtime: Runtime) -> None:
    """Add how many of its tools each NPC can use, of those that are there."""
    for npc in runtime.npcs:
        report.reach(npc.name, runtime.usability(npc.name))
