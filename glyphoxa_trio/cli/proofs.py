"""The verbs that prove, rehearse and compare: verify, simulate, replay, leaderboard,
telemetry. Part of `app`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glyphoxa_trio.tools.estimate import TierBy

from .application import Commands, Force
from .consent import Yes

proofs = Commands()

Config = Annotated[
    Path,
    typer.Argument(help="A configuration: YAML, TOML or JSON.", show_default=False),
]


@proofs.command()
def simulate(
    config: Config,
    script: Annotated[
        Path | None,
        typer.Option(
            help="A file with the conversation, the model's pace and latencies of"
            " tools: docs/simulating.md.",
            show_default=False,
        ),
    ] = None,
    turns: Annotated[
        int | None, typer.Option(help="How many turns.", min=1, show_default="500")
    ] = None,
    tier_by: Annotated[
        TierBy | None,
        typer.Option(help="Only this one; all three otherwise.", show_default=False),
    ] = None,
    online: Annotated[
        bool,
        typer.Option(
            "--online/--offline",
            help="Ask the servers what they offer, or use what earlier runs recorded.",
        ),
    ] = True,
    seed: Annotated[
        int, typer.Option(help="The same seed makes the same figures.")
    ] = 0,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="One JSON object: configured_tier_by, and runs: for each tier_by the"
            " times as p50_ms, p95_ms and p99_ms, shares of turns, calls, tools.",
        ),
    ] = False,
    pictures: Annotated[
        Path | None,
        typer.Option(help="Draw them into this folder.", show_default=False),
    ] = None,
    force: Force = False,
    _yes: Yes = False,
) -> None:
    """Simulate the turns of CONFIG, many of them in seconds.

    The production code on virtual time, with tools that take as long as was
    measured, stated or declared: time to the first sentence, whole turns, tiers,
    and how often a turn ends at its ceiling, under each tier_by.
    """
    from .simulate import run_simulation

    raise typer.Exit(
        run_simulation(
            config,
            script=script,
            turns=turns,
            tier_by=tier_by,
            online=online,
            seed=seed,
            in_json=json,
            pictures=pictures,
            force=force,
        )
    )


@proofs.command()
def verify(
    config: Config,
    online: Annotated[
        bool,
        typer.Option(
            "--online/--offline",
            help="Ask the servers what they offer, or use what earlier runs recorded.",
        ),
    ] = True,
    script: Annotated[
        Path | None,
        typer.Option(
            help="A file that states latencies of tools: docs/simulating.md.",
            show_default=False,
        ),
    ] = None,
    approvals: Annotated[
        bool,
        typer.Option(
            "--approvals",
            help="Questions about tools are answered in the middle of a turn, as by"
            " the approver of an application.",
        ),
    ] = False,
    evenings: Annotated[
        int, typer.Option(help="How many random evenings are played.", min=0)
    ] = 100,
    seconds: Annotated[
        float | None,
        typer.Option(
            help="Stop the evenings after so many seconds; then the verdict may differ"
            " between runs.",
            min=1.0,
            show_default="no end",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="The same seed makes the same evenings.")
    ] = 0,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write examples of errors into this folder, instead of a temporary"
            " one.",
            show_default=False,
        ),
    ] = None,
    force: Force = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="One JSON object: passed, explored (evenings, turns, complete), npcs"
            " (what each can reach in a tier, with its worst turn in _ms), findings"
            " (with their remedies).",
        ),
    ] = False,
    _yes: Yes = False,
) -> None:
    """Verify what each NPC can reach, its worst turns, and that every promise is kept.

    In each tier, each tool is called once at its usual latency; then come random
    evenings in which tools are slow, crash or ignore cancellation, in virtual time. For
    each error an
    example is written that glyphoxa replay shows. Exit status: 0 all is well, or there
    are only warnings; 1 there are errors; 2 bad input.
    """
    from .verify import verify as run

    raise typer.Exit(
        run(
            config,
            online=online,
            script=script,
            approvals=approvals,
            evenings=evenings,
            seconds=seconds,
            seed=seed,
            save=save,
            force=force,
            in_json=json,
        )
    )


@proofs.command()
def replay(
    recording: Annotated[
        Path,
        typer.Argument(help="What play --record has written.", show_default=False),
    ],
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", help="Play it under this one instead.", show_default=False
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Play it with this changed: tiers.fast.ceiling_ms=300,"
            " npcs.bartok.budget_tier=deep.",
            show_default=False,
        ),
    ] = None,
    events: Annotated[
        Path | None,
        typer.Option(
            "--events",
            help="Write the events that it comes to into this file.",
            show_default=False,
        ),
    ] = None,
    force: Force = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="One JSON object: same, what_if, events (how many), tolerance_ms,"
            " turns (at_ms, npc, said, tier, shown, calls, first_sentence_ms, end,"
            " total_ms), notes, difference (lines).",
        ),
    ] = False,
) -> None:
    """Play a recorded session again, on virtual time, and compare.

    The production code with the same words, answers and times comes to the same
    events; what a changed rule makes of them shows as a difference. Exit status: 0 the
    same, 1 not the same, 2 no recording that can be replayed.
    """
    from .replay import run_replay

    raise typer.Exit(
        run_replay(
            recording,
            config=config,
            settings=settings or (),
            events=events,
            force=force,
            in_json=json,
        )
    )


@proofs.command()
def leaderboard(
    config: Config,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Measure first.")
    ] = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Each tool as one line of JSON: category, rank (null if it is the only"
            " one), of, tool, transport, p50_ms, p99_ms, samples, badge, tag.",
        ),
    ] = False,
    _yes: Yes = False,
) -> None:
    """The tools that were measured, ranked by their median within each category.

    A category says what kind a tool is: the server's or the tool's `category` in
    CONFIG, else what the tool says of itself, else its server's name. The only one
    of its kind has no rank, and --json says null. The
    badge is Lightning below 50 ms, Fast below 200, Standard below 1000, else Slow;
    beside it stands in which turns there is room for the tool. Figures are those of
    earlier runs, where they are remembered, and of --calibrate.
    """
    from .leaderboard import leaderboard as run

    raise typer.Exit(run(config, calibrate=calibrate, as_json=json))


@proofs.command()
def telemetry(
    config: Config,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Measure first.")
    ] = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="One JSON object: enabled, interval_ms, to (files and addresses), and"
            " report, which is what would be sent.",
        ),
    ] = False,
    _yes: Yes = False,
) -> None:
    """Show the telemetry about the tools of CONFIG, and where it would be sent.

    Nothing is sent. Telemetry is off unless CONFIG says telemetry.enabled; then this
    is what a running table tells, with the figures as they are now.
    """
    from .leaderboard import preview as run

    raise typer.Exit(run(config, calibrate=calibrate, as_json=json))
