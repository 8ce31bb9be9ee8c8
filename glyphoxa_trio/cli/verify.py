"""``glyphoxa verify``: is a configuration as good as its word?"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import attrs
from rich.console import Console

import trio

from glyphoxa_trio.config import Config, load_as
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.extras import require
from glyphoxa_trio.runtime.assembly import measurements_of
from glyphoxa_trio.simulation.plans import record
from glyphoxa_trio.simulation.script import Rehearsal
from glyphoxa_trio.simulation.survey import survey
from glyphoxa_trio.simulation.verify.looking import verify as look_at
from glyphoxa_trio.simulation.verify.report import as_json
from glyphoxa_trio.simulation.verify.verdict import (
    NOTHING,
    Finding,
    NpcReach,
    Severity,
    Verdict,
    VerifyInputs,
)
from glyphoxa_trio.tools.history import Measured
from glyphoxa_trio.units import in_ms, many

from .common import complain, keep_existing, run_orderly, warn
from .consent import load
from .console import say, say_json, wide_console
from .grids import FAILED, GOOD, HELD, Cell, Column, Grid
from .grids import show as show_grid
from .progress import counting

_COLUMNS: Final = (
    Column("NPC"),
    Column("turn", right=True),
    Column("tools", whole=False),
    Column("worst turn: tools", whole=False, right=True),
    Column("model", whole=False, right=True, spare=1),
    Column("all", right=True, spare=2),
)
_UNFIT: Final = re.compile(r"[^a-z0-9]+")


def verify(
    path: Path,
    *,
    online: bool,
    script: Path | None,
    approvals: bool,
    evenings: int,
    seconds: float | None,
    seed: int,
    save: Path | None,
    force: bool,
    in_json: bool,
) -> int:
    """Survey in real time, then look on virtual time; 1 if anything is wrong."""
    try:
        require("glyphoxa verify", "verify")  # before a server is started for it
        for kept in sorted(save.glob("verify-*.jsonl")) if save else ():
            keep_existing(kept, force)
    except GlyphoxaError as error:
        return complain(error)
    found: list[tuple[Config, VerifyInputs]] = []

    async def prepare() -> int:
        config = await load(path, warn=warn, starts=online)
        rehearsal = Rehearsal() if script is None else load_as(script, Rehearsal)
        surveyed = await survey(config, online=online)
        measured = await trio.to_thread.run_sync(
            partial(_measured, config), abandon_on_cancel=True
        )
        known = VerifyInputs(
            offers=surveyed.offers,
            absent=surveyed.absent,
            stated={key: one.latency() for key, one in rehearsal.latencies.items()},
            measured=measured,
            approver=approvals,
        )
        found.append((config, known))
        return 0

    if status := run_orderly(prepare):
        return status
    config, known = found[0]
    try:
        with _no_trace(), counting("rehearsing") as tell:
            verdict = look_at(
                config, known, evenings=evenings, seconds=seconds, seed=seed, tell=tell
            )
        written = _write(verdict, save)
    except GlyphoxaError as error:
        return complain(error)
    except OSError as error:
        return complain(GlyphoxaError(f"an example cannot be written: {error}"))
    if in_json:
        say_json(as_json(verdict, written))
    else:
        show(verdict, wide_console(), written)
    return 1 if verdict.errors else 0


@contextmanager
def _no_trace() -> Generator[None]:
    """Hypothesis keeps notes in the current folder, unless it is given another one."""
    from hypothesis.configuration import set_hypothesis_home_dir

    with _temporary_folder() as folder:
        set_hypothesis_home_dir(folder)
        try:
            yield
        finally:
            set_hypothesis_home_dir(None)


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Make a folder that is removed afterwards.

    Raises:
      GlyphoxaError: if that cannot be done.
    """
    try:
        return tempfile.TemporaryDirectory(prefix="glyphoxa-")
    except OSError as error:
        raise GlyphoxaError(
            f"no temporary folder can be made: {error.strerror}: set TMPDIR to one"
            " that can be written"
        ) from None


def _measured(config: Config) -> tuple[Measured, ...]:
    """Return the measurements of earlier runs, their age counted from now. Blocks on
    the disk."""
    path = measurements_of(config)
    if path is None or not path.exists():
        return ()
    from glyphoxa_trio.storage.measurements import MeasurementFile

    now = time.time()
    try:
        file = MeasurementFile.open(path)
        try:
            every = list(file.load(now - config.calibration.expiry, now))
        finally:
            file.close()
    except (GlyphoxaError, OSError) as error:
        warn(f"what was measured is not known: {error}")
        return ()
    return tuple(attrs.evolve(one, when=one.when - now) for one in every)


def _write(verdict: Verdict, save: Path | None) -> dict[int, str]:
    """The examples of the errors, as recordings; where each is, by its number.

    Args:
      save: the folder for them; None is a new one among the temporary files.

    Raises:
      OSError: if one cannot be written.
    """
    written: dict[int, str] = {}
    folder = save
    for number, finding in enumerate(verdict.findings):
        if finding.example is None or finding.severity is not Severity.ERROR:
            continue
        words = f"{finding.what} {finding.npc} {finding.tool}".lower()
        name = "-".join(filter(None, _UNFIT.split(words)))[:80]
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix="glyphoxa-verify-"))
        path = folder / f"verify-{name}.jsonl"
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            record(finding.example, file)
        written[number] = str(path)
    return written


def show(verdict: Verdict, console: Console, written: Mapping[int, str]) -> None:
    """Print which NPCs can reach nothing, a table of what can be reached, and then all
    other findings."""
    for number, finding in enumerate(verdict.findings):
        if finding.what == NOTHING:
            _show(console, finding, written.get(number))
    show_grid(console, _grid(verdict.reaches))
    for reach in verdict.reaches:
        for key, no in reach.hidden.items():
            text = f"{reach.npc}, {reach.tier}: not {key}: {no.text}; {no.remedy}"
            say(console, text, "dim")
    for number, finding in enumerate(verdict.findings):
        if finding.what != NOTHING:
            _show(console, finding, written.get(number))
    whole = "" if verdict.complete else " (the time was up)"
    errors = len(verdict.errors)
    warnings = len(verdict.findings) - errors
    say(
        console,
        f"{many(verdict.evenings, 'evening')} with {many(verdict.turns, 'turn')}"
        f"{whole}: {many(errors, 'error')}, {many(warnings, 'warning')}",
        FAILED if errors else GOOD,
    )


def _show(console: Console, finding: Finding, path: str | None) -> None:
    style = FAILED if finding.severity is Severity.ERROR else HELD
    say(console, f"{finding.severity}: {finding.what}: {finding.text}", style)
    if finding.remedy:
        say(console, f"  remedy: {finding.remedy}", "dim")
    if path is not None:
        say(console, f"  example: glyphoxa replay {path}", "dim")


def _grid(reaches: tuple[NpcReach, ...]) -> Grid:
    rows: list[list[Cell]] = []
    for reach in reaches:
        names = ", ".join(
            " ".join(
                [
                    one.key,
                    *(["(by search)"] if one.searched else []),
                    *([f"({one.status})"] if one.status != "ok" else []),
                ]
            )
            for one in reach.called
        )
        late = round(reach.worst_tools - reach.ceiling, 6) > 0
        rows.append(
            [
                reach.npc,
                str(reach.tier),
                names or ("none", HELD),
                (
                    f"{in_ms(reach.worst_tools)} of {in_ms(reach.ceiling)}",
                    FAILED if late else "",
                ),
                f"{in_ms(reach.worst_model)} of {in_ms(reach.model_limit)}",
                in_ms(reach.worst_total),
            ]
        )
    return Grid(title="What can be reached", columns=_COLUMNS, rows=rows)
