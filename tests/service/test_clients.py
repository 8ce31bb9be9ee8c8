"""The clients, as programs use them: Python from trio and asyncio, and JavaScript."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from glyphoxa_client import GlyphoxaClosed, GlyphoxaError, connect

import trio

from glyphoxa_trio.npc import TurnDone, TurnEnd
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.providers.speech import Began, Final
from glyphoxa_trio.service import ClientRole
from glyphoxa_trio.service.options import service_options

from ..npc.support import HANG
from ..npc.voices import FakeRecognizer, FakeSynthesizer, audio_of
from ..peers.support import NODE
from .support import TOKENS, serving, token_file, until

SPEAK = Path(__file__).parent / "speak.mjs"


def answer(request: LLMRequest) -> list[Any]:
    last = request.messages[-1].content
    said = f"You said {last}. "
    return [f"{said}\n", HANG] if last == "hang" else [said, "So it is."]


async def under(backend: str, work: Callable[[], Awaitable[None]]) -> None:
    """Run a client under trio or asyncio, in a thread beside the service."""

    def run() -> None:
        anyio.run(work, backend=backend)

    await trio.to_thread.run_sync(run, abandon_on_cancel=True)


async def speak(url: str, token: str) -> None:
    async with connect(url, token=token) as client:
        assert client.role == "game_master"
        assert [x["name"] for x in await client.join("one")] == ["Bo", "Ann"]
        async with client.say("Hail", npc="Bo", session="one") as one:
            events = [event async for event in one]
        assert [x["n"] for x in events] == [*range(1, len(events) + 1)]
        assert one.done is events[-1]
        assert one.done["text"] == "You said Hail. So it is."

        async def said(session: str) -> None:
            async with client.say(session, npc="Bo", session=session) as turn:
                assert (await turn.finish())["text"] == f"You said {session}. So it is."

        async with anyio.create_task_group() as tasks:
            for session in "abcdefgh":
                tasks.start_soon(said, session)

        async with client.say("hang", npc="Bo", session="one") as turn:
            async for event in turn:
                if event["event"] == "Sentence":
                    break
        async with client.say("And?", npc="Bo", session="one") as turn:
            assert (await turn.finish())["end"] == "completed"

        for more, code in (
            ({"npc": "Zed"}, "not_found"),
            ({"npc": "Bo", "tier": "slow"}, "bad_message"),
        ):
            with pytest.raises(GlyphoxaError) as refused:
                async with client.say("x", **more):
                    pytest.fail("it was accepted")
            assert refused.value.code == code
        assert not await client.approve("none", True, npc="Bo", session="one")
        with pytest.raises(GlyphoxaError, match="type"):
            await client.request("sing")
    with pytest.raises(GlyphoxaClosed):
        await client.join()
    with pytest.raises(GlyphoxaClosed, match="not valid"):
        async with connect(url, token="a-token-that-is-wrong"):
            pytest.fail("it came in")


@pytest.mark.parametrize("backend", ["trio", "asyncio"])
async def test_a_python_program_speaks(backend: str, tmp_path: Path) -> None:
    options = service_options(http="127.0.0.1:0", token_file=token_file(tmp_path))
    async with serving(answer, options=options) as served:
        token = TOKENS[ClientRole.GAME_MASTER]
        await under(backend, partial(speak, served.ws, token))


async def test_what_a_client_did_not_take_is_not_remembered() -> None:
    async with serving(answer) as served, connect(served.ws) as client:
        async with client.say("hang", npc="Bo") as turn:
            async for event in turn:
                if event["event"] == "Sentence":
                    break  # without asking for the next one
        async with client.say("And?", npc="Bo") as turn:
            await turn.finish()
        past = [x.content for x in served.llm.requests[-1].messages]
        assert not any("You said hang" in text for text in past)


@pytest.mark.parametrize("how", ["close", "kill"])
async def test_a_service_that_goes_ends_what_waits(how: str) -> None:
    async def listen(url: str) -> None:
        async with connect(url) as client:
            with pytest.raises(GlyphoxaClosed) as closed:
                async with client.say("hang", npc="Bo") as turn:
                    if how == "kill":
                        await client._stream.aclose()
                    heard.set()
                    await turn.finish()
            codes.append(closed.value.code)

    heard, codes = trio.Event(), list[int]()
    async with trio.open_nursery() as nursery:
        async with serving(answer) as served:
            nursery.start_soon(listen, served.ws)
            await heard.wait()
        await until(lambda: bool(codes))
    assert codes == [1001 if how == "close" else 1006]


WORDS = "The door is locked. Go away."


async def test_an_npc_is_heard_and_only_what_was_played_counts() -> None:
    def talk(request: LLMRequest) -> list[Any]:
        return [WORDS]

    voice = FakeSynthesizer()
    async with serving(talk, synthesizer=voice) as served:
        async with connect(served.ws) as client:
            async with client.say("knock", npc="Bo") as turn:
                await turn.played(0)
                events = [event async for event in turn]
                heard = b"".join(x["pcm"] for x in events if x["event"] == "Speech")
                said = ("The door is locked.", "Go away.")
                assert heard == b"".join(audio_of(sentence) for sentence in said)
                await turn.played(2000)  # 1.9 s are the first sentence
            async with client.say("and?", npc="Bo", voiced=False) as turn:
                events = [event async for event in turn]
                assert not any("pcm" in event for event in events)
        past = [x.content for x in served.llm.requests[-1].messages]
        assert "The door is locked." in past
        assert not any("Go away" in text for text in past)


async def test_a_microphone_is_heard_through_the_service() -> None:
    def talk(request: LLMRequest) -> list[Any]:
        return [WORDS]

    ears, mouth = FakeRecognizer(rate=8000), FakeSynthesizer()
    ended: list[TurnDone] = []
    async with serving(talk, recognizer=ears, synthesizer=mouth) as served:
        with served.runtime.events.tap(
            lambda x: ended.append(x) if isinstance(x, TurnDone) else None
        ):
            async with connect(served.ws) as client:
                async with client.listen(rate=8000, npc="Bo", speaker="Ann") as voice:
                    pcm = bytes(range(200)) * 2
                    await voice.hear(pcm)
                    await until(lambda: bool(ears.listeners))
                    await until(lambda: len(ears.listeners[0].heard) == len(pcm))
                    ears.listeners[0].tell(Began(), Final("knock knock"))
                    kinds: list[str] = []
                    async for event in voice:
                        kinds.append(event["event"])
                        if event["event"] == "Speech":
                            assert len(event["pcm"]) == event["bytes"]
                        if event["event"] == "TurnDone":
                            break
                    assert ears.listeners[0].heard == pcm
                    assert "Transcript" in kinds
                    await voice.played(10_000)
                    with pytest.raises(GlyphoxaError, match="microphone"):
                        async with client.listen(rate=8000, npc="Bo"):
                            pytest.fail("two microphones")
                    assert await served.service.drain(0.1)  # it waits for no microphone
        assert ended[0].end is TurnEnd.COMPLETED


async def test_a_client_watches_what_others_say() -> None:
    async with serving(answer) as served:
        async with connect(served.ws) as watcher, connect(served.ws) as player:
            async with watcher.watch(session="one") as watching:
                async with player.say("Hail", npc="Bo", session="one") as turn:
                    done = await turn.finish()
                async for event in watching:
                    if event["event"] == "TurnDone":
                        assert event["text"] == done["text"]
                        break
            async with watcher.say("And?", npc="Bo") as turn:  # it goes on
                await turn.finish()


def node() -> list[str]:
    """The command of a Node that has a WebSocket."""
    found = str(NODE) if NODE.exists() else shutil.which("node")
    if found is None:
        if os.environ.get("GLYPHOXA_PEERS") == "required":
            pytest.fail("there is no Node")
        pytest.skip("needs Node")
    told = subprocess.run([found, "--version"], capture_output=True, check=True)
    major = int(told.stdout.decode().lstrip("v").partition(".")[0])
    return [found] if major >= 22 else [found, "--experimental-websocket"]


@pytest.mark.border
async def test_a_javascript_program_speaks(tmp_path: Path) -> None:
    options = service_options(http="127.0.0.1:0", token_file=token_file(tmp_path))
    ears, mouth = FakeRecognizer(rate=8000), FakeSynthesizer()
    async with serving(
        answer, options=options, recognizer=ears, synthesizer=mouth
    ) as served:
        token = TOKENS[ClientRole.GAME_MASTER]
        done = await trio.run_process(
            [*node(), str(SPEAK), served.ws, token],
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
    assert done.stdout.decode().endswith("all is well\n"), done.stderr.decode()
    assert ears.listeners[0].heard == b"\7" * 400
