"""The secrets of a configuration, and the mask that hides them.

The following are secret: tokens, the settings of OAuth, the values of headers, the
  credentials in
addresses, what came from ``${VAR}`` in the entry of a server, variables whose name has
KEY, TOKEN, SECRET, PASS or AUTH, and what the entry lists under ``secrets``. What it
lists under ``not_secret`` is none; nor is a path or a time zone, which a model may have
to repeat.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote_plus, unquote, unquote_plus, urlsplit

import attrs

from glyphoxa_trio.secret import Mask, Secret

from .discreet import looks_random
from .model import Config
from .servers import ServerSpec

_NAMED: Final = re.compile(r"KEY|TOKEN|SECRET|PASS|AUTH", re.IGNORECASE)
# How a header begins that says what kind of secret follows.
_SCHEME: Final = re.compile(
    r"(?:bearer|basic|token|apikey|key)\s+(\S.*)", re.IGNORECASE | re.DOTALL
)
_TELLS_NOTHING: Final = frozenset(
    {"accept", "accept-encoding", "accept-language", "content-type", "user-agent"}
)
_TIME_ZONE: Final = re.compile(r"[A-Z][A-Za-z]+(?:/[A-Z][A-Za-z_-]+)+")
# Variables about the place and the language of the user.
_OF_THE_PLACE: Final = frozenset(
    {
        *("HOME", "HOSTNAME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "PWD", "SHELL"),
        *("TMPDIR", "TZ", "USER"),
        *("pathSeparator", "userHome", "workspaceFolder", "workspaceFolderBasename"),
    }
)


def mask_of(spec: ServerSpec) -> Mask:
    """Hides what the server of ``spec`` is told and must not repeat."""
    return Mask.of(secrets_of(spec))


def secrets_of(spec: ServerSpec) -> tuple[str, ...]:
    """Return the secrets that the server of ``spec`` is given and must not repeat."""
    free = {name.casefold() for name in spec.not_secret}
    named = {name.casefold() for name in spec.secrets}
    given = [*spec.env.items(), *spec.headers.items(), *spec.expanded.items()]
    released = {x.reveal() for name, x in given if name.casefold() in free}

    def found() -> Iterator[str]:
        for name, secret in given:
            if name.casefold() in named:
                yield secret.reveal()
        for name, secret in spec.env.items():
            value = secret.reveal()
            if _NAMED.search(name) and name.casefold() not in free | named:
                yield from () if _is_plain(value) else (value,)
        for name, secret in spec.headers.items():
            if name.casefold() not in free | _TELLS_NOTHING:
                yield from _of_header(secret.reveal())
        for name, secret in spec.expanded.items():
            value = secret.reveal()
            plain = name in _OF_THE_PLACE or value in released or _is_plain(value)
            if not plain and name.casefold() not in free:
                yield value
        if spec.token is not None:
            yield spec.token.reveal()
        if spec.oauth is not None:
            secret_ = spec.oauth.client_secret.reveal()
            yield from (secret_, quote_plus(secret_))  # RFC 6749, 2.3.1
            yield from of_address(spec.oauth.token_url or "", free)
        yield from of_address(spec.url or "", free)

    return tuple(dict.fromkeys(found()))


@attrs.define(eq=False)
class Masks:
    """Hide the secrets of a configuration, which may be another one each time."""

    _config: Callable[[], Config]
    _of: Config | None = attrs.field(default=None, init=False)
    _mask: Mask = attrs.field(factory=Mask, init=False)

    def text(self, text: str) -> str:
        config = self._config()
        if config is not self._of:
            self._of, self._mask = config, Mask.of(secrets_in(config))
        return self._mask.text(text)


def secrets_in(value: Any) -> Iterator[str]:
    """Everything secret in a configuration or a part of one, wherever it stands."""
    match value:
        case Secret():
            yield value.reveal()
        case ServerSpec():
            yield from secrets_of(value)
        case Mapping():
            for item in value.values():
                yield from secrets_in(item)
        case list() | tuple():
            for item in value:
                yield from secrets_in(item)
        case _ if attrs.has(type(value)):
            for field in attrs.fields(type(value)):
                item = getattr(value, field.name)
                yield from secrets_in(item)
                if field.name.endswith("url") and isinstance(item, str):
                    yield from of_address(item)


def _of_header(value: str) -> Iterator[str]:
    yield value
    if (scheme := _SCHEME.fullmatch(value)) is not None:
        yield scheme[1]


def of_address(
    url: str, free: frozenset[str] | set[str] = frozenset()
) -> Iterator[str]:
    """An address may hold a key: before its host, in its query, or in its path."""
    parts = urlsplit(url)
    user = parts.netloc.rpartition("@")[0]
    # As it is written, and as it is meant.
    for text in (user, parts.password or "", parts.query if not free else ""):
        yield from (text, unquote(text))
    for pair in parts.query.split("&"):
        name, _, value = pair.partition("=")
        if unquote_plus(name).casefold() not in free:
            yield from (value, unquote_plus(value))
    yield from filter(looks_random, parts.path.split("/"))


def _is_plain(value: str) -> bool:
    """Return true for a path on this machine, or a time zone."""
    if value.startswith(("~/", "./", "../")) or _TIME_ZONE.fullmatch(value):
        return True
    root, _, rest = value.partition("/")
    first = rest.partition("/")[0]
    return root == "" and bool(first) and os.path.isdir(f"/{first}")
