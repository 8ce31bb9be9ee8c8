"""``glyphoxa leaderboard`` and ``telemetry``: how fast tools are here."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from glyphoxa_trio.config import Config, TelemetryConfig
from glyphoxa_trio.config.memory import OFF
from glyphoxa_trio.config.servers import without_secrets
from glyphoxa_trio.observability import Score, Telemetry, places, ranked, scores_of
from glyphoxa_trio.runtime import Runtime, open_runtime
from glyphoxa_trio.units import in_ms, milliseconds

from .common import WAIT, Model, run, without_calibration
from .console import say, say_json, wide_console
from .grids import Column, Grid, show
from .measuring import measure_unnamed
from .tools import show_absences

_COLUMNS: Final = (
    Column("category"),
    Column("rank", right=True),
    Column("tool"),
    Column("p50", right=True),
    Column("p99", right=True, spare=2),
    Column("samples", right=True, spare=3),
    Column("badge", spare=1),
    Column("fits", whole=False, spare=4),
)
_NO_RANK: Final = "-"  # for the only tool of its kind


def leaderboard(path: Path, *, calibrate: bool, as_json: bool) -> int:
    """Print each category, the fastest tool first."""

    async def main(config: Config) -> int:
        async with _measured(config, calibrate=calibrate) as runtime:
            categories = ranked(await scores_of(runtime))
            if as_json:
                for line in _lines(categories):
                    say_json(line)
            else:
                _show(categories, runtime)
            show_absences(runtime, wide_console(stderr=True))
        return 0

    return run(main, path, Model())


def _show(categories: Mapping[str, tuple[Score, ...]], runtime: Runtime) -> None:
    if categories:
        show(wide_console(), _grid(categories))
    known = {score.tool for found in categories.values() for score in found}
    listings = runtime.host.snapshot.listings
    missing = sorted(x.key for x in listings if x.key not in known)
    if missing:
        say(wide_console(), f"not measured: {', '.join(missing)}", "dim")


def preview(path: Path, *, calibrate: bool, as_json: bool) -> int:
    """Print what would be told, to the letter; beside it, or within it, to whom."""

    async def main(config: Config) -> int:
        async with _measured(config, calibrate=calibrate) as runtime:
            telemetry = Telemetry(runtime, runtime.warnings.append)
            report = await telemetry.report()
            if as_json:
                say_json({**_receivers(config.telemetry), "report": json.loads(report)})
                return 0
            sys.stdout.write(report)
            say(wide_console(stderr=True), _whom(config.telemetry), "dim")
        return 0

    return run(main, path, Model())


@asynccontextmanager
async def _measured(config: Config, *, calibrate: bool) -> AsyncGenerator[Runtime]:
    async with open_runtime(
        without_calibration(config), wait_for_servers=WAIT, memory=OFF
    ) as runtime:
        await runtime.wait_ready(within=WAIT)
        if calibrate:
            await measure_unnamed(runtime, wide_console(stderr=True))
        yield runtime


def _whom(config: TelemetryConfig) -> str:
    if not config.enabled:
        return "telemetry is off: nothing is sent (telemetry.enabled)"
    hours = config.interval / 3600
    told = " and ".join(_places(config))
    return f"told every {hours:g} h and at the end, to {told}"


def _receivers(config: TelemetryConfig) -> dict[str, Any]:
    """Return whether and how often it is told, and to whom, for JSON."""
    return {
        "enabled": config.enabled,
        "interval_ms": milliseconds(config.interval),
        "to": _places(config),
    }


def _places(config: TelemetryConfig) -> list[str]:
    return [
        *([] if config.file is None else [str(config.file)]),
        *([] if config.url is None else [without_secrets(config.url)]),
    ]


def _grid(categories: Mapping[str, tuple[Score, ...]]) -> Grid:
    rows = [
        [
            "" if at else category,
            _NO_RANK if rank is None else str(rank),
            score.tool,
            in_ms(score.p50),
            in_ms(score.p99),
            str(score.samples),
            score.badge,
            score.tag,
        ]
        for category, found in categories.items()
        for at, (rank, score) in enumerate(places(found))
    ]
    title = "Tools by median, within each category"
    return Grid(title=title, columns=_COLUMNS, rows=rows)


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
