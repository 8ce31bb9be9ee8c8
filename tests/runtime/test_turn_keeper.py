"""Turns that are kept in memory, and sessions that come back from it.

The proof is a twin: a random evening is played in one run, and again with a new run
after each step, on the same store. All that models are told must be the same.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
from hypothesis import given, settings

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio import Config, Runtime, open_runtime
from glyphoxa_trio.config import BuiltinConfig
from glyphoxa_trio.config.builtin import MemoryToolsConfig, SessionsToolsConfig
from glyphoxa_trio.config.memory import MemoryConfig, RecallConfig
from glyphoxa_trio.memory.entries import Claim, EntryKind
from glyphoxa_trio.memory.errors import MemoryUnavailable
from glyphoxa_trio.memory.in_memory import InMemory
from glyphoxa_trio.memory.in_memory.journal import InMemoryJournal
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey, Viewer
from glyphoxa_trio.npc import Sentence, ToolStarted, TurnKept
from glyphoxa_trio.npc.identity import SessionKey
from glyphoxa_trio.npc.scene import NobodyAddressed
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.runtime import Environment, SnapshotRefused, journal_writer

from ..npc.support import ScriptedLLM
from .test_snapshots import EVENING, RUN, evening, hear, play, take, tools, with_room

NOTHING = MemoryConfig(
    recall=RecallConfig(total=0),
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
    unreadable: bool = False
    loads: int = 0
    seconds: float = 0.0  # that everything takes

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.journal, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            self.loads += name == "load"
            if self.seconds:
                await trio.sleep(self.seconds)
            if name == "load" and self.unreadable:
                raise MemoryUnavailable("the disk is slow")
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


@settings(max_examples=min(12, settings().max_examples), deadline=None)
@given(EVENING)
def test_no_kill_loses_what_was_kept(steps: Steps) -> None:
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
        secretly = session.scene().say("hush", speaker="Eve", to="Bo", whisper=True)
        async with secretly as said:
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
    answers = {x.line.text: x.line.answers for x in said_}
    assert answers["You said again."] == ("id:7",)
    # Of words that were overheard only the name of the speaker is known.
    assert answers["Between us."] == ("eve", "dan")
    assert answers["hello"] == ()
    bo, both, ann = map(frozenset, (["Bo"], ["Bo", "Ann"], ["Ann"]))
    assert sorted(lines, key=str) == sorted(
        [
            ("player", "Bo", "hello", "id:7", bo),
            ("Eve", "Bo", "hush", "eve", bo),
            ("Bo", "Eve", "You said hush. And there is more.", "", bo),
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


async def test_many_sessions_that_change_at_once_are_all_kept_and_leave_room_for_turns(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_writer, "MOST_WAITING", 8)
    memory, llm = InMemory(), ScriptedLLM(play)
    names = [f"table {x}" for x in range(30)]
    async with run(memory, llm, killed=True) as runtime:
        for name in names:
            await hear(runtime.session(name), "hello")
            await runtime.kept()
        lost: list[TurnKept] = []
        with runtime.events.tap(
            lambda x: lost.append(x) if isinstance(x, TurnKept) and not x.kept else None
        ):
            for name in names:
                await runtime.session(name).set_variables({"town": f"that of {name}"})
            await trio.sleep(1.5)  # the first was written alone, the others together
            await hear(runtime.session("one more"), "hello")
            await trio.sleep(30)
            assert lost == []
    async with run(memory, llm) as runtime:
        for name in names:
            state = runtime.session(name)
            await hear(state, "again")
            variables = (await state.snapshot()).variables
            assert variables["town"] == f"that of {name}"


async def test_whoever_waits_for_what_is_kept_does_not_wait_for_later_changes(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = InMemoryJournal.append

    async def slowly(*args: Any) -> int:
        await trio.sleep(0.1)
        return await append(*args)

    monkeypatch.setattr(InMemoryJournal, "append", slowly)
    async with run(InMemory(), ScriptedLLM(play)) as runtime:
        session = runtime.session("busy")
        await hear(session, "hello")
        await runtime.kept()

        async def change() -> None:
            for count in range(10_000):
                await session.set_variables({"count": str(count)})
                await trio.sleep(0.03)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(change)
            await trio.sleep(1)
            with trio.fail_after(0.3):  # two writes at most
                await runtime.kept()
            nursery.cancel_scope.cancel()


async def test_a_session_keeps_its_campaign_and_says_so(
    autojump_clock: MockClock,
) -> None:
    memory, llm = InMemory(), ScriptedLLM(play)
    async with run(memory, llm) as runtime:
        session = runtime.session("one", campaign="the reach")
        await hear(session, "hello")
        await hear(runtime.session("one"), "again")
        await hear(runtime.session("one", campaign="the reach"), "again")
        with pytest.raises(ValueError, match="belongs to the campaign 'the reach'"):
            runtime.session("one", campaign="the vale")
        assert runtime.campaign_of("one") == CampaignKey("the reach")


async def test_a_session_whose_namesake_does_not_end_says_what_it_waits_for(
    autojump_clock: MockClock,
) -> None:
    memory, llm = InMemory(), ScriptedLLM(play)
    async with run(memory, llm) as runtime:
        remembering = runtime._cast.remembering
        assert remembering is not None
        with remembering.keeper.ending(SessionKey("one")):
            with pytest.raises(SnapshotRefused, match="earlier session one has not"):
                await runtime.session("one").snapshot()
            assert trio.current_time() == 10
        await hear(runtime.session("one"), "hello")


async def test_half_an_idle_hour_begins_another_evening(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, llm = InMemory(), ScriptedLLM(play)
    now = 1_000_000.0
    async with run(memory, llm) as runtime:
        assert runtime._cast.remembering is not None
        keeper = runtime._cast.remembering.keeper
        monkeypatch.setattr(keeper, "_now", lambda: now)
        monkeypatch.setattr(keeper.writer, "now", lambda: now)
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
    second, _ = await memory.transcripts.evenings(CampaignKey("one"), GAME_MASTER)
    assert second.ended is None  # another run may go on with it


async def greets_at(memory: InMemory, at: float, *, killed: bool = False) -> None:
    """Have a run in which something is said at that time."""
    async with run(memory, ScriptedLLM(play), killed=killed) as runtime:
        assert runtime._cast.remembering is not None
        keeper = runtime._cast.remembering.keeper
        keeper._now = keeper.writer.now = lambda: at
        await hear(runtime.session("one"), "hello")


@pytest.mark.parametrize("killed", [False, True])
async def test_runs_within_half_an_hour_share_an_evening(
    autojump_clock: MockClock, killed: bool
) -> None:
    memory, began = InMemory(), time.time()
    for seconds in (0, 600, 2300, 4000, 6000):
        await greets_at(memory, began + seconds, killed=killed)
    second, first = await memory.transcripts.evenings(CampaignKey("one"), GAME_MASTER)
    assert (first.began, first.ended) == (began, began + 4000)
    assert (second.began, second.ended) == (began + 6000, None)


@pytest.mark.parametrize("killed", [False, True])
async def test_whoever_opens_the_memory_ends_what_is_over(
    autojump_clock: MockClock, killed: bool
) -> None:
    memory, now = InMemory(), time.time()
    await greets_at(memory, now - 4000, killed=killed)
    async with run(memory, ScriptedLLM(play)):
        (only,) = await memory.transcripts.evenings(CampaignKey("one"), GAME_MASTER)
        assert only.ended == now - 4000


async def test_a_program_that_runs_for_a_moment_ends_evenings_as_well(
    autojump_clock: MockClock,
) -> None:
    memory, campaign = InMemory(), CampaignKey("old")
    claim = await memory.journal.claim("", "old", campaign)
    await memory.transcripts.begin_evening(claim, at=1_000_000.0)
    await memory.journal.release(claim)
    async with run(memory, ScriptedLLM(play)) as runtime:
        await hear(runtime.session("one"), "hello")
    (evening,) = memory.transcripts.rows.evenings[:1]
    assert evening.ended == 1_000_000.0


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
        assert runtime._cast.remembering.keeper.writer.waiting >= 5
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
    monkeypatch.setattr("glyphoxa_trio.runtime.journal_writer.MOST_WAITING", 8)
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
        # The words, and the answer that repeats them.
        assert (gone.lines, one.ended, two.ended) == (2, True, False)
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
            patch.setattr("glyphoxa_trio.runtime.journal_writer.MOST_WAITING", 0)
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


async def test_changes_between_turns_are_written_within_a_second_and_together(
    autojump_clock: MockClock,
) -> None:
    memory, llm = InMemory(), ScriptedLLM(play)
    async with run(memory, llm) as runtime:
        one = runtime.session("one")
        await hear(one, "hello")
        await runtime.kept()
        for number in range(50):
            await one.npc("Bo").set_scene(f"It is {number} o'clock.")
            await trio.sleep(0.05)
        await trio.sleep(1.1)
        assert runtime._cast.remembering is not None
        claim = runtime._cast.remembering.keeper.table(SessionKey("one")).claim
        assert isinstance(claim, Claim)
        kept = [x.entry for x in await memory.journal.load(claim)]
        states = [x for x in kept if x.kind is EntryKind.STATE]
        assert 2 <= len(states) <= 4
        assert "It is 49 o'clock." in str(states[-1].data)
        assert not states[-1].data["npcs"]["Bo"].get("history")


def repeat(request: LLMRequest) -> list[Any]:
    return [f"You said {request.messages[-1].content}. ", 1.0, "And there is more."]


async def test_an_answer_that_was_not_heard_out_survives_a_snapshot(
    autojump_clock: MockClock,
) -> None:
    memory, llm = InMemory(), ScriptedLLM(repeat)
    async with run(memory, llm, killed=True) as runtime:
        one = runtime.session("one")
        for _ in range(99):
            await hear(one, "hello")
        await trio.sleep(2)
        async with one.npc("Bo").say("say more") as turn:
            async for event in turn:
                if isinstance(event, Sentence):
                    break
            await anext(turn)  # so much was heard
            await trio.sleep(5)  # it is over, and a snapshot is written
            await runtime.kept()
            claim = runtime._cast.remembering.keeper.table(SessionKey("one")).claim  # type: ignore[union-attr]
            assert isinstance(claim, Claim)
            kept = [x.entry.kind for x in await memory.journal.load(claim)]
            assert kept.count(EntryKind.TURN) == 0
            runtime._cast.remembering.memory.journal.alive = False  # type: ignore[union-attr]
    async with run(memory, llm) as runtime:
        await hear(runtime.session("one"), "so?")
        await runtime.kept()
    lines = await memory.transcripts.recent(CampaignKey("one"), GAME_MASTER, limit=4)
    assert [x.line.text for x in lines] == [
        *("say more", "You said say more."),
        *("so?", "You said so?. And there is more."),
    ]


async def test_turns_that_waited_with_a_snapshot_are_restored_once(
    autojump_clock: MockClock,
) -> None:
    memory, llm = InMemory(), ScriptedLLM(repeat)
    async with run(memory, llm, killed=True) as runtime:
        journal: Any = runtime._cast.remembering.memory.journal  # type: ignore[union-attr]
        one = runtime.session("one")
        for number in range(97):
            await hear(one, f"line {number}")
        await runtime.kept()
        journal.away = True
        for number in range(97, 106):
            await hear(one, f"line {number}")
        await trio.sleep(5)
        journal.away = False
    async with run(memory, llm) as runtime:
        await hear(runtime.session("one"), "so?")
    said = [x.content for x in llm.requests[-1].messages if x.role == "user"]
    assert said[-3:] == ["line 104", "line 105", "so?"]
    assert len(said) == len(set(said))


async def test_a_session_that_could_not_be_loaded_is_loaded_at_its_next_use(
    autojump_clock: MockClock,
) -> None:
    memory, llm = InMemory(), ScriptedLLM(play)
    async with run(memory, llm, killed=True) as runtime:
        one = runtime.session("one")
        async with one.npc("Bo").say("hello") as turn:
            await trio.sleep(5)  # over, and it is not known what was heard
            await runtime.kept()
            runtime._cast.remembering.memory.journal.alive = False  # type: ignore[union-attr]
            await turn.finish()
    async with run(memory, llm) as runtime:
        journal: Any = runtime._cast.remembering.memory.journal  # type: ignore[union-attr]
        journal.unreadable = True
        with pytest.raises(MemoryUnavailable):
            await hear(runtime.session("one"), "so?")
        assert journal.loads > 2
        journal.unreadable = False
        assert (await hear(runtime.session("one"), "so?")).turn == 2
        await runtime.kept()
        claim = runtime._cast.remembering.keeper.table(SessionKey("one")).claim  # type: ignore[union-attr]
        assert isinstance(claim, Claim)
        kept = [x.entry.kind for x in await memory.journal.load(claim)]
        assert EntryKind.SNAPSHOT in kept  # the entries of a run begin with one
    lines = await memory.transcripts.recent(CampaignKey("one"), GAME_MASTER)
    assert "hello" in [x.line.text for x in lines]


async def test_what_is_overheard_twice_is_two_lines_for_each_who_heard_it(
    autojump_clock: MockClock,
) -> None:
    store = InMemory()
    async with run(store, ScriptedLLM(play)) as runtime:
        session = runtime.session("table")
        npcs = session.npc("Bo"), session.npc("Ann")
        for _ in range(2):
            for npc in npcs:
                await npc.overhear("Eve", "Yes.")
        await runtime.kept()
        found = await store.transcripts.recent(CampaignKey("table"), GAME_MASTER)
    heard = [(x.line.text, x.line.reach.npcs) for x in found]
    assert heard == [("Yes.", frozenset({"Bo", "Ann"}))] * 2
