"""The contract of a speech-to-speech model: commands in, events out, one socket.

A `RealtimeLink` is one socket and knows only what is legal on it. What belongs together
over several sockets - history, owed calls, epochs, policies - is not here: it is
the NPC session's. So a provider never waits, never retries, never decides: it
says what happened and what the wire allows (`Capabilities`).

Audio is PCM16, little endian, mono, at the rates of the capabilities. Times are
seconds, durations on the wire milliseconds. Above 300 lines, because a contract is
read in one place.
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
    """Whether the model waits for a tool (G36)."""

    BLOCKING = "blocking"
    NON_BLOCKING = "non_blocking"


@attrs.frozen(kw_only=True)
class Capabilities:
    """What a model can do on its wire: data, not assumptions.

    Args:
      live_tools: its tools can be replaced on an open socket.
      acknowledges_tools: and it says when they are in force; else they are for
        generations that begin after the write (D23a).
      asks_for_responses: a response is asked for by `Respond`; else the model
        begins by itself whenever it is its turn.
      answers_speech: in an ``automatic`` session it answers what it hears by itself;
        else it only hears when somebody has finished, and is asked.
      takes_text: text may be sent at any time, not only as the first history.
      silent_text: and without being answered; else it waits for text that is.
      forgets_text: what was sent can be taken back, by its ``item``.
      cancels: a response can be stopped by the client.
      truncates: what was not heard must be cut from the model's history by the
        client; else the server does that itself.
      forbids_tools: one response can be asked for without tools.
      calling: what a tool may be declared as; the first is the default.
      stays_owed: calls of tools that are declared so may stay open for as long as they
        take, and the model talks meanwhile; for others it waits, and says nothing.
      scheduling: what `Schedule` a result may carry; empty if none at all.
      recites: it can be asked to say words as they stand, beside the conversation.
      resumes: a new socket can go on with the conversation of an old one.
      lifetime: seconds after which the server closes the socket, None if unknown.
      max_tools, max_result, result_depth: more is cut (bytes of UTF-8 for results).
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
    """A tool as it is declared. ``parameters`` of the spec are the original ones:
    the provider reduces them to what its vendor takes, and nobody validates
    arguments against the reduced ones."""

    spec: ToolSpec
    calling: Calling


@attrs.frozen
class TranscriptLine:
    """One thing that was said, for a model that was not there."""

    role: Literal["user", "assistant", "system"]
    text: str


@attrs.frozen(kw_only=True)
class Setup:
    """What a socket begins with.

    Args:
      automatic: the server hears when somebody begins and ends to speak, answers
        by itself (unless its capabilities say that it is asked) and stops when
        interrupted; else the client says all three.
      speaks: the answers are audio with a transcript; else text.
      history: said before, oldest first; not needed when ``handle`` resumes.
      handle: what `HandleIssued` gave, to go on with that conversation.
    """

    instructions: str
    tools: tuple[S2STool, ...] = ()
    voice: str | None = None
    language: str | None = None
    automatic: bool = True
    speaks: bool = True
    history: tuple[TranscriptLine, ...] = ()
    handle: str | None = None


# Commands: what a conversation wants of the wire.


@attrs.frozen
class SendAudio:
    """A piece of what the microphone hears. ``again``: another socket has heard it
    before; it is not dropped, however much waits."""

    pcm: bytes
    again: bool = False


@attrs.frozen
class SpeechBegins:
    """Somebody begins to speak. Only when not ``automatic``."""


@attrs.frozen
class SpeechEnds:
    """They have finished. Only when not ``automatic``. Asks for no response."""


@attrs.frozen
class DropAudio:
    """What was heard and not yet answered is to be forgotten."""


@attrs.frozen
class SendText:
    """Something said in text. Asks for no response on a wire that
    ``asks_for_responses``; on another, ``reply`` says whether it is answered. ``item``
    names it for `ForgetText`."""

    line: TranscriptLine
    reply: bool = True
    item: str | None = None


@attrs.frozen
class ForgetText:
    """Text that was sent holds no more. Only where the wire ``forgets_text``."""

    item: str


@attrs.frozen
class SetTools:
    """Replace the declared tools. ``revision`` comes back in `ToolsInForce`."""

    tools: tuple[S2STool, ...]
    revision: int


@attrs.frozen
class SetInstructions:
    text: str


@attrs.frozen(kw_only=True)
class SendResult:
    """The answer to a call: a JSON object as text, at most ``max_result`` bytes."""

    call_id: str
    name: str
    output: str
    is_error: bool = False
    schedule: Schedule = Schedule.WHEN_IDLE


@attrs.frozen(kw_only=True)
class Respond:
    """A response is wanted. Those that wait for the same moment are one.

    ``instructions`` for this response only; ``tools_forbidden``: in words.
    """

    instructions: str | None = None
    tools_forbidden: bool = False


@attrs.frozen
class Cancel:
    """Stop the response that is running or asked for; nothing if none is.

    One that was only asked for is never heard of: no `ResponseStarted`, no end."""


@attrs.frozen
class Truncate:
    """Of this item, only so much was heard. More than there was is all of it."""

    item: str
    heard_ms: int


@attrs.frozen
class Recite:
    """Say these words as they stand: they are no part of the conversation, and are said
    beside whatever runs. ``name`` comes back with their audio."""

    name: str
    text: str


@attrs.frozen
class StopReciting:
    """Nobody listens to that any more."""

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


# Events: what happened on the wire.


@attrs.frozen
class Ready:
    """The socket is set up. ``resumed``: the model remembers what was before."""

    resumed: bool = False


@attrs.frozen
class ToolsInForce:
    """The tools of that `SetTools` are declared now, for the next response."""

    revision: int


@attrs.frozen
class SpeechStarted:
    """Somebody begins to speak, as the server hears it. It interrupts."""


@attrs.frozen
class SpeechStopped:
    """They have finished. ``item``: what they said, if it has a name already."""

    item: str | None = None


@attrs.frozen
class Committed:
    """What was said last has this name from now on: where `SpeechEnds` ended it, or
    the model has answered it before anything else was known of it."""

    item: str


@attrs.frozen
class Heard:
    """What somebody said, as the server understood it: all the words of that item so
    far, or all of them.

    It may come at any time, also long after its answer, and more than once: it fills in
    words, and says nothing of who speaks when. Without ``item`` it is of what was said
    last."""

    text: str
    final: bool
    item: str | None = None


@attrs.frozen
class ResponseStarted:
    """The model begins to answer. One at a time, but for those out of band.

    ``heard``: what was said that it answers, where the wire tells; else it is the
    answer to whatever came last."""

    response: str
    heard: str | None = None


@attrs.frozen
class AudioOut:
    """A piece of what is to be played, of one item of one response."""

    response: str
    item: str
    pcm: bytes


@attrs.frozen
class Spoken:
    """A piece of the text of what is said."""

    response: str
    item: str
    text: str


@attrs.frozen
class CallReady:
    """A call that is complete and may be begun if it changes nothing.

    One with side effects waits for its response's end: it may yet be discarded.
    Each call comes in exactly one `ResponseEnded.calls` at most. ``more``: another of
    the same message follows at once, and both belong to one fan-out.
    """

    response: str
    call: ToolCall
    more: bool = False


class ResponseEnd(StrEnum):
    COMPLETED = "completed"
    CANCELLED = "cancelled"  # by the client, or because somebody began to speak
    INCOMPLETE = "incomplete"  # cut: length, filter
    FAILED = "failed"


@attrs.frozen(kw_only=True)
class ResponseEnded:
    """The model has finished. ``calls`` are those that hold, in order: only of a
    response that completed; the others of it (``void``, by id) are not to be run
    and, where the wire has an item of them, are owed an answer all the same.
    """

    response: str
    end: ResponseEnd
    calls: tuple[ToolCall, ...] = ()
    void: tuple[str, ...] = ()
    detail: str = ""
    usage: Usage | None = None


@attrs.frozen
class CallsCancelled:
    """The server wants no answer to these any more, and must get none."""

    ids: tuple[str, ...]


@attrs.frozen
class Recited:
    """A piece of what was to be said as it stands."""

    name: str
    pcm: bytes


@attrs.frozen(kw_only=True)
class RecitalEnded:
    """All of it was said, or nothing more will be because of ``error``. ``text`` is
    what was said, as far as the model tells."""

    name: str
    text: str = ""
    error: str = ""
    usage: Usage | None = None


@attrs.frozen
class Interrupted:
    """What was sent and not played yet is void: flush it."""


@attrs.frozen
class InteractionEnded:
    """The model has said all it is going to say to this; it owes nothing."""


@attrs.frozen
class HandleIssued:
    """The conversation can be resumed with this, if ``handle`` is not None; not
    now, if it is."""

    handle: str | None


@attrs.frozen
class GoingAway:
    """The server closes this socket in so many seconds."""

    seconds: float


@attrs.frozen
class UsageSeen:
    """Tokens, where the wire tells them apart from a response's end."""

    usage: Usage


@attrs.frozen(kw_only=True)
class Complaint:
    """The server did not take something; the socket stays open.

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
    """The socket is gone, or never came to be. Holds no secret.

    ``retryable``: the same setup may work on a new socket. ``code`` is the close
    code of the WebSocket, None if there was none.
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
    """Frames and audio of one socket. ``audio_dropped`` counts pieces that were not
    sent because too much waited: the oldest goes first."""

    sent: int
    received: int
    audio_dropped: int
    unknown: Mapping[str, int]


class RealtimeLink(Protocol):
    """One open socket. One task reads it."""

    def send(self, command: Command) -> None:
        """Put it on its way: never waits, control goes before audio.

        What the wire does not allow yet (a response while one is active) goes out
        as soon as it does; what it never allows raises ValueError. After the socket
        has closed it goes nowhere: `receive` says so.
        """
        ...

    async def receive(self) -> Event:
        """The next event, in order. Cancelled, it loses none.

        Raises:
          LinkClosed: when the socket is gone and every event was taken.
        """
        ...

    def statistics(self) -> LinkStatistics: ...


class S2S(Protocol):
    """A speech-to-speech model. ``label`` says which, for people."""

    @property
    def label(self) -> str: ...

    @property
    def capabilities(self) -> Capabilities: ...

    def connect(self, setup: Setup) -> AbstractAsyncContextManager[RealtimeLink]:
        """Open a socket and set it up; `Ready` is its first event.

        Leaving closes it within a second. Owns its tasks: one reads, one writes.

        Raises:
          LinkClosed: if it cannot be opened within 15 s; without `Ready` within
            15 more, `receive` raises it.
        """
        ...


if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, Line="TranscriptLine", Link="RealtimeLink")
