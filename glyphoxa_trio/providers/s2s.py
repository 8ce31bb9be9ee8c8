"""The interface of a speech-to-speech model: commands in, events out, one socket.

A `RealtimeLink` is one socket and only knows which commands are legal on it. State over
several sockets (history, open calls, epochs, policies) belongs to the NPC's session. So
a provider never waits, never retries and never decides: it reports what happened, and
what the protocol allows (`Capabilities`).

Audio is PCM16, little endian, mono, at the rates of the capabilities. Times are
seconds, durations on the wire milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, Protocol

import attrs

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.renamed import renamed
from glyphoxa_trio.tools.definition import Schedule as Schedule
from glyphoxa_trio.tools.outcome import ToolCall

from .llm import ErrorKind, ToolSpec, Usage


class Calling(StrEnum):
    """The two ways to call a tool: the model waits for the result, or goes on."""

    BLOCKING = "blocking"
    NON_BLOCKING = "non_blocking"


@attrs.frozen(kw_only=True)
class Capabilities:
    """The abilities of a model and its protocol, as data.

    Args:
      live_tools: its tools can be replaced on an open socket.
      acknowledges_tools: it confirms when they are in force; otherwise they are for
        responses that begin after they were sent.
      asks_for_responses: a response is requested by `Respond`; otherwise the model
        starts by itself whenever it is its turn.
      answers_speech: in an ``automatic`` session it answers speech by itself; otherwise
        it only detects the end of speech, and is asked.
      takes_text: text may be sent at any time, not only as the first history.
      silent_text: text may be sent that is not answered; otherwise it waits for text
        that is.
      forgets_text: text that was sent can be deleted, by its ``item``.
      cancels: the client can stop a response.
      truncates: the client must cut what was not heard from the model's history;
        otherwise the server does that.
      forbids_tools: one response can be requested without tools.
      calling: what a tool may be declared as; the first is the default.
      stays_owed: calls of tools that are declared so may stay open for as long as they
        take, and the model talks meanwhile; for others it waits, and says nothing.
      scheduling: the kinds of `Schedule` that a result may carry; empty if none.
      recites: it can be asked to speak words exactly as given, beside the conversation.
      resumes: a new socket can continue the conversation of an old one.
      lifetime: seconds after which the server closes the socket, None if unknown.
      input_rate, output_rate: of the audio, in Hz.
      max_tools, max_result, result_depth: limits; what exceeds them is cut. Results are
        counted in bytes of UTF-8.
    """

    live_tools: bool
    acknowledges_tools: bool
    asks_for_responses: bool
    takes_text: bool
    silent_text: bool
    forgets_text: bool
    cancels: bool
    truncates: bool
    forbids_tools: bool
    calling: tuple[Calling, ...]
    stays_owed: frozenset[Calling]
    scheduling: frozenset[Schedule]
    resumes: bool
    lifetime: float | None
    input_rate: int
    output_rate: int
    max_tools: int
    max_result: int
    result_depth: int = 4
    answers_speech: bool = True
    recites: bool = False


@attrs.frozen(kw_only=True)
class S2STool:
    """A tool as it is declared.

    ``parameters`` of the spec are the original ones: the provider reduces them to what
    its vendor accepts, and arguments are never validated against the reduced ones.
    """

    spec: ToolSpec
    calling: Calling


@attrs.frozen
class TranscriptLine:
    """One earlier utterance, for a model that has not heard it."""

    role: Literal["user", "assistant", "system"]
    text: str


@attrs.frozen(kw_only=True)
class Setup:
    """The setup of a socket.

    Args:
      instructions: the system prompt.
      tools: the tools that are declared.
      voice: the vendor's name of the voice; None leaves it to the vendor.
      language: of the user's speech, if known.
      automatic: True if the server detects when the user starts and stops speaking,
        answers by itself (unless its capabilities say that it is asked) and stops when
        interrupted; otherwise the client does all three.
      speaks: True if the answers are audio with a transcript; otherwise text.
      history: earlier utterances, oldest first; not needed when ``handle`` resumes.
      handle: what `HandleIssued` gave, to continue that conversation.
    """

    instructions: str
    tools: tuple[S2STool, ...] = ()
    voice: str | None = None
    language: str | None = None
    automatic: bool = True
    speaks: bool = True
    history: tuple[TranscriptLine, ...] = ()
    handle: str | None = None


# Commands: what the client wants to send.


@attrs.frozen
class SendAudio:
    """Send a piece of microphone audio.

    ``again`` means that another socket has heard it before; then it is not dropped,
    however much waits.
    """

    pcm: bytes
    again: bool = False


@attrs.frozen
class SpeechBegins:
    """Report that the user starts speaking. Only when not ``automatic``."""


@attrs.frozen
class SpeechEnds:
    """Report that the user has finished. Only when not ``automatic``.

    This requests no response.
    """


@attrs.frozen
class DropAudio:
    """Drop the audio that was heard and not yet answered."""


@attrs.frozen
class SendText:
    """Send a line of text.

    Where the protocol ``asks_for_responses`` it requests none; otherwise ``reply`` says
    whether it is answered. ``item`` is its id for `ForgetText`.
    """

    line: TranscriptLine
    reply: bool = True
    item: str | None = None


@attrs.frozen
class ForgetText:
    """Delete text that was sent. Only where the protocol ``forgets_text``."""

    item: str


@attrs.frozen
class SetTools:
    """Replace the declared tools. ``revision`` comes back in `ToolsInForce`."""

    tools: tuple[S2STool, ...]
    revision: int


@attrs.frozen
class SetInstructions:
    """Replace the instructions."""

    text: str


@attrs.frozen(kw_only=True)
class SendResult:
    """Answer a call: a JSON object as text, at most ``max_result`` bytes."""

    call_id: str
    name: str
    output: str
    is_error: bool = False
    schedule: Schedule = Schedule.WHEN_IDLE


@attrs.frozen(kw_only=True)
class Respond:
    """Request a response. Requests that wait for the same moment become one.

    ``instructions`` are for this response only; ``tools_forbidden`` asks for words.
    """

    instructions: str | None = None
    tools_forbidden: bool = False


@attrs.frozen
class Cancel:
    """Stop the response that is active or requested; nothing if there is none.

    A response that was only requested is never reported: no `ResponseStarted`, no end.
    """


@attrs.frozen
class Truncate:
    """Keep only what was heard of this item. More than there was keeps all of it."""

    item: str
    heard_ms: int


@attrs.frozen
class Recite:
    """Speak these words exactly as given.

    They are not part of the conversation, and are spoken beside any response. ``name``
    comes back with their audio.
    """

    name: str
    text: str


@attrs.frozen
class StopReciting:
    """Stop a recital."""

    name: str


Command = (
    SendAudio
    | SpeechBegins
    | SpeechEnds
    | DropAudio
    | SendText
    | ForgetText
    | SetTools
    | SetInstructions
    | SendResult
    | Respond
    | Cancel
    | Truncate
    | Recite
    | StopReciting
)


# Events: what happened on the socket.


@attrs.frozen
class Ready:
    """The socket is set up. ``resumed``: the model remembers the conversation."""

    resumed: bool = False


@attrs.frozen
class ToolsInForce:
    """The tools of that `SetTools` are in force, for the next response."""

    revision: int


@attrs.frozen
class SpeechStarted:
    """The user starts speaking, as the server detects it. That interrupts the model."""


@attrs.frozen
class SpeechStopped:
    """The user has finished. ``item`` is the id of the utterance, if known already."""

    item: str | None = None


@attrs.frozen
class Committed:
    """The last utterance has this id from now on.

    It comes where `SpeechEnds` ended the utterance, or where the model has answered it
    before anything else was known of it.
    """

    item: str


@attrs.frozen
class Heard:
    """The user's words, as the server understood them: all words of that item so far.

    It may come at any time, also long after the answer, and more than once: it fills in
    words, and does not tell who speaks when. ``final`` marks the last one. Without
    ``item`` it is about the last utterance.
    """

    text: str
    final: bool
    item: str | None = None


@attrs.frozen
class ResponseStarted:
    """The model starts a response. There is one at a time, except for recitals.

    ``heard`` is the utterance that it answers, if the protocol tells; otherwise it
    answers the last one.
    """

    response: str
    heard: str | None = None


@attrs.frozen
class AudioOut:
    """A piece of audio to play, of one item of one response."""

    response: str
    item: str
    pcm: bytes


@attrs.frozen
class Spoken:
    """A piece of the text that is spoken."""

    response: str
    item: str
    text: str


@attrs.frozen
class CallReady:
    """A call that is complete, and may start if it changes nothing.

    A call with side effects waits for the end of its response, because it may still be
    discarded. Each call comes in exactly one `ResponseEnded.calls` at most. ``more``
    means that another call of the same message follows at once; both belong to one
    fan-out.
    """

    response: str
    call: ToolCall
    more: bool = False


class ResponseEnd(StrEnum):
    """The ways in which a response ends."""

    COMPLETED = "completed"
    CANCELLED = "cancelled"  # by the client, or because the user started to speak
    INCOMPLETE = "incomplete"  # cut: length, filter
    FAILED = "failed"


@attrs.frozen(kw_only=True)
class ResponseEnded:
    """The model has finished a response.

    ``calls`` are those that count, in order, of a response that completed. The others
    (``void``, by id) must not run; where the protocol has an item for them, they must
    be answered all the same.
    """

    response: str
    end: ResponseEnd
    calls: tuple[ToolCall, ...] = ()
    void: tuple[str, ...] = ()
    detail: str = ""
    usage: Usage | None = None


@attrs.frozen
class CallsCancelled:
    """The server no longer wants answers to these calls, and must get none."""

    ids: tuple[str, ...]


@attrs.frozen
class Recited:
    """A piece of the audio of a recital."""

    name: str
    pcm: bytes


@attrs.frozen(kw_only=True)
class RecitalEnded:
    """The end of a recital: it is complete, or has failed with ``error``.

    ``text`` is what was spoken, as far as the model tells.
    """

    name: str
    text: str = ""
    error: str = ""
    usage: Usage | None = None


@attrs.frozen
class Interrupted:
    """Audio that was sent and not played yet must be dropped."""


@attrs.frozen
class InteractionEnded:
    """The model has nothing more to say to this; it owes nothing."""


@attrs.frozen
class HandleIssued:
    """The handle with which the conversation can be resumed; None: not now."""

    handle: str | None


@attrs.frozen
class GoingAway:
    """The server will close this socket in so many seconds."""

    seconds: float


@attrs.frozen
class UsageSeen:
    """Tokens, where the protocol reports them apart from the end of a response."""

    usage: Usage


@attrs.frozen(kw_only=True)
class Complaint:
    """The server has refused something; the socket stays open.

    ``kind`` says who must act; ``code`` is the vendor's own word for it.
    """

    kind: ErrorKind
    code: str
    detail: str


Event = (
    Ready
    | ToolsInForce
    | SpeechStarted
    | SpeechStopped
    | Committed
    | Heard
    | ResponseStarted
    | AudioOut
    | Spoken
    | CallReady
    | ResponseEnded
    | CallsCancelled
    | Recited
    | RecitalEnded
    | Interrupted
    | InteractionEnded
    | HandleIssued
    | GoingAway
    | UsageSeen
    | Complaint
)


class LinkClosed(GlyphoxaError):
    """The socket is closed, or could not be opened. The text holds no secret.

    ``retryable``: the same setup may work on a new socket. ``code`` is the close code
    of the WebSocket, None if there was none.
    """

    def __init__(
        self,
        kind: ErrorKind,
        detail: str,
        *,
        retryable: bool,
        code: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail
        self.retryable = retryable
        self.code = code
        self.retry_after = retry_after


@attrs.frozen(kw_only=True)
class LinkStatistics:
    """The counts of frames and audio of one socket.

    ``audio_dropped`` counts pieces that were not sent because too many waited: the
    oldest is dropped first.
    """

    sent: int
    received: int
    audio_dropped: int
    unknown: Mapping[str, int]


class RealtimeLink(Protocol):
    """One open socket. Only one task receives from it."""

    def send(self, command: Command) -> None:
        """Send a command. This never waits; control goes before audio.

        What the protocol does not allow yet (a response while one is active) is sent as
        soon as it does; what it never allows raises ValueError. After the socket has
        closed a command is dropped: `receive` reports the end.
        """
        ...

    async def receive(self) -> Event:
        """Return the next event, in order. If cancelled, none is lost.

        Raises:
          LinkClosed: when the socket is closed and every event was received.
        """
        ...

    def statistics(self) -> LinkStatistics: ...


class S2S(Protocol):
    """A speech-to-speech model. ``label`` names it, for people."""

    @property
    def label(self) -> str: ...

    @property
    def capabilities(self) -> Capabilities: ...

    def connect(self, setup: Setup) -> AbstractAsyncContextManager[RealtimeLink]:
        """Open a socket and set it up; `Ready` is its first event.

        Leaving closes it within a second. The link owns its tasks: one reads, one
        writes.

        Raises:
          LinkClosed: if it cannot be opened within 15 s; without `Ready` within 15
            more, `receive` raises it.
        """
        ...


if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, Line="TranscriptLine", Link="RealtimeLink")
