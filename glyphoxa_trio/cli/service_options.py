"""The options of commands that serve other programs by WebSocket and HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from glyphoxa_trio.cluster.media_service import MediaOptions
    from glyphoxa_trio.servers.http.options import HttpOptions
    from glyphoxa_trio.service import ServiceOptions

HttpAddress = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        help="Where to listen; port 0 is any free one. An address that other"
        " machines reach needs --token-file, and TLS or --behind-proxy.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="In each line a role and a token: operator TOKEN, game_master TOKEN,"
        " or player:SESSION TOKEN. Without it, an operator's token is printed.",
        show_default=False,
    ),
]
TlsCertificate = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="PEM, with its chain.", show_default=False),
]
TlsKey = Annotated[
    Path | None, typer.Option(metavar="FILE", help="PEM.", show_default=False)
]
BehindProxy = Annotated[
    bool, typer.Option("--behind-proxy", help="A proxy in front of it does TLS.")
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="A name by which clients reach it, as through a proxy.",
        show_default=False,
    ),
]
AllowOrigin = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ORIGIN",
        help="A page of another origin that may use it, as https://example.org.",
        show_default=False,
    ),
]
RateLimit = Annotated[
    float | None,
    typer.Option(
        metavar="N",
        help="Requests a second of one client; 20 unless given, and any number if"
        " only this machine reaches it.",
        show_default=False,
    ),
]
ProbesAddress = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Another address, for /healthz, /readyz and /metrics only, without"
        " a token: for Kubernetes and Prometheus.",
        show_default=False,
    ),
]


def checked_probes(
    address: str | None, allow_hosts: Sequence[str]
) -> HttpOptions | None:
    """Return the options of ``--probes``, checked; None without an address.

    Raises:
      BadParameter: for a bad one, which the text names.
    """
    if address is None:
        return None
    from glyphoxa_trio.service.options import probes_options

    try:
        return probes_options(address, allow_hosts)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def checked_options(**given: Any) -> ServiceOptions:
    """Return the options, checked by `service_options`.

    Raises:
      BadParameter: for a bad one, which the text names.
    """
    from glyphoxa_trio.service import service_options

    try:
        return service_options(**given)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def checked_media(media: str, **given: Any) -> MediaOptions:
    """Return the options of a worker's audio, checked by `media_options`.

    Raises:
      BadParameter: for a bad one, which the text names.
    """
    from glyphoxa_trio.cluster.media_service import media_options

    try:
        return media_options(media, **given)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
