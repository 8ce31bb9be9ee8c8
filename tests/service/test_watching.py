"""Turns for pages: kept, numbered, shown as they happen, to those who may see them."""

from __future__ import annotations

import json
from collections import deque
from typing import Any

import attrs
import httpx2
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import trio

from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.memory.in_memory import InMemory
from glyphoxa_trio.memory.visibility import CampaignKey
from glyphoxa_trio.npc import (
    Sentence,
    TextDelta,
    TierSelected,
    ToolFinished,
    TurnDone,
    TurnEnd,
    TurnEvent,
)
from glyphoxa_trio.npc.events import Timings
from glyphoxa_trio.npc.identity import SessionKey
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.runtime import Session, forgotten_elsewhere
from glyphoxa_trio.service import outbox, watching
from glyphoxa_trio.service.watching import TurnHistory
from glyphoxa_trio.tools.decorate import tool
from glyphoxa_trio.tools.outcome import Media, Outcome, Status, ToolCall
from glyphoxa_trio.tools.tier import Tier

from ..npc.support import call
from .support import CONFIG, raw_client, serving, until

MOST_TURNS, MOST_EVENTS, MOST_BYTES = 4, 6, 1000
WHEN = 1_790_000_000_000  # a date behind which all of these lie, in ms


class NoRuntime:
    """A runtime of which only players and campaigns are asked."""

    def campaign_of(self, session: str, *, tenant: str) -> CampaignKey:
        return CampaignKey(f"of {session}", tenant)

    def player_of(self, session: SessionKey, speaker: str) -> str:
        return f"id:{speaker}"


def begins(
    npc: str, turn: int, session: str = "one", speaker: str = "Aria"
) -> TierSelected:
    return TierSelected(
        npc=npc,
        turn=turn,
        session=session,
        tier=Tier.FAST,
        selected=Tier.FAST,
        ceiling=Tier.FAST,
        reason="ordinary talk",
        budget=0.5,
        speaker=speaker,
        text=f"question {turn}",
    )


def ends(npc: str, turn: int, session: str = "one") -> TurnDone:
    return TurnDone(
        npc=npc,
        turn=turn,
        session=session,
        end=TurnEnd.COMPLETED,
        text="Well.",
        outcomes=(),
        timings=Timings(model=0.1, tools=0.0, total=0.1),
        rounds=1,
    )


@attrs.define
class _Kept:
    """The dumbest model of a turn."""

    number: int
    key: tuple[str, str, int]
    events: list[TurnEvent] = attrs.field(factory=list)
    speakers: set[str] = attrs.field(factory=set)
    done: bool = False
    over: bool = False  # a later one of its number was forgotten

    @property
    def size(self) -> int:
        """The bytes that tools returned: a page, its name, and a picture."""
        finished = [x for x in self.events if isinstance(x, ToolFinished)]
        return sum(100 + len(x.outcome.data["page"][0]) + 4 for x in finished)


def returns(npc: str, turn: int, data: Any, session: str = "one") -> ToolFinished:
    outcome = Outcome(call=ToolCall("1", "a.b"), tool="a.b", status=Status.OK)
    media = (Media("image/png", b"x" * 100),)
    outcome = attrs.evolve(outcome, data=data, media=media)
    return ToolFinished(npc=npc, turn=turn, session=session, outcome=outcome, round=0)


class History(RuleBasedStateMachine):
    """A history against a list that is searched from its end."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: deque[_Kept] = deque(maxlen=MOST_TURNS)
        self.numbers = 0
        self.seen: list[int] = []

        async def make() -> TurnHistory:
            return TurnHistory(NoRuntime())  # type: ignore[arg-type]

        self.history = trio.run(make)
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(watching, "MOST_TURNS", MOST_TURNS)
        self.patch.setattr(watching, "MOST_EVENTS", MOST_EVENTS)
        self.patch.setattr(watching, "MOST_BYTES", MOST_BYTES)

    def teardown(self) -> None:
        self.patch.undo()

    def take(self, event: TurnEvent, *, begins: bool = False) -> None:
        key = (event.session, event.npc, event.turn)
        found = self.latest(key)
        if found is None or (begins and found.done):
            self.numbers += 1
            found = _Kept(self.numbers, key)
            self.turns.append(found)
        if not isinstance(event, TextDelta):
            del found.events[MOST_EVENTS - 1 :]
            found.events.append(event)
        if isinstance(event, TierSelected):
            found.speakers.add(event.speaker)
        while sum(x.size for x in self.turns) > MOST_BYTES and len(self.turns) > 1:
            self.turns.popleft()
        found.done = found.done or isinstance(event, TurnDone)

        async def publish() -> None:
            with self.history.watched(lambda x: self.seen.append(x.number)):
                self.history.take(event)

        trio.run(publish)
        assert self.seen[-1] == found.number

    def latest(self, key: tuple[str, str, int]) -> _Kept | None:
        named = (x for x in reversed(self.turns) if x.key == key and not x.over)
        return next(named, None)

    @rule(
        npc=st.sampled_from(["Bo", "Ann"]),
        turn=st.integers(1, 3),
        session=st.sampled_from(["one", "two"]),
        speaker=st.sampled_from(["Aria", "Ben"]),
    )
    def begin(self, npc: str, turn: int, session: str, speaker: str) -> None:
        self.take(begins(npc, turn, session, speaker), begins=True)

    @rule(
        speaker=st.sampled_from(["Aria", "Ben"]),
        tenant=st.sampled_from(["", "x"]),
        campaign=st.sampled_from([None, "of one", "of two"]),
    )
    def forget(self, speaker: str, tenant: str, campaign: str | None) -> None:
        there = any(speaker in x.speakers for x in self.turns) and not tenant
        assert (f"id:{speaker}" in self.history.players(tenant)) is there
        self.history.forget(f"id:{speaker}", tenant, campaign)
        gone = [
            x
            for x in self.turns
            if there and speaker in x.speakers and campaign in (None, f"of {x.key[0]}")
        ]
        for turn in gone:
            forgotten = turn is self.latest(turn.key)
            self.turns.remove(turn)
            for other in self.turns:
                other.over = other.over or (forgotten and other.key == turn.key)

    @rule(npc=st.sampled_from(["Bo", "Ann"]), turn=st.integers(1, 3))
    def end(self, npc: str, turn: int) -> None:
        self.take(ends(npc, turn))

    @rule(
        npc=st.sampled_from(["Bo", "Ann"]), turn=st.integers(1, 3), n=st.integers(1, 4)
    )
    def talk(self, npc: str, turn: int, n: int) -> None:
        for number in range(n):
            text = f"{number}"
            said = Sentence(npc=npc, turn=turn, session="one", text=text, round=0)
            self.take(said)
        self.take(TextDelta(npc=npc, turn=turn, session="one", text="W"))

    @rule(
        npc=st.sampled_from(["Bo", "Ann"]),
        turn=st.integers(1, 3),
        size=st.sampled_from([0, 150, 700, 2000]),
    )
    def call_a_tool(self, npc: str, turn: int, size: int) -> None:
        self.take(returns(npc, turn, {"page": ["x" * size]}))

    @invariant()
    def is_the_list(self) -> None:
        found = list(self.history.turns())[::-1]
        assert [x.number for x in found] == [x.number for x in self.turns]
        for ours, theirs in zip(found, self.turns, strict=True):
            assert [x.event for x in ours.events] == theirs.events
            assert self.history.turn(ours.number) is ours
            told = json.loads(json.dumps(ours.plain()))
            assert told["number"] == theirs.number
            assert ("end" in told) is theirs.done


TestHistory = History.TestCase


def test_the_history_has_a_bound(monkeypatch: Any) -> None:
    monkeypatch.setattr(watching, "MOST_TURNS", 3)

    async def main() -> list[int]:
        history = TurnHistory(NoRuntime())  # type: ignore[arg-type]
        for turn in range(1, 10):
            history.take(begins("Bo", turn))
        assert len(history._latest) == 3
        return [x.number for x in history.turns()]

    assert trio.run(main) == [9, 8, 7]


async def test_a_watcher_sees_the_turns_of_all_and_only_while_it_watches() -> None:
    async with serving() as served:
        async with raw_client(served) as watcher, raw_client(served) as player:
            await watcher.send(type="watch", id="w")
            await watcher.until("accepted", id="w")
            await player.send(type="say", id="s", npc="Bo", session="one", text="Hail")
            await watcher.until_event("TurnDone")
            kinds = [x["event"] for x in watcher.events if "npc" in x]
            assert kinds[0] == "TierSelected"
            assert "TextDelta" not in kinds
            assert {x["id"] for x in watcher.events} == {"w"}
            numbers = [x["n"] for x in watcher.events]
            assert numbers == list(range(1, len(numbers) + 1))
            assert all(x["at_ms"] > WHEN for x in watcher.events)
            turns = {x["number"] for x in watcher.events if "npc" in x}
            assert len(turns) == 1
            await watcher.send(type="leave", id="w")
            await watcher.until("done", id="w")
            before = len(watcher.events)
            await player.send(type="say", id="t", npc="Bo", session="one", text="Ho")
            await player.until_event("TurnDone")
            await watcher.send(type="ping", id="p")
            await watcher.until("pong", id="p")
            assert len(watcher.events) == before
        async with httpx2.AsyncClient(
            timeout=60, base_url=served.url, trust_env=False
        ) as http:
            found = (await http.get("/api/turns")).json()["turns"]
            assert [x["text"] for x in found] == ["Ho", "Hail"]
            (number,) = turns
            whole = (await http.get(f"/api/turns/{number}")).json()
            shown = [x["event"] for x in watcher.events if x.get("number") == number]
            assert [x["event"] for x in whole["events"]][: len(shown)] == shown
            for query, expected in (
                ("session=one", 2),
                ("session=two", 0),
                ("npc=Ann", 0),
                ("limit=1", 1),
                (f"before={number + 1}", 1),
            ):
                found = (await http.get(f"/api/turns?{query}")).json()["turns"]
                assert len(found) == expected, query
            for query in ("limit=0", "limit=x", "before=0", "who=me"):
                assert (await http.get(f"/api/turns?{query}")).status_code == 400
            for number in ("0", "99", "-1", "x", "1e3"):
                assert (await http.get(f"/api/turns/{number}")).status_code == 404


async def test_turns_of_a_forgotten_player_are_no_longer_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forgotten_elsewhere, "EVERY", 0.2)
    memory = InMemory()
    async with serving(memory=memory) as served:
        runtime, players = served.runtime, {"Ann": "id:7", "Eve": "id:8"}

        async def shown() -> list[str]:
            async with httpx2.AsyncClient(
                timeout=60, base_url=served.url, trust_env=False
            ) as http:
                found = (await http.get("/api/turns")).json()["turns"]
            return sorted(x["text"] for x in found)

        async def say(name: str, speaker: str, tenant: str = "") -> Session:
            session = runtime.session(name, tenant=tenant, players=players)
            npc = session.npc("Bo")
            async with npc.say(f"I am {speaker} at {name}", speaker=speaker) as turn:
                await turn.finish()
            return session

        await (await say("one", "Ann")).end()
        await say("two", "Eve")
        await say("two", "Ann")
        await say("three", "Ann", "guild")
        await runtime.forget("ann")  # the name of one who has an id
        assert len(await shown()) == 4
        await runtime.forget("id:7")
        left = ["I am Ann at three", "I am Eve at two"]
        assert await shown() == left
        await (await say("four", "Eve")).end()
        assert await shown() == [*left[:1], "I am Eve at four", *left[1:]]
        await memory.beside().forget("", "id:8")  # by another process
        with trio.fail_after(30):
            while await shown() != left[:1]:  # noqa: ASYNC110
                await trio.sleep(0.1)


async def test_a_watch_of_one_session_has_deltas_if_they_are_wanted() -> None:
    async with serving() as served:
        async with raw_client(served) as watcher, raw_client(served) as player:
            await watcher.send(type="watch", id="w", session="two", deltas=True)
            await watcher.until("accepted", id="w")
            for session in ("one", "two"):
                said = {"npc": "Bo", "session": session, "text": "Hail"}
                await player.send(type="say", id=session, **said)
                await player.until_event("TurnDone")
                player.events.clear()
            await watcher.until_event("TurnDone")
            assert {x["session"] for x in watcher.events} == {"two"}
            assert "TextDelta" in {x["event"] for x in watcher.events}


@pytest.mark.border
async def test_changes_are_told_while_somebody_watches() -> None:
    @tool(read_only=True)
    async def ponder() -> str:
        """Ponder."""
        return "well"

    async with serving() as served, raw_client(served) as watcher:
        await watcher.send(type="watch", id="w")
        await watcher.until("accepted", id="w")
        await trio.sleep(3 * watching.LOOK_EVERY)
        watcher.events.clear()
        served.runtime.register(ponder)
        changed = await watcher.until_event("StateChanged")
        assert "tools" in changed["what"]
        watcher.events.clear()
        served.runtime.session("three").npc("Bo")
        changed = await watcher.until_event("StateChanged")
        assert changed["what"] == ["sessions"]
        watcher.events.clear()
        await served.runtime.calibrate()
        probed = await watcher.until_event("Probed")
        assert probed["total"] >= 1


@pytest.mark.border
async def test_a_watcher_that_does_not_read_is_closed_and_slows_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox, "MOST_WAITING", 200)
    long = ["word " * 2400] * 40
    async with serving(lambda _: long) as served, raw_client(served) as player:
        async with raw_client(served) as watcher:
            await watcher.send(type="watch", id="w", deltas=True)
            await watcher.until("accepted", id="w")
            gateway = served.service._gateway
            assert gateway.connections == 2
            with trio.fail_after(60):
                while gateway.connections == 2:
                    async with served.runtime.npc("Bo").say("Hail") as turn:
                        await turn.finish()
            await player.send(type="ping", id="p")
            await player.until("pong", id="p")


async def test_a_game_master_who_watches_is_asked_and_otherwise_nobody() -> None:
    ran: list[str] = []

    @tool(read_only=True)
    async def curse(name: str) -> str:
        """Curse somebody."""
        ran.append(name)
        return "cursed"

    definition = attrs.evolve(curse.definition, external=True)
    foreign = attrs.evolve(curse, definition=definition)

    def mind(request: LLMRequest) -> list[Any]:
        if request.messages[-1].role == "tool" or not request.tools:
            return ["So be it."]
        names = [x.name for x in request.tools]
        chosen = [x for x in names if x.endswith("curse")]
        return [call(chosen[0], '{"name": "Bob"}')] if chosen else ["I know no curse."]

    # A fast turn has no time for a question.
    patient = NpcConfig(name="Bo", tools=("*",), budget_tier=Tier.STANDARD)
    config = attrs.evolve(CONFIG, npcs=(patient,))
    async with serving(mind, config=config, tools=[foreign]) as served:
        token = served.service.token
        assert token is not None

        async def say() -> str:
            npc = served.runtime.npc("Bo")
            async with npc.say("Curse him", tier=Tier.STANDARD) as turn:
                return (await turn.finish()).text

        assert await say() == "I know no curse."
        for yes in (True, False):
            async with raw_client(served, token=token.reveal()) as master:
                await master.send(type="watch", id="w")
                await master.until("accepted", id="w")
                await until(lambda: served.runtime.npc("Bo").grant.approver)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(say)
                    asked = await master.until_event("ApprovalNeeded")
                    answer = {"question": asked["question"], "yes": yes, "npc": "Bo"}
                    await master.send(type="approve", id="a", **answer)
                    assert (await master.until("done", id="a"))["result"] is True
            await until(lambda: not served.runtime.npc("Bo").grant.approver)
        assert ran == ["Bob"]
        assert await say() == "I know no curse."
