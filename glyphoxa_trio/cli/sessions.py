"""``glyphoxa sessions …``: the sessions that a memory keeps."""

from __future__ import annotations

from typing import Annotated

import typer

from .application import Commands, Force
from .memory import Output, Tenant, Where

sessions_app = Commands(
    name="sessions",
    help=(
        "The sessions that were kept: list them, look at one, export it, end it."
        "\n\nCONFIG is a configuration, whose memory is used. A memory file, or the"
        " postgresql:// address of a database, may be given in its place; demo is that"
        " of glyphoxa demo."
    ),
    no_args_is_help=True,
)

SessionId = Annotated[
    str,
    typer.Argument(metavar="ID", help="The id of the session.", show_default=False),
]


@sessions_app.command(name="list")
def list_kept(
    where: Where,
    tenant: Tenant = None,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="One JSON object: sessions, each with tenant, session, campaign,"
            " holder, lines, last_at in Unix time, ended, state.",
        ),
    ] = False,
) -> None:
    """List the sessions, the one used last first, and which process has one open."""
    from .sessions_kept import list_sessions as run

    raise typer.Exit(run(where, tenant=tenant, as_json=json))


@sessions_app.command(name="show")
def show_kept(
    where: Where,
    session: SessionId,
    tenant: Tenant = None,
    limit: Annotated[
        int, typer.Option("--lines", min=0, max=100_000, help="So many lines.")
    ] = 20,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="One JSON object: tenant, session, campaign, holder, lines, last_at,"
            " ended, state, evenings (id, session, began, ended, summaries: each"
            " with known_to, text), last_lines"
            " (n, at, speaker, to, heard_by, evening, text).",
        ),
    ] = False,
) -> None:
    """Show the evenings of a session with all their summaries, and its last lines.

    Exit status: 0 shown, 2 there is no such session.
    """
    from .sessions_kept import show as run

    raise typer.Exit(run(where, session, tenant=tenant, limit=limit, as_json=json))


@sessions_app.command(name="export")
def export_kept(
    where: Where,
    session: SessionId,
    tenant: Tenant = None,
    output: Output = None,
    force: Force = False,
) -> None:
    """Write the evenings and lines of a session as JSON, for `memory import`.

    Exit status: 0 written, 2 there is no such session, or a file of that name.
    """
    from .sessions_kept import export as run

    raise typer.Exit(run(where, session, tenant=tenant, output=output, force=force))


@sessions_app.command(name="end")
def end_kept(
    where: Where,
    session: SessionId,
    tenant: Tenant = None,
    json: Annotated[
        bool,
        typer.Option("--json", help="One JSON object: session, ended, before."),
    ] = False,
) -> None:
    """End a session: its lines are kept, what NPCs would go on with is not.

    Exit status: 0 it has ended, 2 there is none, or a process has it open.
    """
    from .sessions_kept import end as run

    raise typer.Exit(run(where, session, tenant=tenant, as_json=json))
