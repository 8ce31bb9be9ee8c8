"""``glyphoxa simulate``: a conversation many times over, before anybody waits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import attrs
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from glyphoxa_trio.config import Config, load_as
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.extras import require
from glyphoxa_trio.simulation.report import as_json
from glyphoxa_trio.simulation.script import Rehearsal
from glyphoxa_trio.simulation.seen import Simulated, Spread
from glyphoxa_trio.simulation.simulate import simulate
from glyphoxa_trio.simulation.survey import Survey, measured, survey
from glyphoxa_trio.tools.estimate import TierBy
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.units import milliseconds

from .common import complain, run_orderly, warn
from .consent import load
from .progress import counting
from .render import on_screen
from .tools import wide_console


def run_simulation(
    path: Path,
    *,
    script: Path | None,
    turns: int | None,
    tier_by: TierBy | None,
    online: bool,
    seed: int,
    in_json: bool,
    pictures: Path | None,
) -> int:
    """Survey in real time, then simulate on virtual time; 2 for a bad script."""
    try:
        if pictures is not None:
            require("drawing pictures", "pictures")  # before anything is simulated
    except GlyphoxaError as error:
        return complain(error)
    found: list[tuple[Config, Rehearsal, Survey]] = []

    async def prepare() -> int:
        config = await load(path, warn=warn, starts=online)
        rehearsal = Rehearsal() if script is None else load_as(script, Rehearsal)
        if turns is not None:
            rehearsal = attrs.evolve(rehearsal, turns=turns)
        found.append((config, rehearsal, await survey(config, online=online)))
        return 0

    if status := run_orderly(prepare):
        return status
    config, rehearsal, surveyed = found[0]
    errors = wide_console(stderr=True)
    try:
        latencies = measured(config)
    except GlyphoxaError as error:
        latencies = {}
        text = f"nothing counts as measured: {error}"
        errors.print(on_screen(text), style="yellow", markup=False)
    for name, why in surveyed.absent.items():
        remembered = name in surveyed.offers
        rest = "; its last known tools count" if remembered else "; it has no tools"
        errors.print(f"{name}: {on_screen(why)}{rest}", style="yellow", markup=False)
    try:
        every = [tier_by] if tier_by is not None else list(TierBy)
        runs: list[Simulated] = []
        with counting("talking") as tell:

            def count(done: int) -> None:
                of_all = len(runs) * rehearsal.turns + done
                tell(of_all, len(every) * rehearsal.turns)

            for each in every:
                done = simulate(
                    config,
                    rehearsal,
                    offers=surveyed.offers,
                    measured=latencies,
                    tier_by=each,
                    seed=seed,
                    tell=count,
                )
                runs.append(done)
        if pictures is not None:
            from glyphoxa_trio.simulation.pictures import draw

            draw(runs, pictures, limits=config.tiers)
    except GlyphoxaError as error:
        return complain(error)
    for text in runs[0].warnings:
        errors.print(on_screen(text), style="yellow", markup=False)
    console, configured = wide_console(), config.calibration.tier_by
    if in_json:
        print(json.dumps(as_json(runs, configured=configured)))  # noqa: T201
    else:
        show(runs, console, configured=configured)
    return 0


def show(runs: Sequence[Simulated], console: Console, *, configured: TierBy) -> None:
    """Two tables: turns, with a column for each ``tier_by``; and tools."""
    console.print(_turns(runs, configured))
    console.print(_tools(runs))


def _turns(runs: Sequence[Simulated], configured: TierBy) -> Table:
    table = Table(box=SIMPLE_HEAD, title=f"{len(runs[0].turns)} turns")
    table.add_column("tier_by")
    for run in runs:
        here = " (configured)" if run.tier_by is configured else ""
        table.add_column(f"{run.tier_by}{here}", justify="right")

    def row(name: str, *cells: str) -> None:
        table.add_row(name, *cells)

    def spread(name: str, spreads: Sequence[Spread | None]) -> None:
        cells = [
            "-" if one is None else f"{_ms(one.p50)} / {_ms(one.p95)} / {_ms(one.p99)}"
            for one in spreads
        ]
        row(f"{name}, p50 / p95 / p99 in ms", *cells)

    spread("to the first sentence", [run.first_sentence for run in runs])
    spread("whole turn", [run.total for run in runs])
    spread("waiting for tools", [run.tool_time for run in runs])
    for tier in Tier:
        row(f"{tier} turns", *(_share(run.mix()[tier]) for run in runs))
        row(
            "  of them cut at the ceiling",
            *(_share(run.at_ceiling(tier)) for run in runs),
        )
    row("all turns cut at the ceiling", *(_share(run.at_ceiling()) for run in runs))
    row("fell back to a line", *(_share(run.fell_back()) for run in runs))
    for status in sorted({x for run in runs for x in run.calls()}):
        row(f"calls: {status}", *(str(run.calls()[status]) for run in runs))
    return table


def _tools(runs: Sequence[Simulated]) -> Table:
    table = Table(box=SIMPLE_HEAD, title="tools")
    table.add_column("tool")
    table.add_column("latency is")
    for heading in ("p50 ms", "p95 ms"):
        table.add_column(heading, justify="right")
    for run in runs:
        table.add_column(f"tier by {run.tier_by}")
        table.add_column("calls", justify="right")
    for tools in zip(*(run.tools for run in runs), strict=True):
        cells = [
            cell for one in tools for cell in (str(one.estimate.tier), str(one.calls))
        ]
        first = tools[0]
        table.add_row(
            Text(on_screen(first.key)),  # somebody else's words
            *(str(first.known), _ms(first.p50), _ms(first.p95), *cells),
        )
    return table


def _ms(seconds: float) -> str:
    return str(milliseconds(seconds))


def _share(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
