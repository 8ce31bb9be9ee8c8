"""``glyphoxa tools`` and the table that ``calibrate`` ends with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from glyphoxa_trio.config import Config
from glyphoxa_trio.runtime import Runtime, find_npc, open_runtime
from glyphoxa_trio.tools.gate import EVERYTHING, Reason, Refusal, refusal
from glyphoxa_trio.tools.recommendation import TOLERATED, recommend
from glyphoxa_trio.tools.search import SEARCH
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.tools.usability import Usability

from .common import WAIT, Model, run, without_calibration
from .console import SafeConsole
from .measuring import measure_unnamed
from .render import COLUMNS, hidden_because, on_screen, tool_row

_NUMBERS: Final = ("declared", "p50", "p99")
_IN_WORDS: Final = "health"
# The columns that are left out on a narrow screen, in this order.
_LEFT_OUT: Final = ("badge", "p99", "declared", "exposed as", "p50")
_WIDEST: Final = 10_000
_UNAPPROVED: Final = Refusal(
    reason=Reason.NEEDS_APPROVAL,
    text="nobody has approved it",
    remedy="look at it and approve it with glyphoxa mcp approve TOOL",
)


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
                await measure_unnamed(runtime, wide_console(stderr=True))
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
        found = find_npc(runtime.config, npc)
        grant, ceiling = runtime.npc(found.name).grant, found.budget_tier
    seen = min(ceiling, Tier.DEEP if tier is None else tier)
    if tier is not None and tier > ceiling:
        _say(console, _beyond(grant.npc, tier, ceiling))
    estimates = await runtime.host.report()
    whose = f" for {grant.npc}" if grant.npc else ""
    rows: list[tuple[str, tuple[str, ...]]] = []
    hidden: list[str] = []
    room = runtime.host.settings.limits.ceiling(seen)
    explained = [
        (listing, refusal(candidate, grant, tier=seen, remaining=room))
        for listing, candidate in runtime.host.candidates()
    ]
    approved = runtime.host.approvals.approved
    waiting = {  # no NPC may use them yet
        one.key
        for one in runtime.unapproved()
        if one.changed or not approved(one.listing.definition, one.listing.exposed)
    }
    judged = {x.tool: x for x in runtime.usability(grant.npc)} if grant.npc else {}
    external = sum(no is None and x.definition.external for x, no in explained)
    threshold = runtime.config.mcp.defer_threshold
    deferred = external > threshold
    for listing, no in explained:
        if no is not None and no.reason is Reason.NOT_GRANTED:
            continue
        if no is None and not grant.npc and listing.key in waiting:
            no = _UNAPPROVED
        row = tool_row(listing, estimates.get(listing.key, listing.estimate))
        shown = "in a line" if deferred and listing.definition.external else "yes"
        rows.append(("no" if no else shown, row))
        if no is not None:
            hidden.append(f"{listing.key}: {_why(no, judged.get(listing.key))}")
    title = f"Tools in a {seen} turn{whose}"
    console.print(_table(title, rows, console), crop=False)
    if deferred:
        _say(
            console,
            f"in a line: these {external} tools of servers are more than"
            f" mcp.defer_threshold ({threshold}), so models are told of each in a"
            f" line, and load what they need with {SEARCH.name}",
        )
    for line in hidden:
        _say(console, f"hidden: {line}")


def _why(no: Refusal, judged: Usability | None) -> str:
    """Why a tool is hidden in this turn, and what changes that."""
    if judged is None:
        return hidden_because(no)
    return f"{no.text}; it {judged.text}" if judged.usable else judged.text


def _table(
    title: str, rows: Sequence[tuple[str, Sequence[str]]], console: Console
) -> Table:
    """The table, with as many columns as the screen has room for. Names are never cut,
    since a cut name cannot be copied."""
    unlimited = console.options.update(width=_WIDEST)
    left_out: list[str] = []
    while True:
        table = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD)
        table.add_column("shown", no_wrap=True)
        for name in (x for x in COLUMNS if x not in left_out):
            justify: JustifyMethod = "right" if name in _NUMBERS else "left"
            table.add_column(name, justify=justify, no_wrap=name != _IN_WORDS)
        for shown, row in rows:
            cells = [
                Text(on_screen(cell))  # text from a server: no markup
                for name, cell in zip(COLUMNS, row, strict=True)
                if name not in left_out
            ]
            table.add_row(shown, *cells, style="dim" if shown == "no" else None)
        needed = console.measure(table, options=unlimited).minimum
        fits = needed <= console.width or not console.is_terminal
        if fits or len(left_out) == len(_LEFT_OUT):
            table.width = needed if needed > console.width else None
            return table
        left_out.append(_LEFT_OUT[len(left_out)])


def _say(console: Console, text: str, style: str = "dim") -> None:
    # Left whole, a terminal would break the line in the middle of a word.
    whole = not console.is_terminal
    console.print(on_screen(text), style=style, markup=False, soft_wrap=whole)


def _beyond(npc: str, tier: Tier, ceiling: Tier) -> str:
    """The answer to a question about turns that the NPC never has."""
    return (
        f"{npc} has no {tier} turns, because its budget_tier is {ceiling}: raise it to"
        f" {tier}, or in play type /elevate {npc} {tier}"
    )


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
        _say(console, line)


def wide_console(*, stderr: bool = False, columns: int = 160) -> Console:
    """A console that does not fold a table that nobody looks at on a screen, up to so
    many ``columns``."""
    console = SafeConsole(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console.widen(columns)
    return console


def show_absences(runtime: Runtime, console: Console) -> None:
    """What is missing, and why: absent servers, grants that mean nothing."""
    texts = [f"{warning.server}: {warning.text}" for warning in runtime.warnings]
    for text in [*texts, *map(str, runtime.problems())]:
        _say(console, f"warning: {text}", "yellow")
