"""The messages of the bus, version 1: JSON objects whose ``type`` says which.

Times are milliseconds and end in ``_ms``. `AckMessage` and `LeaveMessage` are those of
the gateway (`service.protocol`), as JSON. ``v`` is the major version, left out if it is
1; within one, fields with defaults may be added, which older programs ignore.
A field that says which case it is, such as ``reason``, is any text for the same cause.

An ``id`` belongs to one utterance or request, and is unique in a deployment for ever:
it is what keeps an utterance that is sent again from being run again.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta, Struct

from glyphoxa_trio.npc.identity import DEFAULT, SessionKey
from glyphoxa_trio.tools.outcome import ToolResult

CREDIT: Final = 32
"""The number of events that are sent before one is acknowledged, to begin with."""

Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=64)]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
OptionalName: TypeAlias = Annotated[str, Meta(max_length=200)]
Text: TypeAlias = Annotated[str, Meta(max_length=16 * 1024)]
Detail: TypeAlias = Annotated[str, Meta(max_length=2000)]
Number: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
Positive: TypeAlias = Annotated[int, Meta(ge=1, le=2**53)]
Milliseconds: TypeAlias = Annotated[float, Meta(ge=0, le=86_400_000)]
Npcs: TypeAlias = Annotated[list[Name], Meta(max_length=200)]
TierName: TypeAlias = Literal["fast", "standard", "deep"]
CallEnd: TypeAlias = Literal["ok", "timeout", "censored"]


class OwnerSilence(StrEnum):
    """The reasons for which a session may be taken from its owner, and no others."""

    NO_RESPONDERS = "no_responders"
    NO_PONG = "no_pong"
    OLD_BEAT = "old_beat"


class RefusalReason(StrEnum):
    """The reason why a worker refuses. ``FENCED``: the session has another owner."""

    OTHER_DEPLOYMENT = "other_deployment"
    NEWER_VERSION = "newer_version"
    WRONG_TENANT = "wrong_tenant"
    SHED = "shed"
    QUOTA = "quota"
    DRAINING = "draining"
    STOOD_STILL = "stood_still"
    INVALID = "invalid"
    NOT_FOUND = "not_found"
    UNAVAILABLE = "unavailable"
    FENCED = "fenced"
    FAILED = "failed"


class BusMessage(
    Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True
):
    """The base class of all messages."""

    v: Positive = 1


class SilentOwner(Struct, frozen=True, kw_only=True):
    """An owner that does not answer: the session may be taken from this epoch."""

    worker: Id
    epoch: Positive
    why: Id


class SayMessage(BusMessage, frozen=True, kw_only=True, tag="say"):
    """Say something to an NPC, or to a scene. `AcceptedMessage`, `MovedMessage`,
    `RefusedMessage` or, if it was run before, `DoneMessage` answers.

    ``how``: the method of `Npc` or `Scene` that is called. ``scene``: the NPCs of the
    scene, ``[]`` for all; None for an NPC alone. In a scene, ``npc`` is who is
    addressed whatever the text says; "" leaves that to the text.
    ``remaining_ms``: what is left of the turn's time. ``events``: those that are sent.
    ``silent``: the owner that the sender found silent. ``least``: whoever has the
    session in an older epoch has lost it.
    """

    id: Id
    session: Name = DEFAULT
    tenant: OptionalName = ""
    npc: OptionalName = ""
    scene: Npcs | None = None
    how: Literal["say", "speak_as", "greet"] = "say"
    text: Text = ""
    speaker: Name = "player"
    dm: bool = False
    whisper: bool = False
    tier: TierName | None = None
    remaining_ms: Milliseconds
    credit: Annotated[int, Meta(ge=1, le=4096)] = CREDIT
    events: Literal["spoken", "all"] = "spoken"
    silent: SilentOwner | None = None
    least: Number = 0

    @property
    def key(self) -> SessionKey:
        """The session."""
        return SessionKey(self.session, self.tenant)


class AcceptedMessage(BusMessage, frozen=True, kw_only=True, tag="accepted"):
    """The utterance is run by ``worker``, as turn ``turn`` of the session."""

    id: Id
    worker: Id
    epoch: Positive
    turn: Positive


class MovedMessage(BusMessage, frozen=True, kw_only=True, tag="moved"):
    """The session is ``worker``'s, in this epoch."""

    id: Id
    worker: Id
    epoch: Positive


class RefusedMessage(BusMessage, frozen=True, kw_only=True, tag="refused"):
    """The request is not carried out, for a `RefusalReason`.

    ``epoch``: that in which this worker has, or had, the session; 0 if it has not.
    """

    id: Id
    worker: Id
    reason: Id
    epoch: Number = 0
    message: Detail = ""


class EventsMessage(BusMessage, frozen=True, kw_only=True, tag="events"):
    """Events of a turn that fell due together, as `wire.plain` has them, oldest first.

    ``n``: the number of the first in the turn, from 1.
    """

    id: Id
    epoch: Positive
    turn: Positive
    n: Positive
    events: Annotated[list[dict[str, Any]], Meta(min_length=1)]


class DoneMessage(BusMessage, frozen=True, kw_only=True, tag="done"):
    """The turn is over; ``event`` is its ``TurnDone``, with number ``n``.

    ``n`` is 0, and ``end`` is ``lost``, if the utterance was run before it was sent
    again. ``kept``: it is written, and survives the worker.
    """

    id: Id
    epoch: Positive
    turn: Positive
    n: Number
    end: Id
    kept: bool = True
    event: dict[str, Any] | None = None


class AckMessage(BusMessage, frozen=True, kw_only=True, tag="ack"):
    """The events up to ``n`` have arrived, and as many more may be sent.

    ``played_ms``: how much of the turn's audio was played in all.
    """

    id: Id
    n: Number
    played_ms: Milliseconds | None = None


class LeaveMessage(BusMessage, frozen=True, kw_only=True, tag="leave"):
    """Interrupt the turn; its last events still come."""

    id: Id


class AskMessage(BusMessage, frozen=True, kw_only=True, tag="ask"):
    """Any other request of a session, as `asked` has them. `AnswerMessage`,
    `MovedMessage` or `RefusedMessage` answers.

    ``npc`` and ``scene``: whom it is for; the session itself if both are left out. The
    other fields are those of `SayMessage`.
    """

    id: Id
    session: Name = DEFAULT
    tenant: OptionalName = ""
    npc: Name | None = None
    scene: Npcs | None = None
    what: Id
    fields: dict[str, Any] = {}
    remaining_ms: Milliseconds
    silent: SilentOwner | None = None
    least: Number = 0

    @property
    def key(self) -> SessionKey:
        """The session."""
        return SessionKey(self.session, self.tenant)


class AnswerMessage(BusMessage, frozen=True, kw_only=True, tag="answer"):
    """The result of an `AskMessage`, as plain data."""

    id: Id
    worker: Id
    epoch: Positive
    result: Any = None


Asking: TypeAlias = SayMessage | AskMessage
"""A message for the owner of a session."""


class ListMessage(BusMessage, frozen=True, kw_only=True, tag="list"):
    """Ask a worker which sessions it has; `ListedMessage` answers.

    ``tenant`` and ``session``: only those; None is any.
    """

    id: Id
    tenant: OptionalName | None = None
    session: Name | None = None
    most: Annotated[int, Meta(ge=1, le=250)] = 250  # whose names fit into a message


class ListedSession(Struct, frozen=True, kw_only=True):
    """A session of a worker. ``turns``: the utterances that run or wait there."""

    session: Name
    tenant: OptionalName = ""
    epoch: Positive
    turns: Number = 0


class ListedMessage(BusMessage, frozen=True, kw_only=True, tag="listed"):
    """Sessions of a worker, by tenant and name. ``more``: so many are left out."""

    id: Id
    worker: Id
    sessions: list[ListedSession]
    more: Number = 0


class DrainMessage(BusMessage, frozen=True, kw_only=True, tag="drain"):
    """Have a worker give its sessions to others, and end. It answers with its next
    `BeatMessage`.

    ``within_ms``: the time for turns that run.
    """

    within_ms: Milliseconds


class LookMessage(BusMessage, frozen=True, kw_only=True, tag="look"):
    """Ask a worker for a page of `glyphoxa run`; `ShownMessage` answers.

    ``page``: the path of an endpoint that changes nothing, with the names of its
    parameters, as ``/api/turns/{number}``; ``path`` and ``query`` are the values.
    ``tenant``: the owner of the sessions and turns that are shown.
    """

    id: Id
    page: Name
    path: dict[str, Name] = {}
    query: dict[str, Name] = {}
    tenant: OptionalName = ""


class ShownMessage(BusMessage, frozen=True, kw_only=True, tag="shown"):
    """The answer to a `LookMessage`: the status of HTTP, and the body."""

    id: Id
    worker: Id
    status: Number
    body: Any = None


class WatchMessage(BusMessage, frozen=True, kw_only=True, tag="watch"):
    """Have a worker send the events of all its turns, for so long; to be sent again
    before that, and ended by a `LeaveMessage`. `SeenMessage` answers at once.

    ``tenant`` and ``session``: only theirs; a session of None is all. ``deltas``: with
    the pieces of texts. ``directs``: whoever watches answers approvals.
    """

    id: Id
    for_ms: Milliseconds
    tenant: OptionalName = ""
    session: Name | None = None
    deltas: bool = False
    directs: bool = False


class SeenMessage(BusMessage, frozen=True, kw_only=True, tag="seen"):
    """Events of a watch, as JSON has them; ``n`` is the number of the first, or of the
    next. A number that is missing was dropped."""

    id: Id
    worker: Id
    n: Positive
    events: list[dict[str, Any]] = []


class PingMessage(BusMessage, frozen=True, kw_only=True, tag="ping"):
    """Ask a worker if it lives: one for all that a client has open there."""


class PongMessage(BusMessage, frozen=True, kw_only=True, tag="pong"):
    """The answer to `PingMessage`."""

    worker: Id


class BeatMessage(BusMessage, frozen=True, kw_only=True, tag="beat"):
    """A worker lives. It hears its own beats, and so learns that it is connected.

    ``worker`` is unique to the process, and ``where`` says for people which one that
    is. ``n`` counts its beats. ``room``: the number of
    sessions that it has room for. ``still``: it stood still, and refuses for now.
    ``late_ms``: how late its loop was at most since the beat before, and
    ``late_p99_ms`` 99 times of 100 in the last half minute. ``shed``: the share of
    turns of the last minute that were turned away. ``journal_lag_ms``: how long the
    oldest turn that is not written yet waits. ``claims``, ``restores`` and ``fenced``
    count since it began: see `signals`.
    """

    worker: Id
    where: Detail = ""
    deployment: Id
    version: Id
    n: Positive
    sessions: Number = 0
    turns: Number = 0
    late_ms: Milliseconds = 0.0
    room: Number = 0
    draining: bool = False
    still: bool = False
    late_p99_ms: Milliseconds = 0.0
    shed: Annotated[float, Meta(ge=0, le=1)] = 0.0
    journal_lag_ms: Milliseconds = 0.0
    claims: Number = 0
    restores: Number = 0
    fenced: Number = 0


class ToolName(Struct, frozen=True, kw_only=True):
    """A tool, and where it runs: the fields of `tools.history.ToolPlace`."""

    environment: Detail
    origin: Detail = ""
    key: Detail


class ToolTimes(Struct, frozen=True, kw_only=True):
    """Calls of a tool that reached it: how each ended, and the time that it took."""

    tool: ToolName
    calls: Annotated[list[tuple[CallEnd, Milliseconds]], Meta(max_length=64)]


class KnowledgeMessage(BusMessage, frozen=True, kw_only=True, tag="knowledge"):
    """News of tools from a worker; its name is in the subject.

    ``failing``: tools whose breaker has opened there. ``written``: groups of tools
    whose cached results are out of date.
    """

    deployment: Id
    times: Annotated[list[ToolTimes], Meta(max_length=256)] = []
    failing: Annotated[list[ToolName], Meta(max_length=256)] = []
    written: Annotated[list[Detail], Meta(max_length=256)] = []


class SharedCallMessage(BusMessage, frozen=True, kw_only=True, tag="call"):
    """Ask a worker for the result of a call that only reads, which belongs to it.
    `SharedResultMessage` answers.

    ``fingerprint``: of the tool, which must be the same there. ``arguments``: JSON.
    ``tenant``: the owner of the session that it is for. ``remaining_ms``: what is left
    of the call's time.
    """

    deployment: Id
    tool: ToolName
    fingerprint: Detail
    arguments: Annotated[str, Meta(max_length=64 * 1024)]
    tenant: OptionalName = ""
    remaining_ms: Milliseconds


class SharedResultMessage(BusMessage, frozen=True, kw_only=True, tag="result"):
    """The answer to a `SharedCallMessage`.

    ``taken``: the call is made, and another message has its end. Without a ``result``
    it is refused, or has failed, for the reason in ``message``. ``valid_ms``: how long
    the result may be cached yet.
    """

    taken: bool = False
    result: ToolResult | None = None
    valid_ms: Milliseconds = 0.0
    message: Detail = ""


AnyMessage: TypeAlias = (
    SayMessage
    | AcceptedMessage
    | MovedMessage
    | RefusedMessage
    | EventsMessage
    | DoneMessage
    | AckMessage
    | LeaveMessage
    | AskMessage
    | AnswerMessage
    | ListMessage
    | ListedMessage
    | DrainMessage
    | LookMessage
    | ShownMessage
    | WatchMessage
    | SeenMessage
    | PingMessage
    | PongMessage
    | BeatMessage
    | KnowledgeMessage
    | SharedCallMessage
    | SharedResultMessage
)
