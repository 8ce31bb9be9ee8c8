"""A campaign file of ours: entities, relationships by name, and facts.

    campaign: Saltmarsh              # where it belongs, if the command does not say
    entities:
      - name: Greymantle the Sage
        kind: npc                    # npc, player, location, item, faction, event,
        aliases: [Greymantle]        # quest, lore (unless given) or concept
        summary: Keeps the library of the Black Tower.
        attributes: {race: human, age: 71}
        facts:
          - He fears fire.
          - text: He was a lich once.
            secret: true             # until the game master reveals it
            known_to: [Mirela]       # but this NPC knows
          - text: He owes Bartok a boat.
            pinned: true             # in every turn of an NPC that may know it
            keywords: [debt, ship]   # other words by which it is found
      - name: Black Tower
        kind: location
        topics: [arcana]             # only NPCs that know about one of these topics
    relationships:
      - {from: Greymantle, type: lives_in, to: Black Tower}
    facts:
      - text: The tower burnt down in the year 12.
        about: [Black Tower]

``known_to``, ``topics`` and ``secret`` may stand at each entity, relationship and fact.
A fact below an entity is known to an NPC that may know both; one that says nothing of
its own, to an NPC that may know everything that it is about. A name may be one of the
campaign that is there already. ``id`` may be given; else it is made of the name. An
entity of the same id is replaced. Nothing is expanded: ``${X}`` is plain text.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any, Final

import attrs

from glyphoxa_trio.config import ConfigError
from glyphoxa_trio.config.fields import Text
from glyphoxa_trio.config.formats import read_text
from glyphoxa_trio.config.load import read_as
from glyphoxa_trio.config.reader import ConfigReader
from glyphoxa_trio.config.scalars import Scalars
from glyphoxa_trio.memory.errors import KnowledgeRefused
from glyphoxa_trio.memory.knowledge import MOST_NAME, EntityKind, slug
from glyphoxa_trio.memory.visibility import EVERYONE, Reach
from glyphoxa_trio.memory.words import words_of

from .data import ImportRefused
from .drafts import Drafts

_KEYS: Final = frozenset(("campaign", "entities", "relationships", "facts"))


@attrs.frozen(kw_only=True)
class _KnownTo:
    known_to: tuple[Text, ...] | None = None
    topics: tuple[Text, ...] = ()
    secret: bool = False

    @property
    def reach(self) -> Reach:
        npcs = None if self.known_to is None else frozenset(self.known_to)
        return Reach(npcs, frozenset(self.topics), self.secret)


@attrs.frozen(kw_only=True)
class _FactEntry(_KnownTo):
    text: Text
    about: tuple[Text, ...] = ()
    pinned: bool = False
    keywords: tuple[Text, ...] = ()


@attrs.frozen(kw_only=True)
class _EntityEntry(_KnownTo):
    name: Text
    kind: EntityKind = EntityKind.LORE
    id: Text | None = None
    aliases: tuple[Text, ...] = ()
    summary: str = ""
    attributes: Mapping[str, Any] = attrs.field(factory=dict)
    facts: tuple[_FactEntry, ...] = ()


@attrs.frozen(kw_only=True)
class _RelationshipEntry(_KnownTo):
    source: Text
    type: Text
    target: Text
    attributes: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class _CampaignFile:
    campaign: Text | None = None
    entities: tuple[_EntityEntry, ...] = ()
    relationships: tuple[_RelationshipEntry, ...] = ()
    facts: tuple[_FactEntry, ...] = ()


class _PlainScalars(Scalars):
    """Reads texts as they stand: a world is no place for secrets of this machine."""

    def text(self, value: Any, kind: Any) -> Any:
        if type(value) is str:
            value = value.replace("${", "$${")
        return super().text(value, kind)


def is_campaign(data: Any) -> bool:
    """Return True if it looks like a campaign file."""
    return isinstance(data, Mapping) and not _KEYS.isdisjoint(data)


def read(text: str, source: PurePath, drafts: Drafts) -> None:
    """Add the campaign in a text to the drafts.

    Raises:
      ConfigError: with every problem, each with its place.
      ImportRefused: two entities have one name.
    """
    data, repeated = read_text(text, source=source)
    if data is None:
        raise ConfigError(*repeated, f"the file is empty @ {source.name}")
    if repeated:
        raise ConfigError(*repeated)
    scalars = _PlainScalars({}, Path(source).parent)
    reader = ConfigReader(scalars)
    plain = _written_out(data)
    try:
        file = read_as(reader, plain, _CampaignFile, source, text)
    except ConfigError as error:
        said = (
            x.replace("].source", "].from").replace("].target", "].to")
            for x in map(_as_written, error.problems)
        )
        raise ConfigError(*said) from None
    _take(file, drafts)


def _as_written(problem: str) -> str:
    for ours, theirs in {"source": "from", "target": "to"}.items():
        if problem.startswith(f"{ours} is missing"):
            return theirs + problem.removeprefix(ours)
    return problem


def _written_out(data: Any) -> Any:
    """Return the data with each short form written out; wrong data stays as it is."""
    if not isinstance(data, Mapping):
        return data
    whole = dict(data)
    for entry in (entities := list(_entries(whole.get("entities")))):
        if "facts" in entry:
            entry["facts"] = _facts(entry["facts"])
    if isinstance(whole.get("entities"), list) and entities:
        whole["entities"] = _in_place(whole["entities"], entities)
    if "facts" in whole:
        whole["facts"] = _facts(whole["facts"])
    renamed = {"from": "source", "to": "target"}
    edges = [
        {renamed.get(key, key): value for key, value in entry.items()}
        for entry in _entries(whole.get("relationships"))
    ]
    if isinstance(whole.get("relationships"), list) and edges:
        whole["relationships"] = _in_place(whole["relationships"], edges)
    return whole


def _entries(given: Any) -> list[dict[Any, Any]]:
    is_list = isinstance(given, list)
    return [dict(x) for x in given if isinstance(x, Mapping)] if is_list else []


def _in_place(given: list[Any], made: list[dict[Any, Any]]) -> list[Any]:
    rest = iter(made)
    return [next(rest) if isinstance(x, Mapping) else x for x in given]


def _facts(given: Any) -> Any:
    if not isinstance(given, list):
        return given
    return [{"text": x} if isinstance(x, str) else x for x in given]


def _take(file: _CampaignFile, drafts: Drafts) -> None:
    if file.campaign is not None:
        drafts.of_campaign(file.campaign)
    names: dict[tuple[str, ...], str] = {}
    for at, entry in enumerate(file.entities):
        where = f".entities[{at}]"
        for name in (entry.name, *entry.aliases):
            other = names.setdefault(tuple(words_of(name)), entry.name)
            if other != entry.name or (name == entry.name and at and _twice(file, at)):
                raise ImportRefused(
                    f"the name {name!r} is taken @ {drafts.by}{where}.name"
                )
        own = slug(entry.id or entry.name)[:MOST_NAME]
        if not own:
            raise ImportRefused(f"no id can be made of it @ {drafts.by}{where}.name")
        try:
            drafts.entity(
                entry.name,
                entry.kind,
                entry.name,
                own=own,
                aliases=entry.aliases,
                summary=entry.summary,
                attributes=entry.attributes,
                reach=entry.reach,
                where=where,
            )
        except KnowledgeRefused as error:
            raise ImportRefused(f"{error} @ {drafts.by}{where}") from None
        for number, fact in enumerate(entry.facts):
            drafts.fact(
                fact.text,
                [entry.name, *fact.about],
                reach=fact.reach,
                within=entry.reach,
                inherits=fact.reach == EVERYONE,
                where=f"{where}.facts[{number}]",
                pinned=fact.pinned,
                keywords=fact.keywords,
            )
    for at, edge in enumerate(file.relationships):
        drafts.link(
            edge.source,
            edge.type,
            edge.target,
            attributes=edge.attributes,
            reach=edge.reach,
            where=f".relationships[{at}]",
            strict=True,
        )
    for at, fact in enumerate(file.facts):
        drafts.fact(
            fact.text,
            fact.about,
            reach=fact.reach,
            inherits=fact.reach == EVERYONE,
            where=f".facts[{at}]",
            pinned=fact.pinned,
            keywords=fact.keywords,
        )


def _twice(file: _CampaignFile, at: int) -> bool:
    return any(x.name == file.entities[at].name for x in file.entities[:at])
