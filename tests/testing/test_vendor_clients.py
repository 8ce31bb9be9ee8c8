"""The vendors' own clients talk to the fakes, each in a process of its own (asyncio).

So a mistake in a fake cannot hide behind the same one in a client of ours.
"""

from __future__ import annotations

import json
import os
import ssl
import sys
from pathlib import Path
from typing import Any

import pytest
import trustme

import trio

from glyphoxa_trio.testing.gemini_server import open_gemini_server
from glyphoxa_trio.testing.realtime_server import (
    HangResponse,
    ModelTurn,
    Reply,
    Speak,
    SpokenCallTools,
    Transcription,
    open_realtime_server,
)

from .vendor_types import judge_gemini, judge_realtime

pytestmark = pytest.mark.border

CLIENTS = Path(__file__).with_name("clients")


async def run(client: str, base_url: str, **env: str) -> dict[str, Any]:
    """What that client saw."""
    with trio.fail_after(60):
        done = await trio.run_process(
            [sys.executable, str(CLIENTS / client), base_url],
            capture_stdout=True,
            env={**os.environ, **env},
        )
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def script(turn: ModelTurn) -> Reply:
    match turn.user, bool(turn.outputs):
        case "Roll for me.", False:
            return [Speak("One moment."), SpokenCallTools([("roll", {"dice": "2d6"})])]
        case "Roll for me.", True:
            return Speak("Seven it is.", ms=300)
        case "Search the room.", False:
            return SpokenCallTools([("search", {"dice": "1d20"})])
        case "Search the room.", True:
            return [
                Speak("It is a very long story.", ms=3000, upto_ms=400),
                HangResponse(),
            ]
    return Speak(f"You said {turn.user!r}.")


async def test_openais_client_converses_with_the_fake() -> None:
    async with open_realtime_server(
        script, hears=[Transcription("Stop it!", late=False)]
    ) as server:
        seen = await run("openai_client.py", server.base_url)
    assert seen == {
        "tools": ["roll"],
        "call": ["roll", '{"dice": "2d6"}', "completed"],
        "answer": ["Seven it is.", 300 * 48, "completed"],
        "updated": ["roll", "search"],
        "second": "search",
        "interrupted": ["cancelled", "turn_detected"],
        "afterwards": ["Stop it!", "You said 'Stop it!'."],
    }
    assert not server.violations
    assert not server.warnings
    (session,) = server.sessions
    judge_realtime(session.wire.sent, session.wire.received)
    assert len(session.hearing.audio) == 800 * 48


async def test_googles_client_converses_with_the_fake() -> None:
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(tls)
    with authority.cert_pem.tempfile() as trusted:
        async with open_gemini_server(
            script,
            hears=[Transcription("Stop it!", late=False)],
            tls=tls,
            host="localhost",
            binary=True,
        ) as server:
            seen = await run("google_client.py", server.base_url, SSL_CERT_FILE=trusted)
    assert seen == {
        "call": ['roll{"dice": "2d6"}'],
        "answer": ["Seven it is.", 300 * 48],
        "second": ['search{"dice": "1d20"}'],
        "interrupted": True,
        "afterwards": ["Stop it!", "You said 'Stop it!'."],
    }
    assert not server.violations
    (session,) = server.sessions
    judge_gemini(session.wire.sent, session.wire.received)
    assert len(session.hearing.audio) == 800 * 32
