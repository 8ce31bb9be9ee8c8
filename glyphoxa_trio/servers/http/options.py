"""The options of ``glyphoxa serve`` for HTTP: their parser, checks and defaults.

Imports the standard library only, since the command has these options over stdio, too.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Final

import attrs

from glyphoxa_trio.secret import Secret

from .limits import KIB, LOCAL_HOSTS, Access, Limits

DEFAULT_ADDRESS: Final = "localhost:8081"
REMOTE_RATE: Final = 20.0  # calls a second of one session
TOKEN_VARIABLE: Final = "GLYPHOXA_SERVE_TOKEN"


@attrs.frozen(kw_only=True)
class HttpOptions:
    """The address, certificate, access rules and limits of a server over HTTP.

    ``option`` names the address in messages: the option that it was given with.
    """

    host: str
    port: int
    remote: bool
    access: Access
    limits: Limits = attrs.field(factory=Limits)
    certificate: Path | None = None
    key: Path | None = None
    option: str = "--http-addr"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that matter with ``--transport http``."""
    limits = Limits()
    group = parser.add_argument_group("with --transport http")
    group.add_argument(
        "--http-addr",
        metavar="HOST:PORT",
        help=f"where to listen; port 0: any free one; default: {DEFAULT_ADDRESS}",
    )
    group.add_argument(
        "--allow-remote",
        action="store_true",
        help="an address that other machines reach is meant; needs a token",
    )
    group.add_argument(
        "--token-file",
        metavar="FILE",
        type=Path,
        help="clients show one of these tokens, a line each; "
        f"or the one in {TOKEN_VARIABLE}",
    )
    group.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        help="a name that clients may ask for, as behind a proxy; may be repeated",
    )
    group.add_argument(
        "--allow-origin",
        metavar="ORIGIN",
        action="append",
        help="a page that may use the server, as https://example.org; may be repeated",
    )
    group.add_argument("--tls-cert", metavar="FILE", type=Path, help="PEM, with chain")
    group.add_argument("--tls-key", metavar="FILE", type=Path, help="PEM")
    group.add_argument(
        "--rate-limit",
        metavar="N",
        type=float,
        help=f"calls a second of one session, 0: any; default: {REMOTE_RATE:g}, on "
        "this machine any",
    )
    group.add_argument(
        "--max-body",
        metavar="KIB",
        type=int,
        help=f"of one request; default: {limits.body // KIB}",
    )
    group.add_argument(
        "--max-sessions",
        metavar="N",
        type=int,
        help=f"at once; default: {limits.sessions}",
    )
    group.add_argument(
        "--session-idle",
        metavar="SECONDS",
        type=float,
        help=f"an unused session ends; default: {limits.session_idle:g}",
    )
    group.add_argument(
        "--drain",
        metavar="SECONDS",
        type=float,
        help=f"for what runs when the server stops; default: {limits.drain:g}",
    )


_NAMES: Final = (
    *("http_addr", "allow_remote", "token_file", "allow_host", "allow_origin"),
    *("tls_cert", "tls_key", "rate_limit", "max_body", "max_sessions"),
    *("session_idle", "drain"),
)


def refuse_options(options: argparse.Namespace) -> None:
    """Refuse the HTTP options for a server on stdio, where they have no effect.

    Raises:
      ValueError: naming the options that were given.
    """
    values = {name: getattr(options, name) for name in _NAMES}
    given = [
        name
        for name, value in values.items()
        if value is not None and value is not False
    ]
    if given:
        flags = ", ".join("--" + name.replace("_", "-") for name in given)
        raise ValueError(f"{flags}: only with --transport http")


def http_options(
    options: argparse.Namespace, environment: Mapping[str, str] = os.environ
) -> HttpOptions:
    """Return the options for HTTP, checked.

    Raises:
      ValueError: for a bad option; the message names it.
    """
    host, port = parse_address(options.http_addr or DEFAULT_ADDRESS)
    tokens = _tokens(options.token_file, environment)
    local = is_loopback(host)
    if not local and not options.allow_remote:
        raise ValueError(
            f"--http-addr {host}: other machines reach it: "
            "that needs --allow-remote and a token"
        )
    if not local and not tokens:
        raise ValueError(
            f"--allow-remote: needs a token, in {TOKEN_VARIABLE} or --token-file"
        )
    if (options.tls_cert is None) != (options.tls_key is None):
        raise ValueError("--tls-cert and --tls-key: one needs the other")
    named = {host_name(name) for name in options.allow_host or ()}
    own = LOCAL_HOSTS if local else frozenset()
    return HttpOptions(
        host=host,
        port=port,
        remote=not local,
        access=Access(
            hosts=own | named | {bracketed(host).lower()},
            origins=frozenset(origin_name(item) for item in options.allow_origin or ()),
            tokens=tokens,
            local=local,
        ),
        limits=_limits(options, local=local),
        certificate=options.tls_cert,
        key=options.tls_key,
    )


def parse_address(text: str, option: str = "--http-addr") -> tuple[str, int]:
    """Split ``host:port`` or ``[::1]:port``; no host means every address.

    Raises:
      ValueError: if it is neither; the message names the ``option``.
    """
    wrong = ValueError(f"{option} {text[:100]!r}: write HOST:PORT or [ADDRESS]:PORT")
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise wrong
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise wrong
    return host or "0.0.0.0", int(port)


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches the address, judging by its text."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _limits(options: argparse.Namespace, *, local: bool) -> Limits:
    rate = _above("--rate-limit", options.rate_limit, zero=True)
    if rate is None and not local:
        rate = REMOTE_RATE
    given = {
        "rate": rate or None,
        "body": _above("--max-body", options.max_body, KIB),
        "sessions": _above("--max-sessions", options.max_sessions),
        "session_idle": _above("--session-idle", options.session_idle),
        "drain": _above("--drain", options.drain, zero=True),
    }
    return Limits(**{name: n for name, n in given.items() if n is not None})  # type: ignore[arg-type]


def _above(
    flag: str, number: float | None, unit: int = 1, *, zero: bool = False
) -> float | None:
    if number is None:
        return None
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        raise ValueError(f"{flag} {number:g}: must be more than 0")
    return number * unit


def _tokens(file: Path | None, environment: Mapping[str, str]) -> tuple[Secret, ...]:
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not text"
            raise ValueError(f"--token-file {file}: {reason}") from None
        found = [line.strip() for line in lines if line.strip()]
        if not found:
            raise ValueError(f"--token-file {file}: there is no token in it")
    else:
        found = (
            [token] if (token := environment.get(TOKEN_VARIABLE, "").strip()) else []
        )
    for number, token in enumerate(found, 1):
        if not token.isascii() or not token.isprintable() or " " in token:
            raise ValueError(f"token {number}: must be printable ASCII, without spaces")
    return tuple(Secret(token) for token in found)


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def host_name(name: str) -> str:
    if not name or "/" in name or name.rpartition(":")[2].isdigit():
        raise ValueError(f"--allow-host {name!r}: a name, without scheme and port")
    return name.lower()


def origin_name(text: str) -> str:
    scheme, mark, rest = text.partition("://")
    if scheme not in ("http", "https") or not mark or not rest or "/" in rest:
        raise ValueError(f"--allow-origin {text!r}: write https://NAME or with :PORT")
    return text.lower()
