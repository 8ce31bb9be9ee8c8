"""``glyphoxa memory …``: the memory of a campaign, searched, filled and emptied."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .application import Commands, Force

memory_app = Commands(
    name="memory",
    help=(
        "What NPCs remember: look at it, search it, decide what is true, import a"
        " world, export, back up, forget a player."
        "\n\nCONFIG is a configuration, whose memory is used. A memory file, or the"
        " postgresql:// address of a database, may be given in its place; demo is that"
        " of glyphoxa demo."
    ),
    no_args_is_help=True,
)

Where = Annotated[
    str,
    typer.Argument(
        metavar="CONFIG",
        help="A configuration: YAML, TOML or JSON; or the place of a memory.",
        show_default=False,
    ),
]
Tenant = Annotated[
    str | None,
    typer.Option("--tenant", help="Of this tenant only.", show_default=False),
]
Campaign = Annotated[
    str | None,
    typer.Option("--campaign", help="Of this campaign only.", show_default=False),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write it there.", show_default=False
    ),
]


@memory_app.command(name="show")
def show_memory(
    where: Where,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="One JSON object: place, bytes (null of a database), campaigns (each"
            " with campaign, tenant, sessions, evenings, lines, entities, facts,"
            " to_review), embeddings (null, or model, done, of).",
        ),
    ] = False,
) -> None:
    """Show where the memory is, its campaigns, and how much is in each."""
    from .memory_show import show as run

    raise typer.Exit(run(where, as_json=json))


@memory_app.command(name="search")
def search_memory(
    where: Where,
    query: Annotated[
        str, typer.Argument(help="Words, in any order.", show_default=False)
    ],
    npc: Annotated[
        str | None,
        typer.Option("--npc", help="Only what this NPC may know.", show_default=False),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            help="With --npc: a topic that it knows about, beyond its knowledge_scope;"
            " repeatable.",
            show_default=False,
        ),
    ] = None,
    campaign: Campaign = None,
    tenant: Tenant = None,
    limit: Annotated[
        int, typer.Option(min=1, max=1000, help="At most so many of each kind.")
    ] = 10,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="One JSON object: query, partial, found (each with campaign, kind, id,"
            " at in Unix time, who, text, known_to).",
        ),
    ] = False,
) -> None:
    """Search entities by name, facts, and the lines that were said.

    You see everything, as the game master; with --npc what that NPC would find. Exit
    status: 0 also if nothing matches, 2 there is no such NPC or campaign.
    """
    from .memory_show import search as run

    raise typer.Exit(
        run(
            where,
            query,
            npc=npc,
            topics=topic or (),
            campaign=campaign,
            tenant=tenant,
            limit=limit,
            as_json=json,
        )
    )


@memory_app.command(name="explain")
def explain_prompt(
    where: Where,
    npc: Annotated[str, typer.Argument(help="The NPC.", show_default=False)],
    text: Annotated[
        str,
        typer.Argument(help="What a player says to it.", show_default=False),
    ],
    player: Annotated[
        str, typer.Option("--player", help="The name of the player who says it.")
    ] = "Player",
    session: Annotated[
        str, typer.Option("--session", help="The session in which it is said.")
    ] = "default",
    campaign: Campaign = None,
    tenant: Tenant = None,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="One JSON object: npc, campaign, system, tokens, told and left_out"
            " (each with part, text, why), missed (each with part, why).",
        ),
    ] = False,
) -> None:
    """Show what an NPC would be told before it answers, and why.

    First what the configuration says of it, then each line that memory adds, with where
    it is from and why it was chosen; then what the budgets of memory.recall left no
    room for. Nothing is asked of a model, and nothing is kept. What the conversation of
    the running evening has is no part of it. Exit status: 0; 2 there is no such NPC or
    campaign.
    """
    from .memory_explain import explain as run

    raise typer.Exit(
        run(
            where,
            npc,
            text,
            player=player,
            session=session,
            campaign=campaign,
            tenant=tenant,
            as_json=json,
        )
    )


@memory_app.command(name="summarise")
def summarise_evenings(
    where: Where,
    evenings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[EVENING]...",
            help="Only these; sessions show has their ids.",
            show_default=False,
        ),
    ] = None,
    again: Annotated[
        bool,
        typer.Option("--again", help="Also those that have a summary: it is replaced."),
    ] = False,
    campaign: Campaign = None,
    tenant: Tenant = None,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="One JSON object: summarised, unread, busy (ids of evenings),"
            " input_tokens, output_tokens.",
        ),
    ] = False,
) -> None:
    """Summarise evenings that are over, and find facts in them, with memory.model.

    A running program does that by itself. Here it is done at once, also for evenings
    whose summary could not be read before. Exit status: 0 done, 1 some could not be
    read, or another program is at them, 2 not done.
    """
    from .memory_summarise import summarise as run

    raise typer.Exit(
        run(
            where,
            evenings or (),
            again=again,
            campaign=campaign,
            tenant=tenant,
            as_json=json,
        )
    )


@memory_app.command(name="review")
def review_facts(
    where: Where,
    accept: Annotated[
        list[int] | None,
        typer.Option("--accept", metavar="ID", help="This fact is true."),
    ] = None,
    reject: Annotated[
        list[int] | None,
        typer.Option("--reject", metavar="ID", help="This fact is not true."),
    ] = None,
    secret: Annotated[
        list[int] | None,
        typer.Option(
            "--secret", metavar="ID", help="It is true, and no NPC may know it yet."
        ),
    ] = None,
    player: Annotated[
        str | None,
        typer.Option(
            "--player",
            help="Only what this player claims: the id or the name.",
            show_default=False,
        ),
    ] = None,
    about: Annotated[
        str | None,
        typer.Option(
            "--about",
            metavar="ENTITY",
            help="Only what is about this entity, or names it.",
            show_default=False,
        ),
    ] = None,
    older_than: Annotated[
        float | None,
        typer.Option(
            "--older-than",
            metavar="DAYS",
            min=0,
            help="Only what is known for more than so many days.",
            show_default=False,
        ),
    ] = None,
    below: Annotated[
        float | None,
        typer.Option(
            "--below",
            metavar="CONFIDENCE",
            min=0,
            max=1,
            help="Only what was extracted with less confidence, from 0 to 1.",
            show_default=False,
        ),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(
            "--all",
            metavar="VERDICT",
            help="Decide about all that are left: accept, reject or secret.",
            show_default=False,
        ),
    ] = None,
    campaign: Campaign = None,
    tenant: Tenant = None,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="One JSON object: facts (each with id, campaign, tenant, text,"
            " standing, about, basis, by, confidence, at, known_to); or after a"
            " decision accept, reject, secret (ids).",
        ),
    ] = False,
) -> None:
    """List the facts that wait for the game master; on a terminal, decide about each.

    Facts wait that were extracted with too little confidence, and what players claim.
    For scripts: --accept 12 --reject 13 --secret 14. Many at once: --all reject
    --player Aria --older-than 30. A decision can be changed, by the number of the fact.
    Exit status: 0 done, 2 there is no such fact or entity, and nothing was decided.
    """
    import time

    from glyphoxa_trio.control.fact_review import FactFilter, FactVerdict

    from .memory_review import review as run

    try:
        for_all = None if every is None else FactVerdict(every)
    except ValueError:
        known = ", ".join(FactVerdict)
        raise typer.BadParameter(f"one of {known}", param_hint="--all") from None
    named = [*(accept or ()), *(reject or ()), *(secret or ())]
    if named and (every, player, about, older_than, below) != (None,) * 5:
        raise typer.BadParameter(
            "a decision about facts by their numbers goes without --all, --player,"
            " --about, --older-than and --below"
        )
    raise typer.Exit(
        run(
            where,
            campaign=campaign,
            tenant=tenant,
            verdicts={
                FactVerdict.ACCEPT: accept or [],
                FactVerdict.REJECT: reject or [],
                FactVerdict.SECRET: secret or [],
            },
            only=FactFilter(
                player=player,
                about=about,
                before=None if older_than is None else time.time() - older_than * 86400,
                below=below,
            ),
            every=for_all,
            as_json=json,
        )
    )


About = Annotated[
    list[str] | None,
    typer.Option("--about", metavar="NAME", help="An entity it is about; repeatable."),
]
Keyword = Annotated[
    list[str] | None,
    typer.Option("--keyword", help="Another word that finds it; repeatable."),
]
KnownTo = Annotated[
    list[str] | None,
    typer.Option("--known-to", metavar="NPC", help="Only this NPC; repeatable."),
]
FactTopic = Annotated[
    list[str] | None,
    typer.Option("--topic", help="Only NPCs that know about it; repeatable."),
]


@memory_app.command(name="add")
def add_fact(
    where: Where,
    text: Annotated[str, typer.Argument(help="One sentence.", show_default=False)],
    about: About = None,
    pin: Annotated[
        bool,
        typer.Option("--pin", help="Tell it in every turn of an NPC that may know it."),
    ] = False,
    keyword: Keyword = None,
    secret: Annotated[
        bool, typer.Option("--secret", help="No NPC knows it, but those of --known-to.")
    ] = False,
    known_to: KnownTo = None,
    topic: FactTopic = None,
    campaign: Campaign = None,
    tenant: Tenant = None,
    json: Annotated[
        bool, typer.Option("--json", help="One JSON object: campaign, fact (its id).")
    ] = False,
) -> None:
    """Add a fact, as your word.

    Pinned ones are the core of what NPCs know: memory add CONFIG "Aria seeks Kael, and
    mushrooms make her ill." --about Aria --pin. Exit status: 0 added, or there already;
    2 there is no such entity or campaign.
    """
    from .memory_edit import FactChanges, add

    changes = FactChanges(
        text=text,
        about=about,
        pinned=pin,
        keywords=keyword,
        secret=secret,
        known_to=known_to,
        topics=topic,
    )
    raise typer.Exit(
        add(where, changes, campaign=campaign, tenant=tenant, as_json=json)
    )


@memory_app.command(name="edit")
def edit_fact(
    where: Where,
    fact: Annotated[
        int, typer.Argument(metavar="ID", help="Its number.", show_default=False)
    ],
    text: Annotated[
        str | None, typer.Option("--text", help="What it says.", show_default=False)
    ] = None,
    about: About = None,
    pin: Annotated[
        bool | None, typer.Option("--pin/--no-pin", help="Tell it in every turn.")
    ] = None,
    keyword: Keyword = None,
    secret: Annotated[
        bool | None,
        typer.Option("--secret/--no-secret", help="Hide it from NPCs, or not."),
    ] = None,
    known_to: KnownTo = None,
    topic: FactTopic = None,
    everyone: Annotated[
        bool, typer.Option("--everyone", help="All NPCs may know it.")
    ] = False,
    campaign: Campaign = None,
    tenant: Tenant = None,
    json: Annotated[
        bool, typer.Option("--json", help="One JSON object: campaign, fact (its id).")
    ] = False,
) -> None:
    """Change a fact, as your word: only what is given.

    `search` and `review` show the numbers. With --text, it is true. Exit status: 0
    changed, 2 there is no such fact or entity.
    """
    from .memory_edit import FactChanges, edit

    changes = FactChanges(
        text=text,
        about=about,
        pinned=pin,
        keywords=keyword,
        secret=False if everyone else secret,
        known_to=() if everyone else known_to,
        topics=() if everyone else topic,
    )
    raise typer.Exit(
        edit(where, fact, changes, campaign=campaign, tenant=tenant, as_json=json)
    )


@memory_app.command(name="delete")
def delete_items(
    where: Where,
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="WHAT...",
            help="The number of a fact, or the id or name of an entity.",
            show_default=False,
        ),
    ],
    campaign: Campaign = None,
    tenant: Tenant = None,
    json: Annotated[
        bool, typer.Option("--json", help="One JSON object: campaign, removed (ids).")
    ] = False,
) -> None:
    """Remove facts, and entities with their relationships.

    What a player said is removed for good by `forget`. Exit status: 0 removed, 2 there
    is no such fact or entity, and nothing was removed.
    """
    from .memory_edit import delete

    raise typer.Exit(
        delete(where, what, campaign=campaign, tenant=tenant, as_json=json)
    )


@memory_app.command(name="reveal")
def reveal_secrets(
    where: Where,
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="WHAT...",
            help="The number of a fact, or the id or name of an entity.",
            show_default=False,
        ),
    ],
    campaign: Campaign = None,
    tenant: Tenant = None,
    json: Annotated[
        bool, typer.Option("--json", help="One JSON object: campaign, revealed (ids).")
    ] = False,
) -> None:
    """Make secrets known to all NPCs that their topics allow.

    `search` shows the ids with --json. Exit status: 0 revealed, 2 there is no such fact
    or entity, and nothing was revealed.
    """
    from .memory_review import reveal as run

    raise typer.Exit(run(where, what, campaign=campaign, tenant=tenant, as_json=json))


@memory_app.command(name="import")
def import_world(
    where: Where,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="Files, or folders of them.", show_default=False
        ),
    ],
    kind: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="KIND",
            help="Their kind, if the content does not tell it: campaign, memory,"
            " foundry, roll20, sillytavern or campaign-server.",
            show_default=False,
        ),
    ] = None,
    campaign: Annotated[
        str | None,
        typer.Option(
            "--campaign",
            help="Into this campaign; else CONFIG's memory.campaign, that of the file,"
            " or default.",
            show_default=False,
        ),
    ] = None,
    tenant: Tenant = None,
    public: Annotated[
        bool,
        typer.Option(
            "--public", help="Make nothing a secret, whatever the files hide."
        ),
    ] = False,
    same: Annotated[
        list[str] | None,
        typer.Option(
            "--same",
            metavar="NAME=NPC",
            help="The item NAME is that configured NPC; repeatable.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be imported.")
    ] = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="One JSON object: campaign, tenant, dry_run; numbers in entities,"
            " entities_new, entities_changed, relationships, facts, facts_new,"
            " facts_removed; skipped (each with where, why), notes (texts), removed"
            " (each with id, text, by). Of an export of a memory also lines and"
            " evenings.",
        ),
    ] = False,
) -> None:
    """Import a world: people, places, things, how they are related, and facts.

    Foundry VTT journals and actors, the archive of a Roll20 campaign, the campaign
    server's documents or its file, SillyTavern's lorebooks and cards (JSON or PNG), a
    campaign file of your own (docs/memory.md), or an export of `memory export`. All
    files are imported, or none. Importing them again changes nothing; facts that a file
    no longer has are removed. Exit status: 0 imported, also if items were skipped;
    2 nothing was.
    """
    from glyphoxa_trio.memory.importing import ImportKind

    from .memory_import import import_files as run

    try:
        chosen = None if kind is None else ImportKind(kind)
    except ValueError:
        known = ", ".join(ImportKind)
        raise typer.BadParameter(f"one of {known}", param_hint="--as") from None
    raise typer.Exit(
        run(
            where,
            files,
            kind=chosen,
            campaign=campaign,
            tenant=tenant,
            open_=public,
            same=same or (),
            dry_run=dry_run,
            as_json=json,
        )
    )


@memory_app.command(name="export")
def export_campaign(
    where: Where,
    campaign: Campaign = None,
    tenant: Tenant = None,
    output: Output = None,
    force: Force = False,
) -> None:
    """Write everything of a campaign as JSON, one entry a line, for `memory import`.

    Lines, evenings with their summaries, entities, relationships, facts. It has secrets
    and the words of players. Exit status: 0 written, 2 there is no such campaign, or a
    file of that name.
    """
    from .memory_export import export as run

    raise typer.Exit(
        run(where, campaign=campaign, tenant=tenant, output=output, force=force)
    )


@memory_app.command(name="backup")
def back_up_memory(
    where: Where,
    to: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The copy.", show_default=False),
    ],
    force: Force = False,
    json: Annotated[
        bool, typer.Option("--json", help="One JSON object: place, backup, bytes.")
    ] = False,
) -> None:
    """Copy the whole memory into FILE, whole or not at all, while it is in use.

    For a memory file; a PostgreSQL database has pg_dump. Exit status: 0 copied, 2 not.
    """
    from .memory_export import backup as run

    raise typer.Exit(run(where, to, force=force, as_json=json))


@memory_app.command(name="forget")
def forget_player(
    where: Where,
    player: Annotated[
        str,
        typer.Argument(
            metavar="PLAYER",
            help="The player's id; or the name of one who has none.",
            show_default=False,
        ),
    ],
    tenant: Annotated[
        str, typer.Option("--tenant", help="The tenant.", show_default=False)
    ] = "",
    campaign: Campaign = None,
    everywhere: Annotated[
        bool,
        typer.Option(
            "--everywhere", help="A name in several campaigns is one player's."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask first.")] = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="One JSON object: player, removed (how many lines, facts, chunks,"
            " entities, snapshots, summaries), open_sessions.",
        ),
    ] = False,
) -> None:
    """Remove for good what a player has said, and all that was made of it.

    Lines, their index, passages, summaries, facts, and snapshots of conversations with
    their words. Backups and exports are not covered. Exit status: 0 removed, 1 there
    was nothing, 2 not done.
    """
    from .memory_export import forget as run

    raise typer.Exit(
        run(
            where,
            player,
            tenant=tenant,
            campaign=campaign,
            everywhere=everywhere,
            yes=yes,
            as_json=json,
        )
    )
