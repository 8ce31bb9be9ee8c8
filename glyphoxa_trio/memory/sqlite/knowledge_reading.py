"""Read entities, relationships and facts of a memory file as a viewer sees them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
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

from .audiences import Sight, plain, reach_of
from .knowledge_columns import ENTITY, FACT, KNOWN, listed

_EDGE: Final = ", ".join(
    f"relationship.{x}" for x in ("attributes", "type", "source", "target", *KNOWN)
)
_KINDS: Final = {x.value: x for x in EntityKind}
_BASES: Final = {x.value: x for x in Basis}


def _attributes(data: str) -> dict[str, Any]:
    found: dict[str, Any] = {} if data == "{}" else json.loads(data)
    return found


@attrs.define(eq=False)
class KnowledgeReading:
    """Reads rows of one campaign as a viewer sees them, inside of a transaction.

    Most rows share a few reaches and provenances, which are made once.
    """

    connection: apsw.Connection
    sight: Sight
    _reaches: dict[tuple[Any, ...], Reach] = attrs.field(factory=dict, init=False)
    _told: dict[tuple[Any, ...], Provenance] = attrs.field(factory=dict, init=False)

    def reach(self, columns: tuple[Any, ...]) -> Reach:
        """Return a reach from the columns ``audience``, ``topics`` and ``secret``."""
        found = self._reaches.get(columns)
        if found is None:
            audience, topics, secret = columns
            members = self.connection.execute(
                "select members from audience where id = ?", (audience,)
            ).get
            found = self._reaches[columns] = reach_of(members, topics, secret)
        return found

    def _provenance(self, columns: tuple[Any, ...]) -> Provenance:
        found = self._told.get(columns)
        if found is None:
            basis, at, evening, player, by, confidence, confirmed = columns
            found = self._told[columns] = Provenance(
                basis=_BASES[basis],
                at=at,
                evening=evening,
                player=player,
                by=by,
                confidence=confidence,
                confirmed=confirmed != 0,
            )
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
        for row in self.connection.execute(
            f"select entity.id, {', '.join(f'entity.{x}' for x in ENTITY)}"
            " from json_each(?) as wanted"
            " cross join entity on entity.id = wanted.value",
            (rows,),
        ):
            id_, _, slug, kind, name, summary, data = row[:7]
            found[id_] = Entity(
                id=slug,
                kind=_KINDS[kind],
                name=name,
                aliases=tuple(aliases.get(id_, ())),
                summary=summary,
                attributes=_attributes(data),
                reach=self.reach(row[7:10]),
                provenance=self._provenance(row[10:]),
            )
        return {id_: found[id_] for id_ in ids}

    def edges(self, entities: Sequence[int]) -> Iterable[tuple[Any, ...]]:
        """Yield the relationships of entities whose ends the viewer may see.

        As rows of attributes, type, source, target and what else is known; first those
        that the entities are the sources of. In the order of the entities, and for each
        by type and by the entity at the other end.
        """
        yield from self._edges("source", "target", entities)
        yield from self._edges("target", "source", entities)

    def _edges(
        self, here: str, there: str, entities: Sequence[int]
    ) -> Iterable[tuple[Any, ...]]:
        edge, values = self.sight.where("relationship.")
        end, more = self.sight.where("entity.")
        # Loops in this order, and indexes that are sorted so: with `order by`, SQLite
        # would read all of them before the first, although few may be needed.
        return self.connection.execute(
            f"select {_EDGE} from json_each(?) as wanted"
            f" cross join relationship on relationship.{here} = wanted.value"
            f" cross join entity on entity.id = relationship.{there}"
            f" where {edge} and {end}",
            (listed(entities), *values, *more),
        )

    def relationships(
        self, after: tuple[str, str, str] | None, limit: int
    ) -> Iterator[Relationship]:
        """Yield relationships behind that one, by the ids of their ends."""
        ends = ("relationship.", "source.", "target.")
        conditions, values = zip(*map(self.sight.where, ends), strict=True)
        for *row, source, target in self.connection.execute(
            f"select {_EDGE}, source.slug, target.slug from entity as source"
            " cross join relationship on relationship.source = source.id"
            " cross join entity as target on target.id = relationship.target"
            f" where source.campaign = ? and {' and '.join(conditions)}"
            " and (? or (source.slug, type, target.slug) > (?, ?, ?))"
            " order by source.slug, type, target.slug limit ?",
            (
                self.sight.campaign,
                *chain(*values),
                after is None,
                *map(plain, after or ("", "", "")),
                limit,
            ),
        ):
            yield self._relationship(tuple(row), source, target)

    def relationship(
        self, row: tuple[Any, ...], entities: dict[int, Entity]
    ) -> Relationship:
        return self._relationship(row, entities[row[2]].id, entities[row[3]].id)

    def _relationship(
        self, row: tuple[Any, ...], source: str, target: str
    ) -> Relationship:
        data, type_ = row[:2]
        return Relationship(
            source=source,
            type=type_,
            target=target,
            attributes=_attributes(data),
            reach=self.reach(row[4:7]),
            provenance=self._provenance(row[7:]),
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
        for row in self.connection.execute(
            f"select fact.id, {', '.join(f'fact.{x}' for x in FACT)}"
            " from json_each(?) as wanted cross join fact on fact.id = wanted.value",
            (rows,),
        ):
            id_, _, text, standing, pinned, keywords = row[:6]
            found[id_] = Fact(
                id=id_,
                text=text,
                about=tuple(about.get(id_, ())),
                standing=Standing(standing),
                reach=self.reach(row[6:9]),
                provenance=self._provenance(row[9:]),
                pinned=pinned != 0,
                keywords=() if keywords == "[]" else json.loads(keywords),
                lines=tuple(lines.get(id_, ())),
            )
        return tuple(found[id_] for id_ in ids)
