"""The client of a request: by its token, or by the cookie of a page that showed one.

A page sends its token once and gets a cookie, which scripts cannot read and which the
browser sends to this host only. Since cookies ignore ports, another page of this
machine could have it sent along: a request with a cookie must come from a page of this
service.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import deque
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from typing import Final

import attrs

import trio

from .rights import ServiceClient, ServiceTokens, TokenCheck

COOKIE: Final = "glyphoxa_login"
LASTS: Final = 12 * 3600.0
"""Seconds since its last use after which a login is over."""

MOST_LOGINS: Final = 1000


@attrs.define
class _Login:
    client: ServiceClient
    used: float


@attrs.define(eq=False)
class PageLogins:
    """The pages that have shown a token, by the value of their cookie."""

    _logins: dict[str, _Login] = attrs.field(factory=dict, init=False)

    def log_in(self, client: ServiceClient) -> str:
        """Return the value of a new cookie for this client.

        Of more than `MOST_LOGINS` the one that was unused for longest is over.
        """
        if len(self._logins) >= MOST_LOGINS:
            del self._logins[min(self._logins, key=lambda x: self._logins[x].used)]
        value = secrets.token_urlsafe(24)
        self._logins[value] = _Login(client, trio.current_time())
        return value

    def client_of(self, value: str) -> ServiceClient | None:
        """Return the client of a cookie; None if its login is over, or none."""
        found = self._logins.get(value)
        if found is None:
            return None
        now = trio.current_time()
        if now - found.used > LASTS:
            del self._logins[value]
            return None
        found.used = now
        return found.client

    def log_out(self, value: str) -> None:
        """End the login of this cookie, if there is one."""
        self._logins.pop(value, None)


@attrs.define(eq=False)
class SharedLogins:
    """The pages that have shown a token to any service with the same tokens.

    The cookie says which token it was, and until when it counts; it is signed with a
    key that is made of all tokens, so whoever has the same file of them accepts it. A
    changed file ends all logins. A login that has ended elsewhere counts until its
    time is over: only the browser was told.

    Args:
      now: returns the time in seconds since 1970, which the services share.
    """

    _tokens: ServiceTokens
    _now: Callable[[], float] = time.time
    _key: bytes = attrs.field(init=False, repr=False)
    _ended: deque[str] = attrs.field(
        factory=lambda: deque(maxlen=MOST_LOGINS), init=False
    )

    def __attrs_post_init__(self) -> None:
        key = hashlib.sha256(b"glyphoxa logins")
        for token in self._tokens.known:
            client = token.client
            bound = client.session or "", client.speaker or ""
            told = (client.role, *bound, token.secret.reveal())
            key.update("\n".join(told).encode() + b"\n\n")
        self._key = key.digest()

    def log_in(self, client: ServiceClient) -> str:
        """Return the value of a new cookie for this client."""
        until = int(self._now() + LASTS)
        said = f"{client.name}.{until}.{secrets.token_urlsafe(12)}"
        return f"{said}.{self._signature(said)}"

    def client_of(self, value: str) -> ServiceClient | None:
        """Return the client of a cookie; None if its login is over, or none."""
        said, _, signature = value.rpartition(".")
        shown = signature.encode("utf-8", "surrogatepass")
        if not hmac.compare_digest(self._signature(said).encode(), shown):
            return None
        name, until, _ = said.split(".")
        if self._now() >= int(until) or value in self._ended:
            return None
        known = (x.client for x in self._tokens.known)
        return next((x for x in known if x.name == name), None)

    def log_out(self, value: str) -> None:
        """End the login of this cookie, here."""
        if self.client_of(value) is not None:
            self._ended.append(value)

    def _signature(self, said: str) -> str:
        data = said.encode("utf-8", "surrogatepass")
        return hmac.new(self._key, data, hashlib.sha256).hexdigest()


@attrs.frozen(eq=False)
class ClientAdmission:
    """Tells who the client of a request is."""

    tokens: TokenCheck
    logins: PageLogins | SharedLogins = attrs.field(factory=PageLogins)

    def client_of(self, headers: dict[str, str], method: str) -> ServiceClient | None:
        """Return the client of a request; None if it is refused."""
        shown = bearer_of(headers)
        if shown is None and is_own_page(headers, method):
            value = cookie_of(headers)
            client = None if value is None else self.logins.client_of(value)
            if client is not None:
                return client
        return self.tokens.client_of(shown)


def bearer_of(headers: dict[str, str]) -> str | None:
    """Return the token of a request's ``Authorization``; None if it shows none."""
    scheme, _, shown = headers.get("authorization", "").partition(" ")
    return shown.strip() if scheme.lower() == "bearer" else None


def cookie_of(headers: dict[str, str]) -> str | None:
    """Return the value of a request's cookie of this service; None without one."""
    found = SimpleCookie()
    try:
        found.load(headers.get("cookie", ""))
    except CookieError:
        return None
    return found[COOKIE].value if COOKIE in found else None


def is_own_page(headers: dict[str, str], method: str) -> bool:
    """Return True if a request can only come from a page of this very address.

    Browsers name the origin of whatever may change something, and of WebSockets; of
    other requests they say which site they are from.
    """
    origin = headers.get("origin")
    if origin is not None:
        return origin.partition("://")[2].lower() == headers.get("host", "").lower()
    site = headers.get("sec-fetch-site", "same-origin")
    return method in ("GET", "HEAD") and site in ("same-origin", "none")
