"""NPCs in a chat with a voice channel: a cog, as a bot of discord.py loads it.

    python docs/examples/bot_cog.py                 # a conversation with itself
    python docs/examples/bot_cog.py PORT [--voice]  # with a chat on 127.0.0.1:PORT

`NpcCog` is the part to keep. `Chat` stands for the library: lines of JSON over a
socket, in both directions, with what a chat has: messages, PCM frames, what was played.
"""

import asyncio
import json
import sys
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from glyphoxa_trio import GlyphoxaError, aio
from glyphoxa_trio.npc import Flush, Queued, Sentence, Speech, Transcript
from glyphoxa_trio.providers.espeak import Espeak
from glyphoxa_trio.providers.pocketsphinx import Pocketsphinx

TAVERN = Path(__file__).parents[2] / "config" / "tavern.yaml"
RATE = 48_000  # of what voice channels give
PHRASES = ("What does blinded mean?", "What does charmed mean?", "Good morning.")


class Context(Protocol):
    """The place and the author of a command."""

    author: str

    async def send(self, text: str) -> None: ...


class Channel(Protocol):
    """The part of a voice channel that one speaker hears."""

    async def send(self, text: str) -> None: ...
    async def play(self, pcm: bytes, rate: int) -> None: ...
    async def stop(self) -> None: ...


class NpcCog:
    """Answer `!ask NPC words` sentence by sentence, and voices by ``host``.

    An NPC named ``host`` hears the speakers in the voice channel and answers there.
    """

    def __init__(self, runtime: aio.Runtime, *, host: str) -> None:
        self.runtime, self.host = runtime, host
        self.voices: dict[str, aio.Voice] = {}
        self.tasks: set[asyncio.Task[None]] = set()

    async def ask(self, ctx: Context, npc: str, words: str) -> None:
        """The command. Asked again by the same author, it interrupts the NPC."""
        try:
            who = self.runtime.npc(npc)
            async with who.say(words, speaker=ctx.author) as turn:
                async for event in turn:
                    match event:
                        case Queued(position=position):
                            await ctx.send(f"({who.name} is busy, you are {position}.)")
                        case Sentence(text=text):
                            await ctx.send(f"{who.name}: {text}")
        except GlyphoxaError as error:  # no such NPC, too many wait, ...
            await ctx.send(f"({error})")

    def heard(self, author: str, pcm: bytes, channel: Channel) -> None:
        """Take a frame of a speaker's microphone, PCM16, mono; this is the voice hook.

        On the loop: a receiver in a thread of its own calls it with
        ``loop.call_soon_threadsafe``.
        """
        if author not in self.voices:
            voice = self.runtime.npc(self.host).voice(speaker=author, rate=RATE)
            self.voices[author] = voice
            self.start(self._listen(author, voice, channel))
        self.voices[author].hear(pcm)

    def played(self, author: str, ms: float) -> None:
        """Report how much was played to one speaker since the last stop."""
        if author in self.voices:
            self.voices[author].played(ms)

    async def _listen(self, author: str, voice: aio.Voice, channel: Channel) -> None:
        try:
            async with voice:
                voice.played(0)
                async for event in voice:
                    match event:
                        case Transcript(text=text, final=True):
                            await channel.send(f"{author}: {text}")
                        case Sentence(npc=npc, text=text):
                            await channel.send(f"{npc}: {text}")
                        case Speech(pcm=pcm, rate=rate):
                            await channel.play(pcm, rate)
                        case Flush():
                            await channel.stop()
        except GlyphoxaError as error:  # nothing here hears, or not any more
            await channel.send(f"({error})")
        finally:
            del self.voices[author]  # the next frame opens another one

    def start(self, work: Coroutine[object, object, None]) -> None:
        """A command, or a microphone, until it is over or the cog is unloaded."""
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def unload(self) -> None:
        """Interrupt what is said, and switch every microphone off."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


class Chat:
    """A stand-in for the library: one connection, and its events."""

    def __init__(self, writer: asyncio.StreamWriter, author: str) -> None:
        self.writer, self.author = writer, author

    async def tell(self, kind: str, **what: object) -> None:
        line = json.dumps({"kind": kind, "to": self.author, **what})
        self.writer.write(line.encode() + b"\n")
        with suppress(ConnectionError):  # it has hung up
            await self.writer.drain()

    async def send(self, text: str) -> None:
        await self.tell("message", text=text)

    async def play(self, pcm: bytes, rate: int) -> None:
        await self.tell("play", pcm=b64encode(pcm).decode(), rate=rate)

    async def stop(self) -> None:
        await self.tell("stop")


async def lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    with suppress(ConnectionError):
        async for line in reader:
            yield line


async def connect(cog: NpcCog, port: int) -> None:
    """Be a bot until the chat hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    async for line in lines(reader):
        event = json.loads(line)
        chat = Chat(writer, event["from"])
        match event:
            case {"kind": "message", "text": str(text)} if text.startswith("!ask "):
                _, npc, words = [*text.split(maxsplit=2), ""][:3]
                cog.start(cog.ask(chat, npc, words))
            case {"kind": "voice", "pcm": str(pcm)}:
                cog.heard(chat.author, b64decode(pcm), chat)
            case {"kind": "played", "ms": int(ms)}:
                cog.played(chat.author, ms)
    writer.close()


async def main(port: int, *, voice: bool = False) -> None:
    synthesizer = Espeak() if voice else None
    recognizer = Pocketsphinx(phrases=PHRASES) if voice else None
    async with aio.open_runtime(
        TAVERN, synthesizer=synthesizer, recognizer=recognizer, wait_for_servers=30
    ) as runtime:
        cog = NpcCog(runtime, host="Greymantle")
        try:
            await connect(cog, port)
        finally:
            await cog.unload()


async def demo() -> None:
    """Play the chat as well: a user asks, reads the answer, and leaves."""

    async def chat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = {"kind": "message", "from": "Ann", "text": f"!ask Grey {PHRASES[0]}"}
        print(f"Ann: {asked['text']}")
        writer.write(json.dumps(asked).encode() + b"\n")
        print(json.loads(await reader.readline())["text"])
        writer.close()

    async with await asyncio.start_server(chat, "127.0.0.1", 0) as server:
        await main(server.sockets[0].getsockname()[1])


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            asyncio.run(demo())
        case [port, *more]:
            asyncio.run(main(int(port), voice="--voice" in more))
