"""The command ``discord``: its options, and their help."""

from __future__ import annotations

from typing import Annotated

import typer

from glyphoxa_trio.errors import GlyphoxaError

from .common import complain
from .consent import Yes
from .model_options import BaseUrl, ModelName, chosen_model
from .proofs import Config


def serve_on_discord(
    context: typer.Context,
    config: Config,
    token_variable: Annotated[
        str,
        typer.Option(
            "--token-variable",
            metavar="NAME",
            help="The environment variable that has the token of the bot.",
        ),
    ] = "DISCORD_TOKEN",
    role: Annotated[
        str,
        typer.Option(
            "--game-master-role",
            metavar="ROLE",
            help="Members with this role direct, by its name or its id.",
        ),
    ] = "Game Master",
    permission: Annotated[
        str,
        typer.Option(
            "--game-master-permission",
            metavar="PERMISSION",
            help="So do members with this permission, such as manage_guild.",
            show_default=False,
        ),
    ] = "",
    guild: Annotated[
        list[int] | None,
        typer.Option(
            "--guild",
            metavar="ID",
            help="A server where slash commands appear at once; without it they appear"
            " in all servers, after up to an hour. Can be repeated.",
            show_default=False,
        ),
    ] = None,
    per_user: Annotated[
        int,
        typer.Option(
            "--per-user",
            min=1,
            help="Messages of one member that are answered or wait, in a channel.",
        ),
    ] = 2,
    per_channel: Annotated[
        int,
        typer.Option("--per-channel", min=1, help="And those of all members."),
    ] = 8,
    model: ModelName = None,
    base_url: BaseUrl = None,
    _yes: Yes = False,
) -> None:
    """Bring the NPCs of CONFIG into the channels of Discord, as a bot.

    Members mention the bot, reply to it, or use /say. Game masters have the commands
    /gm. Needs the extra `discord` and an application at Discord, as docs/discord.md
    says.
    """
    try:
        from glyphoxa_trio.discord import DiscordOptions

        options = DiscordOptions(
            role=role,
            permission=permission,
            guilds=tuple(guild or ()),
            per_user=per_user,
            per_channel=per_channel,
        )
    except GlyphoxaError as error:  # the extra is missing
        raise typer.Exit(complain(error)) from None
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    from .discord import serve_discord

    chosen = chosen_model(context, model, base_url)
    raise typer.Exit(serve_discord(config, chosen, token_variable, options))
