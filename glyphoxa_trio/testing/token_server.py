"""A real token endpoint on loopback: OAuth 2.1 client credentials, with metadata.

    async with open_token_server(client_id="sage", client_secret="s") as tokens:

        def script(request: Request) -> Reply | None:
            return tokens.gate(request)  # 401 without a token of ours

        async with open_mcp_server(script) as server:
            tokens.protect(server.url)
            oauth = OAuth(client_id="sage", client_secret=Secret("s"))
            spec = ServerSpec(name="web", url=server.url, oauth=oauth)
            ...
    assert len(tokens.grants) == 1

It checks requests as the standards demand: the form, the secret in the header or in the
form, the scopes, the resource that the token is for. A token ends after ``expires_in``
seconds on trio's clock, or when it is revoked. ``replies`` replace its own answers, one
per token request; None keeps the server's own.
"""

from __future__ import annotations

import base64
import secrets
from binascii import Error as NotBase64
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote_plus, urlsplit

import attrs

import trio

from glyphoxa_trio.renamed import renamed

from .http_server import CloseConnection as CloseConnection
from .http_server import HttpServer, open_http_server
from .http_server import LateReply as LateReply
from .http_server import NoAnswer as NoAnswer
from .http_server import RawBytes as RawBytes
from .http_server import ReceivedRequest as ReceivedRequest
from .http_server import Reply as Reply
from .http_server import StatusReply as StatusReply

BASIC: Final = "client_secret_basic"
POST: Final = "client_secret_post"
_FORM: Final = "application/x-www-form-urlencoded"
_NOT_STORED: Final = {"Cache-Control": "no-store"}


@attrs.frozen
class TokenRequest:
    """One request for a token: how the secret was sent, and what was asked for."""

    method: str
    scopes: tuple[str, ...]
    resource: str | None
    form: Mapping[str, str] = attrs.field(repr=False)
    headers: Mapping[str, str] = attrs.field(repr=False)


@attrs.define(eq=False)
class TokenServer:
    """A running server, and the requests for tokens so far, good or bad."""

    client_id: str
    client_secret: str = attrs.field(repr=False)
    expires_in: float | None
    methods: Sequence[str] = (BASIC, POST)
    scopes: Sequence[str] = ()
    replies: list[Reply | None] = attrs.field(factory=list)
    grants: list[TokenRequest] = attrs.field(factory=list)
    documents: dict[str, Any] = attrs.field(factory=dict, repr=False)
    http: HttpServer = attrs.field(init=False)
    resource_metadata: str | None = attrs.field(default=None, init=False)
    _tokens: dict[str, float] = attrs.field(factory=dict, init=False, repr=False)
    _bound: dict[str, TokenRequest] = attrs.field(factory=dict, init=False, repr=False)

    @property
    def issuer(self) -> str:
        return f"{self.http.origin}/realm"

    @property
    def token_url(self) -> str:
        return f"{self.issuer}/token"

    @property
    def introspection_url(self) -> str:
        """The address at which a server of your own can check a token (RFC 7662)."""
        return f"{self.issuer}/introspect"

    @property
    def issued(self) -> list[str]:
        """All tokens issued so far, the latest one last."""
        return list(self._tokens)

    def revoke(self) -> None:
        """Invalidate all tokens issued so far."""
        self._tokens = dict.fromkeys(self._tokens, float("-inf"))

    def protect(self, url: str) -> None:
        """Publish that tokens for the MCP server at ``url`` are ours.

        A `gate` refers to it from then on.
        """
        where = f"/.well-known/oauth-protected-resource{urlsplit(url).path}"
        self.documents[where] = {
            "resource": url,
            "authorization_servers": [self.issuer],
            "scopes_supported": list(self.scopes),
        }
        self.resource_metadata = self.http.origin + where

    def accepts(self, request: ReceivedRequest) -> bool:
        """Return whether a request to an MCP server carries a valid token."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        until = self._tokens.get(token, float("-inf"))
        return scheme == "Bearer" and trio.current_time() < until

    def gate(self, request: ReceivedRequest) -> Reply | None:
        """Return None for a request that may pass, else the 401 for it."""
        if self.accepts(request):
            return None
        challenge = 'Bearer realm="tools", error="invalid_token"'
        if self.scopes:
            challenge += f', scope="{" ".join(self.scopes)}"'
        if self.resource_metadata is not None:
            challenge += f', resource_metadata="{self.resource_metadata}"'
        return StatusReply(401, {"WWW-Authenticate": challenge})

    def _answer(self, request: ReceivedRequest) -> Reply:
        if request.method == "GET" and request.path in self.documents:
            return StatusReply(body=self.documents[request.path])
        form = dict(parse_qsl(request.body.decode("latin-1"), keep_blank_values=True))
        at = self.http.origin + request.path
        if request.method == "POST" and at == self.introspection_url:
            return StatusReply(body=self._introspect(form.get("token", "")))
        if request.method != "POST" or at != self.token_url:
            return StatusReply(404)
        grant = TokenRequest(
            POST if "client_secret" in form else BASIC,
            tuple(form.get("scope", "").split()),
            form.get("resource"),
            form,
            request.headers,
        )
        self.grants.append(grant)
        reply = self.replies.pop(0) if self.replies else None
        return self._decide(grant) if reply is None else reply

    def _decide(self, grant: TokenRequest) -> Reply:
        if grant.headers.get("content-type") != _FORM:
            return _refuse(400, "invalid_request")
        if grant.method not in self.methods or not self._knows(grant):
            return _refuse(401, "invalid_client")
        if grant.form.get("grant_type") != "client_credentials":
            return _refuse(400, "unsupported_grant_type")
        if self.scopes and not set(grant.scopes) <= set(self.scopes):
            return _refuse(400, "invalid_scope")
        answer = self.issue()
        self._bound[self.issued[-1]] = grant
        return answer

    def _introspect(self, token: str) -> dict[str, Any]:
        grant = self._bound.get(token)
        if grant is None or trio.current_time() >= self._tokens[token]:
            return {"active": False}
        return {
            "active": True,
            "client_id": self.client_id,
            "scope": " ".join(grant.scopes),
            "aud": grant.resource,
        }

    def issue(self, **changes: Any) -> StatusReply:
        """Return a good answer with a new token, and ``changes`` in it."""
        token = secrets.token_urlsafe(24)
        life = float("inf") if self.expires_in is None else self.expires_in
        self._tokens[token] = trio.current_time() + life
        body: dict[str, Any] = {"access_token": token, "token_type": "Bearer"}
        if self.expires_in is not None:
            body["expires_in"] = self.expires_in
        return StatusReply(200, _NOT_STORED, body | changes)

    def _knows(self, grant: TokenRequest) -> bool:
        if grant.method == POST:
            pair = (grant.form.get("client_id"), grant.form["client_secret"])
            return pair == (self.client_id, self.client_secret)
        scheme, _, coded = grant.headers.get("authorization", "").partition(" ")
        try:
            ident, _, secret = base64.b64decode(coded).decode().partition(":")
        except (NotBase64, UnicodeDecodeError):
            return False
        known = (self.client_id, self.client_secret)
        return (
            scheme == "Basic" and (unquote_plus(ident), unquote_plus(secret)) == known
        )


@asynccontextmanager
async def open_token_server(
    *,
    client_id: str = "sage",
    client_secret: str = "a secret",
    expires_in: float | None = 3600,
    methods: Sequence[str] = (BASIC, POST),
    scopes: Sequence[str] = (),
    replies: Sequence[Reply | None] = (),
) -> AsyncIterator[TokenServer]:
    """Issue tokens on a free port of 127.0.0.1 until the block is left.

    Args:
      expires_in: seconds for which a token is valid; None leaves the field out.
      methods: the ways in which the secret may be sent; also in the metadata.
      scopes: the scopes that exist; if empty, scopes are not checked.
      replies: answers to the first requests for a token, in place of its own.
    """
    server = TokenServer(
        client_id, client_secret, expires_in, methods, scopes, list(replies)
    )
    async with open_http_server(server._answer) as http:
        server.http = http
        server.documents["/.well-known/oauth-authorization-server/realm"] = {
            "issuer": server.issuer,
            "token_endpoint": server.token_url,
            "token_endpoint_auth_methods_supported": list(methods),
            "grant_types_supported": ["client_credentials"],
            "response_types_supported": [],
        }
        yield server


def _refuse(status: int, why: str) -> StatusReply:
    challenge = {"WWW-Authenticate": "Basic"} if status == 401 else {}
    return StatusReply(status, {**challenge, **_NOT_STORED}, {"error": why})


if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, Grant="TokenRequest")
