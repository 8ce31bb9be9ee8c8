"""``glyphoxa mcp …``: the servers of a project, and its ``.mcp.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .application import Commands
from .consent import Yes

mcp_app = Commands(
    name="mcp",
    help=(
        "Add, list, remove and test MCP servers; agree to start those of a .mcp.json"
        " that others wrote; approve tools."
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
        help="Also use the servers of this configuration, and its .mcp.json.",
        show_default=False,
    ),
]

ApprovedIn = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="Start the servers of this configuration to look at the tool.",
        show_default=False,
    ),
]


@mcp_app.command(name="add")
def add_server(
    name: Name,
    command: Annotated[
        list[str] | None,
        typer.Argument(
            help="The command that starts the server, after a --; or its URL.",
            metavar="URL | -- CMD ARGS...",
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
            "--header",
            "-H",
            help="'Name: value', for every request.",
            show_default=False,
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env", "-e", help="NAME=value, for the server.", show_default=False
        ),
    ] = None,
    transport: Annotated[
        str | None,
        typer.Option(
            "--transport",
            "-t",
            help="stdio or http, if that is not clear.",
            show_default=False,
        ),
    ] = None,
    scope: Annotated[
        str | None,
        typer.Option(
            "--scope",
            "-s",
            help="project: other programs have this option, and call this file so.",
            show_default=False,
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="There may be one of that name.")
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Add a server to .mcp.json.

    glyphoxa mcp add files -- npx -y @modelcontextprotocol/server-filesystem .

    glyphoxa mcp add --transport http world https://world.example/mcp --header
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
            transport=transport,
            scope=scope,
            replace=replace,
            config=config,
        )
    )


@mcp_app.command(name="list")
def list_servers(
    config: ConfigOption = None,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="One JSON object: servers, each with name, transport, target, source,"
            " state, prompts.",
        ),
    ] = False,
) -> None:
    """List every configured server, where it is configured, and which entry is used.

    Nothing is started; `test` and `status` know how servers are. The prompts of servers
    are those of the last run. The values of variables and headers are not shown.
    """
    from .mcp_list import show

    raise typer.Exit(show(config, as_json=json))


@mcp_app.command(name="remove")
def remove_server(name: Name, config: ConfigOption = None) -> None:
    """Take a server out of .mcp.json. Exit status: 0 removed, 2 not."""
    from .mcp_edit import remove as run

    raise typer.Exit(run(name, config=config))


@mcp_app.command(name="trust")
def trust_servers(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="These servers only.", metavar="NAME...", show_default=False
        ),
    ] = None,
    config: ConfigOption = None,
    _yes: Yes = False,
) -> None:
    """Look at what .mcp.json would start here, and agree to it.

    Each server is shown before it is started for the first time, and when its entry
    changes; `play` asks by itself. Servers of `mcp add` need no question. Exit status:
    0 all of them may be started, 1 not all, 2 there is no such server.
    """
    from .mcp_trust import trust as run

    raise typer.Exit(run(names or [], config=config))


@mcp_app.command(name="approve")
def approve_tool(
    tool: Annotated[
        str, typer.Argument(help="The tool, as server.tool.", metavar="TOOL")
    ],
    pid: Annotated[
        int | None,
        typer.Option("--pid", help="In this process only.", show_default=False),
    ] = None,
    config: ApprovedIn = None,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            help="Approve it without asking. It starts no server of the project's"
            " .mcp.json that is not agreed to yet; `mcp trust --yes` does.",
        ),
    ] = False,
) -> None:
    """Approve the current version of a tool, until it changes.

    This is for a tool that a group or a glob grants and that is not approved yet, or
    for one whose description has changed since it was approved; `status` names the
    latter. Shows what the tool is now, and asks. The answer is for the program that
    runs or, with --config, for the next one. Exit status: 0 approved, 1 there was no
    need or no agreement, 2 not done.
    """
    from .approve import approve, approve_in

    if config is not None:
        raise typer.Exit(approve_in(tool, config, yes=yes))
    raise typer.Exit(approve(tool, pid=pid, yes=yes))


@mcp_app.command(name="test")
def try_server(
    name: Name,
    tool: Annotated[
        str | None,
        typer.Argument(help="Call this tool of the server, too.", show_default=False),
    ] = None,
    arguments: Annotated[
        str, typer.Argument(help="The arguments of the tool: a JSON object.")
    ] = "{}",
    config: ConfigOption = None,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="One JSON object: server, ok, steps (step, ok, took_ms, text), tools,"
            " prompts, warnings, and after a failure the server's last lines in"
            " stderr.",
        ),
    ] = False,
    _yes: Yes = False,
) -> None:
    """Connect to a server and list its tools; the time of each step.

    No tool is called unless you name one. Exit status: 0 all went well, 1 a step
    failed, 2 there is no such server, or ARGUMENTS is not a JSON object.
    """
    from .mcp_test import check_server as run

    raise typer.Exit(
        run(name, config=config, tool=tool, arguments=arguments, as_json=json)
    )
