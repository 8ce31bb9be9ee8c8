"""Access tokens by OAuth 2.1 client credentials, fetched and renewed when needed.

The SDK has such a flow, but it holds one lock around every request of a server, so 64
calls would run one after another; it reads the wall clock; and its errors repeat what
the token endpoint said, which may be secret. This module avoids all three.

A token is fetched by a task of its own. A caller that gives up does not stop the fetch
for the others, and the next caller finds the token. Shortly before a token expires it
is renewed in the background, so that no call waits for the renewal.

Times are seconds on trio's clock. No token and no secret appears in any message here.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import quote_plus

import attrs
import httpx2

import trio

from glyphoxa_trio.certificates import trusted
from glyphoxa_trio.config import ServerSpec
from glyphoxa_trio.config.servers import OAuth, without_secrets
from glyphoxa_trio.quiet import quiet
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.units import in_ms

from .answers import whole
from .discovery import (
    BASIC,
    POST,
    NoToken,
    TokenEndpoint,
    challenge_of,
    discover,
    resource_of,
)
from .log_redaction import hush
from .masking import Masking

_LONGEST_FETCH: Final = 10.0
# Of the server's start timeout: the rest is left to report what went wrong.
_SHARE: Final = 0.8
# Seconds before its expiry at which a token is renewed; or a tenth of its life.
_MARGIN: Final = 60.0
_PAUSE: Final = 1.0  # seconds between attempts to renew a token that is still valid
# Seconds; a newer token that gets a 401 is not replaced by another.
_YOUNG: Final = 60.0
_LARGEST: Final = 64 * 1024  # bytes of a response
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,8192}")
_CODE: Final = re.compile(r"[\w.-]{1,64}", re.ASCII)
_CUT: Final = 200


@attrs.define(eq=False)
class Token:
    """An access token. Times are seconds on trio's clock.

    Args:
      value: the token.
      since: when it was requested.
      renew_at: when to renew it.
      until: when it expires.
      accepted: True once the server has accepted it.
    """

    value: Secret
    since: float
    renew_at: float
    until: float
    accepted: bool = False

    def accept(self) -> None:
        """Note that the server has accepted this token."""
        self.accepted = True


@attrs.define(eq=False)
class _Flight:
    """One fetch of a token, shared by all callers that wait for it."""

    over: trio.Event = attrs.field(factory=trio.Event)
    token: Token | None = None
    why: str = "the connection is being closed"


@asynccontextmanager
async def open_tokens(
    spec: ServerSpec, oauth: OAuth, masking: Masking
) -> AsyncGenerator[Tokens]:
    """Yield the token source for the server of ``spec``, until the block is left.

    Each token that is fetched is added to ``masking``. Leaving the block cancels a
    fetch that is still running.
    """
    assert spec.url is not None
    # Imported here, because only OAuth needs it and it loads the web tools.
    from .outward import OutwardTransport, allowed_by

    limit = min(_LONGEST_FETCH, _SHARE * spec.start_timeout)
    tls = await trusted()
    # Addresses that the server names are restricted; those the operator named are not.
    transport = None
    if oauth.token_url is None:
        transport = OutwardTransport(allowed_by([spec.url]), tls)
    async with (
        httpx2.AsyncClient(
            verify=tls,
            transport=transport,
            timeout=httpx2.Timeout(limit),
            event_hooks={"request": [hush]},
        ) as client,
        trio.open_nursery() as nursery,
    ):
        yield Tokens(spec.url, oauth, nursery, client, limit, masking)
        nursery.cancel_scope.cancel()


@attrs.define(eq=False)
class Tokens:
    """The source of the token in force. Every request asks it anew."""

    _url: str = attrs.field(repr=without_secrets)
    _oauth: OAuth
    _nursery: trio.Nursery = attrs.field(repr=False)
    _client: httpx2.AsyncClient = attrs.field(repr=False)
    _limit: float
    _masking: Masking = attrs.field(repr=False)
    _endpoint: TokenEndpoint | None = attrs.field(default=None, init=False)
    _token: Token | None = attrs.field(default=None, init=False)
    _flight: _Flight | None = attrs.field(default=None, init=False)
    _rests_until: float = attrs.field(default=-math.inf, init=False)

    def __attrs_post_init__(self) -> None:
        if self._oauth.token_url is not None:
            # Which way the endpoint takes the secret is not known; most take it in the
            # header.
            self._endpoint = TokenEndpoint(
                self._oauth.token_url, (BASIC, POST), resource_of(self._url)
            )

    async def current(self) -> Token | None:
        """Return the token for a request.

        Returns None as long as it is not known who issues tokens: the server says that
        when it refuses the first request. Waits for a fetch only if there is no valid
        token.

        Raises:
          NoToken: if no token can be had.
        """
        token, now = self._token, trio.current_time()
        if token is not None and now < token.until:
            if now >= token.renew_at and now >= self._rests_until:
                self._take_off({})
            return token
        if token is None and self._endpoint is None:
            # The server's refusal of a request without a token says where to ask.
            return None
        return await self._next({})

    async def instead_of(
        self, refused: Token | None, www_authenticate: str | None
    ) -> Token | None:
        """Return a token to replace one that got a 401; None if the refusal is final.

        Args:
          refused: the token that was sent, None if none was.
          www_authenticate: the header of the refusal.

        Raises:
          NoToken: if no token can be had.
        """
        if refused is not None and self._token is refused:
            age = trio.current_time() - refused.since
            if not refused.accepted and age < _YOUNG:
                # A server that refuses a new token refuses the next one too.
                return None
            self._token = None
        if self._token is not None:
            return self._token  # another request was refused first, and has replaced it
        return await self._next(challenge_of(www_authenticate))

    async def _next(self, challenge: Mapping[str, str]) -> Token:
        """Wait for the fetch that is running, or start one, and return its token."""
        flight = self._take_off(challenge)
        await flight.over.wait()
        if flight.token is None:
            raise NoToken(flight.why)
        return flight.token

    def _take_off(self, challenge: Mapping[str, str]) -> _Flight:
        """Return the fetch that is running; start one if there is none."""
        if self._flight is None:
            self._flight = _Flight()
            self._nursery.start_soon(self._fly, self._flight, challenge)
        return self._flight

    async def _fly(self, flight: _Flight, challenge: Mapping[str, str]) -> None:
        """Run one fetch, and set its result or the reason of its failure."""
        try:
            with (
                quiet(self._masking.text),
                trio.move_on_after(self._limit) as patience,
            ):
                self._token = flight.token = await self._fetch(challenge)
            if patience.cancelled_caught:
                flight.why = f"no token within {in_ms(self._limit)}"
        except NoToken as error:
            flight.why = str(error)
        except httpx2.HTTPError as error:
            why = str(error) or type(error).__name__
            flight.why = f"the token endpoint cannot be reached: {why}"
        except Exception as error:  # foreign code, with addresses that a server chose
            flight.why = (
                f"the request to the token endpoint failed: {type(error).__name__}"
            )
        finally:
            if flight.token is None:
                self._rests_until = trio.current_time() + _PAUSE
            self._flight = None
            flight.over.set()

    async def _fetch(self, challenge: Mapping[str, str]) -> Token:
        """Ask the endpoint for a token, by each method until one is accepted."""
        if self._endpoint is None:
            self._endpoint = await discover(self._url, challenge, self._document)
        endpoint = self._endpoint
        scopes = (
            self._oauth.scopes
            or tuple(challenge.get("scope", "").split())
            or endpoint.scopes
        )
        for method in endpoint.methods:
            since = trio.current_time()
            status, answer = await self._ask(endpoint, method, scopes)
            if status == httpx2.codes.OK:
                self._endpoint = attrs.evolve(
                    endpoint, methods=(method,), scopes=scopes
                )
                token = _token(answer, since)
                self._masking.learn(token.value.reveal())
                return token
            if answer.get("error") != "invalid_client":
                break
        raise NoToken(self._refusal(status, answer))

    async def _ask(
        self, endpoint: TokenEndpoint, method: str, scopes: tuple[str, ...]
    ) -> tuple[int, Mapping[str, Any]]:
        """Send the token request; return the status and the JSON of the response."""
        form = {"grant_type": "client_credentials", "resource": endpoint.resource}
        if scopes:
            form["scope"] = " ".join(scopes)
        ident, secret = self._oauth.client_id, self._oauth.client_secret.reveal()
        headers = {"Accept": "application/json"}
        if method == BASIC:
            headers["Authorization"] = f"Basic {_basic(ident, secret)}"
        else:
            form |= {"client_id": ident, "client_secret": secret}
        async with self._client.stream(
            "POST", endpoint.url, data=form, headers=headers
        ) as response:
            return response.status_code, await _object(response) or {}

    async def _document(self, url: str) -> Mapping[str, Any] | None:
        """Return the metadata document at ``url``; None if there is none."""
        headers = {"Accept": "application/json"}
        async with self._client.stream("GET", url, headers=headers) as response:
            if response.status_code >= 500 or response.status_code == 429:
                where, status = without_secrets(url), response.status_code
                raise NoToken(f"{where} answered HTTP {status}")
            return await _object(response) if response.status_code == 200 else None

    def _refusal(self, status: int, answer: Mapping[str, Any]) -> str:
        """Describe an endpoint's refusal in words that are safe to show."""
        code, said = answer.get("error"), answer.get("error_description")
        if not isinstance(code, str) or not _CODE.fullmatch(code):
            return f"the token endpoint answered HTTP {status}"
        text = f"the token endpoint refused: {code}"
        if isinstance(said, str) and (said := "".join(filter(str.isprintable, said))):
            text += f" ({self._masking.text(said)[:_CUT]})"
        return self._masking.text(text)


def _basic(ident: str, secret: str) -> str:
    # RFC 6749, 2.3.1: encode both like the fields of a form first.
    pair = f"{quote_plus(ident)}:{quote_plus(secret)}"
    return base64.b64encode(pair.encode()).decode()


async def _object(response: httpx2.Response) -> Mapping[str, Any] | None:
    """Return the JSON object of a response; None if it is anything else, or large."""
    body = await whole(response, _LARGEST)
    try:
        answer = json.loads(body or b"")
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def _token(answer: Mapping[str, Any], since: float) -> Token:
    """Build the `Token` of an endpoint's answer.

    Raises:
      NoToken: if the answer holds no bearer token.
    """
    value, kind = answer.get("access_token"), answer.get("token_type", "bearer")
    if not isinstance(value, str) or not _TOKEN.fullmatch(value):
        raise NoToken("the token endpoint sent no token")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise NoToken("the token endpoint sent a token that is not a bearer token")
    life = _life(answer.get("expires_in"))
    return Token(
        Secret(value),
        since=since,
        renew_at=since + life - min(_MARGIN, life / 10),
        until=since + life,
    )


def _life(expires_in: object) -> float:
    """Return the life of a token in seconds; inf if the answer does not say."""
    try:
        life = float(expires_in) if type(expires_in) in (int, float, str) else 0.0  # type: ignore[arg-type]
    except (ValueError, OverflowError):
        life = 0.0
    return life if 0 < life < math.inf else math.inf
