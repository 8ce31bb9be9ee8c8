"""Turns that are kept in memory, and sessions that come back from it.

The proof is a twin: a random evening is played in one run, and again with a new run
after each step, on the same store. All that models are told must be the same.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio import Config, Runtime, open_runtime
from glyphoxa_trio.config import BuiltinConfig
from glyphoxa_trio.config.builtin import MemoryToolsConfig, SessionsToolsConfig
from glyphoxa_trio.config.memory import MemoryConfig, RecallConfig
from glyphoxa_trio.memory.entries import Claim
from glyphoxa_trio.memory.errors import MemoryUnavailable
from glyphoxa_trio.memory.in_memory import InMemory
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey, Viewer
from glyphoxa_trio.npc import Sentence, ToolStarted, TurnKept
from glyphoxa_trio.npc.identity import SessionKey
from glyphoxa_trio.npc.scene import NobodyAddressed
from glyphoxa_trio.runtime import Environment

from ..npc.support import ScriptedLLM
from .test_snapshots import EVENING, RUN, evening, hear, play, take, tools, with_room

NOTHING = MemoryConfig(
    recall=RecallConfig(identity=0, relationships=0, transcript=0, facts=0),
    afterwards=False,
)


def silent(config: Config) -> Config:
    """Keep turns, and tell models nothing of it."""
    builtin = BuiltinConfig(
        memory=MemoryToolsConfig(enabled=False),
        sessions=SessionsToolsConfig(enabled=False),
    )
    return attrs.evolve(config, memory=NOTHING, builtin=builtin)


Steps = list[tuple[tuple[str, str], str, str]]


@attrs.define(eq=False)
class Mortal:
    """A journal of a process that can be killed: from then on nothing is written."""

    journal: Any
    alive: bool = True
    away: bool = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.journal, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            if self.away or not self.alive:
                raise MemoryUnavailable("the disk is gone")
            return await found(*args, **kwargs)

        return call


@asynccontextmanager
async def run(
    memory: InMemory,
    llm: ScriptedLLM,
    *,
    killed: bool = False,
    most: int = 1000,
    idle: float = 1800.0,
    own: Sequence[Any] = (),
) -> AsyncGenerator[Runtime]:
    """Open a runtime on this store, as another process would."""
    store = memory.beside()
    mortal = Mortal(store.journal)
    store.journal = mortal  # type: ignore[assignment]
    environment = Environment(run=RUN)
    async with open_runtime(
        silent(with_room(most, idle=idle)),
        llm=llm,
        tools=own or tools(),
        environment=environment,
        memory=store,
    ) as runtime:
        yield runtime
        if killed and mortal.alive:
            await runtime.kept()
            mortal.alive = False
    store.die()


def apart(steps: Steps, *, killed: bool) -> tuple[list[Any], list[Any]]:
    """What models were told if each step has a run of its own, and what it came to."""
    llm, ends = ScriptedLLM(play), list[Any]()
    memory, own = InMemory(), tools()

    async def main() -> None:
        for step, id_, name in steps:
            async with run(memory, llm, killed=killed, own=own) as runtime:
                session = runtime.session(id_)
                if step[0] == "end":
                    await session.snapshot()
                    ends.append((session.cost, session.variables))
                    await session.end()
                    continue
                try:
                    await take(step, session, session.npc(name))
                except NobodyAddressed as error:
                    ends.append(str(error))
        async with run(memory, llm, own=own) as runtime:
            for id_ in "abc":
                session = runtime.session(id_)
                await session.snapshot()
                ends.append((session.cost, session.variables))

    trio.run(main, clock=MockClock(autojump_threshold=0))
    return [(x.messages, x.tools) for x in llm.requests], ends


@settings(max_examples=min(12, settings().max_examples), deadline=None)
@given(EVENING)
def test_no_restart_is_noticed(steps: Steps) -> None:
    told, _, ends = evening(steps, silent(with_room(1000)))
    assert apart(steps, killed=False) == (told, ends)


# What changes between two turns is kept when a run ends, and lost when it is killed.
IN_TURNS = st.lists(
    st.tuples(
        st.one_of(
            st.tuples(st.just("say"), st.sampled_from(["hello", "toss", "nothing"])),
            st.tuples(st.just("leave"), st.sampled_from(["hello", "write it"])),
            st.tuples(st.just("introduce all"), st.sampled_from(["Dan", "Cyd"])),
            st.tuples(st.just("end"), st.just("")),
        ),
        st.sampled_from("ab"),
        st.sampled_from(["Bo", "Ann"]),
    ),
    max_size=12,
)


@settings(max_examples=min(12, settings().max_examples), deadline=None)
@given(IN_TURNS)
def test_no_kill_after_a_kept_turn_loses_it(steps: Steps) -> None:
    steps = [x for x in steps if x[0] != ("leave", "write it")]
    told, _, ends = evening(steps, silent(with_room(1000)))
    assert apart(steps, killed=True) == (told, ends)


async def test_a_call_that_a_kill_cut_short_has_an_unknown_effect(
    autojump_clock: MockClock,
) -> None:
    memory, llm = InMemory(), ScriptedLLM(play)
    async with run(memory, llm, killed=True) as runtime:
        await hear(runtime.session("one"), "hello")
        async with runtime.session("one").npc("Bo").say("write it") as turn:
            async for event in turn:
                if isinstance(event, ToolStarted):
                    break
            # killed here: neither the turn nor the call comes to its end
            await runtime.kept()
            runtime._cast.remembering.memory.journal.alive = False  # type: ignore[union-attr]
    async with run(memory, llm) as runtime:
        await hear(runtime.session("one"), "So?")
    told = "\n".join(x.content for x in llm.requests[-1].messages)
    assert "You said hello" in told
    assert "The program ended while it was running; its outcome is unknown" in told


async def test_each_turn_is_kept_behind_its_end(autojump_clock: MockClock) -> None:
    memory, llm = InMemory(), ScriptedLLM(play)
    kept: list[TurnKept] = []
    async with run(memory, llm) as runtime:
        with runtime.events.tap(
            lambda event: kept.append(event) if isinstance(event, TurnKept) else None
        ):
            await hear(runtime.session("one"), "hello")
            assert kept == []
            await runtime.kept()
            assert kept == [TurnKept(npc="Bo", turn=1, session="one")]


async def test_lines_are_what_was_heard_and_reach_those_who_were_there(
    autojump_clock: MockClock,
) -> None:
    memory, llm = InMemory(), ScriptedLLM(play)
    async with run(memory, llm) as runtime:
        session = runtime.session(
            "one", campaign="the reach", players={"player": "id:7"}
        )
        await hear(session, "hello")
        async with session.npc("Bo").say("again") as turn:  # leaves in the middle
            async for event in turn:
                if isinstance(event, Sentence) and event.text.startswith("And"):
                    break  # which counts as not heard
        async with session.scene().say("Ann, look there", speaker="Eve") as said:
            await said.finish()
        await session.scene().overhear("A wolf", "Howl!")
        await session.npc("Ann").overhear("Eve", "Between us.", to="Dan")
        await wait_all_tasks_blocked()
        await runtime.kept()
        await trio.sleep(2)
        await runtime.kept()
    campaign = CampaignKey("the reach")
    said_ = await memory.transcripts.recent(campaign, GAME_MASTER)
    lines = [
        (x.line.speaker, x.line.to, x.line.text, x.line.player, x.line.reach.npcs)
        for x in said_
    ]
    bo, both, ann = map(frozenset, (["Bo"], ["Bo", "Ann"], ["Ann"]))
    assert sorted(lines, key=str) == sorted(
        [
            ("player", "Bo", "hello", "id:7", bo),
            ("Bo", "player", "You said hello. And there is more.", "", bo),
            ("player", "Bo", "again", "id:7", bo),
            ("Bo", "player", "You said again.", "", bo),
            ("Eve", "Ann", "Ann, look there", "eve", both),
            ("Ann", "Eve", "You said Ann, look there. And there is more.", "", both),
            ("A wolf", "", "Howl!", "", both),
            ("Eve", "Dan", "Between us.", "", ann),
        ],
        key=str,
    )
    assert {x.line.evening[:4] for x in said_} == {"one-"}
    heard = await memory.transcripts.recent(campaign, Viewer("Ann"))
    assert "You said hello. And there is more." not in [x.line.text for x in heard]


async def test_half_an_idle_hour_begins_another_evening(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, llm = InMemory(), ScriptedLLM(play)
    now = 1_000_000.0
    async with run(memory, llm) as runtime:
        assert runtime._cast.remembering is not None
        monkeypatch.setattr(runtime._cast.remembering.keeper, "_now", lambda: now)
        session = runtime.session("one")
        await hear(session, "hello")
        await runtime.kept()
        now += 1700
        await hear(session, "hello")
        await runtime.kept()
        now += 1900
        await trio.sleep(120)
        (first,) = await memory.transcripts.evenings(CampaignKey("one"), GAME_MASTER)
        assert first.ended == 1_000_000.0 + 1700
        await hear(session, "hello")
        await runtime.kept()
    evenings = await memory.transcripts.evenings(CampaignKey("one"), GAME_MASTER)
    assert len(evenings) == 2
    assert all(x.ended is not None for x in evenings)


async def test_a_session_that_another_process_has_is_played_unsaved(
    autojump_clock: MockClock,
) -> None:
    memory, llm = InMemory(), ScriptedLLM(play)
    async with run(memory, llm) as first:
        await hear(first.session("one"), "hello")
        async with run(memory, llm) as second:
            done = await hear(second.session("one"), "hello")
            assert done.turn == 1
            assert any("is open in process" in x.text for x in second.warnings)
            assert sum("not kept" in x.text for x in second.warnings) == 1
            await hear(second.session("two"), "hello")
        assert (await hear(first.session("one"), "hello")).turn == 2
    async with run(memory, llm) as third:
        assert (await hear(third.session("one"), "hello")).turn == 3
        assert (await hear(third.session("two"), "hello")).turn == 2


async def test_turns_wait_while_the_store_is_away(autojump_clock: MockClock) -> None:
    memory, llm = InMemory(), ScriptedLLM(play)
    async with run(memory, llm) as runtime:
        journal: Any = runtime._cast.remembering.memory.journal  # type: ignore[union-attr]
        await hear(runtime.session("one"), "hello")
        await runtime.kept()
        journal.away = True
        for _ in range(5):
            await hear(runtime.session("one"), "hello")
        await trio.sleep(60)
        assert runtime._cast.remembering is not None
        assert runtime._cast.remembering.keeper.waiting >= 5
        journal.away = False
        await runtime.kept()
        texts = [x.text for x in runtime.warnings]
        assert sum("cannot be written now" in x for x in texts) == 1
        assert sum("can be written again" in x for x in texts) == 1
    async with run(memory, llm) as runtime:
        assert (await hear(runtime.session("one"), "hello")).turn == 7


async def test_too_much_to_be_written_is_lost_and_said(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glyphoxa_trio.runtime.turn_keeper.MOST_WAITING", 8)
    memory, llm = InMemory(), ScriptedLLM(play)
    lost: list[TurnKept] = []

    def note(event: object) -> None:
        if isinstance(event, TurnKept) and not event.kept:
            lost.append(event)

    async with run(memory, llm) as runtime:
        journal: Any = runtime._cast.remembering.memory.journal  # type: ignore[union-attr]
        await hear(runtime.session("one"), "hello")
        await runtime.kept()
        journal.away = True
        with runtime.events.tap(note):
            for _ in range(12):
                await hear(runtime.session("one"), "hello")
        assert lost
        assert "too many turns wait" in lost[0].error
        assert sum("lost to memory" in x.text for x in runtime.warnings) == 1
        journal.away = False
        await runtime.kept()


async def test_sessions_are_set_aside_into_memory(autojump_clock: MockClock) -> None:
    memory, llm = InMemory(), ScriptedLLM(play)
    async with run(memory, llm, most=3) as runtime:
        for number in range(12):
            done = await hear(runtime.session(f"table {number}"), "hello")
            assert done.turn == 1
        assert len(runtime.sessions) == 3
        for number in range(12):
            done = await hear(runtime.session(f"table {number}"), "again")
            assert done.turn == 2
    async with run(memory, llm, most=3) as runtime:
        for number in range(12):
            assert (await hear(runtime.session(f"table {number}"), "so?")).turn == 3


async def test_a_game_is_loaded_over_what_was_kept(autojump_clock: MockClock) -> None:
    memory, llm = InMemory(), ScriptedLLM(play)
    async with run(memory, llm) as runtime:
        await hear(runtime.session("one"), "hello")
        saved = (await runtime.session("one").snapshot()).to_bytes()
        for _ in range(3):
            await hear(runtime.session("one"), "hello")
    async with run(memory, llm) as runtime:
        one = runtime.session("one", restore=saved)
        assert (await hear(one, "hello")).turn == 2
    async with run(memory, llm) as runtime:
        assert (await hear(runtime.session("one"), "hello")).turn == 3


async def test_a_long_session_has_a_short_log(autojump_clock: MockClock) -> None:
    memory, llm = InMemory(), ScriptedLLM(play)
    async with run(memory, llm) as runtime:
        for _ in range(230):
            await hear(runtime.session("one"), "hello")
        await runtime.kept()
        assert runtime._cast.remembering is not None
        claim = runtime._cast.remembering.keeper.table(SessionKey("one")).claim
        assert isinstance(claim, Claim)
        assert len(await memory.journal.load(claim)) < 110
    async with run(memory, llm) as runtime:
        assert (await hear(runtime.session("one"), "hello")).turn == 231


async def test_without_memory_nothing_is_kept(autojump_clock: MockClock) -> None:
    async with open_runtime(with_room(9), llm=ScriptedLLM(play)) as runtime:
        assert runtime.memory is None
        await hear(runtime.session("one"), "hello")
        await runtime.kept()


async def test_a_session_that_is_idle_for_long_is_set_aside(
    autojump_clock: MockClock,
) -> None:
    memory, llm = InMemory(), ScriptedLLM(play)
    async with run(memory, llm, idle=40.0) as runtime:
        one, two = runtime.session("one"), runtime.session("two")
        await hear(one, "hello")
        await trio.sleep(25)
        await hear(two, "hello")
        await trio.sleep(30)
        assert [x.id for x in runtime.sessions] == ["two"]
        assert (await hear(one, "hello")).turn == 2
        assert [x.id for x in runtime.sessions] == ["two", "one"]


async def test_a_player_is_forgotten_in_open_sessions_too(
    autojump_clock: MockClock,
) -> None:
    memory, llm = InMemory(), ScriptedLLM(play)
    async with run(memory, llm) as runtime:
        one = runtime.session("one", players={"player": "id:7"})
        two, three = runtime.session("two"), runtime.session("three")
        await hear(one, "my secret")
        await hear(two, "hello")
        await three.npc("Ann").overhear("player", "a whisper")
        gone = await runtime.forget("id:7")
        assert (gone.lines, one.ended, two.ended) == (1, True, False)
        await runtime.forget("player")
        assert (two.ended, three.ended) == (True, True)
        assert (await hear(runtime.session("one"), "hello")).turn == 1
    async with run(memory, llm) as runtime:
        await hear(runtime.session("one"), "so?")
        told = "\n".join(x.content for x in llm.requests[-1].messages)
        assert "my secret" not in told


async def test_a_session_that_begins_right_after_its_end_knows_nothing_of_it(
    autojump_clock: MockClock,
) -> None:
    memory, llm = InMemory(), ScriptedLLM(play)
    async with run(memory, llm) as runtime:
        await hear(runtime.session("one"), "my secret")
        await runtime.kept()
        await runtime.session("one").end()
        assert (await hear(runtime.session("one"), "hello")).turn == 1
        told = "\n".join(x.content for x in llm.requests[-1].messages)
        assert "my secret" not in told
        await runtime.kept()
    async with run(memory, llm) as runtime:
        assert (await hear(runtime.session("one"), "hello")).turn == 2


async def test_a_line_that_had_no_room_does_not_swallow_the_next(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, llm = InMemory(), ScriptedLLM(play)
    async with run(memory, llm) as runtime:
        one = runtime.session("one")
        await hear(one, "hello")
        await runtime.kept()
        with monkeypatch.context() as patch:
            patch.setattr("glyphoxa_trio.runtime.turn_keeper.MOST_WAITING", 0)
            await one.npc("Bo").overhear("Dan", "Psst.")
        await one.npc("Bo").overhear("Dan", "Psst.")
        await runtime.kept()
    lines = await memory.transcripts.recent(CampaignKey("one"), GAME_MASTER)
    assert [x.line.text for x in lines].count("Psst.") == 1


async def test_what_is_heard_after_a_turn_was_written_corrects_it(
    autojump_clock: MockClock,
) -> None:
    memory, llm = InMemory(), ScriptedLLM(play)
    async with run(memory, llm, killed=True) as runtime:
        one = runtime.session("one")
        async with one.npc("Bo").say("hello") as turn:
            await trio.sleep(5)  # the turn is over, and nothing of it was heard yet
            await runtime.kept()
            lines = await memory.transcripts.recent(CampaignKey("one"), GAME_MASTER)
            assert [x.line.text for x in lines] == ["hello"]
            await turn.finish()
        await trio.sleep(1)
        await runtime.kept()
    async with run(memory, llm) as runtime:
        await hear(runtime.session("one"), "so?")
        told = [x.content for x in llm.requests[-1].messages if x.role == "assistant"]
        assert told[-1] == "You said hello. And there is more."
