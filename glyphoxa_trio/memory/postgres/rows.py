"""The parts that several tables have in common: campaigns, reaches, words, texts."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Final

import attrs
import psycopg

from glyphoxa_trio.memory.entries import fit as fit
from glyphoxa_trio.memory.visibility import CampaignKey, Reach, Viewer
from glyphoxa_trio.memory.words import words_of

Connection = psycopg.Connection[Any]
_MOST_WORDS: Final = 10_000  # of one text in an index
_MOST_WORD: Final = 200  # characters

# The columns of a reach, and the join that they need; `x` is the table.
REACH: Final = "audience.members, x.topics, x.secret"
AUDIENCE: Final = "join audience on audience.id = x.audience"


def index_words(*texts: str) -> list[str]:
    """Return the different words of some texts, as an index has them."""
    found: dict[str, None] = {}
    for text in texts:
        if text:
            found.update(dict.fromkeys(x[:_MOST_WORD] for x in words_of(fit(text))))
    return list(found)[:_MOST_WORDS]


def query_of(words: Iterable[str], operator: str) -> str:
    """Return a ``tsquery`` of words, which are letters and digits."""
    return f" {operator} ".join(f"'{word[:_MOST_WORD]}'" for word in words)


def seen_by(viewer: Viewer, table: str = "x") -> str:
    """Return the condition that a viewer may know a row of a table.

    Its parameters are those of `viewing`.
    """
    if viewer.npc is None:
        return "true"
    return f"""(
        ({table}.audience = 0 and not {table}.secret or {table}.audience in (
            select audience from listener
            where listener.campaign = %(campaign)s and listener.npc = %(npc)s
        ))
        and ({table}.topics = '{{}}' or {table}.topics && %(topics)s)
    )"""


def viewing(campaign: int, viewer: Viewer) -> dict[str, Any]:
    """Return the parameters of a query for a viewer."""
    return {
        "campaign": campaign,
        "npc": fit(viewer.npc or ""),
        "topics": sorted(fit(x) for x in Reach(topics=viewer.topics).topics),
    }


def campaign_id(connection: Connection, campaign: CampaignKey) -> int:
    """Return the number of a campaign; 0 if it is not known."""
    row = connection.execute(
        "select id from campaign where tenant = %s and name = %s",
        (fit(campaign.tenant), fit(campaign.campaign)),
    ).fetchone()
    return row[0] if row else 0


def made_campaign(connection: Connection, campaign: CampaignKey) -> int:
    """Return the number of a campaign, which is added if it is not known."""
    if known := campaign_id(connection, campaign):
        return known
    connection.execute(
        "insert into campaign (tenant, name) values (%s, %s) on conflict do nothing",
        (fit(campaign.tenant), fit(campaign.campaign)),
    )
    return campaign_id(connection, campaign)


@attrs.frozen
class Known:
    """A reach as the columns ``audience, topics, secret`` have it."""

    audience: int
    topics: list[str]
    secret: bool


def known(connection: Connection, campaign: int, reach: Reach) -> Known:
    """Return the columns of a reach, whose audience is added if it is not known."""
    topics = sorted(fit(x) for x in reach.topics)
    if reach.npcs is None:
        return Known(0, topics, reach.secret)
    members = sorted(fit(x) for x in reach.npcs)
    return Known(_audience(connection, campaign, members), topics, reach.secret)


def _audience(connection: Connection, campaign: int, members: list[str]) -> int:
    digest = blake2b("\0".join(members).encode(), digest_size=16).digest()
    find = "select id from audience where campaign = %s and digest = %s"
    if row := connection.execute(find, (campaign, digest)).fetchone():
        return int(row[0])
    made = connection.execute(
        "insert into audience (campaign, members, digest) values (%s, %s::text[], %s)"
        " on conflict do nothing returning id",
        (campaign, members, digest),
    ).fetchone()
    if made is None:  # another did, and has committed
        made = connection.execute(find, (campaign, digest)).fetchone()
        assert made is not None
        return int(made[0])
    connection.execute(
        "insert into listener (campaign, npc, audience)"
        " select %s, unnest(%s::text[]), %s",
        (campaign, members, made[0]),
    )
    return int(made[0])


def reach_of(members: list[str] | None, topics: list[str], secret: bool) -> Reach:
    """Return the reach of the columns `REACH`."""
    npcs = None if members is None else frozenset(members)
    return Reach(npcs, frozenset(topics), secret)
