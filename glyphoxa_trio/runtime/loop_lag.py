"""Measurement of the event loop's lag, and warnings about overload and blocking tools.

`watch` measures how late the loop is and feeds `Overload`, which decides if turns are
refused. `name_stalls` warns of tools that blocked the loop.
"""

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

NAME: Final = "overload"  # the origin of these warnings
# Seconds, plus or minus half of it, so as not to keep step with other timers.
PERIOD: Final = 0.05
# Iterations of the loop per sample: about what a turn needs until its first words.
# One iteration hardly takes longer on a busy loop; a player waits for all of them.
ROUNDS: Final = 20
_SAID_AGAIN: Final = 60.0  # seconds until the same tool is warned of again
_WHEN_OFF: Final = 1.0  # seconds between two checks if overload.enabled is on


@attrs.frozen(kw_only=True)
class OverloadBegan:
    """Turns are refused from now on, except as many as ``limit`` allows.

    Args:
      running: the turns that run now.
      lag: of the loop, in seconds.
      limit: how many turns may run; None if only the configured limit counts.
    """

    running: int
    lag: float
    limit: int | None


@attrs.frozen(kw_only=True)
class OverloadEnded:
    """Turns are no longer refused.

    Args:
      shed: how many turns were refused meanwhile.
      seconds: how long that took.
    """

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
    """Measure the loop's lag and feed ``overload``, until cancelled.

    On a virtual clock the lag is always zero.

    Args:
      events, warn: told when refusing turns begins and ends.
      on_late: called with the start and end of a period in which many turns made the
        loop too late; its latency samples must not count.
      spent: returns the seconds of processor time that this process has used.
    """
    jitter = Random()  # not the module's generator, which a program may have seeded
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
                    break  # late already; more iterations tell nothing new
                await trio.lowlevel.checkpoint()
                now = trio.current_time()
            before, used = used, spent()
            overload.sample(
                now - due, elapsed=now - last, running=running, spent=used - before
            )
            # With few turns the cause is a tool that blocks; its samples must count.
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
                f"new turns are refused: {running} running,"
                f" and the event loop {in_ms(late)} late"
            )
            warn(ServerWarning(server=NAME, text=text))
        else:
            shed = overload.shed_lately
            events.publish(OverloadEnded(shed=shed, seconds=now - began))


async def name_stalls(host: ToolHost, warn: Callable[[ServerWarning], None]) -> None:
    """Warn of tools that block the loop, until cancelled.

    Each tool is warned of once a minute, and when it is refused. A host that crashes is
    warned of with the traceback.
    """
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
