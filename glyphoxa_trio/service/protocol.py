"""The messages of the gateway, version 1: JSON objects whose ``type`` says which.

Everything that a client and a runtime say to each other is here, and nothing else: the
schema in ``docs/gateway.schema.json`` is made of it (`service.schema`). Times are
milliseconds and end in ``_ms``. Text frames are messages; binary frames are audio,
PCM16 mono: from the client, of the microphone that it has opened (`ListenRequest`); to
the client, the audio of each ``Speech`` event, right after the message with the event
and in the same order.

A message of a client may have an ``id``, any text of its own, which the answer repeats:
`DoneReply`, `AcceptedReply` or `FailedReply`. Unknown fields are refused.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from glyphoxa_trio.errors import GlyphoxaError

from .rights import Right

VERSION: Final = 1
MOST_BYTES: Final = 256 * 1024
"""The size of a message of a client, and of a binary frame."""

Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=64)]
Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]
Text: TypeAlias = Annotated[str, Field(max_length=16 * 1024)]
Names: TypeAlias = Annotated[list[Name], Field(max_length=100)]
TierName: TypeAlias = Literal["fast", "standard", "deep"]
Milliseconds: TypeAlias = Annotated[
    float, Field(ge=0, le=86_400_000, allow_inf_nan=False)
]
Variables: TypeAlias = Annotated[dict[Name, Text | None], Field(max_length=100)]


class InvalidRequest(GlyphoxaError):
    """A client sent no message of this protocol; the text says why.

    ``id`` is that of the message, as far as there is one.
    """

    def __init__(self, why: str, id: str | None = None) -> None:  # noqa: A002
        super().__init__(why)
        self.id = id


class GatewayMessage(BaseModel):
    """The base class of all messages. ``right`` is what a client needs to send it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    right: ClassVar[Right | None] = Right.TALK


# -- what a client says ----------------------------------------------------------


class HelloRequest(GatewayMessage):
    """The first message of a client, within five seconds.

    ``token``: needed for everything that is not free to all (`service.rights`).
    """

    right = None
    type: Literal["hello"]
    protocol: int
    token: Annotated[str, Field(max_length=4096)] | None = None


class JoinRequest(GatewayMessage):
    """Open a session, or join it if it is open; the answer has its NPCs.

    What is said in a session that nobody has joined opens it as well.
    ``players`` are the stable ids of players by the names under which they speak.
    """

    type: Literal["join"]
    id: Id | None = None
    session: Name = "default"
    campaign: Name | None = None
    players: Annotated[dict[Name, Name], Field(max_length=100)] = Field(
        default_factory=dict
    )
    variables: Variables = Field(default_factory=dict)


class AddressedRequest(GatewayMessage):
    """The base of messages to one NPC of a session, or to a scene of several.

    ``npc`` is the name of one, or its unique beginning. Without it the message is for a
    scene: of the NPCs in ``scene``, or of all.
    """

    session: Name = "default"
    npc: Name | None = None
    scene: Names = Field(default_factory=list)


class SayRequest(AddressedRequest):
    """Say something; `AcceptedReply` answers, and `EventsReply`s of this ``id`` come.

    ``tier``: in place of the selection, up to the NPC's ceiling. ``remaining_ms``:
    the turn is interrupted after this time. ``to``: in a scene, the NPC that is
    addressed. ``voiced``: False leaves out audio, for NPCs that have a voice.
    """

    type: Literal["say"]
    id: Id
    text: Text
    speaker: Name = "player"
    tier: TierName | None = None
    to: Name | None = None
    remaining_ms: Milliseconds | None = None
    voiced: bool = True


class HearingRequest(AddressedRequest):
    """The words of a player so far, while they still speak."""

    type: Literal["hearing"]
    id: Id | None = None
    text: Text
    speaker: Name = "player"


class GreetRequest(AddressedRequest):
    """Have an NPC say its greeting; it is answered as `SayRequest` is."""

    type: Literal["greet"]
    id: Id
    npc: Name
    speaker: Name = "player"


class TurnToRequest(GatewayMessage):
    """Have what this player says next in a scene be for this NPC, if it names none."""

    type: Literal["turn_to"]
    id: Id | None = None
    session: Name = "default"
    scene: Names = Field(default_factory=list)
    npc: Name
    speaker: Name = "player"


class LeaveRequest(GatewayMessage):
    """Interrupt what ``id`` said, or close the microphone of that ``id``.

    The last events of the turn still come.
    """

    type: Literal["leave"]
    id: Id


class AckRequest(GatewayMessage):
    """The events up to number ``n`` of ``id`` have arrived, and more may be sent.

    What is acknowledged counts as delivered, and the NPC remembers it. ``played_ms``:
    how much of the turn's audio was played in all; from the first such report on, only
    what was played counts.
    """

    type: Literal["ack"]
    id: Id
    n: Annotated[int, Field(ge=0, le=2**53)]
    played_ms: Milliseconds | None = None


class ListenRequest(AddressedRequest):
    """Open the microphone: binary frames are its audio from now on.

    ``rate`` is its sample rate in Hz. `AcceptedReply` answers when it is heard, and
    `EventsReply`s of this ``id`` come, of all turns. ``played_ms`` of an `AckRequest`
    counts from the beginning or from the last ``Flush``.
    """

    type: Literal["listen"]
    id: Id
    speaker: Name = "player"
    rate: Annotated[int, Field(ge=8000, le=192_000)]


class MediaRequest(GatewayMessage):
    """Ask where the audio of an NPC is served, if that is not here: in front of several
    machines it is at the one that has the session.

    ``DoneReply.result`` has ``url``, of a WebSocket with this protocol; ``token``, for
    the hello there, which is for this NPC of this session alone; and ``within_ms``,
    after which the token is refused.
    """

    type: Literal["media"]
    id: Id
    session: Name = "default"
    npc: Name


class PingRequest(GatewayMessage):
    """Any message shows that the client lives; this one does nothing else."""

    type: Literal["ping"]
    id: Id | None = None


class WatchRequest(GatewayMessage):
    """Show all turns, of one session or of all, as they happen, until `LeaveRequest`.

    `EventsReply`s of this ``id`` come, which need no `AckRequest`: each event has
    ``at_ms``, milliseconds since 1970. Beside events of turns there are
    ``StateChanged``, when servers, tools, sessions or the configuration change, and
    ``Probed``, for each tool that is measured. ``deltas``: with the pieces of texts,
    which come again as sentences.
    """

    right = Right.READ
    type: Literal["watch"]
    id: Id
    session: Name | None = None
    deltas: bool = False


class InterruptRequest(AddressedRequest):
    """End the answer that runs, whoever it is for; without ``npc`` and ``scene``, all
    answers of the session."""

    right = Right.DIRECT
    type: Literal["interrupt"]
    id: Id | None = None


class ApproveRequest(GatewayMessage):
    """Answer an ``ApprovalNeeded`` by its ``question``; the first answer counts."""

    right = Right.DIRECT
    type: Literal["approve"]
    id: Id | None = None
    session: Name = "default"
    npc: Name
    question: Text
    yes: bool


class OverhearRequest(AddressedRequest):
    """Let NPCs hear what a speaker says to somebody else. None answers."""

    right = Right.DIRECT
    type: Literal["overhear"]
    id: Id | None = None
    speaker: Name
    text: Text
    to: Annotated[str, Field(max_length=200)] = ""


class SetSceneRequest(AddressedRequest):
    """Tell NPCs the facts of their scene, in place of earlier ones."""

    right = Right.DIRECT
    type: Literal["scene"]
    id: Id | None = None
    context: Annotated[list[Text], Field(max_length=100)]


class SpeakAsRequest(AddressedRequest):
    """Have an NPC say these words literally; it is answered as `SayRequest` is."""

    right = Right.DIRECT
    type: Literal["speak_as"]
    id: Id
    npc: Name
    text: Text
    speaker: Name = "DM"


class ElevateRequest(GatewayMessage):
    """Raise the ceiling of an NPC to ``tier`` for so many ``seconds``."""

    right = Right.DIRECT
    type: Literal["elevate"]
    id: Id | None = None
    session: Name = "default"
    npc: Name
    tier: TierName
    seconds: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] = 60.0


class MuteRequest(GatewayMessage):
    """Have an NPC of a scene say nothing, or speak again."""

    right = Right.DIRECT
    type: Literal["mute"]
    id: Id | None = None
    session: Name = "default"
    scene: Names = Field(default_factory=list)
    npc: Name
    muted: bool = True


class PuppetRequest(GatewayMessage):
    """Have all that is said in a scene be for one NPC; without ``npc`` no longer."""

    right = Right.DIRECT
    type: Literal["puppet"]
    id: Id | None = None
    session: Name = "default"
    scene: Names = Field(default_factory=list)
    npc: Name | None = None


class LookRequest(GatewayMessage):
    """Ask for the state of a scene: ``DoneReply.result`` has ``npcs``, ``speaking``,
    ``muted``, ``puppet`` and ``context``."""

    right = Right.DIRECT
    type: Literal["look"]
    id: Id
    session: Name = "default"
    scene: Names = Field(default_factory=list)


class LearnRequest(GatewayMessage):
    """Put world data into the memory of a session's campaign, as
    `glyphoxa memory import` does with a file of this ``name``.

    ``data``: the content of such a file, parsed: documents of Foundry VTT, a campaign
    file and so on. ``DoneReply.result`` has ``entities``, ``relationships``, ``facts``,
    how many of them are new, changed or removed, and ``skipped``, how many were left
    out.
    """

    right = Right.DIRECT
    type: Literal["learn"]
    id: Id | None = None
    session: Name = "default"
    name: Name
    data: dict[str, Any] | list[Any]


class EndRequest(GatewayMessage):
    """End a session, and what runs in it."""

    right = Right.DIRECT
    type: Literal["end"]
    id: Id | None = None
    session: Name


Request: TypeAlias = (
    JoinRequest
    | SayRequest
    | HearingRequest
    | GreetRequest
    | TurnToRequest
    | LeaveRequest
    | AckRequest
    | ListenRequest
    | MediaRequest
    | PingRequest
    | WatchRequest
    | InterruptRequest
    | ApproveRequest
    | OverhearRequest
    | SetSceneRequest
    | SpeakAsRequest
    | ElevateRequest
    | MuteRequest
    | PuppetRequest
    | LookRequest
    | LearnRequest
    | EndRequest
)
"""A message of a client after its `HelloRequest`."""

# -- what the service says -------------------------------------------------------


class NpcInfo(GatewayMessage):
    """An NPC of a session; ``tier`` is its ceiling."""

    name: str
    tier: TierName


class WelcomeReply(GatewayMessage):
    """The answer to `HelloRequest`.

    Without a message for ``heartbeat_ms`` the service closes the connection.
    ``session``: the only one that this client may use. ``speaker``: the only name under
    which it may speak, and the one that it has where it gives none. ``window``: the
    number of events of one utterance that are sent before one is acknowledged.
    """

    type: Literal["welcome"] = "welcome"
    protocol: int = VERSION
    version: str
    role: str
    session: str | None = None
    speaker: str | None = None
    heartbeat_ms: int
    window: int


class JoinedReply(GatewayMessage):
    """The answer to `JoinRequest`."""

    type: Literal["joined"] = "joined"
    id: str | None = None
    session: str
    npcs: list[NpcInfo]


class AcceptedReply(GatewayMessage):
    """The utterance, or the microphone, of ``id`` is accepted; events follow."""

    type: Literal["accepted"] = "accepted"
    id: str


class EventsReply(GatewayMessage):
    """Events that fell due within five milliseconds, oldest first.

    Each is an object with ``id``, of the utterance or microphone; ``n``, its number
    there, from 1; ``event``, its kind; and the fields of that kind. A ``Speech`` has
    ``bytes``, the size of its binary frame, in place of its audio.
    """

    type: Literal["events"] = "events"
    events: list[dict[str, Any]]


class DoneReply(GatewayMessage):
    """The request of ``id`` is carried out. ``result``: its answer, if it has one.

    A request without an ``id`` is answered only if it fails.
    """

    type: Literal["done"] = "done"
    id: str | None = None
    result: bool | dict[str, Any] | None = None


class FailedReply(GatewayMessage):
    """A request failed, or an utterance was not accepted. ``code`` says how:

    ``bad_message``, ``forbidden``, ``not_found``, ``busy``, ``too_many``,
    ``refused`` (by the runtime), ``failed`` (an error of this program).
    """

    type: Literal["error"] = "error"
    id: str | None = None
    code: str
    message: str


class LaggingReply(GatewayMessage):
    """Events of ``id`` wait, because the client has not acknowledged the last ones."""

    type: Literal["lagging"] = "lagging"
    id: str
    waiting: int


class PongReply(GatewayMessage):
    """The answer to `PingRequest`."""

    type: Literal["pong"] = "pong"
    id: str | None = None


Reply: TypeAlias = (
    WelcomeReply
    | JoinedReply
    | AcceptedReply
    | EventsReply
    | DoneReply
    | FailedReply
    | LaggingReply
    | PongReply
)
"""A message of the service."""

REQUESTS: Final[TypeAdapter[Request]] = TypeAdapter(
    Annotated[Request, Field(discriminator="type")]
)
REPLIES: Final[TypeAdapter[Reply]] = TypeAdapter(
    Annotated[Reply, Field(discriminator="type")]
)


def read_hello(frame: str | bytes) -> HelloRequest:
    """Read the first message of a client.

    Raises:
      InvalidRequest: it is no `HelloRequest`.
    """
    if isinstance(frame, bytes):
        raise InvalidRequest("the first message must be a hello, in a text frame")
    with why_invalid("the first message must be a hello: "):
        return HelloRequest.model_validate_json(frame)


def read_request(frame: str) -> Request:
    """Read a message of a client.

    Raises:
      InvalidRequest: it is none; the text names the field.
    """
    try:
        return REQUESTS.validate_json(frame)
    except ValidationError as error:
        raise InvalidRequest(_why(error), _id_in(frame)) from None


@contextmanager
def why_invalid(before: str = "") -> Generator[None]:
    """Raise `InvalidRequest` in place of an error of pydantic, with its reasons."""
    try:
        yield
    except ValidationError as error:
        raise InvalidRequest(f"{before}{_why(error)}") from None


def _why(error: ValidationError) -> str:
    told = []
    for item in error.errors(include_url=False, include_context=False)[:3]:
        # The kind of message comes first, as the name of a field in between.
        place = ".".join(str(x) for x in item["loc"])
        told.append(f"{place}: {item['msg']}" if place else item["msg"])
    return "; ".join(told)[:500]


def _id_in(frame: str) -> str | None:
    """Return the id of a message that is refused, so that its sender finds it."""
    try:
        found = json.loads(frame)
    except (ValueError, RecursionError):
        return None
    given = found.get("id") if isinstance(found, dict) else None
    return given if isinstance(given, str) and len(given) <= 64 else None
