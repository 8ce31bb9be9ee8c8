"""The lines of a memory in this process: each search looks at all of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress

import attrs

from glyphoxa_trio.memory.contract import MOST_APART, FoundLine, FoundLines
from glyphoxa_trio.memory.entries import Claim, Evening, Holder, check_heard
from glyphoxa_trio.memory.errors import UnknownItem
from glyphoxa_trio.memory.relevance import MOST_COUNTED, is_rare, relevance
from glyphoxa_trio.memory.relevance import rare as rare_of
from glyphoxa_trio.memory.snippet import snippet, snippet_of_line
from glyphoxa_trio.memory.visibility import (
    GAME_MASTER,
    CampaignKey,
    Reach,
    Viewer,
)
from glyphoxa_trio.memory.words import evening_name, words_in_line, words_in_query

from .rows import EveningData, Rows


@attrs.frozen(eq=False)
class InMemoryTranscripts:
    """The `TranscriptStore` of the rows, for one holder."""

    rows: Rows
    holder: Holder

    async def begin_evening(
        self, claim: Claim, at: float, *, within: float | None = None
    ) -> Evening:
        for one in self.rows.evenings:
            same = one.campaign == claim.campaign and one.session == claim.session
            if not same or one.ended is not None:
                continue
            last = self._last(one)
            if within is not None and at - last <= within:
                return self._as(one, GAME_MASTER)
            one.end(at if within is None else last)
        taken = {x.name for x in self.rows.evenings if x.campaign == claim.campaign}
        name = evening_name(claim.session, at, taken)
        self.rows.evenings.append(EveningData(claim.campaign, claim.session, name, at))
        return Evening(id=name, session=claim.session, began=at)

    async def end_evening(self, campaign: CampaignKey, evening: str, at: float) -> None:
        self.rows.evening(campaign, evening).end(at)

    async def end_idle(self, *, before: float) -> None:
        for one in self.rows.evenings:
            if (last := self._last(one)) < before:
                one.end(last)

    def _last(self, one: EveningData) -> float:
        """Return when something was said last."""
        seen = self._seen(one.campaign, GAME_MASTER, evening=one.name)
        return max((x.at for x in seen), default=one.began)

    async def search(
        self,
        campaign: CampaignKey,
        viewer: Viewer,
        query: str,
        *,
        evening: str = "",
        rare: bool = False,
        limit: int = 10,
    ) -> FoundLines:
        every, telling = words_in_query(query)
        seen = [
            (line, words_in_line(line.line.text, line.line.corrected))
            for line in self._seen(campaign, viewer, evening=evening)
        ]
        lines_with = {
            word: min(MOST_COUNTED, sum(word in words for _, words in seen))
            for word in telling
        }
        if rare:
            lines_with = rare_of(lines_with)
        found = []
        for line, words in seen:
            if rare and not is_rare(words, lines_with):
                continue
            if score := relevance(words, lines_with):
                score += set(words).issuperset(every)
                said = line.line
                shown = snippet_of_line(said.text, said.corrected, telling)
                found.append(attrs.evolve(line, score=score, snippet=shown))
        found.sort(key=lambda x: (-x.score, -x.at, x.session, -x.n))
        return FoundLines(lines=tuple(found[: max(0, limit)]))

    async def recent(
        self,
        campaign: CampaignKey,
        viewer: Viewer,
        *,
        evening: str = "",
        session: str = "",
        before: float | None = None,
        limit: int = 20,
    ) -> tuple[FoundLine, ...]:
        until = math.inf if before is None else before
        found = [
            x
            for x in self._seen(campaign, viewer, evening=evening, session=session)
            if x.at < until
        ]
        found.sort(key=lambda x: (x.at, x.session, x.n))
        return tuple(found[-limit:]) if limit > 0 else ()

    async def beside(
        self, campaign: CampaignKey, viewer: Viewer, session: str, n: int
    ) -> tuple[FoundLine, ...]:
        heard = sorted(self._seen(campaign, viewer, session=session), key=lambda x: x.n)
        line = next((x for x in heard if x.n == n), None)
        if line is None:
            return ()
        same = [
            x
            for x in heard
            if abs(x.n - n) <= MOST_APART and x.line.evening == line.line.evening
        ]
        at = same.index(line)
        return tuple(same[max(0, at - 1) : at + 2])

    def _seen(
        self,
        campaign: CampaignKey,
        viewer: Viewer,
        *,
        evening: str = "",
        session: str = "",
    ) -> Iterable[FoundLine]:
        for row, kept in self.rows.lines(campaign):
            line = kept.entry.line
            assert line is not None
            if session not in ("", row.name) or evening not in ("", line.evening):
                continue
            if line.reach.reaches(viewer):
                yield FoundLine(
                    session=row.name,
                    n=kept.n,
                    at=kept.entry.at,
                    line=line,
                    snippet=snippet(line.text, ()),
                )

    async def evenings(
        self, campaign: CampaignKey, viewer: Viewer, *, limit: int = 20
    ) -> tuple[Evening, ...]:
        heard = {x.line.evening for x in self._seen(campaign, viewer)}
        found = [
            self._as(one, viewer)
            for one in self.rows.evenings
            if one.campaign == campaign and (viewer.npc is None or one.name in heard)
        ]
        found.sort(key=lambda x: (-x.began, x.id))
        return tuple(found[: max(0, limit)])

    async def evening(
        self, campaign: CampaignKey, viewer: Viewer, evening: str
    ) -> Evening:
        one = self.rows.evening(campaign, evening)
        heard = any(self._seen(campaign, viewer, evening=evening))
        if viewer.npc is not None and not heard:
            raise UnknownItem(f"there is no session {evening!r}")
        return self._as(one, viewer)

    def _as(self, one: EveningData, viewer: Viewer) -> Evening:
        seen = {r: text for r, text in one.summaries.items() if r.reaches(viewer)}
        # The one that the fewest may know tells the most.
        best = min(seen, key=_known_to, default=None)
        return Evening(
            id=one.name,
            session=one.session,
            began=one.began,
            ended=one.ended,
            summary="" if best is None else seen[best],
            reach=best,
        )

    async def unsummarised(
        self, *, before: float
    ) -> tuple[tuple[CampaignKey, str], ...]:
        return tuple(
            (x.campaign, x.name) for x in self.rows.evenings if x.is_due(before)
        )

    async def lease_summary(
        self, campaign: CampaignKey, evening: str, *, before: float | None = None
    ) -> int | None:
        one = self.rows.evening(campaign, evening)
        if one.leased and one.leased not in self.rows.dead:
            return None
        if before is not None and not one.is_due(before):
            return None
        return one.lease(self.holder.id)

    async def end_lease(
        self, campaign: CampaignKey, evening: str, *, until: float | None = None
    ) -> None:
        with suppress(UnknownItem):
            one = self.rows.evening(campaign, evening)
            if one.leased == self.holder.id:
                one.end_lease(until)

    async def set_summary(
        self, campaign: CampaignKey, evening: str, text: str, reach: Reach
    ) -> None:
        check_heard(reach)
        self.rows.evening(campaign, evening).summaries[reach] = text


def _known_to(reach: Reach) -> tuple[float, list[str]]:
    """Sort reaches: few NPCs before many, and every NPC last."""
    return (
        math.inf if reach.npcs is None else len(reach.npcs),
        sorted(reach.npcs or ()),
    )
