"""``glyphoxa memory review`` and ``reveal``: the game master decides what is known."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from glyphoxa_trio.config import Config
from glyphoxa_trio.control.fact_review import (
    FactFilter,
    FactVerdict,
    decide,
    known_to,
    source_of,
)
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.memory.claims import waits
from glyphoxa_trio.memory.contract import Memory, Named
from glyphoxa_trio.memory.errors import UnknownItem
from glyphoxa_trio.memory.importing.archiving import all_facts
from glyphoxa_trio.memory.knowledge import Fact
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey

from .choosing import somebody_is_there
from .console import say, say_json, wide_console
from .grids import Column, Grid
from .grids import show as show_grid
from .memory_show import day
from .memory_store import campaigns_of, one_campaign, unknown, with_memory
from .render import on_screen
from .terminal import InputLines

_COLUMNS: Final = (
    Column("id", right=True),
    Column("campaign", spare=2),
    Column("when", spare=3),
    Column("source", spare=1),
    Column("known to", whole=False, spare=4),
    Column("fact", whole=False),
)
_ANSWERS: Final = {
    "a": FactVerdict.ACCEPT, "accept": FactVerdict.ACCEPT, "y": FactVerdict.ACCEPT,
    "r": FactVerdict.REJECT, "reject": FactVerdict.REJECT, "n": FactVerdict.REJECT,
    "s": FactVerdict.SECRET, "secret": FactVerdict.SECRET,
}  # fmt: skip
_LATER: Final = ("", "l", "later")
_QUIT: Final = ("q", "quit")
_TRIES: Final = 3


def review(
    where: str,
    *,
    campaign: str | None,
    tenant: str | None,
    verdicts: Mapping[FactVerdict, Sequence[int]],
    only: FactFilter,
    every: FactVerdict | None,
    as_json: bool,
) -> int:
    """List the facts that wait, or decide about some; on a terminal ask about each.

    ``only`` restricts them; ``every`` is the decision about all that are left.
    """

    async def main(memory: Memory, config: Config) -> int:
        waiting = {
            fact.id: (key, fact)
            for key in await campaigns_of(memory, campaign, tenant)
            for fact in await all_facts(memory, key)
        }
        queue = await _queue(memory, waiting.values(), only)
        named = [id_ for ids in verdicts.values() for id_ in ids]
        if named:
            if twice := sorted({x for x in named if named.count(x) > 1}):
                raise GlyphoxaError(f"the fact {twice[0]} is there twice")
            for id_ in named:
                if id_ not in waiting:
                    raise unknown("fact", str(id_), [str(x[1].id) for x in queue])
            for verdict, ids in verdicts.items():
                for id_ in ids:
                    await decide(memory, *waiting[id_], verdict)
            _say_done({k.value: list(v) for k, v in verdicts.items()}, as_json)
            return 0
        if every is not None:
            for key, fact in queue:
                await decide(memory, key, fact, every)
            _say_done({every.value: [fact.id for _, fact in queue]}, as_json)
            return 0
        if as_json:
            say_json({"facts": [_as_json(*x) for x in queue]})
            return 0
        if not queue:
            say(wide_console(), "no fact waits for you")
            return 0
        if somebody_is_there():
            return await _ask(memory, queue)
        rows = [
            [
                str(fact.id),
                str(key),
                day(fact.provenance.at),
                source_of(fact),
                known_to(fact.reach),
                fact.text,
            ]
            for key, fact in queue
        ]
        show_grid(wide_console(), Grid(columns=_COLUMNS, rows=rows))
        return 0

    return with_memory(where, main)


async def _queue(
    memory: Memory, facts: Iterable[tuple[CampaignKey, Fact]], only: FactFilter
) -> list[tuple[CampaignKey, Fact]]:
    """Return the facts that wait, as far as they are chosen.

    Raises:
      UnknownItem: no campaign has the entity that they are to be about.
    """
    by_campaign: dict[CampaignKey, list[Fact]] = {}
    for key, fact in facts:
        by_campaign.setdefault(key, []).append(fact)
    queue: list[tuple[CampaignKey, Fact]] = []
    every: list[Named] = []
    for key, known in by_campaign.items():
        names = await memory.graph.names(key)
        every += names
        chosen = only.chosen([x for x in known if waits(x)], names)
        queue += [(key, fact) for fact in chosen]
    if only.about is not None and not any(only.means(x) for x in every):
        raise unknown("entity", only.about, [x.name for x in every])
    return queue


async def _ask(memory: Memory, queue: Iterable[tuple[CampaignKey, Fact]]) -> int:
    lines, done = InputLines(), dict[str, list[int]]()
    console = wide_console()
    for campaign, fact in queue:
        who = known_to(fact.reach)
        say(console, f"\n{fact.text}", "bold")
        say(console, f"  {campaign}: {source_of(fact)}; known to: {who}", "dim")
        answer = await _answer(lines)
        if answer is None:
            break
        if answer:
            await decide(memory, campaign, fact, _ANSWERS[answer])
            done.setdefault(_ANSWERS[answer].value, []).append(fact.id)
    _say_done(done, as_json=False)
    return 0


async def _answer(lines: InputLines) -> str | None:
    """Return a word of `_ANSWERS`; "" for later, None to stop."""
    for _ in range(_TRIES):
        sys.stderr.write("(a)ccept, (r)eject, (s)ecret, (l)ater, (q)uit? [later] ")
        sys.stderr.flush()
        line = await lines.next()
        if line is None or line.casefold() in _QUIT:
            return None
        if line.casefold() in _LATER:
            return ""
        if line.casefold() in _ANSWERS:
            return line.casefold()
    return ""


def _say_done(done: Mapping[str, Sequence[int]], as_json: bool) -> None:
    if as_json:
        say_json(
            {verdict.value: list(done.get(verdict, ())) for verdict in FactVerdict}
        )
        return
    words = {"accept": "accepted", "reject": "rejected", "secret": "kept secret"}
    said = [f"{len(ids)} {words[name]}" for name, ids in done.items() if ids]
    say(wide_console(), ", ".join(said) or "nothing was decided")


def _as_json(campaign: CampaignKey, fact: Fact) -> dict[str, object]:
    source = fact.provenance
    return {
        "id": fact.id,
        "campaign": campaign.campaign,
        "tenant": campaign.tenant,
        "text": fact.text,
        "standing": fact.standing.value,
        "about": list(fact.about),
        "basis": source.basis.value,
        "by": source.by,
        "confidence": source.confidence,
        "at": source.at,
        "known_to": known_to(fact.reach),
    }


def reveal(
    where: str,
    what: Sequence[str],
    *,
    campaign: str | None,
    tenant: str | None,
    as_json: bool,
) -> int:
    """Make secrets known to the NPCs: facts by number, entities by id or name."""

    async def main(memory: Memory, config: Config) -> int:
        key = await one_campaign(memory, config, campaign, tenant)
        facts = {str(x.id): x for x in await all_facts(memory, key)}
        chosen: list[tuple[str, str, int, str]] = []
        for word in what:
            if (fact := facts.get(word)) is not None:
                chosen.append((word, "", fact.id, fact.text))
                continue
            try:
                around = await memory.graph.identity(key, GAME_MASTER, word)
            except UnknownItem:
                names = [x.name for x in await memory.graph.names(key)]
                raise unknown("fact or entity", word, names) from None
            entity = around.entity
            chosen.append((entity.id, entity.id, 0, entity.name))
        for _, entity_id, fact_id, _ in chosen:
            await memory.graph.reveal(key, entity=entity_id, fact=fact_id)
        if as_json:
            say_json({"campaign": str(key), "revealed": [x[0] for x in chosen]})
            return 0
        for *_, said in chosen:
            say(wide_console(), f"revealed: {on_screen(said)}")
        return 0

    return with_memory(where, main)
