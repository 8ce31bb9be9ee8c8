"""The ids of items by the words that files have for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import attrs

from glyphoxa_trio.memory.knowledge import Entity, EntityKind, Fact, Relationship
from glyphoxa_trio.memory.visibility import Reach
from glyphoxa_trio.memory.words import folded, words_of
from glyphoxa_trio.tools.naming import nearest

_PEOPLE: Final = (EntityKind.NPC, EntityKind.PLAYER)
_Known = TypeVar("_Known", bound=Entity | Relationship | Fact)


class EntityNames:
    """Finds the id of an item by its key, its name or an alias."""

    def __init__(
        self,
        ids: Mapping[str, str],
        also: Mapping[str, str],
        existing: Iterable[Entity],
        new: Iterable[Entity],
    ) -> None:
        self._ids = {key: ids[x] for key, x in also.items() if x in ids} | dict(ids)
        self._known: dict[tuple[str, ...], str] = {}
        self._names: list[str] = []
        for one in existing:
            for name in (one.id, *one.aliases, one.name):
                self._known[tuple(words_of(name))] = one.id
                self._names.append(name)
        for key, one in zip(ids, new, strict=True):
            for name in (*one.aliases, one.name):
                self._known[tuple(words_of(name))] = ids[key]
                self._names.append(name)

    def find(self, key: str, label: str) -> str | None:
        return self._ids.get(key) or self._known.get(tuple(words_of(label or key)))

    def missing(self, key: str) -> str:
        near = nearest(key, set(self._names), n=2)
        hint = f", did you mean {' or '.join(near)}?" if near else ""
        return f"there is no entity {key!r}{hint}"


def as_before(new: Entity, before: Entity | None, npcs: Iterable[str]) -> Entity:
    """Return an entity with the names of NPCs that the one it replaces was given."""
    kept = [x for x in before.aliases if x in npcs] if before else []
    aliases = dict.fromkeys(x for x in (*new.aliases, *kept) if x != new.name)
    return attrs.evolve(new, aliases=tuple(aliases))


class NpcNames:
    """The names of NPCs in ``known_to``.

    An NPC is a configured one, or an entity of that kind. A configured NPC may be
    called as an entity is that has its name, too.

    Args:
      npcs: the names of the configured NPCs.
      entities: all entities of the campaign.
    """

    def __init__(self, npcs: Sequence[str], entities: Iterable[Entity]) -> None:
        self._npcs = {folded(x): x for x in npcs}
        self._theirs: dict[str, str] = {}
        self._known = dict(self._npcs)
        self._unknown: dict[str, None] = {}
        for one in entities:
            names = [folded(x) for x in (one.name, *one.aliases)]
            configured = next((x for x in names if x in self._npcs), None)
            if configured is not None:
                self._theirs |= dict.fromkeys(names, self._npcs[configured])
            if one.kind is EntityKind.NPC or configured is not None:
                for name, each in zip(names, (one.name, *one.aliases), strict=True):
                    self._known.setdefault(name, each)
        self._missing = {x: y for x, y in self._npcs.items() if x not in self._theirs}
        self._theirs |= self._npcs

    def of(self, item: _Known) -> _Known:
        """Return an item with the configured names of the NPCs that may know it."""
        return attrs.evolve(item, reach=self.reach(item.reach))

    def reach(self, reach: Reach) -> Reach:
        """Return a reach with the configured names of its NPCs."""
        if reach.npcs is None:
            return reach
        names = {x: folded(x) for x in reach.npcs}
        self._unknown |= dict.fromkeys(
            x for x in sorted(names) if names[x] not in self._known
        )
        npcs = frozenset(self._theirs.get(y, x) for x, y in names.items())
        return attrs.evolve(reach, npcs=npcs)

    def unknown(self) -> Iterator[str]:
        """Yield a sentence about each name that no NPC of these items has."""
        for name in self._unknown:
            near = nearest(folded(name), self._known, n=2)
            hint = " or ".join(self._known[x] for x in near)
            yield (
                f"known_to: no NPC is called {name!r}, so that none knows it under that"
                f" name{f'; did you mean {hint}?' if hint else ''}"
            )

    def alike(self, entities: Iterable[Entity]) -> Iterator[str]:
        """Yield a sentence about each person who may be a configured NPC."""
        for one in entities:
            names = [set(words_of(x)) for x in (one.name, *one.aliases)]
            if one.kind not in _PEOPLE:
                continue
            for words, npc in self._missing.items():
                whole = set(words.split())
                if any(x and (whole <= x or x <= whole) for x in names):
                    yield (
                        f"{one.name!r} may be the NPC {npc!r}: if so, import it with"
                        f" --same {f'{one.name}={npc}'!r}"
                    )
