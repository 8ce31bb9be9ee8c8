"""A scripted Gemini Live server: real WebSockets on loopback, and strict.

    def script(turn: ModelTurn) -> Reply:
        if turn.outputs:
            return Speak("Eleven. The lock gives way.", ms=800)
        return SpokenCallTools([("roll", {"expression": "2d6+3"})])

    async with open_gemini_server(script) as server:
        link = GeminiLive(model="gemini-3.8-live", base_url=server.base_url)
        ...
    assert not server.violations

`gemini.profiles` has the input that a model of a name accepts. Anything else closes the
socket, as the vendor does, and is noted in ``violations``. The script decides what the
models say: see `voice.steps`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

import attrs
from trio_websocket import WebSocketRequest

import trio

from glyphoxa_trio.renamed import renamed

from .gemini.merging import merge
from .gemini.profiles import GEMINI_25 as GEMINI_25
from .gemini.profiles import GEMINI_31 as GEMINI_31
from .gemini.profiles import GEMINI_38 as GEMINI_38
from .gemini.profiles import GEMINI_38_EXTENDED as GEMINI_38_EXTENDED
from .gemini.profiles import ModelFamily as ModelFamily
from .gemini.session import GeminiSession
from .gemini.state import GeminiService
from .voice.service import Hears
from .voice.steps import Close as Close
from .voice.steps import Drop as Drop
from .voice.steps import EndResponse as EndResponse
from .voice.steps import Expire as Expire
from .voice.steps import Freeze as Freeze
from .voice.steps import GoAway as GoAway
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
from .voice.steps import TurnComplete as TurnComplete
from .voice.steps import UserSpeaks as UserSpeaks
from .voice.steps import silence as silence
from .voice.wire import Habits, Message, SocketWriter
from .voice_front import Front, headers_of, open_front

_PATH: Final = re.compile(
    r"/ws/google\.ai\.generativelanguage\.(v1|v1alpha|v1beta)"
    r"\.GenerativeService\.(BidiGenerateContent|BidiGenerateContentConstrained)"
)


@attrs.define(eq=False)
class GeminiServer(Front[GeminiSession]):
    """A running server, and the messages that its clients have sent so far."""

    service: GeminiService = attrs.field(kw_only=True, repr=False)
    api_key: str | None = attrs.field(default=None, repr=False)

    def admit(self, request: WebSocketRequest) -> Refuse | None:
        where = urlsplit(request.path)
        if not _PATH.fullmatch(where.path):
            self._note("no_such_path", where.path)
            return _no(404, "NOT_FOUND", "The requested URL was not found.")
        headers = headers_of(request)
        key = headers.get("x-goog-api-key") or parse_qs(where.query).get("key", [""])[0]
        token = headers.get("authorization", "").removeprefix("Token ")
        if not key and not token:
            self._note("no_key", "neither a key nor a token")
            return _no(403, "PERMISSION_DENIED", "Method doesn't allow this caller.")
        if self.api_key is not None and self.api_key not in (key, token):
            return _no(400, "INVALID_ARGUMENT", "API key not valid.")
        return None

    def open_session(self, wire: SocketWriter, nursery: trio.Nursery) -> GeminiSession:
        return GeminiSession(wire, self.service, nursery)


def _words(message: Message) -> set[str]:
    inner = {
        f"{key}.{name}"
        for key, content in message.items()
        if isinstance(content, dict)
        for name in content
    }
    return {*message, *inner}


def _no(status: int, word: str, detail: str) -> Refuse:
    return Refuse(
        status, {"error": {"code": status, "status": word, "message": detail}}
    )


@asynccontextmanager
async def open_gemini_server(
    script: Script,
    *,
    hears: Hears = (),
    traps: Sequence[On] = (),
    handshakes: Sequence[Refuse | None] = (),
    beside: Mapping[str, Any] | None = None,
    api_key: str | None = None,
    profile: ModelFamily | None = None,
    opens_after: float = 0.0,
    lifetime: float | None = None,
    notice: float = 50.0,
    lag: float = 0.0,
    max_result: int | None = None,
    binary: bool = False,
    merged: bool = False,
    grace: float = 1.0,
    tls: SSLContext | None = None,
    host: str = "127.0.0.1",
    in_memory: bool = False,
    records: bool = True,
) -> AsyncIterator[GeminiServer]:
    """Serve ``script`` until the block is left.

    An error of the block is raised as it is; one of the script ends the block, in an
    exception group.

    Args:
      hears: the transcript of each utterance of a session, in order, or a function of
        its PCM; empty after the last one.
      traps: reactions to certain messages on a socket.
      handshakes: a refusal for each connection, in order; None accepts it.
      beside: fields that no client knows, added to every message.
      api_key: the only accepted key; None accepts any.
      profile: the input that the models accept, whatever their name.
      opens_after: seconds until a setup is complete.
      lifetime: seconds until a socket is closed, after a ``goAway`` with ``notice``.
      lag: seconds between the end of a generation and of its turn.
      max_result: bytes of a ``toolResponse`` above which the service fails (1011).
      binary: whether frames are binary.
      merged: whether messages sent at once come in one frame, as far as possible.
      grace: see `VoiceService`.
      tls: serve TLS; ``host`` is then the name in the certificate.
      in_memory: no port; clients connect by `Front.dial`, so that time may be virtual.
      records: whether sent and received messages are kept.
    """
    if not callable(script) and not script:
        raise ValueError("a script needs at least one reply")
    habits = Habits(
        words=_words,
        traps=traps,
        beside=beside or {},
        merge=merge if merged else None,
        binary=binary,
        records=records,
    )
    service = GeminiService(
        script=script,
        hears=hears,
        opens_after=opens_after,
        lifetime=lifetime,
        grace=grace,
        profile=profile,
        notice=notice,
        lag=lag,
        max_result=max_result,
    )
    server = GeminiServer(
        service=service,
        habits=habits,
        handshakes=list(handshakes),
        ssl=tls,
        api_key=api_key,
    )
    async with open_front(server, "", in_memory=in_memory, host=host) as front:
        yield front


if not TYPE_CHECKING:
    __getattr__ = renamed(
        __name__,
        CallTools="SpokenCallTools",
        End="EndResponse",
        Hang="HangResponse",
        Heard="Transcription",
        Pause="PauseResponse",
        Profile="ModelFamily",
        Turn="ModelTurn",
    )
