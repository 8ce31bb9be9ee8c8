"""Discover which token endpoint serves an MCP server, starting from the server.

Two documents lead there: the server's protected resource metadata (RFC 9728) names an
issuer, and the issuer's own metadata (RFC 8414 or OpenID) names the token endpoint.
Anyone who could forge one of them would receive our secret. So each is read only from
an address where it cannot be changed on the way, and must name the server or issuer
that it was requested for.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import attrs

from glyphoxa_trio.config.servers import is_private, without_secrets
from glyphoxa_trio.errors import GlyphoxaError

BASIC: Final = "client_secret_basic"
POST: Final = "client_secret_post"

_RESOURCE: Final = "/.well-known/oauth-protected-resource"
_ISSUER: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"

_PARAMETER: Final = re.compile(r'([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')


class NoToken(GlyphoxaError):
    """No token can be had; the message tells an operator why."""


Fetch = Callable[[str], Awaitable[Mapping[str, Any] | None]]
"""A function that reads a JSON object from an address; None if there is none."""


@attrs.frozen
class TokenEndpoint:
    """The address of a token endpoint, and how to ask it.

    Args:
      methods: the ways to present the secret, in the order in which to try them.
      resource: the server's identifier by RFC 8707: the token is for this server.
      scopes: the scopes that the server says it needs.
    """

    url: str = attrs.field(repr=without_secrets)
    methods: tuple[str, ...]
    resource: str
    scopes: tuple[str, ...] = ()


def challenge_of(header: str | None) -> Mapping[str, str]:
    """Return the parameters of a ``WWW-Authenticate`` header, of any scheme."""
    return {
        name.lower(): re.sub(r"\\(.)", r"\1", quoted) or bare
        for name, quoted, bare in _PARAMETER.findall(header or "")
    }


def resource_of(url: str) -> str:
    """Return the identifier of the server at ``url``: only scheme, host and path."""
    return without_secrets(url)


async def discover(
    url: str, challenge: Mapping[str, str], fetch: Fetch
) -> TokenEndpoint:
    """Find the token endpoint for the server at ``url``.

    Args:
      url: the server's address.
      challenge: the parameters of its 401 response.
      fetch: reads a JSON document.

    Raises:
      NoToken: if the documents name none, or are not credible.
    """
    resource, issuer = resource_of(url), ""
    scopes: tuple[str, ...] = ()
    for address in _resource_documents(url, challenge):
        document = await fetch(address)
        issuers = _texts(document, "authorization_servers")
        if document is None or not issuers:
            continue
        named = document.get("resource")
        if not isinstance(named, str) or not _covers(named, resource):
            raise NoToken(f"{without_secrets(address)} describes another server")
        resource, issuer = named, issuers[0]
        scopes = _texts(document, "scopes_supported")
        break
    # Without that document the server's own origin issues its tokens, as the protocol
    # version 2025-03-26 defined it.
    issuer = issuer or _origin(url)
    _trusted(issuer, "its token issuer")
    for address in _issuer_documents(issuer):
        document = await fetch(address)
        if document is None:
            continue
        if not _same(document.get("issuer"), issuer):
            raise NoToken(f"{without_secrets(address)} describes another issuer")
        endpoint = document.get("token_endpoint")
        if not isinstance(endpoint, str):
            raise NoToken(f"{without_secrets(issuer)} has no token endpoint")
        _trusted(endpoint, "the token endpoint")
        return TokenEndpoint(endpoint, _methods(document), resource, scopes)
    raise NoToken(
        "it requires a token and does not say where to get one: set"
        " auth.oauth.token_url"
    )


def _resource_documents(url: str, challenge: Mapping[str, str]) -> Iterator[str]:
    """Yield the addresses at which the resource metadata may be."""
    if named := challenge.get("resource_metadata"):
        _trusted(named, "its resource metadata")
        yield named
    path = urlsplit(url).path
    if path.strip("/"):
        yield f"{_origin(url)}{_RESOURCE}{path}"
    yield f"{_origin(url)}{_RESOURCE}"


def _issuer_documents(issuer: str) -> Iterator[str]:
    """Yield the addresses at which an issuer's metadata may be."""
    origin, path = _origin(issuer), urlsplit(issuer).path.rstrip("/")
    yield f"{origin}{_ISSUER}{path}"
    yield f"{origin}{_OPENID}{path}"
    if path:
        yield f"{origin}{path}{_OPENID}"


def _methods(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the way to present the secret that the issuer prefers of those we know."""
    offered = _texts(document, "token_endpoint_auth_methods_supported")
    if not offered:
        return (BASIC,)  # RFC 8414: the default of an issuer that names none
    known = [method for method in (BASIC, POST) if method in offered]
    if not known:
        raise NoToken("the token endpoint accepts no client secret")
    return (known[0],)


def _trusted(url: str, what: str) -> None:
    """Check that an address that was named to us is safe to use.

    Raises:
      NoToken: if it is malformed, or neither https nor on this machine.
    """
    try:
        parts = urlsplit(url)
        legal = parts.scheme in ("http", "https") and bool(parts.hostname)
        legal = legal and not (parts.username or parts.fragment)
        legal = legal and url.isprintable() and " " not in url and is_private(url)
    except ValueError:
        legal = False
    if not legal:
        raise NoToken(f"{what} has no address that starts with https://")


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _covers(named: str, resource: str) -> bool:
    """Return whether ``named`` is ``resource``, or a folder that contains it."""
    try:
        same = _origin(named).lower() == _origin(resource).lower()
    except ValueError:
        return False
    folder = urlsplit(named).path.rstrip("/")
    path = urlsplit(resource).path.rstrip("/")
    return same and (path == folder or path.startswith(f"{folder}/"))


def _same(named: object, issuer: str) -> bool:
    """Return whether two issuers are the same.

    Issuers are compared as texts; only the slash after a bare host may be missing.
    """
    if not isinstance(named, str):
        return False
    bare = urlsplit(issuer).path in ("", "/")
    return named == issuer or (bare and named.rstrip("/") == issuer.rstrip("/"))


def _texts(document: Mapping[str, Any] | None, key: str) -> tuple[str, ...]:
    value = (document or {}).get(key)
    if not isinstance(value, list):
        return ()
    return tuple(item for item in value if isinstance(item, str))
