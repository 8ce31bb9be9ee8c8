"""What a fake speech-to-speech model can be told to do: the steps of its replies.

A script is a list of replies, one per response of a conversation, the last
repeating for ever; or a function of the `ModelTurn`. A reply is one step or a list of
steps, done in order. What a step leaves open (`Speak.upto_ms`, `SpokenCallTools.open`)
stays open, so that the next step happens in the middle of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs


@attrs.frozen
class ResponseStep:
    """One thing that is done in a response."""


@attrs.frozen
class ServerEvent(ResponseStep):
    """One that needs no response to happen in: it may come at any time (`On`)."""


@attrs.frozen
class Speak(ResponseStep):
    """Text, said aloud: ``audio`` (PCM16 at 24 kHz), or silence of ``ms``.

    Args:
      chunk_ms: how much audio is in one message.
      paced: message by message, as fast as it is spoken; else at once.
      upto_ms: only so much of it is sent, and it is left open; None is all.
    """

    text: str
    audio: bytes | None = attrs.field(default=None, kw_only=True)
    ms: int = attrs.field(default=100, kw_only=True)
    chunk_ms: int = attrs.field(default=40, kw_only=True)
    paced: bool = attrs.field(default=False, kw_only=True)
    upto_ms: int | None = attrs.field(default=None, kw_only=True)


@attrs.frozen
class SpokenCallTools(ResponseStep):
    """Calls in parallel: (name, arguments), the arguments as data or as raw text.

    Args:
      ids: as many as calls; None makes good ones.
      fragments: into how many pieces the arguments are cut (OpenAI).
      open: the last call stops halfway through its arguments (OpenAI).
      undeclared: the model may call what it was not given.
      twice: each call comes in its other wire form as well (Gemini).
    """

    calls: Sequence[tuple[str, Any]]
    ids: Sequence[str] | None = attrs.field(default=None, kw_only=True)
    fragments: int = attrs.field(default=2, kw_only=True)
    open: bool = attrs.field(default=False, kw_only=True)
    undeclared: bool = attrs.field(default=False, kw_only=True)
    twice: bool = attrs.field(default=False, kw_only=True)


@attrs.frozen
class PauseResponse(ResponseStep):
    """Nothing, for so many seconds."""

    seconds: float


@attrs.frozen
class HangResponse(ResponseStep):
    """Nothing more of this response, for ever."""


@attrs.frozen
class UserSpeaks(ServerEvent):
    """The server hears somebody speak, without any audio of the client.

    It begins ``after`` so many seconds, beside the steps that follow, or at once;
    it interrupts if the session wants that, lasts ``ms``, and is answered as
    speech is answered. ``late`` is that of `Transcription`. Nobody is heard by a session that
    does not detect turns, or while somebody else speaks.
    """

    text: str
    ms: int = attrs.field(default=400, kw_only=True)
    after: float | None = attrs.field(default=None, kw_only=True)
    late: bool | None = attrs.field(default=None, kw_only=True)


@attrs.frozen
class EndResponse(ResponseStep):
    """The end of the response, other than by its last step.

    ``status`` and ``reason`` are OpenAI's (``incomplete``, ``max_output_tokens``);
    for Gemini ``reason`` is the ``turnCompleteReason``.
    """

    status: str = "completed"
    reason: str | None = None


@attrs.frozen
class FailResponse(ResponseStep):
    """The response fails with this error; the session goes on (OpenAI)."""

    code: str
    message: str = "scripted failure"
    type: str = "server_error"


@attrs.frozen
class Error(ServerEvent):
    """An error event; the response goes on (OpenAI)."""

    code: str
    message: str = "scripted error"
    type: str = "invalid_request_error"


@attrs.frozen
class Send(ServerEvent):
    """A message as it stands: unknown types and fields, other dialects."""

    message: Mapping[str, Any]


@attrs.frozen
class TurnComplete(ResponseStep):
    """The end of a turn in the middle of an interaction (Gemini)."""


@attrs.frozen
class GoAway(ServerEvent):
    """The server is about to close the socket (Gemini)."""

    seconds: float


@attrs.frozen
class Close(ServerEvent):
    """The socket is closed with this code, after all that was said."""

    code: int = 1000
    reason: str = ""


@attrs.frozen
class Expire(ServerEvent):
    """The session is too old: its error, and the close that follows."""


@attrs.frozen
class Drop(ServerEvent):
    """The connection is gone, without a word."""


@attrs.frozen
class Freeze(ServerEvent):
    """The server neither reads nor writes any more, once all was said.

    The connection stays open.
    """


Reply = ResponseStep | Sequence[ResponseStep]


@attrs.frozen
class On:
    """An event of the socket, once a certain message went over it.

    `Close`, `Drop` and `Freeze` come right after that message: what waits is not
    sent any more.

    Args:
      message: a word for what came from the client (OpenAI: the type of the event
        or of its item; Gemini: a key, or two with a dot), or a test of it.
      skip: how many such messages pass before.
      sent: it is about messages of the server.
      socket: the number of the socket, None for any.
    """

    message: str | Callable[[Mapping[str, Any]], bool]
    event: ServerEvent
    skip: int = attrs.field(default=0, kw_only=True)
    sent: bool = attrs.field(default=False, kw_only=True)
    socket: int | None = attrs.field(default=None, kw_only=True)


@attrs.frozen
class Refuse:
    """An HTTP status in place of a socket."""

    status: int
    body: Any = attrs.field(factory=lambda: {"error": {"message": "scripted refusal"}})
    headers: Mapping[str, str] = attrs.field(factory=dict, kw_only=True)


@attrs.frozen
class Transcription:
    """What the server understands of one utterance, if a transcript is wanted.

    ``late``: it comes with the end of the response, or (False) with the end of the
    utterance; None: as in `transcripts`. ``fails``: it never comes.
    """

    text: str
    late: bool | None = attrs.field(default=None, kw_only=True)
    fails: bool = attrs.field(default=False, kw_only=True)


@attrs.frozen
class SpokenLine:
    """One line of a conversation: who, and what."""

    role: str
    text: str


@attrs.frozen
class ToolOutput:
    """What the client said of a call. ``output`` is text (OpenAI) or an object."""

    name: str
    id: str
    output: Any


@attrs.frozen(kw_only=True)
class ModelTurn:
    """What the model knows when it is asked for a response.

    Args:
      number: how many responses of this conversation came before.
      user: what the user said last, in text, as far as it was understood.
      outputs: those that came since then, in order.
      request: what the client asked for this response only.
    """

    socket: int
    number: int
    user: str
    outputs: tuple[ToolOutput, ...]
    lines: tuple[SpokenLine, ...]
    instructions: str
    tools: tuple[str, ...]
    request: Mapping[str, Any]


Script = Sequence[Reply] | Callable[[ModelTurn], Reply]


def reply_to(script: Script, turn: ModelTurn) -> tuple[ResponseStep, ...]:
    """The steps that ``script`` has for this turn."""
    if callable(script):
        reply = script(turn)
    else:
        reply = script[min(turn.number, len(script) - 1)]
    return tuple(reply) if isinstance(reply, Sequence) else (reply,)


def silence(ms: int, rate: int = 24_000) -> bytes:
    """PCM16 in which nothing is heard."""
    return bytes(2 * rate * ms // 1000)
