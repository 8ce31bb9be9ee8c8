"""Campaigns, audiences and what a viewer may see, in a memory file.

Plain functions for the threads of a pool; those that add a row belong in a write::

    campaign = campaign_row(connection, key)
    columns = reach_columns(connection, campaign, Reach.of("Bartok"))
    "insert into fact (..., audience, topics, secret) values (..., ?, ?, ?)"

    sight = sight_of(connection, key, viewer)
    condition, values = sight.where("fact.")
    f"select ... from fact where fact.campaign = ? and {condition}"
"""

from __future__ import annotations

import json
from collections.abc import Collection
from functools import cached_property
from typing import Any, Final
from urllib.parse import quote, unquote

import apsw
import attrs

from glyphoxa_trio.memory.visibility import CampaignKey, Reach, Viewer

# The audience that is every NPC.
EVERY_NPC: Final = 0


def plain(text: str) -> str:
    """Return a text that a file can hold: half a surrogate pair is escaped."""
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()


def campaign_row(connection: apsw.Connection, key: CampaignKey) -> int:
    """Return the id of a campaign, which is added if it is new."""
    found = known_campaign(connection, key)
    if found is not None:
        return found
    connection.execute(
        "insert into campaign (tenant, name) values (?, ?)",
        (plain(key.tenant), plain(key.campaign)),
    )
    return connection.last_insert_rowid()


def known_campaign(connection: apsw.Connection, key: CampaignKey) -> int | None:
    """Return the id of a campaign; None if there is no such campaign."""
    found: int | None = connection.execute(
        "select id from campaign where tenant = ? and name = ?",
        (plain(key.tenant), plain(key.campaign)),
    ).get
    return found


def audience_row(
    connection: apsw.Connection, campaign: int, npcs: Collection[str] | None
) -> int:
    """Return the id of a set of NPCs, which is added if it is new.

    None is every NPC, and its id is `EVERY_NPC`.
    """
    if npcs is None:
        return EVERY_NPC
    members = json.dumps(sorted(npcs))
    found: int | None = connection.execute(
        "select id from audience where campaign = ? and members = ?",
        (campaign, members),
    ).get
    if found is not None:
        return found
    connection.execute(
        "insert into audience (campaign, members) values (?, ?)", (campaign, members)
    )
    made = connection.last_insert_rowid()
    connection.executemany(
        "insert or ignore into listener (campaign, npc, audience) values (?, ?, ?)",
        ((campaign, plain(npc), made) for npc in npcs),
    )
    return made


def reach_columns(
    connection: apsw.Connection, campaign: int, reach: Reach
) -> tuple[int, str, int]:
    """Return the columns ``audience``, ``topics`` and ``secret`` of a reach.

    Its audience is added if it is new.
    """
    return (
        audience_row(connection, campaign, reach.npcs),
        " ".join(sorted(map(_in_percent, reach.topics))),
        int(reach.secret),
    )


def reach_of(members: str | None, topics: str = "", secret: int = 0) -> Reach:
    """Return a reach from the columns ``audience.members``, ``topics``, ``secret``."""
    npcs = None if members is None else frozenset(json.loads(members))
    words = (unquote(word, errors="surrogatepass") for word in topics.split())
    return Reach(npcs, frozenset(words), bool(secret))


def scope_word(campaign: int, audience: int) -> str:
    """Return the word for a campaign and an audience in the full-text indexes."""
    return f"c{campaign}a{audience}"


@attrs.frozen
class Sight:
    """The rows of one campaign that a viewer may see.

    Args:
      campaign: the id of the campaign.
      audiences: the ids of the audiences that the viewer is in, `EVERY_NPC` included;
        for the game master all audiences of the campaign.
      viewer: the viewer.
    """

    campaign: int
    audiences: tuple[int, ...]
    viewer: Viewer

    def heard(self, table: str = "") -> tuple[str, tuple[Any, ...]]:
        """Return an SQL condition on the column ``audience``, and its values.

        For tables without topics and secrets. ``table`` is a prefix such as "line.".
        """
        if self.viewer.npc is None:
            return "true", ()
        return f"{table}audience in (select value from json_each(?))", self._listed

    def where(self, table: str = "") -> tuple[str, tuple[Any, ...]]:
        """Return an SQL condition on ``audience``, ``topics``, ``secret``, and values.

        ``table`` is a prefix of the columns, such as "fact.".
        """
        if self.viewer.npc is None:
            return "true", ()
        listed, values = self.heard(table)
        known = f" or instr(' ' || {table}topics || ' ', ?) > 0" * len(self._topics)
        condition = (
            f"({listed}"
            f" and not ({table}secret and {table}audience = {EVERY_NPC})"
            f" and ({table}topics = ''{known}))"
        )
        return condition, (*values, *self._topics)

    @cached_property
    def _listed(self) -> tuple[str]:
        return (json.dumps(self.audiences),)

    @cached_property
    def _topics(self) -> tuple[str, ...]:
        topics = Reach(topics=self.viewer.topics).topics
        return tuple(f" {x} " for x in sorted(map(_in_percent, topics)))

    @property
    def scopes(self) -> str:
        """The query for the column ``scope`` of a full-text index."""
        words = (scope_word(self.campaign, x) for x in self.audiences)
        return f"scope : ({' OR '.join(words)})"


def sight_of(
    connection: apsw.Connection, key: CampaignKey, viewer: Viewer
) -> Sight | None:
    """Return which rows a viewer may see; None if there is no such campaign."""
    campaign = known_campaign(connection, key)
    if campaign is None:
        return None
    if viewer.npc is None:
        rows = connection.execute(
            "select id from audience where campaign = ?", (campaign,)
        )
    else:
        rows = connection.execute(
            "select audience from listener where campaign = ? and npc = ?",
            (campaign, plain(viewer.npc)),
        )
    return Sight(campaign, (EVERY_NPC, *(id_ for (id_,) in rows)), viewer)


def _in_percent(topic: str) -> str:
    return quote(topic, safe="", errors="surrogatepass")
