"""``glyphoxa cluster status``, ``sessions``, ``where``, ``drain`` and ``init``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import to_builtins

import trio

from glyphoxa_trio.cluster import ClusterError, RemoteRuntime
from glyphoxa_trio.memory.opening import POSTGRES
from glyphoxa_trio.memory.postgres import prepare_postgres
from glyphoxa_trio.memory.postgres.address import PostgresAddress

from .cluster_runs import remote
from .common import run_orderly
from .console import say, say_json, wide_console
from .grids import HELD, Cell, Column, Grid
from .grids import show as show_grid
from .serving import note

_BEATS: Final = 1.2  # seconds in which every worker beats twice
_WORKERS: Final = (
    Column("worker"),
    Column("where", spare=2),
    Column("sessions", right=True),
    Column("turns", right=True),
    Column("room", right=True, spare=1),
    Column("late", right=True, spare=3),
    Column("shed", right=True, spare=4),
    Column("state", whole=False),
)
_SESSIONS: Final = (
    Column("session"),
    Column("tenant", spare=2),
    Column("worker"),
    Column("epoch", right=True, spare=1),
    Column("turns", right=True),
)
_LOOKING: Final = 0.1  # seconds between two looks at a worker that drains
_ENDING: Final = 10.0  # seconds more than its turns have, to write and to release


def show_workers(nats: str, *, deployment: str, as_json: bool) -> int:
    """Print the workers that beat; 1 if there is none."""

    async def main() -> int:
        async with remote(nats, deployment) as runtime:
            await trio.sleep(_BEATS)
            rows = runtime.workers
        if as_json:
            say_json({"workers": [to_builtins(x) for x in rows]})
        elif rows:
            cells = [_cells(to_builtins(x)) for x in rows]
            show_grid(wide_console(), Grid(columns=_WORKERS, rows=cells))
        else:
            _absent(f"there is no worker of the deployment {deployment}")
        return 0 if rows else 1

    return run_orderly(main)


def _cells(row: dict[str, Any]) -> list[Cell]:
    numbers = [str(row.get(x, 0)) for x in ("sessions", "turns", "room")]
    late = f"{row.get('late_p99_ms', 0):.0f} ms"
    shed = f"{row.get('shed', 0):.0%}"
    state: Cell = "serves"
    if row.get("draining"):
        state = ("drains", HELD)
    elif row.get("still"):
        state = ("stood still", HELD)
    return [row["worker"], row.get("where", ""), *numbers, late, shed, state]


def show_sessions(
    nats: str, *, deployment: str, tenant: str | None, as_json: bool
) -> int:
    """Print the sessions that workers have; 1 if a worker has not answered."""

    async def main() -> int:
        async with remote(nats, deployment) as runtime:
            await trio.sleep(_BEATS)
            rows, more, silent = await _listed(runtime, None, tenant)
        if as_json:
            say_json({"sessions": rows, "more": more, "silent": silent})
        elif rows:
            names = ("session", "tenant", "worker", "epoch", "turns")
            cells = [[str(row[x]) for x in names] for row in rows]
            show_grid(wide_console(), Grid(columns=_SESSIONS, rows=cells))
        else:
            _absent("no worker has a session")
        if more and not as_json:
            _absent(f"{more} more are left out")
        _tell_silent(silent)
        return 1 if silent else 0

    return run_orderly(main)


def show_where(
    nats: str, session: str, *, deployment: str, tenant: str, as_json: bool
) -> int:
    """Print the worker that has a session; 1 if none has it."""

    async def main() -> int:
        async with remote(nats, deployment) as runtime:
            await trio.sleep(_BEATS)
            rows, _, silent = await _listed(runtime, session, tenant)
            places = {x.worker: x.where for x in runtime.workers}
        if not rows:
            note(
                f"no worker has the session {session}: it is kept in the store, or has"
                " not begun"
            )
            _tell_silent(silent)
            return 1
        # One that stood still does not know yet that another one has it.
        row = max(rows, key=lambda x: x["epoch"])
        row["where"] = places.get(row["worker"], "")
        if as_json:
            say_json(row)
        else:
            place = f" ({row['where']})" if row["where"] else ""
            say(wide_console(), f"{row['worker']}{place}, epoch {row['epoch']}")
        return 0

    return run_orderly(main)


async def _listed(
    runtime: RemoteRuntime, session: str | None, tenant: str | None
) -> tuple[list[dict[str, Any]], int, list[str]]:
    """Return the sessions with their workers, the number of those that were left out,
    and the workers that have not answered."""
    asked = {x.worker for x in runtime.workers}
    answers = await runtime.sessions(session, tenant=tenant)
    rows = [
        {
            "session": one.session,
            "tenant": one.tenant,
            "worker": answer.worker,
            "epoch": one.epoch,
            "turns": one.turns,
        }
        for answer in answers
        for one in answer.sessions
    ]
    rows.sort(key=lambda x: (x["tenant"], x["session"]))
    silent = sorted(asked - {x.worker for x in answers})
    return rows, sum(x.more for x in answers), silent


def drain_worker(nats: str, worker: str, *, deployment: str, within: float) -> int:
    """Have a worker end; return when it has no sessions any more, or 1."""

    async def main() -> int:
        async with remote(nats, deployment) as runtime:
            await trio.sleep(_BEATS)
            name = _named(worker, [x.worker for x in runtime.workers])
            if not await runtime.drain(name, within):
                note(f"the worker {name} has not answered")
                return 1
            with trio.move_on_after(within + _ENDING):
                await _emptied(runtime, name)
                say(wide_console(), f"the worker {name} has no sessions, and ends")
                return 0
        note(f"the worker {name} still has sessions, and goes on giving them back")
        return 1

    return run_orderly(main)


def _named(beginning: str, names: Sequence[str]) -> str:
    """Return the only name that begins so."""
    found = [x for x in names if x.startswith(beginning)]
    if beginning in found:
        return beginning
    if len(found) == 1:
        return found[0]
    there = ", ".join(names) or "none"
    if found:
        raise ClusterError(f"{beginning} is the beginning of {', '.join(found)}")
    raise ClusterError(f"there is no worker {beginning}; there is {there}")


async def _emptied(runtime: RemoteRuntime, name: str) -> None:
    """Return when a worker has no sessions, or is gone; say how many are left."""
    said: int | None = None
    while True:
        (left,) = [x.sessions for x in runtime.workers if x.worker == name] or [0]
        if not left:
            return
        if left != said:
            note(f"{left} session{'s'[: left != 1]} left")
            said = left
        await trio.sleep(_LOOKING)


def make_tables(store: str) -> int:
    """Make the tables of a database, and say what was done."""

    async def main() -> int:
        if not store.startswith(POSTGRES):
            raise ClusterError("--store: it must begin with postgresql://")
        before, now = await prepare_postgres(store)
        place = PostgresAddress.of(store)
        if before == now:
            done = f"has the tables already (layout {now}); nothing was changed"
        elif before:
            done = f"had layout {before}, and was brought to {now}"
        else:
            done = f"has the tables now (layout {now})"
        say(wide_console(), f"{place} {done}")
        return 0

    return run_orderly(main)


def _absent(text: str) -> None:
    say(wide_console(stderr=True), text, HELD)


def _tell_silent(workers: Sequence[str]) -> None:
    if workers:
        _absent(f"no answer of {', '.join(workers)}")
