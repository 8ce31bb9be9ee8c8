"""Tokens by OAuth 2.1 client credentials: fetched when needed, renewed before the end.

The SDK has such a flow. It holds one lock around every request of a server, so 64
calls would go one by one; it reads the wall clock; and its errors repeat what the
token endpoint said. Hence this one.

A token is fetched by a task of its own, whoever asked for it: callers that give up
on their own clock do not stop it for the others, and the next one finds it. Shortly
before its end a token is renewed in the background, so that no call waits for that.

Times are seconds on trio's clock. No token and no secret is ever in a text here.
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
_SHARE: Final = 0.8  # of a server's start: enough is left to say what went wrong
_MARGIN: Final = 60.0  # before its end a token is renewed, or a tenth of its life
_PAUSE: Final = 1.0  # between attempts to renew a token that is still good
_YOUNG: Final = 60.0
_LARGEST: Final = 64 * 1024  # bytes of an answer
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,8192}")
_CODE: Final = re.compile(r"[\w.-]{1,64}", re.ASCII)
_CUT: Final = 200


@attrs.define(eq=False)
class Token:
    """An access token. ``accepted``: the server has let it pass at least once."""

    value: Secret
    since: float
    renew_at: float
    until: float
    accepted: bool = False

    def accept(self) -> None:
        self.accepted = True


@attrs.define(eq=False)
class _Flight:
    """One fetch, and all who wait for it."""

    over: trio.Event = attrs.field(factory=trio.Event)
    token: Token | None = None
    why: str = "the connection is being closed"


@asynccontextmanager
async def open_tokens(
    spec: ServerSpec, oauth: OAuth, masking: Masking
) -> AsyncGenerator[Tokens]:
    """The tokens for the server of ``spec``, until the block is left.

    ``masking`` learns each of them.
    """
    assert spec.url is not None
    # Only where tokens are used: it knows how pages of the web are fetched.
    from .outward import OutwardTransport, allowed_by

    limit = min(_LONGEST_FETCH, _SHARE * spec.start_timeout)
    tls = httpx2.create_ssl_context()
    # What the server names is gone to by another way than what the operator named.
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
    """The token in force; every request asks for it anew."""

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
            # How it wants the secret is not known: most take it in the header.
            self._endpoint = TokenEndpoint(
                self._oauth.token_url, (BASIC, POST), resource_of(self._url)
            )

    async def current(self) -> Token | None:
        """The token for a request. None before the server was asked who issues it.

        Raises:
          NoToken: if there is none to be had.
        """
        token, now = self._token, trio.current_time()
        if token is not None and now < token.until:
            if now >= token.renew_at and now >= self._rests_until:
                self._take_off({})
            return token
        if token is None and self._endpoint is None:
            return None  # the server's refusal of a bare request says where to ask
        return await self._next({})

    async def instead_of(
        self, refused: Token | None, www_authenticate: str | None
    ) -> Token | None:
        """A better token than one that got a 401. None: there is none, it counts.

        Raises:
          NoToken: if there is none to be had.
        """
        if refused is not None and self._token is refused:
            age = trio.current_time() - refused.since
            if not refused.accepted and age < _YOUNG:
                return None  # a server that refuses new tokens refuses the next
            self._token = None
        if self._token is not None:
            return self._token  # somebody else was refused first
        return await self._next(challenge_of(www_authenticate))

    async def _next(self, challenge: Mapping[str, str]) -> Token:
        flight = self._take_off(challenge)
        await flight.over.wait()
        if flight.token is None:
            raise NoToken(flight.why)
        return flight.token

    def _take_off(self, challenge: Mapping[str, str]) -> _Flight:
        if self._flight is None:
            self._flight = _Flight()
            self._nursery.start_soon(self._fly, self._flight, challenge)
        return self._flight

    async def _fly(self, flight: _Flight, challenge: Mapping[str, str]) -> None:
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
        except Exception as error:  # foreign code, given addresses by a server
            flight.why = f"the token endpoint cannot be asked: {type(error).__name__}"
        finally:
            if flight.token is None:
                self._rests_until = trio.current_time() + _PAUSE
            self._flight = None
            flight.over.set()

    async def _fetch(self, challenge: Mapping[str, str]) -> Token:
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
        """A metadata document; None if there is none at ``url``."""
        headers = {"Accept": "application/json"}
        async with self._client.stream("GET", url, headers=headers) as response:
            if response.status_code >= 500 or response.status_code == 429:
                where, status = without_secrets(url), response.status_code
                raise NoToken(f"{where} answered HTTP {status}")
            return await _object(response) if response.status_code == 200 else None

    def _refusal(self, status: int, answer: Mapping[str, Any]) -> str:
        """What a token endpoint said, without what must not be shown."""
        code, said = answer.get("error"), answer.get("error_description")
        if not isinstance(code, str) or not _CODE.fullmatch(code):
            return f"the token endpoint answered HTTP {status}"
        text = f"the token endpoint refused: {code}"
        if isinstance(said, str) and (said := "".join(filter(str.isprintable, said))):
            text += f" ({self._masking.text(said)[:_CUT]})"
        return self._masking.text(text)


def _basic(ident: str, secret: str) -> str:
    # RFC 6749, 2.3.1: both are encoded like a form's fields first.
    pair = f"{quote_plus(ident)}:{quote_plus(secret)}"
    return base64.b64encode(pair.encode()).decode()


async def _object(response: httpx2.Response) -> Mapping[str, Any] | None:
    """The JSON object of an answer; None for anything else, or too much of it."""
    body = await whole(response, _LARGEST)
    try:
        answer = json.loads(body or b"")
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def _token(answer: Mapping[str, Any], since: float) -> Token:
    value, kind = answer.get("access_token"), answer.get("token_type", "bearer")
    if not isinstance(value, str) or not _TOKEN.fullmatch(value):
        raise NoToken("the token endpoint gave no token")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise NoToken("the token endpoint gave a token that is no bearer token")
    life = _life(answer.get("expires_in"))
    return Token(
        Secret(value),
        since=since,
        renew_at=since + life - min(_MARGIN, life / 10),
        until=since + life,
    )


def _life(expires_in: object) -> float:
    """For how long a token is good, seconds; inf if only a 401 will tell."""
    try:
        life = float(expires_in) if type(expires_in) in (int, float, str) else 0.0  # type: ignore[arg-type]
    except (ValueError, OverflowError):
        life = 0.0
    return life if 0 < life < math.inf else math.inf
