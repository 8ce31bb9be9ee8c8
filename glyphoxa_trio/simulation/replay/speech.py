"""A speech-to-speech model out of a recording."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import attrs

import trio

from glyphoxa_trio.npc.identity import NpcId, npc_in
from glyphoxa_trio.observability.recording.format import Line, Recorded
from glyphoxa_trio.observability.recording.hiding import Hiding
from glyphoxa_trio.observability.recording.speech import (
    capabilities_of,
    closed_of,
    digest,
    event_of,
)
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.s2s import (
    Capabilities,
    Command,
    Event,
    LinkClosed,
    LinkStatistics,
    RealtimeLink,
    Setup,
)
from glyphoxa_trio.simulation.replay.answers import Notes, Shift
from glyphoxa_trio.simulation.replay.driver import ReplayDriver

_NOTHING_HIDDEN: Final = Hiding()
# What has never opened a socket can do this much.
_SILENT: Final = Capabilities(
    live_tools=True,
    acknowledges_tools=False,
    asks_for_responses=True,
    takes_text=True,
    silent_text=True,
    forgets_text=False,
    cancels=True,
    truncates=True,
    forbids_tools=True,
    calling=(),
    stays_owed=frozenset(),
    scheduling=frozenset(),
    resumes=False,
    lifetime=None,
    input_rate=24_000,
    output_rate=24_000,
    max_tools=128,
    max_result=65_536,
)


@attrs.define(eq=False)
class RecordedSockets:
    """The sockets of all NPCs: each is opened once, in order."""

    _recorded: Recorded
    notes: Notes
    conductor: ReplayDriver
    _sockets: dict[NpcId, list[Line]] = attrs.field(init=False)
    _said: dict[int, list[Line]] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._sockets, self._said = defaultdict(list), defaultdict(list)
        for line in self._recorded.of("socket"):
            self._sockets[npc_in(line)].append(line)
        for line in self._recorded.of("speech", "told"):
            self._said[line["socket"]].append(line)

    def of(self, npc: NpcId) -> ReplaySpeech:
        """The model that it spoke with at this time, as its next socket knew it."""
        known = self._sockets[npc]
        now = trio.current_time()
        later = [line for line in known if line["at"] >= now]
        return ReplaySpeech(npc, self, next(iter(later or known[-1:]), None))

    def open(self, npc: NpcId, setup: Setup) -> tuple[Line, list[Line]]:
        """The next socket of that NPC, and what came on it.

        Raises:
          LinkClosed: if there was none.
        """
        waiting = self._sockets[npc]
        if not waiting:
            self.notes.add(f"{npc.npc}: no further socket was recorded")
            raise LinkClosed(
                ErrorKind.INTERRUPTED, "it was not recorded", retryable=False
            )
        asked = digest(setup, _NOTHING_HIDDEN)
        if waiting[0]["setup"] != asked:
            self.notes.add(
                f"{npc.npc}: its socket begins with something else than was recorded,"
                " and says the same: what follows is a what-if"
            )
        line = waiting.pop(0)
        return line, self._said[line["socket"]]


@attrs.frozen(eq=False)
class ReplaySpeech:
    """The speech model of one NPC. ``socket`` knew it; None if it never spoke."""

    _npc: NpcId
    _sockets: RecordedSockets
    _socket: Line | None

    @classmethod
    def of_nobody(cls, sockets: RecordedSockets) -> ReplaySpeech:
        """Return the model of a runtime whose NPCs have theirs from the recording."""
        return cls(NpcId(""), sockets, None)

    @property
    def label(self) -> str:
        return "a recording" if self._socket is None else str(self._socket["label"])

    @property
    def capabilities(self) -> Capabilities:
        if self._socket is None:
            return _SILENT
        return capabilities_of(self._socket["capabilities"])

    @asynccontextmanager
    async def connect(self, setup: Setup) -> AsyncIterator[RealtimeLink]:
        line, said = self._sockets.open(self._npc, setup)
        conductor = self._sockets.conductor
        conductor.done(line)
        shift = Shift(line["at"], trio.current_time(), conductor)
        told = deque(x for x in said if x["kind"] == "told")
        came = deque(x for x in said if x["kind"] == "speech" and "hung_up" not in x)
        yield _ReplayLink(came, told, shift)
        for gone in said:
            if gone.get("hung_up") is not None:
                later = Shift(gone["hung_up"], trio.current_time(), conductor)
                with trio.CancelScope(shield=True):
                    await trio.sleep_until(later.of(gone["at"]))


@attrs.define(eq=False)
class _ReplayLink:
    _lines: deque[Line]
    _told: deque[Line]
    _shift: Shift

    def send(self, command: Command) -> None:
        name = type(command).__name__
        line = next((x for x in self._told if x["command"] == name), None)
        if line is None:
            return  # audio, or an answer that the recording does not have
        while self._told.popleft() is not line:
            pass  # those between them are not sent under this rule
        self._shift.conductor.done(line)
        if line.get("refused") is not None:
            raise ValueError(line["refused"])

    async def receive(self) -> Event:
        if not self._lines:  # it was left here, or the recording ends
            await trio.sleep_forever()
        line = self._lines[0]
        if not self._shift.has_come(line):  # else nothing is done before it
            await self._shift.wait(line)
        self._lines.popleft()
        self._shift.conductor.done(line)
        if (closed := line.get("closed")) is not None:
            raise closed_of(closed)
        return event_of(line)

    def statistics(self) -> LinkStatistics:
        return LinkStatistics(sent=0, received=0, audio_dropped=0, unknown={})
