"""``glyphoxa measurements …``: what earlier runs measured, listed and forgotten."""

from __future__ import annotations

from typing import Annotated

import typer

from .application import Commands
from .proofs import Config

measurements_app = Commands(
    name="measurements",
    help="What earlier runs have measured of tools: list it, or forget it.",
    no_args_is_help=True,
)


@measurements_app.command(name="list")
def list_measurements(
    config: Config,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="One JSON object: measurements, each with environment, tool, samples"
            " (how many of each kind), p50_ms, p99_ms, age_ms, expired.",
        ),
    ] = False,
) -> None:
    """List the measurements that are kept of each tool, by where it runs.

    Samples by kind: ok, tool_error (the tool said no), timeout (its own limit, or its
    server's), failed (the connection was lost), censored (the turn's time was up).
    """
    from .remembered import show as run

    raise typer.Exit(run(config, as_json=json))


@measurements_app.command()
def forget(
    config: Config,
    tools: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOOL]...",
            help="Forget what was measured of these: server.tool, the name that models"
            " see, a pattern such as 'clock.*', or a whole server.",
            show_default=False,
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Forget all that was measured.")
    ] = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="One JSON object: forgotten (names of tools), samples (how many).",
        ),
    ] = False,
) -> None:
    """Forget measurements, so that the next start begins without them.

    A runtime that runs keeps what it knows until it is started again. Exit status: 0
    forgotten, 2 there is no such tool, or nothing to forget.
    """
    from .remembered import forget as run

    raise typer.Exit(run(config, tools or (), everything=everything, as_json=json))
