"""Wrappers of speech-to-speech models, which record their sockets and the events on
each. Of audio they keep the length and a digest."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache, partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, get_args

import attrs

import trio

from glyphoxa_trio.npc.identity import NpcId
from glyphoxa_trio.observability.recording.hiding import Hiding, Later, Sound
from glyphoxa_trio.observability.recording.models import Note
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.s2s import (
    S2S,
    Capabilities,
    Command,
    Event,
    LinkClosed,
    LinkStatistics,
    RealtimeLink,
    SendAudio,
    Setup,
    Spoken,
)

if TYPE_CHECKING:
    from cattrs import Converter

EVENTS: Final[Mapping[str, type]] = {x.__name__: x for x in get_args(Event)}


def digest(setup: Setup, hiding: Hiding) -> str:
    """Return a digest of a socket's settings, which tells it from any other."""
    plain = json.dumps(hiding.plain(setup), sort_keys=True)
    return sha256(plain.encode()).hexdigest()[:16]


def event_of(data: Mapping[str, Any]) -> Event:
    """Return the event of a socket, from the fields of its line.

    Raises:
      Exception: with the reason, if the fields are wrong.
    """
    if data.get("text") is not None:
        return Spoken(data["response"], data["item"], data["text"])
    name = data["event"]
    kind: Any = EVENTS.get(name)
    if kind is None:
        raise ValueError(f"nothing that comes on a socket is called {name!r}")
    # A field that is None is left out of a line.
    of = {x.name: None for x in attrs.fields(kind) if "None" in str(x.type)}
    event: Event = _converter().structure({**of, **(data.get("data") or {})}, kind)
    return event


def closed_of(data: Mapping[str, Any]) -> LinkClosed:
    """Raises `ValueError`, `KeyError` or `TypeError` for nonsense."""
    return LinkClosed(
        ErrorKind(data["kind"]),
        str(data["detail"]),
        retryable=bool(data.get("retryable")),
        code=data.get("code"),
        retry_after=data.get("retry_after"),
    )


def capabilities_of(data: Mapping[str, Any]) -> Capabilities:
    """Raises for nonsense."""
    given = {"lifetime": None, **data}
    capabilities: Capabilities = _converter().structure(given, Capabilities)
    return capabilities


@cache
def _converter() -> Converter:
    from cattrs import Converter

    converter = Converter(forbid_extra_keys=True, detailed_validation=False)
    converter.register_structure_hook(bytes, lambda text, _: Sound.of(text))
    return converter


@attrs.define(eq=False)
class HeardSpeech:
    """A wrapped speech model of one NPC.

    Args:
      number: gives each socket its own.
    """

    spoken_by: S2S
    _npc: NpcId
    _note: Note
    _number: Callable[[], int]

    @property
    def label(self) -> str:
        return self.spoken_by.label

    @property
    def capabilities(self) -> Capabilities:
        return self.spoken_by.capabilities

    @asynccontextmanager
    async def connect(self, setup: Setup) -> AsyncIterator[RealtimeLink]:
        number = self._number()
        self._note(
            "socket",
            socket=number,
            **self._npc.named,
            label=self.label,
            capabilities=self.capabilities,
            setup=Later(lambda hiding: digest(setup, hiding)),
        )
        left = trio.current_time()
        try:
            async with self.spoken_by.connect(setup) as link:
                try:
                    yield HeardLink(link, self._note, number)
                finally:
                    left = trio.current_time()
            if trio.current_time() > left:
                self._note("speech", socket=number, hung_up=left)
        except LinkClosed as closed:
            # It is heard of when the socket is left, which may take its time.
            self._note("speech", socket=number, closed=_plain(closed))
            raise


def _plain(closed: LinkClosed) -> dict[str, Any]:
    names = ("kind", "detail", "retryable", "code", "retry_after")
    return {x: y for x in names if (y := getattr(closed, x)) is not None}


@attrs.define(eq=False)
class HeardLink:
    """One socket: which commands go, but for audio, and what comes."""

    _link: RealtimeLink
    _note: Note
    _socket: int

    def send(self, command: Command) -> None:
        told = partial(self._note, "told", command=type(command).__name__)
        try:
            self._link.send(command)
        except ValueError as error:
            told(socket=self._socket, refused=str(error))
            raise
        if not isinstance(command, SendAudio):
            told(socket=self._socket)

    async def receive(self) -> Event:
        event = await self._link.receive()
        name = type(event).__name__
        if isinstance(event, Spoken):
            self._note("speech", socket=self._socket, **attrs.asdict(event))
        else:
            self._note("speech", socket=self._socket, event=name, data=event)
        return event

    def statistics(self) -> LinkStatistics:
        return self._link.statistics()
