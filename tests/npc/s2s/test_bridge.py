"""A realtime conversation by itself: an embedder's, without an NPC (G35)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import trio
from trio.testing import wait_all_tasks_blocked

from glyphoxa_trio.host import ToolHost, open_host
from glyphoxa_trio.npc.s2s import (
    RealtimeConversation,
    StandingBridge,
    open_bridge,
    open_live,
)
from glyphoxa_trio.providers.s2s import (
    Capabilities,
    Event,
    Heard,
    Respond,
    ResponseEnded,
    SendResult,
    SendText,
    SetTools,
    SpeechStarted,
    SpeechStopped,
    Spoken,
)
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.tier import Tier

from ..support import Ran, call
from .support import ANSWERS, ASKS, Links, live, lost
from .test_turns import BOTH, Model

ALL = Grant(npc="", tools=("*",))


class Bridged:
    """A bridge at a scripted model, and what was heard of it."""

    def __init__(
        self,
        host: ToolHost,
        live: RealtimeConversation,
        links: Links,
        bridge: StandingBridge,
    ) -> None:
        self.host, self.live, self.links, self.bridge = host, live, links, bridge
        self.heard: list[Event] = []

    async def listen(self) -> None:
        async for event in self.bridge:
            self.note(event)

    def note(self, event: Event) -> None:
        self.heard.append(event)

    def words(self) -> str:
        return "".join(event.text for event in self.heard if isinstance(event, Spoken))


@asynccontextmanager
async def bridged(
    wire: Capabilities, model: Model | None, *tools: Tool, **options: object
) -> AsyncIterator[Bridged]:
    links = Links(wire, on_send=model)
    conversation = live(links)
    async with open_host() as host, open_live(conversation):
        host.register(*tools)
        async with open_bridge(host, conversation, grant=ALL, **options) as bridge:  # type: ignore[arg-type]
            found = Bridged(host, conversation, links, bridge)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(found.listen)
                yield found
                nursery.cancel_scope.cancel()
    assert links.faults == []


def statuses(links: Links) -> list[str]:
    results = [json.loads(c.output) for c in links.last.all(SendResult)]
    return [result.get("status", "ok") for result in results]


@BOTH
async def test_a_call_goes_through_the_host_and_back(
    wire: Capabilities, autojump_clock: trio.testing.MockClock
) -> None:  # G35
    ran = Ran()
    model = Model((["A moment. "], [call("look")]), (["A door."], []))
    async with bridged(wire, model, ran.tool("look", 0.2)) as table:
        table.bridge.say("What is there?")
        await trio.sleep(1.0)
        assert table.words() == "A moment. A door."
        assert ran.ended == [("look", 0.2)]
        assert statuses(table.links) == ["ok"]


@BOTH
async def test_each_call_is_held_to_the_bridges_own_limit(
    wire: Capabilities, autojump_clock: trio.testing.MockClock
) -> None:  # G35: 30 s by default
    ran = Ran()
    tool = ran.tool("look", 60.0, estimated_duration=0.01)
    model = Model(([], [call("look")]), (["Never mind."], []))
    async with bridged(wire, model, tool, tool_timeout=0.25) as table:
        table.bridge.say("What is there?")
        await trio.sleep(1.0)
        assert ran.cancelled == [("look", 0.25)]
        assert statuses(table.links) == ["timeout"]
        assert table.words() == "Never mind."


@BOTH
async def test_a_call_that_takes_longer_than_its_tier_goes_on_and_comes_later(
    wire: Capabilities, autojump_clock: trio.testing.MockClock
) -> None:  # G35, D23d
    ran = Ran()
    tool = ran.tool("look", 60.0, estimated_duration=0.01)
    model = Model(([], [call("look")]), *[(["It has failed."], [])] * 2)
    async with bridged(wire, model, tool) as table:
        table.bridge.say("What is there?")
        await trio.sleep(10.0)
        assert not ran.cancelled
        owed = [] if wire is ASKS else ["pending"]  # there it is waited for
        assert statuses(table.links) == owed
        await trio.sleep(25.0)
        assert ran.cancelled == [("look", 30.0)]
        assert table.words().endswith("It has failed.")
        texts = [x.line for x in table.links.last.all(SendText)]
        if wire is ASKS:
            assert statuses(table.links) == ["timeout"]
        else:
            assert "timeout" in texts[-1].text
            assert texts[-1].role == "user"


async def test_a_tier_is_updated_with_one_message_and_counts_when_acknowledged(
    autojump_clock: trio.testing.MockClock,
) -> None:  # D23a
    ran = Ran()
    tools = ran.tool("look", 0.2), ran.tool("study", 3.0)
    model = Model(([], [call("study")]), (["Done."], []))
    async with bridged(ASKS, model, *tools) as table:
        table.live.hear(bytes(960))
        await wait_all_tasks_blocked()
        link = table.links.last
        assert [t.spec.name for t in link.setup.tools] == ["look"]
        assert await table.bridge.update_tier(Tier.DEEP)
        (change,) = link.all(SetTools)
        assert [t.spec.name for t in change.tools] == ["look", "study"]
        table.bridge.say("Study it")
        await trio.sleep(4.0)
        assert ran.ended == [("study", 3.0)]


async def test_a_lower_tier_counts_at_the_gate_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:  # D23a
    ran = Ran()
    tools = ran.tool("look", 0.2), ran.tool("study", 3.0)
    model = Model(([], [call("study")]), (["Not now."], []))
    async with bridged(ANSWERS, model, *tools, tier=Tier.DEEP) as table:
        table.live.hear(bytes(960))
        await wait_all_tasks_blocked()
        assert await table.bridge.update_tier(Tier.FAST)  # and no other socket for it
        table.bridge.say("Study it")
        await trio.sleep(1.0)
        assert ran.began == []
        assert statuses(table.links) == ["denied"] or statuses(table.links) == [
            "skipped"
        ]
        assert len(table.links.opened) == 1


async def test_without_live_tools_a_higher_tier_is_another_socket(
    autojump_clock: trio.testing.MockClock,
) -> None:  # G35, section 2.8
    ran = Ran()
    tools = ran.tool("look", 0.2), ran.tool("study", 3.0)
    async with bridged(ANSWERS, Model((["Good day."], [])), *tools) as table:
        table.bridge.say("Hello")
        await trio.sleep(0.1)
        assert await table.bridge.update_tier(Tier.DEEP)
        await wait_all_tasks_blocked()
        first, second = table.links.opened
        assert first.closed
        assert [t.spec.name for t in second.setup.tools] == ["look", "study"]


async def test_a_socket_that_cannot_be_had_leaves_the_old_one_with_its_tools(
    autojump_clock: trio.testing.MockClock,
) -> None:
    ran = Ran()
    tools = ran.tool("look", 0.2), ran.tool("study", 3.0)
    model = Model((["Good day."], []), ([], [call("study")]), (["Alas."], []))
    async with bridged(ANSWERS, model, *tools) as table:
        table.bridge.say("Hello")
        await trio.sleep(0.1)
        table.links.refusals.append(lost(1007, retryable=False))
        assert not await table.bridge.update_tier(Tier.DEEP, within=1.0)
        assert not table.links.last.closed
        table.bridge.say("Study it")
        await trio.sleep(1.0)
        assert ran.began == []
        assert table.words() == "Good day.Alas."


async def test_closing_detaches_and_closes_neither_session_nor_host(
    autojump_clock: trio.testing.MockClock,
) -> None:  # G35
    ran = Ran()
    links = Links(ASKS)
    conversation = live(links)
    async with open_host() as host, open_live(conversation):
        host.register(ran.tool("look", 0.2))
        async with open_bridge(host, conversation, grant=ALL):
            with pytest.raises(ValueError, match="has a bridge already"):
                async with open_bridge(host, conversation, grant=ALL):
                    pass
            conversation.hear(bytes(960))
            await wait_all_tasks_blocked()
        link = links.last
        assert not link.closed
        assert link.all(SetTools)[-1].tools == ()
        link.push(SpeechStarted(), SpeechStopped(), Heard("Roll", final=True))
        link.speak("r1", calls=[call("look")])
        await wait_all_tasks_blocked()
        assert ran.began == []
        assert statuses(links) == ["cancelled"]
        assert [x.exposed for x in host.tools(Tier.DEEP, grant=ALL, remaining=4.0)]
        async with open_bridge(host, conversation, grant=ALL):
            assert link.all(SetTools)[-1].tools


async def test_speech_is_answered_with_tools_and_nobody_has_to_ask(
    autojump_clock: trio.testing.MockClock,
) -> None:
    ran = Ran()
    async with bridged(ASKS, None, ran.tool("look", 0.2)) as table:
        table.live.hear(bytes(960))
        await wait_all_tasks_blocked()
        link = table.links.last
        link.push(SpeechStarted(), SpeechStopped())
        link.speak("r1", calls=[call("look")])
        await trio.sleep(0.3)
        assert statuses(table.links) == ["ok"]
        assert len(link.all(Respond)) == 1
        assert not link.all(SendText)
        assert [e for e in table.heard if isinstance(e, ResponseEnded)]


async def test_what_is_overtaken_before_it_is_followed_owes_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    ran = Ran()
    async with bridged(ASKS, None, ran.tool("look", 0.2)) as table:
        table.live.hear(bytes(960))
        await wait_all_tasks_blocked()
        link = table.links.last
        now = trio.current_time()
        for at in range(3):  # in one moment, faster than any of it can be followed
            link.speak(f"r{at}", calls=[call("look", id=f"c{at}")])
            for said in (SpeechStarted(), SpeechStopped(), *link.take_all()):
                table.live._shell.take(said, now)
        await trio.sleep(30.0)
        answered = {c.call_id for c in link.all(SendResult)}
        assert answered == {"c0", "c1", "c2"}
        assert not table.live.statistics().owed
