"""MCP servers as configured: one `ServerSpec` inside, whatever the file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import attrs

from glyphoxa_trio.secret import Secret

from .fields import (
    InMs,
    Text,
    above_zero,
    if_given,
    not_empty,
    not_negative,
)
from .overrides import ToolOverride
from .problems import ConfigError

# Names that no public server has: machines of one's own network, and of containers.
_OWN_NETWORKS: Final = (".localhost", ".local", ".internal", ".lan", ".home.arpa")


class Transport(StrEnum):
    """The way to a server: its pipes, or HTTP."""

    STDIO = "stdio"
    STREAMABLE_HTTP = "streamable-http"

    @classmethod
    def _missing_(cls, value: object) -> Transport | None:
        return cls.STREAMABLE_HTTP if value == "http" else None  # how most say it


@attrs.frozen(kw_only=True)
class RestartConfig:
    """The limit of how often a crashed server is started again: after ``max_restarts``
    failures within ``period`` it has failed. ``backoff`` is the first pause and
    doubles. Both in seconds.
    """

    enabled: bool = True
    max_restarts: int = attrs.field(default=5, validator=not_negative)
    backoff: InMs = attrs.field(default=1.0, validator=not_negative)
    period: InMs = attrs.field(default=60.0, validator=above_zero)


@attrs.frozen(kw_only=True)
class McpDefaults:
    """Settings of servers that do not state them, in seconds."""

    timeout: InMs = attrs.field(default=10.0, validator=above_zero)
    start_timeout: InMs = attrs.field(default=10.0, validator=above_zero)
    estimated_duration: InMs | None = attrs.field(
        default=None, validator=if_given(above_zero)
    )
    slow_response_threshold: InMs | None = attrs.field(
        default=None, validator=if_given(above_zero)
    )
    slow_response_message: Text | None = None


_SERVER_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def _usable_name(_: Any, __: attrs.Attribute[str], value: str) -> None:
    # The canonical key is `server.tool`, and grants are globs of it.
    if not _SERVER_NAME.fullmatch(value):
        raise ValueError(
            "must be 1 to 64 letters, digits, _ or -, because tools are written"
            " server.tool"
        )


def web_address(_: Any, __: attrs.Attribute[Any], value: str) -> None:
    # The value stays out of the message: an address may hold a password.
    try:
        parts = urlsplit(value)
        legal = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        legal = False
    if not legal:
        raise ValueError("must be an address that starts with http:// or https://")
    if any(c.isspace() or not c.isprintable() for c in value):
        raise ValueError("is an address with a space or an invisible character in it")
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise ValueError("has a port that is no number from 1 to 65535")


def is_private(url: str) -> bool:
    """Return true if no one on the way can read along: https, or this very machine."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    try:
        local = ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost" or host.endswith(".localhost")
    return parts.scheme == "https" or local


def is_near(url: str) -> bool:
    """Return true if the address is on this machine, or in a network of one's own."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    try:
        return not ip_address(host).is_global
    except ValueError:
        return "." not in host or host.endswith(_OWN_NETWORKS)


def without_secrets(url: str | None) -> str:
    """An address for people to read: no password, no query, no fragment."""
    if url is None:
        return "None"
    parts = urlsplit(url)
    return parts._replace(
        netloc=parts.netloc.rpartition("@")[2], query="", fragment=""
    ).geturl()


def _private(_: Any, __: attrs.Attribute[Any], value: str) -> None:
    if not is_private(value):
        raise ValueError(
            "must start with https://, unless it is on this machine: the secret would"
            " be readable on the way"
        )


def _secret_given(_: Any, __: attrs.Attribute[Any], value: Secret) -> None:
    if not value.reveal():
        raise ValueError("must not be empty")


# RFC 6749, 3.3: what a scope may be made of.
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


def _usable_scopes(_: Any, __: attrs.Attribute[Any], value: tuple[str, ...]) -> None:
    if not all(map(_SCOPE.fullmatch, value)):
        raise ValueError("a scope is one word: write a list of them")


class Sharing(StrEnum):
    """The sharing of a server's connection: one for all, or one for each session."""

    SHARED = "shared"
    PER_SESSION = "per_session"


@attrs.frozen(kw_only=True)
class OAuth:
    """The way to get tokens for a server by ourselves: OAuth 2.1 client credentials.

    Args:
      token_url: where tokens come from. Without it the server is asked who
        issues them, and so decides who gets to see the secret.
      scopes: what to ask for; without any, what the server says it needs.

    Raises:
      ValueError: for a ``token_url`` on which the secret could be read.
    """

    client_id: str = attrs.field(validator=not_empty)
    client_secret: Secret = attrs.field(validator=_secret_given)
    token_url: str | None = attrs.field(
        default=None,
        validator=if_given(attrs.validators.and_(web_address, _private)),
        repr=without_secrets,
    )
    scopes: tuple[Text, ...] = attrs.field(default=(), validator=_usable_scopes)


@attrs.frozen(kw_only=True)
class ServerSpec:
    """One MCP server, whichever way the file wrote it.

    Args:
      command: executable and arguments of a stdio server.
      url: endpoint of a streamable HTTP server. It may hold a key: keep it out
        of logs.
      transport: follows from which of the two is given.
      env: what a stdio server gets beside the safe list.
      token: for the ``Authorization`` header, without the word ``Bearer``.
      oauth: where that token comes from, in place of ``token``.
      secrets: names of variables, headers, parts of the query and ``${...}`` whose
        values the server must not repeat, beside those that are secret anyway;
        ``not_secret``: whose values it may (see `secrecy`).
      expanded: the values of ``${...}`` in its entry, by their names.
      cwd: where a stdio server runs; None is the host's own directory.
      timeout: limit of one call, seconds; start_timeout: of connecting.
      lazy: connect when a tool of it is called for the first time, not at the
        start; its tools are known from an earlier run.
      connection: whether each session has one of its own, for a server that keeps
        something for its client.
      estimated_duration: declared median of all its tools, seconds.
      slow_response_threshold, slow_response_message: of its tools that have none
        of their own: see `ToolDefinition`.
      environment: under which its measurements are kept.
      resources: offer its resources as two more tools, if it has any.
      allow: the tools taken from it, by their own names; empty is all.
      tools: by the tool's own name.

    Raises:
      ConfigError: naming each contradiction.
    """

    name: str = attrs.field(validator=_usable_name)
    command: tuple[str, ...] = ()
    url: str | None = attrs.field(
        default=None, validator=if_given(web_address), repr=without_secrets
    )
    transport: Transport = attrs.field()
    env: Mapping[str, Secret] = attrs.field(factory=dict)
    cwd: Path | None = None
    headers: Mapping[str, Secret] = attrs.field(factory=dict)
    token: Secret | None = None
    oauth: OAuth | None = None
    secrets: tuple[Text, ...] = ()
    not_secret: tuple[Text, ...] = ()
    expanded: Mapping[str, Secret] = attrs.field(factory=dict, eq=False)
    restart: RestartConfig = RestartConfig()
    timeout: InMs = attrs.field(default=McpDefaults().timeout, validator=above_zero)
    start_timeout: InMs = attrs.field(
        default=McpDefaults().start_timeout, validator=above_zero
    )
    lazy: bool = False
    connection: Sharing = Sharing.SHARED
    estimated_duration: InMs | None = attrs.field(
        default=None, validator=if_given(above_zero)
    )
    slow_response_threshold: InMs | None = attrs.field(
        default=None, validator=if_given(above_zero)
    )
    slow_response_message: Text | None = None
    environment: str | None = None
    category: Text | None = None
    resources: bool = True
    allow: tuple[Text, ...] = ()
    tools: Mapping[str, ToolOverride] = attrs.field(factory=dict)

    @transport.default
    def _follows(self) -> Transport:
        return Transport.STDIO if self.url is None else Transport.STREAMABLE_HTTP

    def __attrs_post_init__(self) -> None:
        if problems := tuple(self._contradictions()):
            raise ConfigError(*problems)

    def _contradictions(self) -> list[str]:
        stdio = self.transport is Transport.STDIO
        problems: list[str] = []
        if self.command and self.url is not None:
            problems.append("both a command and a url: give the one it is reached by")
        elif not self.command and self.url is None:
            problems.append("needs a command (stdio) or a url (streamable-http)")
        elif stdio and not self.command:
            problems.append("a stdio server needs a command, this one has a url")
        elif not stdio and self.url is None:
            problems.append("a streamable-http server needs a url, not a command")
        if self.command and not self.command[0]:
            problems.append("the first word of the command is empty")
        foreign = ("headers",) if stdio else ("env", "cwd")
        has_auth = self.token is not None or self.oauth is not None
        given = {
            "auth": stdio and has_auth,
            **{field: bool(getattr(self, field)) for field in foreign},
        }
        problems += [
            f"{field} means nothing to a {self.transport} server"
            for field, is_given in given.items()
            if is_given
        ]
        problems += () if stdio or not has_auth else self._two_ways_in()
        problems += self._nameless()
        return problems

    def _nameless(self) -> list[str]:
        """Return the names in ``secrets`` and ``not_secret`` that mean nothing here."""
        query = parse_qsl(urlsplit(self.url or "").query)
        names = [*self.env, *self.headers, *self.expanded, *(key for key, _ in query)]
        known = {name.casefold() for name in names}
        problems = [
            f"{key} names {name}, which is no variable in env, no header, no part of"
            " the query and no ${...} of this server"
            for key, given in (
                ("secrets", self.secrets),
                ("not_secret", self.not_secret),
            )
            for name in given
            if name.casefold() not in known
        ]
        free = {name.casefold() for name in self.not_secret}
        both = [name for name in self.secrets if name.casefold() in free]
        return [*problems, *(f"{x} is in secrets and in not_secret" for x in both)]

    def _two_ways_in(self) -> list[str]:
        """Return the contradictions of ``auth``: other ways to authenticate."""
        key = "auth.token" if self.oauth is None else "auth.oauth"
        problems: list[str] = []
        if any(name.lower() == "authorization" for name in self.headers):
            problems.append(f"{key} and an Authorization header: give one")
        if self.url is not None and "@" in urlsplit(self.url).netloc:
            problems.append(f"{key} and a password in the url: give one")
        if (
            self.oauth is not None
            and self.oauth.token_url is None
            and self.url is not None
            and not is_private(self.url)
        ):
            problems.append(
                "auth.oauth needs a token_url or a url with https://: over http"
                " an attacker on the way could name the receiver of the secret"
            )
        return problems
