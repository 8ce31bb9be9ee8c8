"""The ids of items by the words that files have for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from glyphoxa_trio.memory.knowledge import Entity
from glyphoxa_trio.memory.words import words_of
from glyphoxa_trio.tools.naming import nearest


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
