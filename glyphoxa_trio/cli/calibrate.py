"""``glyphoxa calibrate``: measure, with a progress bar, then the table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

import trio

from glyphoxa_trio.config import Config
from glyphoxa_trio.config.memory import OFF
from glyphoxa_trio.control.tools_view import absences, advice_on_tiers, view_of_tools
from glyphoxa_trio.errors import DeadlineExceeded
from glyphoxa_trio.host import CatalogueEntry, Probed
from glyphoxa_trio.mcp import ServerState
from glyphoxa_trio.runtime import Runtime, open_runtime
from glyphoxa_trio.units import many

from .common import WAIT, Model, run, without_calibration
from .console import say, say_json, wide_console
from .grids import FAILED, HELD
from .measuring import announce, keys_of, unnamed
from .render import on_screen
from .tools import show_absences, show_advice, show_tools

_ENDING: Final = 2.0  # seconds for a server that was lost to have ended
_LOOK: Final = 0.02  # seconds between two looks at whether it has


def calibrate(
    path: Path,
    *,
    names: Sequence[str] = (),
    everything: bool,
    yes: bool,
    within: float,
    as_json: bool,
) -> int:
    """Probe the tools; 1 if time ran out before all were done, or it was declined.

    Args:
      names: the tools to probe, whatever they do. If there are none: those that only
        read, on this machine, and those with configured arguments to probe with.
      everything: probe all tools, after a question.
      yes: do not ask that question.
    """

    async def main(config: Config) -> int:
        errors = wide_console(stderr=True)
        async with open_runtime(
            without_calibration(config),
            wait_for_servers=WAIT,
            memory=OFF,
            collector="settle",
        ) as runtime:
            await runtime.wait_ready(within=WAIT)
            chosen = _chosen(runtime, names, everything=everything)
            announce(runtime, chosen, errors)
            if everything and not yes and not await _confirmed(errors):
                return 1
            shown = [x for x in chosen if _is_as_shown(x, runtime)]
            late = False
            with _bar(errors) as progress:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_follow, runtime, progress)
                    try:
                        probed = await runtime.host.calibrate(
                            within=within,
                            keys=keys_of(shown),
                            harmless_only=not (names or everything),
                        )
                    except DeadlineExceeded:
                        probed, late = (), True
                    nursery.cancel_scope.cancel()
            changed = [x.key for x in chosen if x not in shown]
            if as_json:
                await _lost_are_explained(runtime)
                view = await view_of_tools(runtime, tier=None, npc=None)
                tier_by, lines = await advice_on_tiers(runtime)
                say_json(
                    {
                        "complete": not late,
                        "measured": [
                            {
                                "tool": x.key,
                                "samples": x.samples,
                                "note": x.note or None,
                            }
                            for x in probed
                        ],
                        "not_called": changed,
                        **view.as_json(),
                        "advice": {"tier_by": str(tier_by), "lines": lines},
                        "warnings": absences(runtime),
                    }
                )
            else:
                await show_tools(runtime, wide_console(), tier=None, npc=None)
                await show_advice(runtime, wide_console(), always=True)
                for one in probed:
                    if one.note:
                        taken = many(one.samples, "sample")
                        text = f"{one.key}: {taken}, then: {one.note}"
                        say(errors, text, HELD)
                for key in changed:
                    say(errors, f"{key}: not called: it changed meanwhile", HELD)
                await _lost_are_explained(runtime)
                show_absences(runtime, errors)
            if late:
                say(errors, f"not done within {within:g} s", FAILED)
        return 1 if late else 0

    return run(main, path, Model())


def _chosen(
    runtime: Runtime, names: Sequence[str], *, everything: bool
) -> list[CatalogueEntry]:
    """The tools to probe. Raises UnknownTool, with the nearest names."""
    snapshot = runtime.host.snapshot
    if names:
        return [snapshot.find(name) for name in dict.fromkeys(names)]
    return list(snapshot.listings) if everything else unnamed(runtime)


def _is_as_shown(listing: CatalogueEntry, runtime: Runtime) -> bool:
    """Compare the tool with what was announced: it may have changed while we asked."""
    now = runtime.host.snapshot.by_key.get(listing.key)
    return now is not None and now.definition == listing.definition


async def _confirmed(errors: Console) -> bool:
    """Ask in the terminal. Without one, say what to do, and take it as a no."""
    if not sys.stdin.isatty():
        errors.print("Nothing was called: add --yes to call all of these.", style="red")
        return False
    question = "Call all of these, with made-up arguments? [y/N] "
    errors.print(question, end="", markup=False)  # as markup [y/N] would be a style
    answer = await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    return answer.strip().casefold() in ("y", "yes")


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
