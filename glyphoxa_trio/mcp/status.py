"""What the world may know of a server: its state, its figures, its troubles."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

import attrs

from glyphoxa_trio.tools.definition import Tool


class ServerState(StrEnum):
    IDLE = "idle"  # lazy, and not asked yet
    STARTING = "starting"  # never been ready
    READY = "ready"
    RESTARTING = "restarting"  # lost, or not reached yet; tools stay visible (D5)
    FAILED = "failed"  # given up, but for one attempt a minute
    STOPPED = "stopped"


@attrs.frozen(kw_only=True)
class ServerWarning:
    """Something about a server that its operator should see (N23)."""

    server: str
    text: str


@attrs.frozen(kw_only=True)
class ServerStatus:
    """A server as its connection sees it. ``since`` and ``ready_at`` are on trio's
    clock.

    Before it was ready, its ``tools`` are those of an earlier run. ``ready_at`` is
    when a server that is starting should be ready, as far as its last start tells; that
    may be in the past.
    """

    name: str
    transport: str
    state: ServerState
    tools: tuple[str, ...] = ()
    restarts: int = 0
    since: float
    last_error: str | None = None
    pid: int | None = None
    ready_at: float | None = None


class Publish(Protocol):
    """Told of a server's state and its tools. ``ready_at`` is as in `ServerStatus`."""

    def __call__(
        self,
        server: str,
        state: ServerState,
        tools: tuple[Tool, ...],
        ready_at: float | None = None,
    ) -> None: ...
