"""World data on its way into the graph: items under the keys of their own files.

A file names its items in its own way: Foundry by an id, a campaign file by a name.
Readers add what they find here, under such keys; links may name items of other files.
`Drafts.imported` gives each item its id in the graph and resolves the links.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from glyphoxa_trio.memory.errors import KnowledgeRefused
from glyphoxa_trio.memory.knowledge import (
    MOST_NAME,
    Entity,
    EntityKind,
    Fact,
    Provenance,
    Relationship,
    slug,
)
from glyphoxa_trio.memory.visibility import EVERYONE, Reach, common
from glyphoxa_trio.memory.words import folded
from glyphoxa_trio.tools.characters import harmless

from .data import MOST_ENTITIES, MOST_FACTS, Imported, ImportRefused, Skipped
from .names import EntityNames, NpcNames, as_before
from .prose import beginning, pieces


@attrs.frozen(kw_only=True)
class _Draft:
    """``own`` is the id that the file itself states; "" if it states none."""

    key: str
    entity: Entity  # its id is preliminary
    own: str = ""


@attrs.frozen(kw_only=True)
class _LinkDraft:
    """``strict``: one whose target does not exist is an error."""

    source: str
    type: str
    target: str
    label: str
    attributes: Mapping[str, Any]
    reach: Reach
    by: str
    where: str
    strict: bool


@attrs.frozen(kw_only=True)
class _FactDraft:
    """``reaches``: it is known to the NPCs of all of them. ``inherits``: known to no
    NPC that may not know all that it is about."""

    text: str
    about: Sequence[str]
    reaches: Sequence[Reach]
    inherits: bool
    by: str
    where: str
    pinned: bool
    keywords: tuple[str, ...]


@attrs.define(eq=False)
class Drafts:
    """Collects the items of one import, which may have several files.

    ``by`` is the name of the file that is read now. ``open``: nothing becomes a secret,
    whatever the files say. ``same``: configured NPCs by the names that files have for
    them.
    """

    open: bool = False
    same: Mapping[str, str] = attrs.field(factory=dict)
    by: str = attrs.field(default="", init=False)
    campaign: str = attrs.field(default="", init=False)
    _items: dict[str, _Draft] = attrs.field(factory=dict, init=False)
    _also: dict[str, str] = attrs.field(factory=dict, init=False)
    _links: list[_LinkDraft] = attrs.field(factory=list, init=False)
    _sayings: list[_FactDraft] = attrs.field(factory=list, init=False)
    _skipped: dict[Skipped, None] = attrs.field(factory=dict, init=False)

    def begin(self, by: str) -> None:
        """Begin to read a file of that name."""
        self.by = harmless(by)[:MOST_NAME]

    def of_campaign(self, name: str) -> None:
        """Note the campaign that a file states; the first one counts."""
        self.campaign = self.campaign or harmless(name).strip()[:MOST_NAME]

    def skip(self, where: str, why: str) -> None:
        """Note an item that is not imported, or not wholly."""
        place = " ".join(harmless(where).split())[:MOST_NAME]
        self._skipped[Skipped(f"{self.by}: {place}" if self.by else place, why)] = None

    def entity(
        self,
        key: str,
        kind: EntityKind,
        name: str,
        *,
        own: str = "",
        aliases: Iterable[str] = (),
        summary: str = "",
        attributes: Mapping[str, Any] | None = None,
        reach: Reach = EVERYONE,
        where: str = "",
    ) -> bool:
        """Add an entity under its key; False if it has no name that can be used."""
        plain = " ".join(harmless(name).split())
        if not plain or not slug(plain):
            self.skip(where or key, "it has no name")
            return False
        if len(plain) > MOST_NAME:
            plain = plain[:MOST_NAME].rstrip()
            self.skip(where or key, f"its name is cut to {MOST_NAME} characters")
        if key in self._items:
            self.skip(where or key, "it is there twice; the last one counts")
        elif len(self._items) == MOST_ENTITIES:
            raise ImportRefused(f"{self.by}: there are more than {MOST_ENTITIES} items")
        same = [x for y, x in self.same.items() if folded(y) == folded(plain)]
        other = dict.fromkeys(
            " ".join(harmless(x).split())[:MOST_NAME] for x in (*aliases, *same)
        )
        self._items[key] = _Draft(
            key=key,
            own=own,
            entity=Entity(
                id=slug(plain),
                kind=kind,
                name=plain,
                aliases=tuple(x for x in other if x and x != plain),
                summary=beginning(harmless(summary)),
                attributes=dict(attributes or {}),
                reach=self._as_open(reach),
                provenance=self._provenance(),
            ),
        )
        return True

    def also(self, key: str, other: str) -> None:
        """Let links name an item by another key as well."""
        self._also[key] = other

    def link(
        self,
        source: str,
        type_: str,
        target: str,
        *,
        label: str = "",
        attributes: Mapping[str, Any] | None = None,
        reach: Reach = EVERYONE,
        where: str = "",
        strict: bool = False,
    ) -> None:
        """Add a relationship between two items, by their keys.

        Args:
          label: the words of the link, which may be the name of an entity that an
            earlier import has brought.
          strict: a target that does not exist refuses the import.
        """
        self._links.append(
            _LinkDraft(
                source=source,
                type=type_,
                target=target,
                label=label,
                attributes=attributes or {},
                reach=self._as_open(reach),
                by=self.by,
                where=where,
                strict=strict,
            )
        )

    def fact(
        self,
        text: str,
        about: Sequence[str],
        *,
        reach: Reach,
        within: Reach = EVERYONE,
        inherits: bool = False,
        where: str = "",
        pinned: bool = False,
        keywords: Iterable[str] = (),
    ) -> None:
        """Add a text about items, as one fact or, if it is long, as several.

        Args:
          within: the NPCs that know what it stands below; no other NPC knows it.
          inherits: no NPC knows it that may not know everything that it is about.
        """
        for piece in pieces(harmless(text)):
            if len(self._sayings) == MOST_FACTS:
                raise ImportRefused(
                    f"{self.by}: there are more than {MOST_FACTS} facts"
                )
            self._sayings.append(
                _FactDraft(
                    text=piece,
                    about=about,
                    reaches=(within, reach),
                    inherits=inherits,
                    by=self.by,
                    where=where,
                    pinned=pinned,
                    keywords=tuple(keywords),
                )
            )

    def imported(
        self, existing: Sequence[Entity] = (), npcs: Sequence[str] = ()
    ) -> Imported:
        """Return everything with the ids of the graph.

        An id is the slug of the name. An item replaces an entity of the same id and
        kind that exists already; if that is taken by another kind, or by another item,
        it gets the next free number, as in "guard-2".

        Args:
          existing: the entities of the campaign.
          npcs: the names of the configured NPCs.

        Raises:
          ImportRefused: a file of ours names something that does not exist.
        """
        kinds = {x.id: x.kind for x in existing}
        ids: dict[str, str] = {}
        taken: dict[str, str] = {}
        for item in self._items.values():
            if item.own:
                if item.own in taken:
                    raise ImportRefused(f"two entries have the id {item.own!r}")
                ids[item.key], taken[item.own] = item.own, item.key
        for item in self._items.values():
            if item.own:
                continue
            base = slug(item.entity.name)
            chosen, number = base, 1
            while chosen in taken or kinds.get(chosen, item.entity.kind) is not (
                item.entity.kind
            ):
                number += 1
                chosen = f"{base[: MOST_NAME - 8]}-{number}"
            ids[item.key], taken[chosen] = chosen, item.key
        new = [x.entity for x in self._items.values()]
        names = EntityNames(ids, self._also, existing, new)
        before = {x.id: x for x in existing}
        entities = [
            as_before(
                attrs.evolve(item.entity, id=ids[key]), before.get(ids[key]), npcs
            )
            for key, item in self._items.items()
        ]
        edges = self._edges(names)
        every = before | {x.id: x for x in entities}
        cast = NpcNames(npcs, every.values())
        facts = self._facts(names, {id_: x.reach for id_, x in every.items()}, cast)
        return Imported(
            entities=tuple(map(cast.of, entities)),
            relationships=tuple(map(cast.of, edges.values())),
            facts=tuple(map(cast.of, facts)),
            skipped=tuple(self._skipped),
            notes=(*self._not_there(), *cast.unknown(), *cast.alike(entities)),
            campaign=self.campaign,
        )

    def _not_there(self) -> Iterable[str]:
        there = {folded(x.entity.name) for x in self._items.values()}
        missing = [x for x in self.same if folded(x) not in there]
        return [f"--same: no item here is called {x!r}" for x in missing]

    def _edges(self, names: EntityNames) -> dict[tuple[str, str, str], Relationship]:
        edges: dict[tuple[str, str, str], Relationship] = {}
        for one in self._links:
            source = self._end(names, one, one.source, "")
            target = self._end(names, one, one.target, one.label)
            if source is None or target is None or source == target:
                continue
            edge = source, one.type, target
            if edge in edges and not edges[edge].reach.secret:
                continue  # the openly known one counts
            try:
                edges[edge] = Relationship(
                    source=source,
                    type=one.type,
                    target=target,
                    attributes=one.attributes,
                    reach=one.reach,
                    provenance=self._provenance(one.by),
                )
            except KnowledgeRefused as error:
                raise ImportRefused(f"{error} @ {one.by}{one.where}") from None
        return edges

    def _end(
        self, names: EntityNames, link: _LinkDraft, key: str, label: str
    ) -> str | None:
        found = names.find(key, label)
        if found is None and link.strict:
            raise ImportRefused(f"{names.missing(key)} @ {link.by}{link.where}")
        if found is None:
            self.begin(link.by)
            self.skip(link.where, f"its link to {label or key!r} leads to nothing here")
        return found

    def _facts(
        self, names: EntityNames, reaches: Mapping[str, Reach], cast: NpcNames
    ) -> Iterable[Fact]:
        facts: dict[tuple[str, Reach], Fact] = {}
        for one in self._sayings:
            about: list[str] = []
            for key in one.about:
                found = names.find(key, "")
                if found is None:
                    raise ImportRefused(f"{names.missing(key)} @ {one.by}{one.where}")
                about.append(found)
            of_about = (reaches[x] for x in about) if one.inherits else ()
            # An NPC may be called otherwise in each.
            every = [cast.reach(x) for x in (*one.reaches, *of_about)]
            reach = self._as_open(common(every))
            same = facts.get((one.text, reach))
            both = dict.fromkeys([*(same.about if same else ()), *about])
            words = dict.fromkeys([*(same.keywords if same else ()), *one.keywords])
            facts[one.text, reach] = Fact(
                text=one.text,
                about=tuple(both),
                reach=reach,
                provenance=same.provenance if same else self._provenance(one.by),
                pinned=one.pinned or (same is not None and same.pinned),
                keywords=tuple(words),
            )
        return facts.values()

    def _as_open(self, reach: Reach) -> Reach:
        return Reach(topics=reach.topics) if self.open and reach.secret else reach

    def _provenance(self, by: str | None = None) -> Provenance:
        return Provenance(by=self.by if by is None else by, confirmed=True)
