"""MCP servers as configured: one `ServerSpec` inside, whatever the file (D14)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import attrs

from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.naming import NamingStyle

from .fields import InMs, Text, above_zero, if_given, not_negative
from .overrides import ToolOverride
from .problems import ConfigError


class Transport(StrEnum):
    STDIO = "stdio"
    STREAMABLE_HTTP = "streamable-http"

    @classmethod
    def _missing_(cls, value: object) -> Transport | None:
        return cls.STREAMABLE_HTTP if value == "http" else None  # how most say it


@attrs.frozen(kw_only=True)
class RestartConfig:
    """How often a crashed server is started again (D17): after ``max_restarts``
    failures within ``period`` it has failed. ``backoff`` is the first pause and
    doubles. Both in seconds.
    """

    enabled: bool = True
    max_restarts: int = attrs.field(default=5, validator=not_negative)
    backoff: InMs = attrs.field(default=1.0, validator=not_negative)
    period: InMs = attrs.field(default=60.0, validator=above_zero)


@attrs.frozen(kw_only=True)
class McpDefaults:
    """What a server gets that does not state it, seconds (A27)."""

    timeout: InMs = attrs.field(default=10.0, validator=above_zero)
    start_timeout: InMs = attrs.field(default=10.0, validator=above_zero)


_SERVER_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def _usable_name(_: Any, __: attrs.Attribute[str], value: str) -> None:
    # The canonical key is `server.tool`, and grants are globs of it (D13).
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
        legal = legal and (parts.port is None or parts.port > 0)
    except ValueError:
        legal = False
    if not legal or any(c.isspace() or not c.isprintable() for c in value):
        raise ValueError("must be an address that starts with http:// or https://")


@attrs.frozen(kw_only=True)
class ServerSpec:
    """One MCP server, whichever way the file wrote it (D14).

    Args:
      command: executable and arguments of a stdio server.
      url: endpoint of a streamable HTTP server. It may hold a key: keep it out
        of logs.
      transport: follows from which of the two is given.
      env: what a stdio server gets beside the safe list (D15).
      token: for the ``Authorization`` header, without the word ``Bearer``.
      cwd: where a stdio server runs; None is the host's own directory.
      timeout: limit of one call, seconds; start_timeout: of connecting.
      lazy: connect when a tool of it is called for the first time, not at the
        start (A40); its tools are known from an earlier run.
      estimated_duration: declared median of all its tools, seconds (D1).
      environment: under which its measurements are kept (D10).
      allow: the tools taken from it, by their own names; empty is all.
      tools: by the tool's own name.

    Raises:
      ConfigError: naming each contradiction.
    """

    name: str = attrs.field(validator=_usable_name)
    command: tuple[str, ...] = ()
    url: str | None = attrs.field(default=None, validator=if_given(web_address))
    transport: Transport = attrs.field()
    env: Mapping[str, Secret] = attrs.field(factory=dict)
    cwd: Path | None = None
    headers: Mapping[str, Secret] = attrs.field(factory=dict)
    token: Secret | None = None
    restart: RestartConfig = RestartConfig()
    timeout: InMs = attrs.field(default=McpDefaults().timeout, validator=above_zero)
    start_timeout: InMs = attrs.field(
        default=McpDefaults().start_timeout, validator=above_zero
    )
    lazy: bool = False
    estimated_duration: InMs | None = attrs.field(
        default=None, validator=if_given(above_zero)
    )
    environment: str | None = None
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
        foreign = ("headers", "token") if stdio else ("env", "cwd")
        problems += [
            f"{'auth' if field == 'token' else field} means nothing to a"
            f" {self.transport} server"
            for field in foreign
            if getattr(self, field)
        ]
        if self.token and any(name.lower() == "authorization" for name in self.headers):
            problems.append("auth.token and an Authorization header: give one")
        return problems


@attrs.frozen(kw_only=True)
class McpConfig:
    """Other people's tools.

    Args:
      defer_threshold: with more external tools than this, a model is shown a
        summary and ``tool_search`` in place of all of them (N24 to N26).
      remember: keep each server's last list of tools, and which were approved,
        for the next run, in ``state_dir``; None is the user's own state folder.
    """

    enabled: bool = True
    naming: NamingStyle = NamingStyle.DOUBLE
    defer_threshold: int = attrs.field(default=15, validator=not_negative)
    remember: bool = True
    state_dir: Path | None = None
    defaults: McpDefaults = McpDefaults()
    servers: tuple[ServerSpec, ...] = ()
