"""Music in a runtime: played here by mpv, or by the embedder, from events. G12."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import attrs
import pytest

import trio

from glyphoxa_trio import Config, aio, open_runtime
from glyphoxa_trio.builtin.music import PlayMusic, StopMusic
from glyphoxa_trio.config import (
    BuiltinConfig,
    CalibrationConfig,
    ConfigError,
    McpConfig,
    MusicConfig,
    NpcConfig,
)
from glyphoxa_trio.config.builtin import MusicPlayer
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.runtime import Runtime
from glyphoxa_trio.tools.outcome import Outcome, Status, ToolCall
from tests.builtin.music.test_mpv import children
from tests.builtin.music.tones import tone
from tests.npc.support import Reply, ScriptedLLM, call

LIMIT = 30.0


def config(folder: Path, player: MusicPlayer, **more: Any) -> Config:
    music = MusicConfig(
        enabled=True, library=folder, player=player, volume=50, crossfade=0.5, **more
    )
    return Config(
        npcs=(NpcConfig(name="Bard", tools=("music",)),),
        mcp=McpConfig(remember=False),
        calibration=CalibrationConfig(at_start=False),
        builtin=BuiltinConfig(music=music),
    )


async def outcomes(runtime: Runtime) -> tuple[Outcome, ...]:
    async with runtime.npc("Bard").say("Play!") as turn:
        await turn.finish()
    assert turn.done is not None
    return turn.done.outcomes


async def once_it_answers(runtime: Runtime) -> Outcome:
    """The outcome of the one call; asked again where this machine is too slow."""
    while True:
        (outcome,) = await outcomes(runtime)
        if outcome.status not in (Status.UNAVAILABLE, Status.TIMEOUT):
            return outcome
        await trio.sleep(0.2)


def calling(wanted: list[ToolCall]) -> ScriptedLLM:
    """Calls the last that is wanted in each turn, and speaks then."""

    def reply(request: LLMRequest) -> Reply:
        told = request.messages[-1].role == "tool"
        return ["Hark!"] if told else [wanted[-1]]

    return ScriptedLLM(reply)


def play(mood: str) -> ToolCall:
    return call("play_track", f'{{"mood": "{mood}"}}')


@pytest.mark.border
async def test_an_npc_plays_music_that_is_gone_with_the_runtime(
    mpv: None, tmp_path: Path
) -> None:  # G12
    tone(tmp_path / "battle" / "drums.wav")
    wanted = [play("combat")]
    with trio.fail_after(LIMIT):
        async with open_runtime(
            config(tmp_path, MusicPlayer.MPV), llm=calling(wanted)
        ) as runtime:
            heard = await once_it_answers(runtime)
            assert (heard.status, heard.message) == (
                Status.OK,
                "Now playing drums, for battle.",
            )
            assert children()
            wanted.append(call("stop_music"))
            stopped = await once_it_answers(runtime)
            assert stopped.message == "The music fades out."
    assert not children()


@pytest.mark.border
async def test_without_mpv_it_is_an_outcome_that_can_be_spoken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tone(tmp_path / "battle" / "drums.wav", 0.1)
    monkeypatch.setenv("PATH", str(tmp_path))
    llm = calling([play("battle")])
    message = ""
    with trio.fail_after(LIMIT):
        async with open_runtime(config(tmp_path, MusicPlayer.MPV), llm=llm) as runtime:
            while not message.startswith("mpv is not installed"):
                (heard,) = await outcomes(runtime)
                assert heard.status in (Status.UNAVAILABLE, Status.TIMEOUT)
                message = heard.message


async def test_whoever_embeds_it_is_told_what_to_play(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tone(tmp_path / "battle" / "drums.wav", 0.1)
    (tmp_path / "no.mp3").write_bytes(b"no sound at all")
    monkeypatch.setenv("PATH", str(tmp_path))  # so auto is events
    wanted = [play("battle")]
    with trio.fail_after(LIMIT):
        async with open_runtime(
            config(tmp_path, MusicPlayer.AUTO), llm=calling(wanted)
        ) as runtime:
            with runtime.music.subscribe() as music:
                heard = await once_it_answers(runtime)
                assert heard.data["fade_ms"] == 500
                wanted.append(call("stop_music"))
                await once_it_answers(runtime)
                assert await anext(music) == PlayMusic(
                    path=path, mood="battle", volume=50, fade=0.5
                )
                assert await anext(music) == StopMusic(fade=0.5)
            assert any("no.mp3: left out" in x.text for x in runtime.warnings)


def test_from_asyncio_as_well(tmp_path: Path) -> None:
    tone(tmp_path / "battle" / "drums.wav", 0.1)

    async def main() -> None:
        llm = calling([play("battle")])
        table = aio.open_runtime(config(tmp_path, MusicPlayer.EVENTS), llm=llm)
        async with asyncio.timeout(LIMIT), table as runtime:
            async with runtime.music.subscribe(only=PlayMusic) as music:
                await runtime.run(once_it_answers)
                event = await anext(music)
                assert isinstance(event, PlayMusic)
                assert event.mood == "battle"

    asyncio.run(main())


async def test_a_reload_says_that_music_changes_at_the_next_start(
    tmp_path: Path,
) -> None:
    tone(tmp_path / "battle" / "drums.wav", 0.1)
    first = config(tmp_path, MusicPlayer.EVENTS)
    music = attrs.evolve(first.builtin.music, volume=10, enabled=False)
    second = attrs.evolve(first, builtin=attrs.evolve(first.builtin, music=music))
    with trio.fail_after(LIMIT):
        async with open_runtime(first, llm=ScriptedLLM([])) as runtime:
            done = await runtime.reload(second)
            assert done.at_next_start == (
                "builtin.music.enabled",
                "builtin.music.volume",
            )
            assert runtime.config.builtin.music.volume == 50
            assert "music.play_track" in runtime.host.snapshot.by_key


def test_without_a_library_it_cannot_be_switched_on() -> None:
    with pytest.raises(ConfigError, match="music needs library"):
        MusicConfig(enabled=True)
    with pytest.raises(ValueError, match="from 0 to 100"):
        MusicConfig(volume=float("nan"))
