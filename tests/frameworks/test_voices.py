"""The vendors' own SDKs judge the fakes of Deepgram and ElevenLabs, and our wires.

So a mistake in a fake cannot hide behind the same one in a client of ours. They run in
an environment of their own (``make peers``), see `support`.
"""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from typing import Any

import pytest

import trio

from glyphoxa_trio.providers.deepgram import Deepgram
from glyphoxa_trio.providers.elevenlabs import ElevenLabs
from glyphoxa_trio.providers.speech import Final, VoiceStyle
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing.deepgram_server import open_deepgram_server
from glyphoxa_trio.testing.elevenlabs_server import open_elevenlabs_server, sound_of

from .support import ROOT, python_of

pytestmark = pytest.mark.long
HORSE = "What is the price of a horse?"


async def run(*arguments: str, stdin: Any = None) -> Any:
    """What the SDKs saw."""
    python = python_of("voices")
    with trio.fail_after(120):
        done = await trio.run_process(
            [python, "-m", "tests.frameworks.voices_program", *arguments],
            stdin=json.dumps(stdin).encode(),
            capture_stdout=True,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
    return json.loads(done.stdout)


async def test_deepgrams_client_understands_the_fake() -> None:
    async with open_deepgram_server([HORSE, "Yes."], key="k") as server:
        seen = (await run("deepgram", server.base_url, "k"))["seen"]
        assert await run("deepgram", server.base_url, "wrong") == {"status": 401}
        assert server.violations == []
    kinds = {kind for kind, _, _ in seen}
    assert kinds == {
        "ListenV2Connected",
        "ListenV2TurnInfo",
        "ListenV2ConfigureSuccess",
    }
    ends = [text for _, event, text in seen if event == "EndOfTurn"]
    assert ends == [HORSE, "Yes."]
    events = [event for _, event, _ in seen if event]
    assert events.index("StartOfTurn") < events.index("EagerEndOfTurn")
    assert events.index("EagerEndOfTurn") < events.index("EndOfTurn")


async def test_the_client_of_elevenlabs_hears_the_fake() -> None:
    async with open_elevenlabs_server(key="k") as server:
        heard = await run("elevenlabs", server.base_url, "k")
        refused = await run("elevenlabs", server.base_url, "wrong")
        assert server.violations == []
    (text,) = server.texts
    assert text == "It sleeps below the hill. "
    pcm = sound_of(text, 24_000)
    assert heard == {"bytes": len(pcm), "sha": hashlib.sha256(pcm).hexdigest()}
    assert "401" in refused["refused"]


async def test_what_is_on_our_wires_is_what_the_sdks_have_types_for() -> None:
    said = array("h", [4000, -4000] * 8_000).tobytes() + bytes(32_000)
    async with (
        open_deepgram_server([HORSE]) as ears,
        open_elevenlabs_server() as mouth,
    ):
        deepgram = Deepgram(
            base_url=ears.base_url, api_key=Secret("k"), phrases=("Moira",), eager=0.5
        )
        async with deepgram.listen(language="de") as recognition:
            recognition.hear(said)
            async for event in recognition.events():
                if isinstance(event, Final):
                    break
        voice = VoiceStyle(name="Rachel", speed=1.1)
        async with ElevenLabs(base_url=mouth.base_url).speak(HORSE, voice) as pieces:
            async for _ in pieces:
                pass
        messages = {
            "deepgram_server": ears.sessions[0].wire.sent,
            "deepgram_paths": [ears.sessions[0].wire.path],
            "elevenlabs_server": mouth.sessions[0].wire.sent,
            "elevenlabs_client": mouth.sessions[0].wire.received,
        }
    assert all(messages.values())
    assert await run("types", stdin=messages) == {}
    # And they would have found something.
    broken = {name: [{"type": "Hello"}] for name in messages if "paths" not in name}
    paths = {"deepgram_paths": ["/v2/listen?model=m&language=de"]}
    assert (await run("types", stdin=broken | paths)).keys() == messages.keys()
