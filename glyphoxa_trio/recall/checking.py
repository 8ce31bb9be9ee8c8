"""The facts that a model extracts, checked against the lines that it names. Pure.

A player may have talked the model into a lie:

* A fact reaches the NPCs that heard all of its lines. Without lines that exist it
  waits for the game master. If it has words of other lines, which some of these NPCs
  did not hear, such as a whisper, it stays with the audience.
* What only players said is a claim of theirs, whatever the model calls it.
* What an NPC said has to have the words of the fact in it. If it has too few, the fact
  is a claim of the player who said the rest, or it waits for the game master.
* What an NPC repeats or denies is no truth by that: if an NPC has not said half of the
  fact's words before any player did, it stays that player's claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from glyphoxa_trio.memory.claims import standing_of
from glyphoxa_trio.memory.contract import FoundLine
from glyphoxa_trio.memory.knowledge import Basis, Fact, Provenance, Standing
from glyphoxa_trio.memory.visibility import Reach, common
from glyphoxa_trio.memory.words import COMMON, words_of

from .extraction import Audience, ExtractedFact

_ENOUGH: Final = 0.5  # the share of a fact's words that its NPCs have to have said


def checked(
    said: ExtractedFact,
    lines: Mapping[int, FoundLine],
    audience: Audience,
    *,
    evening: str,
    accept_above: float,
    heard: Mapping[int, FoundLine] | None = None,
) -> Fact:
    """Return the fact that a statement becomes, without the entities it is about.

    Args:
      lines: those that the model was given, by number.
      heard: all that the audience heard on that evening, by number: a player may have
        claimed long before what an NPC repeats. None means ``lines``.

    Raises:
      KnowledgeRefused: a field is one that no store keeps.
    """
    quoted = [lines[n] for n in said.lines if n in lines]
    # Without sources all lines are its sources: it goes when one of them is forgotten.
    sources = quoted or list(lines.values())
    by_players = [x for x in quoted if x.line.player]
    basis, queued = said.basis, not quoted
    if quoted and len(by_players) == len(quoted):
        basis = Basis.CLAIMED
    elif quoted and _says(quoted, said.text):
        if (claim := _first_claimed(said, lines, heard or lines)) is not None:
            # It is forgotten with that player, too.
            basis, by_players = Basis.CLAIMED, [claim]
            quoted = sources = [*quoted, *(() if claim in quoted else (claim,))]
    elif quoted:
        basis, queued = (Basis.CLAIMED if by_players else Basis.INFERRED), True
    if basis is Basis.CLAIMED and not by_players:
        basis = Basis.INFERRED  # there is no player whose claim it could be
        queued = True
    claims = basis is Basis.CLAIMED
    standing = standing_of(basis, said.confidence, accept_above=accept_above)
    if queued and standing is Standing.ACCEPTED:
        standing = Standing.QUEUED
    return Fact(
        text=said.text,
        standing=standing,
        reach=_reach(
            " ".join((said.text, *(name for name, _ in said.about))),
            quoted,
            (heard or lines).values(),
            audience,
        ),
        provenance=Provenance(
            basis=basis,
            at=max((x.at for x in sources), default=0.0),
            evening=evening,
            player=by_players[0].line.player if claims else "",
            by=by_players[0].line.speaker if claims else "",
            confidence=said.confidence,
        ),
        lines=tuple((x.session, x.n) for x in sources),
    )


def _reach(
    text: str,
    quoted: Sequence[FoundLine],
    heard: Iterable[FoundLine],
    audience: Audience,
) -> Reach:
    if not quoted:
        return audience.reach
    reach = common(x.line.reach for x in quoted)
    more = _telling(text) - _words(quoted)
    if not more or reach == audience.reach:
        return reach
    by_all, by_few = list[FoundLine](), list[FoundLine]()
    for x in heard:
        (by_all if common((reach, x.line.reach)) == reach else by_few).append(x)
    told = more & _words(by_few) - _words(by_all)
    return audience.reach if told else reach


def _first_claimed(
    said: ExtractedFact,
    lines: Mapping[int, FoundLine],
    heard: Mapping[int, FoundLine],
) -> FoundLine | None:
    """Return the line in which a player said what an NPC repeats or denies; None if
    the NPC adds enough words of its own."""
    by_npcs = {n: lines[n] for n in said.lines if n in lines}
    by_npcs = {n: x for n, x in by_npcs.items() if not x.line.player}
    last = max(by_npcs, default=0)
    before = [x for n, x in heard.items() if n < last and x.line.player]
    telling = _telling(said.text)
    own = telling & _words(by_npcs.values()) - _words(before)
    if not before or len(own) >= _ENOUGH * len(telling):
        return None
    return max(before, key=lambda x: len(telling & _words([x])))


def _says(quoted: Iterable[FoundLine], text: str) -> bool:
    """Return True if the NPCs among these lines said enough of the text's words."""
    telling = _telling(text)
    heard = _words(x for x in quoted if not x.line.player)
    return len(telling & heard) >= _ENOUGH * len(telling)


def _telling(text: str) -> set[str]:
    return {word for word in words_of(text) if word not in COMMON}


def _words(several: Iterable[FoundLine]) -> set[str]:
    said = (x.line for x in several)
    texts = (f"{x.speaker} {x.corrected or x.text}" for x in said)
    return set().union(*map(_words_of_line, texts))


@lru_cache(maxsize=4096)
def _words_of_line(text: str) -> frozenset[str]:
    # Each fact of a long evening asks for those of all its lines.
    return frozenset(words_of(text))
