"""The steps of a fake speech-to-speech model's replies.

A script is a list of replies, one per response of a conversation, of which the last one
repeats for ever; or a function of the `ModelTurn`. A reply is one step or a list of
steps, done in order. What a step leaves open (`Speak.upto_ms`, `SpokenCallTools.open`)
stays open, so that the next step happens in the middle of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs


@attrs.frozen
class ResponseStep:
    """One step of a response."""


@attrs.frozen
class ServerEvent(ResponseStep):
    """A step that needs no response and may come at any time (`On`)."""


@attrs.frozen
class Speak(ResponseStep):
    """Text, spoken as ``audio`` (PCM16 at 24 kHz), or as silence of ``ms``.

    Args:
      chunk_ms: milliseconds of audio in one message.
      paced: send message by message, as fast as it is spoken; else at once.
      upto_ms: send only this much of it, and leave it open; None sends all.
    """

    text: str
    audio: bytes | None = attrs.field(default=None, kw_only=True)
    ms: int = attrs.field(default=100, kw_only=True)
    chunk_ms: int = attrs.field(default=40, kw_only=True)
    paced: bool = attrs.field(default=False, kw_only=True)
    upto_ms: int | None = attrs.field(default=None, kw_only=True)


@attrs.frozen
class SpokenCallTools(ResponseStep):
    """Parallel calls: (name, arguments), the arguments as data or as raw text.

    Args:
      ids: as many as calls; None makes correct ones.
      fragments: the number of pieces into which the arguments are cut (OpenAI).
      open: the last call stops halfway through its arguments (OpenAI).
      undeclared: the model may call a function that was not declared.
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
    """Nothing, for some seconds."""

    seconds: float


@attrs.frozen
class HangResponse(ResponseStep):
    """Nothing more in this response, for ever."""


@attrs.frozen
class UserSpeaks(ServerEvent):
    """Speech of the user that the server hears, without any audio of the client.

    It begins ``after`` some seconds, during the steps that follow, or at once; it
    interrupts if the session is set so, lasts ``ms``, and is answered like speech.
    ``late`` is that of `Transcription`. A session that does not detect turns hears
    none, and neither does one that already hears speech.
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
    """A failure of the response with this error; the session goes on (OpenAI)."""

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
    """A message as it is: unknown types and fields, other dialects."""

    message: Mapping[str, Any]


@attrs.frozen
class TurnComplete(ResponseStep):
    """The end of a turn in the middle of an interaction (Gemini)."""


@attrs.frozen
class GoAway(ServerEvent):
    """The notice that the server is about to close the socket (Gemini)."""

    seconds: float


@attrs.frozen
class Close(ServerEvent):
    """Closing the socket with this code, after all that was sent before."""

    code: int = 1000
    reason: str = ""


@attrs.frozen
class Expire(ServerEvent):
    """The end of a session that is too old: its error, and the close that follows."""


@attrs.frozen
class Drop(ServerEvent):
    """Dropping the connection without a close."""


@attrs.frozen
class Freeze(ServerEvent):
    """A server that neither reads nor writes any more, after all that was sent before.

    The connection stays open.
    """


Reply = ResponseStep | Sequence[ResponseStep]


@attrs.frozen
class On:
    """A reaction to a certain message on the socket.

    `Close`, `Drop` and `Freeze` come right after that message: messages in the queue
    are not sent any more.

    Args:
      message: a word for a message of the client (OpenAI: the type of the event or of
        its item; Gemini: a key, or two with a dot), or a function that tests it.
      skip: the number of such messages to let pass before.
      sent: whether it is about messages of the server.
      socket: the number of the socket; None for any.
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
    """The server's transcript of one utterance, if transcripts are enabled.

    ``late``: it comes with the end of the response, or (False) with the end of the
    utterance; None: as in `transcripts`. ``fails``: it never comes.
    """

    text: str
    late: bool | None = attrs.field(default=None, kw_only=True)
    fails: bool = attrs.field(default=False, kw_only=True)


@attrs.frozen
class SpokenLine:
    """One line of a conversation: the role, and the text."""

    role: str
    text: str


@attrs.frozen
class ToolOutput:
    """The client's output of a call. ``output`` is text (OpenAI) or an object."""

    name: str
    id: str
    output: Any


@attrs.frozen(kw_only=True)
class ModelTurn:
    """The state of the conversation when the model is asked for a response.

    Args:
      number: the number of responses of this conversation before this one.
      user: the last words of the user, as far as they were transcribed.
      outputs: the tool outputs since then, in order.
      request: the client's settings for this response only.
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
    """Return the steps that ``script`` has for this turn."""
    if callable(script):
        reply = script(turn)
    else:
        reply = script[min(turn.number, len(script) - 1)]
    return tuple(reply) if isinstance(reply, Sequence) else (reply,)


def silence(ms: int, rate: int = 24_000) -> bytes:
    """Return silent PCM16."""
    return bytes(2 * rate * ms // 1000)
