"""Fillers: short lines that an NPC says while it waits for its tools.

    0 s                 0.7 s                          1.9 s
    the calls start ─── the moment ─────────────────── they have ended ─── the answer
                        the missing calls usually
                        take longer than the
                        threshold: say a filler

A fan-out has at most one filler, and none after its last call has ended. Fillers delay
nothing: a task beside the turn posts them, and they are no part of the answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import attrs

import trio

from glyphoxa_trio.config.voices import FillerConfig
from glyphoxa_trio.host import CatalogueEntry
from glyphoxa_trio.tools.arguments import InvalidArguments, load
from glyphoxa_trio.tools.outcome import ToolCall
from glyphoxa_trio.tools.speech import rendered
from glyphoxa_trio.tools.tier import Tier

# Arguments that a model wrote may be too long to be said aloud.
_LONGEST: Final = 200  # characters


@attrs.define(eq=False)
class Fillers:
    """The fillers of one NPC; its lines are used in turn."""

    config: FillerConfig
    said: int = attrs.field(default=0, init=False)

    def go_on_after(self, said: int) -> None:
        """Set how many lines have been said before."""
        self.said = said

    def configure(self, config: FillerConfig) -> None:
        """Use this configuration from the next fan-out on."""
        self.config = config

    def awaiting(
        self,
        calls: Sequence[ToolCall],
        shown: Iterable[CatalogueEntry],
        tier: Tier,
        budget: float,
    ) -> Awaiting | None:
        """Return the fillers for one fan-out; None if none can be said in it.

        Args:
          calls: the calls of the fan-out.
          shown: the visible tools; calls of other tools end at once.
          tier: the tier of the turn.
          budget: the seconds that the fan-out may take.
        """
        if not self.config.enabled:
            return None
        tools = {listing.exposed: listing for listing in shown}
        missing = {
            slot: (call, tools[call.name])
            for slot, call in enumerate(calls)
            if call.name in tools
        }
        awaiting = Awaiting(self, missing, self.config.thresholds.of(tier))
        awaiting.moments = [x for x in awaiting.moments if x < budget]
        return awaiting if awaiting.moments else None

    def line(self) -> str:
        """Return the next line."""
        lines = self.config.lines
        self.said += 1
        return lines[(self.said - 1) % len(lines)]


@attrs.define(eq=False)
class Awaiting:
    """The calls of one fan-out that have not ended yet.

    ``moments``: the times at which a filler may be said, in seconds since the start.
    """

    _fillers: Fillers
    _missing: dict[int, tuple[ToolCall, CatalogueEntry]]
    _threshold: float
    moments: list[float] = attrs.field(init=False)
    _begun: bool = attrs.field(default=False, init=False)
    _over: trio.Event = attrs.field(factory=trio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        stated = {
            listing.definition.slow_response_threshold
            for _, listing in self._missing.values()
        }
        usual = {self._fillers.config.after} if self._usually_slow() else set()
        self.moments = sorted(usual | {x for x in stated if x is not None})

    def ended(self, slot: int) -> None:
        """Record that this call has ended."""
        self._missing.pop(slot, None)
        if not self._missing:
            self._over.set()

    def begin(self, nursery: trio.Nursery, say: Callable[[str], None]) -> None:
        """Start waiting; the first call starts now.

        A task in ``nursery`` calls ``say`` at the right moment, if there is one, and
        ends with the last call.
        """
        if not self._begun:
            self._begun = True
            nursery.start_soon(self._speak, trio.current_time(), say)

    async def _speak(self, began: float, say: Callable[[str], None]) -> None:
        for moment in self.moments:
            with trio.move_on_at(began + moment):
                await self._over.wait()
                return
            if text := self.text_at(moment):
                say(text)
                return

    def text_at(self, moment: float) -> str:
        """Return what to say at that moment; empty for nothing."""
        slow = [
            (call, listing)
            for call, listing in self._missing.values()
            if (own := listing.definition.slow_response_threshold) is not None
            and own <= moment
        ]
        if not slow and moment >= self._fillers.config.after and self._usually_slow():
            slow = self._unstated()
            slow.sort(key=lambda one: -one[1].estimate.seconds)
        if not slow:
            return ""
        return next(filter(None, map(_message, slow)), "") or self._fillers.line()

    def _unstated(self) -> list[tuple[ToolCall, CatalogueEntry]]:
        """Return the calls whose tools have no threshold of their own."""
        return [
            one
            for one in self._missing.values()
            if one[1].definition.slow_response_threshold is None
        ]

    def _usually_slow(self) -> bool:
        usual = together(listing for _, listing in self._unstated())
        return usual > self._threshold


def together(listings: Iterable[CatalogueEntry]) -> float:
    """Return how many seconds these calls usually take in one fan-out.

    They run in parallel, except that calls that write to the same group run one after
    the other.
    """
    longest, writes = 0.0, defaultdict[str, float](float)
    for listing in listings:
        # The median of the measurements; for a tool with two speeds that of the slower
        # half, because the faster calls have ended by now.
        seconds = listing.estimate.seconds
        if listing.definition.side_effects:
            writes[listing.definition.group] += seconds
        else:
            longest = max(longest, seconds)
    return max(longest, *writes.values()) if writes else longest


def _message(of: tuple[ToolCall, CatalogueEntry]) -> str:
    """Return the tool's own message for this call; empty if it has none that fits."""
    call, listing = of
    template = listing.definition.slow_response_message
    if template is None:
        return ""
    try:
        text = rendered(template, load(call.arguments))
    except InvalidArguments:
        text = rendered(template, {})
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else ""
