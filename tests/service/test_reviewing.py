"""What a game master's page sees and decides of a real memory, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx2
import pytest

from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.importing.archiving import all_facts
from glyphoxa_trio.memory.knowledge import (
    Basis,
    Entity,
    EntityKind,
    Fact,
    Provenance,
    Standing,
)
from glyphoxa_trio.memory.visibility import CampaignKey, Reach
from glyphoxa_trio.service import ClientRole
from glyphoxa_trio.service.options import service_options

from .support import CONFIG, TOKENS, Served, serving, token_file

BO = NpcConfig(name="Bo", tools=("*",), knowledge_scope=("fire",))
ANN = NpcConfig(name="Ann", tools=("*",))
ONE = CampaignKey("one")
CLAIM = Provenance(basis=Basis.CLAIMED, by="Aria", confidence=0.5)
FACTS = (
    Fact(text="The bridge is old.", about=("bridge",)),
    Fact(text="Aria owns the inn.", standing=Standing.CLAIMED, provenance=CLAIM),
    Fact(text="Bo was a spy.", reach=Reach(frozenset({"Bo"}), secret=True)),
    Fact(text="Salt burns green.", reach=Reach(topics=frozenset({"fire"}))),
    Fact(text="The duke is ill.", standing=Standing.QUEUED),
    Fact(text="Pigs fly.", standing=Standing.REJECTED),
)
ENTITIES = (
    Entity(id="bridge", kind=EntityKind.LOCATION, name="The Old Bridge"),
    Entity(
        id="vault", kind=EntityKind.LOCATION, name="The Vault", reach=Reach(secret=True)
    ),
)


@attrs.frozen
class Review:
    served: Served
    http: httpx2.AsyncClient
    memory: Memory

    async def facts(self, **query: str) -> dict[str, dict[str, Any]]:
        answer = await self.http.get("/api/memory", params={"session": "one", **query})
        assert answer.status_code == 200, answer.text
        return {row["text"]: row for row in answer.json()["facts"]}

    async def number(self, text: str) -> int:
        return int((await self.facts())[text]["fact"])

    async def post(self, what: str, **body: Any) -> httpx2.Response:
        sent = {"session": "one", **body}
        return await self.http.post(f"/api/memory/{what}", json=sent)


@asynccontextmanager
async def reviewing(folder: Path) -> AsyncGenerator[Review]:
    options = service_options(http="127.0.0.1:0", token_file=token_file(folder))
    config = attrs.evolve(CONFIG, npcs=(BO, ANN))
    shown = {"Authorization": f"Bearer {TOKENS[ClientRole.GAME_MASTER]}"}
    place = folder / "memory.db"
    async with serving(config=config, options=options, memory=place) as served:
        memory = served.runtime.memory
        assert memory is not None
        await memory.graph.put(ONE, entities=ENTITIES, facts=FACTS)
        async with httpx2.AsyncClient(
            timeout=60, base_url=served.url, headers=shown, trust_env=False
        ) as http:
            yield Review(served, http, memory)


async def test_each_npc_knows_what_it_may(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as review:
        known = {
            npc: {text for text, row in found.items() if row["known"]}
            for npc in ("Bo", "Ann")
            for found in [await review.facts(npc=npc)]
        }
        every = await review.facts()
        assert (await review.facts(words="bridge")).keys() == {"The bridge is old."}
        sessions = review.served.runtime.sessions
    both = {"The bridge is old.", "Aria owns the inn."}
    assert known == {"Bo": {*both, "Bo was a spy.", "Salt burns green."}, "Ann": both}
    assert every.keys() == {x.text for x in FACTS[:5]}  # what was rejected is gone
    assert [x for x, row in every.items() if row["waits"]] == [
        "The duke is ill.",
        "Aria owns the inn.",
    ]
    assert every["The bridge is old."]["about"] == ["The Old Bridge"]
    assert every["Aria owns the inn."]["source"] == "Aria says so, 50% sure"
    assert every["Bo was a spy."]["known_to"] == "Bo (secret)"
    assert not sessions  # to look at a campaign begins no session


async def test_what_waits_is_decided(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as review:
        for text, verdict in (
            ("Aria owns the inn.", "accept"),
            ("The duke is ill.", "reject"),
            ("The bridge is old.", "secret"),
        ):
            number = await review.number(text)
            assert (await review.post("judge", fact=number, verdict=verdict)).is_success
        kept = {x.text: x for x in await all_facts(review.memory, ONE)}
        assert not (await review.facts(npc="Ann"))["The bridge is old."]["known"]
    inn = kept["Aria owns the inn."]
    assert (inn.standing, inn.provenance.confirmed) == (Standing.ACCEPTED, True)
    assert kept["The duke is ill."].standing is Standing.REJECTED
    assert kept["The bridge is old."].reach == Reach(secret=True)


async def test_a_corrected_fact_is_true_and_is_found_by_its_words(
    tmp_path: Path,
) -> None:
    async with reviewing(tmp_path) as review:
        number = await review.number("The duke is ill.")
        corrected = await review.post("correct", fact=number, text="The duke is dead.")
        assert corrected.is_success
        found = await review.facts(words="dead", npc="Ann")
        assert not await review.facts(words="ill")
    row = found["The duke is dead."]
    assert (row["fact"], row["known"], row["waits"]) == (number, True, False)


async def test_a_fact_is_forgotten_once(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as review:
        number = await review.number("The bridge is old.")
        assert (await review.post("forget", fact=number)).is_success
        again = await review.post("forget", fact=number)
        assert (again.status_code, again.json()["code"]) == (404, "not_found")
        assert "The bridge is old." not in {
            x.text for x in await all_facts(review.memory, ONE)
        }


async def test_secrets_are_revealed(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as review:
        number = await review.number("Bo was a spy.")
        assert (await review.post("reveal", fact=number)).is_success
        assert (await review.facts(npc="Ann"))["Bo was a spy."]["known"]

        async def hidden() -> list[str]:
            answer = await review.http.get("/api/memory?session=one&npc=Ann")
            return [x["name"] for x in answer.json()["secrets"]]

        assert await hidden() == ["The Vault"]
        assert (await review.post("reveal", entity="vault")).is_success
        assert await hidden() == []


@pytest.mark.parametrize(
    ("what", "body", "status"),
    [
        ("judge", {"fact": 999, "verdict": "accept"}, 404),
        ("judge", {"fact": 1, "verdict": "maybe"}, 400),
        ("correct", {"fact": 999, "text": "Hm."}, 404),
        ("correct", {"fact": 1, "text": ""}, 400),
        ("correct", {"fact": 1, "text": "x" * 4001}, 400),
        ("reveal", {"fact": 999}, 404),
        ("reveal", {"entity": "nothing"}, 404),
        ("reveal", {}, 400),
        ("reveal", {"fact": 1, "entity": "vault"}, 400),
        ("forget", {}, 400),
    ],
)
async def test_what_is_not_there_is_told(
    tmp_path: Path, what: str, body: dict[str, Any], status: int
) -> None:
    async with reviewing(tmp_path) as review:
        answer = await review.post(what, **body)
        assert answer.status_code == status, answer.text
        assert answer.json()["error"]


async def test_an_npc_that_is_not_there_is_told(tmp_path: Path) -> None:
    async with reviewing(tmp_path) as review:
        answer = await review.http.get("/api/memory?session=one&npc=Zed")
        assert answer.status_code == 404
        assert "Bo, Ann" in answer.json()["error"]


async def test_without_a_memory_the_remedy_is_told(tmp_path: Path) -> None:
    options = service_options(http="127.0.0.1:0", token_file=token_file(tmp_path))
    shown = {"Authorization": f"Bearer {TOKENS[ClientRole.GAME_MASTER]}"}
    async with serving(options=options) as served:
        async with httpx2.AsyncClient(
            timeout=60, base_url=served.url, headers=shown, trust_env=False
        ) as http:
            told = (await http.get("/api/memory")).json()
            assert not told["kept"]
            assert "memory.store" in told["remedy"]
            answer = await http.post("/api/memory/forget", json={"fact": 1})
            assert (answer.status_code, answer.json()["code"]) == (409, "refused")
