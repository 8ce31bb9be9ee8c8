"""``glyphoxa measurements``: show the file of measurements, or forget some of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs

import trio

from glyphoxa_trio.config import Config
from glyphoxa_trio.control.tools_view import ms_or_none
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.host import UnknownTool
from glyphoxa_trio.runtime.assembly import measurements_of, settings_of
from glyphoxa_trio.storage.measurements import MeasurementFile
from glyphoxa_trio.tools.definition import ToolDefinition
from glyphoxa_trio.tools.history import Measured, ToolPlace, recalled
from glyphoxa_trio.tools.naming import exposed_name, matches, nearest
from glyphoxa_trio.tools.window import LatencyWindow
from glyphoxa_trio.units import many, milliseconds

from .common import Model, run
from .console import say, say_json, wide_console
from .grids import HELD, Cell, Column, Grid
from .grids import show as show_grid
from .render import milliseconds_in_words, time_or_dash

T = TypeVar("T")

_EVER: Final = float("inf")
_COLUMNS: Final = (
    Column("environment", spare=3),
    Column("tool"),
    Column("samples", whole=False),
    Column("p50", right=True),
    Column("p99", right=True, spare=1),
    Column("newest", whole=False, spare=2),
)


def show(path: Path, *, as_json: bool) -> int:
    """Print a row for each tool and place."""

    async def main(config: Config) -> int:
        rows = [*_rows(await _with_file(config, _read), config)]
        if as_json:
            say_json({"measurements": [row.as_json() for row in rows]})
        elif not rows:
            say(wide_console(), "nothing is remembered")
        else:
            cells = [row.cells() for row in rows]
            show_grid(wide_console(), Grid(columns=_COLUMNS, rows=cells))
        return 0

    return run(main, path, Model(), starts=False)


def forget(path: Path, names: Sequence[str], *, everything: bool, as_json: bool) -> int:
    """Remove what was measured of the named tools, or of all."""

    async def main(config: Config) -> int:
        if not names and not everything:
            raise GlyphoxaError("name a tool, or forget --all")
        known = await _with_file(config, _read)
        chosen = list(known) if everything else _chosen(known, names, config)
        gone = await _with_file(config, partial(MeasurementFile.forget, places=chosen))
        keys = sorted({place.key for place in chosen})
        if as_json:
            say_json({"forgotten": keys, "samples": gone})
            return 0
        console = wide_console()
        say(
            console,
            f"forgotten: {many(gone, 'sample')} of {', '.join(keys) or 'no tool'}",
        )
        say(
            console,
            "a runtime that runs keeps what it knows until it is started again",
            "dim",
        )
        return 0

    return run(main, path, Model(), starts=False)


async def _with_file(config: Config, use: Callable[[MeasurementFile], T]) -> T:
    """Open the file of measurements and return ``use(file)``, in a thread.

    Raises:
      GlyphoxaError: if measurements are not kept, there are none yet, or the file is
        unusable.
    """
    path = measurements_of(config)
    if path is None:
        raise GlyphoxaError(
            "measurements are not kept @ calibration.remember, or mcp.remember"
        )

    def in_thread() -> T:
        if not path.exists():
            raise GlyphoxaError(f"nothing has been measured yet: there is no {path}")
        file = MeasurementFile.open(path)
        try:
            return use(file)
        finally:
            file.close()

    return await trio.to_thread.run_sync(in_thread, abandon_on_cancel=True)


def _read(file: MeasurementFile) -> dict[ToolPlace, list[Measured]]:
    found: dict[ToolPlace, list[Measured]] = {}
    for one in file.load(-_EVER, _EVER):
        found.setdefault(one.place, []).append(one)
    return dict(sorted(found.items()))


@attrs.frozen(kw_only=True)
class _Row:
    """The measurements of a tool in a place. Times in seconds."""

    place: ToolPlace
    kinds: Mapping[str, int]
    p50: float | None
    p99: float | None
    age: float
    expired: bool

    def cells(self) -> list[Cell]:
        samples = ", ".join(f"{number} {kind}" for kind, number in self.kinds.items())
        newest = f"{milliseconds_in_words(round(self.age) * 1000)} ago"
        old: Cell = (f"{newest}, too old to count", HELD) if self.expired else newest
        times = [time_or_dash(self.p50), time_or_dash(self.p99)]
        return [self.place.environment, self.place.key, samples, *times, old]

    def as_json(self) -> dict[str, Any]:
        return {
            "environment": self.place.environment,
            "tool": self.place.key,
            "samples": dict(self.kinds),
            "p50_ms": ms_or_none(self.p50),
            "p99_ms": ms_or_none(self.p99),
            "age_ms": milliseconds(self.age),
            "expired": self.expired,
        }


def _rows(
    found: Mapping[ToolPlace, Sequence[Measured]], config: Config
) -> Iterator[_Row]:
    today, expiry = time.time(), settings_of(config).expiry
    for place, measured in found.items():
        window = LatencyWindow(expiry=_EVER)
        for one in measured:
            sample = recalled(one, now=0.0, today=today, expiry=_EVER)
            if sample is not None:
                window.record(sample)
        age = max(0.0, today - max(one.when for one in measured))
        yield _Row(
            place=place,
            kinds=Counter(str(one.kind) for one in measured),
            p50=window.percentile(50, 0.0),
            p99=window.percentile(99, 0.0),
            age=age,
            expired=age >= expiry,
        )


def _chosen(
    known: Iterable[ToolPlace], names: Sequence[str], config: Config
) -> list[ToolPlace]:
    """The places of the tools that the names mean.

    Raises:
      UnknownTool: for a name that means none, with the nearest ones.
    """
    tools = {place: _definition(place, config) for place in known}
    exposed = {
        place: exposed_name(definition, config.mcp.naming)
        for place, definition in tools.items()
    }
    chosen: dict[ToolPlace, None] = {}
    for name in names:
        meant = [x for x in tools if matches(name, tools[x], exposed[x])]
        if not meant:
            groups = {x.group for x in tools.values()}
            every = {x.key for x in tools} | set(exposed.values()) | groups
            near = nearest(name, every)
            hint = f", did you mean {' or '.join(near)}?" if near else ""
            raise UnknownTool(f"nothing was measured of {name!r}{hint}")
        chosen |= dict.fromkeys(meant)
    return list(chosen)


def _definition(place: ToolPlace, config: Config) -> ToolDefinition:
    """A definition that is enough to find the tool by its names, without its server."""
    group, _, name = place.key.partition(".")
    override = config.tools.get(place.key) or config.tools.get(name)
    if place.origin:
        servers = {spec.name: spec for spec in config.mcp.servers}
        override = servers[group].tools.get(name) if group in servers else None
    return ToolDefinition(
        name=name,
        group=group,
        external=bool(place.origin),
        expose_as=None if override is None else override.expose_as,
    )
