"""The writer of the journal: a line for each session, retries, and what `flush` waits
for, over a store that is slow, fails, or fails to answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio import open_runtime
from glyphoxa_trio.memory.entries import Claim, Entry, EntryKind
from glyphoxa_trio.memory.errors import MemoryUnavailable
from glyphoxa_trio.memory.in_memory import InMemory
from glyphoxa_trio.memory.visibility import CampaignKey
from glyphoxa_trio.npc.identity import SessionKey
from glyphoxa_trio.runtime.journal_writer import JournalJob, JournalWriter
from glyphoxa_trio.runtime.kept_table import KeptTable
from glyphoxa_trio.tools.decorate import tool
from glyphoxa_trio.tools.outcome import Status

from ..npc.support import ScriptedLLM
from .test_claims import outcomes, say
from .test_one_owner import journal
from .test_snapshots import play, with_room
from .test_turn_keeper import run, silent


@attrs.define(eq=False)
class Faulty:
    """A store whose appends do what ``before`` and ``after`` do, with the session."""

    memory: InMemory = attrs.field(factory=InMemory)
    before: Callable[[str], Any] | None = None
    after: Callable[[str], Any] | None = None
    seconds: dict[str, float] = attrs.field(factory=dict)
    running: Counter[str] = attrs.field(factory=Counter)
    most: int = 0  # appends that ran at once

    def __getattr__(self, name: str) -> Any:
        of_journal = name in ("claim", "load", "release")
        return getattr(self.memory.journal if of_journal else self.memory, name)

    @property
    def journal(self) -> Any:
        return self

    async def append(self, claim: Claim, entries: Sequence[Entry]) -> int:
        session = claim.session
        self.running[session] += 1
        assert self.running[session] == 1, "two at once would not be in order"
        self.most = max(self.most, self.running.total())
        try:
            if self.before is not None:
                self.before(session)
            await trio.sleep(self.seconds.get(session, 0.0))
            last = await self.memory.journal.append(claim, entries)
            if self.after is not None:
                self.after(session)
            return last
        finally:
            self.running[session] -= 1

    def numbers(self, name: str) -> list[int]:
        """Return the numbers of the jobs that were written."""
        row = self.memory.journal.rows.sessions["", name]
        return [x.entry.turn for x in row.entries]


@attrs.define(eq=False)
class Desk:
    """A writer, and the ends of the jobs that it was given, by session."""

    store: Faulty
    warnings: list[str] = attrs.field(factory=list)
    tables: dict[str, KeptTable] = attrs.field(factory=dict)
    ends: dict[str, list[tuple[int, str | None]]] = attrs.field(factory=dict)
    writer: JournalWriter = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.writer = JournalWriter(cast(Any, self.store), self.warnings.append)

    async def table(self, name: str) -> KeptTable:
        if (table := self.tables.get(name)) is None:
            campaign = CampaignKey(name)
            table = self.tables[name] = KeptTable(SessionKey(name), campaign)
            claim = await self.store.memory.journal.claim("", name, campaign)
            table.claimed(claim)
            self.ends[name] = []
        return table

    async def put(self, name: str, number: int) -> None:
        def done(error: str | None) -> None:
            self.ends[name].append((number, error))

        entry = Entry(kind=EntryKind.TURN, at=1.0, npc="Bo", turn=number)
        table = await self.table(name)
        self.writer.put(JournalJob(table, lambda: [entry], done))

    def kept(self, name: str) -> list[int]:
        return [number for number, error in self.ends[name] if error is None]


@asynccontextmanager
async def writing(store: Faulty) -> AsyncGenerator[Desk]:
    desk = Desk(store)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(desk.writer.run)
        yield desk
        nursery.cancel_scope.cancel()


async def test_a_session_that_is_blocked_holds_up_no_other(
    autojump_clock: MockClock,
) -> None:
    blocked = [f"blocked {x}" for x in range(100)]
    store = Faulty(seconds=dict.fromkeys(blocked, 1000.0))
    async with writing(store) as desk:
        for name in blocked:
            await desk.put(name, 1)
        await trio.sleep(1)
        for number in range(5):
            for other in range(200):
                await desk.put(f"{other}", number)
            await trio.sleep(0.03)
            assert all(desk.kept(f"{x}")[-1] == number for x in range(200))
        for name in blocked:
            assert desk.kept(name) == []
            await desk.put(name, 2)
        await trio.sleep(2000)
        for name in blocked:
            assert desk.kept(name) == store.numbers(name) == [1, 2]
        assert desk.writer.waiting == 0


async def test_all_are_written_though_more_are_slow_than_may_be_written_at_once(
    autojump_clock: MockClock,
) -> None:
    names = [f"{x}" for x in range(900)]
    store = Faulty(seconds=dict.fromkeys(names, 1.0))
    async with writing(store) as desk:
        for name in names:
            await desk.put(name, 1)
        await desk.writer.flush()
        assert store.most == 512
        assert trio.current_time() == pytest.approx(2.02)
        assert all(desk.kept(x) == [1] for x in names)


async def test_one_that_fails_is_tried_again_by_itself_and_told_once(
    autojump_clock: MockClock,
) -> None:
    tries = Counter[str]()

    def locked(session: str) -> None:
        tries[session] += 1
        if session == "locked" and trio.current_time() < 100:
            raise MemoryUnavailable("the row is locked")

    async with writing(Faulty(before=locked)) as desk:
        await desk.put("locked", 1)
        for number in range(100):
            await desk.put("other", number)
            await desk.put("locked", 2 + number)
            await trio.sleep(1)
            assert desk.kept("other")[-1] == number
        assert 20 <= tries["locked"] <= 30
        await trio.sleep(5)
        assert desk.kept("locked") == list(range(1, 102))
        (begins, ends) = desk.warnings
        assert begins == "memory: locked cannot be written now: the row is locked"
        assert ends == "memory can be written again"


async def test_flush_waits_for_what_was_there_and_for_nothing_else(
    autojump_clock: MockClock,
) -> None:
    store = Faulty(seconds={"slow": 1.0, "slower": 3.0})
    async with writing(store) as desk:
        await desk.writer.flush()
        assert trio.current_time() == 0
        await desk.put("slow", 0)
        await trio.sleep(0.5)

        async def never_stops() -> None:
            for number in range(1, 10_000):
                for name in ("slow", "slower", "quick"):
                    await desk.put(name, number)
                await trio.sleep(0.3)

        async with trio.open_nursery() as nursery:
            await desk.put("slow", 1)
            nursery.start_soon(never_stops)
            await desk.writer.flush()
            assert desk.kept("slow")[:2] == [0, 1]
            # The rest of one append, and another one.
            assert trio.current_time() == pytest.approx(2.04, abs=0.03)
            nursery.cancel_scope.cancel()


async def test_a_call_is_refused_only_where_its_own_session_cannot_be_written(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    @tool(read_only=False)
    async def write() -> str:
        """Write it down."""
        return "written"

    async with run(InMemory(), ScriptedLLM(play), own=[write]) as runtime:
        table, other = runtime.session("table"), runtime.session("other")
        await table.claim()
        await other.claim()
        append = journal(runtime).journal.append

        async def locked(self: Any, claim: Claim, entries: Sequence[Entry]) -> int:
            if claim.session == "table":
                raise MemoryUnavailable("the row is locked")
            return int(await append(claim, entries))

        monkeypatch.setattr(type(journal(runtime).journal), "append", locked)
        for _ in range(3):
            said = await outcomes(table, "write it")
            assert said == [("custom.write", Status.UNAVAILABLE)]
            said = await outcomes(other, "write it")
            assert said == [("custom.write", Status.OK)]
        monkeypatch.undo()
        await trio.sleep(6)
        assert await outcomes(table, "write it") == [("custom.write", Status.OK)]


# Any order of jobs and faults. The model: each session's jobs in the order in which
# they came, less those that were told to be lost.

NAMES = ("a", "b", "c")
FAULTS = ("", "", "away", "away after", "bug", "bug after")
STEPS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from([0.0, 0.0, 0.01, 0.3])),
    max_size=20,
)


def fail(fault: str) -> None:
    if fault.startswith("away"):
        raise MemoryUnavailable(fault)
    if fault.startswith("bug"):
        raise ValueError(fault)


async def at_random(steps: list[tuple[str, float]], faults: list[str]) -> None:
    store, now = Faulty(), [""]
    bugs = any(x.startswith("bug") for x in faults)

    def before(_: str) -> None:
        now[0] = faults.pop() if faults else ""
        fail("" if now[0].endswith("after") else now[0])

    def after(_: str) -> None:
        fail(now[0])

    store.before, store.after = before, after
    async with writing(store) as desk:
        for number, (name, pause) in enumerate(steps):
            await desk.put(name, number)
            await trio.sleep(pause)
        await desk.writer.flush()
        await wait_all_tasks_blocked()
        assert desk.writer.waiting == 0
        assert not desk.writer._lines
        for name in desk.tables:
            given = [number for number, (of, _) in enumerate(steps) if of == name]
            assert [number for number, _ in desk.ends[name]] == given
            written = store.numbers(name)
            assert written == [x for x in given if x in written]  # in order, and once
            assert set(desk.kept(name)) <= set(written)
            if not bugs:
                assert desk.kept(name) == given


@given(STEPS, st.lists(st.sampled_from(FAULTS), max_size=20))
def test_whatever_fails_each_job_is_written_once_and_in_order(
    steps: list[tuple[str, float]], faults: list[str]
) -> None:
    trio.run(at_random, steps, faults, clock=MockClock(autojump_threshold=0))


async def test_what_cannot_be_made_of_a_session_that_is_not_kept_ends_nothing(
    autojump_clock: MockClock,
) -> None:
    writer = JournalWriter(InMemory(), lambda _: None)
    ends: list[str | None] = []

    def fails() -> Sequence[Entry]:
        raise ValueError("no")

    key = SessionKey("lost")
    writer.put(JournalJob(KeptTable(key, CampaignKey("lost")), fails, ends.append))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        await writer.flush()
        nursery.cancel_scope.cancel()
    assert ends == ["the session lost is not kept"]


async def test_nothing_waits_for_a_store_for_longer_than_ten_seconds(
    autojump_clock: MockClock,
) -> None:
    away = False

    def before(_: str) -> None:
        if away:
            raise MemoryUnavailable("the disk is gone")

    store = cast("Any", Faulty(before=before))
    config = silent(with_room(1000))
    async with open_runtime(config, llm=ScriptedLLM(play), memory=store) as runtime:
        session = runtime.session("table")
        await say(session, "hello")
        await runtime.kept()
        away = True
        await say(session, "hello again")
        with trio.fail_after(15):
            with pytest.raises(MemoryUnavailable, match="nobody is forgotten"):
                await runtime.forget("player")
        again = runtime.session("table")
        with trio.fail_after(15):
            with pytest.raises(MemoryUnavailable, match="has not ended"):
                await again.claim()
        away = False
        await runtime.kept()
        await again.claim()
        assert (await runtime.forget("player")).lines
