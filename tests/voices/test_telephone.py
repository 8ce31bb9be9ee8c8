"""A telephone at an NPC: G.711 at 8 kHz, over the wire as it is and through any ear."""

from __future__ import annotations

import math
import struct
from base64 import b64decode
from typing import Any

import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.npc import TurnDone
from glyphoxa_trio.npc.events import Speech
from glyphoxa_trio.providers.g711 import Law, decoded, encoded
from glyphoxa_trio.testing.realtime_server import ModelTurn, Reply, Speak, Transcription

from .support import GEMINI_38, OPENAI, open_talk, sent_by

LAWS = pytest.mark.parametrize("law", [*Law])
ANSWER = b"".join(
    struct.pack("<h", round(9000 * math.sin(i / 9))) * 3 for i in range(1600)
)


def said(turn: ModelTurn) -> Reply:
    return Speak("Nobody you know.", audio=ANSWER)


def call(law: Law, seconds: float) -> bytes:
    """Somebody who speaks into a telephone."""
    tone = (round(8000 * math.sin(i / 3)) for i in range(int(8000 * seconds)))
    once = encoded(b"".join(struct.pack("<h", x) for x in tone), law)
    return encoded(decoded(once, law), law)  # with one zero of the two


async def hear(voice: Any, data: bytes, law: Law) -> list[Any]:
    """The events of the turn that these sounds bring about."""
    quiet = encoded(bytes(16_000), law)
    for piece in range(0, len(data + quiet), 160):
        voice.hear((data + quiet)[piece : piece + 160])
        await trio.sleep(0.02)
    events = []
    async for event in voice:
        events.append(event)
        if isinstance(event, TurnDone):
            break
    return events


@LAWS
async def test_a_telephone_is_heard_and_answered_as_it_is(
    law: Law, autojump_clock: MockClock
) -> None:
    asked, data = {"audio": law.value}, call(law, 0.6)
    hears = [Transcription("Who is there?")]
    async with open_talk(OPENAI, said, asked=asked, hears=hears) as (table, server):
        async with table.npc.voice(speaker="Ann", rate=8000, encoding=law) as voice:
            await trio.sleep(1)
            events = await hear(voice, data, law)
        session = server.sessions[0].settings.now["audio"]  # type: ignore[union-attr]
        assert session["input"]["format"] == {"type": f"audio/{law}"}
        assert session["output"]["format"] == {"type": f"audio/{law}"}
        pieces = sent_by(server, "input_audio_buffer.append")
        sent = b"".join(b64decode(piece["audio"]) for piece in pieces)
        assert sent.startswith(data)  # not a byte of it was changed on the way
        (done,) = [x for x in events if isinstance(x, TurnDone)]
        assert done.text == "Nobody you know."
        heard = [x for x in events if isinstance(x, Speech)]
        assert {x.rate for x in heard} == {8000}
        assert b"".join(x.pcm for x in heard) == decoded(
            encoded(_third(ANSWER), law), law
        )


def _third(pcm: bytes) -> bytes:
    return b"".join(pcm[i : i + 2] for i in range(0, len(pcm), 6))


async def test_what_was_not_heard_is_cut_by_the_clock_of_a_telephone(
    autojump_clock: MockClock,
) -> None:
    async with open_talk(OPENAI, said, asked={"audio": "pcmu"}) as (table, server):
        async with table.npc.say("Who?", speaker="Ann") as turn:
            turn.played(0)
            async for event in turn:
                if isinstance(event, TurnDone):
                    break
            turn.played(120)
        async with table.npc.say("And?", speaker="Ann") as turn:
            await turn.finish()
        cut = sent_by(server, "conversation.item.truncate")
        assert [message["audio_end_ms"] for message in cut] == [120]


@LAWS
async def test_any_npc_hears_a_telephone(law: Law, autojump_clock: MockClock) -> None:
    hears = [Transcription("Who is there?")]
    async with open_talk(GEMINI_38, said, hears=hears) as (table, server):
        async with table.npc.voice(speaker="Ann", rate=8000, encoding=law) as voice:
            await trio.sleep(1)
            events = await hear(voice, call(law, 0.6), law)
        assert any(isinstance(x, Speech) for x in events)
        assert len(server.sessions[0].hearing.audio) > 16_000 * 2 * 1.4


async def test_what_is_no_telephone_is_an_error() -> None:
    async with open_talk(OPENAI, said) as (table, _):
        with pytest.raises(ValueError, match="rate: pcmu has 8000 Hz, got 16000"):
            async with table.npc.voice(rate=16_000, encoding="pcmu"):
                raise AssertionError("it was opened")
        with pytest.raises(ValueError, match="encoding: one of pcm, pcmu, pcma"):
            async with table.npc.voice(rate=8000, encoding="g711"):
                raise AssertionError("it was opened")
