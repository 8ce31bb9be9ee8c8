"""What each store's journal promises: claims, epochs, order, and what a load returns.

The last test makes random histories in a store that two processes have open, and in the
model of a store.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.memory.contract import Memory
from glyphoxa_trio.memory.entries import Claim, Entry, EntryKind, Line, SessionRow
from glyphoxa_trio.memory.errors import Fenced, HeldElsewhere
from glyphoxa_trio.memory.in_memory import InMemory
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey, Reach
from tests.memory.conftest import OpenStore
from tests.memory.examples import in_postgres, in_quick_stores

BARROW = CampaignKey("barrow")
PEAK = CampaignKey("peak")


def turn(number: int, **data: Any) -> Entry:
    return Entry(
        kind=EntryKind.TURN, at=1000.0 + number, npc="Bo", turn=number, data=data
    )


def line(text: str, at: float = 1000.0) -> Entry:
    said = Line(text=text, speaker="Ann", player="p1", to="Bo", reach=Reach.of("Bo"))
    return Entry(kind=EntryKind.LINE, at=at, line=said)


def snapshot(at: float = 2000.0, **data: Any) -> Entry:
    return Entry(kind=EntryKind.SNAPSHOT, at=at, data=data)


async def claimed(store: Memory, campaign: CampaignKey = BARROW) -> Claim:
    return await store.journal.claim("", "table", campaign)


async def loaded(store: Memory, claim: Claim) -> list[Entry]:
    return [kept.entry for kept in await store.journal.load(claim)]


async def only(store: Memory) -> SessionRow:
    (row,) = await store.journal.sessions()
    return row


@pytest.fixture
async def store(open_store: OpenStore) -> AsyncIterator[Memory]:
    async with open_store() as opened:
        yield opened


@pytest.fixture
async def other(open_store: OpenStore, store: Memory) -> AsyncIterator[Memory]:
    async with open_store() as opened:
        yield opened


async def test_a_session_that_nobody_knows_begins_with_its_first_claim(
    store: Memory,
) -> None:
    claim = await claimed(store)
    assert (claim.session, claim.campaign, claim.known) == ("table", BARROW, False)
    assert await store.journal.load(claim) == ()
    assert await store.campaigns() == (BARROW,)


async def test_entries_are_numbered_and_loaded_in_order_without_the_lines(
    store: Memory,
) -> None:
    claim = await claimed(store)
    assert await store.journal.append(claim, [turn(1, said="Hm."), line("Hm.")]) == 2
    assert await store.journal.append(claim, []) == 2
    assert await store.journal.append(claim, [line("Ah."), turn(2)]) == 4
    kept = await store.journal.load(claim)
    assert [(x.n, x.epoch) for x in kept] == [(1, claim.epoch), (4, claim.epoch)]
    assert [x.entry for x in kept] == [turn(1, said="Hm."), turn(2)]
    assert (await only(store)).lines == 2


def keyed(key: int, *entries: Entry) -> list[Entry]:
    first, *others = entries
    return [attrs.evolve(first, key=key), *others]


async def test_a_job_that_is_appended_again_is_written_once(store: Memory) -> None:
    claim = await claimed(store)
    append = store.journal.append
    one, two = keyed(5, turn(1), line("one")), keyed(7, line("two"), turn(2))
    await append(claim, one)
    await append(claim, [turn(9)])  # of no job
    await append(claim, [turn(9)])
    assert await append(claim, one + two) == 6
    assert await append(claim, one) == await append(claim, two) == 6
    assert await append(claim, keyed(8, snapshot(), turn(3))) == 8
    assert await append(claim, two) == 8
    assert await loaded(store, claim) == [snapshot(), turn(3)]
    assert (await only(store)).lines == 2
    again = await claimed(store)  # another run counts anew
    assert await append(again, keyed(1, turn(4))) == 9


async def test_a_snapshot_replaces_what_was_before_it_but_the_lines(
    store: Memory,
) -> None:
    claim = await claimed(store)
    await store.journal.append(claim, [turn(1), line("Hm."), snapshot(state=1)])
    assert await loaded(store, claim) == [snapshot(state=1)]
    await store.journal.append(claim, [turn(2), snapshot(state=2), turn(3)])
    assert await loaded(store, claim) == [snapshot(state=2), turn(3)]
    assert (await only(store)).lines == 1


async def test_each_claim_fences_the_one_before(store: Memory) -> None:
    first = await claimed(store)
    await store.journal.append(first, [turn(1)])
    second = await claimed(store)
    assert second.epoch > first.epoch
    assert second.known
    with pytest.raises(Fenced, match="table"):
        await store.journal.append(first, [turn(2)])
    with pytest.raises(Fenced, match="table"):
        await store.journal.load(first)
    await store.journal.release(first, ended=True)  # does nothing
    assert await loaded(store, second) == [turn(1)]
    await store.journal.append(second, [turn(3)])
    assert [x.epoch for x in await store.journal.load(second)] == [
        first.epoch,
        second.epoch,
    ]


async def test_a_living_holder_keeps_its_session_and_is_named(
    store: Memory, other: Memory
) -> None:
    claim = await claimed(store)
    with pytest.raises(HeldElsewhere) as told:
        await claimed(other)
    assert "table" in str(told.value)
    held = told.value
    assert (held.holder, held.epoch) == (store.holder.id, claim.epoch)
    assert store.holder.where in str(told.value)
    assert (await only(other)).holder == store.holder.where
    await store.journal.append(claim, [turn(1)])


async def test_what_another_process_has_can_be_read_in_its_epoch(
    store: Memory, other: Memory
) -> None:
    claim = await claimed(store)
    await store.journal.append(claim, [turn(1)])
    with pytest.raises(HeldElsewhere) as told:
        await claimed(other)
    theirs = Claim(
        tenant="",
        session="table",
        campaign=BARROW,
        epoch=told.value.epoch,
        known=True,
    )
    assert await loaded(other, theirs) == [turn(1)]
    with pytest.raises(Fenced):
        await other.journal.append(theirs, [turn(2)])
    await store.journal.release(claim)
    with pytest.raises(Fenced):
        await other.journal.load(theirs)


async def test_a_session_can_be_taken_from_a_living_holder_in_its_epoch(
    store: Memory, other: Memory
) -> None:
    claim = await claimed(store)
    for wrong in (claim.epoch - 1, claim.epoch + 1):
        with pytest.raises(HeldElsewhere):
            await other.journal.claim("", "table", BARROW, steal_from=wrong)
    taken = await other.journal.claim("", "table", BARROW, steal_from=claim.epoch)
    await other.journal.append(taken, [turn(1)])
    with pytest.raises(Fenced):
        await store.journal.append(claim, [turn(2)])
    assert await loaded(other, taken) == [turn(1)]


async def test_a_dead_holder_loses_its_session_but_nothing_that_it_wrote(
    store: Memory, open_store: OpenStore
) -> None:
    async with open_store() as dying:
        claim = await claimed(dying)
        await dying.journal.append(claim, [turn(1), line("Hm.")])
    assert (await only(store)).holder == ""
    taken = await claimed(store)
    assert taken.known
    assert await loaded(store, taken) == [turn(1)]
    with pytest.raises(Fenced):
        await store.journal.append(claim, [turn(2)])


async def test_a_session_that_was_given_back_is_free(
    store: Memory, other: Memory
) -> None:
    claim = await claimed(store)
    await store.journal.append(claim, [turn(1)])
    await store.journal.release(claim)
    with pytest.raises(Fenced):
        await store.journal.append(claim, [turn(2)])
    assert (await only(other)).holder == ""
    taken = await claimed(other)
    assert await loaded(other, taken) == [turn(1)]


@pytest.mark.parametrize("ended", [False, True])
async def test_an_evening_ends_with_the_claim(
    store: Memory, other: Memory, ended: bool
) -> None:
    claim = await claimed(store)
    transcripts = store.transcripts
    evenings = [await transcripts.begin_evening(claim, at) for at in (900.0, 950.0)]
    first, second = (x.id for x in evenings)

    async def ends() -> list[float | None]:
        found = [
            await transcripts.evening(BARROW, GAME_MASTER, x) for x in (first, second)
        ]
        return [x.ended for x in found]

    assert await ends() == [950.0, None]
    release = store.journal.release
    await release(claim, ended=ended, evening=second, at=1000.0)
    assert (await only(other)).holder == ""
    assert await ends() == [950.0, 1000.0]
    await release(claim, evening=second, at=2000.0)  # does nothing
    again = await claimed(store)
    await release(again, evening=first, at=2000.0)  # it has ended
    await release(await claimed(store), evening="nowhere", at=2000.0)
    assert await ends() == [950.0, 1000.0]


async def test_of_a_session_that_has_ended_only_the_lines_are_left(
    store: Memory,
) -> None:
    claim = await claimed(store)
    await store.journal.append(claim, [turn(1), line("Hm.", at=1500.0), snapshot()])
    await store.journal.release(claim, ended=True)
    row = await only(store)
    assert (row.ended, row.lines, row.last_at) == (True, 1, 2000.0)
    again = await claimed(store, PEAK)
    assert not again.known
    assert again.campaign == BARROW  # there are lines of it
    assert await store.journal.load(again) == ()
    assert await store.journal.append(again, [turn(1)]) == 4  # numbers go on
    assert not (await only(store)).ended


async def test_the_campaign_of_a_session_is_settled_by_its_first_line(
    store: Memory,
) -> None:
    claim = await claimed(store)
    await store.journal.append(claim, [turn(1)])
    claim = await claimed(store, PEAK)
    assert (claim.campaign, claim.known) == (PEAK, True)
    await store.journal.append(claim, [line("Hm.")])
    assert (await claimed(store)).campaign == PEAK
    assert await store.campaigns() == (PEAK,)


async def test_what_cannot_be_written_changes_nothing(store: Memory) -> None:
    claim = await claimed(store)
    with pytest.raises(TypeError):
        await store.journal.append(claim, [turn(1), turn(2, broken=object())])
    assert await store.journal.load(claim) == ()
    await store.journal.append(claim, [turn(3)])
    assert await loaded(store, claim) == [turn(3)]


async def test_tenants_may_name_their_sessions_alike(
    store: Memory, other: Memory
) -> None:
    ours = await store.journal.claim("a", "table", CampaignKey("barrow", "a"))
    theirs = await other.journal.claim("b", "table", CampaignKey("barrow", "b"))
    await store.journal.append(ours, [turn(1)])
    await other.journal.append(theirs, [turn(2)])
    assert await loaded(store, ours) == [turn(1)]
    (row,) = await store.journal.sessions("b")
    assert (row.tenant, row.campaign, row.last_at) == ("b", "barrow", 1002.0)
    assert await store.campaigns("a") == (CampaignKey("barrow", "a"),)


async def test_the_session_that_was_used_last_comes_first(store: Memory) -> None:
    for name, at in (("a", 1), ("b", 3), ("c", 2)):
        claim = await store.journal.claim("", name, BARROW)
        await store.journal.append(claim, [turn(at)])
    rows = await store.journal.sessions()
    assert [x.session for x in rows] == ["b", "c", "a"]


async def test_many_tasks_may_append_at_once(store: Memory) -> None:
    claims = [await store.journal.claim("", f"s{n}", BARROW) for n in range(10)]
    stale = await store.journal.claim("", "stale", BARROW)
    await store.journal.claim("", "stale", BARROW)
    numbers: list[int] = []

    async def append(claim: Claim, at: int) -> None:
        numbers.append(await store.journal.append(claim, [turn(at), line("Hm.")]))

    async def refused() -> None:
        with pytest.raises(Fenced):
            await store.journal.append(stale, [turn(1)])

    async with trio.open_nursery() as nursery:
        for at in range(20):
            for claim in claims:
                nursery.start_soon(append, claim, at)
            nursery.start_soon(refused)
    assert sorted(numbers) == sorted(list(range(2, 42, 2)) * 10)
    for claim in claims:
        kept = await loaded(store, claim)
        assert sorted(x.turn for x in kept) == list(range(20))


async def test_a_cancelled_append_is_made_as_a_whole_or_not_at_all(
    store: Memory,
) -> None:
    claim = await claimed(store)
    done: set[int] = set()

    async def append(at: int) -> None:
        with trio.move_on_after(at * 0.0002):
            await store.journal.append(claim, [turn(at), line("Hm."), turn(at)])
            done.add(at)

    async with trio.open_nursery() as nursery:
        for at in range(30):
            nursery.start_soon(append, at)
    # Later writes wait until those have ended.
    with trio.fail_after(30):
        await store.journal.append(claim, [turn(99), turn(99)])
    turns = [x.turn for x in await loaded(store, claim)]
    assert {turns.count(x) for x in turns} == {2}
    assert done <= set(turns)


@pytest.mark.parametrize("text", ["\0", "\ud800", "Zoë 🐉", "'; drop table entry; --"])
async def test_any_text_may_be_said_and_anything_may_have_any_name(
    store: Memory, text: str
) -> None:
    claim = await store.journal.claim(text, text, CampaignKey(text, text))
    said = Line(
        text=text,
        speaker=text,
        player=text,
        to=text,
        reach=Reach.of(text, "Bo"),
        corrected=text,
        evening=text,
    )
    spoken = Entry(kind=EntryKind.LINE, at=1000.0, npc=text, line=said)
    await store.journal.append(claim, [spoken, turn(1, text=text, deep=[{text: text}])])
    assert await loaded(store, claim) == [turn(1, text=text, deep=[{text: text}])]
    (row,) = await store.journal.sessions(text)
    assert row.lines == 1


STORES = st.integers(0, 1)
CLAIMS = st.integers(0, 5)
KINDS = st.lists(st.sampled_from([*EntryKind]), max_size=4)
STEPS = st.one_of(
    st.tuples(
        st.just("claim"),
        STORES,
        st.sampled_from("ab"),
        st.sampled_from([BARROW, PEAK]),
        st.none() | st.integers(1, 4),
    ),
    st.tuples(st.just("append"), CLAIMS, KINDS),
    st.tuples(st.just("load"), CLAIMS),
    st.tuples(st.just("release"), CLAIMS, st.booleans()),
    st.tuples(st.just("reopen"), STORES),
)
_tenants = itertools.count()


@attrs.define
class Process:
    """A store of one kind, opened by two processes, and the claims that they made."""

    open: OpenStore
    tenant: str
    stores: dict[int, Memory] = attrs.field(factory=dict)
    opened: dict[int, AbstractAsyncContextManager[Memory]] = attrs.field(factory=dict)
    claims: list[tuple[int, Claim]] = attrs.field(factory=list)
    clock: float = 1000.0

    async def do(self, step: tuple[Any, ...]) -> object:
        """Return what can be compared with the model: a result, or an error's type."""
        try:
            return await getattr(self, step[0])(*step[1:])
        except HeldElsewhere as error:
            return type(error), error.epoch
        except GlyphoxaError as error:
            return type(error)

    async def reopen(self, at: int) -> None:
        if at in self.opened:
            await self.close(at)
        self.claims = [x for x in self.claims if x[0] != at]
        self.opened[at] = self.open()
        self.stores[at] = await self.opened[at].__aenter__()

    async def close(self, at: int) -> None:
        await self.opened.pop(at).__aexit__(None, None, None)

    async def claim(
        self, at: int, session: str, campaign: CampaignKey, steal_from: int | None
    ) -> Claim:
        key = attrs.evolve(campaign, tenant=self.tenant)
        claim = await self.stores[at].journal.claim(
            self.tenant, session, key, steal_from=steal_from
        )
        self.claims.append((at, claim))
        return claim

    def picked(self, which: int) -> tuple[Memory, Claim] | None:
        if not self.claims:
            return None
        at, claim = self.claims[-1 - which % len(self.claims)]
        return self.stores[at], claim

    async def append(self, which: int, kinds: list[EntryKind]) -> object:
        if (found := self.picked(which)) is None:
            return None
        store, claim = found
        entries = []
        for kind in kinds:
            self.clock += 1.0
            if kind is EntryKind.LINE:
                entries.append(line("Hm.", at=self.clock))
            else:
                data = {"at": self.clock}
                entries.append(Entry(kind=kind, at=self.clock, data=data))
        return await store.journal.append(claim, entries)

    async def load(self, which: int) -> object:
        found = self.picked(which)
        return found and await found[0].journal.load(found[1])

    async def release(self, which: int, ended: bool) -> None:
        if (found := self.picked(which)) is not None:
            await found[0].journal.release(found[1], ended=ended)

    async def seen(self) -> object:
        where = {x.holder.where: "" for x in self.stores.values()}
        rows = [await x.journal.sessions(self.tenant) for x in self.stores.values()]
        assert rows[0] == rows[1]
        return [
            attrs.evolve(x, holder="held" if x.holder in where else x.holder)
            for x in rows[0]
        ]


async def is_as_in_the_model(
    open_store: OpenStore, steps: list[tuple[Any, ...]]
) -> None:
    # The store outlives the example, and other tenants have nothing to do with it.
    tenant = f"tenant {next(_tenants)}"
    first = InMemory()

    def model() -> AbstractAsyncContextManager[Memory]:
        return Beside(first)

    processes = [Process(open_store, tenant), Process(model, tenant)]
    try:
        for step in [("reopen", 0), ("reopen", 1), *steps]:
            told, right = [await x.do(step) for x in processes]
            assert told == right, step
            if len(processes[0].stores) == 2:
                assert await processes[0].seen() == await processes[1].seen(), step
    finally:
        for process in processes:
            for at in list(process.opened):
                await process.close(at)


@in_quick_stores
@given(steps=st.lists(STEPS, min_size=8, max_size=25))
async def test_every_history_is_as_in_the_model(
    open_store: OpenStore, steps: list[tuple[Any, ...]]
) -> None:
    await is_as_in_the_model(open_store, steps)


@in_postgres
@given(steps=st.lists(STEPS, min_size=8, max_size=25))
async def test_every_history_in_postgres_is_as_in_the_model(
    open_store: OpenStore, steps: list[tuple[Any, ...]]
) -> None:
    await is_as_in_the_model(open_store, steps)


@attrs.frozen
class Beside(AbstractAsyncContextManager[Memory]):
    """The model, as the fixture opens it."""

    first: InMemory
    made: list[InMemory] = attrs.field(factory=list)

    async def __aenter__(self) -> Memory:
        self.made.append(self.first.beside())
        return self.made[-1]

    async def __aexit__(self, *_: object) -> None:
        self.made[-1].die()
