"""A campaign in memory, and its tools as an NPC calls them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import attrs

from glyphoxa_trio.builtin.memory import Embed, tools
from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.entries import Claim, Entry, EntryKind, Line
from glyphoxa_trio.memory.in_memory import InMemory
from glyphoxa_trio.memory.visibility import CampaignKey, Reach, Viewer
from glyphoxa_trio.tools.definition import CallContext, Tool
from glyphoxa_trio.tools.outcome import ToolResult
from glyphoxa_trio.tools.speech import present

HERE = CampaignKey("inn", "guild")
NOON = datetime(2026, 11, 12, 12).timestamp()
NOW = datetime(2026, 11, 24, 20).timestamp()
DAY = 86400.0
BOTH = Reach.of("Bartok", "Ysolde")
BARTOK = Reach.of("Bartok")


@attrs.define
class Told:
    """A campaign that grows evening by evening."""

    memory: Memory = attrs.field(factory=InMemory)
    campaign: CampaignKey = HERE
    embed: Embed | None = None
    at: float = NOON
    now: float = NOW
    topics: frozenset[str] = frozenset()
    claims: dict[str, Claim] = attrs.field(factory=dict)

    async def evening(
        self,
        *lines: Line | None,
        table: str = "table-42",
        summaries: Sequence[tuple[str, Reach]] = (),
        ended: bool = True,
    ) -> str:
        """Have an evening with these lines, a day after the one before.

        A line a minute; None is a minute without one.
        """
        journal, said = self.memory.journal, self.memory.transcripts
        if table not in self.claims:
            self.claims[table] = await journal.claim(
                self.campaign.tenant, table, self.campaign
            )
        claim = self.claims[table]
        evening = await said.begin_evening(claim, self.at)
        for number, line in enumerate(lines):
            if line is None:
                continue
            kept = attrs.evolve(line, evening=evening.id)
            entry = Entry(kind=EntryKind.LINE, at=self.at + 60 * number, line=kept)
            await journal.append(claim, [entry])
        if ended:
            await said.end_evening(self.campaign, evening.id, self.at + 3600)
        for text, reach in summaries:
            await said.set_summary(self.campaign, evening.id, text, reach)
        self.at += DAY
        return evening.id

    def tools(self, npc: str | None) -> dict[str, Tool]:
        made = tools(
            self.memory,
            campaign_of=lambda _: self.campaign,
            viewer_of=lambda _: Viewer(npc, self.topics),
            embed=self.embed,
            now=lambda: self.now,
        )
        return {tool.key: tool for tool in made}

    async def ask(
        self, npc: str | None, name: str, /, **arguments: Any
    ) -> dict[str, Any]:
        """Return the answer of a tool, with the message as it would be spoken."""
        tool = self.tools(npc)[name]
        result: Any = tool.handler(arguments, CallContext(npc=npc or ""))
        answer: ToolResult = await result
        json.dumps(answer.structured)
        spoken = present(answer, tool.definition).message
        assert spoken == answer.structured["message"][:1000]
        return dict(answer.structured)


def said(
    speaker: str, text: str, reach: Reach = BOTH, *, player: str = "", **more: Any
) -> Line:
    return Line(speaker=speaker, text=text, reach=reach, player=player, **more)


def found(answer: dict[str, Any], field: str) -> list[Any]:
    """Return a field of all results."""
    results: Iterable[dict[str, Any]] = answer["results"]
    return [x[field] for x in results]
