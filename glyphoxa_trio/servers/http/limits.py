"""The limits of a server over HTTP, and the rules of access to it. Data only."""

from __future__ import annotations

from typing import Final

import attrs

from glyphoxa_trio.secret import Secret

KIB: Final = 1024
LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


@attrs.frozen(kw_only=True)
class Limits:
    """Limits of size, number and time, in bytes and seconds.

    Args:
      body: the size of one request's body.
      body_within: a request's body must be read within this time, or is refused.
      head_within: a connection that sends no complete request within this time is
        closed.
      write_within: a client that reads nothing for this time is disconnected.
      connections: open connections; more wait in the kernel's queue.
      sessions: open sessions. Beyond that, the one that was idle longest ends; if all
        are in use, new ones are refused. One client may have three quarters of them.
      session_idle: a session that is not used for this time ends.
      running: running requests of one session.
      listening: open streams of ``subscriptions/listen``.
      rate: calls a second of one client address, of one token, and of one session, and
        as many at once; None means no limit.
      drain: time for running requests to finish when the server is told to stop.
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
    """The clients that may use the server.

    Args:
      hosts: the names that the ``Host`` header may have, without a port.
      origins: the values that the ``Origin`` header may have; a request without the
        header is not checked.
      tokens: bearer tokens, one of which is required; if empty, none is.
      local: whether only this machine reaches the server, so that pages from this
        machine may use it. Otherwise a ``Host`` that is an address is accepted like a
        name, since a page can only make a browser send the address of its own server.
    """

    hosts: frozenset[str]
    origins: frozenset[str] = frozenset()
    tokens: tuple[Secret, ...] = ()
    local: bool = True
