"""The time from the end of a player's speech to the NPC's first sound, in parts. Pure.

    speech ends ─ detected ─ recognized ─ model ─ voice ─ device ─ heard

A part that nothing was seen of is None, and its time is in the next one: a
speech-to-speech model recognizes, thinks and speaks in one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

import attrs

from glyphoxa_trio.npc import Flush, Sentence, Speech, Transcript, TurnEvent
from glyphoxa_trio.npc.voice import Which, which

# What ends each part, and what the screen calls it.
PARTS: Final = ("detected", "recognized", "model", "voice", "device")
_REMEMBERED: Final = 8  # turns whose audio was not heard yet

_Stamps: TypeAlias = dict[str, float]


@attrs.frozen(kw_only=True)
class TurnLatency:
    """The parts of one turn's latency, in seconds.

    Args:
      detected: until the end of the speech was detected: mostly `turn_taking.end_ms`.
      recognized: until its words were final.
      model: until the first sentence of the answer, or the first audio of a model that
        speaks.
      voice: until the synthesizer gave the first audio of it.
      device: until the loudspeaker played that.
      total: from the end of the speech to the first sound.
    """

    npc: str
    turn: int
    detected: float | None
    recognized: float | None
    model: float | None
    voice: float | None
    device: float
    total: float

    @property
    def parts(self) -> Iterator[tuple[str, float]]:
        """The parts that are known, in their order."""
        for name in PARTS:
            value = getattr(self, name)
            if value is not None:
                yield name, value


@attrs.define(eq=False)
class LatencyMeter:
    """The times of an utterance, and of the turn that answers it.

    Times are seconds of one clock. Positions are those of the loudspeaker, in seconds.
    """

    _utterance: _Stamps = attrs.field(factory=dict, init=False)
    _turns: dict[Which, _Stamps] = attrs.field(factory=dict, init=False)
    _begins: dict[Which, float] = attrs.field(factory=dict, init=False)  # positions

    def begins(self) -> None:
        """Another utterance begins."""
        self._utterance = {}

    def speaks(self, now: float) -> None:
        """The player speaks in this moment."""
        self._utterance["spoke"] = now

    def over(self, now: float) -> None:
        """The end of the utterance is detected."""
        self._utterance["detected"] = now

    def event(self, event: TurnEvent, now: float, position: float) -> None:
        """Take note of an event as it comes.

        Args:
          position: where audio would be played that comes now.
        """
        match event:
            case Transcript(final=True):
                self._utterance.setdefault("recognized", now)
            case Sentence():
                stamps = self._of(which(event))
                if "first" not in stamps:
                    stamps.setdefault("model", now)
            case Speech(filler=False):
                turn = which(event)
                stamps = self._of(turn)
                if "first" not in stamps:
                    # One that speaks by itself is its own voice.
                    stamps["voice" if "model" in stamps else "model"] = now
                    stamps["first"] = now
                    if "spoke" in stamps:
                        self._begins[turn] = position
            case Flush():
                self._begins.clear()
            case _:
                pass

    def heard(self, now: float, position: float) -> list[TurnLatency]:
        """Return the latencies of turns whose first sound was heard since the last
        call.

        Args:
          position: what the loudspeaker plays now.
        """
        found = [turn for turn, begins in self._begins.items() if position > begins]
        return [
            self._measured(turn, now - (position - self._begins.pop(turn)))
            for turn in found
        ]

    def _of(self, turn: Which) -> _Stamps:
        """Return the times of a turn; a new one answers the last utterance."""
        if turn not in self._turns:
            self._turns[turn], self._utterance = self._utterance, {}
            while len(self._turns) > _REMEMBERED:
                oldest = next(iter(self._turns))
                del self._turns[oldest]
                self._begins.pop(oldest, None)
        return self._turns[turn]

    def _measured(self, turn: Which, heard: float) -> TurnLatency:
        stamps = self._turns[turn]
        at, known = stamps["spoke"], dict[str, float]()
        for name in PARTS[:-1]:
            if name in stamps:
                known[name] = max(0.0, stamps[name] - at)
                at = max(at, stamps[name])
        return TurnLatency(
            npc=turn[0],
            turn=turn[1],
            detected=known.get("detected"),
            recognized=known.get("recognized"),
            model=known.get("model"),
            voice=known.get("voice"),
            device=max(0.0, heard - at),
            total=max(0.0, heard - stamps["spoke"]),
        )
