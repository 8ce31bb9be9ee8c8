"""``glyphoxa leaderboard`` and ``telemetry``: how fast tools are here."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from glyphoxa_trio.config import Config, TelemetryConfig
from glyphoxa_trio.config.servers import without_secrets
from glyphoxa_trio.observability import Score, Telemetry, places, ranked, scores_of
from glyphoxa_trio.runtime import Runtime, open_runtime
from glyphoxa_trio.units import in_ms

from .common import WAIT, Model, run, without_calibration
from .measuring import measure_unnamed
from .render import on_screen
from .tools import show_absences, wide_console

_COLUMNS = ("category", "rank", "tool", "p50", "p99", "samples", "badge", "fits")
_NO_RANK = "-"  # for the only tool of its kind
_NUMBERS = ("rank", "p50", "p99", "samples")


def leaderboard(path: Path, *, calibrate: bool, as_json: bool) -> int:
    """Print each category, the fastest tool first."""

    async def main(config: Config) -> int:
        async with _measured(config, calibrate=calibrate) as runtime:
            categories = ranked(await scores_of(runtime))
            if as_json:
                for line in _lines(categories):
                    print(json.dumps(line))  # noqa: T201 a command speaks
            else:
                _show(categories, runtime)
            show_absences(runtime, wide_console(stderr=True))
        return 0

    return run(main, path, Model())


def _show(categories: Mapping[str, tuple[Score, ...]], runtime: Runtime) -> None:
    if categories:
        wide_console().print(_table(categories))
    known = {score.tool for found in categories.values() for score in found}
    listings = runtime.host.snapshot.listings
    missing = sorted(x.key for x in listings if x.key not in known)
    if missing:
        _say(wide_console(), f"not measured: {', '.join(missing)}")


def preview(path: Path, *, calibrate: bool) -> int:
    """Print what would be told, to the letter; beside it, to whom."""

    async def main(config: Config) -> int:
        async with _measured(config, calibrate=calibrate) as runtime:
            telemetry = Telemetry(runtime, runtime.warnings.append)
            print(await telemetry.report(), end="")  # noqa: T201 a command speaks
            _say(wide_console(stderr=True), _whom(config.telemetry))
        return 0

    return run(main, path, Model())


@asynccontextmanager
async def _measured(config: Config, *, calibrate: bool) -> AsyncGenerator[Runtime]:
    async with open_runtime(
        without_calibration(config), wait_for_servers=WAIT
    ) as runtime:
        await runtime.wait_ready(within=WAIT)
        if calibrate:
            await measure_unnamed(runtime, wide_console(stderr=True))
        yield runtime


def _whom(config: TelemetryConfig) -> str:
    places = [
        *([] if config.file is None else [str(config.file)]),
        *([] if config.url is None else [without_secrets(config.url)]),
    ]
    if not config.enabled:
        return "telemetry is off: nobody is told (telemetry.enabled)"
    hours = config.interval / 3600
    return f"told every {hours:g} h and at the end, to {' and '.join(places)}"


def _table(categories: Mapping[str, tuple[Score, ...]]) -> Table:
    table = Table(
        title=Text("Tools by median, within each category"),
        title_justify="left",
        box=SIMPLE_HEAD,
    )
    for column in _COLUMNS:
        table.add_column(column, justify="right" if column in _NUMBERS else "left")
    for category, found in categories.items():
        for at, (rank, score) in enumerate(places(found)):
            cells = (
                "" if at else category,
                _NO_RANK if rank is None else str(rank),
                score.tool,
                in_ms(score.p50),
                in_ms(score.p99),
                str(score.samples),
                score.badge,
                score.tag,
            )
            # Names are somebody else's words.
            table.add_row(*(Text(on_screen(cell)) for cell in cells))
    return table


def _lines(categories: Mapping[str, tuple[Score, ...]]) -> list[dict[str, Any]]:
    return [
        {
            "category": category,
            "rank": rank,
            "of": len(found),
            "tool": score.tool,
            "transport": score.transport,
            "p50_ms": round(score.p50 * 1000, 1),
            "p99_ms": round(score.p99 * 1000, 1),
            "samples": score.samples,
            "badge": score.badge,
            "tag": score.tag,
        }
        for category, found in categories.items()
        for rank, score in places(found)
    ]


def _say(console: Console, text: str) -> None:
    console.print(on_screen(text), style="dim", markup=False, soft_wrap=True)
