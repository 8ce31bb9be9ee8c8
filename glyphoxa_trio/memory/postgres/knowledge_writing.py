"""Write entities, relationships and facts into PostgreSQL, inside of a transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

import attrs

from glyphoxa_trio.memory.checks import as_json
from glyphoxa_trio.memory.errors import unknown_entity, unknown_fact, unknown_line
from glyphoxa_trio.memory.knowledge import (
    Entity,
    Fact,
    Provenance,
    Relationship,
    found_by,
)
from glyphoxa_trio.memory.visibility import CampaignKey, Reach
from glyphoxa_trio.memory.words import folded

from .knowledge_reading import TOLD
from .rows import (
    Connection,
    fit,
    index_words,
    known,
    made_campaign,
)

_KNOWN: Final = ("audience", "topics", "secret", *TOLD)


def _upsert(table: str, key: str, columns: Sequence[str]) -> str:
    """Return SQL that adds a row, or replaces the one of the same key, which keeps its
    id and what refers to it."""
    kept = {*key.split(", "), "words"}
    set_ = ", ".join(f"{x} = excluded.{x}" for x in columns if x not in kept)
    places = ", ".join(f"%({x})s" for x in columns)
    return (
        f"insert into {table} ({', '.join(columns)}) values ({places})"
        f" on conflict ({key}) do update set {set_}"
    )


_PUT_ENTITY: Final = (
    _upsert(
        "entity",
        "campaign, slug",
        (
            *("campaign", "slug", "kind", "name", "folded", "summary", "attributes"),
            *_KNOWN,
        ),
    )
    + " returning id"
)
_PUT_RELATIONSHIP: Final = _upsert(
    "relationship",
    "source, type, target",
    ("source", "type", "target", "attributes", *_KNOWN),
)
_FACT: Final = ("text", "standing", "pinned", "keywords", *_KNOWN)
_ADD_FACT: Final = f"""
    insert into fact (campaign, {", ".join(_FACT)}, words)
    values (%(campaign)s, {", ".join(f"%({x})s" for x in _FACT)},
        array_to_tsvector(%(words)s::text[]))
    returning id
"""
_SET_FACT: Final = f"""
    update fact set {", ".join(f"{x} = %({x})s" for x in _FACT)},
        words = array_to_tsvector(%(words)s::text[])
    where id = %(id)s and campaign = %(campaign)s returning id
"""
_SAME_FACT: Final = """
    select id from fact
    where campaign = %(campaign)s and md5(text) = md5(%(text)s) and text = %(text)s
    and (audience, topics, secret) = (%(audience)s, %(topics)s::text[], %(secret)s)
    and (standing = %(standing)s or confirmed and not %(confirmed)s)
    order by id limit 1
"""


@attrs.define(eq=False)
class PostgresWriting:
    """Writes into one campaign, inside of a transaction."""

    connection: Connection
    key: CampaignKey
    campaign: int
    _reaches: dict[Reach, dict[str, Any]] = attrs.field(factory=dict, init=False)

    @classmethod
    def of(cls, connection: Connection, key: CampaignKey) -> PostgresWriting:
        return cls(connection, key, made_campaign(connection, key))

    def _columns(self, reach: Reach, told: Provenance) -> dict[str, Any]:
        if reach not in self._reaches:
            self._reaches[reach] = attrs.asdict(
                known(self.connection, self.campaign, reach)
            )
        return self._reaches[reach] | {
            "campaign": self.campaign,
            "basis": told.basis.value,
            "at": float(told.at),
            "evening": told.evening,
            "player": told.player,
            "said_by": told.by,
            "confidence": float(told.confidence),
            "confirmed": bool(told.confirmed),
        }

    def entity(self, one: Entity) -> None:
        row = self.connection.execute(
            _PUT_ENTITY,
            {
                **self._columns(one.reach, one.provenance),
                "slug": one.id,
                "kind": one.kind.value,
                "name": one.name,
                "folded": folded(one.name),
                "summary": one.summary,
                "attributes": as_json(one.attributes),
            },
        ).fetchone()
        assert row is not None
        names = [one.name, *one.aliases]
        self.connection.execute("delete from name where entity = %s", row)
        self.connection.execute(
            "insert into name (campaign, entity, place, name, folded, words)"
            " select %s, %s, place - 1, name, folded, string_to_array(folded, ' ')"
            " from unnest(%s::text[], %s::text[])"
            " with ordinality as given (name, folded, place)",
            (self.campaign, row[0], names, [folded(x) for x in names]),
        )

    def ids(self, names: Collection[str]) -> dict[str, int]:
        """Return the row of each entity.

        Raises:
          UnknownItem: one does not exist.
        """
        found: dict[str, int] = dict(
            self.connection.execute(
                "select slug, id from entity where campaign = %s and slug = any(%s)",
                (self.campaign, list(names)),
            )
        )
        if missing := sorted(set(names) - found.keys()):
            raise unknown_entity(missing[0])
        return found

    def relationship(self, one: Relationship, ids: dict[str, int]) -> None:
        self.connection.execute(
            _PUT_RELATIONSHIP,
            {
                **self._columns(one.reach, one.provenance),
                "source": ids[one.source],
                "type": one.type,
                "target": ids[one.target],
                "attributes": as_json(one.attributes),
            },
        )

    def fact(self, one: Fact, ids: dict[str, int]) -> int:
        self._check(one)
        values = {
            **self._columns(one.reach, one.provenance),
            "text": one.text,
            "standing": one.standing.value,
            "pinned": one.pinned,
            "keywords": [fit(x) for x in one.keywords],
            "words": index_words(found_by(one)),
        }
        if one.id:
            return self._replace(one, values, ids)
        if same := self.connection.execute(_SAME_FACT, values).fetchone():
            return int(same[0])
        row = self.connection.execute(_ADD_FACT, values).fetchone()
        assert row is not None
        self._refer(row[0], one, ids)
        return int(row[0])

    def _replace(self, one: Fact, values: dict[str, Any], ids: dict[str, int]) -> int:
        drop_changed_chunk(self.connection, one.id, values)
        self.connection.execute(_SET_FACT, values | {"id": one.id})
        for table in ("fact_about", "source"):
            self.connection.execute(f"delete from {table} where fact = %s", (one.id,))
        self._refer(one.id, one, ids)
        return one.id

    def _refer(self, id_: int, one: Fact, ids: dict[str, int]) -> None:
        if one.about:
            self.connection.execute(
                "insert into fact_about (fact, entity, place)"
                " select %s, * from unnest(%s::bigint[]) with ordinality",
                (id_, [ids[x] for x in one.about]),
            )
        if one.lines:
            self.connection.execute(
                "insert into source (fact, campaign, session, n, place)"
                " select %s, %s, * from"
                " unnest(%s::text[], %s::bigint[]) with ordinality",
                (id_, self.campaign, *map(list, zip(*one.lines, strict=True))),
            )

    def _check(self, one: Fact) -> None:
        """Raise `UnknownItem` if the fact, or a line of it, is not known."""
        if one.id:
            check_fact(self.connection, self.campaign, one.id)
        if not one.lines:
            return
        sessions, numbers = map(list, zip(*one.lines, strict=True))
        row = self.connection.execute(
            "select given.* from unnest(%s::text[], %s::bigint[]) with ordinality"
            " as given (session, n, place) where not exists ("
            "  select from line join session on session.id = line.session"
            "  where session.tenant = %s and session.name = given.session"
            "  and line.n = given.n and line.campaign = %s) order by place limit 1",
            (sessions, numbers, fit(self.key.tenant), self.campaign),
        ).fetchone()
        if row is not None:
            raise unknown_line(row[0], row[1])


def drop_changed_chunk(
    connection: Connection, fact: int, changes: dict[str, Any]
) -> None:
    """Drop the chunk of a fact that is about to change: it is made again later."""
    names = [
        x
        for x in ("text", "standing", "audience", "topics", "secret", "at")
        if x in changes
    ]
    same = " and ".join(
        f"fact.{x} = %({x})s{'::text[]' if x == 'topics' else ''}" for x in names
    )
    connection.execute(
        "delete from chunk using fact where chunk.fact = fact.id and fact.id = %(id)s"
        f" and not ({same})",
        changes | {"id": fact},
    )


def check_fact(connection: Connection, campaign: int, id_: int) -> None:
    """Raise `UnknownItem` if the campaign has no such fact."""
    held = (
        0 < id_ < 2**63
        and connection.execute(
            "select from fact where id = %s and campaign = %s", (id_, campaign)
        ).rowcount
    )
    if not held:
        raise unknown_fact(id_)
