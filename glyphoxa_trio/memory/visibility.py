"""Rules of visibility: which NPC may know what. Pure.

Everything in memory belongs to a campaign, and nothing is shared between two campaigns.
Inside a campaign each line, summary, fact, entity and relationship has a `Reach`, and
each reader is a `Viewer`: an NPC, or the game master, who sees everything.

    Reach.of("Bartok")                    Bartok alone
    Reach.of("Bartok") & Reach.of("Ann")  nobody but the game master
    EVERYONE                              every NPC of the campaign

What is made from several sources, such as a summary, reaches the NPCs that all of the
sources reach.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Final

import attrs

from .errors import KnowledgeRefused


@attrs.frozen
class CampaignKey:
    """The key of a campaign; ``tenant`` is "" if a runtime has only one owner."""

    campaign: str
    tenant: str = ""

    def __str__(self) -> str:
        return f"{self.tenant}/{self.campaign}" if self.tenant else self.campaign


def _topics(given: Iterable[str]) -> frozenset[str]:
    return frozenset(topic.casefold().strip() for topic in given)


def _known_topics(given: Iterable[str]) -> frozenset[str]:
    return _topics(given) - {""}


def _real_topics(given: Iterable[str]) -> frozenset[str]:
    found = _topics(given)
    if "" in found:
        # Leaving it out would make the reach wider than it was meant to be.
        raise KnowledgeRefused("topics: one is empty; name it, or leave it out")
    return found


@attrs.frozen
class Viewer:
    """A reader of a campaign's memory.

    Args:
      npc: the name of the NPC; None is the game master, who sees everything.
      topics: the topics that the NPC knows about; case does not count.
    """

    npc: str | None = None
    topics: frozenset[str] = attrs.field(default=frozenset(), converter=_known_topics)


GAME_MASTER: Final = Viewer()


@attrs.frozen
class Reach:
    """The NPCs that something may be known to, apart from the game master.

    Args:
      npcs: the names of the NPCs; None is every NPC of the campaign.
      topics: if there are any, an NPC also has to know about one of them.
      secret: until it is revealed, only the NPCs in ``npcs`` know it, and no NPC at all
        if that is None.
    """

    npcs: frozenset[str] | None = None
    topics: frozenset[str] = attrs.field(default=frozenset(), converter=_real_topics)
    secret: bool = False

    @classmethod
    def of(cls, *npcs: str) -> Reach:
        """Return the reach of these NPCs alone."""
        return cls(frozenset(npcs))

    def reaches(self, viewer: Viewer) -> bool:
        """Return True if the viewer may know it."""
        if viewer.npc is None:
            return True
        if self.npcs is None and self.secret:
            return False
        if self.npcs is not None and viewer.npc not in self.npcs:
            return False
        return not self.topics or not self.topics.isdisjoint(viewer.topics)

    def __and__(self, other: Reach) -> Reach:
        """Return a reach that has no NPC which one of the two lacks.

        Two different sets of topics have no exact intersection: the result reaches no
        NPC then.
        """
        if self == other:
            return self
        ours, theirs = self._named, other._named
        if self.npcs is None and other.npcs is None:
            npcs = None
        elif ours is None or theirs is None:
            npcs = theirs if ours is None else ours
        else:
            npcs = ours & theirs
        if self.topics and other.topics and self.topics != other.topics:
            npcs = frozenset()
        # Also of what no NPC knows, topics count once it is revealed.
        topics = self.topics | other.topics
        return Reach(npcs, topics, self.secret or other.secret)

    @property
    def _named(self) -> frozenset[str] | None:
        return frozenset() if self.npcs is None and self.secret else self.npcs


EVERYONE: Final = Reach()
NO_NPC: Final = Reach(frozenset())


def common(reaches: Iterable[Reach]) -> Reach:
    """Return the reach of what is made from sources of these; `NO_NPC` of no source."""
    several = list(reaches)
    return reduce(lambda x, y: x & y, several) if several else NO_NPC
