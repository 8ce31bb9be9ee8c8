"""The tools of memory: what was said and is known, each NPC's own part of it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.errors import MemoryUnavailable
from glyphoxa_trio.memory.in_memory import InMemory
from glyphoxa_trio.memory.knowledge import (
    Basis,
    Entity,
    EntityKind,
    Fact,
    Provenance,
    Relationship,
    Standing,
)
from glyphoxa_trio.memory.opening import open_memory
from glyphoxa_trio.memory.visibility import GAME_MASTER, NO_NPC, Reach, Viewer
from glyphoxa_trio.tools.definition import CallContext, ToolError, ToolUnavailable
from glyphoxa_trio.tools.naming import exposed_name
from glyphoxa_trio.tools.tier import Tier

from .support import BARTOK, DAY, HERE, NOON, Told, found, said

SEARCH, ENTITIES, SUMMARY = (
    f"memory.{x}" for x in ("search_sessions", "query_entities", "get_summary")
)
FACTS, REMEMBER = "memory.search_facts", "memory.remember"
SESSION, HISTORY = "sessions.get_summary", "sessions.search_history"


async def told_in(memory: Memory) -> Told:
    """Return a campaign with two evenings, two entities and a secret one."""
    told = Told(memory)
    await told.evening(
        said("Aria", "Is the red dragon near?", player="p1", to="Bartok"),
        said("Aria", "The red dragon burned my village.", player="p1"),
        said("Bartok", "A red dragon? Then drink on the house."),
        said("Aria", "I hid the crown under the mill.", BARTOK, player="p1"),
        summaries=[("Aria told of the dragon.", Reach.of("Bartok", "Ysolde"))],
    )
    await told.evening(said("Bo", "Ale, and a room.", player="p2"), ended=False)
    await told.memory.graph.put(
        HERE,
        entities=[
            Entity(
                id="red-wyrm",
                kind=EntityKind.NPC,
                name="Red Wyrm",
                aliases=("the dragon",),
                summary="A dragon of the north.",
                attributes={"age": 900},
            ),
            Entity(id="black-peak", kind=EntityKind.LOCATION, name="Black Peak"),
            Entity(
                id="lost-heir",
                kind=EntityKind.NPC,
                name="Lost Heir",
                reach=Reach(frozenset({"Ysolde"}), secret=True),
            ),
        ],
        relationships=[
            Relationship(source="red-wyrm", type="lives_in", target="black-peak"),
            Relationship(source="lost-heir", type="fears", target="red-wyrm"),
        ],
        facts=[
            Fact(text="The dragon fears silver.", about=("red-wyrm",)),
            Fact(
                text="Bo slew a dragon.",
                about=("red-wyrm",),
                standing=Standing.CLAIMED,
                provenance=Provenance(
                    basis=Basis.CLAIMED, at=NOON, player="p2", by="Bo", confidence=0.9
                ),
            ),
        ],
    )
    return told


@pytest.fixture(params=["in_memory", "sqlite"])
async def inn(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Told]:
    if request.param == "in_memory":
        yield await told_in(InMemory())
        return
    async with open_memory(str(tmp_path / "inn.db")) as memory:
        yield await told_in(memory)


async def test_the_tools_are_those_of_the_design_with_its_estimates() -> None:
    # G5, G6, G7, G8, G11, G16
    made = {key: tool.definition for key, tool in Told().tools("Bartok").items()}
    told = {
        key: (
            exposed_name(x),
            round((x.estimated_duration or 0) * 1000),
            round((x.max_duration or 0) * 1000),
            x.read_only,
        )
        for key, x in made.items()
    }
    assert told == {
        SEARCH: ("search_sessions", 100, 500, True),
        ENTITIES: ("query_entities", 50, 200, True),
        SUMMARY: ("get_summary", 80, 300, True),
        FACTS: ("search_facts", 200, 800, True),
        REMEMBER: ("remember", 50, 500, False),
        SESSION: ("get_session_summary", 100, 300, True),
        HISTORY: ("search_history", 100, 300, True),
    }
    for key, one in made.items():
        assert (one.min_tier, one.per_npc, one.cacheable) == (Tier.FAST, True, 0), key


async def test_an_empty_memory_answers_every_example_in_words() -> None:
    told = Told()
    for npc in ("Bartok", "", None):
        for key, tool in told.tools(npc).items():
            assert tool.definition.examples or not tool.definition.read_only
            for example in tool.definition.examples:
                answer = await told.ask(npc, key, **example)
                assert answer["message"].endswith("."), key
                assert not answer.get("results"), key


# Lines


async def test_a_line_is_found_with_its_speaker_and_its_day(inn: Told) -> None:  # G5
    answer = await inn.ask("Bartok", SEARCH, query="red dragon")
    first = answer["results"][0]
    assert {"speaker", "when", "at", "session_id", "snippet"} <= first.keys()
    assert first["session_id"] == "table-42-2026-11-12"
    assert first["when"] == "on 12 November"
    assert first["at"].startswith("2026-11-12T12:0")
    # What answers is spoken, neither the question nor the NPC's own words.
    assert answer["message"] == (
        "Aria said on 12 November: The red dragon burned my village."
    )
    assert len(answer["results"]) == 3
    one = await inn.ask("Bartok", SEARCH, query="red dragon", limit=1)
    assert len(one["results"]) == 1


async def test_its_own_words_are_its_own(inn: Told) -> None:
    answer = await inn.ask("Bartok", SEARCH, query="on the house")
    assert answer["message"].startswith("I said on 12 November: A red dragon?")
    answer = await inn.ask("Ysolde", SEARCH, query="on the house")
    assert answer["message"].startswith("Bartok said on 12 November")


async def test_a_line_is_found_only_by_those_who_heard_it(inn: Told) -> None:  # G38
    heard = await inn.ask("Bartok", SEARCH, query="crown mill")
    assert found(heard, "snippet") == ["I hid the crown under the mill."]
    for npc in ("Ysolde", "Greta"):
        answer = await inn.ask(npc, SEARCH, query="crown mill")
        assert answer == {"message": "I remember nothing of that.", "results": []}
    master = await inn.ask(None, SEARCH, query="crown mill")
    assert len(master["results"]) == 1


@pytest.mark.parametrize(
    ("named", "day"),
    [
        ("table-42-2026-11-12", 12),
        ("last", 12),  # the one before this
        ("the previous session", 12),
        ("current", 13),
        ("tonight", 13),
        ("2026-11-12", 12),
        ("12 November", 12),
        ("Nov 12, 2026", 12),
        ("November 13", 13),
        ("TABLE-42", 13),  # its newest
    ],
)
async def test_a_session_is_named_as_people_do(inn: Told, named: str, day: int) -> None:
    answer = await inn.ask("Bartok", SEARCH, query="dragon ale", session_id=named)
    assert answer["session_id"] == f"table-42-2026-11-{day}"
    answer = await inn.ask("Bartok", SESSION, session_id=named)
    assert answer["session_id"] == f"table-42-2026-11-{day}"


async def test_an_unknown_session_is_told_with_those_that_it_may_know(
    inn: Told,
) -> None:
    await inn.evening(said("Eve", "Psst.", BARTOK, player="p3"), table="cellar")
    with pytest.raises(ToolError, match=r"no session 'celler'; .*cellar-2026-11-14"):
        await inn.ask("Bartok", SESSION, session_id="celler")
    with pytest.raises(ToolError) as refused:
        await inn.ask("Ysolde", SESSION, session_id="celler")
    assert "cellar" not in str(refused.value)
    assert "the newest are table-42-2026-11-13" in str(refused.value)
    answer = await inn.ask("Greta", SESSION, session_id="last")
    assert answer == {
        "message": "No session is remembered here yet.",
        "found": False,
    }


@pytest.mark.parametrize(
    "query",
    ["", "  ", "?!", "\0", "x" * 2000, '"', "NEAR(", "a AND", "col:*", "' OR 1=1 --"],
)
@pytest.mark.parametrize("name", [SEARCH, FACTS, HISTORY])
async def test_any_query_is_answered_or_refused_in_words(
    inn: Told, name: str, query: str
) -> None:
    try:
        answer = await inn.ask("Bartok", name, query=query)
    except ToolError as error:
        assert "quer" in str(error)  # noqa: PT017
    else:
        assert answer["message"]


@pytest.mark.parametrize("limit", [0, -1, 21, 1e9])
async def test_a_limit_is_bounded(inn: Told, limit: float) -> None:
    for name, field in [(SEARCH, "limit"), (FACTS, "top_k"), (HISTORY, "limit")]:
        with pytest.raises(ToolError, match="must be from 1 to"):
            await inn.ask("Bartok", name, query="dragon", **{field: limit})


# Sessions


async def test_a_session_is_summarised_for_those_who_were_in_it(inn: Told) -> None:
    # G11
    answer = await inn.ask("Ysolde", SESSION, session_id="last")
    assert answer["summary"] == "Aria told of the dragon."
    assert answer["message"] == "On 12 November: Aria told of the dragon."
    assert answer["ended"] is True


async def test_one_without_a_summary_has_its_last_lines(inn: Told) -> None:
    answer = await inn.ask("Ysolde", SESSION, session_id="current")
    assert [x["snippet"] for x in answer["lines"]] == ["Ale, and a room."]
    assert answer["message"] == "Bo said on 13 November: Ale, and a room."
    assert answer["ended"] is False


async def test_history_finds_sessions_by_lines_and_by_summaries(inn: Told) -> None:
    # G11
    await inn.evening(
        said("Aria", "Well met.", player="p1"),
        summaries=[("They planned an ambush.", Reach.of("Ysolde"))],
    )
    answer = await inn.ask("Ysolde", HISTORY, query="dragon")
    assert found(answer, "session_id") == ["table-42-2026-11-12"]
    assert answer["results"][0]["summary"] == "Aria told of the dragon."
    answer = await inn.ask("Ysolde", HISTORY, query="ambush")
    assert found(answer, "session_id") == ["table-42-2026-11-14"]
    assert answer["message"] == "On 14 November: They planned an ambush."
    assert not (await inn.ask("Bartok", HISTORY, query="ambush"))["results"]


# Entities


async def test_entities_are_found_by_name_and_type(inn: Told) -> None:  # G6
    assert found(await inn.ask("Bartok", ENTITIES, name="wyrm"), "id") == ["red-wyrm"]
    by_alias = await inn.ask("Bartok", ENTITIES, name="the dragon", type="creature")
    assert by_alias["message"] == "Red Wyrm: A dragon of the north."
    for kind in ("location", "Locations", "place"):
        answer = await inn.ask("Bartok", ENTITIES, type=kind)
        assert found(answer, "id") == ["black-peak"]
    assert found(await inn.ask("Bartok", ENTITIES), "id") == ["black-peak", "red-wyrm"]
    with pytest.raises(ToolError, match="no type 'spaceship'; there are: npc, player"):
        await inn.ask("Bartok", ENTITIES, type="spaceship")


async def test_what_is_secret_is_neither_found_nor_hinted_at(inn: Told) -> None:  # G38
    assert found(await inn.ask("Ysolde", ENTITIES, name="heir"), "id") == ["lost-heir"]
    answer = await inn.ask("Bartok", ENTITIES, name="lost heir")
    assert answer == {"message": "I remember nothing of that.", "results": []}
    with pytest.raises(ToolError) as secret:
        await inn.ask("Bartok", SUMMARY, entity_id="lost-heir")
    with pytest.raises(ToolError) as none:
        await inn.ask("Bartok", SUMMARY, entity_id="lost-hair")
    same = str(none.value).replace("lost-hair", "lost-heir")
    assert str(secret.value) == same
    near = await inn.ask("Ysolde", ENTITIES, name="lost hare")
    assert near["did_you_mean"] == ["Lost Heir"]


async def test_a_summary_has_attributes_neighbours_and_facts(inn: Told) -> None:  # G7
    for named in ("red-wyrm", "Red Wyrm", "the dragon"):
        answer = await inn.ask("Bartok", SUMMARY, entity_id=named)
        assert answer["id"] == "red-wyrm"
    assert answer["attributes"] == {"age": 900}
    assert answer["relationships"] == [
        {"from": "Red Wyrm", "type": "lives in", "to": "Black Peak"}
    ]
    assert answer["connected"] == [
        {"id": "black-peak", "name": "Black Peak", "type": "location"}
    ]
    assert answer["message"].startswith(
        "A dragon of the north. Red Wyrm lives in Black Peak."
    )
    knows_more = await inn.ask("Ysolde", SUMMARY, entity_id="red-wyrm")
    assert {x["id"] for x in knows_more["connected"]} == {"black-peak", "lost-heir"}
    with pytest.raises(ToolError, match="did you mean Red Wyrm"):
        await inn.ask("Bartok", SUMMARY, entity_id="Red Worm")


async def test_a_claim_names_who_makes_it(inn: Told) -> None:
    answer = await inn.ask("Bartok", SUMMARY, entity_id="red-wyrm")
    claims = {x["fact"]: x.get("claimed_by") for x in answer["facts"]}
    assert claims == {"The dragon fears silver.": None, "Bo slew a dragon.": "Bo"}
    answer = await inn.ask("Bartok", FACTS, query="slew")
    assert answer["message"] == "Bo claimed on 12 November: Bo slew a dragon."
    assert answer["results"][0]["claimed_by"] == "Bo"


# Facts


async def test_facts_are_searched_by_words_without_embeddings(inn: Told) -> None:  # G8
    answer = await inn.ask("Bartok", FACTS, query="what does the dragon fear: silver?")
    assert answer["searched"] == "words"
    assert answer["message"] == "The dragon fears silver."
    assert [next(iter({"fact", "snippet"} & x.keys())) for x in answer["results"]] == [
        *("fact", "snippet", "fact", "snippet", "snippet")
    ]


async def test_facts_are_searched_by_meaning_with_embeddings(inn: Told) -> None:  # G8
    async def embed(text: str) -> tuple[str, Sequence[float]]:
        return "tiny", _vector(text)

    pending = await inn.memory.index.pending("tiny")
    vectors = [(chunk.id, _vector(chunk.text)) for _, chunk in pending]
    await inn.memory.index.add("tiny", vectors)
    inn.embed = embed
    answer = await inn.ask("Bartok", FACTS, query="the beast of the mountain")
    assert answer["searched"] == "meaning"
    best = answer["results"][0]
    assert "dragon" in (best.get("passage") or best["fact"])
    assert best["similarity"] == 1.0
    hidden = await inn.ask("Ysolde", FACTS, query="a jewel")
    assert "crown" not in json.dumps(hidden)
    assert "crown" in json.dumps(await inn.ask("Bartok", FACTS, query="a jewel"))


def _vector(text: str) -> tuple[float, ...]:
    """As a model would see it: a dragon and a beast are alike."""
    plain = text.casefold()
    about = [("dragon", "beast"), ("crown", "jewel"), ("ale", "room")]
    return (*(float(any(x in plain for x in words)) for words in about), 0.001)


async def test_words_are_searched_when_embedding_takes_too_long_or_fails(
    autojump_clock: MockClock,
) -> None:
    inn = await told_in(InMemory())

    async def hangs(_: str) -> None:
        await trio.sleep_forever()

    async def fails(_: str) -> None:
        return None

    for embed in (hangs, fails):
        inn.embed = embed
        began = trio.current_time()
        answer = await inn.ask("Bartok", FACTS, query="silver")
        assert (answer["searched"], answer["message"]) == (
            "words",
            "The dragon fears silver.",
        )
        assert trio.current_time() - began <= 0.5


async def test_as_many_as_asked_for(inn: Told) -> None:
    assert (
        len((await inn.ask("Bartok", FACTS, query="dragon", top_k=2))["results"]) == 2
    )


# Remembering


async def test_what_an_npc_remembers_is_its_own(inn: Told) -> None:
    answer = await inn.ask(
        "Bartok",
        REMEMBER,
        fact="  Aria owes me\n three copper. ",
        about=["Red Wyrm", "lost-heir", "Nobody"],
    )
    assert answer["fact"] == "Aria owes me three copper."
    assert (answer["about"], answer["not_known"]) == (
        ["Red Wyrm"],
        ["lost-heir", "Nobody"],  # the one exists, and is secret
    )
    kept = await inn.memory.graph.facts(HERE, GAME_MASTER, "copper")
    assert [x.fact.reach for x in kept] == [BARTOK]
    assert kept[0].fact.about == ("red-wyrm",)
    assert kept[0].fact.provenance == Provenance(
        basis=Basis.STATED, at=inn.now, by="Bartok"
    )
    assert not await inn.memory.graph.facts(HERE, Viewer("Ysolde"), "copper")
    inn.now += DAY
    again = await inn.ask("Bartok", REMEMBER, fact="Aria owes me three copper.")
    assert again["message"] == "I will remember that."
    assert len(await inn.memory.graph.facts(HERE, GAME_MASTER, "copper")) == 1
    recalled = await inn.ask("Bartok", FACTS, query="copper")
    assert recalled["message"] == "Aria owes me three copper."


async def test_what_the_game_master_has_remembered_no_npc_knows(inn: Told) -> None:
    await inn.ask(None, REMEMBER, fact="The mayor lies.")
    (kept,) = await inn.memory.graph.facts(HERE, GAME_MASTER, "mayor")
    assert kept.fact.reach == NO_NPC


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"fact": " \n"}, "the fact is empty"),
        ({"fact": "a \0 in it"}, "NUL"),
        ({"fact": "x" * 501}, "more than 500 characters"),
        ({"fact": "x", "about": ["y"] * 9}, "about names more than 8"),
    ],
)
async def test_what_cannot_be_remembered_is_refused(
    arguments: dict[str, Any], why: str
) -> None:
    with pytest.raises(ToolError, match=why):
        await Told().ask("Bartok", REMEMBER, **arguments)


async def test_a_store_that_is_away_makes_the_tools_unavailable() -> None:
    class Away:
        def __getattr__(self, _: str) -> Any:
            raise MemoryUnavailable("the disk is full")

    memory = InMemory()
    memory.transcripts = memory.graph = Away()  # type: ignore[assignment]
    told = Told(memory=memory)
    for key, arguments in [
        (SEARCH, {"query": "x"}),
        (ENTITIES, {}),
        (SUMMARY, {"entity_id": "x"}),
        (FACTS, {"query": "x"}),
        (REMEMBER, {"fact": "x"}),
        (SESSION, {"session_id": "x"}),
        (HISTORY, {"query": "x"}),
    ]:
        result: Any = told.tools("Bartok")[key].handler(arguments, CallContext())
        with pytest.raises(ToolUnavailable, match="the disk is full"):
            await result
