"""``glyphoxa simulate``: a conversation many times over, on virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
from rich.console import Console

from glyphoxa_trio.config import Config, load_as
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.extras import require
from glyphoxa_trio.simulation.pictures import PICTURES
from glyphoxa_trio.simulation.report import as_json
from glyphoxa_trio.simulation.script import Rehearsal
from glyphoxa_trio.simulation.seen import Simulated, Spread
from glyphoxa_trio.simulation.simulate import simulate
from glyphoxa_trio.simulation.survey import Survey, measured, survey
from glyphoxa_trio.tools.estimate import TierBy
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.units import many, milliseconds

from .common import complain, keep_existing, run_orderly, warn
from .consent import load
from .console import say, say_json, wide_console
from .grids import HELD, Column, Grid
from .grids import show as show_grid
from .progress import counting


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
    force: bool,
) -> int:
    """Survey in real time, then simulate on virtual time; 2 for a bad script."""
    try:
        if pictures is not None:
            require("drawing pictures", "pictures")  # before anything is simulated
            for name in PICTURES:
                keep_existing(pictures / name, force)
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
        say(errors, text, HELD)
    for name, why in surveyed.absent.items():
        remembered = name in surveyed.offers
        rest = "; its last known tools count" if remembered else "; it has no tools"
        say(errors, f"{name}: {why}{rest}", HELD)
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
        say(errors, text, HELD)
    console, configured = wide_console(), config.calibration.tier_by
    if in_json:
        say_json(as_json(runs, configured=configured))
    else:
        show(runs, console, configured=configured)
    return 0


def show(runs: Sequence[Simulated], console: Console, *, configured: TierBy) -> None:
    """Print two tables: turns, with a column for each ``tier_by``; and tools."""
    show_grid(console, _turns(runs, configured))
    show_grid(console, _tools(runs))


def _turns(runs: Sequence[Simulated], configured: TierBy) -> Grid:
    columns = [Column("tier_by", whole=False)]
    for run in runs:
        here = " (configured)" if run.tier_by is configured else ""
        columns.append(Column(f"{run.tier_by}{here}", whole=False, right=True))
    rows: list[list[str]] = []

    def row(name: str, *cells: str) -> None:
        rows.append([name, *cells])

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
    return Grid(title=many(len(runs[0].turns), "turn"), columns=columns, rows=rows)


def _tools(runs: Sequence[Simulated]) -> Grid:
    columns = [
        Column("tool"),
        Column("latency is", whole=False, spare=2),
        Column("p50 ms", right=True),
        Column("p95 ms", right=True, spare=1),
    ]
    for run in runs:
        columns.append(Column(f"tier by {run.tier_by}", whole=False))
        columns.append(Column("calls", right=True))
    rows: list[list[str]] = []
    for tools in zip(*(run.tools for run in runs), strict=True):
        cells = [
            cell for one in tools for cell in (str(one.estimate.tier), str(one.calls))
        ]
        first = tools[0]
        times = _ms(first.p50), _ms(first.p95)
        rows.append([first.key, str(first.known), *times, *cells])
    return Grid(title="tools", columns=columns, rows=rows)


def _ms(seconds: float) -> str:
    return str(milliseconds(seconds))


def _share(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
