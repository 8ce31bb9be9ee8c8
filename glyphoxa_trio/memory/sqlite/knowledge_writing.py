"""Write entities, relationships and facts into a memory file.

Plain functions for the thread of a pool that writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import apsw
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

from .audiences import campaign_row, reach_columns
from .knowledge_columns import ENTITY, FACT, RELATIONSHIP, listed
from .line_words import add_fact_words


def _upsert(table: str, columns: Sequence[str], key: str) -> str:
    """Return SQL that adds a row, or replaces the one of the same key, which keeps its
    id and what refers to it."""
    set_ = ", ".join(f"{x} = excluded.{x}" for x in columns if x not in key.split(", "))
    return (
        f"insert into {table} ({', '.join(columns)})"
        f" values ({', '.join('?' * len(columns))})"
        f" on conflict ({key}) do update set {set_}"
    )


_PUT_ENTITY: Final = _upsert("entity", ENTITY, "campaign, slug") + " returning id"
_PUT_RELATIONSHIP: Final = _upsert("relationship", RELATIONSHIP, "source, type, target")
_PUT_FACT: Final = _upsert("fact", ("id", *FACT), "id") + " returning id"


@attrs.define(eq=False)
class KnowledgeWriting:
    """Writes into one campaign, inside of a transaction."""

    connection: apsw.Connection
    campaign: int
    _reaches: dict[Reach, tuple[int, str, int]] = attrs.field(factory=dict, init=False)

    def reach(self, reach: Reach) -> tuple[int, str, int]:
        found = self._reaches.get(reach)
        if found is None:
            found = reach_columns(self.connection, self.campaign, reach)
            self._reaches[reach] = found
        return found

    def _known(self, reach: Reach, told: Provenance) -> tuple[Any, ...]:
        return (
            *self.reach(reach),
            told.basis.value,
            float(told.at),
            told.evening,
            told.player,
            told.by,
            float(told.confidence),
            int(told.confirmed),
        )

    def entity(self, one: Entity) -> None:
        row = (
            self.campaign,
            one.id,
            one.kind.value,
            one.name,
            one.summary,
            as_json(one.attributes),
            *self._known(one.reach, one.provenance),
        )
        id_ = self.connection.execute(_PUT_ENTITY, row).get
        self.connection.execute("delete from name where entity = ?", (id_,))
        names = enumerate((one.name, *one.aliases))
        self.connection.executemany(
            "insert into name (campaign, entity, place, name, folded)"
            " values (?, ?, ?, ?, ?)",
            ((self.campaign, id_, place, x, folded(x)) for place, x in names),
        )

    def ids(self, names: set[str]) -> dict[str, int]:
        """Return the row of each entity.

        Raises:
          UnknownItem: one does not exist.
        """
        found = dict(
            self.connection.execute(
                "select slug, id from entity where campaign = ?"
                " and slug in (select value from json_each(?))",
                (self.campaign, listed(names)),
            )
        )
        if missing := sorted(names - found.keys()):
            raise unknown_entity(missing[0])
        return found

    def relationship(self, one: Relationship, ids: dict[str, int]) -> None:
        row = (
            ids[one.source],
            one.type,
            ids[one.target],
            as_json(one.attributes),
            *self._known(one.reach, one.provenance),
        )
        self.connection.execute(_PUT_RELATIONSHIP, row)

    def line(self, key: CampaignKey, session: str, n: int) -> int:
        """Return the row of a line.

        Raises:
          UnknownItem: it does not exist in this campaign.
        """
        found: int | None = self.connection.execute(
            "select line.id from session"
            " join entry on entry.session = session.id"
            " join line on line.id = entry.id"
            " where session.tenant = ? and session.name = ? and entry.n = ?"
            " and line.campaign = ?",
            (key.tenant, session, n, self.campaign),
        ).get
        if found is None:
            raise unknown_line(session, n)
        return found

    def fact(self, one: Fact, ids: dict[str, int], lines: Sequence[int]) -> int:
        if not one.id and (same := self._same(one)) is not None:
            return same
        row = (
            one.id or None,
            self.campaign,
            one.text,
            one.standing.value,
            int(one.pinned),
            listed(one.keywords),
            *self._known(one.reach, one.provenance),
        )
        id_: int = self.connection.execute(_PUT_FACT, row).get
        if one.id:
            for table in ("fact_about", "source"):
                self.connection.execute(f"delete from {table} where fact = ?", (id_,))
            self.connection.execute("delete from fact_words where rowid = ?", (id_,))
        add_fact_words(self.connection, id_, self.campaign, found_by(one))
        self.connection.executemany(
            "insert into fact_about (fact, entity, place) values (?, ?, ?)",
            ((id_, ids[x], place) for place, x in enumerate(one.about)),
        )
        self.connection.executemany(
            "insert into source (line, fact) values (?, ?)", ((x, id_) for x in lines)
        )
        return id_

    def check_fact(self, id_: int) -> None:
        """Raise `UnknownItem` if the campaign has no such fact."""
        held = (
            0 < id_ < 2**63
            and self.connection.execute(
                "select 1 from fact where id = ? and campaign = ?", (id_, self.campaign)
            ).get
        )
        if not held:
            raise unknown_fact(id_)

    def _same(self, one: Fact) -> int | None:
        """Return the id of a fact that `is_that_fact` holds for."""
        judged = "" if one.provenance.confirmed else " or confirmed"
        found: int | None = self.connection.execute(
            "select id from fact where campaign = ?1"
            " and substr(text, 1, 40) = substr(?2, 1, 40) and text = ?2"
            " and (audience, topics, secret) = (?3, ?4, ?5)"
            f" and (standing = ?6{judged})"
            " order by id limit 1",
            (self.campaign, one.text, *self.reach(one.reach), one.standing.value),
        ).get
        return found


def write_knowledge(
    connection: apsw.Connection,
    key: CampaignKey,
    entities: Sequence[Entity],
    relationships: Sequence[Relationship],
    facts: Sequence[Fact],
) -> tuple[int, ...]:
    """Write all of these and return the ids of the facts.

    Raises:
      UnknownItem: something that one of them refers to does not exist.
    """
    writing = KnowledgeWriting(connection, campaign_row(connection, key))
    for entity in entities:
        writing.entity(entity)
    ends = {end for x in relationships for end in (x.source, x.target)}
    ids = writing.ids(ends | {end for x in facts for end in x.about})
    for one in relationships:
        writing.relationship(one, ids)
    made = []
    for fact in facts:
        if fact.id:
            writing.check_fact(fact.id)
        lines = [writing.line(key, *line) for line in fact.lines]
        made.append(writing.fact(fact, ids, lines))
    return tuple(made)
