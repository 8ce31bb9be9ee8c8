"""What an NPC says while it waits for its tools, and when (D19, A18, G41).

    0 s                 0.7 s                          1.9 s
    the calls begin ─── the moment ─────────────────── they have ended ─── the answer
                        what is missing usually takes
                        longer than the threshold: said

At most one in a fan-out, and none once its last call has ended. Nothing waits for it:
it is posted by a task beside the turn, and it is no part of the answer.
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

# What a model wrote into an argument may be long; nobody wants to hear all of it.
_LONGEST: Final = 200  # characters


@attrs.define(eq=False)
class Fillers:
    """Of one NPC: the lines take turns."""

    config: FillerConfig
    said: int = attrs.field(default=0, init=False)

    def go_on_after(self, said: int) -> None:
        """So many of its lines have been said."""
        self.said = said

    def configure(self, config: FillerConfig) -> None:
        self.config = config

    def awaiting(
        self,
        calls: Sequence[ToolCall],
        shown: Iterable[CatalogueEntry],
        tier: Tier,
        budget: float,
    ) -> Awaiting | None:
        """For one fan-out; None if nothing can be said in it.

        Args:
          shown: what the model may call; other calls end at once.
          budget: seconds that it may take.
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
        lines = self.config.lines
        self.said += 1
        return lines[(self.said - 1) % len(lines)]


@attrs.define(eq=False)
class Awaiting:
    """The calls of one fan-out that have not ended yet.

    ``moments`` are those at which something may be said, in seconds since it began.
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
        """This call is not waited for any more."""
        self._missing.pop(slot, None)
        if not self._missing:
            self._over.set()

    def begin(self, nursery: trio.Nursery, say: Callable[[str], None]) -> None:
        """The first of them begins now. ``say`` something at the right moment, if one
        comes: in a task in ``nursery`` that ends with the last call."""
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
        """What is to be said at that moment; empty if nothing is."""
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
        """Those whose tools leave it to the general rule."""
        return [
            one
            for one in self._missing.values()
            if one[1].definition.slow_response_threshold is None
        ]

    def _usually_slow(self) -> bool:
        usual = together(listing for _, listing in self._unstated())
        return usual > self._threshold


def together(listings: Iterable[CatalogueEntry]) -> float:
    """What these calls usually take in one fan-out, seconds: side by side, but one
    after the other where they write to one group (D3a)."""
    longest, writes = 0.0, defaultdict[str, float](float)
    for listing in listings:
        # The median of what was measured, or that of the slower half where a tool has
        # two speeds: the faster one is over by now.
        seconds = listing.estimate.seconds
        if listing.definition.side_effects:
            writes[listing.definition.group] += seconds
        else:
            longest = max(longest, seconds)
    return max(longest, *writes.values()) if writes else longest


def _message(of: tuple[ToolCall, CatalogueEntry]) -> str:
    """The tool's own words for this call; empty if there are none that fit."""
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
