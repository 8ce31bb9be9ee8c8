"""Utterances that the model hears by itself: turns that begin with speech, end with
speech, and are understood late. Times are exact."""

from __future__ import annotations

import json

import attrs
import pytest

import trio
from trio.testing import wait_all_tasks_blocked

from glyphoxa_trio.npc import TierSelected, ToolsShown, TurnDone, TurnEnd
from glyphoxa_trio.npc.events import EngineSwitched, Transcript
from glyphoxa_trio.npc.s2s import RealtimeConversation
from glyphoxa_trio.npc.turn.engine import Microphone
from glyphoxa_trio.npc.turn.listener import Listener
from glyphoxa_trio.providers.s2s import (
    AudioOut,
    Capabilities,
    Heard,
    Interrupted,
    ResponseEnd,
    ResponseEnded,
    ResponseStarted,
    SendAudio,
    SendResult,
    SendText,
    SetTools,
    SpeechStarted,
    SpeechStopped,
    Spoken,
    TranscriptLine,
    Truncate,
)
from glyphoxa_trio.tools.outcome import Status
from glyphoxa_trio.tools.tier import Tier

from ..support import Ran, Reply, Table, ask, call, open_table
from .support import ASKS, Links, live
from .test_turns import BOB, BOTH, Model, open_voice

FRAME = bytes(960)


def conversation(table: Table) -> RealtimeConversation:
    live = table.session.runner.engine.live
    assert live is not None
    return live


async def connected(table: Table, links: Links) -> None:
    """The microphone opens the conversation."""
    conversation(table).hear(FRAME)
    await wait_all_tasks_blocked()
    assert links.last.all(SendAudio)


def dones(table: Table) -> list[TurnDone]:
    return table.events.all(TurnDone)


@BOTH
async def test_what_was_said_is_a_turn_like_any_other(
    wire: Capabilities, autojump_clock: trio.testing.MockClock
) -> None:  # G33
    ran = Ran()
    async with open_voice(wire, None, ran.tool("look", 0.2)) as (table, links):
        await connected(table, links)
        link = links.last
        if wire is ASKS:
            link.push(SpeechStarted(), SpeechStopped("one"))
        link.push(Heard("What is there?", final=True, item="one"))
        link.speak("r1", calls=[call("look")], heard="one")
        await wait_all_tasks_blocked()
        await trio.sleep(0.2)
        await wait_all_tasks_blocked()
        assert len(link.all(SendResult)) == 1
        link.speak("r2", "A door.")
        await wait_all_tasks_blocked()
        (done,) = dones(table)
        assert done.end is TurnEnd.COMPLETED
        assert done.text == "A door."
        assert done.outcomes[0].status is Status.OK
        (words,) = table.events.all(Transcript)
        assert (words.text, words.speaker) == ("What is there?", "player")
        # Both sides of it are remembered for a model that was not there.
        lines = conversation(table).history()
    assert lines[0] == TranscriptLine("user", "What is there?")


async def test_words_so_far_are_all_of_them_and_not_one_more_piece(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_voice(ASKS, None) as (table, links):
        await connected(table, links)
        links.last.push(SpeechStarted(), SpeechStopped())
        await wait_all_tasks_blocked()  # what comes before the turn is told at once
        links.last.push(Heard("What", final=False), Heard("What is", final=False))
        links.last.push(Heard("What is there?", final=True))
        links.last.speak("r1", "A door.")
        await wait_all_tasks_blocked()
        words = [said.text for said in table.events.all(Transcript)]
    assert words == ["What", "What is", "What is there?"]


@BOTH
async def test_ten_utterances_of_mixed_tiers_have_one_list_of_tools(
    wire: Capabilities, autojump_clock: trio.testing.MockClock
) -> None:  # G17, G18, D23d: whatever is said, and whenever the words are known
    ran = Ran()
    tools = [
        ran.tool("quick", 0.1),
        ran.tool("medium", 1.2),
        ran.tool("slow", 3.0),
        ran.tool("study", 20.0),
    ]
    names = [tool.definition.name for tool in tools]
    words = ["Hello", "Think carefully, investigate it", "Who rules the north?"]
    async with open_voice(wire, None, *tools) as (table, links):
        await connected(table, links)
        link = links.last
        for number in range(10):
            if wire is ASKS:
                link.push(SpeechStarted(), SpeechStopped(f"u{number}"))
            said = Heard(words[number % 3], final=True, item=f"u{number}")
            early = number % 2 == 0
            link.push(*([said] if early else []))
            link.speak(f"r{number}", "Hm.", heard=f"u{number}")
            link.push(*([] if early else [said]))
            await trio.sleep(31.0)  # a deep turn is over long ago
        shown = table.events.all(ToolsShown)
        selected = table.events.all(TierSelected)
    assert len(links.opened) == 1
    assert [tool.spec.name for tool in link.setup.tools] == names
    assert not link.all(SetTools)
    assert len(shown) == len(dones(table)) == 10
    for at, event in enumerate(selected):
        assert event.tier is event.ceiling is Tier.DEEP
        assert sorted(shown[at].shown) == sorted(names)
    # What the words call for is told all the same, where they came in time.
    assert [x.selected for x in selected][2:5:2] == [Tier.STANDARD, Tier.DEEP]


async def test_other_tools_are_told_when_the_model_says_nothing_and_once(
    autojump_clock: trio.testing.MockClock,
) -> None:  # G17, G35, G31
    ran = Ran()
    npc = attrs.evolve(BOB, budget_tier=Tier.STANDARD)
    links = Links(ASKS)
    tools = ran.tool("look", 0.2), ran.tool("study", 3.0)
    async with open_table([], *tools, live=live(links), npc=npc) as table:
        await connected(table, links)
        link = links.last
        assert [tool.spec.name for tool in link.setup.tools] == ["look"]
        link.push(SpeechStarted(), SpeechStopped("u"), ResponseStarted("r"))
        await wait_all_tasks_blocked()
        await table.npc.elevate(Tier.DEEP, seconds=60.0)
        table.host.register(ran.tool("late", 0.1))
        await wait_all_tasks_blocked()
        assert not link.all(SetTools)
        link.push(ResponseEnded(response="r", end=ResponseEnd.COMPLETED))
        await wait_all_tasks_blocked()
        (change,) = link.all(SetTools)
        assert [x.spec.name for x in change.tools] == ["look", "study", "late"]
        # And at once while nobody speaks.
        table.host.deregister("test.late")
        await wait_all_tasks_blocked()
        assert [x.spec.name for x in link.all(SetTools)[-1].tools] == ["look", "study"]


async def test_what_is_measured_of_a_tool_changes_no_list(
    autojump_clock: trio.testing.MockClock,
) -> None:  # G17
    ran = Ran()
    npc = attrs.evolve(BOB, budget_tier=Tier.STANDARD)
    links = Links(ASKS)
    # It says 50 ms and takes a second and a half.
    tool = ran.tool("look", 1.45, estimated_duration=0.05)
    async with open_table([], tool, live=live(links), npc=npc) as table:
        await connected(table, links)
        link = links.last
        for number in range(8):
            link.push(SpeechStarted(), SpeechStopped(f"u{number}"))
            link.speak(f"r{number}", calls=[call("look", id=f"c{number}")])
            await trio.sleep(1.5)
            link.speak(f"s{number}", "Hm.")
            await trio.sleep(1.0)
        listing = table.host.snapshot.find("look")
        assert listing.estimate.tier is Tier.STANDARD
        assert not link.all(SetTools)


async def test_the_dms_choice_caps_what_a_call_may_do_and_declares_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:  # D2, D23d
    ran = Ran()
    model = Model(([], [call("study")]), (["No."], []))
    async with open_voice(ASKS, model, ran.tool("study", 3.0)) as (table, links):
        heard = await ask(table.npc, "Study it", tier=Tier.FAST)
        assert heard.done.outcomes[0].status is Status.SKIPPED
        assert heard.only(TierSelected).tier is Tier.FAST
        assert [tool.spec.name for tool in links.last.setup.tools] == ["study"]


@BOTH
async def test_barging_in_ends_the_turn_and_its_call_at_once(
    wire: Capabilities, autojump_clock: trio.testing.MockClock
) -> None:  # D12a; field problem 3
    ran = Ran()
    async with open_voice(wire, None, ran.tool("look", 1.0)) as (table, links):
        await connected(table, links)
        link = links.last
        if wire is ASKS:
            link.push(SpeechStarted(), SpeechStopped("one"))
        link.push(Heard("What is there?", final=True, item="one"))
        link.speak("r1", "Hm.", calls=[call("look")], heard="one")
        await trio.sleep(0.5)
        began = trio.current_time()
        link.push(SpeechStarted() if wire is ASKS else Interrupted())
        await wait_all_tasks_blocked()
        assert trio.current_time() == began
        (done,) = dones(table)
        assert done.end is TurnEnd.INTERRUPTED
        (result,) = link.all(SendResult)
        assert json.loads(result.output)["status"] == "cancelled"
        assert [at for _, at in ran.cancelled] == [began]
        if wire is ASKS:
            link.push(SpeechStopped("two"))
        link.push(Heard("No, wait.", final=True, item="two"))
        link.speak("r2", "Yes?", heard="two")
        await wait_all_tasks_blocked()
        assert dones(table)[1].text == "Yes?"


async def test_what_was_not_played_is_cut_from_the_models_memory(
    autojump_clock: trio.testing.MockClock,
) -> None:  # D12a; field problem 10
    async with open_voice(ASKS, None) as (table, links):
        await connected(table, links)
        link = links.last
        heard: list[Listener] = []
        async with table.npc.attach_microphone("Ann", Microphone(heard.append)):
            link.push(SpeechStarted(), SpeechStopped(), Heard("Speak!", final=True))
            link.push(ResponseStarted("r1"), Spoken("r1", "item", "Long ago. "))
            second = bytes(ASKS.output_rate * 2)
            link.push(AudioOut("r1", "item", second), AudioOut("r1", "item", second))
            await wait_all_tasks_blocked()
            heard[0].played(0.75)
            link.push(SpeechStarted())
            await wait_all_tasks_blocked()
            assert link.all(Truncate) == [Truncate("item", 750)]


async def test_a_turn_that_needs_slow_tools_goes_through_the_text_model(
    autojump_clock: trio.testing.MockClock,
) -> None:  # G37, D23b
    ran = Ran()
    links = Links(ASKS, on_send=Model((["Good day."], []), (["Aye."], [])))
    script: list[Reply] = [[call("study")], ["It is a trap."]]
    async with open_table(
        script, ran.tool("study", 3.0), live=live(links), npc=BOB
    ) as table:
        await ask(table.npc, "Hello")
        heard = await ask(table.npc, "Think carefully, investigate the door")
        switched = heard.only(EngineSwitched)
        assert (switched.engine, switched.instead_of) == ("cascaded", "s2s")
        assert "study" in switched.reason
        assert heard.done.text == "It is a trap."
        assert heard.only(TierSelected).tier is Tier.DEEP
        await ask(table.npc, "Thanks")
        assert links.last.all(SendText)[-3:] == [
            SendText(
                TranscriptLine("user", "Think carefully, investigate the door"), False
            ),
            SendText(TranscriptLine("assistant", "It is a trap."), False),
            SendText(TranscriptLine("user", "Thanks"), True),
        ]


async def test_a_silent_microphone_costs_a_socket_and_nothing_else(
    autojump_clock: trio.testing.MockClock,
) -> None:  # field problem: a silent microphone
    links = Links(ASKS)
    conversation = live(links, idle=60.0)
    async with open_table([], live=conversation, npc=BOB) as table:
        for _ in range(100):
            conversation.hear(FRAME)
            await trio.sleep(0.5)
        assert len(links.opened) == 1
        await trio.sleep(61.0)  # nobody listens any more
        assert links.last.closed
        assert not conversation.statistics().connected
        assert dones(table) == []
        conversation.hear(FRAME)
        await wait_all_tasks_blocked()
        assert len(links.opened) == 2


async def test_two_players_at_one_npc_wait_for_each_other(
    autojump_clock: trio.testing.MockClock,
) -> None:  # field problem: two players
    ran = Ran()
    model = Model(([], [call("look")]), (["A door."], []), (["Yours."], []))
    async with open_voice(ASKS, model, ran.tool("look", 0.4)) as (table, _):
        heard = {}

        async def say(who: str, after: float) -> None:
            heard[who] = await ask(table.npc, f"I am {who}", speaker=who, after=after)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, "Ann", 0.0)
            nursery.start_soon(say, "Ben", 0.1)
        assert heard["Ann"].done.text == "A door."
        assert heard["Ben"].done.text == "Yours."
        shown = heard["Ben"].when(ToolsShown)
        assert shown == [pytest.approx(0.4)]


async def test_a_response_that_was_cut_has_no_calls(
    autojump_clock: trio.testing.MockClock,
) -> None:  # field problem 4: truncated arguments of a discarded response
    ran = Ran()
    async with open_voice(ASKS, None, ran.tool("look", 0.2)) as (table, links):
        await connected(table, links)
        link = links.last
        link.push(SpeechStarted(), SpeechStopped(), Heard("Go on", final=True))
        link.push(ResponseStarted("r1"), SpeechStarted())
        link.push(ResponseEnded(response="r1", end=ResponseEnd.CANCELLED, void=("c1",)))
        await wait_all_tasks_blocked()
        assert ran.began == []
        (result,) = link.all(SendResult)
        assert result.call_id == "c1"
        assert json.loads(result.output)["status"] == "cancelled"


async def test_what_is_still_being_played_is_void_when_somebody_speaks(
    autojump_clock: trio.testing.MockClock,
) -> None:
    # D12a: a model has said all of it long before it was heard.
    async with open_voice(ASKS, None) as (table, links):
        flushed = []
        heard: list[Listener] = []
        microphone = Microphone(heard.append, lambda: flushed.append(1))
        async with table.npc.attach_microphone("Ann", microphone):
            await connected(table, links)
            link = links.last
            link.push(SpeechStarted(), SpeechStopped(), Heard("Speak!", final=True))
            link.speak("r1", "Once upon ", "a time. ")
            await wait_all_tasks_blocked()
            heard[0].played(0.05)
            async for _ in heard[0].stream:
                pass
            assert dones(table)[0].end is TurnEnd.COMPLETED
            await trio.sleep(0.02)
            heard[0].played(0.1)
            link.push(SpeechStarted())
            await wait_all_tasks_blocked()
            assert flushed == [1, 1]  # the first time they spoke as well
            assert link.all(Truncate) == [Truncate("r1.item", 100)]
            assert heard[0].heard == "Once upon"


async def test_a_turn_that_is_overtaken_before_it_began_owes_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    ran = Ran()
    async with open_voice(ASKS, None, ran.tool("look", 0.2)) as (table, links):
        await connected(table, links)
        link = links.last
        for at in range(3):  # in one moment, faster than any turn begins
            link.push(SpeechStarted(), SpeechStopped())
            link.speak(f"r{at}", calls=[call("look", id=f"c{at}")])
        await trio.sleep(30.0)
        answered = {c.call_id for c in link.all(SendResult)}
        assert answered == {"c0", "c1", "c2"}
        assert conversation(table).quiet
