"""Access control for HTTP requests: by Host, Origin and bearer token. No I/O."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Final

import attrs

from .limits import LOCAL_HOSTS, Access

Headers = Iterable[tuple[bytes, bytes]]

_MOST_BYTES: Final = 16 * 1024  # of all headers together
_MOST: Final = 100

# Headers that may occur only once: of two, a third party could choose which one counts.
_ONCE: Final = frozenset(
    {
        *("host", "origin", "authorization", "content-type", "content-length"),
        *("content-encoding", "mcp-session-id", "mcp-protocol-version"),
        *("last-event-id",),
    }
)


@attrs.frozen
class RequestRefusal:
    """The reason why a request is not served: an HTTP status, a text, and headers."""

    status: int
    message: str
    headers: Mapping[str, str] = attrs.field(factory=dict)


def read_headers(headers: Headers) -> dict[str, str] | RequestRefusal:
    """Return the headers by lower-case name, repeated ones joined, or a refusal.

    A refusal has status 431 for more than 16 KiB or 100 headers, and 400 for a second
    header of a kind that may occur only once.
    """
    found: dict[str, str] = {}
    size = 0
    for count, (raw_name, raw) in enumerate(headers, 1):
        size += len(raw_name) + len(raw)
        if size > _MOST_BYTES or count > _MOST:
            return RequestRefusal(431, "the headers are too long")
        name, text = raw_name.decode("latin-1").lower(), raw.decode("latin-1")
        if name in found:
            if name in _ONCE:
                return RequestRefusal(400, f"more than one {name} header")
            text = f"{found[name]}{'; ' if name == 'cookie' else ', '}{text}"
        found[name] = text
    return found


def refusal(headers: Mapping[str, str], access: Access) -> RequestRefusal | None:
    """Return the reason why this request may not come in; None if it may."""
    if not host_allowed(headers.get("host", ""), access):
        return RequestRefusal(421, "this Host is not allowed (see --allow-host)")
    origin = headers.get("origin")
    if origin is not None and not origin_allowed(origin, access):
        return RequestRefusal(403, "this Origin is not allowed (see --allow-origin)")
    if access.tokens and principal(headers, access) is None:
        challenge = 'Bearer realm="glyphoxa"'
        if "authorization" in headers:
            challenge += ', error="invalid_token"'
        return RequestRefusal(
            401, "a bearer token is needed", {"WWW-Authenticate": challenge}
        )
    return None


def principal(headers: Mapping[str, str], access: Access) -> str | None:
    """Return the name of the client whose token this is (its number); None without one.

    All tokens are compared, each in constant time. If the server has no tokens, all
    clients have the same name, the empty one.
    """
    if not access.tokens:
        return ""
    scheme, _, shown = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        return None
    given = shown.strip().encode("latin-1")
    found: str | None = None
    for number, token in enumerate(access.tokens):
        if hmac.compare_digest(token.reveal().encode(), given):
            found = str(number)
    return found


def host_allowed(host: str, access: Access) -> bool:
    name = _without_port(host.lower())
    if name is None:
        return False
    return name in access.hosts or (not access.local and _is_address(name))


def origin_allowed(origin: str, access: Access) -> bool:
    origin = origin.lower()
    if origin in access.origins:
        return True
    scheme, mark, rest = origin.partition("://")
    if not access.local or not mark or scheme not in ("http", "https"):
        return False
    return _without_port(rest) in LOCAL_HOSTS


def _without_port(host: str) -> str | None:
    if host.startswith("["):
        name, bracket, port = host.partition("]")
        if not bracket or (port and not port.startswith(":")):
            return None
        name += bracket
        port = port.removeprefix(":")
    else:
        name, _, port = host.partition(":")
    if not name or (port and not (port.isascii() and port.isdigit())):
        return None
    return name


def _is_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
