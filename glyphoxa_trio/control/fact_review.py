"""The game master's word about facts: which wait for it, and what a decision does."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import attrs

from glyphoxa_trio.memory.contract import Memory, Named
from glyphoxa_trio.memory.knowledge import Basis, Fact, Standing
from glyphoxa_trio.memory.visibility import CampaignKey, Reach
from glyphoxa_trio.memory.words import folded, words_of


class FactVerdict(StrEnum):
    """The decision of the game master about a fact.

    ``SECRET``: it is true, and no NPC knows it until it is revealed.
    """

    ACCEPT = "accept"
    REJECT = "reject"
    SECRET = "secret"


def known_to(reach: Reach) -> str:
    """Return in words who may know something."""
    if reach.npcs is None:
        who = "no NPC" if reach.secret else "all"
    else:
        who = ", ".join(sorted(reach.npcs)) or "no NPC"
    about = f" about {', '.join(sorted(reach.topics))}" if reach.topics else ""
    return f"{who}{about}{' (secret)' if reach.secret else ''}"


@attrs.frozen(kw_only=True)
class FactFilter:
    """The facts that a decision is about: all that meet each condition.

    Args:
      player: the id or the name of the player who claims it; in a name, neither case
        nor accents count.
      about: the id, the name or an alias of an entity that it is about, or names.
      before: it became known before this Unix time.
      below: its confidence is less.
    """

    player: str | None = None
    about: str | None = None
    before: float | None = None
    below: float | None = None

    def chosen(self, facts: Sequence[Fact], names: Sequence[Named]) -> list[Fact]:
        """Return the facts of a campaign that meet the conditions.

        Args:
          names: the names of the campaign's entities.
        """
        entities = {x.entity for x in names if self.means(x)}
        words = [set(words_of(x.name)) for x in names if x.entity in entities]
        return [
            fact
            for fact in facts
            if self._by_player(fact)
            and (
                self.about is None
                or not entities.isdisjoint(fact.about)
                or any(x <= set(words_of(fact.text)) for x in words if x)
            )
            and (self.before is None or fact.provenance.at < self.before)
            and (self.below is None or fact.provenance.confidence < self.below)
        ]

    def means(self, named: Named) -> bool:
        """Return True if that is a name, or the id, of the entity of ``about``."""
        about = self.about or ""
        return about == named.entity or folded(about) == folded(named.name)

    def _by_player(self, fact: Fact) -> bool:
        if self.player is None:
            return True
        known = fact.provenance
        if known.player == self.player:
            return True
        claimed = known.basis is Basis.CLAIMED and known.by != ""
        return claimed and folded(known.by) == folded(self.player)


def source_of(fact: Fact) -> str:
    """Return in words how a fact is known."""
    source = fact.provenance
    words = {
        Basis.AUTHORED: "written" + (f" in {source.by}" if source.by else ""),
        Basis.STATED: "said" + (f" to {source.by}" if source.by else ""),
        Basis.INFERRED: "inferred",
        Basis.CLAIMED: f"{source.by or source.player or 'a player'} says so",
    }[source.basis]
    sure = "" if source.confidence == 1 else f", {source.confidence:.0%} sure"
    return f"{words}{sure}"


async def decide(
    memory: Memory, campaign: CampaignKey, fact: Fact, verdict: FactVerdict
) -> None:
    """Keep the decision about a fact.

    Raises:
      UnknownItem: the fact was removed meanwhile.
    """
    if verdict is FactVerdict.REJECT:
        await memory.graph.judge(campaign, fact.id, Standing.REJECTED, confirmed=True)
        return
    if verdict is FactVerdict.SECRET:
        secret = _confirmed(fact)
        if secret.provenance.basis is Basis.AUTHORED:
            # No longer a file's word, which the next import of it would set again.
            secret = attrs.evolve(
                secret, provenance=attrs.evolve(secret.provenance, by="")
            )
        reach = Reach(topics=fact.reach.topics, secret=True)
        await memory.graph.put(campaign, facts=[attrs.evolve(secret, reach=reach)])
        return
    await memory.graph.judge(campaign, fact.id, Standing.ACCEPTED, confirmed=True)


async def correct(memory: Memory, campaign: CampaignKey, fact: Fact, text: str) -> None:
    """Have a fact say something else, which is true from now on.

    Raises:
      UnknownItem: the fact was removed meanwhile.
      KnowledgeRefused: the text is empty or too long.
    """
    await memory.graph.put(campaign, facts=[attrs.evolve(_confirmed(fact), text=text)])


def _confirmed(fact: Fact) -> Fact:
    return attrs.evolve(
        fact,
        standing=Standing.ACCEPTED,
        provenance=attrs.evolve(fact.provenance, confirmed=True),
    )
