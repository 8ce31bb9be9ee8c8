"""How much a server over HTTP takes, and who may come in. Data only."""

from __future__ import annotations

from typing import Final

import attrs

from glyphoxa_trio.secret import Secret

KIB: Final = 1024
LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


@attrs.frozen(kw_only=True)
class Limits:
    """How much, and how long, in bytes and seconds.

    Args:
      body: of one request.
      body_within: a request's body is read in this time, or refused.
      head_within: a connection that says nothing whole for so long is closed.
      write_within: a client that takes nothing for so long is cut off.
      connections: at once; more wait in the kernel's queue.
      sessions: at once. Beyond that the one that was left alone longest ends; if
        all are in use, more are refused. One client has three quarters of them.
      session_idle: a session that nobody uses ends.
      running: requests of one session at once.
      listening: streams of ``subscriptions/listen`` at once.
      rate: calls a second of one client address, of one token, and of one session,
        and as many at once; None: any.
      drain: what runs when the server is told to stop may go on for so long.
    """

    body: int = 1024 * KIB
    body_within: float = 10.0
    head_within: float = 20.0
    write_within: float = 10.0
    connections: int = 1024
    sessions: int = 256
    session_idle: float = 1800.0
    running: int = 32
    listening: int = 256
    rate: float | None = None
    drain: float = 5.0


@attrs.frozen(kw_only=True)
class Access:
    """Who may come.

    Args:
      hosts: names that ``Host`` may have, without a port.
      origins: what ``Origin`` may be; with none it is not asked for.
      tokens: one of them must be shown; none: nothing is asked for.
      local: only this machine reaches the server, so pages from this machine may
        use it; else a ``Host`` that is an address is as good as a name, since no
        page can make a browser say one that is not its own.
    """

    hosts: frozenset[str]
    origins: frozenset[str] = frozenset()
    tokens: tuple[Secret, ...] = ()
    local: bool = True
