"""The times and bounds of a connection, and its state."""

from __future__ import annotations

from math import inf
from typing import Final

import attrs

from glyphoxa_trio.actors import Backoff

BACKOFF: Final = Backoff(first=0.05, ceiling=2.0, jitter=0.5)


@attrs.frozen(kw_only=True)
class NatsOptions:
    """Times and bounds of a connection. All times in seconds.

    Args:
      name: shown by the server among its connections.
      open_within: for the first connection, whatever servers are tried for it.
      connect_within: for one attempt at one server.
      ping_every: silence after which the server is asked for a sign of life.
      ping_patience: for that sign; then the connection is given up.
      backoff: between rounds through all servers; the number of them has no bound.
      give_up: without a connection after which the block is cancelled.
      outgoing: bytes that may wait to be sent.
    """

    name: str = "glyphoxa"
    open_within: float = 5.0
    connect_within: float = 2.0
    ping_every: float = 2.0
    ping_patience: float = 1.0
    backoff: Backoff = BACKOFF
    give_up: float = inf
    outgoing: int = 8 * 1024 * 1024


OPTIONS: Final = NatsOptions()


@attrs.frozen(kw_only=True)
class NatsStatistics:
    """The state of a connection, and counts since it was first opened.

    Args:
      server: the address it is connected to; None while there is none.
      server_name: the server's own name for itself.
      lame_duck: the server says that it will stop soon.
      failed: attempts at a server.
      dropped: messages that came for subscriptions whose queues were full.
      unsent: bytes that were published, and given up when a connection broke.
      waiting: bytes that are to be sent.
      trouble: the newest error, of the server or of an attempt; None without any.
    """

    server: str | None
    server_name: str
    lame_duck: bool
    reconnections: int
    failed: int
    dropped: int
    unsent: int
    waiting: int
    trouble: str | None
