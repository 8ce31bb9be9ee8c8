"""``glyphoxa tools`` and the table that ``calibrate`` ends with."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rich.console import Console

from glyphoxa_trio.config import Config
from glyphoxa_trio.config.memory import OFF
from glyphoxa_trio.control.tools_view import (
    ToolRow,
    ToolsView,
    absences,
    advice_on_tiers,
    health,
    view_of_tools,
)
from glyphoxa_trio.runtime import Runtime, find_npc, open_runtime
from glyphoxa_trio.tools.tier import Tier

from .common import WAIT, Model, run, without_calibration
from .console import say, say_json, wide_console
from .grids import FAILED, GOOD, HELD, Cell, Column, Grid, show
from .measuring import measure_unnamed
from .render import COLUMNS, tool_row

_COLUMNS: Final = (
    Column("shown"),
    *(
        Column(
            name,
            whole=name != "health",
            right=name in ("declared", "p50", "p99"),
            spare={"badge": 5, "p99": 4, "declared": 3, "exposed as": 2, "p50": 1}.get(
                name, 0
            ),
        )
        for name in COLUMNS
    ),
)


def tools(
    path: Path, *, tier: Tier | None, npc: str | None, calibrate: bool, as_json: bool
) -> int:
    """Print the table of tools, as a turn of ``tier`` or ``npc`` would see them."""

    async def main(config: Config) -> int:
        if npc is not None:
            find_npc(config, npc)  # before any server is waited for
        async with open_runtime(
            without_calibration(config), wait_for_servers=WAIT, memory=OFF
        ) as runtime:
            await runtime.wait_ready(within=WAIT)
            if calibrate:
                await measure_unnamed(runtime, wide_console(stderr=True))
            view = await view_of_tools(runtime, tier=tier, npc=npc)
            if as_json:
                say_json({**view.as_json(), "warnings": absences(runtime)})
            else:
                show_view(view, wide_console())
                await show_advice(runtime, wide_console(), always=False)
                show_absences(runtime, wide_console(stderr=True))
        return 0

    return run(main, path, Model())


def show_view(view: ToolsView, console: Console) -> None:
    """Print the table, and why each hidden tool is hidden."""
    if view.note:
        say(console, view.note, "dim")
    whose = f" for {view.npc}" if view.npc else ""
    title = f"Tools in a {view.tier} turn{whose}"
    rows = [_cells(tool) for tool in view.tools]
    show(console, Grid(title=title, columns=_COLUMNS, rows=rows))
    if view.deferred:
        say(console, view.deferred, "dim")
    for tool in view.tools:
        if tool.hidden:
            say(console, f"hidden: {tool.listing.key}: {tool.hidden}", HELD)


def _cells(row: ToolRow) -> list[Cell]:
    """Return the cells of its row, in the order of the columns."""
    state = health(row.listing, row.estimate)
    colour = GOOD if state == "good" else HELD
    if row.listing.availability == "failed":
        colour = FAILED
    shown = (row.shown, HELD if row.hidden else GOOD)
    *others, _ = tool_row(row.listing, row.estimate)
    return [shown, *others, (state, colour)]


async def show_tools(
    runtime: Runtime, console: Console, *, tier: Tier | None, npc: str | None
) -> None:
    """Print the table. Raises `UnknownNpc` for an NPC that is not there."""
    show_view(await view_of_tools(runtime, tier=tier, npc=npc), console)


async def show_advice(runtime: Runtime, console: Console, *, always: bool) -> None:
    """Print what the measurements say about ``tier_by``, and of which tools.

    Unless ``always``, only if another one would be better.
    """
    best, lines = await advice_on_tiers(runtime)
    if best is runtime.config.calibration.tier_by and not always:
        return
    for line in lines:
        say(console, line, "dim")


def show_absences(runtime: Runtime, console: Console) -> None:
    """Print the warnings about absent servers and grants that mean nothing."""
    for text in absences(runtime):
        say(console, f"warning: {text}", HELD)
