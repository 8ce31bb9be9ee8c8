"""Read entities, relationships and facts of a memory file as a viewer sees them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

import apsw
import attrs

from glyphoxa_trio.memory.knowledge import (
    Basis,
    Entity,
    EntityKind,
    Fact,
    Provenance,
    Relationship,
    Standing,
)
from glyphoxa_trio.memory.visibility import Reach

from .audiences import Sight, reach_of
from .knowledge_columns import ENTITY, FACT, KNOWN, listed

_EDGE: Final = ", ".join(
    f"relationship.{x}" for x in ("attributes", "type", "source", "target", *KNOWN)
)


@attrs.define(eq=False)
class Reading:
    """Reads rows of one campaign as a viewer sees them, inside of a transaction.

    Most rows share a few reaches and provenances, which are made once.
    """

    connection: apsw.Connection
    sight: Sight
    _members: dict[int, str | None] = attrs.field(factory=dict, init=False)
    _known: dict[tuple[Any, ...], tuple[Reach, Provenance]] = attrs.field(
        factory=dict, init=False
    )

    def reach(self, audience: int, topics: str, secret: int) -> Reach:
        if audience not in self._members:
            self._members[audience] = self.connection.execute(
                "select members from audience where id = ?", (audience,)
            ).get
        return reach_of(self._members[audience], topics, secret)

    def _told(self, columns: tuple[Any, ...]) -> tuple[Reach, Provenance]:
        found = self._known.get(columns)
        if found is None:
            basis, at, evening, player, by, confidence, confirmed = columns[3:]
            told = Provenance(
                basis=Basis(basis),
                at=at,
                evening=evening,
                player=player,
                by=by,
                confidence=confidence,
                confirmed=bool(confirmed),
            )
            found = self._known[columns] = self.reach(*columns[:3]), told
        return found

    def entities(self, ids: Sequence[int]) -> dict[int, Entity]:
        """Return entities by their row, in the order of ``ids``."""
        rows = listed(ids)
        aliases: dict[int, list[str]] = {}
        for id_, name in self.connection.execute(
            "select entity, name.name from json_each(?) as wanted"
            " cross join name on entity = wanted.value where place > 0"
            " order by entity, place",
            (rows,),
        ):
            aliases.setdefault(id_, []).append(name)
        found = {}
        for id_, _, slug, kind, name, summary, data, *known in self.connection.execute(
            f"select entity.id, {', '.join(f'entity.{x}' for x in ENTITY)}"
            " from json_each(?) as wanted"
            " cross join entity on entity.id = wanted.value",
            (rows,),
        ):
            reach, told = self._told(tuple(known))
            found[id_] = Entity(
                id=slug,
                kind=EntityKind(kind),
                name=name,
                aliases=tuple(aliases.get(id_, ())),
                summary=summary,
                attributes=json.loads(data),
                reach=reach,
                provenance=told,
            )
        return {id_: found[id_] for id_ in ids}

    def edges(self, entity: int) -> Iterable[tuple[Any, ...]]:
        """Yield the relationships of an entity whose ends the viewer may see: as rows
        of attributes, type, source, target and what else is known, outgoing first."""
        yield from self._edges("source", "target", "", entity)
        yield from self._edges("target", "source", " and source <> target", entity)

    def _edges(
        self, here: str, there: str, also: str, entity: int
    ) -> Iterable[tuple[Any, ...]]:
        edge, values = self.sight.where("relationship.")
        end, more = self.sight.where("entity.")
        return self.connection.execute(
            f"select {_EDGE} from relationship"
            f" cross join entity on entity.id = relationship.{there}"
            f" where relationship.{here} = ?{also} and {edge} and {end}"
            f" order by relationship.type, relationship.{there}",
            (entity, *values, *more),
        )

    def relationship(
        self, row: tuple[Any, ...], entities: dict[int, Entity]
    ) -> Relationship:
        data, type_, source, target, *known = row
        reach, told = self._told(tuple(known))
        return Relationship(
            source=entities[source].id,
            type=type_,
            target=entities[target].id,
            attributes=json.loads(data),
            reach=reach,
            provenance=told,
        )

    def facts(self, ids: Sequence[int]) -> tuple[Fact, ...]:
        """Return facts in the order of ``ids``."""
        rows = listed(ids)
        condition, values = self.sight.where("entity.")
        about: dict[int, list[str]] = {}
        for id_, slug in self.connection.execute(
            "select fact, slug from json_each(?) as wanted"
            " cross join fact_about on fact = wanted.value"
            f" cross join entity on entity.id = entity where {condition}"
            " order by fact, place",
            (rows, *values),
        ):
            about.setdefault(id_, []).append(slug)
        condition, values = self.sight.heard("line.")
        lines: dict[int, list[tuple[str, int]]] = {}
        for id_, session, n in self.connection.execute(
            "select source.fact, session.name, n from json_each(?) as wanted"
            " cross join source on source.fact = wanted.value"
            " cross join line on line.id = source.line"
            " cross join entry on entry.id = line.id"
            f" cross join session on session.id = entry.session where {condition}",
            (rows, *values),
        ):
            lines.setdefault(id_, []).append((session, n))
        found = {}
        for id_, _, text, standing, *known in self.connection.execute(
            f"select fact.id, {', '.join(f'fact.{x}' for x in FACT)}"
            " from json_each(?) as wanted cross join fact on fact.id = wanted.value",
            (rows,),
        ):
            reach, told = self._told(tuple(known))
            found[id_] = Fact(
                id=id_,
                text=text,
                about=tuple(about.get(id_, ())),
                standing=Standing(standing),
                reach=reach,
                provenance=told,
                lines=tuple(lines.get(id_, ())),
            )
        return tuple(found[id_] for id_ in ids)
