"""The audio of NPCs: a token says who may connect to the worker that has a session.

Audio does not cross the bus. A client asks the owner of a session for the address at
which that serves audio, and for a token. The token is for one NPC of one session in one
epoch: nobody else than the worker that made it accepts it, and that one no longer than
it has the session. It is sent in the first message of a connection, and never in an
address.

Pure: `media_service` listens.
"""

from __future__ import annotations

import hmac
import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

import attrs
from msgspec import Struct, json

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc import Npc, TurnDone, TurnEvent
from glyphoxa_trio.npc.identity import NpcId, SessionKey
from glyphoxa_trio.secret import Secret

LASTS: Final = 60.0
"""Seconds within which a token must be shown. A connection that is open by then stays
open for as long as the session is there."""

MOST_OPEN: Final = 64
"""Connections of one session."""

_LONGEST: Final = 4000  # of the 4096 characters that a hello has for a token
_WRITTEN: Final = re.compile(r"([A-Za-z0-9_-]{1,4000}={0,2})\.([A-Za-z0-9_-]{43}=)")


class NoMedia(GlyphoxaError):
    """The audio of an NPC cannot be had; the text says why."""

    code: Final = "busy"  # of the service's answers: it may be had elsewhere


@attrs.frozen(kw_only=True)
class MediaAddress:
    """The place of an NPC's audio, and the right to connect there.

    Args:
      url: of a WebSocket, with the protocol of the service.
      token: for its hello.
      within: seconds in which the token must be shown.
    """

    url: str
    token: Secret
    within: float


@attrs.frozen
class MediaGrant:
    """The NPC, session and epoch that a token is for, and the name under which its
    holder speaks; None means any."""

    key: SessionKey
    epoch: int
    npc: str
    speaker: str | None = None


class _Claims(Struct, frozen=True):
    session: str
    tenant: str
    epoch: int
    npc: str
    until: float  # on the clock of the worker that made it
    speaker: str | None = None


@attrs.define(eq=False)
class MediaTokens:
    """The tokens of one worker. They are signed, and none is kept."""

    _key: bytes = attrs.field(factory=lambda: secrets.token_bytes(32), repr=False)

    def make(self, grant: MediaGrant, now: float) -> Secret:
        """Return a token that is accepted for `LASTS` seconds.

        Raises:
          NoMedia: no token has room for the names.
        """
        key, until = grant.key, now + LASTS
        claims = _Claims(
            key.id, key.tenant, grant.epoch, grant.npc, until, grant.speaker
        )
        body = urlsafe_b64encode(json.encode(claims))
        if len(body) > _LONGEST:  # of names that are full of control characters
            raise NoMedia("the names are too long for a token")
        return Secret(f"{body.decode()}.{self._signature(body)}")

    def read(self, shown: str, now: float) -> MediaGrant | None:
        """Return what a token is for; None if this worker has not made it.

        Raises:
          NoMedia: it is too old.
        """
        found = _WRITTEN.fullmatch(shown)
        if found is None:
            return None
        body = found[1].encode()
        if not hmac.compare_digest(self._signature(body), found[2]):
            return None
        claims = json.decode(urlsafe_b64decode(body), type=_Claims)
        if now > claims.until:
            raise NoMedia("the token is too old: ask for the media again")
        key = SessionKey(claims.session, claims.tenant)
        return MediaGrant(key, claims.epoch, claims.npc, claims.speaker)

    def _signature(self, body: bytes) -> str:
        made = hmac.digest(self._key, body, "sha256")
        return urlsafe_b64encode(made).decode()


@attrs.define(eq=False)
class _OpenMedia:
    """One connection; ``leave`` closes it with a reason."""

    grant: MediaGrant
    leave: Callable[[str], None]


@attrs.define(eq=False)
class MediaDesk:
    """The audio of the sessions of one worker.

    Args:
      epoch: returns the epoch in which the worker has a session, and may use it now; 0
        if it may not.
      attached: called when a connection to a session is open, or is not any more.
    """

    _epoch: Callable[[SessionKey], int]
    _attached: Callable[[SessionKey, int, bool], None]
    _tokens: MediaTokens = attrs.field(factory=MediaTokens, init=False)
    _url: str | None = attrs.field(default=None, init=False)
    _open: dict[SessionKey, list[_OpenMedia]] = attrs.field(factory=dict, init=False)
    # Of sessions with connections: the turns that run, and the last that ended.
    _running: dict[NpcId, int] = attrs.field(factory=dict, init=False)
    _ended: dict[NpcId, int] = attrs.field(factory=dict, init=False)

    @contextmanager
    def at(self, url: str) -> Generator[None]:
        """Offer media at this address, inside the block."""
        self._url = url
        try:
            yield
        finally:
            self._url = None

    def offer(
        self, npc: Npc, epoch: int, now: float, speaker: str | None = None
    ) -> dict[str, Any]:
        """Return address and token for an NPC of a session, as plain data.

        Args:
          speaker: the only name under which the holder may speak; None for any.

        Raises:
          NoMedia: this worker serves no audio.
          CannotHear: nor does this NPC.
        """
        if self._url is None:
            raise NoMedia("this worker serves no audio: start it with --media")
        npc.voice(rate=16_000)  # is not entered: only asked if it could be
        grant = MediaGrant(npc.session, epoch, npc.name, speaker)
        token = self._tokens.make(grant, now)
        shown = token.reveal()
        return {"url": self._url, "token": shown, "within_ms": LASTS * 1000}

    def admit(self, shown: str, now: float) -> MediaGrant | None:
        """Return what a token is for; None if this worker has not made it.

        Raises:
          NoMedia: it is too old, the session is not here any more, or it has too many
            connections.
        """
        grant = self._tokens.read(shown, now)
        if grant is not None:
            self.check(grant)
            if len(self._open.get(grant.key, ())) >= MOST_OPEN:
                why = f"{MOST_OPEN} connections of this session are open already"
                raise NoMedia(why)
        return grant

    def check(self, grant: MediaGrant) -> None:
        """Raise `NoMedia` if the session is not here any more."""
        if self._epoch(grant.key) != grant.epoch:
            raise NoMedia("the session is not here any more: ask for the media again")

    @contextmanager
    def opened(
        self, grant: MediaGrant, leave: Callable[[str], None]
    ) -> Generator[None]:
        """Count a connection that was admitted just now, inside the block. ``leave`` is
        called when it must end."""
        here = self._open.setdefault(grant.key, [])
        one = _OpenMedia(grant, leave)
        here.append(one)
        self._attached(grant.key, grant.epoch, True)
        try:
            yield
        finally:
            here.remove(one)
            if not here and self._open.get(grant.key) is here:
                del self._open[grant.key]
                self._forget(grant.key)
            self._attached(grant.key, grant.epoch, False)

    def close(self, key: SessionKey, why: str) -> None:
        """Close the connections of a session."""
        for one in self._open.get(key, ()):
            one.leave(why)

    def close_quiet(self, why: str) -> None:
        """Close the connections of sessions in which no turn runs."""
        speaking = {npc.session for npc in self._running}
        for key in [x for x in self._open if x not in speaking]:
            self.close(key, why)

    def note(self, event: TurnEvent) -> None:
        """Take note of an event of any session."""
        npc, turn = event.id, event.turn
        if npc.session not in self._open or not turn:
            return
        if isinstance(event, TurnDone):
            self._ended[npc] = max(turn, self._ended.get(npc, 0))
            if self._running.get(npc, 0) <= turn:
                self._running.pop(npc, None)
        elif turn > self._ended.get(npc, 0):
            self._running[npc] = turn

    def _forget(self, key: SessionKey) -> None:
        for known in (self._running, self._ended):
            for npc in [x for x in known if x.session == key]:
                del known[npc]
