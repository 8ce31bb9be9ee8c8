"""Events of two runs of one session side by side. Pure.

What happens at one instant has no order but that of cause and effect: trio runs tasks
in any order. So events are compared in the order of time, NPC and turn; of one turn in
the order in which they were published, but for what parallel calls have to say, which
is in the order of its bytes. Of a model that speaks while its calls run, the words are
compared first.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from glyphoxa_trio.observability.recording.format import Line

# Published by calls, which run in parallel, and beside them.
_OF_CALLS: Final = frozenset(
    {"ToolStarted", "ToolFinished", "Filler", "ApprovalNeeded", "ApprovalSettled"}
)
# Published by a round of calls; a model that speaks by itself goes on beside it.
_OF_ROUNDS: Final = _OF_CALLS | {"FanOutDone", "ToolsShown"}
# Published by what goes on beside its turn.
_BESIDE: Final = frozenset({"Queued", "LateResult", "SpeculationDone", "UsageReported"})
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_CONTEXT: Final = 2


def text_of(line: Line) -> str:
    return json.dumps(line, ensure_ascii=True, sort_keys=True)


def in_order(events: Sequence[Line]) -> list[Line]:
    """The canonical order."""

    spoken = {_turn(line) for line in events if line["event"] == "Speech"}

    def place(line: Line) -> tuple[object, ...]:
        turn, event = _turn(line), line["event"]
        beside = event in _BESIDE
        return float(line["at"]), *turn, beside, turn in spoken and event in _OF_ROUNDS

    found: list[Line] = []
    for _, moment in groupby(sorted(events, key=place), key=place):
        for free, run in groupby(moment, key=lambda x: x["event"] in _OF_CALLS):
            some = list(run)
            shuffled = free or some[0]["event"] in _BESIDE
            found += sorted(some, key=text_of) if shuffled else some
    return found


def _turn(line: Line) -> tuple[object, ...]:
    return *_whose(line), int(line.get("turn") or 0)


def _whose(line: Line) -> tuple[str, str, str]:
    npc, session = str(line.get("npc")), str(line.get("session"))
    return str(line.get("tenant")), session, npc


def difference(
    recorded: Sequence[Line], replayed: Sequence[Line], *, tolerance: float = 0.0
) -> Iterator[str]:
    """A unified diff, a line an event; nothing if they are the same.

    Args:
      tolerance: how far times may be off, seconds; 0 is to the bit.
    """
    before, after = in_order(recorded), in_order(replayed)
    if tolerance:
        before, after = _by_turn(before), _by_turn(after)
        after = _as_if_same(before, after, tolerance)
    return difflib.unified_diff(
        [text_of(line) for line in before],
        [text_of(line) for line in after],
        "recorded",
        "replayed",
        n=_CONTEXT,
        lineterm="",
    )


def _by_turn(events: Sequence[Line]) -> list[Line]:
    """Sort by turn: without exact times, the order between NPCs is not exact either."""
    return sorted(events, key=lambda x: (*_whose(x), int(x.get("turn") or 0)))


def _as_if_same(
    before: Sequence[Line], after: Sequence[Line], tolerance: float
) -> list[Line]:
    """The second, with the first's line wherever the two are alike."""
    if len(before) != len(after):
        return list(after)
    return [
        one if alike(one, other, tolerance) else other
        for one, other in zip(before, after, strict=True)
    ]


def alike(one: Any, other: Any, tolerance: float) -> bool:
    """Return whether they differ in times only, and in those by little."""
    if isinstance(one, float) and isinstance(other, float | int):
        return abs(one - other) <= tolerance
    if isinstance(one, str) and isinstance(other, str):
        return one == other or _same_words(one, other, tolerance)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            alike(value, other[key], tolerance) for key, value in one.items()
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(
            alike(a, b, tolerance) for a, b in zip(one, other, strict=True)
        )
    return bool(one == other)


def _same_words(one: str, other: str, tolerance: float) -> bool:
    """``no answer after 501 ms`` and ``… 500 ms`` are."""
    if _NUMBER.sub("0", one) != _NUMBER.sub("0", other):
        return False
    times = [re.findall(r"(\d+(?:\.\d+)?)( ms)?", text) for text in (one, other)]
    return all(
        a == b or (unit and abs(float(a) - float(b)) <= 1000 * tolerance)
        for (a, unit), (b, _) in zip(*times, strict=True)
    )
