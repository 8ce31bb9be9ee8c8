"""The rights of clients: tokens have roles, and roles have rights. No I/O."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Protocol

import attrs

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.secret import Secret


class Right(StrEnum):
    """A kind of things that a client may do.

    ``TALK``: speak with NPCs. ``READ``: see servers, tools, turns and measurements.
    ``DIRECT``: what a game master does: approve, set scenes, speak as an NPC, end
    sessions. ``OPERATE``: change the configuration, servers and measurements.
    """

    TALK = "talk"
    READ = "read"
    DIRECT = "direct"
    OPERATE = "operate"


class ClientRole(StrEnum):
    """The role of a token; ``ANYBODY`` has none, on the machine of the service."""

    ANYBODY = "anybody"
    PLAYER = "player"
    GAME_MASTER = "game_master"
    OPERATOR = "operator"


RIGHTS: Final[Mapping[ClientRole, frozenset[Right]]] = {
    ClientRole.ANYBODY: frozenset({Right.TALK, Right.READ}),
    ClientRole.PLAYER: frozenset({Right.TALK}),
    ClientRole.GAME_MASTER: frozenset({Right.TALK, Right.READ, Right.DIRECT}),
    ClientRole.OPERATOR: frozenset(Right),
}


@attrs.frozen
class ServiceClient:
    """A client as far as its rights go.

    ``session``: the only session that it may use; None means all. ``name`` tells its
    token from others, for limits, without being one. ``speaker``: the only name under
    which it may speak; None means any.
    """

    role: ClientRole
    session: str | None = None
    name: str = ""
    speaker: str | None = None

    def may(self, right: Right | None, session: str | None = None) -> bool:
        """Return True if the client has the right, in that session if one is given."""
        if right is not None and right not in RIGHTS[self.role]:
            return False
        return session is None or self.session is None or session == self.session


class TokenRefused(GlyphoxaError):
    """A token is not accepted any more; the text says why, without the token."""


class TokenCheck(Protocol):
    """The tokens that a service accepts."""

    def client_of(self, shown: str | None) -> ServiceClient | None:
        """Return the client that shows this token, or none; None if it is refused.

        Raises:
          TokenRefused: it was accepted once.
        """
        ...


@attrs.frozen
class ServiceToken:
    """A token of the file, with its role."""

    secret: Secret
    client: ServiceClient


@attrs.frozen
class ServiceTokens:
    """The tokens that the service knows.

    ``open_to_all``: clients without a token have the rights of `ClientRole.ANYBODY`.
    """

    known: tuple[ServiceToken, ...]
    open_to_all: bool = False

    def client_of(self, shown: str | None) -> ServiceClient | None:
        """Return the client that shows this token, or none; None if it is refused.

        All tokens are compared, each in constant time.
        """
        if shown is None:
            return ServiceClient(ClientRole.ANYBODY) if self.open_to_all else None
        given = shown.encode("utf-8", "surrogatepass")
        found: ServiceClient | None = None
        for token in self.known:
            if hmac.compare_digest(token.secret.reveal().encode(), given):
                found = token.client
        return found


def new_token() -> Secret:
    """Return a new token, which cannot be guessed."""
    return Secret(secrets.token_urlsafe(24))
