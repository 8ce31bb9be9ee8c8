"""The command line: verbs, their options and help."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import TyperException

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.servers.builtin import SHELF
from glyphoxa_trio.tools.tier import Tier

from .application import Commands, Force
from .cluster import cluster_app
from .common import BAD_INPUT, INTERRUPTED, complain, keep_existing
from .consent import Yes
from .discord_options import serve_on_discord
from .mcp import mcp_app
from .measurements import measurements_app
from .memory import memory_app
from .model_options import BaseUrl, ModelName, chosen_model
from .proofs import Config, proofs
from .service_options import (
    AllowHost,
    AllowOrigin,
    BehindProxy,
    HttpAddress,
    ProbesAddress,
    RateLimit,
    TlsCertificate,
    TlsKey,
    TokenFile,
    checked_options,
)
from .sessions import sessions_app
from .talk_options import talk

app = Commands(
    name="glyphoxa",
    help=(
        "NPCs whose tool calls never exceed the time limit of their tier: FAST"
        " 500 ms, STANDARD 1500 ms, DEEP 4000 ms."
        "\n\nStart with: glyphoxa demo. For NPCs of your own: glyphoxa init"
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Npc = Annotated[
    str, typer.Argument(help="The NPC's name, or the beginning of it.", metavar="NPC")
]


def _tier(text: str | None) -> Tier | None:
    if text is None:
        return None
    try:
        return Tier.parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


LogJson = Annotated[
    Path | None,
    typer.Option(
        "--log-json",
        help="Append a log of events to this file, one line of JSON for each call,"
        " turn, and change of a server.",
        show_default=False,
    ),
]

StandIn = Annotated[
    bool,
    typer.Option(
        "--stand-in",
        help="For NPCs with the engine s2s: a stand-in for their model, on this"
        " machine. No key, no network, and no real voice.",
    ),
]

Record = Annotated[
    Path | None,
    typer.Option(
        "--record",
        metavar="FILE",
        help="Record the session, for glyphoxa replay FILE. The file has the whole"
        " conversation, but no secrets.",
        show_default=False,
    ),
]

SessionFile = Annotated[
    Path | None,
    typer.Option(
        "--session",
        metavar="FILE",
        help="Go on with the conversation that is kept in this file, and keep it there"
        " after each answer. What was said is in it.",
        show_default=False,
    ),
]

History = Annotated[
    bool,
    typer.Option(
        "--history/--no-history",
        envvar="GLYPHOXA_HISTORY",
        help="Keep the lines that you type, for the arrow keys in the next run: the"
        " last 500, in a file of the state folder that only you can read. With"
        " mcp.remember: false in CONFIG, no lines are kept.",
    ),
]

Watch = Annotated[
    bool,
    typer.Option(
        "--watch", help="Read CONFIG again whenever it or its .mcp.json changes."
    ),
]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        "--metrics",
        metavar="PORT",
        min=0,
        max=65535,
        help="Serve Prometheus metrics at http://127.0.0.1:PORT/metrics; 0 is any"
        " free port.",
        show_default=False,
    ),
]
OptionalTier = Annotated[
    str | None,
    typer.Option(
        "--tier", help="fast, standard or deep.", metavar="TIER", show_default=False
    ),
]


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"glyphoxa {version('glyphoxa-trio')}")
        raise typer.Exit


@app.callback()
def glyphoxa(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_say_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Options before the verb."""


@app.command()
def demo(
    context: typer.Context,
    model: ModelName = None,
    base_url: BaseUrl = None,
    history: History = True,
) -> None:
    """Talk to three NPCs in a tavern. Needs no key and no network.

    Two MCP servers of the tavern are started: a quick ledger, and an oracle that takes
    its time. The files of the demo are kept in a folder of your user's own data.
    """
    from .play import play as run
    from .starter import tavern

    chosen = chosen_model(context, model, base_url)
    raise typer.Exit(run(tavern(), chosen, history=history))


@app.command()
def init(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="Where to; default: here.")
    ] = Path("."),
    reference: Annotated[
        bool,
        typer.Option(
            "--reference",
            help="Write nothing: print a configuration that explains every key.",
        ),
    ] = False,
) -> None:
    """Write a configuration with an NPC, a tool of your own and its test into DIR.

    The schema beside it lets editors complete and check the keys.
    """
    from .starter import init as run

    raise typer.Exit(run(folder, reference=reference))


@app.command()
def schema() -> None:
    """Print the JSON Schema of a configuration, for editors.

    `init` writes it beside the configuration. For one of your own:
    glyphoxa schema > glyphoxa.schema.json, and as the first line of the YAML file
    # yaml-language-server: $schema=./glyphoxa.schema.json
    """
    from .starter import schema_text

    typer.echo(schema_text(), nl=False)


@app.command()
def play(
    context: typer.Context,
    config: Annotated[
        list[str],
        typer.Argument(
            metavar="CONFIG",
            help="A configuration: YAML, TOML or JSON. With --cluster, the NPCs to"
            " talk to, by the beginnings of their names; none is all.",
            show_default=False,
        ),
    ] = [],  # noqa: B006 typer needs it
    model: ModelName = None,
    base_url: BaseUrl = None,
    log_json: LogJson = None,
    watch: Watch = False,
    metrics: MetricsPort = None,
    record: Record = None,
    force: Force = False,
    session: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Go on with the conversation that is kept in this file, and keep it"
            " there after each answer. What was said is in it. With --cluster, the"
            " name of a session.",
            show_default=False,
        ),
    ] = None,
    stand_in: StandIn = False,
    history: History = True,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Talk to the NPCs of the workers at this server of NATS"
            " (docs/cluster.md): nats://HOST:PORT, or tls://.",
            show_default=False,
        ),
    ] = None,
    deployment: Annotated[
        str, typer.Option(metavar="NAME", help="With --cluster: that of the workers.")
    ] = "default",
    tenant: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="With --cluster: the owner of the session.",
            show_default=False,
        ),
    ] = "",
    _yes: Yes = False,
) -> None:
    """Talk to the NPCs of CONFIG in the terminal.

    @Name says something to another NPC, /help lists the commands. Tab completes
    commands, names and tools; the arrow keys bring back earlier lines. The first
    Ctrl-C interrupts the NPC, the second leaves. Lines can be piped in, too:
    echo "roll 2d6+3 for me" | glyphoxa play npcs.yaml
    """
    chosen = chosen_model(context, model, base_url)
    if cluster is not None:
        here_only = ("model", "log_json", "watch", "metrics", "record", "stand_in")
        _refuse_options(context, *here_only)
        from .cluster import check_libraries

        check_libraries("glyphoxa play --cluster")
        from .play_cluster import play_in_cluster

        raise typer.Exit(
            play_in_cluster(
                cluster,
                config,
                deployment=deployment,
                tenant=tenant,
                session=session or "default",
            )
        )
    if len(config) != 1:
        raise typer.BadParameter("give one configuration", context, param_hint="CONFIG")
    from .play import play as run

    keep_existing(record, force)
    raise typer.Exit(
        run(
            Path(config[0]),
            chosen,
            log=log_json,
            watch=watch,
            metrics=metrics,
            record=record,
            session=None if session is None else Path(session),
            stand_in=stand_in,
            history=history,
        )
    )


def _refuse_options(context: typer.Context, *names: str) -> None:
    """Refuse what only a runtime in this process can do."""
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(
                "is for the process that has the NPCs",
                param_hint=f"--{name.replace('_', '-')}",
            )


app.command()(talk)
app.command(name="discord")(serve_on_discord)


@app.command(name="run")
def run_service(
    context: typer.Context,
    config: Config,
    http: HttpAddress = "127.0.0.1:8080",
    token_file: TokenFile = None,
    tls_cert: TlsCertificate = None,
    tls_key: TlsKey = None,
    behind_proxy: BehindProxy = False,
    allow_host: AllowHost = None,
    allow_origin: AllowOrigin = None,
    rate_limit: RateLimit = None,
    probes: ProbesAddress = None,
    model: ModelName = None,
    base_url: BaseUrl = None,
    log_json: LogJson = None,
    watch: Watch = False,
    _yes: Yes = False,
) -> None:
    """Serve the NPCs of CONFIG to other programs, by WebSocket and HTTP.

    Game servers, browsers and bots speak with them at ws://HOST:PORT/ws, as
    docs/service.md says. SIGTERM lets turns finish for five seconds.
    """
    from .run import serve_runtime

    chosen = chosen_model(context, model, base_url)
    options = checked_options(
        http=http,
        token_file=token_file,
        tls_cert=tls_cert,
        tls_key=tls_key,
        behind_proxy=behind_proxy,
        allow_hosts=allow_host or (),
        allow_origins=allow_origin or (),
        rate=rate_limit,
        probes=probes,
    )
    raise typer.Exit(serve_runtime(config, chosen, options, log=log_json, watch=watch))


@app.command()
def ask(
    context: typer.Context,
    config: Config,
    npc: Npc,
    text: Annotated[str, typer.Argument(help="What to say to it.")],
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Every event as one line of JSON: event (its kind), and its fields;"
            " durations end in _ms.",
        ),
    ] = False,
    tier: OptionalTier = None,
    model: ModelName = None,
    base_url: BaseUrl = None,
    log_json: LogJson = None,
    record: Record = None,
    force: Force = False,
    session: SessionFile = None,
    _yes: Yes = False,
) -> None:
    """Say TEXT to NPC once, and print the answer.

    With --json every event of the turn is a line: what was shown to the model,
    each call with its outcome and its milliseconds, each sentence, and at the end
    where the time went. Exit status: 0 answered, 1 the turn failed, 2 bad input.
    """
    from .ask import ask as run

    keep_existing(record, force)
    chosen = chosen_model(context, model, base_url)
    raise typer.Exit(
        run(
            config,
            npc,
            text,
            chosen,
            tier=_tier(tier),
            as_json=json,
            log=log_json,
            record=record,
            session=session,
        )
    )


@app.command()
def tools(
    config: Config,
    tier: OptionalTier = None,
    npc: Annotated[
        str | None,
        typer.Option("--npc", help="As this NPC sees them.", show_default=False),
    ] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Measure first.")
    ] = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="One JSON object: tier, npc, tools (each with tool, exposed_as,"
            " declared_ms, p50_ms, p99_ms, samples, badge, tier, health, shown,"
            " deferred, and in hidden why it is not shown), warnings.",
        ),
    ] = False,
    _yes: Yes = False,
) -> None:
    """List every tool: names, times, tier, health, and why a hidden one is hidden.

    The times are the declared one and the measured p50 and p99. A tool is shown if
    a model would see it in a turn of --tier (deep unless given).

    For each hidden tool there is the reason, and what would change it.
    """
    from .tools import tools as run

    raise typer.Exit(
        run(config, tier=_tier(tier), npc=npc, calibrate=calibrate, as_json=json)
    )


@app.command()
def calibrate(
    config: Config,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOOL]...",
            help="Call these tools, whatever they do.",
            show_default=False,
        ),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Call every tool, also those that write; list them and ask first.",
        ),
    ] = False,
    within: Annotated[
        float, typer.Option(help="Give up after so many seconds.", min=1.0)
    ] = 120.0,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            help="Call what --all lists without asking. It starts no server of the"
            " project's .mcp.json that is not agreed to yet; `mcp trust --yes` does.",
        ),
    ] = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="One JSON object: complete, measured (tool, samples, note), not_called"
            " (names), advice (tier_by, lines); and tier, npc, tools, warnings as those"
            " of glyphoxa tools.",
        ),
    ] = False,
) -> None:
    """Measure each tool five times, then show the table of tools.

    Without TOOL, it calls only tools that say that they only read, and only on this
    machine, and tools with probe arguments in CONFIG. It lists them before it calls
    them.
    """
    from .calibrate import calibrate as run

    raise typer.Exit(
        run(
            config,
            names=names or (),
            everything=everything,
            yes=yes,
            within=within,
            as_json=json,
        )
    )


@app.command()
def check(
    config: Config,
    servers: Annotated[
        bool,
        typer.Option(help="Start the servers and check the grants against them."),
    ] = True,
    model: Annotated[
        bool,
        typer.Option(
            "--model",
            help="Play a turn with each model: an NPC's tools, a call, its result,"
            " the answer; and time it. No tool is run.",
        ),
    ] = False,
    production: Annotated[
        bool,
        typer.Option(
            "--production",
            help="Count as a problem whatever is unfit for players: a server that is"
            " not there, an NPC without a voice that is heard, a stand-in that would"
            " answer.",
        ),
    ] = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="One JSON object: config, ok, problems, warnings, npcs (npc, granted,"
            " usable), models (model, npc, first_ms, call_ms, answer_ms, total_ms,"
            " called, tool, refused, input_tokens, output_tokens, error), npc_count,"
            " tool_count, servers, servers_ready; the counts only if the"
            " configuration can be read.",
        ),
    ] = False,
    _yes: Yes = False,
) -> None:
    """List every problem of CONFIG at once, each with its place.

    A server that is not there is a problem if an NPC's grant names it, else a warning;
    a model that does not answer is one, and so is a tool that its server refuses.
    Asking a vendor's model costs some tokens.
    Exit status: 0 all is well, or there are only warnings; 1 there are problems.
    """
    from .check import check as run

    raise typer.Exit(
        run(
            config,
            servers=servers,
            model=model,
            production=production,
            as_json=json,
        )
    )


Pid = Annotated[
    int | None,
    typer.Option(
        "--pid", help="Show only the runtime in this process.", show_default=False
    ),
]


@app.command()
def status(
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Each runtime as one line of JSON: pid, servers, npcs, sessions,"
            " turns_running, calls, hedging, models, cost, tools (how many), warnings.",
        ),
    ] = False,
    pid: Pid = None,
) -> None:
    """Show the state of the servers and NPCs of a running `glyphoxa play`.

    Other programs of yours with a control socket are asked, too. Exit status: 0
    a runtime answered, 1 no runtime is running.
    """
    from .status import status as run

    raise typer.Exit(run(pid=pid, as_json=json))


@app.command()
def reload(
    pid: Pid = None,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="One JSON object: generation, a number; added, removed, changed,"
            " groups, tried_again, keys, at_next_start, lists of names; deferred, true"
            " or false.",
        ),
    ] = False,
) -> None:
    """Have a running runtime read its configuration again.

    If it cannot be read, the old one stays in force, and the reason is shown here.
    """
    from .status import reload as run

    raise typer.Exit(run(pid=pid, as_json=json))


serve_app = Commands(
    name="serve",
    help=(
        "Serve tools over MCP to other programs: dice, rules, files and more."
        "\n\nThe servers are these; the path of a Python file, such as my_tools.py,"
        " serves your own tools in it. glyphoxa serve NAME --help shows the options of"
        " one. Exit status: 0 the client left, 2 it cannot be served as asked, 128 and"
        " its number after a signal."
    ),
    no_args_is_help=True,
)


def _server(name: str, purpose: str) -> None:
    """Add the command of one server. Its options are those of its own module."""

    @serve_app.command(
        name=name,
        help=f"{purpose[0].upper()}{purpose[1:]}.",
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )
    def serve(context: typer.Context) -> None:
        from glyphoxa_trio.servers.program.command import main

        raise typer.Exit(main([name, *context.args]))


for _name, _purpose in SHELF.items():
    _server(_name, _purpose)
app.add_typer(proofs)
app.add_typer(measurements_app)
app.add_typer(memory_app)
app.add_typer(sessions_app)
app.add_typer(cluster_app)
app.add_typer(mcp_app)
app.add_typer(serve_app)


def run_app(words: Sequence[str]) -> int:
    """Run a command of the application; return the exit status.

    A mistake on the command line is one line that says where to read more.
    """
    command = typer.main.get_command(app)
    try:
        status = command(list(words), prog_name="glyphoxa", standalone_mode=False)
    except TyperException as error:
        context = getattr(error, "ctx", None)
        path = "glyphoxa" if context is None else context.command_path
        message = " ".join(error.format_message().split())
        if message:  # else it has printed the help: nothing was asked for
            typer.echo(f"{path}: {message} (see {path} --help)", err=True)
        return BAD_INPUT
    except typer.Abort:
        return INTERRUPTED
    except GlyphoxaError as error:
        return complain(error)
    return status if isinstance(status, int) else 0
