"""The game master's word about facts: which wait for it, and what a decision does."""

from __future__ import annotations

from enum import StrEnum

import attrs

from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.knowledge import Basis, Fact, Standing
from glyphoxa_trio.memory.visibility import CampaignKey, Reach


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


def waits(fact: Fact) -> bool:
    """Return True if a fact waits for the game master's word."""
    claimed = fact.standing is Standing.CLAIMED and not fact.provenance.confirmed
    return fact.standing is Standing.QUEUED or claimed


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
