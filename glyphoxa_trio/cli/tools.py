"""``glyphoxa tools`` and the table that ``calibrate`` ends with."""

from __future__ import annotations

from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from glyphoxa_trio.config import Config
from glyphoxa_trio.runtime import Runtime, find_npc, open_runtime
from glyphoxa_trio.tools.gate import EVERYTHING, Reason
from glyphoxa_trio.tools.recommendation import TOLERATED, recommend
from glyphoxa_trio.tools.search import SEARCH
from glyphoxa_trio.tools.tier import Tier

from .common import WAIT, Model, run, without_calibration
from .render import COLUMNS, hidden_because, on_screen, tool_row

_NUMBERS = ("declared", "p50", "p99")


def tools(path: Path, *, tier: Tier | None, npc: str | None, calibrate: bool) -> int:
    """Print the table of tools, as a turn of ``tier`` or ``npc`` would see them."""

    async def main(config: Config) -> int:
        if npc is not None:
            find_npc(config, npc)  # before any server is waited for
        async with open_runtime(
            without_calibration(config), wait_for_servers=WAIT
        ) as runtime:
            await runtime.wait_ready(within=WAIT)
            if calibrate:
                await runtime.calibrate()
            await show_tools(runtime, wide_console(), tier=tier, npc=npc)
            await show_advice(runtime, wide_console(), always=False)
            show_absences(runtime, wide_console(stderr=True))
        return 0

    return run(main, path, Model())


async def show_tools(
    runtime: Runtime, console: Console, *, tier: Tier | None, npc: str | None
) -> None:
    """The table. Raises `UnknownNpc` for an NPC that is not there."""
    grant, ceiling = EVERYTHING, Tier.DEEP
    if npc is not None:
        found = runtime.npc(npc)
        grant, ceiling = found.grant, found.config.budget_tier
    seen = min(ceiling, Tier.DEEP if tier is None else tier)
    estimates = await runtime.host.report()
    whose = f" for {grant.npc}" if grant.npc else ""
    table = Table(
        title=Text(f"Tools in a {seen} turn{whose}"),
        title_justify="left",
        box=SIMPLE_HEAD,
    )
    table.add_column("shown")
    for column in COLUMNS:
        table.add_column(column, justify="right" if column in _NUMBERS else "left")
    hidden: list[str] = []
    explained = runtime.host.explain(seen, grant=grant)
    external = sum(no is None and x.definition.external for x, no in explained)
    threshold = runtime.config.mcp.defer_threshold
    deferred = external > threshold
    for listing, no in explained:
        if no is not None and no.reason is Reason.NOT_GRANTED:
            continue
        row = tool_row(listing, estimates.get(listing.key, listing.estimate))
        cells = (Text(on_screen(cell)) for cell in row)  # somebody else's words
        shown = "in a line" if deferred and listing.definition.external else "yes"
        table.add_row(
            "no" if no else shown, *cells, style=None if no is None else "dim"
        )
        if no is not None:
            hidden.append(on_screen(f"{listing.key}: {hidden_because(no)}"))
    console.print(table)
    if deferred:
        console.print(
            f"in a line: these {external} tools of servers are more than"
            f" mcp.defer_threshold ({threshold}), so models are told of each in a"
            f" line, and load what they need with {SEARCH.name}",
            style="dim",
            markup=False,
            soft_wrap=True,
        )
    for line in hidden:
        console.print(f"hidden: {line}", style="dim", markup=False, soft_wrap=True)


async def show_advice(runtime: Runtime, console: Console, *, always: bool) -> None:
    """What the measurements say about ``tier_by`` (G40), and of which tools.

    Unless ``always``, only if another one would be better.
    """
    found = await runtime.host.evidence()
    configured = runtime.config.calibration.tier_by
    best, said = recommend(found.values(), configured)
    if best is configured and not always:
        return
    lines = [said]
    lines += [
        f"  {key}: {one.text}"
        for key, one in sorted(found.items())
        if one.choices[configured].beyond > TOLERATED
    ]
    for line in lines:
        console.print(on_screen(line), style="dim", markup=False, soft_wrap=True)


def wide_console(*, stderr: bool = False) -> Console:
    """A console that does not fold a table that nobody looks at on a screen."""
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, 160)
    return console


def show_absences(runtime: Runtime, console: Console) -> None:
    """What is missing, and why: absent servers, grants that mean nothing."""
    texts = [f"{warning.server}: {warning.text}" for warning in runtime.warnings]
    for text in [*texts, *map(str, runtime.problems())]:
        console.print(
            on_screen(f"warning: {text}"), style="yellow", markup=False, soft_wrap=True
        )
