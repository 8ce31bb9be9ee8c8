"""A voice channel that the bot is in: each member's microphone, and the NPCs' mouth."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from typing import Final

import attrs
import discord

from glyphoxa_trio.aio import Voice
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc import (
    ApprovalNeeded,
    Flush,
    Hold,
    Resume,
    Speech,
    Transcript,
    TurnEvent,
)

from .mixing import RATE, MixedSpeech
from .receiving import VoiceReceiver
from .services import BotServices
from .spoken import command_in, obey
from .table import post

logger = logging.getLogger(__name__)

MOST_MICROPHONES: Final = 16
TICK: Final = 0.05  # seconds between two looks at the clock
QUIET_AFTER: Final = 0.1  # seconds without a packet that are silence
QUIET_FOR: Final = 3.0  # seconds of silence that a microphone hears after speech
KEEP_ALIVE: Final = 5.0  # seconds; routers forget a path that is not used


@attrs.define(eq=False)
class _Microphone:
    """``heard_at``: when sound, or silence, was last given to the voice."""

    voice: Voice
    heard_at: float
    spoke_at: float
    task: asyncio.Task[None] | None = None


class JoinedChannel:
    """Hears each member of a channel by a microphone of their own, and plays what NPCs
    say there. Its session is that of the channel, in text as well."""

    def __init__(
        self,
        bot: BotServices,
        client: discord.VoiceClient,
        channel: discord.VoiceChannel | discord.StageChannel,
    ) -> None:
        self.channel = channel
        self._bot, self._client = bot, client
        self._table = bot.table(channel)
        self._speech = MixedSpeech()
        self._receiver = VoiceReceiver(client, self.hear)
        self._microphones: dict[int, _Microphone] = {}
        self._deaf: set[int] = set()  # whom no NPC can hear; they were told
        self._ticking: asyncio.Task[None] | None = None

    @property
    def listeners(self) -> list[discord.Member]:
        """The people in the channel."""
        return [member for member in self.channel.members if not member.bot]

    def start(self) -> None:
        self._receiver.start()
        self._ticking = asyncio.create_task(self._tick())

    async def close(self) -> None:
        """Switch the microphones off, and leave the channel."""
        self._receiver.stop()
        tasks = [x.task for x in self._microphones.values() if x.task is not None]
        if self._ticking is not None:
            tasks.append(self._ticking)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(OSError):  # wakes the thread of the library that waits for it
            self._client._connection.socket.shutdown(socket.SHUT_RDWR)
        await self._client.disconnect(force=True)

    def hear(self, member: int, pcm: bytes) -> None:
        """Take sound from a member, PCM16, mono, 48 kHz."""
        now = asyncio.get_running_loop().time()
        microphone = self._microphones.get(member)
        if microphone is None:
            full = len(self._microphones) >= MOST_MICROPHONES
            player = self.channel.guild.get_member(member)
            if full or member in self._deaf or player is None or player.bot:
                return
            name = self._table.name_for(player)
            voice = self._table.scene.voice(speaker=name, rate=RATE)
            microphone = self._microphones[member] = _Microphone(voice, now, now)
            microphone.task = asyncio.create_task(self._listen(player, voice))
        microphone.voice.hear(pcm)
        microphone.heard_at = microphone.spoke_at = now

    def forget(self, member: int) -> None:
        """Switch a member's microphone off: they have left."""
        self._deaf.discard(member)
        microphone = self._microphones.get(member)
        if microphone is not None and microphone.task is not None:
            microphone.task.cancel()

    async def _listen(self, player: discord.Member, voice: Voice) -> None:
        try:
            async with voice:
                voice.played(0)
                async for event in voice:
                    await self._handle(event, player)
        except GlyphoxaError as error:
            logger.warning("%s is not heard in %s: %s", player, self.channel, error)
            self._deaf.add(player.id)
            await post(self.channel, f"({player.display_name}: {error})")
        finally:
            self._speech.flush(player.id)
            del self._microphones[player.id]

    async def _handle(self, event: TurnEvent, player: discord.Member) -> None:
        match event:
            case Speech(pcm=pcm):
                self._speech.add(player.id, pcm)
                self._play()
            case Flush():
                self._speech.flush(player.id)
            case Hold() | Resume():
                self._speech.hold(player.id, held=isinstance(event, Hold))
            case ApprovalNeeded():
                await self._table.ask(event, self.channel)
            case Transcript(final=True, text=text):
                command = command_in(text)
                if command and self._bot.settings.is_game_master(player):
                    await self._obey(command, player)

    async def _obey(self, command: str, player: discord.Member) -> None:
        # The recognizer's words went to an NPC as well, which is to say nothing.
        speaker = self._table.name_for(player)
        try:
            await self._table.scene.interrupt(speaker=speaker)
            npcs = [npc.name for npc in self._bot.runtime.npcs]
            directing = self._table.directing
            said = await obey(directing, command, player.id, npcs)
        except GlyphoxaError as error:
            said = str(error)
        await post(self.channel, f"({said})")

    def _play(self) -> None:
        client = self._client
        if self._speech.waits and client.is_connected() and not client.is_playing():
            client.play(self._speech, application="voip", signal_type="voice")

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        alive_at, counter = loop.time(), 0
        while True:
            await asyncio.sleep(TICK)
            now = loop.time()
            self._play()  # what came while the last player ended
            played = self._speech.played()
            for member, microphone in list(self._microphones.items()):
                microphone.voice.played(played.get(member, 0.0))
                self._let_be_quiet(microphone, now)
            if now - alive_at >= KEEP_ALIVE:
                alive_at, counter = now, counter + 1
                with suppress(OSError):
                    self._client._connection.socket.send(counter.to_bytes(8, "big"))

    def _let_be_quiet(self, microphone: _Microphone, now: float) -> None:
        """Discord sends no silence, and a recognizer waits for it."""
        quiet = now - microphone.heard_at
        if quiet < QUIET_AFTER or now - microphone.spoke_at > QUIET_FOR:
            return
        microphone.voice.hear(bytes(2 * round(quiet * RATE)))
        microphone.heard_at = now
