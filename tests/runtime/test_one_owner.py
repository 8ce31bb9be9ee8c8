"""A session that is set aside belongs to nobody: another process may go on with it."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock

from glyphoxa_trio import Runtime, open_runtime
from glyphoxa_trio.memory.entries import SessionRow
from glyphoxa_trio.memory.errors import HeldElsewhere, MemoryUnavailable
from glyphoxa_trio.memory.in_memory import InMemory
from glyphoxa_trio.memory.postgres import open_postgres
from glyphoxa_trio.memory.sqlite.store import open_sqlite
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey
from glyphoxa_trio.npc.identity import NpcId, SessionKey
from glyphoxa_trio.runtime import Session
from glyphoxa_trio.runtime.kept_table import KeptTable
from glyphoxa_trio.runtime.session_state import SessionState, TooManySessions
from glyphoxa_trio.runtime.turn_keeper import TurnKeeper

from ..memory.conftest import OpenStore
from ..memory.postgres.server import the_server
from ..npc.support import ScriptedLLM
from .test_snapshots import hear, play, tools, with_room
from .test_turn_keeper import run, silent

IDLE = 40.0
LATER = 60.0  # when what was not used is set aside


def keeper(runtime: Runtime) -> TurnKeeper:
    assert runtime._cast.remembering is not None
    return runtime._cast.remembering.keeper


def journal(runtime: Runtime) -> Any:
    return keeper(runtime).memory.journal


def told(llm: ScriptedLLM) -> str:
    return "\n".join(x.content for x in llm.requests[-1].messages)


async def row(store: InMemory) -> SessionRow:
    (found,) = await store.journal.sessions()
    return found


async def test_one_that_is_set_aside_goes_on_wherever_it_is_used_next(
    autojump_clock: MockClock,
) -> None:
    store, llm = InMemory(), ScriptedLLM(play)
    async with (
        run(store, llm, idle=IDLE) as first,
        run(store, llm, idle=IDLE) as second,
    ):
        here, there = first.session("table"), second.session("table")
        for turn in (1, 3, 5):
            assert (await hear(here, f"from here {turn}")).turn == turn
            assert (await row(store)).holder
            await trio.sleep(LATER)
            assert not (await row(store)).holder
            assert (await hear(there, f"from there {turn}")).turn == turn + 1
            assert f"from here {turn}" in told(llm)
            await trio.sleep(LATER)
        assert not first.warnings
        assert not second.warnings


async def test_who_makes_room_lets_go_as_well(autojump_clock: MockClock) -> None:
    store, llm = InMemory(), ScriptedLLM(play)
    async with run(store, llm, most=1) as first, run(store, llm) as second:
        await hear(first.session("table"), "hello")
        await hear(first.session("other"), "hello")
        await first.kept()
        assert (await hear(second.session("table"), "again")).turn == 2


async def test_who_comes_back_to_one_that_is_elsewhere_is_told_and_knows_all_of_it(
    autojump_clock: MockClock,
) -> None:
    store, llm = InMemory(), ScriptedLLM(play)
    async with (
        run(store, llm, idle=IDLE) as first,
        run(store, llm, idle=10 * IDLE) as second,
    ):
        here, there = first.session("table"), second.session("table")
        await hear(here, "I am Ann")
        await trio.sleep(LATER)
        await hear(there, "the key is red")
        await second.kept()
        assert (await hear(here, "so?")).turn == 3
        assert "the key is red" in told(llm)
        (warning,) = [x.text for x in first.warnings]
        assert "table is open in process" in warning
        assert "what happens in table now is not kept" in warning
        # What they do here now is of no consequence there, nor later here.
        assert (await hear(there, "the door is green")).turn == 3
        await there.release()
        await trio.sleep(LATER)
        assert (await hear(here, "and now?")).turn == 4
        assert "the door is green" in told(llm)
        assert "so?" not in told(llm)
    lines = await store.transcripts.recent(CampaignKey("table"), GAME_MASTER)
    said = [x.line.text for x in lines if x.line.player]
    assert said == ["I am Ann", "the key is red", "the door is green", "and now?"]


async def test_one_that_is_claimed_by_hand_stays_claimed(
    autojump_clock: MockClock,
) -> None:
    store, llm = InMemory(), ScriptedLLM(play)
    async with run(store, llm, idle=IDLE) as first, run(store, llm) as second:
        session = first.session("table")
        hold = await session.claim()
        await hear(session, "hello")
        await trio.sleep(LATER)
        assert not first.sessions
        with pytest.raises(HeldElsewhere):
            await second.session("table").claim()
        assert (await hear(session, "again")).turn == 2
        assert await session.claim() == hold
        await session.release()
        assert (await second.session("table").claim()).epoch == hold.epoch + 1


async def test_it_comes_back_at_once_if_it_could_not_be_written_meanwhile(
    autojump_clock: MockClock,
) -> None:
    store, llm = InMemory(), ScriptedLLM(play)
    async with run(store, llm, idle=IDLE) as runtime:
        session = runtime.session("table")
        await hear(session, "hello")
        await runtime.kept()
        journal(runtime).away = True
        await trio.sleep(LATER)
        assert not runtime.sessions
        assert (await hear(session, "again")).turn == 2
        journal(runtime).away = False
        await runtime.kept()
        assert (await row(store)).holder  # it is in use, and nobody gives it back
        assert (await hear(session, "and again")).turn == 3
    async with run(store, llm) as runtime:
        assert (await hear(runtime.session("table"), "so?")).turn == 4


async def test_one_that_was_given_back_does_not_begin_anew_while_the_store_is_away(
    autojump_clock: MockClock,
) -> None:
    store, llm = InMemory(), ScriptedLLM(play)
    async with run(store, llm, idle=IDLE) as runtime:
        session = runtime.session("table")
        await hear(session, "hello")
        await trio.sleep(LATER)
        journal(runtime).away = True
        with pytest.raises(MemoryUnavailable):
            await hear(session, "again")
        journal(runtime).away = False
        assert (await hear(session, "again")).turn == 2


async def test_who_is_forgotten_is_forgotten_in_what_is_set_aside_here_alone_too(
    autojump_clock: MockClock,
) -> None:
    store, llm = InMemory(), ScriptedLLM(play)
    async with run(store, llm) as first, run(store, llm, idle=IDLE) as second:
        await hear(first.session("table"), "hello")
        await first.kept()
        await hear(second.session("table"), "my secret")  # is not kept
        await hear(second.session("other"), "hello")
        await trio.sleep(LATER)
        assert second._cast.players("") == {"player"}
        await second.forget("nobody")
        assert second._cast.players("") == {"player"}
        await second.forget("player")
        assert second._cast.players("") == set()
        await first.session("table").end()
        await hear(second.session("table"), "so?")
        assert "my secret" not in told(llm)


async def test_an_evening_goes_on_wherever_its_session_does(
    autojump_clock: MockClock,
) -> None:
    store, llm = InMemory(), ScriptedLLM(play)
    async with run(store, llm, idle=IDLE) as first, run(store, llm) as second:
        for runtime in (first, first, second, first):
            await hear(runtime.session("table"), "hello")
            await trio.sleep(LATER)
            if runtime is second:
                await second.session("table").release()
        campaign = CampaignKey("table")
        (evening,) = await store.transcripts.evenings(campaign, GAME_MASTER)
        assert evening.ended is None
        lines = await store.transcripts.recent(campaign, GAME_MASTER)
        assert [x.line.evening for x in lines] == [evening.id] * 8


async def test_one_that_is_set_aside_can_be_ended_or_released(
    autojump_clock: MockClock,
) -> None:
    store, llm = InMemory(), ScriptedLLM(play)
    async with run(store, llm, idle=IDLE) as runtime:
        for how in ("release", "end"):
            await hear(runtime.session(how), "hello")
            await trio.sleep(LATER)
            await getattr(runtime.session(how), how)()
            again = await hear(runtime.session(how), "hello")
            assert again.turn == (2 if how == "release" else 1)


@pytest.fixture(params=["sqlite", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[OpenStore]:
    """Opens a real store, each time as another process would."""
    if request.param == "sqlite":
        yield lambda: open_sqlite(tmp_path / "memory.db")
        return
    with the_server() as server, server.database() as address:
        yield lambda: open_postgres(address)


@pytest.mark.border
async def test_two_machines_hand_a_session_to_each_other(opened: OpenStore) -> None:
    llm, config = ScriptedLLM(play), silent(with_room(10, idle=0.2))

    @asynccontextmanager
    async def machine() -> AsyncGenerator[Runtime]:
        async with opened() as memory:
            async with open_runtime(
                config, llm=llm, tools=tools(), memory=memory
            ) as runtime:
                yield runtime

    async def free(runtime: Runtime) -> bool:
        return not [x for x in await journal(runtime).sessions() if x.holder]

    with trio.fail_after(60):
        async with machine() as first, machine() as second:
            for turn in range(1, 7):
                runtime = (first, second)[turn % 2]
                done = await hear(runtime.session("table"), f"word {turn}")
                assert done.turn == turn
                assert all(f"word {x}" in told(llm) for x in range(1, turn + 1))
                while not await free(runtime):  # noqa: ASYNC110
                    await trio.sleep(0.02)
            assert not first.warnings
            assert not second.warnings


# The counts of what is known of sessions.


def known(runtime: Runtime) -> Counter[str]:
    """Return how many objects know of one session, whoever holds them, and the sizes of
    what the keeper has."""
    gc.collect()
    kinds = (KeptTable, SessionState, SessionKey, NpcId, Session)
    found = Counter(type(x).__name__ for x in gc.get_objects() if isinstance(x, kinds))
    kept, writer = keeper(runtime), keeper(runtime).writer
    for owner in (kept, writer, runtime._cast.states, runtime._cast.services.costs):
        for name in type(owner).__slots__:
            several = getattr(owner, name, None)
            if isinstance(several, dict | set | list | tuple):
                found[f"{type(owner).__name__}.{name}"] = len(several)
    return found


MANY = 2000


async def test_of_sessions_that_ended_nothing_is_left(
    autojump_clock: MockClock,
) -> None:
    store, llm = InMemory(), ScriptedLLM(play)
    async with run(store, llm) as runtime:

        async def used(number: int) -> None:
            async with runtime.session(f"{number}", players={"Ann": "p"}) as session:
                match number % 4:
                    case 0:
                        await hear(session, "hello")
                        llm.requests.clear()
                    case 1:
                        await session.set_variables({"town": "Ulm"})
                    case 2:
                        await session.claim()
                        await session.release(write=number % 8 == 2)

        for number in range(4):
            await used(number)
        await trio.sleep(70)
        before = known(runtime)
        for number in range(MANY):
            await used(number)
        await trio.sleep(70)
        assert known(runtime) == before


async def test_of_sessions_that_are_set_aside_nothing_is_left(
    autojump_clock: MockClock,
) -> None:
    store, llm = InMemory(), ScriptedLLM(play)
    async with run(store, llm, most=20, idle=IDLE) as runtime:
        held = runtime.session("held", players={"player": "discord:1"})
        await hear(held, "hello")
        await hear(runtime.session("another"), "hello")
        await trio.sleep(90)
        before = known(runtime)
        for number in range(200):
            runtime.session(f"not used {number}")
            await hear(runtime.session(f"{number}"), "hello")
            llm.requests.clear()
        await trio.sleep(90)
        assert known(runtime) == before
        assert (await hear(held, "again")).turn == 2
        assert (await hear(runtime.session("7"), "again")).turn == 2
        await runtime.kept()
    lines = await store.transcripts.recent(CampaignKey("held"), GAME_MASTER)
    assert {x.line.player for x in lines if x.line.speaker == "player"} == {"discord:1"}


# Two processes, and one session that both use, beside the dumbest model: an owner, what
# was said, and what each of them knows.

STEPS = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from(["say", "say", "rest", "quit"])),
    max_size=10,
)


async def at_random(steps: list[tuple[int, str]]) -> None:
    store, llm = InMemory(), ScriptedLLM(play)
    owner: int | None = None
    kept = list[str]()
    knows: list[list[str] | None] = [None, None]  # None: it is set aside there
    async with run(store, llm) as one, run(store, llm) as two:
        runtimes = [one, two]
        for number, (at, what) in enumerate(steps):
            runtime, mine = runtimes[at], knows[at]
            if what == "say":
                if mine is None:
                    mine = knows[at] = list(kept)
                    owner = at if owner is None else owner
                done = await hear(runtime.session("table"), f"word {number}")
                await runtime.kept()
                heard = [x for x in map(str, range(number)) if f"word {x}" in told(llm)]
                assert heard == mine
                assert done.turn == len(mine) + 1
                mine.append(str(number))
                if owner == at:
                    kept.append(str(number))
            elif mine is not None:
                if what == "rest":
                    runtime._cast.states.rest_unused(trio.current_time() + 1)
                    await runtime.kept()
                else:
                    await runtime.session("table").release()
                knows[at] = None
                owner = None if owner == at else owner
            held = await store.journal.sessions()
            assert bool(held and held[0].holder) is (owner is not None)


@given(STEPS)
def test_there_is_one_owner_and_each_knows_what_was_kept_when_it_came(
    steps: list[tuple[int, str]],
) -> None:
    trio.run(at_random, steps, clock=MockClock(autojump_threshold=0))


async def test_a_session_that_finds_no_room_is_left_to_other_processes(
    autojump_clock: MockClock,
) -> None:
    store, llm = InMemory(), ScriptedLLM(play)
    async with run(store, llm, most=1) as first, run(store, llm) as second:
        await hear(first.session("table"), "hello")
        await hear(first.session("another"), "hello")
        await first.kept()
        async with first.session("another").npc("Bo").say("hello again"):
            with pytest.raises(TooManySessions):
                await hear(first.session("table"), "hello?")
            hold = await second.session("table").claim()
        assert hold.epoch == 2
