"""The bot for Discord at a Discord on the loopback: what happens, as JSON; run by
`test_discord.py`.

    python -m tests.frameworks.discord_cases [NAME ...]

Each line is what one case saw. This needs py-cord, which has a Python of its own.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
import sys
import threading
from array import array
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import attrs
from discord.http import Route

import trio

from glyphoxa_trio import Config, aio
from glyphoxa_trio.config import (
    CalibrationConfig,
    McpConfig,
    NpcConfig,
    ServerSpec,
    TrustConfig,
)
from glyphoxa_trio.discord import (
    DiscordBot,
    DiscordOptions,
    DiscordRefused,
    run_until_closed,
)
from glyphoxa_trio.discord.mixing import FRAME, MixedSpeech
from glyphoxa_trio.discord.spoken import command_in
from glyphoxa_trio.providers.llm import (
    CallReady,
    Finished,
    FinishReason,
    LLMEvent,
    LLMRequest,
    TextChunk,
)
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.outcome import ToolCall
from glyphoxa_trio.tools.tier import Tier

from .discord_fakes import (
    ANN,
    BEN,
    BOT,
    DM,
    TEXT,
    THREAD,
    TOKEN,
    VOICE,
    WITHIN,
    FakeDiscord,
    channel,
)
from .discord_voice_fakes import ToneRecognizer, ToneSynthesizer, until

LIMIT: Final = 60.0  # seconds for one case, at the very most
ROOT: Final = Path(__file__).parents[2]
PATIENT: Final = ROOT / "benchmarks" / "servers" / "patient.py"
WORDS: Final = "The rain has not stopped. Sit down by the fire."


def config(*names: str) -> Config:
    return Config(
        npcs=tuple(NpcConfig(name=x) for x in names),
        calibration=CalibrationConfig(at_start=False),
    )


@attrs.define(eq=False)
class Model:
    """Answers with `WORDS`; "slowly" is never answered, "a song" asks for a tool."""

    label: str = "scripted"
    requests: list[LLMRequest] = attrs.field(factory=list)

    @asynccontextmanager
    async def _stream(
        self, request: LLMRequest
    ) -> AsyncGenerator[AsyncIterator[LLMEvent]]:
        self.requests.append(request)
        yield self._events(request)

    def stream(
        self, request: LLMRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[LLMEvent]]:
        return self._stream(request)

    async def _events(self, request: LLMRequest) -> AsyncIterator[LLMEvent]:
        await trio.lowlevel.checkpoint()
        last = request.messages[-1]
        if last.role == "tool":
            yield TextChunk("That was it.")
        elif "slowly" in last.content:
            yield TextChunk("Well. ")
            await trio.sleep_forever()
        elif "a song" in last.content and request.tools:
            yield CallReady(ToolCall("call", request.tools[0].name, "{}"))
            yield Finished(reason=FinishReason.TOOL_CALLS)
            return
        else:
            yield TextChunk(WORDS)
        yield Finished()


@attrs.define(eq=False)
class Evening:
    """A bot at work, and the Discord that it is at."""

    discord: FakeDiscord
    bot: DiscordBot
    model: Model

    async def joins(self, author: int) -> str:
        """Somebody calls the bot into their voice channel."""
        since = len(self.discord.answers)
        await self.discord.command(author, "join")
        return await self.discord.answer(since + 1)  # the first says that it takes time

    async def until(self, what: Callable[[], Any]) -> None:
        """Wait for what is seen nowhere but here."""
        async with asyncio.timeout(WITHIN):
            while not what():  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def gives(self, author: int, words: str, **options: Any) -> str:
        """A slash command, and the first answer to it."""
        since = len(self.discord.answers)
        await self.discord.command(author, words, **options)
        return await self.discord.answer(since)


@asynccontextmanager
async def evening(
    *names: str,
    given: Config | None = None,
    speech: Mapping[str, Any] | None = None,
    **settings: Any,
) -> AsyncGenerator[Evening]:
    model, discord_ = Model(), FakeDiscord()
    options = DiscordOptions(**{"edit_every": 0.02} | settings)
    async with (
        discord_.open(),
        aio.open_runtime(
            given or config(*(names or ("Bo",))),
            llm=model,
            approvals=True,
            **speech or {},
        ) as running,
    ):
        bot = DiscordBot(running, options)
        at_work = asyncio.create_task(run_until_closed(bot, Secret(TOKEN)))
        try:
            await discord_.until(lambda: discord_.identified and discord_.commands)
            await bot.wait_until_ready()
            yield Evening(discord_, bot, model)
        finally:
            at_work.cancel()
            with suppress(asyncio.CancelledError):
                await at_work


async def text() -> dict[str, Any]:
    """Mentions, replies and threads; what is for nobody; an answer that grows."""
    async with evening("Bo", "Ida") as here:
        discord_ = here.discord
        await discord_.write(ANN, "Is somebody there?")  # for nobody
        await discord_.write(ANN, "@ Bo, who is there?")
        first = await discord_.text("**Bo:**")
        await discord_.until(lambda: WORDS in discord_.texts()[0])
        [id_] = discord_.sent
        reply = {"message_id": str(id_), "channel_id": str(TEXT)}
        said = discord_.message(id_, BOT, TEXT, first)
        more = {"message_reference": reply, "referenced_message": said, "type": 19}
        await discord_.write(BEN, "And who are you?", **more)
        await discord_.until(lambda: len(discord_.texts()) == 2)
        thread = channel(THREAD, 11, parent_id=str(TEXT), owner_id=str(BOT))
        thread |= {
            "message_count": 0,
            "member_count": 1,
            "thread_metadata": {
                "archived": False,
                "auto_archive_duration": 60,
                "locked": False,
                "archive_timestamp": "2026-01-01T00:00:00+00:00",
            },
        }
        await discord_.dispatch("THREAD_CREATE", thread)
        await discord_.write(ANN, "Ida, and here?", where=THREAD)
        await discord_.text("**Ida:**", THREAD)
        sessions = await here.bot.runtime.sessions()
        speakers = [x.messages[-1].content for x in here.model.requests]
        nobody = len(discord_.texts())
    return {
        "first": WORDS in first or first,
        "texts": discord_.texts(),
        "thread": discord_.texts(THREAD),
        "sessions": sorted(x.id for x in sessions),
        "asked": speakers,
        "nobody": nobody,
    }


async def directed() -> dict[str, Any]:
    """The commands of the game master, and one that a player may not give."""
    async with evening("Bo", "Ida") as here:
        gives = here.gives
        saw: dict[str, Any] = {
            "none": await gives(DM, "gm interrupt"),
            "refused": await gives(ANN, "gm mute", npc="Bo"),
            "muted": await gives(DM, "gm mute", npc="Bo"),
            "who": await gives(ANN, "who"),
        }
        await here.discord.write(ANN, "@ Bo, hello?")
        saw["silent"] = await here.discord.text("muted")
        saw |= {
            "unmuted": await gives(DM, "gm unmute", npc="Bo"),
            "nobody": await gives(DM, "gm mute", npc="Xaver"),
            "puppet": await gives(DM, "gm puppet", npc="Ida"),
        }
        await here.discord.write(ANN, "@ hello?")
        saw["puppet_said"] = await here.discord.text("**Ida:**")
        saw |= {
            "no_puppet": await gives(DM, "gm puppet"),
            "elevated": await gives(DM, "gm elevate", npc="Bo", tier="deep"),
            "override": await gives(DM, "gm override", tier="standard"),
            "scene": await gives(DM, "gm scene", text="The roof burns."),
            "as": await gives(DM, "gm as", npc="Bo", text="Get out!"),
            "as_said": await here.discord.text("Get out!"),
            "nothing_asked": await gives(DM, "gm approve", allow=True),
            "said": await gives(ANN, "say", text="What is that smell?", npc="Bo"),
        }
        await here.discord.until(lambda: len(here.model.requests) > 1)
        prompt = "\n".join(x.content for x in here.model.requests[-1].messages)
        saw["knows_scene"] = "The roof burns." in prompt
        await here.discord.write(BEN, "@ Bo, speak slowly.")
        await here.discord.text("Well.")
        saw["interrupted"] = await gives(DM, "gm interrupt")
        saw["cut"] = await here.discord.text("\N{EM DASH}")
    return saw


async def approved() -> dict[str, Any]:
    """An NPC asks whether it may call a tool; two people press the button."""
    server = ServerSpec(name="patient", command=(sys.executable, str(PATIENT)))
    npc = NpcConfig(
        name="Bo",
        tools=("patient.canc*",),
        trust=TrustConfig(),
        budget_tier=Tier.DEEP,
        select_tier=False,
    )
    given = attrs.evolve(
        config(), npcs=(npc,), mcp=McpConfig(servers=(server,), remember=False)
    )
    async with evening(given=given) as here:
        await here.bot.runtime.wait_ready(within=WITHIN)
        await here.discord.write(ANN, "@ Sing a song.")
        asked = await here.discord.text("wants to use")
        since = len(here.discord.answers)
        await here.discord.press(ANN, "Allow")
        not_you = await here.discord.answer(since)
        await here.discord.press(DM, "Allow")
        allowed = await here.discord.answer(since + 1)
        said = await here.discord.text("That was it.")
    return {"asked": asked, "not_you": not_you, "allowed": allowed, "said": said}


async def flood() -> dict[str, Any]:
    """One writes and writes, and then all do."""
    async with evening(per_user=2, per_channel=3) as here:
        for _ in range(6):
            await here.discord.write(ANN, "@ Speak slowly.")
        for author in (BEN, DM, BEN, DM):
            await here.discord.write(author, "@ Speak slowly.")
        await here.discord.text("not answered")
        # All of it has arrived when this, which is written last, is answered.
        await here.gives(BEN, "who")
        told = [x for x in here.discord.texts() if "not answered" in x]
        while "silent" in await here.gives(DM, "gm interrupt"):
            pass
        await here.discord.write(ANN, "@ And now?")
        calm = WORDS in await here.discord.text(WORDS)
    return {"told": told, "asked": len(here.model.requests), "calm": calm}


async def forbidden() -> dict[str, Any]:
    """The bot may not write where it is spoken to: the player hears of it."""
    async with evening() as here:
        here.discord.forbidden.add(TEXT)
        await here.discord.write(ANN, "@ Hello?")
        private = await here.discord.text("may not write", int(f"7{ANN}"))
    return {"private": private}


async def gone() -> dict[str, Any]:
    """The session was ended by somebody else: another one begins."""
    async with evening() as here:
        await here.discord.write(ANN, "@ Hello?")
        await here.discord.text(WORDS)
        [key] = await here.bot.runtime.sessions()
        await here.bot.runtime.session(key.id).end()
        await here.discord.write(ANN, "@ Hello again?")
        await here.discord.until(lambda: len(here.discord.texts()) == 2)
    return {"texts": here.discord.texts(), "requests": len(here.model.requests)}


async def resumed() -> dict[str, Any]:
    """The gateway drops the connection; the bot resumes, and goes on."""
    async with evening() as here:
        await here.discord.drop()
        await here.discord.write(ANN, "@ Hello?")
        said = await here.discord.text(WORDS)
    return {"said": said, "identified": here.discord.identified}


async def _refused(**wrong: Any) -> str:
    discord_ = FakeDiscord()
    for name, value in wrong.items():
        setattr(discord_, name, value)
    async with discord_.open(), aio.open_runtime(config("Bo"), llm=Model()) as runtime:
        bot = DiscordBot(runtime, DiscordOptions())
        try:
            await run_until_closed(bot, Secret(TOKEN))
        except DiscordRefused as error:
            return str(error)
    return "no error"


async def refused() -> dict[str, Any]:
    away = FakeDiscord()
    async with away.open():
        pass
    return {
        "token": await _refused(refused_token=True),
        "intents": await _refused(close_code=4014),
        "closed": await _refused(close_code=4013),
    }


HELLO, SLOWLY, MUTE, WHO, ELEVATE = 400, 600, 800, 1000, 1200  # Hz
HEARD: Final = {
    HELLO: "Bo, who is there?",
    SLOWLY: "Bo, speak slowly.",
    MUTE: "Game master, mute Bo!",
    ELEVATE: "game master elevate Ida to deep",
    WHO: "Ida, and you?",
}


def tones(seconds: float = 0.4) -> dict[str, Any]:
    return {
        "synthesizer": ToneSynthesizer(seconds),
        "recognizer": ToneRecognizer(HEARD),
    }


async def voice() -> dict[str, Any]:
    """Two members speak in a voice channel, and are answered aloud."""
    async with evening("Bo", "Ida", speech=tones()) as here:
        server = here.discord.voice
        nowhere = await here.gives(BEN, "join")
        await here.discord.moves(BEN, VOICE)
        joined = await here.joins(ANN)
        server.garbage()
        await server.speak(ANN, HELLO, 0.6)
        heard = await until(server, 300, WITHIN)
        await server.speak(BEN, WHO, 0.6)
        await here.until(lambda: len(here.model.requests) == 2)
        server.played.clear()
        heard_again = await until(server, 300, WITHIN)
        asked = [x.messages[-1].content for x in here.model.requests]
        sessions = [x.id for x in await here.bot.runtime.sessions()]
        since = len(here.discord.answers)
        await here.discord.command(ANN, "leave")
        left = await here.discord.answer(since + 1)
    return {
        "nowhere": nowhere,
        "joined": joined,
        "heard": [heard, heard_again],
        "asked": asked,
        "sessions": sessions,
        "left": left,
        "closed": server.left,
    }


async def barge_in() -> dict[str, Any]:
    """Who speaks while the NPC does interrupts it: the rest is not played."""
    async with evening(speech=tones(30)) as here:
        server = here.discord.voice
        await here.joins(ANN)
        await server.speak(ANN, HELLO, 0.6)
        heard = await until(server, 300, WITHIN)
        await server.speak(ANN, SLOWLY, 0.6)
        await here.until(lambda: len(here.model.requests) == 2)
        told = [x.content for x in here.model.requests[1].messages[1:]]
        seconds = len(server.played) / 2 / 48000
        await here.discord.moves(ANN, None)  # the bot is alone, and leaves
        await here.until(lambda: server.left)
    return {"heard": heard, "told": told, "seconds": seconds}


async def spoken() -> dict[str, Any]:
    """A game master's command by voice; the words of a player are none."""
    async with evening("Bo", "Ida", speech=tones()) as here:
        server = here.discord.voice
        await here.discord.moves(DM, VOICE)
        await here.joins(ANN)
        await server.speak(ANN, MUTE, 0.6)
        await here.until(lambda: len(here.model.requests) == 1)
        player = await here.gives(ANN, "who", where=VOICE)
        await server.speak(DM, MUTE, 0.6)
        said = await here.discord.text("says nothing", VOICE)
        game_master = await here.gives(ANN, "who", where=VOICE)
        await server.speak(DM, ELEVATE, 0.6)
        elevated = await here.discord.text("may go to", VOICE)
    seen = {"player": player, "said": said, "game_master": game_master}
    return {**seen, "elevated": elevated}


async def deaf() -> dict[str, Any]:
    """Nothing here understands speech: that is said once."""
    async with evening() as here:
        await here.joins(ANN)
        await here.discord.voice.speak(ANN, HELLO, 0.6)
        said = await here.discord.text("Ann", VOICE)
        times = len(here.discord.texts(VOICE))
    return {"said": said, "times": times}


async def left() -> dict[str, Any]:
    """The bot is told to stop while an NPC speaks."""
    before = asyncio.all_tasks()
    async with evening() as here:
        await here.discord.write(ANN, "@ Speak slowly.")
        await here.discord.text("Well.")
    return {"tasks": [repr(x) for x in asyncio.all_tasks() - before]}


def _frame(sample: int, samples: int = FRAME) -> bytes:
    return array("h", [sample] * samples).tobytes()


async def mixed() -> dict[str, Any]:
    """Answers to two listeners are one source; spoken commands are found in words."""
    speech = MixedSpeech()
    speech.add(1, _frame(20_000) * 2)
    speech.add(2, _frame(15_000, FRAME // 2))
    heard = [array("h", speech.read())]
    speech.hold(1, held=True)
    heard.append(array("h", speech.read()))
    counted = speech.played()
    speech.hold(1, held=False)
    speech.flush(2)
    heard.append(array("h", speech.read()))
    counted_later = speech.played()
    ends = 0
    while speech.read():
        ends += 1
    commands = map(
        command_in,
        (
            "Game master, mute Bo!",
            "gamemaster: STOP",
            "Dungeon master, scene: the roof burns.",
            "The game master mutes Bo",
            "game master",
            "",
        ),
    )
    return {
        "samples": [(frame[0], frame[-1], len(frame)) for frame in heard],
        "counted": [counted, counted_later],
        "ends": ends,
        "commands": list(commands),
    }


COMMAND: Final = """
import sys
from discord.http import Route
from glyphoxa_trio.cli import main
Route.API_BASE_URL = sys.argv.pop(1)
main()
"""
PROGRAM: Final = """
import sys
from discord.http import Route
Route.API_BASE_URL = sys.argv.pop(1)
exec(sys.argv.pop(1))
"""


async def _process(
    code: str, *arguments: str, npc: str, end: signal.Signals, folder: str
) -> dict[str, Any]:
    """A bot as a process, which is told to stop when an NPC has answered."""
    discord_ = FakeDiscord()
    async with discord_.open():
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", code, Route.API_BASE_URL, *arguments),
            env=os.environ | {"DISCORD_TOKEN": TOKEN, "XDG_DATA_HOME": folder},
            cwd=ROOT,
            stderr=asyncio.subprocess.PIPE,
        )
        await discord_.until(lambda: discord_.identified and discord_.commands)
        await discord_.write(ANN, f"@ {npc}, hello?")
        said = await discord_.text(f"**{npc}:**")
        process.send_signal(end)
        _, errors = await process.communicate()
    lines = errors.decode().splitlines()
    return {"said": said, "status": process.returncode, "lines": lines}


async def command() -> dict[str, Any]:
    """``glyphoxa discord``."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "npcs.yaml")
        path.write_text("npcs: [{name: Bo}]\n")  # noqa: ASYNC240
        arguments = ("discord", str(path))
        how: dict[str, Any] = {"npc": "Bo", "end": signal.SIGTERM, "folder": folder}
        return await _process(COMMAND, *arguments, **how)


async def program() -> dict[str, Any]:
    """The program of the page, on the NPCs of the demo."""
    page = (ROOT / "docs" / "discord.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    with TemporaryDirectory() as folder:
        how: dict[str, Any] = {"end": signal.SIGINT, "folder": folder}
        return await _process(PROGRAM, code, npc="Bartok the Barkeep", **how)


CASES: Final[dict[str, Callable[[], Awaitable[dict[str, Any]]]]] = {
    case.__name__: case
    for case in (
        text,
        directed,
        approved,
        flood,
        forbidden,
        gone,
        resumed,
        refused,
        left,
        voice,
        barge_in,
        spoken,
        deaf,
        command,
        program,
        mixed,
    )
}


async def _limited(case: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    async with asyncio.timeout(LIMIT):
        return await case()


def _threads() -> list[str]:
    """Those that a case has left behind."""
    found = [x for x in threading.enumerate() if x is not threading.main_thread()]
    for thread in found:
        thread.join(WITHIN)
    return [thread.name for thread in found if thread.is_alive()]


def main(names: list[str]) -> None:
    log = StringIO()
    logging.basicConfig(stream=log, level=logging.DEBUG)
    for name in names or CASES:
        log.seek(0)
        log.truncate()
        try:
            saw = asyncio.run(_limited(CASES[name]))
        except Exception as error:
            sys.stderr.write(log.getvalue())
            logging.exception(name)
            saw = {"failed": repr(error)}
        saw["threads"] = _threads()
        saw |= {"case": name, "token_seen": TOKEN in log.getvalue()}
        sys.stdout.write(json.dumps(saw) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
