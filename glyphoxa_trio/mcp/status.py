"""The public status of a server: its state, figures and errors."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

import attrs

from glyphoxa_trio.tools.definition import Tool

from .prompts import ServerPrompt


class ServerState(StrEnum):
    """The states of a server."""

    IDLE = "idle"  # lazy, and not asked yet
    STARTING = "starting"  # has not been ready yet
    READY = "ready"
    RESTARTING = "restarting"  # lost, or not reached yet; its tools stay visible
    FAILED = "failed"  # given up, except for one attempt a minute
    STOPPED = "stopped"


@attrs.frozen(kw_only=True)
class ServerWarning:
    """A message about a server that its operator should see."""

    server: str
    text: str


@attrs.frozen(kw_only=True)
class ServerStatus:
    """The status of a server, as its connection sees it.

    ``since`` and ``ready_at`` are on trio's clock. Before the server was ready, its
    ``tools`` and ``prompts`` are those of an earlier run. ``ready_at`` is when a server
    that is starting should be ready, judging by its last start; that may be in the
    past.
    """

    name: str
    transport: str
    state: ServerState
    tools: tuple[str, ...] = ()
    prompts: tuple[ServerPrompt, ...] = ()
    restarts: int = 0
    since: float
    last_error: str | None = None
    pid: int | None = None
    ready_at: float | None = None


class Publish(Protocol):
    """The receiver of a server's state and tools. Values are as in `ServerStatus`."""

    def __call__(
        self,
        server: str,
        state: ServerState,
        tools: tuple[Tool, ...],
        ready_at: float | None = None,
    ) -> None: ...
