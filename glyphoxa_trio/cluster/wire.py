"""Messages as bytes, and the subjects that they are sent to.

JSON by msgspec, since a turn has ten messages and more, each made and read once.
"""

from __future__ import annotations

import re
from typing import Any, Final

import attrs
from msgspec import DecodeError, Struct, ValidationError, convert, json, to_builtins

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc import events
from glyphoxa_trio.npc.events import TurnEvent

from .messages import AnyMessage

VERSION: Final = 1
"""The major version of the messages."""

MOST_BYTES: Final = 512 * 1024


class InvalidMessage(GlyphoxaError):
    """Bytes that are no message of the bus, or a message that cannot be sent.

    The text names the field. ``id`` is that of a message that came, so that its sender
    can be answered; "" if it has none.
    """

    def __init__(self, text: str, id: str = "") -> None:  # noqa: A002
        super().__init__(text)
        self.id = id


class NewerMessage(InvalidMessage):
    """A message of a newer major version than this program knows."""

    def __init__(self, version: int, id: str) -> None:  # noqa: A002
        text = f"v: version {version} is newer than {VERSION}, known here"
        super().__init__(text, id)


class LargeMessage(InvalidMessage):
    """A message above `MOST_BYTES`."""

    def __init__(self, what: str, size: int) -> None:
        super().__init__(f"{what} has {size} bytes, and {MOST_BYTES} may be sent")


class _Head(Struct):
    v: int = 1
    id: Any = ""


_ENCODER: Final = json.Encoder()
_DECODER: Final = json.Decoder(AnyMessage)
_HEAD: Final = json.Decoder(_Head)


def pack(message: AnyMessage) -> bytes:
    """Return the bytes of a message.

    Raises:
      LargeMessage: it is too large for the bus.
      InvalidMessage: there is half a surrogate pair in it.
    """
    try:
        data = _ENCODER.encode(message)
    except UnicodeEncodeError as error:
        raise InvalidMessage(f"{type(message).__name__}: {error}"[:300]) from None
    if len(data) > MOST_BYTES:
        raise LargeMessage(type(message).__name__, len(data))
    return data


def read(data: bytes) -> AnyMessage:
    """Return the message that somebody sent.

    Raises:
      LargeMessage: it is above `MOST_BYTES`.
      NewerMessage: it is of a newer major version.
      InvalidMessage: it is no message; the text names the field.
    """
    if len(data) > MOST_BYTES:
        raise LargeMessage("a message", len(data))
    try:
        message: AnyMessage = _DECODER.decode(data)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        text = ascii(str(error))[1:-1][:300]
        raise InvalidMessage(text, _refuse_newer(data)) from None
    if message.v > VERSION:
        _refuse_newer(data)
    return message


def _refuse_newer(data: bytes) -> str:
    """Return the id of a message that cannot be read; "" if it has none."""
    try:
        head = _HEAD.decode(data)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    id_ = head.id if isinstance(head.id, str) and len(head.id) <= 64 else ""
    if head.v > VERSION:
        raise NewerMessage(head.v, id_)
    return id_


_EVENTS: Final = {
    name: kind
    for name, kind in vars(events).items()
    if isinstance(kind, type) and issubclass(kind, TurnEvent)
}


def plain(event: TurnEvent) -> dict[str, Any]:
    """Return an event as a message has it: its class as ``event``, and its fields.

    Nothing is rounded. Data of tools that JSON cannot have becomes text.
    """
    fields: dict[str, Any] = to_builtins(event, enc_hook=str)
    return {"event": type(event).__name__, **fields}


def event_of(told: dict[str, Any]) -> TurnEvent | None:
    """Return the event that `plain` wrote; None for one of a newer program.

    Raises:
      InvalidMessage: its fields are not those of an event; the text names the field.
    """
    kind = _EVENTS.get(told.get("event", ""))
    if kind is None:
        return None
    try:
        event: TurnEvent = convert(told, kind)
    except ValidationError as error:
        text = f"{told.get('event')}: {error}"
        raise InvalidMessage(ascii(text)[1:-1][:300]) from None
    return event


_PART: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@attrs.frozen
class Subjects:
    """The subjects of one deployment, and the only place where they are made.

    A name has letters, digits, ``_`` and ``-``, 64 at most: nothing that means
    something in a subject.

    Raises:
      InvalidMessage: a name has something else in it.
    """

    deployment: str

    def __attrs_post_init__(self) -> None:
        self._part("the deployment", self.deployment)

    @property
    def beat(self) -> str:
        """The subject of all beats."""
        return f"gx.{self.deployment}.beat"

    @property
    def all_knowledge(self) -> str:
        """The pattern of what all workers tell of tools."""
        return f"gx.{self.deployment}.know.*"

    def knowledge(self, worker: str) -> str:
        """The subject of what one worker tells of tools."""
        return f"gx.{self.deployment}.know.{self._part('the worker', worker)}"

    def calls(self, worker: str) -> str:
        """The subject of calls that one worker makes for others."""
        return f"gx.{self.deployment}.know.calls.{self._part('the worker', worker)}"

    def call_answers(self, worker: str) -> str:
        """The beginning of the subjects of the answers to one worker's calls."""
        return f"gx.{self.deployment}.know.answers.{self._part('the worker', worker)}"

    def worker(self, name: str) -> str:
        """The subject of what is sent to one worker."""
        return f"gx.{self.deployment}.w.{self._part('the worker', name)}"

    def operations(self, name: str) -> str:
        """The subject of an operator's orders to one worker."""
        return f"gx.{self.deployment}.ops.{self._part('the worker', name)}"

    def _part(self, what: str, name: str) -> str:
        if _PART.fullmatch(name) is None:
            raise InvalidMessage(f"{what} cannot be named {name[:80]!r} on the bus")
        return name
