"""Rate limits for the calls of a client: by its address, its token and its session.

A limit by session alone would be none, since sessions are free to open. So the opening
of sessions is limited, too.
"""

from __future__ import annotations

import math

import attrs

import trio

from .bucket import Bucket, Buckets, whose
from .incoming import HttpRequest, RequestRefused


def opener_of(request: HttpRequest) -> str:
    """Return a name for the client of a request: its token and its address."""
    address = (request.scope.get("client") or ("",))[0]
    return f"{request.owner} {whose(str(address))}"


@attrs.define(eq=False)
class Rates:
    """The token buckets of one server. Without a rate nothing is limited.

    Every method raises `RequestRefused` with status 429 for a call beyond the limit.
    """

    rate: float | None
    _clients: Buckets = attrs.field(init=False)
    _tokens: Buckets = attrs.field(init=False)
    _newcomers: Buckets = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._clients = Buckets(self.rate)
        self._tokens = Buckets(self.rate)
        self._newcomers = Buckets(self.rate)

    def count_call(self, request: HttpRequest, session: Bucket | None = None) -> None:
        """Count a call, in a session or without one."""
        _take(self._clients.find(opener_of(request)))
        if request.owner:
            _take(self._tokens.find(request.owner))
        _take(session)

    def count_session(self, request: HttpRequest) -> None:
        """Count the opening of a session."""
        _take(self._newcomers.find(opener_of(request)))


def _take(bucket: Bucket | None) -> None:
    wait = 0.0 if bucket is None else bucket.take(trio.current_time())
    if wait > 0:
        seconds = str(max(1, math.ceil(wait)))
        raise RequestRefused(
            429, "too many calls (--rate-limit)", {"Retry-After": seconds}
        )
