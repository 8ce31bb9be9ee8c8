"""``glyphoxa measurements …``: what earlier runs measured, listed and forgotten."""

from __future__ import annotations

from typing import Annotated

import typer

from .proofs import Config

measurements_app = typer.Typer(
    name="measurements",
    help="What earlier runs have measured of tools: list it, or forget it.",
    no_args_is_help=True,
)


@measurements_app.command(name="list")
def list_measurements(config: Config) -> None:
    """List what is remembered of each tool, by where it runs.

    Samples by kind: ok, tool_error (the tool said no), timeout (its own limit, or its
    server's), failed (the connection was lost), censored (the turn's time was up).
    """
    from .remembered import show as run

    raise typer.Exit(run(config))


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
) -> None:
    """Forget what was measured, so that the next start begins anew.

    A runtime that runs keeps what it knows until it is started again. Exit status: 0
    forgotten, 2 there is no such tool, or nothing to forget.
    """
    from .remembered import forget as run

    raise typer.Exit(run(config, tools or (), everything=everything))
