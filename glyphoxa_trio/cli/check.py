"""``glyphoxa check``: every problem of a configuration at once."""

from __future__ import annotations

from pathlib import Path

import attrs
from rich.console import Console

import trio

from glyphoxa_trio.config import Config, ConfigError, load_config
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.runtime import open_runtime

from .common import without_calibration


def check(path: Path, *, servers: bool) -> int:
    """Print problems and warnings; 1 if there is a problem, else 0."""
    console = Console(highlight=False, soft_wrap=True)

    async def main(config: Config) -> int:
        async with open_runtime(
            without_calibration(config), wait_for_servers=30.0 if servers else 0.0
        ) as runtime:
            problems = runtime.problems()
            for warning in runtime.warnings:
                _line(console, "warning", f"{warning.server}: {warning.text}")
            for problem in problems:
                _line(console, "problem" if problem.error else "warning", str(problem))
            ready = [row for row in runtime.servers() if row.state == "ready"]
            console.print(
                f"{path}: {len(config.npcs)} NPCs,"
                f" {len(runtime.host.snapshot.listings)} tools,"
                f" {len(ready)} of {len(config.mcp.servers)} servers ready"
            )
            return 1 if any(problem.error for problem in problems) else 0

    try:
        config = load_config(path)
        if not servers:
            config = attrs.evolve(config, mcp=attrs.evolve(config.mcp, enabled=False))
        return trio.run(main, config)
    except ConfigError as error:
        for line in error.problems:
            _line(console, "problem", line)
        return 1
    except GlyphoxaError as error:
        _line(console, "problem", str(error))
        return 1


def _line(console: Console, kind: str, text: str) -> None:
    style = "red" if kind == "problem" else "yellow"
    console.print(f"{kind}: {text}", style=style, markup=False)
