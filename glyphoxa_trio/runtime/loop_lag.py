"""Looks how late the loop is, and tells operators when turns are turned away, and which
tools held the loop."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from time import process_time
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import Failed, Topic, crash_report
from glyphoxa_trio.host import ToolHost, ToolStalled
from glyphoxa_trio.mcp import ServerWarning
from glyphoxa_trio.npc.activity import Activity
from glyphoxa_trio.units import in_ms

from .config_source import OURS
from .overload import FLOOR, Overload

NAME: Final = "overload"  # whom a warning is of
PERIOD: Final = 0.05  # seconds, give or take half of it: nothing is to beat in time
# So many times round the loop is about what a turn needs to its first words. Once
# round takes hardly longer when it is busy; all of them are what a player waits for.
ROUNDS: Final = 20
_SAID_AGAIN: Final = 60.0  # seconds until a tool that holds the loop is named again
_WHEN_OFF: Final = 1.0  # seconds until it is seen that it was switched on


@attrs.frozen(kw_only=True)
class OverloadBegan:
    """Turns are turned away from now on; ``limit`` may run, None is what is configured.

    ``lag`` in seconds.
    """

    running: int
    lag: float
    limit: int | None


@attrs.frozen(kw_only=True)
class OverloadEnded:
    """Nobody has to be turned away any more; ``shed`` were, in so many ``seconds``."""

    shed: int
    seconds: float


OverloadEvent = OverloadBegan | OverloadEnded


async def watch(
    overload: Overload,
    activity: Activity,
    *,
    events: Topic[OverloadEvent],
    warn: Callable[[ServerWarning], None],
    on_late: Callable[[float, float], None],
    spent: Callable[[], float] = process_time,
) -> None:
    """Feed ``overload`` until cancelled; ``events`` and ``warn`` hear of changes, and
    ``on_late`` of the times, since and until, in which many turns made it too late.
    ``spent`` says how many seconds of a processor this process has used.

    On a virtual clock the loop is never late.
    """
    jitter = Random()  # not the one that somebody may have seeded
    last = began = trio.current_time()
    used = spent()
    told = False
    while True:
        if overload.config.enabled:
            due = trio.current_time() + jitter.uniform(0.5, 1.5) * PERIOD
            await trio.sleep_until(due)
            now, running = trio.current_time(), activity.working
            for _ in range(ROUNDS if running else 0):
                if now - due > overload.config.max_lag:
                    break  # that is all there is to know
                await trio.lowlevel.checkpoint()
                now = trio.current_time()
            before, used = used, spent()
            overload.sample(
                now - due, elapsed=now - last, running=running, spent=used - before
            )
            # With few turns it is a tool that blocks, and must not look quick.
            if now - due > overload.config.max_lag and running > FLOOR:
                on_late(due, now)
        else:
            await trio.sleep(_WHEN_OFF)
            now, running, used = trio.current_time(), activity.working, spent()
        last = now
        if overload.shedding == told:
            continue
        told = overload.shedding
        if told:
            began = now
            late, limit = overload.lag, overload.limit
            events.publish(OverloadBegan(running=running, lag=late, limit=limit))
            text = (
                f"turns are turned away: {running} run,"
                f" and the loop is late by {in_ms(late)}"
            )
            warn(ServerWarning(server=NAME, text=text))
        else:
            shed = overload.shed_lately
            events.publish(OverloadEnded(shed=shed, seconds=now - began))


async def name_stalls(host: ToolHost, warn: Callable[[ServerWarning], None]) -> None:
    """Warn of tools that hold the loop, until cancelled: of each once a minute, and
    when it is refused. And of a host that crashes, with the traceback."""
    said: dict[str, float] = {}
    with host.events.subscribe(only=(ToolStalled, Failed)) as faults:
        async for event in faults:
            if isinstance(event, Failed):
                warn(ServerWarning(server=OURS, text=crash_report(event)))
                continue
            assert isinstance(event, ToolStalled)
            now = trio.current_time()
            if event.refused or now - said.get(event.key, -_SAID_AGAIN) >= _SAID_AGAIN:
                said[event.key] = now
                group = event.key.partition(".")[0]
                warn(ServerWarning(server=group, text=event.text))
