"""``glyphoxa check``: every problem of a configuration at once."""

from __future__ import annotations

from pathlib import Path

import attrs
from rich.console import Console

from glyphoxa_trio.config import Config
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.runtime import open_runtime

from .common import WAIT, Model, run, without_calibration
from .render import on_screen


def check(path: Path, *, servers: bool) -> int:
    """Print problems and warnings; 1 if there is a problem, else 0."""
    console = Console(highlight=False, soft_wrap=True)

    async def main(config: Config) -> int:
        if not servers:
            config = attrs.evolve(config, mcp=attrs.evolve(config.mcp, enabled=False))
        async with open_runtime(
            without_calibration(config), wait_for_servers=0.0
        ) as runtime:
            await runtime.wait_ready(within=WAIT)
            problems = runtime.problems()
            for warning in runtime.warnings:
                _line(console, "warning", f"{warning.server}: {warning.text}")
            for problem in problems:
                _line(console, "problem" if problem.error else "warning", str(problem))
            ready = [row for row in runtime.servers() if row.state == "ready"]
            console.print(
                f"{path}: {len(config.npcs)} NPCs,"
                f" {len(runtime.host.snapshot.listings)} tools,"
                f" {len(ready)} of {len(config.mcp.servers)} servers ready",
                markup=False,
            )
            return 1 if any(problem.error for problem in problems) else 0

    def on_error(error: GlyphoxaError) -> int:
        for line in str(error).splitlines():
            _line(console, "problem", line)
        return 1

    def on_warning(text: str) -> None:
        _line(console, "warning", text)

    return run(main, path, Model(), on_error=on_error, on_warning=on_warning)


def _line(console: Console, kind: str, text: str) -> None:
    style = "red" if kind == "problem" else "yellow"
    console.print(on_screen(f"{kind}: {text}"), style=style, markup=False)
