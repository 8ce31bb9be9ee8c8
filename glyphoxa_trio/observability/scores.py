"""The speed of each tool on this installation, and its rank in its category.

A *category* is the kind of a tool. The operator's word comes first (`category`
of a server or of a tool), then that of the tool's author (``category`` in its
``_meta``, as our own servers have it), then the name of its group or server. Upper and
lower case are the same in it. A tool without another of its kind has no rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

import attrs

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.runtime import Runtime
from glyphoxa_trio.tools.tier import Tier, badge, tag

IN_PROCESS = "in-process"


@attrs.frozen(kw_only=True)
class Score:
    """The measurements of one tool, in seconds.

    Args:
      transport: how it is reached: that of its server, or `IN_PROCESS`.
    """

    tool: str
    category: str
    transport: str
    tier: Tier
    p50: float
    p99: float
    samples: int

    @property
    def badge(self) -> str:
        return badge(self.p50)

    @property
    def tag(self) -> str:
        """Which turns it is compatible with."""
        return tag(self.tier)


async def scores_of(runtime: Runtime) -> tuple[Score, ...]:
    """Every tool that was measured, by key.

    When the calibrator is gone already, as in a runtime that was cancelled, these are
    the figures of the catalogue, which are a few per cent old at most.
    """
    transports = {row.name: row.transport for row in runtime.servers()}
    try:
        estimates = await runtime.host.report()
    except GlyphoxaError:
        estimates = {}
    found: list[Score] = []
    for key, listing in sorted(runtime.host.snapshot.by_key.items()):
        estimate = estimates.get(key, listing.estimate)
        if estimate.p50 is None or estimate.p99 is None:
            continue
        definition = listing.definition
        score = Score(
            tool=key,
            category=(definition.category or definition.group).casefold(),
            transport=transports.get(definition.group, IN_PROCESS),
            tier=estimate.tier,
            p50=estimate.p50,
            p99=estimate.p99,
            samples=estimate.samples,
        )
        found.append(score)
    return tuple(found)


def places(scores: Iterable[Score]) -> Iterator[tuple[int | None, Score]]:
    """Each tool of one category with its rank, from 1; an only tool has None."""
    found = tuple(scores)
    for rank, score in enumerate(found, start=1):
        yield (rank if len(found) > 1 else None), score


def ranked(scores: Iterable[Score]) -> Mapping[str, tuple[Score, ...]]:
    """Each category, the fastest median first; categories by name."""
    by_kind = sorted(scores, key=lambda x: (x.category, x.p50, x.p99, x.tool))
    return {
        category: tuple(found)
        for category, found in groupby(by_kind, key=lambda x: x.category)
    }
