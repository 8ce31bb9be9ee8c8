"""The example of a bot, as it stands, with a chat in this process: an asyncio host.

And the first program of the page about asyncio.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

import trio

from benchmarks.common import children
from glyphoxa_trio.providers.audio import Resampler
from glyphoxa_trio.providers.espeak import Espeak
from glyphoxa_trio.providers.speech import VoiceStyle

from .support import LIMIT, play

pytestmark = pytest.mark.border

ROOT = Path(__file__).parents[2]
BOT = ROOT / "docs" / "examples" / "bot_cog.py"
GREYMANTLE = "Greymantle the Sage: "
ORACLE = "!ask Greymantle remember to ask the oracle: will the bridge hold?"
RATE, FRAME = 48_000, 1920  # a frame is 20 ms


@attrs.define(eq=False)
class Chat:
    """What the bot is connected to."""

    bot: asyncio.subprocess.Process
    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter

    def tell(self, kind: str, author: str, **what: object) -> None:
        line = json.dumps({"kind": kind, "from": author, **what})
        self._writer.write(line.encode() + b"\n")

    def say(self, author: str, text: str) -> None:
        self.tell("message", author, text=text)

    async def event(self) -> dict[str, Any]:
        line = await self._reader.readline()
        assert line, "the bot has left"
        found: dict[str, Any] = json.loads(line)
        return found

    async def text(self, is_it: Callable[[str, str], bool]) -> str:
        """The next message of that kind, by whom it is for and what it says."""
        while True:
            event = await self.event()
            if event["kind"] == "message" and is_it(event["to"], event["text"]):
                text: str = event["text"]
                return text

    async def hang_up(self) -> None:
        """The bot ends, and has nothing to complain of."""
        children = _children(self.bot.pid)
        self._writer.close()
        _, errors = await self.bot.communicate()
        assert (self.bot.returncode, errors) == (0, b"")
        assert children
        assert not [pid for pid in children if _is_there(pid)]


@asynccontextmanager
async def chat(*options: str) -> AsyncGenerator[Chat]:
    connected: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
    connected = asyncio.Queue()
    server = await asyncio.start_server(
        lambda *streams: connected.put_nowait(streams), "127.0.0.1", 0, limit=2**22
    )
    async with server:
        port = server.sockets[0].getsockname()[1]
        command = (sys.executable, "-W", "error", str(BOT), str(port), *options)
        bot = await asyncio.create_subprocess_exec(
            *command, stderr=asyncio.subprocess.PIPE
        )
        reader, writer = await connected.get()
        try:
            yield Chat(bot, reader, writer)
        finally:
            writer.close()
            if bot.returncode is None:
                bot.kill()
                await bot.wait()


def _children(pid: int) -> list[str]:
    return [str(child) for child in children(pid)]


def _is_there(pid: str) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_the_first_program_of_the_page_runs() -> None:
    page = (ROOT / "docs" / "asyncio.md").read_text()
    program = page.split("```python\n")[1].split("```")[0]
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        cwd=ROOT,
        check=True,
    )
    assert ran.stdout.startswith("Blinded: ")


@pytest.mark.long
def test_a_command_is_answered_sentence_by_sentence() -> None:
    async def main() -> None:
        async with chat() as one:
            one.say("Ann", "hello?")  # no command: nobody answers
            one.say("Ann", "!ask Nobody are you there?")
            assert (await one.text(any_text)).startswith("(no NPC 'Nobody'")
            one.say("Ann", "!ask Greymantle What does blinded mean?")
            assert (await one.text(any_text)).startswith(f"{GREYMANTLE}Blinded: ")
            assert [await one.text(any_text) for _ in range(2)] == [
                f"{GREYMANTLE}Attacks against you have advantage.",
                f"{GREYMANTLE}Your own attacks have disadvantage.",
            ]
            one.say("Ben", "!ask Bartok roll 2d6+3 for me")
            rolled = await one.text(any_text)
            assert rolled.startswith("Bartok the Barkeep: 2d6+3 comes to ")
            await one.hang_up()

    play(main)


def any_text(_: str, __: str) -> bool:
    return True


@pytest.mark.long
def test_who_asks_again_interrupts_and_others_wait() -> None:
    async def main() -> None:
        async with chat() as one:
            one.say("Ann", ORACLE)
            one.say("Ben", "!ask Greymantle What does charmed mean?")
            waits = f"({GREYMANTLE.removesuffix(': ')} is busy, you are 1.)"
            assert await one.text(lambda who, _: who == "Ben") == waits
            one.say("Ann", "!ask Greymantle What does blinded mean?")
            answers: dict[str, str] = {}
            while len(answers) < 2:
                event = await one.event()
                answers.setdefault(event["to"], event["text"])
            assert answers["Ben"].startswith(f"{GREYMANTLE}Charmed: ")
            # What the oracle would have said is not among it.
            assert answers["Ann"].startswith(f"{GREYMANTLE}Blinded: ")
            await one.hang_up()

    play(main)


@pytest.mark.long
def test_a_chat_that_hangs_up_in_the_middle_of_a_turn() -> None:
    async def main() -> None:
        async with chat() as one:
            one.say("Ann", ORACLE)
            one.say("Ben", ORACLE)
            await one.text(lambda who, _: who == "Ben")  # so that Ann's turn runs
            await one.hang_up()

    play(main)


@pytest.mark.long
def test_a_bot_without_ears_says_so() -> None:
    async def main() -> None:
        async with chat() as one:
            one.tell("voice", "Ann", pcm=b64encode(bytes(FRAME)).decode())
            assert "cannot hear" in await one.text(any_text)
            await one.hang_up()

    play(main)


@pytest.mark.usefixtures("espeak")
@pytest.mark.long
def test_a_voice_channel() -> None:
    """Somebody speaks, in frames of 20 ms; is understood; and is answered aloud."""
    pytest.importorskip("pocketsphinx")

    async def question() -> bytes:
        espeak = Espeak()
        voice = VoiceStyle(name="en-us", speed=0.85)
        async with espeak.speak("What does blinded mean?", voice) as pieces:
            spoken = b"".join([piece async for piece in pieces])
        silence = bytes(RATE * 2)
        return Resampler(espeak.rate, RATE).feed(spoken) + silence

    async def main() -> None:
        async with chat("--voice") as one:
            for at in range(0, len(asked), FRAME):
                frame = b64encode(asked[at : at + FRAME]).decode()
                one.tell("voice", "Ann", pcm=frame)
            said: list[str] = []
            played = 0.0
            while not (said and played > 1.0):
                event = await one.event()
                match event["kind"]:
                    case "message":
                        said.append(event["text"])
                    case "play":
                        pcm = b64decode(event["pcm"])
                        played += len(pcm) / 2 / event["rate"]
                        one.tell("played", "Ann", ms=round(played * 1000))
            assert said[0] == "Ann: what does blinded mean"
            assert said[1].startswith(f"{GREYMANTLE}Blinded: ")
            await one.hang_up()

    asked = trio.run(question)
    play(main)
