"""``glyphoxa cluster …``: sessions on several machines."""

from __future__ import annotations

from typing import Annotated

import typer

from .application import Commands
from .consent import Yes
from .model_options import BaseUrl, ModelName, chosen_model
from .proofs import Config
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
    checked_media,
    checked_options,
    checked_probes,
)

cluster_app = Commands(
    name="cluster",
    help=(
        "Sessions on several machines: start a worker, see which there are, speak with"
        " them. On one machine, dev does all of it.\n\nNATS carries the messages, and"
        " the memory of CONFIG says who has which session: a PostgreSQL database, or a"
        " file if all workers are on this machine. docs/cluster.md says more."
    ),
    no_args_is_help=True,
)

Nats = Annotated[
    str,
    typer.Option(
        "--nats",
        metavar="URL",
        envvar="NATS_URL",
        help="A server of NATS: nats://HOST:PORT, or tls://. With a user and password,"
        " give it in the variable.",
    ),
]
Deployment = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="The workers and clients that belong together: letters, digits, _ and -.",
    ),
]
TenantName = Annotated[
    str,
    typer.Option(metavar="NAME", help="The owner of the session.", show_default=False),
]
LOCAL = "nats://127.0.0.1:4222"


def check_libraries(needed_by: str = "glyphoxa cluster") -> None:
    """Leave with a line that says what to install, unless it is installed."""
    from glyphoxa_trio.extras import ExtraMissing, require

    try:
        require(needed_by, "cluster")
    except ExtraMissing as error:
        from .common import complain

        raise typer.Exit(complain(error)) from None


@cluster_app.command()
def worker(
    context: typer.Context,
    config: Config,
    nats: Nats = LOCAL,
    deployment: Deployment = "default",
    most: Annotated[
        int, typer.Option("--max-sessions", min=1, help="So many at a time.")
    ] = 10_000,
    within: Annotated[
        float,
        typer.Option(min=0.0, max=3600.0, help="Seconds for turns when it is to stop."),
    ] = 30.0,
    probes: ProbesAddress = None,
    media: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Serve the audio of NPCs here, by WebSocket; port 0 is any free one."
            " An address that other machines reach needs TLS or --behind-proxy.",
            show_default=False,
        ),
    ] = None,
    media_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The address of --media as clients reach it: wss://HOST:PORT.",
            show_default=False,
        ),
    ] = None,
    tls_cert: TlsCertificate = None,
    tls_key: TlsKey = None,
    behind_proxy: BehindProxy = False,
    allow_host: AllowHost = None,
    allow_origin: AllowOrigin = None,
    model: ModelName = None,
    base_url: BaseUrl = None,
    _yes: Yes = False,
) -> None:
    """Serve the NPCs of CONFIG to clients on other machines, until it is told to stop.

    SIGTERM, Ctrl-C, or `glyphoxa cluster drain`, gives its sessions to the other
    workers, each when it is quiet; a second signal stops at once. Exit status: 0
    stopped, 2 bad input.
    """
    check_libraries()
    from .cluster_runs import serve_sessions as run

    chosen = chosen_model(context, model, base_url)
    audio = None
    if media is not None:
        audio = checked_media(
            media,
            media_url=media_url,
            tls_cert=tls_cert,
            tls_key=tls_key,
            behind_proxy=behind_proxy,
            allow_origins=allow_origin or (),
        )
    elif media_url or tls_cert or tls_key or behind_proxy or allow_origin:
        raise typer.BadParameter("the address of audio needs --media")
    status = run(
        config,
        chosen,
        nats,
        deployment=deployment,
        most=most,
        within=within,
        probes=checked_probes(probes, allow_host or ()),
        media=audio,
    )
    raise typer.Exit(status)


@cluster_app.command()
def gateway(
    nats: Nats = LOCAL,
    deployment: Deployment = "default",
    tenant: TenantName = "",
    http: HttpAddress = "127.0.0.1:8080",
    token_file: TokenFile = None,
    tls_cert: TlsCertificate = None,
    tls_key: TlsKey = None,
    behind_proxy: BehindProxy = False,
    allow_host: AllowHost = None,
    allow_origin: AllowOrigin = None,
    rate_limit: RateLimit = None,
    probes: ProbesAddress = None,
) -> None:
    """Serve the NPCs of a cluster to other programs, by WebSocket and HTTP.

    Clients of `glyphoxa run` speak with it as they are, at ws://HOST:PORT/ws. It keeps
    nothing, so start as many as you like. SIGTERM lets turns finish for five seconds.
    """
    check_libraries()
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
    from .cluster_gateway import serve_gateway as run

    raise typer.Exit(run(nats, options, deployment=deployment, tenant=tenant))


@cluster_app.command()
def dev(
    context: typer.Context,
    config: Config,
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="So many processes serve.")
    ] = 2,
    session: Annotated[
        str, typer.Option(metavar="NAME", help="The conversation.")
    ] = "dev",
    model: ModelName = None,
    base_url: BaseUrl = None,
    _yes: Yes = False,
) -> None:
    """Run workers and a nats-server on this machine, and talk to the NPCs of CONFIG.

    The nats-server of the PATH listens on a free port of this machine, without a
    password. A worker that ends is started again: kill -9 the one that /where names,
    and the conversation goes on with another. Everything ends with the input, or
    with the second Ctrl-C. Exit status: 0 ended, 2 bad input, or something does not
    start.
    """
    check_libraries()
    from .cluster_dev import develop as run

    chosen = chosen_model(context, model, base_url)
    raise typer.Exit(run(config, chosen, workers=workers, session=session))


@cluster_app.command()
def status(
    nats: Nats = LOCAL,
    deployment: Deployment = "default",
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="One JSON object: workers, each with worker, where, version, sessions,"
            " turns, room, late_ms, late_p99_ms, shed, journal_lag_ms, claims,"
            " restores, fenced, draining, still; what is 0 or false is left out.",
        ),
    ] = False,
) -> None:
    """Show the workers of a deployment, and what they do.

    Exit status: 0 shown, 1 there is none, 2 bad input.
    """
    check_libraries()
    from .cluster_operating import show_workers as run

    raise typer.Exit(run(nats, deployment=deployment, as_json=json))


@cluster_app.command()
def sessions(
    nats: Nats = LOCAL,
    deployment: Deployment = "default",
    tenant: Annotated[
        str | None,
        typer.Option(metavar="NAME", help='Only of this owner; "" is of none.'),
    ] = None,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="One JSON object: sessions, each with session, tenant, worker, epoch,"
            " turns; more, the number of those left out; silent, workers that have not"
            " answered.",
        ),
    ] = False,
) -> None:
    """Show the sessions that workers have now, at most 1000 of each.

    Others are kept in the store, and go on wherever somebody speaks in them. Turns
    are those that run or wait. Exit status: 0 shown, 1 a worker has not answered, 2
    bad input.
    """
    check_libraries()
    from .cluster_operating import show_sessions as run

    raise typer.Exit(run(nats, deployment=deployment, tenant=tenant, as_json=json))


@cluster_app.command()
def where(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="Its name.")],
    nats: Nats = LOCAL,
    deployment: Deployment = "default",
    tenant: TenantName = "",
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="One JSON object: session, tenant, worker, epoch, turns, where.",
        ),
    ] = False,
) -> None:
    """Show the worker that has a session: its name, its process, and the epoch.

    Exit status: 0 shown, 1 no worker has it, 2 bad input.
    """
    check_libraries()
    from .cluster_operating import show_where as run

    raise typer.Exit(
        run(nats, session, deployment=deployment, tenant=tenant, as_json=json)
    )


@cluster_app.command()
def drain(
    worker: Annotated[
        str,
        typer.Argument(metavar="WORKER", help="A name of status, or its beginning."),
    ],
    nats: Nats = LOCAL,
    deployment: Deployment = "default",
    within: Annotated[
        float, typer.Option(min=0.0, max=3600.0, help="Seconds for turns that run.")
    ] = 30.0,
) -> None:
    """Have a worker give its sessions to the others, and end.

    Each goes when it is quiet; a turn that runs for longer than --within is
    interrupted. Waits until it has none. Exit status: 0 it has none, 1 it has not
    answered or still has some, 2 bad input.
    """
    check_libraries()
    from .cluster_operating import drain_worker as run

    raise typer.Exit(run(nats, worker, deployment=deployment, within=within))


@cluster_app.command()
def init(
    store: Annotated[
        str,
        typer.Option(
            metavar="URL",
            envvar="GLYPHOXA_STORE",
            help="The database: postgresql://USER@HOST/NAME. With a password, give it"
            " in the variable.",
        ),
    ],
) -> None:
    """Make the tables in a database, or bring those of an older version up to date.

    A worker does that, too, when it begins. Exit status: 0 they are there, 2 the
    database cannot be reached or used.
    """
    check_libraries()
    from .cluster_operating import make_tables as run

    raise typer.Exit(run(store))


@cluster_app.command()
def say(
    session: Annotated[
        str, typer.Argument(metavar="SESSION", help="Any name; it begins when needed.")
    ],
    npc: Annotated[str, typer.Argument(metavar="NPC", help="A name of CONFIG.")],
    text: Annotated[str, typer.Argument(help="What to say to it.")],
    nats: Nats = LOCAL,
    deployment: Deployment = "default",
    tenant: TenantName = "",
    within: Annotated[
        float, typer.Option(min=0.1, max=3600.0, help="Seconds for the answer.")
    ] = 30.0,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Every event as one line of JSON: event (its kind), and its fields;"
            " durations end in _ms.",
        ),
    ] = False,
) -> None:
    """Say TEXT to an NPC of a session, wherever that is, and print the answer.

    Exit status: 0 answered, 1 the turn failed or its worker was lost, 2 refused.
    """
    check_libraries()
    from .cluster_runs import say_once as run

    raise typer.Exit(
        run(
            nats,
            (session, npc, text),
            deployment=deployment,
            tenant=tenant,
            within=within,
            as_json=json,
        )
    )
