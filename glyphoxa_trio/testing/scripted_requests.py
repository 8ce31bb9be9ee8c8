"""The script of a vendor's HTTP server: a reply for each request that it accepts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

import attrs

from .http_server import ReceivedRequest, StatusReply
from .http_server import Reply as HttpReply

Q = TypeVar("Q")  # what a request asks for
R = TypeVar("R")  # what a script replies

ReplyScript: TypeAlias = Sequence[R] | Callable[[Q], R | Awaitable[R]]


class VendorRefused(Exception):
    """The vendor's server would refuse a request, with this status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def check_endpoint(request: ReceivedRequest, path: str, key: str | None) -> None:
    """Check that a request posts to a path, with the key if there is one.

    Raises:
      VendorRefused: it does not.
    """
    if request.path != path:
        raise VendorRefused(404, f"no such path: {request.path}")
    if request.method != "POST":
        raise VendorRefused(405, f"not allowed: {request.method}")
    if key is not None and request.headers.get("authorization") != f"Bearer {key}":
        raise VendorRefused(401, "Incorrect API key provided")


@attrs.define(eq=False)
class ScriptedRequests(Generic[Q, R]):
    """The requests to one endpoint.

    Args:
      script: the replies, of which the last one repeats for ever; or a function.
      read: returns what a request asks for, or raises `VendorRefused`.
      reply: makes an answer of a reply.

    Raises:
      ValueError: there is no reply in the script.
    """

    _script: ReplyScript[R, Q]
    _read: Callable[[ReceivedRequest], Q]
    _reply: Callable[[R], HttpReply]
    accepted: list[Q] = attrs.field(factory=list, init=False)
    refused: list[str] = attrs.field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        if not callable(self._script) and not self._script:
            raise ValueError("a script needs at least one reply")

    async def answer(self, request: ReceivedRequest) -> HttpReply:
        """Answer a request as the script says, or as the vendor would refuse it."""
        try:
            asked = self._read(request)
        except VendorRefused as no:
            self.refused.append(str(no))
            return StatusReply(no.status, body={"error": {"message": str(no)}})
        self.accepted.append(asked)
        if callable(self._script):
            reply = self._script(asked)
            if isinstance(reply, Awaitable):
                reply = await reply
        else:
            reply = self._script[min(len(self.accepted), len(self._script)) - 1]
        return self._reply(reply)
