"""``glyphoxa sessions list``, ``show``, ``export`` and ``end``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

import attrs

from glyphoxa_trio.config import Config
from glyphoxa_trio.control.fact_review import known_to
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.entries import Evening, SessionRow
from glyphoxa_trio.memory.errors import HeldElsewhere
from glyphoxa_trio.memory.importing.archiving import ALL, archived
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey
from glyphoxa_trio.units import many

from .common import keep_existing
from .console import say, say_json, wide_console
from .grids import GOOD, Cell, Column, Grid
from .grids import show as show_grid
from .memory_export import write_json
from .memory_show import day
from .memory_store import session_of, with_memory

_SESSIONS: Final = (
    Column("session"),
    Column("tenant", spare=3),
    Column("campaign", spare=1),
    Column("lines", right=True),
    Column("last", spare=2),
    Column("state", whole=False),
)
_EVENINGS: Final = (
    Column("evening"),
    Column("began"),
    Column("ended", spare=1),
    Column("known to", whole=False, spare=2),
    Column("summary", whole=False),
)
_LINES: Final = (
    Column("when", spare=1),
    Column("who"),
    Column("to", spare=2),
    Column("heard by", whole=False, spare=3),
    Column("text", whole=False),
)


def state_of(row: SessionRow) -> str:
    """Return in words whether a session goes on, and where."""
    if row.holder:
        return f"open in {row.holder}"
    return "ended" if row.ended else "set aside"


def _as_json(row: SessionRow) -> dict[str, Any]:
    return {**attrs.asdict(row), "state": state_of(row)}


def _told(field: attrs.Attribute[Any], _: Any) -> bool:
    return field.name not in ("reach", "summary")


def list_sessions(where: str, *, tenant: str | None, as_json: bool) -> int:
    """Print all sessions, the one used last first."""

    async def main(memory: Memory, _: Config) -> int:
        rows = await memory.journal.sessions(tenant)
        if as_json:
            say_json({"sessions": [_as_json(row) for row in rows]})
        elif not rows:
            say(wide_console(), "there is no session yet")
        else:
            cells = [_cells(row) for row in rows]
            show_grid(wide_console(), Grid(columns=_SESSIONS, rows=cells))
        return 0

    return with_memory(where, main)


def _cells(row: SessionRow) -> list[Cell]:
    state: Cell = (state_of(row), GOOD) if row.holder else state_of(row)
    last = day(row.last_at)
    return [row.session, row.tenant, row.campaign, str(row.lines), last, state]


def show(
    where: str, session: str, *, tenant: str | None, limit: int, as_json: bool
) -> int:
    """Print a session's evenings, with the summary of each audience, and its last
    lines."""

    async def main(memory: Memory, _: Config) -> int:
        row = await session_of(memory, session, tenant)
        found = await archived(memory, _campaign(row), session=row.session)
        evenings = found.evenings[::-1]
        lines = await memory.transcripts.recent(
            _campaign(row), GAME_MASTER, session=row.session, limit=limit
        )
        if as_json:
            said = _as_json(row)
            said["evenings"] = [
                {
                    **attrs.asdict(x.evening, filter=_told),
                    "summaries": [
                        {"known_to": known_to(reach), "text": text}
                        for reach, text in x.summaries
                    ],
                }
                for x in evenings
            ]
            said["last_lines"] = [
                {
                    "n": x.n,
                    "at": x.at,
                    "speaker": x.line.speaker,
                    "to": x.line.to,
                    "heard_by": known_to(x.line.reach),
                    "evening": x.line.evening,
                    "text": x.line.text,
                }
                for x in lines
            ]
            say_json(said)
            return 0
        console = wide_console()
        state, number = state_of(row), row.lines
        say(console, f"session {row.session} of the campaign {row.campaign}: {state}")
        if evenings:
            rows = [
                [
                    one.id,
                    day(one.began),
                    day(one.ended or 0) or "goes on",
                    "" if reach is None else known_to(reach),
                    text,
                ]
                for x in evenings
                for one in (x.evening,)
                for reach, text in x.summaries or ((None, ""),)
            ]
            show_grid(console, Grid(columns=_EVENINGS, rows=rows))
        if lines:
            title = f"the last {len(lines)} of {many(number, 'line')}"
            told = [
                [
                    day(x.at),
                    x.line.speaker,
                    x.line.to,
                    known_to(x.line.reach),
                    x.line.text,
                ]
                for x in lines
            ]
            show_grid(console, Grid(columns=_LINES, rows=told, title=title))
        return 0

    return with_memory(where, main)


def export(
    where: str, session: str, *, tenant: str | None, output: Path | None, force: bool
) -> int:
    """Write a session's evenings and lines as JSON, which `memory import` takes."""

    async def main(memory: Memory, _: Config) -> int:
        keep_existing(output, force)
        row = await session_of(memory, session, tenant)
        found = await archived(memory, _campaign(row), session=row.session)
        await write_json(found.as_json(), output)
        if output is not None:
            evenings = many(len(found.evenings), "evening")
            told = f"{evenings}, {many(len(found.lines), 'line')}"
            say(wide_console(), f"exported the session {session} to {output}: {told}")
        return 0

    return with_memory(where, main)


def end(where: str, session: str, *, tenant: str | None, as_json: bool) -> int:
    """End a session that no process has open: its lines stay, the rest is removed."""

    async def main(memory: Memory, _: Config) -> int:
        row = await session_of(memory, session, tenant)
        if not row.ended:
            await _end(memory, row)
        if as_json:
            say_json({"session": row.session, "ended": True, "before": row.ended})
        elif row.ended:
            say(wide_console(), f"the session {session} had ended before")
        else:
            say(
                wide_console(),
                f"the session {session} has ended;"
                f" kept of it: {many(row.lines, 'line')}",
            )
        return 0

    return with_memory(where, main)


async def _end(memory: Memory, row: SessionRow) -> None:
    try:
        claim = await memory.journal.claim(row.tenant, row.session, _campaign(row))
    except HeldElsewhere as error:
        raise GlyphoxaError(
            f"{error}: end it there, or end that program, and try again"
        ) from None
    for evening in await _evenings(memory, row):
        if evening.ended is None:
            await memory.transcripts.end_evening(
                claim.campaign, evening.id, time.time()
            )
    await memory.journal.release(claim, ended=True)


async def _evenings(memory: Memory, row: SessionRow) -> list[Evening]:
    every = await memory.transcripts.evenings(_campaign(row), GAME_MASTER, limit=ALL)
    return [x for x in every if x.session == row.session]


def _campaign(row: SessionRow) -> CampaignKey:
    return CampaignKey(row.campaign, row.tenant)
