"""The knowledge of NPCs for game masters: facts, secrets, and the word on them.

The rules are those of `glyphoxa memory review` (`control.fact_review`).
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import attrs
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from glyphoxa_trio.control.fact_review import (
    FactVerdict,
    correct,
    decide,
    known_to,
    source_of,
)
from glyphoxa_trio.memory.claims import waits
from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.importing.archiving import all_facts
from glyphoxa_trio.memory.knowledge import MOST_TEXT, Entity, Fact, Standing
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey, Viewer
from glyphoxa_trio.runtime import Runtime

from . import protocol as p
from .endpoints import ServiceEndpoint, ServiceRequest, json_response
from .refusal import Refused
from .rights import Right

MOST_SHOWN: Final = 500
"""The number of facts, and of entities, that are looked through: the newest."""

REMEDY: Final = (
    "This service keeps no memory. Take `memory.store: off` (or `mcp.remember: false`) "
    "out of the configuration, and start it again."
)

FactNumber = Annotated[int, Field(ge=1, le=2**53)]


class MemoryQuery(BaseModel):
    """The facts of a session's campaign, with those that this NPC knows marked.

    ``words``: only facts that match any of these words.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    session: p.Name = "default"
    npc: p.Name | None = None
    words: Annotated[str, Field(max_length=400)] = ""


class _FactBody(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    session: p.Name = "default"
    fact: FactNumber


class JudgeBody(_FactBody):
    """A decision about a fact, as `glyphoxa memory review` has it."""

    verdict: Annotated[FactVerdict, Field(strict=False)]


class CorrectBody(_FactBody):
    """Other words for a fact; it is true from then on."""

    text: Annotated[str, Field(min_length=1, max_length=MOST_TEXT)]


class ForgetBody(_FactBody):
    """A fact to be removed for good. It may be extracted again, unlike one that is
    rejected."""


class RevealBody(BaseModel):
    """A secret that every NPC may know from now on: a fact or an entity."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    session: p.Name = "default"
    fact: FactNumber | None = None
    entity: p.Name | None = None


@attrs.frozen(eq=False)
class MemoryApi:
    """The answers to game masters who look at what is remembered."""

    _runtime: Runtime

    def endpoints(self) -> list[ServiceEndpoint]:
        """Return the endpoints."""
        return [
            ServiceEndpoint(
                method="GET",
                path="/api/memory",
                right=Right.DIRECT,
                summary="The facts of a session's campaign, and what an NPC knows.",
                handler=self._facts,
                query=MemoryQuery,
            ),
            ServiceEndpoint(
                method="POST",
                path="/api/memory/judge",
                right=Right.DIRECT,
                summary="Accept a fact, reject it, or keep it as a secret.",
                handler=self._judge,
                body=JudgeBody,
            ),
            ServiceEndpoint(
                method="POST",
                path="/api/memory/correct",
                right=Right.DIRECT,
                summary="Change the words of a fact, and accept it.",
                handler=self._correct,
                body=CorrectBody,
            ),
            ServiceEndpoint(
                method="POST",
                path="/api/memory/forget",
                right=Right.DIRECT,
                summary="Remove a fact for good.",
                handler=self._forget,
                body=ForgetBody,
            ),
            ServiceEndpoint(
                method="POST",
                path="/api/memory/reveal",
                right=Right.DIRECT,
                summary="Make a secret known to every NPC that its topics allow.",
                handler=self._reveal,
                body=RevealBody,
            ),
        ]

    async def _facts(self, asked: ServiceRequest) -> Response:
        wanted: MemoryQuery = asked.asked(MemoryQuery)
        memory = self._runtime.memory
        if memory is None:
            return json_response({"kept": False, "remedy": REMEDY})
        campaign = self._runtime.campaign_of(wanted.session)
        viewer = self._viewer(wanted.npc)
        found = await memory.graph.facts(
            campaign,
            GAME_MASTER,
            wanted.words.strip(),
            standings=(Standing.ACCEPTED, Standing.CLAIMED, Standing.QUEUED),
            limit=MOST_SHOWN,
        )
        entities = await memory.graph.entities(campaign, GAME_MASTER, limit=MOST_SHOWN)
        names = {one.id: one.name for one in entities}
        answer = {
            "kept": True,
            "campaign": str(campaign),
            "npc": viewer.npc,
            "facts": [_fact_row(x.fact, viewer, names) for x in found],
            "secrets": [_secret_row(x, viewer) for x in entities if x.reach.secret],
            "more": MOST_SHOWN in (len(found), len(entities)),
        }
        return json_response(answer)

    async def _judge(self, asked: ServiceRequest) -> Response:
        body: JudgeBody = await asked.body(JudgeBody)
        memory, campaign = self._opened(body.session)
        fact = await _fact(memory, campaign, body.fact)
        await decide(memory, campaign, fact, body.verdict)
        return json_response({"fact": fact.id, "verdict": body.verdict.value})

    async def _correct(self, asked: ServiceRequest) -> Response:
        body: CorrectBody = await asked.body(CorrectBody)
        memory, campaign = self._opened(body.session)
        fact = await _fact(memory, campaign, body.fact)
        await correct(memory, campaign, fact, body.text)
        return json_response({"fact": fact.id})

    async def _forget(self, asked: ServiceRequest) -> Response:
        body: ForgetBody = await asked.body(ForgetBody)
        memory, campaign = self._opened(body.session)
        if not await memory.graph.remove(campaign, fact=body.fact):
            raise _no_fact(body.fact)
        return json_response({"fact": body.fact})

    async def _reveal(self, asked: ServiceRequest) -> Response:
        body: RevealBody = await asked.body(RevealBody)
        if (body.fact is None) is (body.entity is None):
            raise Refused("bad_message", "name either a fact or an entity")
        memory, campaign = self._opened(body.session)
        fact, entity = body.fact or 0, body.entity or ""
        await memory.graph.reveal(campaign, entity=entity, fact=fact)
        return json_response({"revealed": body.entity or body.fact})

    def _opened(self, session: str) -> tuple[Memory, CampaignKey]:
        memory = self._runtime.memory
        if memory is None:
            raise Refused("refused", REMEDY)
        return memory, self._runtime.campaign_of(session)

    def _viewer(self, npc: str | None) -> Viewer:
        if npc is None:
            return GAME_MASTER
        for one in self._runtime.npcs:
            if one.name == npc:
                return Viewer(npc, frozenset(one.knowledge_scope))
        there = ", ".join(one.name for one in self._runtime.npcs)
        raise Refused("not_found", f"no NPC {npc!r}, there is {there}")


async def _fact(memory: Memory, campaign: CampaignKey, number: int) -> Fact:
    for fact in await all_facts(memory, campaign):
        if fact.id == number:
            return fact
    raise _no_fact(number)


def _no_fact(number: int) -> Refused:
    return Refused("not_found", f"there is no fact {number} any more")


def _fact_row(fact: Fact, viewer: Viewer, names: dict[str, str]) -> dict[str, Any]:
    usable = fact.standing is not Standing.QUEUED
    return {
        "fact": fact.id,
        "text": fact.text,
        "about": [names.get(x, x) for x in fact.about],
        "standing": fact.standing.value,
        "source": source_of(fact),
        "at_ms": round(fact.provenance.at * 1000),
        "known_to": known_to(fact.reach),
        "known": usable and fact.reach.reaches(viewer),
        "secret": fact.reach.secret,
        "waits": waits(fact),
    }


def _secret_row(entity: Entity, viewer: Viewer) -> dict[str, Any]:
    return {
        "entity": entity.id,
        "name": entity.name,
        "kind": entity.kind.value,
        "summary": entity.summary,
        "known_to": known_to(entity.reach),
        "known": entity.reach.reaches(viewer),
    }
