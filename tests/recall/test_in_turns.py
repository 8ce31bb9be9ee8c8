"""Memory in the turns of an NPC: where it stands, when it is there, what it costs.

Times are virtual and exact, but for the store in a file.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trio
import trio.testing

from glyphoxa_trio.actors import SharedTasks
from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.config.memory import RecallConfig
from glyphoxa_trio.memory.errors import MemoryUnavailable
from glyphoxa_trio.memory.in_memory import InMemory
from glyphoxa_trio.memory.knowledge import Fact, Relationship
from glyphoxa_trio.memory.opening import open_memory
from glyphoxa_trio.memory.visibility import Reach, Viewer
from glyphoxa_trio.npc import ContextAdded, TierSelected
from glyphoxa_trio.npc.hot_context import Gathered, HotContext
from glyphoxa_trio.npc.identity import DEFAULT_SESSION, SessionKey
from glyphoxa_trio.npc.topics import PublicNames
from glyphoxa_trio.recall.context import MemoryContext
from glyphoxa_trio.recall.names import NameIndex
from glyphoxa_trio.tools.tier import Tier
from tests.npc.support import Ran, Table, ask, call, open_table

from .support import (
    KEY,
    NOW,
    Recalling,
    evening,
    moment,
    open_recall,
    person,
    populate,
    says,
)

BARTOK = NpcConfig(name="Bartok", budget_tier=Tier.DEEP)
SAID = "What do you know of gray mantel's silver key?"
FACT = "Aria claims that \u201cThe sage has a silver key.\u201d (on 18 November)"


class Seated(NamedTuple):
    table: Table
    recalling: Recalling


@asynccontextmanager
async def seated(script: Any = None, *tools: Any, **more: Any) -> AsyncIterator[Seated]:
    async with open_recall() as recalling, trio.open_nursery() as nursery:
        context = HotContext(SharedTasks(nursery))
        context.add(recalling.recall.provide)
        async with open_table(
            script or (lambda _: ["Hm."]),
            *tools,
            npc=BARTOK,
            context=context,
            hearing=recalling.recall.prefetch,
            **more,
        ) as table:
            yield Seated(table, recalling)
        nursery.cancel_scope.cancel()


async def test_what_is_remembered_stands_right_before_what_is_said(
    autojump_clock: object,
) -> None:
    async with seated() as (table, _):
        await ask(table.npc, "Good evening!", speaker="Aria")
        await ask(table.npc, SAID, speaker="Aria")
        first, second = table.llm.requests
        # The history goes on as it was, so that a prompt cache holds.
        history = [m for m in first.messages if not m.content.startswith("(What you")]
        assert list(second.messages[: len(history)]) == history
        aside, said = second.messages[-2:]
        assert said.content == SAID
        assert f"- {FACT}\n" in aside.content
        assert "- About Aria: \u201cA young thief.\u201d\n" in aside.content


async def test_what_is_late_is_told_by_the_event_and_costs_no_tool_its_time(
    autojump_clock: object,
) -> None:
    ran = Ran()
    look = ran.tool("look", 0.4)
    script = [[call("look")], ["A door."]]
    async with seated(script, look) as (table, recalling):
        recalling.memory.slow["facts"] = 10.0
        heard = await ask(table.npc, SAID, speaker="Aria", tier=Tier.FAST)
        added = heard.only(ContextAdded)
        assert added.missed == (("memory: facts", "late"),)
        assert heard.when(ContextAdded) == [pytest.approx(0.04)]
        assert heard.done.text == "A door."
        (outcome,) = heard.done.outcomes
        assert outcome.elapsed == pytest.approx(0.4)


async def test_what_was_heard_before_is_there(autojump_clock: object) -> None:
    async with seated() as (table, recalling):
        recalling.memory.slow["facts"] = 0.2
        await table.npc.hearing("What do you know of gray mantel's silver key")
        await trio.sleep(0.3)
        heard = await ask(table.npc, SAID, speaker="Aria")
        added = heard.only(ContextAdded)
        assert added.missed == ()
        assert FACT in added.lines


async def test_a_store_that_is_away_costs_an_answer_nothing(
    autojump_clock: object,
) -> None:
    async with seated() as (table, recalling):
        for method in ("identity", "names", "evenings", "recent", "facts", "search"):
            recalling.memory.failing[method] = MemoryUnavailable("it is away")
        await table.npc.hearing("What")
        heard = await ask(table.npc, SAID, speaker="Aria")
        assert heard.done.text == "Hm."
        added = heard.only(ContextAdded)
        assert added.lines == ()
        assert [part for part, _ in added.missed] == [
            "memory: identity",
            "memory: relationships",
            "memory: facts",
            "memory: transcript",
        ]


async def test_the_names_of_the_sessions_campaign_choose_the_tier(
    autojump_clock: object,
) -> None:
    sessions: list[SessionKey] = []

    def names(session: SessionKey) -> PublicNames:
        sessions.append(session)
        return PublicNames((("Karthagash", ""),))

    async with seated(names=names) as (table, _):
        await ask(table.npc, "hello there")
        heard = await ask(table.npc, "do you like karthagash")
        assert heard.only(TierSelected).reason == "a question about 'Karthagash'"
        assert set(sessions) == {DEFAULT_SESSION}


async def test_a_store_in_a_file_tells_the_same(tmp_path: Path) -> None:
    async def told(memory: Any) -> Gathered | None:
        await populate(memory)
        await evening(memory, 3, says("Aria", "The key is silver.", "Bartok"))
        await evening(memory, 0, says("Aria", "Well met.", "Bartok"), over=False)
        index = NameIndex.of(await memory.graph.names(KEY))
        async with trio.open_nursery() as nursery:
            recall = MemoryContext(
                memory,
                RecallConfig(timeout=10.0),
                campaign_of=lambda _: KEY,
                viewer_of=Viewer,
                names=lambda _: index,
                nursery=nursery,
                clock=lambda: NOW,
                zone=UTC,
            )
            return await recall.provide(moment(SAID))

    async with open_memory(str(tmp_path / "memory.db")) as memory:
        gathered = await told(memory)
    assert gathered is not None
    assert len(gathered.lines) > 5
    assert gathered == await told(InMemory())


# Nothing that an NPC may not know is told to it, whatever is said.

REACHES = st.sampled_from(
    [
        Reach(),
        Reach.of("Bartok"),
        Reach.of("Ysolde"),
        Reach.of("Ysolde", "Bartok"),
        Reach(secret=True),
        Reach(topics=["war"]),
        Reach(frozenset({"Ysolde"}), secret=True),
    ]
)
HEARD = st.sampled_from([Reach(), Reach.of("Bartok"), Reach.of("Vex")])
PEOPLE = ("Zara", "Vex", "Quill")


@settings(max_examples=60, deadline=None)
@given(
    entities=st.tuples(REACHES, REACHES, REACHES),
    edges=st.lists(
        st.tuples(st.sampled_from(PEOPLE), st.sampled_from(PEOPLE), REACHES), max_size=4
    ),
    facts=st.lists(st.tuples(st.sampled_from(PEOPLE), REACHES), max_size=5),
    lines=st.lists(HEARD, max_size=5),
    said=st.lists(
        st.sampled_from((*PEOPLE, "remember", "what did", "say about", "marker")),
        max_size=5,
    ).map(" ".join),
    viewer=st.sampled_from([Viewer("Bartok"), Viewer("Vex", frozenset({"war"}))]),
    ahead=st.booleans(),
)
def test_an_npc_is_told_nothing_that_it_may_not_know(
    entities: tuple[Reach, ...],
    edges: list[tuple[str, str, Reach]],
    facts: list[tuple[str, Reach]],
    lines: list[Reach],
    said: str,
    viewer: Viewer,
    ahead: bool,
) -> None:
    hidden: list[str] = []

    def marked(kind: str, number: int, reach: Reach) -> str:
        """A text by which its source is known; it is kept if it is hidden."""
        mark = f"marker {kind}{number}x"
        if not reach.reaches(viewer):
            hidden.append(mark)
        return mark

    async def main() -> list[str]:
        async with open_recall(viewer_of=lambda _: viewer) as table:
            store = table.memory.store
            seen = dict(zip(PEOPLE, entities, strict=True))
            kept = {
                (a.lower(), f"marker edge{n}x", b.lower()): reach
                for n, (a, b, reach) in enumerate(edges)
            }
            for n, (a, b, reach) in enumerate(edges):
                ends = (reach, seen[a], seen[b])
                if not all(x.reaches(viewer) for x in ends):
                    hidden.append(f"marker edge{n}x")
            await store.graph.put(
                KEY,
                entities=[
                    person(x, marked("who", n, seen[x]), reach=seen[x])
                    for n, x in enumerate(PEOPLE)
                ],
                relationships=[
                    Relationship(source=a, type=kind, target=b, reach=reach)
                    for (a, kind, b), reach in kept.items()
                ],
                facts=[
                    Fact(
                        text=marked("fact", n, reach),
                        about=(about.lower(),),
                        reach=reach,
                    )
                    for n, (about, reach) in enumerate(facts)
                ],
            )
            await evening(
                store,
                2,
                *(
                    says("Aria", marked("line", n, reach), reach=reach)
                    for n, reach in enumerate(lines)
                ),
            )
            here = moment(said, npc=viewer.npc or "", speaker="Zara")
            if ahead:
                table.recall.prefetch(here)
                await trio.sleep(0.01)
            gathered = await table.recall.provide(here)
            assert gathered is not None
            assert gathered.missed == ()
            return list(gathered.lines)

    told = "\n".join(trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0)))
    assert [mark for mark in hidden if mark in told] == []
