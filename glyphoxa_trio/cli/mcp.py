"""``glyphoxa mcp …``: the servers of a project, and its ``.mcp.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

mcp_app = typer.Typer(
    name="mcp",
    help=(
        "Add, list, remove and test MCP servers, approve their tools."
        "\n\nadd and remove edit the project's .mcp.json, which other programs share:"
        " the nearest one from here upward, within the repository. Without one it is"
        " made beside .git, or else here."
    ),
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(help="The server's name.", metavar="NAME")]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="A configuration: its servers count, too, and its project is meant.",
        show_default=False,
    ),
]


@mcp_app.command(name="add")
def add_server(
    name: Name,
    command: Annotated[
        list[str] | None,
        typer.Argument(
            help="What starts the server, behind a --.",
            metavar="-- CMD ARGS...",
            show_default=False,
        ),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option("--url", help="Where the server is.", show_default=False),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header", help="'Name: value', for every request.", show_default=False
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", help="NAME=value, for the server.", show_default=False),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="There may be one of that name.")
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Add a server to .mcp.json.

    glyphoxa mcp add files -- npx -y @modelcontextprotocol/server-filesystem .

    glyphoxa mcp add world --url https://world.example/mcp --header
    'Authorization: Bearer ${WORLD_TOKEN}'

    ${VAR} is written as it stands and read when the server is started, which keeps
    secrets out of the file. Exit status: 0 added, 2 not.
    """
    from .mcp_edit import add as run

    raise typer.Exit(
        run(
            name,
            command or [],
            url=url,
            headers=header or [],
            env=env or [],
            replace=replace,
            config=config,
        )
    )


@mcp_app.command(name="list")
def list_servers(config: ConfigOption = None) -> None:
    """Every server that is written down, where, and which of two counts.

    Nothing is started; `test` and `status` know how servers are. The values of
    variables and headers are not shown.
    """
    from .mcp_list import show

    raise typer.Exit(show(config))


@mcp_app.command(name="remove")
def remove_server(name: Name, config: ConfigOption = None) -> None:
    """Take a server out of .mcp.json. Exit status: 0 removed, 2 not."""
    from .mcp_edit import remove as run

    raise typer.Exit(run(name, config=config))


@mcp_app.command(name="approve")
def approve_tool(
    tool: Annotated[
        str, typer.Argument(help="The tool, as server.tool.", metavar="TOOL")
    ],
    pid: Annotated[
        int | None,
        typer.Option("--pid", help="In this process only.", show_default=False),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Approve it without asking.")
    ] = False,
) -> None:
    """Let a running runtime use a tool again that its server changed.

    A tool that is described otherwise than when it was approved is held back;
    status names those. Shows what the tool is now, and asks. Exit status: 0
    approved, 1 not held back or not approved, 2 not done.
    """
    from .approve import approve as run

    raise typer.Exit(run(tool, pid=pid, yes=yes))


@mcp_app.command(name="test")
def try_server(name: Name, config: ConfigOption = None) -> None:
    """Connect to a server, list its tools, call one; the time of each step.

    Called is a tool that only reads, or may be called twice. Exit status: 0 all
    went well, 1 a step failed, 2 there is no such server.
    """
    from .mcp_test import check_server as run

    raise typer.Exit(run(name, config=config))
