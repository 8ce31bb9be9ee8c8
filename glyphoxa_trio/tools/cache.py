"""The cache of tool results that stay valid for a while. No clock, no tasks.

Times are seconds on any clock that does not run backwards, and are passed in. A write
may outdate a read that is still in flight, so a reader notes the `ResultCache.epoch`
before it starts and passes it to `put`.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Generic, TypeVar

import attrs

V = TypeVar("V")

# The number of drops of groups and tools that are remembered. When the oldest is
# forgotten, everything counts as dropped then: a result may be refused without need,
# but an outdated one is never kept.
_DROPS_REMEMBERED = 256


@attrs.frozen(kw_only=True, cache_hash=True)  # a call looks it up nine times
class CacheKey:
    """The values that must be equal for two calls to have one answer.

    ``arguments`` is canonical JSON (`arguments.canonical`), ``scope`` anything else
    that decides the answer: the grant scope, the NPC of a ``per_npc`` tool.
    """

    tool: str
    arguments: str
    scope: str = ""


@attrs.frozen(kw_only=True)
class CacheStatistics:
    """Counts since the cache was made, and the number of results in it now."""

    hits: int
    misses: int
    evictions: int
    size: int


@attrs.frozen
class _Entry(Generic[V]):
    group: str
    value: V
    expires: float


@attrs.define(eq=False, on_setattr=attrs.setters.NO_OP)
class ResultCache(Generic[V]):
    """A cache of ``capacity`` results; the least recently used is evicted first."""

    capacity: int = attrs.field(default=1024, validator=attrs.validators.ge(1))
    _entries: OrderedDict[CacheKey, _Entry[V]] = attrs.field(
        factory=OrderedDict, init=False
    )
    _epoch: int = attrs.field(default=0, init=False)
    _dropped: OrderedDict[tuple[str, str], int] = attrs.field(
        factory=OrderedDict, init=False
    )
    _forgotten: int = attrs.field(default=0, init=False)
    # No entry expires before this time, so that a full cache need not search.
    _next_expiry: float = attrs.field(default=math.inf, init=False)
    _hits: int = attrs.field(default=0, init=False)
    _misses: int = attrs.field(default=0, init=False)
    _evictions: int = attrs.field(default=0, init=False)

    @property
    def epoch(self) -> int:
        """The number of drops so far. Note it before a read starts."""
        return self._epoch

    def get(self, key: CacheKey, now: float) -> V | None:
        """Return the result, if it is still valid at ``now``; else None, a miss."""
        entry = self._entries.get(key)
        if entry is not None and now < entry.expires:
            self._hits += 1
            self._entries.move_to_end(key)
            return entry.value
        if entry is not None:
            del self._entries[key]
        self._misses += 1
        return None

    def lacks(self, key: CacheKey, now: float) -> bool:
        """Return True, and count a miss, if there is no valid result.

        A valid result is not counted as a hit or as used by this.
        """
        entry = self._entries.get(key)
        good = entry is not None and now < entry.expires
        return not good and self.get(key, now) is None

    def left(self, key: CacheKey, now: float) -> float:
        """Return for how many seconds the result stays valid; 0 if there is none.

        It is not counted as a hit or as used by this.
        """
        entry = self._entries.get(key)
        return 0.0 if entry is None else max(0.0, entry.expires - now)

    def put(
        self,
        key: CacheKey,
        value: V,
        *,
        group: str,
        ttl: float,
        now: float,
        epoch: int,
    ) -> None:
        """Keep ``value`` for ``ttl`` seconds, unless it is outdated already.

        It is outdated if its group or tool was dropped after ``epoch``, the value of
        `epoch` when the read started.
        """
        if ttl <= 0 or epoch < self._last_drop(key, group):
            return
        self._entries[key] = _Entry(group, value, now + ttl)
        self._entries.move_to_end(key)
        self._next_expiry = min(self._next_expiry, now + ttl)
        if len(self._entries) > self.capacity:
            self._make_room(now)

    def drop_group(self, group: str) -> None:
        """Drop the results of a tool group, because one of its tools wrote something.

        Call it when a write ends, however it ended: until then reads may see the state
        from before it.
        """
        self._drop("group", group)
        self._remove([k for k, entry in self._entries.items() if entry.group == group])

    def drop_tool(self, tool: str) -> None:
        """Drop the results of one tool, by canonical key, because it was replaced."""
        self._drop("tool", tool)
        self._remove([key for key in self._entries if key.tool == tool])

    def drop_all(self) -> None:
        """Drop every result, and those on their way, because drops may be missing."""
        self._epoch += 1
        self._dropped.clear()
        self._forgotten = self._epoch
        self._entries.clear()

    def statistics(self) -> CacheStatistics:
        return CacheStatistics(
            hits=self._hits,
            misses=self._misses,
            evictions=self._evictions,
            size=len(self._entries),
        )

    def _last_drop(self, key: CacheKey, group: str) -> int:
        return max(
            self._dropped.get(("group", group), self._forgotten),
            self._dropped.get(("tool", key.tool), self._forgotten),
        )

    def _drop(self, kind: str, name: str) -> None:
        self._epoch += 1
        self._dropped[kind, name] = self._epoch
        self._dropped.move_to_end((kind, name))
        if len(self._dropped) > _DROPS_REMEMBERED:
            _, self._forgotten = self._dropped.popitem(last=False)

    def _make_room(self, now: float) -> None:
        if self._next_expiry <= now:
            entries = self._entries.items()
            expired = [key for key, entry in entries if entry.expires <= now]
            self._remove(expired)
            self._next_expiry = min(
                (entry.expires for entry in self._entries.values()), default=math.inf
            )
            if expired:
                return
        self._entries.popitem(last=False)
        self._evictions += 1

    def _remove(self, keys: list[CacheKey]) -> None:
        for key in keys:
            del self._entries[key]
