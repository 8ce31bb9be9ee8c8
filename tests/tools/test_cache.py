"""`ResultCache` against the dumbest model there is: a list of what was put.

Decision D11, row G20.
"""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from glyphoxa_trio.tools.cache import CacheKey, CacheStatistics, ResultCache

GROUPS = ("dice", "world", "rules")
KEYS = [
    (CacheKey(tool=f"{group}.{tool}", arguments=arguments, scope=scope), group)
    for group in GROUPS
    for tool in ("a", "b")
    for arguments in ("{}", '{"x":1}')
    for scope in ("", "npc")
]
ROLL, TABLE = (
    CacheKey(tool="dice.roll", arguments="{}"),
    CacheKey(tool="dice.table", arguments="{}"),
)


def put(
    cache: ResultCache[str],
    key: CacheKey,
    value: str,
    *,
    ttl: float = 10,
    now: float = 0,
    epoch: int | None = None,
) -> None:
    cache.put(
        key,
        value,
        group=key.tool.split(".")[0],
        ttl=ttl,
        now=now,
        epoch=cache.epoch if epoch is None else epoch,
    )


def test_a_result_is_good_until_its_time_is_up_and_not_at_it() -> None:
    cache = ResultCache[str]()
    put(cache, ROLL, "7", ttl=2.5, now=100)
    assert cache.get(ROLL, 102.25) == "7"
    assert cache.get(ROLL, 102.5) is None
    assert cache.statistics().size == 0


@pytest.mark.parametrize(
    "other",
    [
        CacheKey(tool="dice.table", arguments="{}"),
        CacheKey(tool="dice.roll", arguments='{"sides":6}'),
        CacheKey(tool="dice.roll", arguments="{}", scope="Grimjaw"),
    ],
)
def test_tool_arguments_and_scope_keep_results_apart(other: CacheKey) -> None:
    # "Secret-scoped results never cross agents."
    cache = ResultCache[str]()
    put(cache, ROLL, "7")
    assert cache.get(other, 0) is None


def test_the_least_recently_used_result_leaves_first() -> None:
    cache = ResultCache[str](capacity=2)
    put(cache, ROLL, "7")
    put(cache, TABLE, "orcs")
    cache.get(ROLL, 1)
    put(cache, CacheKey(tool="dice.new", arguments="{}"), "new")
    assert cache.get(ROLL, 1) == "7"
    assert cache.get(TABLE, 1) is None
    assert cache.statistics().evictions == 1


def test_an_expired_result_leaves_before_a_good_one() -> None:
    cache = ResultCache[str](capacity=2)
    put(cache, ROLL, "7", ttl=100)
    put(cache, TABLE, "orcs", ttl=1)
    put(cache, CacheKey(tool="dice.new", arguments="{}"), "new", now=5)
    assert cache.get(ROLL, 5) == "7"
    assert cache.statistics() == CacheStatistics(hits=1, misses=0, evictions=0, size=2)


def test_expired_results_make_room_each_time_and_exactly_when_they_expire() -> None:
    cache = ResultCache[str](capacity=2)
    good, *others = [CacheKey(tool="dice.new", arguments=f"{at}") for at in range(4)]
    put(cache, good, "good", ttl=100)
    put(cache, others[0], "short", ttl=1)
    put(cache, others[1], "short", ttl=2, now=1)  # where the first one was
    put(cache, others[2], "new", now=3)  # where the second one was
    assert cache.get(good, 3) == "good"
    assert cache.statistics().evictions == 0


def test_a_write_drops_the_reads_of_its_own_group_only() -> None:
    cache = ResultCache[str]()
    weather = CacheKey(tool="world.forecast", arguments="{}")
    put(cache, ROLL, "7")
    put(cache, weather, "rain")
    cache.drop_group("dice")
    assert cache.get(ROLL, 0) is None
    assert cache.get(weather, 0) == "rain"


def test_a_read_that_a_write_overtook_is_not_kept() -> None:
    cache = ResultCache[str]()
    started = cache.epoch
    cache.drop_group("dice")
    put(cache, ROLL, "outdated", epoch=started)
    assert cache.get(ROLL, 0) is None
    put(cache, ROLL, "fresh", epoch=cache.epoch)
    assert cache.get(ROLL, 0) == "fresh"


def test_a_write_elsewhere_does_not_outdate_a_read() -> None:
    cache = ResultCache[str]()
    started = cache.epoch
    cache.drop_group("world")
    cache.drop_tool("dice.table")
    put(cache, ROLL, "7", epoch=started)
    assert cache.get(ROLL, 0) == "7"


def test_a_tool_that_is_replaced_loses_its_results_and_those_on_their_way() -> None:
    cache = ResultCache[str]()
    put(cache, ROLL, "7")
    put(cache, TABLE, "orcs")
    started = cache.epoch
    cache.drop_tool("dice.roll")
    put(cache, ROLL, "old", epoch=started)
    assert cache.get(ROLL, 0) is None
    assert cache.get(TABLE, 0) == "orcs"


def test_a_forgotten_drop_still_outdates_and_memory_stays_bounded() -> None:
    cache = ResultCache[str]()
    started = cache.epoch
    cache.drop_group("dice")
    for number in range(10_000):
        cache.drop_group(f"group {number}")
    put(cache, ROLL, "outdated", epoch=started)
    assert cache.get(ROLL, 0) is None
    put(cache, ROLL, "fresh", epoch=cache.epoch)
    assert cache.get(ROLL, 0) == "fresh"
    assert len(cache._dropped) == 256


def test_a_group_that_is_dropped_again_is_not_the_oldest() -> None:
    cache = ResultCache[str]()
    for group in ["busy", *map(str, range(255))]:
        cache.drop_group(group)
    started = cache.epoch
    cache.drop_group("busy")
    cache.drop_group("one more")  # now one has to be forgotten
    put(cache, ROLL, "7", epoch=started)
    assert cache.get(ROLL, 0) == "7"


def test_a_result_without_a_lifetime_is_not_kept() -> None:
    cache = ResultCache[str]()
    put(cache, ROLL, "7", ttl=0)
    assert cache.statistics().size == 0


def test_a_cache_holds_one_result_at_least() -> None:
    with pytest.raises(ValueError, match="capacity"):
        ResultCache[str](capacity=0)


class CacheMachine(RuleBasedStateMachine):
    """The model keeps (key, group, value, expires), least recently used first."""

    @initialize(capacity=st.integers(1, 5))
    def open_cache(self, capacity: int) -> None:
        self.cache = ResultCache[int](capacity=capacity)
        self.model: list[tuple[CacheKey, str, int, float]] = []
        self.reads: list[tuple[CacheKey, str, int, bool]] = []  # outdated: the last
        self.now = 0.0
        self.counts = {"hits": 0, "misses": 0, "evictions": 0}
        self.value = 0

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 5.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(entry=st.sampled_from(KEYS))
    def start_a_read(self, entry: tuple[CacheKey, str]) -> None:
        self.reads.append((*entry, self.cache.epoch, False))

    @rule(data=st.data(), ttl=st.sampled_from([0.0, 0.5, 1.0, 3.0]))
    def finish_a_read(self, data: st.DataObject, ttl: float) -> None:
        if not self.reads:
            return
        index = data.draw(st.integers(0, len(self.reads) - 1))
        key, group, epoch, outdated = self.reads.pop(index)
        self.value += 1
        self.cache.put(key, self.value, group=group, ttl=ttl, now=self.now, epoch=epoch)
        if outdated or ttl == 0:
            return
        self.model = [entry for entry in self.model if entry[0] != key]
        self.model.append((key, group, self.value, self.now + ttl))
        if len(self.model) > self.cache.capacity:
            good = [entry for entry in self.model if entry[3] > self.now]
            if len(good) == len(self.model):
                self.counts["evictions"] += 1
                good = good[1:]
            self.model = good

    @rule(entry=st.sampled_from(KEYS))
    def get(self, entry: tuple[CacheKey, str]) -> None:
        key, _ = entry
        found = [entry for entry in self.model if entry[0] == key]
        self.model = [entry for entry in self.model if entry[0] != key]
        good = [entry for entry in found if entry[3] > self.now]
        self.model += good
        self.counts["hits" if good else "misses"] += 1
        assert self.cache.get(key, self.now) == (good[0][2] if good else None)

    @rule(entry=st.sampled_from(KEYS))
    def look_whether_there_is_one(self, entry: tuple[CacheKey, str]) -> None:
        # A good one is neither counted nor used; an expired one is as good as none.
        key, _ = entry
        good = any(entry[0] == key and entry[3] > self.now for entry in self.model)
        assert self.cache.lacks(key, self.now) is not good
        if not good:
            self.counts["misses"] += 1
            self.model = [entry for entry in self.model if entry[0] != key]

    @rule()
    def drop_all(self) -> None:
        self.cache.drop_all()
        self.model = []
        self.reads = [(key, its, epoch, True) for key, its, epoch, _ in self.reads]

    @rule(group=st.sampled_from(GROUPS))
    def drop_a_group(self, group: str) -> None:
        self.cache.drop_group(group)
        self.model = [entry for entry in self.model if entry[1] != group]
        self.reads = [
            (key, its, epoch, outdated or its == group)
            for key, its, epoch, outdated in self.reads
        ]

    @rule(entry=st.sampled_from(KEYS))
    def drop_a_tool(self, entry: tuple[CacheKey, str]) -> None:
        tool = entry[0].tool
        self.cache.drop_tool(tool)
        self.model = [entry for entry in self.model if entry[0].tool != tool]
        self.reads = [
            (key, group, epoch, outdated or key.tool == tool)
            for key, group, epoch, outdated in self.reads
        ]

    @invariant()
    def statistics_tell_what_happened(self) -> None:
        statistics = self.cache.statistics()
        assert statistics == CacheStatistics(**self.counts, size=len(self.model))
        assert statistics.size <= self.cache.capacity


TestResultCache = CacheMachine.TestCase
