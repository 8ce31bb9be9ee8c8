"""``glyphoxa calibrate``: measure, with a progress bar, then the table."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

import trio

from glyphoxa_trio.config import Config
from glyphoxa_trio.errors import DeadlineExceeded
from glyphoxa_trio.host import Probed
from glyphoxa_trio.mcp import ServerState
from glyphoxa_trio.runtime import Runtime, open_runtime

from .common import WAIT, Model, run, without_calibration
from .render import on_screen
from .tools import show_absences, show_advice, show_tools, wide_console

_ENDING: Final = 2.0  # seconds for a server that was lost to have ended
_LOOK: Final = 0.02  # seconds between two looks at whether it has


def calibrate(path: Path, *, everything: bool, within: float) -> int:
    """Probe the tools; 1 if time ran out before all were done."""

    async def main(config: Config) -> int:
        console, errors = wide_console(), wide_console(stderr=True)
        async with open_runtime(
            without_calibration(config), wait_for_servers=WAIT
        ) as runtime:
            await runtime.wait_ready(within=WAIT)
            late = False
            with _bar(errors) as progress:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_follow, runtime, progress)
                    try:
                        probed = await runtime.calibrate(
                            within=within, unsafe=everything
                        )
                    except DeadlineExceeded:
                        probed, late = (), True
                    nursery.cancel_scope.cancel()
            await show_tools(runtime, console, tier=None, npc=None)
            await show_advice(runtime, console, always=True)
            for one in probed:
                if one.note:
                    errors.print(
                        on_screen(
                            f"{one.key}: {one.samples} samples, then: {one.note}"
                        ),
                        style="yellow",
                        markup=False,
                        soft_wrap=True,
                    )
            await _lost_are_explained(runtime)
            show_absences(runtime, errors)
            if late:
                errors.print(f"not done within {within:g} s", style="red")
        return 1 if late else 0

    return run(main, path, Model())


async def _lost_are_explained(runtime: Runtime) -> None:
    """Wait until servers that died of a probe have said why, a moment later."""
    with trio.move_on_after(_ENDING):
        while any(  # noqa: ASYNC110 no event tells of one row
            row.state is ServerState.RESTARTING and row.last_error is None
            for row in runtime.servers()
        ):
            await trio.sleep(_LOOK)


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("measuring"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[tool]}", markup=False),
        console=console,
        transient=True,
    )


async def _follow(runtime: Runtime, progress: Progress) -> None:
    task = progress.add_task("", total=None, tool="")
    with runtime.host.events.subscribe(only=Probed) as events:
        async for event in events:
            if isinstance(event, Probed):  # which mypy does not know
                progress.update(
                    task,
                    completed=event.done,
                    total=event.total,
                    tool=on_screen(event.key),
                )
