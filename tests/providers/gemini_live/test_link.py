"""The link over real sockets: where it goes, what it shows, and what it does not.

Everything is on loopback, on free ports; every test has an end of its own.
"""

from __future__ import annotations

import ssl
from functools import partial

import pytest
import trustme

import trio

from glyphoxa_trio.providers.gemini_live import GeminiLive, SessionOptions
from glyphoxa_trio.providers.gemini_live.profiles import profile_of
from glyphoxa_trio.providers.live_socket import dial
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.s2s import (
    Calling,
    CallReady,
    Event,
    InteractionEnded,
    LinkClosed,
    Ready,
    SendResult,
    SendText,
    Setup,
    Spoken,
    TranscriptLine,
)
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.testing.gemini_server import (
    ModelTurn,
    Reply,
    Speak,
    SpokenCallTools,
    open_gemini_server,
)

from .support import LIVE_3_8, NATIVE_2_5, tool

KEY = "AIza-not-a-key"
SETUP = Setup(instructions="You are Greymantle.", tools=(tool(),))


def rolls(turn: ModelTurn) -> Reply:
    if turn.outputs:
        return Speak("Seven.")
    return SpokenCallTools([("dice__roll", {"expression": "2d6"})])


async def one_turn(model: GeminiLive) -> list[Event]:
    """Ask, answer the call, and return all events."""
    events: list[Event] = []
    async with model.connect(SETUP) as link:
        while not (events and isinstance(events[-1], InteractionEnded)):
            events.append(await link.receive())
            match events[-1]:
                case Ready():
                    link.send(SendText(TranscriptLine("user", "Roll!")))
                case CallReady(call=call):
                    result = SendResult(call_id=call.id, name=call.name, output="{}")
                    link.send(result)
        statistics = link.statistics()
        assert statistics.sent == 3
        assert statistics.received >= 4
        assert not statistics.unknown
    return events


async def test_a_turn_over_a_real_socket_with_the_key_in_its_header() -> None:
    with trio.fail_after(20):
        async with open_gemini_server(rolls, api_key=KEY, binary=True) as server:
            model = GeminiLive(
                model=LIVE_3_8, base_url=server.base_url, api_key=Secret(KEY)
            )
            events = await one_turn(model)
            wire = server.sessions[0].wire
    assert [event.text for event in events if isinstance(event, Spoken)] == ["Seven."]
    assert wire.headers["x-goog-api-key"] == KEY
    service = "google.ai.generativelanguage.v1beta.GenerativeService"
    assert wire.path == f"/ws/{service}.BidiGenerateContent"
    assert server.violations == []
    assert KEY not in repr(model) + model.label + model.url


async def test_a_turn_over_tls() -> None:
    authority = trustme.CA()
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(theirs)
    ours = ssl.create_default_context()
    authority.configure_trust(ours)
    with trio.fail_after(20):
        async with open_gemini_server(rolls, tls=theirs, host="localhost") as server:
            model = GeminiLive(
                model=NATIVE_2_5,
                base_url=server.base_url,
                api_key=Secret(KEY),
                version="v1",
                dial=partial(dial, context=ours),
            )
            await one_turn(model)
            assert ".v1.GenerativeService" in server.sessions[0].wire.path
            assert server.violations == []


async def test_a_key_that_is_refused_is_not_shown() -> None:
    with trio.fail_after(20):
        async with open_gemini_server(rolls, api_key="another") as server:
            model = GeminiLive(
                model=LIVE_3_8, base_url=server.base_url, api_key=Secret(KEY)
            )
            with pytest.raises(LinkClosed, match="API key not valid") as closed:
                async with model.connect(SETUP):
                    pass
    assert not closed.value.retryable
    assert KEY not in str(closed.value)


async def test_without_a_key_nobody_comes_in() -> None:
    with trio.fail_after(20):
        async with open_gemini_server(rolls) as server:
            with pytest.raises(LinkClosed) as closed:
                async with GeminiLive(model=LIVE_3_8, base_url=server.base_url).connect(
                    SETUP
                ):
                    pass
    assert closed.value.kind is ErrorKind.AUTHENTICATION


async def test_a_model_that_does_not_exist_is_closed_upon() -> None:
    with trio.fail_after(20):
        async with open_gemini_server(rolls) as server:
            model = GeminiLive(
                model="gemini-2.5-pro", base_url=server.base_url, api_key=Secret(KEY)
            )
            with pytest.raises(LinkClosed, match="not found") as closed:
                async with model.connect(SETUP) as link:
                    await link.receive()
    assert (closed.value.code, closed.value.retryable) == (1008, False)


def test_vertex_has_its_own_path_key_and_profile() -> None:
    name = "projects/p/locations/l/publishers/google/models/gemini-live-2.5-flash"
    model = GeminiLive(
        model=f"{name}-native-audio",
        base_url="https://l-aiplatform.googleapis.com/",
        api_key=Secret("token"),
        version="v1",
        vertex=True,
    )
    assert model.url == (
        "wss://l-aiplatform.googleapis.com"
        "/ws/google.cloud.aiplatform.v1.LlmBidiService/BidiGenerateContent"
    )
    assert model._headers() == [(b"Authorization", b"Bearer token")]
    assert not model.capabilities.scheduling
    assert profile_of(name + "-native-audio").capabilities.scheduling
    assert model.capabilities.calling == (Calling.BLOCKING, Calling.NON_BLOCKING)


def test_a_path_with_the_method_is_the_whole_path() -> None:
    url = "http://127.0.0.1:1/proxy/BidiGenerateContent"
    assert GeminiLive(model=LIVE_3_8, base_url=url).url == url.replace("http", "ws")
    other = GeminiLive(model=LIVE_3_8, base_url="http://127.0.0.1:1/proxy/")
    assert other.url.startswith("ws://127.0.0.1:1/proxy/ws/google.ai.")
    google = GeminiLive(model=LIVE_3_8, base_url=None)
    assert google.url.startswith("wss://generativelanguage.googleapis.com/ws/")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"base_url": "ftp://example.org"}, "base_url"),
        ({"base_url": "https://user@example.org"}, "base_url"),
        ({"base_url": "https://example.org/?key=k"}, "base_url"),
        ({"vertex": True}, "Vertex"),
        ({"api_key": Secret("two words")}, "api_key"),
        (
            {"options": SessionOptions(generation={"thinkingConfig": {}})},
            "thinkingConfig",
        ),
    ],
)
def test_what_cannot_work_is_said_at_once(
    fields: dict[str, object], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        GeminiLive(model=LIVE_3_8, **fields)  # type: ignore[arg-type]
