"""A scripted OpenAI Realtime server (GA): real WebSockets on loopback, and strict.

    def script(turn: ModelTurn) -> Reply:
        if turn.outputs:
            return Speak(f"You rolled {turn.outputs[-1].output}.", ms=800)
        return SpokenCallTools([("roll", {"expression": "2d6+3"})])

    async with open_realtime_server(script) as server:
        link = OpenAiRealtime(model="gpt-realtime-2", base_url=server.base_url)
        ...
    assert not server.violations

It keeps the same state as the vendor (items, unanswered calls, the active response, the
session) and refuses the same messages; forbidden messages of the client are noted in
``violations``. The script decides what the models say: see `voice.steps`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

import attrs
from trio_websocket import WebSocketRequest

import trio

from glyphoxa_trio.renamed import renamed

from .realtime.session import RealtimeSession
from .voice.service import Hears, VoiceService
from .voice.steps import Close as Close
from .voice.steps import Drop as Drop
from .voice.steps import EndResponse as EndResponse
from .voice.steps import Error as Error
from .voice.steps import Expire as Expire
from .voice.steps import FailResponse as FailResponse
from .voice.steps import Freeze as Freeze
from .voice.steps import HangResponse as HangResponse
from .voice.steps import ModelTurn as ModelTurn
from .voice.steps import On as On
from .voice.steps import PauseResponse as PauseResponse
from .voice.steps import Refuse as Refuse
from .voice.steps import Reply as Reply
from .voice.steps import Script as Script
from .voice.steps import Send as Send
from .voice.steps import Speak as Speak
from .voice.steps import SpokenCallTools as SpokenCallTools
from .voice.steps import Transcription as Transcription
from .voice.steps import UserSpeaks as UserSpeaks
from .voice.steps import silence as silence
from .voice.wire import Habits, Message, SocketWriter
from .voice_front import Front, headers_of, open_front

PATH: Final = "/v1/realtime"


@attrs.define(eq=False)
class RealtimeServer(Front[RealtimeSession]):
    """A running server, and the messages that its clients have sent so far."""

    api_key: str | None = attrs.field(default=None, repr=False)

    def admit(self, request: WebSocketRequest) -> Refuse | None:
        where = urlsplit(request.path)
        if where.path != PATH:
            self._note("no_such_path", where.path)
            return _no(404, "no_such_path", f"Invalid URL ({where.path})")
        if not parse_qs(where.query).get("model"):
            self._note("missing_model", request.path)
            return _no(400, "missing_model", "You must provide a model parameter.")
        scheme, _, key = headers_of(request).get("authorization", "").partition(" ")
        if scheme != "Bearer" or not key:
            self._note("no_key", "no Bearer authorization")
            return _no(401, "invalid_api_key", "You didn't provide an API key.")
        if self.api_key is not None and key != self.api_key:
            return _no(401, "invalid_api_key", "Incorrect API key provided.")
        return None

    def open_session(
        self, wire: SocketWriter, nursery: trio.Nursery
    ) -> RealtimeSession:
        return RealtimeSession(wire, self.service, nursery)


def _words(message: Message) -> set[str]:
    item = message.get("item")
    inner = item.get("type") if isinstance(item, dict) else None
    return {str(message.get("type")), str(inner)}


def _no(status: int, code: str, detail: str) -> Refuse:
    error = {"type": "invalid_request_error", "code": code, "message": detail}
    return Refuse(status, {"error": error})


def read_out(turn: ModelTurn) -> Reply:
    """Reply with the user's text, in the time that a person takes to read it."""
    return Speak(turn.user, ms=max(100, 60 * len(turn.user)))


@asynccontextmanager
async def open_realtime_server(
    script: Script,
    *,
    aside: Script = read_out,
    hears: Hears = (),
    traps: Sequence[On] = (),
    handshakes: Sequence[Refuse | None] = (),
    beside: Mapping[str, Any] | None = None,
    api_key: str | None = None,
    opens_after: float = 0.0,
    lifetime: float | None = None,
    grace: float = 1.0,
    in_memory: bool = False,
    records: bool = True,
) -> AsyncIterator[RealtimeServer]:
    """Serve ``script`` until the block is left.

    An error of the block is raised as it is; one of the script ends the block, in an
    exception group.

    Args:
      aside: the reply to an ``input`` of its own, outside the conversation.
      hears: the transcript of each utterance of a session, in order, or a function of
        its PCM; empty after the last one.
      traps: reactions to certain messages on a socket.
      handshakes: a refusal for each connection, in order; None accepts it.
      beside: fields that no client knows, added to every message.
      api_key: the only accepted key; None accepts any.
      opens_after: seconds until a socket is greeted.
      lifetime: seconds until a session expires.
      grace: see `VoiceService`.
      in_memory: no port; clients connect by `Front.dial`, so that time may be virtual.
      records: whether sent and received messages are kept.
    """
    if not callable(script) and not script:
        raise ValueError("a script needs at least one reply")
    habits = Habits(words=_words, traps=traps, beside=beside or {}, records=records)
    service = VoiceService(
        script=script,
        aside=aside,
        hears=hears,
        opens_after=opens_after,
        lifetime=lifetime,
        grace=grace,
    )
    server = RealtimeServer(
        service=service,
        habits=habits,
        handshakes=list(handshakes),
        api_key=api_key,
    )
    async with open_front(server, "/v1", in_memory=in_memory) as front:
        yield front


if not TYPE_CHECKING:
    __getattr__ = renamed(
        __name__,
        CallTools="SpokenCallTools",
        End="EndResponse",
        Fail="FailResponse",
        Hang="HangResponse",
        Heard="Transcription",
        Pause="PauseResponse",
        Turn="ModelTurn",
    )
