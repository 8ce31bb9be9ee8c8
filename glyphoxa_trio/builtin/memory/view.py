"""One viewer's view of a campaign: the evenings and entities that a model means.

Models name things as people do: "last" for a session, a name in place of an id. What is
not found is an error that names what is similar, among what the viewer may see.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import attrs

from glyphoxa_trio.memory.contract import FoundLine, Memory
from glyphoxa_trio.memory.entries import Evening
from glyphoxa_trio.memory.errors import (
    KnowledgeRefused,
    MemoryUnavailable,
    MemoryUnusable,
    QueryRefused,
    UnknownItem,
)
from glyphoxa_trio.memory.knowledge import Basis, Entity, Fact, Standing
from glyphoxa_trio.memory.visibility import CampaignKey, Viewer
from glyphoxa_trio.memory.words import words_of
from glyphoxa_trio.tools.definition import CallContext, ToolError, ToolUnavailable

from .dates import day_in_words, is_day, times

MOST_SNIPPET: Final = 300  # characters
MOST_SPOKEN: Final = 200  # characters of a quotation that is spoken
_MOST_NAME: Final = 100  # characters of an unknown name that an error repeats
_EVENINGS: Final = 50  # the newest, among which one is looked for by words
_ENTITIES: Final = 300  # among which similar names are looked for
_THIS: Final = frozenset({"current", "this", "now", "tonight", "today", "present"})
_LAST: Final = frozenset({"last", "latest", "previous", "recent", "yesterday", "prior"})


@contextmanager
def answers() -> Iterator[None]:
    """Turn the errors of a store into answers for a model."""
    try:
        yield
    except (KnowledgeRefused, QueryRefused, UnknownItem) as error:
        raise ToolError(str(error)) from None
    except (MemoryUnavailable, MemoryUnusable) as error:
        raise ToolUnavailable(f"the memory cannot be used now: {error}") from None


@attrs.frozen
class CampaignView:
    """The part of a campaign that one viewer may know, at one time."""

    memory: Memory
    campaign: CampaignKey
    viewer: Viewer
    now: float

    @property
    def key(self) -> tuple[CampaignKey, Viewer]:
        """The first two arguments of the store's reading methods."""
        return self.campaign, self.viewer

    # Evenings

    async def evening(self, said: str) -> Evening | None:
        """Return the evening that a model means; None if the viewer knows of none.

        ``said`` is its id, "last", "current", a day, or the name of a table.

        Raises:
          ToolError: there is none, among those that the viewer heard a line of.
        """
        wanted = said.strip()
        try:
            return await self.memory.transcripts.evening(*self.key, wanted)
        except UnknownItem:
            pass
        # The newest first.
        known = await self.memory.transcripts.evenings(*self.key, limit=_EVENINGS)
        words = set(words_of(wanted))
        found: list[Evening] = []
        if words & _THIS:
            found = [x for x in known if x.ended is None]
        elif words & _LAST:
            found = [x for x in known if x.ended is not None]
        if not found and words & (_THIS | _LAST):
            found = list(known[:1])
        found = found or [
            one
            for one in known
            if wanted.casefold() in (one.id.casefold(), one.session.casefold())
            or is_day(wanted, one.began)
        ]
        if found:
            return found[0]
        if not known:
            return None
        near = difflib.get_close_matches(wanted[:_MOST_NAME], [x.id for x in known])
        named = ", ".join(near or [x.id for x in known[:3]])
        hint = "did you mean" if near else "the newest are"
        raise ToolError(f"there is no session {wanted[:_MOST_NAME]!r}; {hint} {named}")

    # Entities

    async def named(self, said: str) -> Entity | None:
        """Return the entity of that id, or else that name; None if there is none."""
        try:
            found = await self.memory.graph.identity(*self.key, said.strip(), depth=0)
        except UnknownItem:
            return None
        return found.entity

    async def near(self, said: str) -> list[str]:
        """Return up to three names that are similar and that the viewer may know."""
        graph, said = self.memory.graph, said[:_MOST_NAME]
        names: list[str] = []
        for word in words_of(said)[:4]:
            found = await graph.entities(*self.key, name=word, limit=3)
            names += [x.name for x in found]
        known = await graph.entities(*self.key, limit=_ENTITIES)
        called = {
            name.casefold(): one.name
            for one in known
            for name in (one.id, *one.aliases, one.name)
        }
        alike = difflib.get_close_matches(said.casefold(), called, cutoff=0.6)
        return list(dict.fromkeys([*names, *(called[x] for x in alike)]))[:3]

    async def unknown(self, said: str) -> ToolError:
        """Return the error that there is no such entity."""
        near = await self.near(said)
        hint = (
            f"did you mean {' or '.join(near)}?" if near else "query_entities finds ids"
        )
        return ToolError(f"nothing is known of {said[:_MOST_NAME]!r}; {hint}")

    # Answers

    def line(self, found: FoundLine) -> dict[str, Any]:
        """Return a line as it stands in an answer."""
        said = found.line
        return {
            "session_id": said.evening or found.session,
            **times(found.at, self.now),
            "speaker": said.speaker,
            **({"to": said.to} if said.to else {}),
            "snippet": shortened(found.snippet or said.corrected or said.text),
        }

    def fact(self, fact: Fact) -> dict[str, Any]:
        """Return a fact as it stands in an answer: with who claims it, if it is a
        claim."""
        known = fact.provenance
        answer: dict[str, Any] = {"fact": fact.text, **times(known.at, self.now)}
        if known.evening:
            answer["session_id"] = known.evening
        if fact.standing is Standing.CLAIMED:
            answer["claimed_by"] = known.by or "a player"
        elif known.basis is not Basis.AUTHORED and not known.confirmed:
            answer["confidence"] = round(known.confidence, 2)
        return answer

    def quoted(self, found: Sequence[FoundLine]) -> str:
        """Return a short sentence that quotes the most telling of these lines."""
        best = min(found, key=self._dullness)
        said, who = best.line, best.line.speaker
        if self._is_own(best):
            who = "I"
        text = shortened(said.corrected or said.text, MOST_SPOKEN)
        return f"{who or 'Someone'} said {day_in_words(best.at, self.now)}: {text}"

    def told(self, fact: Fact) -> str:
        """Return a fact as a short sentence."""
        text, at = shortened(fact.text, MOST_SPOKEN), fact.provenance.at
        when = f" {day_in_words(at, self.now)}" if at > 0 else ""
        if fact.standing is Standing.CLAIMED:
            return f"{fact.provenance.by or 'A player'} claimed{when}: {text}"
        return text

    def _dullness(self, found: FoundLine) -> tuple[bool, bool]:
        # The question whose answer is looked for was often put before.
        return found.line.text.rstrip().endswith("?"), self._is_own(found)

    def _is_own(self, found: FoundLine) -> bool:
        # A player may bear the name of the NPC.
        return found.line.speaker == self.viewer.npc and not found.line.player


def shortened(text: str, most: int = MOST_SNIPPET) -> str:
    """Return a text in one line of at most ``most`` characters."""
    plain = " ".join(text.split())
    return plain if len(plain) <= most else f"{plain[: most - 1].rstrip()}…"


@attrs.frozen
class CampaignViews:
    """Makes the view of the NPC on whose behalf a tool is called."""

    memory: Memory
    campaign_of: Callable[[CallContext], CampaignKey]
    viewer_of: Callable[[CallContext], Viewer]
    now: Callable[[], float]
    player_of: Callable[[CallContext], tuple[str, str]]

    def of(self, context: CallContext) -> CampaignView:
        """Return the view of the NPC of a call."""
        return CampaignView(
            self.memory,
            self.campaign_of(context),
            self.viewer_of(context),
            self.now(),
        )
