"""A Discord bot through which players speak with the NPCs of a `glyphoxa run`.

    pip install clients/python discord.py
    DISCORD_TOKEN=... GLYPHOXA_TOKEN=... python discord_bot.py

Each channel is a table: its id is the session. A player mentions the bot, as in ``@Bot
Bartok, an ale!``, or writes ``/npc``; ``/hush`` interrupts, and so does speaking again.
Who has the role ``Game Master`` answers what NPCs ask approval for. The words of an NPC
ping nobody, and a message is edited at most once a second.

Other variables: ``GLYPHOXA_URL``, unless it is ``ws://127.0.0.1:8080/ws``, and
``GAME_MASTER_ROLE``, the name of that role. ``GLYPHOXA_TOKEN`` is a game master's.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import attrs
import discord
from discord import app_commands
from glyphoxa_client import Answer, Client, GlyphoxaClosed, GlyphoxaError, connect

logger = logging.getLogger("discord_bot")

LONGEST = 2000  # characters of a message; Discord refuses more
LOOK_EVERY = 10.0  # seconds
RETRY_AFTER = (1.0, 2.0, 5.0, 15.0, 30.0)  # seconds
AWAY = "The NPCs cannot be reached just now."


def parts_of(text: str, longest: int = LONGEST) -> list[str]:
    """Cut a text into messages, between words where it can be done.

    The parts of a text that grows stay what they are, but for the last one.
    """
    parts = []
    while len(text) > longest:
        at = max(text.rfind(" ", 1, longest + 1), text.rfind("\n", 1, longest + 1))
        at = at if at > 0 else longest
        parts.append(text[:at])
        text = text[at:].lstrip()
    return [*parts, text] if text else parts


class Telling:
    """The words of an NPC in a channel: one request a second, and the rest waits."""

    def __init__(self, channel: discord.abc.Messageable, every: float) -> None:
        self._channel, self._every = channel, every
        self._text = ""
        self._ended = False
        self._changed = asyncio.Event()
        self._messages: list[discord.Message] = []
        self._shown: list[str] = []

    def add(self, text: str) -> None:
        """Add words; they are shown soon."""
        self._text += text
        self._changed.set()

    def end(self) -> None:
        """Let `show` end once everything is shown."""
        self._ended = True
        self._changed.set()

    async def show(self) -> None:
        """Post and edit messages until `end`.

        Raises:
          discord.HTTPException: Discord refuses them.
        """
        while True:
            parts = parts_of(self._text.strip())
            behind = [
                at for at, x in enumerate(parts) if self._shown[at : at + 1] != [x]
            ]
            if behind:
                await self._put(behind[0], parts[behind[0]])
                await asyncio.sleep(self._every)
            elif self._ended:
                return
            else:
                self._changed.clear()
                await self._changed.wait()

    async def _put(self, at: int, part: str) -> None:
        none = discord.AllowedMentions.none()
        if at < len(self._messages):
            await self._messages[at].edit(content=part, allowed_mentions=none)
            self._shown[at] = part
        else:
            sent = await self._channel.send(
                part, allowed_mentions=none, suppress_embeds=True
            )
            self._messages.append(sent)
            self._shown.append(part)


class ApprovalView(discord.ui.View):
    """Two buttons for the game master, under the question of an NPC."""

    def __init__(self, bot: Bot, asked: Mapping[str, Any], session: str) -> None:
        super().__init__(timeout=asked["expires_ms"] / 1000)
        self._bot, self._asked, self._session = bot, asked, session

    async def interaction_check(self, interaction: discord.Interaction) -> bool:
        roles = getattr(interaction.user, "roles", [])
        if any(role.name == self._bot.game_master_role for role in roles):
            return True
        why = f"Only who has the role {self._bot.game_master_role!r} may answer that."
        await interaction.response.send_message(why, ephemeral=True)
        return False

    @discord.ui.button(label="Allow", style=discord.ButtonStyle.success)
    async def allow(
        self, interaction: discord.Interaction, _: discord.ui.Button[ApprovalView]
    ) -> None:
        await self._answer(interaction, yes=True)

    @discord.ui.button(label="Refuse", style=discord.ButtonStyle.danger)
    async def refuse(
        self, interaction: discord.Interaction, _: discord.ui.Button[ApprovalView]
    ) -> None:
        await self._answer(interaction, yes=False)

    async def _answer(self, interaction: discord.Interaction, *, yes: bool) -> None:
        asked = self._asked
        try:
            open_still = await self._bot.service.approve(
                asked["question"], yes, npc=asked["npc"], session=self._session
            )
        except (GlyphoxaError, GlyphoxaClosed) as error:
            await interaction.response.send_message(str(error), ephemeral=True)
            return
        said = ("allowed" if yes else "refused") if open_still else "too late"
        content = f"{asked['tool']}: {said}"
        await interaction.response.edit_message(content=content, view=None)
        self.stop()


@attrs.define
class Table:
    """One channel: who has spoken there, and what is being answered."""

    session: str
    npcs: Sequence[str] = ()
    names: dict[int, str] = attrs.field(factory=dict)
    answers: dict[int, Answer] = attrs.field(factory=dict)

    def name_for(self, player: discord.abc.User) -> str:
        """Return a name that no other player here has."""
        name = player.display_name
        if any(x == name for key, x in self.names.items() if key != player.id):
            name = f"{name} ({player.name})"
        return name[:200]

    def addressed(self, text: str) -> str | None:
        """Return the NPC whose name begins a text, if one does."""
        for npc in sorted(self.npcs, key=len, reverse=True):
            rest = text[len(npc) : len(npc) + 1]
            if text[: len(npc)].casefold() == npc.casefold() and not rest.isalnum():
                return npc
        return None


class Bot(discord.Client):
    """The bot. `run_bot` runs it beside its connection to the service."""

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        game_master_role: str = "Game Master",
        every: float = 1.0,
        **options: Any,
    ) -> None:
        intents = discord.Intents.default()
        intents.message_content = True
        super().__init__(
            intents=intents,
            allowed_mentions=discord.AllowedMentions.none(),
            **options,
        )
        self.game_master_role = game_master_role
        self._url, self._token, self._every = url, token, every
        self._service: Client | None = None
        self._lost = asyncio.Event()
        self._tables: dict[int, Table] = {}
        self._tree = app_commands.CommandTree(self)
        self._tree.command(name="npc", description="Say something to an NPC")(self.npc)
        self._tree.command(name="hush", description="Interrupt who answers you")(
            self.hush
        )

    @property
    def service(self) -> Client:
        """The connection to the service.

        Raises:
          GlyphoxaClosed: there is none just now.
        """
        if self._service is None:
            raise GlyphoxaClosed(1006, AWAY)
        return self._service

    async def setup_hook(self) -> None:
        await self._tree.sync()

    async def stay_connected(self) -> None:
        """Connect to the service, again and again, until this is cancelled."""
        failures = 0
        while True:
            try:
                async with connect(self._url, token=self._token) as client:
                    logger.info("connected as %s", client.role)
                    self._service, failures = client, 0
                    self._lost.clear()
                    while not self._lost.is_set():
                        await client.request("ping")  # which a lost connection refuses
                        with suppress(TimeoutError):
                            await asyncio.wait_for(self._lost.wait(), LOOK_EVERY)
            except (GlyphoxaClosed, GlyphoxaError, OSError, TimeoutError) as error:
                logger.warning("no connection to the service: %s", error)
            finally:
                self._service = None
                self._tables.clear()
            await asyncio.sleep(RETRY_AFTER[min(failures, len(RETRY_AFTER) - 1)])
            failures += 1

    # -- what players do

    async def on_message(self, message: discord.Message) -> None:
        if message.author.bot or self.user is None or self.user not in message.mentions:
            return
        text = message.content
        for mention in (f"<@{self.user.id}>", f"<@!{self.user.id}>"):
            text = text.replace(mention, "")
        if text := text.strip():
            await self.speak(message.channel, message.author, text)

    async def npc(self, interaction: discord.Interaction, name: str, text: str) -> None:
        """``/npc``: the words are shown, and the answer comes as its own message."""
        channel = interaction.channel
        if not isinstance(channel, discord.abc.Messageable):
            return
        said = f"{interaction.user.display_name} to {name}: {text}"[:LONGEST]
        await interaction.response.send_message(said)
        await self.speak(channel, interaction.user, text, npc=name)

    async def hush(self, interaction: discord.Interaction) -> None:
        """``/hush``: interrupt the answer to this player."""
        table = self._tables.get(interaction.channel_id or 0)
        answer = table and table.answers.get(interaction.user.id)
        if answer:
            await answer.leave()
        said = "They fall silent." if answer else "They say nothing just now."
        await interaction.response.send_message(said, ephemeral=True)

    async def speak(
        self,
        channel: discord.abc.Messageable,
        player: discord.abc.User,
        text: str,
        *,
        npc: str | None = None,
    ) -> None:
        """Say something at the table of a channel, and show the answer there."""
        try:
            table = await self._table(channel, player)
            if (before := table.answers.get(player.id)) is not None:
                await before.leave()  # who speaks again has heard enough
            said = {"session": table.session, "npc": npc or table.addressed(text)}
            async with self.service.say(
                text, speaker=table.names[player.id], voiced=False, **said
            ) as answer:
                table.answers[player.id] = answer
                try:
                    await self._show(answer, channel, table)
                finally:
                    if table.answers.get(player.id) is answer:
                        del table.answers[player.id]
        except* GlyphoxaError as errors:
            await self._tell(channel, str(errors.exceptions[0]))
        except* GlyphoxaClosed:
            self._lost.set()
            await self._tell(channel, AWAY)
        except* discord.HTTPException as errors:
            # Leaving the block has interrupted an NPC whose words cannot be shown.
            logger.warning("Discord refused: %s", errors.exceptions[0])

    async def _table(
        self, channel: discord.abc.Messageable, player: discord.abc.User
    ) -> Table:
        key: int = getattr(channel, "id", player.id)
        table = self._tables.setdefault(key, Table(str(key)))
        name = table.name_for(player)
        if table.names.get(player.id) != name:
            # The stable id lets NPCs know a player who has another name tomorrow.
            npcs = await self.service.join(
                table.session, players={name: f"discord:{player.id}"}
            )
            table.names[player.id] = name
            table.npcs = [npc["name"] for npc in npcs]
        return table

    async def _show(
        self, answer: Answer, channel: discord.abc.Messageable, table: Table
    ) -> None:
        """Show an answer until its end.

        Raises:
          GlyphoxaClosed: the service was lost; what had come by then is shown.
        """
        telling = Telling(channel, self._every)
        speaker, lost = "", None
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(telling.show())
            try:
                async for event in answer:
                    match event["event"]:
                        case "Sentence":
                            if event["npc"] != speaker:
                                speaker = event["npc"]
                                telling.add(f"\n**{speaker}:**")
                            telling.add(f" {event['text']}")
                        case "ApprovalNeeded":
                            await self._ask(event, channel, table)
                        case "TurnDone" if event["end"] == "interrupted" and speaker:
                            telling.add(" \N{EM DASH}")
                        case "TurnDone" if event["end"] == "failed":
                            telling.add(f"\n*{event['npc']} finds no words.*")
            except GlyphoxaClosed as error:
                # A request to Discord that is cancelled can hold the channel's next
                # ones for half a minute: discord.py takes its place for used.
                lost = error
            telling.end()
        if lost is not None:
            raise lost

    async def _ask(
        self, asked: Mapping[str, Any], channel: discord.abc.Messageable, table: Table
    ) -> None:
        arguments = asked["arguments"].replace("`", "'")
        wants = f"{asked['npc']} wants to use {asked['tool']}: `{arguments}`"
        view = ApprovalView(self, asked, table.session)
        await channel.send(wants[:LONGEST], view=view)

    async def _tell(self, channel: discord.abc.Messageable, text: str) -> None:
        with suppress(discord.HTTPException):
            await channel.send(text[:LONGEST])


async def run_bot(bot: Bot, discord_token: str) -> None:
    """Run a bot beside its connection to the service, until this is cancelled."""
    connecting = asyncio.create_task(bot.stay_connected())
    try:
        async with bot:
            await bot.start(discord_token)
    finally:
        connecting.cancel()
        with suppress(asyncio.CancelledError):
            await connecting


def main() -> None:
    """Run the bot that the environment describes."""
    logging.basicConfig(level=logging.INFO)
    bot = Bot(
        os.environ.get("GLYPHOXA_URL", "ws://127.0.0.1:8080/ws"),
        os.environ.get("GLYPHOXA_TOKEN"),
        game_master_role=os.environ.get("GAME_MASTER_ROLE", "Game Master"),
    )
    asyncio.run(run_bot(bot, os.environ["DISCORD_TOKEN"]))


if __name__ == "__main__":
    main()
