"""A player is forgotten, in a memory file, by a runtime or by another process."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio import Config, Runtime, open_runtime
from glyphoxa_trio.config import load_text
from glyphoxa_trio.memory.claims import waits
from glyphoxa_trio.memory.contract import Forgotten, Memory
from glyphoxa_trio.memory.errors import MemoryUnavailable
from glyphoxa_trio.memory.forgotten import ForgottenPlayer
from glyphoxa_trio.memory.in_memory import InMemory
from glyphoxa_trio.memory.knowledge import Standing
from glyphoxa_trio.memory.sqlite.store import open_sqlite
from glyphoxa_trio.memory.visibility import GAME_MASTER, CampaignKey, Viewer
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.runtime import Session, forgotten_elsewhere
from glyphoxa_trio.runtime.forgotten_elsewhere import EVERY
from glyphoxa_trio.tools.outcome import ToolCall

from ..cli.support import COMMAND
from ..npc.support import ScriptedLLM
from .test_snapshots import with_room
from .test_turn_keeper import silent

REACH = CampaignKey("the reach")
LIMIT = 60.0  # seconds; only a hang comes near it
A_LOOK = EVERY + 1.0  # virtual seconds, in which a runtime looks once at least
IDS = {"Ann the Red": "id:7", "Eve": "id:8"}


@asynccontextmanager
async def run(
    path: Path, llm: ScriptedLLM, config: Config | None = None
) -> AsyncGenerator[Runtime]:
    async with open_sqlite(path) as memory:
        config = config or silent(with_room(1000))
        async with open_runtime(config, llm=llm, memory=memory) as runtime:
            yield runtime


def table(runtime: Runtime, id_: str = "table") -> Session:
    return runtime.session(id_, campaign=REACH.campaign, players=IDS)


async def say(session: Session, text: str, speaker: str) -> None:
    async with session.scene().say(f"Bo, {text}", speaker=speaker) as turn:
        await turn.finish()


def quoting(request: LLMRequest) -> list[str]:
    return [f"You said {request.messages[-1].content}."]


def contents(folder: Path) -> bytes:
    return b"".join(x.read_bytes() for x in folder.iterdir() if x.is_file())


async def lines(memory: Memory | None, query: str = "") -> list[str]:
    assert memory is not None
    if query:
        found = (await memory.transcripts.search(REACH, GAME_MASTER, query)).lines
    else:
        found = await memory.transcripts.recent(REACH, GAME_MASTER)
    return [x.line.text for x in found]


async def test_an_answer_that_quotes_a_player_goes_with_the_words(
    tmp_path: Path,
) -> None:
    # Forgotten are the words, what repeats them, and what was overheard of them.
    path, llm = tmp_path / "memory.db", ScriptedLLM(quoting)
    async with run(path, llm) as runtime:
        session = table(runtime)
        await say(session, "I buried the silver crown", "Ann the Red")
        await say(session, "an ale", "Eve")
        for id_, speaker, words, to in (
            ("another", "Ann the Red", "Psst, a crown.", ""),
            ("a third", "Bo", "A crown, you say?", "Ann the Red"),
        ):
            heard = table(runtime, id_).npc("Ann")
            await heard.overhear(speaker, words, to=to)
            async with heard.say("what was that?", speaker="Eve") as turn:
                await turn.finish()
    async with run(path, llm) as runtime:
        before = await lines(runtime.memory)
        assert any(x.startswith("You said Bo, I buried") for x in before)
        gone = await runtime.forget("id:7")
        # The words and the answer; what was overheard, and the answers of who heard it.
        assert gone.lines == 6
        assert await lines(runtime.memory, "crown") == []
        left = await lines(runtime.memory)
        assert any(x.startswith("You said Bo, an ale") for x in left)
        session = table(runtime)
        await say(session, "so?", "Eve")
        told = "\n".join(str(x.content) for x in llm.requests[-1].messages)
        assert "crown" not in told
    assert b"crown" not in contents(tmp_path)


async def test_a_player_whom_another_process_forgets_is_forgotten_here_too(
    autojump_clock: MockClock,
) -> None:
    memory, llm, config = InMemory(), ScriptedLLM(quoting), silent(with_room(1000))
    async with open_runtime(config, llm=llm, memory=memory) as runtime:
        one, two = table(runtime, "one"), table(runtime, "two")
        await say(one, "I buried the crown", "Ann the Red")
        await say(two, "an ale", "Eve")
        await runtime.kept()
        elsewhere = memory.beside()
        await elsewhere.forget("guild", "id:7")  # a namesake
        await trio.sleep(A_LOOK)
        assert not one.ended
        await elsewhere.forget("", "id:7")
        # Before this process learns of it, its session writes their words again.
        await say(one, "where is the crown?", "Ann the Red")
        await runtime.kept()
        assert any("crown" in x for x in await lines(memory))
        await trio.sleep(A_LOOK)
        assert (one.ended, two.ended) == (True, False)
        assert not any("crown" in x for x in await lines(memory))
        assert any("ale" in x for x in await lines(memory))
        told = str(runtime.warnings)
        assert "another process has forgotten a player" in told
        assert "id:7" not in told
        # It is not told back, and what the player says later is kept.
        assert await elsewhere.forgotten(after=0) == ()
        await say(table(runtime, "one"), "a fig", "Ann the Red")
        await trio.sleep(3 * A_LOOK)
        assert any("fig" in x for x in await lines(memory))


class Away(InMemory):
    """A store that cannot be reached for a while."""

    reads = writes = True

    async def forgotten(self, *, after: int) -> tuple[ForgottenPlayer, ...]:
        if not self.reads:
            raise MemoryUnavailable("the disk is gone")
        return await super().forgotten(after=after)

    async def forget(
        self,
        tenant: str,
        player: str,
        *,
        campaign: str | None = None,
        again: bool = False,
    ) -> Forgotten:
        if not self.writes:
            raise MemoryUnavailable("the disk is gone")
        return await super().forget(tenant, player, campaign=campaign, again=again)


async def test_a_store_that_is_away_only_delays_it(autojump_clock: MockClock) -> None:
    memory, llm, config = Away(), ScriptedLLM(quoting), silent(with_room(1000))
    async with open_runtime(config, llm=llm, memory=memory) as runtime:
        session = table(runtime)
        await say(session, "I buried the crown", "Ann the Red")
        memory.reads = memory.writes = False
        await memory.beside().forget("", "id:7")
        await say(session, "a silver crown", "Ann the Red")
        await trio.sleep(2 * A_LOOK)
        assert not session.ended
        memory.reads = True
        await trio.sleep(A_LOOK)
        assert session.ended
        assert any("silver" in x for x in await lines(memory))
        memory.writes = True
        await trio.sleep(A_LOOK)
        assert await lines(memory) == []


@pytest.mark.border
async def test_the_command_reaches_a_running_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgotten_elsewhere, "EVERY", 0.05)
    path, llm = tmp_path / "memory.db", ScriptedLLM(quoting)
    command = [str(COMMAND), "memory", "forget", str(path), "id:7", "--yes"]
    async with run(path, llm) as runtime:
        session = table(runtime)
        await say(session, "I buried the silver crown", "Ann the Red")
        await runtime.kept()
        with trio.fail_after(LIMIT):
            done = await trio.run_process(command, capture_stdout=True)
            assert b"the session table is open in process" in done.stdout
            # The command has removed what was there, and the program does its own.
            while not session.ended or b"crown" in contents(tmp_path):  # noqa: ASYNC110
                await trio.sleep(0.05)
        assert await lines(runtime.memory) == []
    assert b"crown" not in contents(tmp_path)


REMEMBERING = """\
npcs: [{name: Bo, personality: A host., tools: [memory]}]
mcp: {remember: false}
memory: {afterwards: false}
"""


async def test_what_an_npc_was_told_to_remember_goes_with_who_spoke(
    tmp_path: Path,
) -> None:
    path = tmp_path / "memory.db"
    facts = ["The crown lies under the oak.", "Eve drinks ale."]
    rounds: list[list[str | ToolCall]] = []
    for n, fact in enumerate(facts):
        made = ToolCall(f"c{n}", "remember", json.dumps({"fact": fact}))
        rounds += [[made], ["I will."]]
    config = load_text(REMEMBERING, source=Path("npcs.yaml"), env={})
    async with run(path, ScriptedLLM(rounds), config) as runtime:
        session = table(runtime)
        await say(session, "remember it", "Ann the Red")
        await say(session, "remember that", "Eve")
        memory = runtime.memory
        assert memory is not None
        known = await memory.graph.facts(REACH, Viewer("Bo"))
        assert {x.fact.text: x.fact.provenance.player for x in known} == dict(
            zip(facts, ["id:7", "id:8"], strict=True)
        )
        # What a player has an NPC remember is that player's claim, and waits.
        told = {(x.fact.standing, x.fact.provenance.by) for x in known}
        claimed = Standing.CLAIMED
        assert told == {(claimed, "Ann the Red"), (claimed, "Eve")}
        assert all(waits(x.fact) for x in known)
        assert (await runtime.forget("id:7")).facts == 1
        left = await memory.graph.facts(REACH, GAME_MASTER)
        assert [x.fact.text for x in left] == facts[1:]


@pytest.mark.parametrize("kept", [True, False])
async def test_a_player_is_forgotten_by_name_in_one_campaign_or_in_all(
    autojump_clock: MockClock, kept: bool
) -> None:
    memory = InMemory() if kept else None
    llm, config = ScriptedLLM(quoting), silent(with_room(1))
    async with open_runtime(config, llm=llm, memory=memory) as runtime:
        # One has to be set aside before the next begins.
        tables = [runtime.session(x, campaign=x) for x in ("north", "south")]
        for one in tables:
            await say(one, "I buried the crown", "Alex ")
            await say(one, "an ale", "Eve")
        await runtime.kept()

        async def told(campaign: str) -> bool:
            session = runtime.session(campaign, campaign=campaign)
            await say(session, "so?", "Eve")
            asked = str(llm.requests[-1].messages)
            return "crown" in asked

        assert await runtime.forget("Alex", campaign="west") == Forgotten()
        assert (await told("north"), await told("south")) == (True, True)
        await runtime.forget("ALEX", campaign="north")
        assert (await told("north"), await told("south")) == (False, True)
        await say(runtime.session("north", campaign="north"), "the crown", "alex")
        await runtime.forget("Alex")
        assert (await told("north"), await told("south")) == (False, False)


async def test_what_is_written_when_a_program_ends_has_nothing_of_a_forgotten_player(
    autojump_clock: MockClock,
) -> None:
    memory, llm, config = InMemory(), ScriptedLLM(quoting), silent(with_room(1000))
    async with open_runtime(config, llm=llm, memory=memory.beside()) as runtime:
        one = table(runtime, "one")
        await say(one, "I buried the crown", "Ann the Red")
        await runtime.kept()
        await memory.forget("", "id:7")
        await say(one, "the crown is of silver", "Ann the Red")
        await say(one, "an ale", "Eve")
    assert not any("crown" in x for x in await lines(memory))
    assert any("ale" in x for x in await lines(memory))
    async with open_runtime(config, llm=llm, memory=memory.beside()) as runtime:
        await say(table(runtime, "one"), "so?", "Eve")
        assert "crown" not in str([x.content for x in llm.requests[-1].messages])


async def test_a_player_is_forgotten_in_sessions_that_were_just_set_aside(
    autojump_clock: MockClock,
) -> None:
    memory, llm, config = InMemory(), ScriptedLLM(quoting), silent(with_room(1))
    async with open_runtime(config, llm=llm, memory=memory.beside()) as runtime:
        one, two = table(runtime, "one"), table(runtime, "two")
        await say(one, "I buried the crown", "Ann the Red")
        await runtime.kept()
        await memory.forget("", "id:7")
        await say(one, "the crown is of silver", "Ann the Red")
        await say(two, "an ale", "Eve")  # sets the other one aside
        await trio.sleep(A_LOOK)
        assert not any("crown" in x for x in await lines(memory))
        assert any("ale" in x for x in await lines(memory))
        await say(table(runtime, "one"), "so?", "Eve")
        assert "crown" not in str([x.content for x in llm.requests[-1].messages])


async def test_a_session_that_comes_back_meanwhile_forgets_the_player(
    autojump_clock: MockClock,
) -> None:
    memory, llm, config = InMemory(), ScriptedLLM(quoting), silent(with_room(1))
    async with open_runtime(config, llm=llm, memory=memory) as runtime:
        one, two = table(runtime, "one"), table(runtime, "two")
        await say(one, "I buried the crown", "Ann the Red")
        await say(two, "an ale", "Eve")
        await trio.sleep(100)
        three = table(runtime, "three")
        await say(three, "a plum", "Eve")
        await runtime.kept()
        await say(three, "a fig", "Eve")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(runtime.forget, "id:7")
            await wait_all_tasks_blocked()  # it waits for the fig to be written
            await say(one, "so?", "Eve")
        await say(table(runtime, "one"), "and now?", "Eve")
        assert "crown" not in str([x.content for x in llm.requests[-1].messages])
