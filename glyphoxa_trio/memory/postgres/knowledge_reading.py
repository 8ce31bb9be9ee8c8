"""Read entities, relationships and facts of PostgreSQL as a viewer sees them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

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
from glyphoxa_trio.memory.visibility import Viewer

from .rows import (
    AUDIENCE,
    REACH,
    Connection,
    fit,
    reach_of,
    seen_by,
)

TOLD: Final = (
    "basis",
    "at",
    "evening",
    "player",
    "said_by",
    "confidence",
    "confirmed",
)
_SHOWN: Final = f"{REACH}, {', '.join(f'x.{name}' for name in TOLD)}"


@attrs.frozen(eq=False)
class PostgresReading:
    """Reads rows of one campaign as a viewer sees them, inside of a transaction.

    ``values`` are the parameters of `viewing`.
    """

    connection: Connection
    viewer: Viewer
    values: dict[str, Any]

    def rows(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        """Return rows of a query that `seen_by` is a part of."""
        return self.connection.execute(
            sql.encode(), self.values | values, prepare=False
        ).fetchall()

    def entities(self, ids: Sequence[int]) -> dict[int, Entity]:
        """Return entities by their row, in the order of ``ids``."""
        if not ids:
            return {}
        rows = self.rows(
            f"""
            select x.id, x.slug, x.kind, x.name, x.summary, x.attributes, array(
                select name.name from name where entity = x.id and place > 0
                order by place
            ), {_SHOWN} from entity x {AUDIENCE} where x.id = any(%(ids)s)
            """,
            ids=list(ids),
        )
        found = {
            id_: Entity(
                id=slug,
                kind=EntityKind(kind),
                name=name,
                aliases=aliases,
                summary=summary,
                attributes=json.loads(data),
                reach=reach_of(*rest[:3]),
                provenance=_told(*rest[3:]),
            )
            for id_, slug, kind, name, summary, data, aliases, *rest in rows
        }
        return {id_: found[id_] for id_ in ids}

    def relationships(
        self, keys: Sequence[tuple[int, str, int]], entities: dict[int, Entity]
    ) -> list[Relationship]:
        """Return relationships by source, type and target, in the order of these."""
        sources, types, targets = map(list, zip(*keys, strict=True))
        rows = self.rows(
            f"select x.source, x.type, x.target, x.attributes, {_SHOWN}"
            " from unnest(%(sources)s::bigint[], %(types)s::text[],"
            " %(targets)s::bigint[]) with ordinality as given (a, b, c, place)"
            " join relationship x on x.source = a and x.type = b and x.target = c"
            f" {AUDIENCE} order by given.place",
            sources=sources,
            types=types,
            targets=targets,
        )
        return [
            _relationship(entities[source].id, type_, entities[target].id, *rest)
            for source, type_, target, *rest in rows
        ]

    def page_of_relationships(
        self, after: tuple[str, str, str] | None, limit: int
    ) -> tuple[Relationship, ...]:
        """Return relationships behind that one, by the ids of their ends."""
        seen = " and ".join(seen_by(self.viewer, x) for x in ("x", "s", "t"))
        source, type_, target = map(fit, after or ("", "", ""))
        rows = self.rows(
            f"select s.slug, x.type, t.slug, x.attributes, {_SHOWN}"
            " from entity s join relationship x on x.source = s.id"
            f" join entity t on t.id = x.target {AUDIENCE}"
            f" where s.campaign = %(campaign)s and {seen} and (%(first)s or"
            " (s.slug, x.type, t.slug) > (%(source)s, %(type)s, %(target)s))"
            " order by s.slug, x.type, t.slug limit %(limit)s",
            first=after is None,
            source=source,
            type=type_,
            target=target,
            limit=limit,
        )
        return tuple(_relationship(*row) for row in rows)

    def facts(self, ids: Sequence[int]) -> tuple[Fact, ...]:
        """Return facts in the order of ``ids``."""
        if not ids:
            return ()
        rows = self.rows(
            f"""
            select x.id, x.text, x.standing, array(
                select e.slug from fact_about join entity e on e.id = entity
                where fact = x.id and {seen_by(self.viewer, "e")} order by place
            ), array(
                select array[source.session, source.n::text] from source
                join campaign on campaign.id = source.campaign
                join session on session.tenant = campaign.tenant
                and session.name = source.session
                join line on line.session = session.id and line.n = source.n
                and line.campaign = source.campaign
                where source.fact = x.id and {seen_by(self.viewer, "line")}
                order by source.place
            ), x.pinned, x.keywords, {_SHOWN}
            from unnest(%(ids)s::bigint[]) with ordinality as given (i, p)
            join fact x on x.id = i {AUDIENCE} order by p
            """,
            ids=list(ids),
        )
        return tuple(
            Fact(
                id=id_,
                text=text,
                about=about,
                standing=Standing(standing),
                reach=reach_of(*rest[:3]),
                provenance=_told(*rest[3:]),
                lines=tuple((session, int(n)) for session, n in lines),
                pinned=pinned,
                keywords=keywords,
            )
            for id_, text, standing, about, lines, pinned, keywords, *rest in rows
        )


def _relationship(
    source: str, type_: str, target: str, data: str, *rest: Any
) -> Relationship:
    return Relationship(
        source=source,
        type=type_,
        target=target,
        attributes=json.loads(data),
        reach=reach_of(*rest[:3]),
        provenance=_told(*rest[3:]),
    )


def _told(
    basis: str,
    at: float,
    evening: str,
    player: str,
    by: str,
    confidence: float,
    confirmed: bool,
) -> Provenance:
    return Provenance(
        basis=Basis(basis),
        at=at,
        evening=evening,
        player=player,
        by=by,
        confidence=confidence,
        confirmed=confirmed,
    )
