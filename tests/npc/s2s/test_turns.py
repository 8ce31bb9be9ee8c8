"""Turns of a speech-to-speech NPC: the real session, host and gate, and a server
that a test plays. Times are exact."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import trio
from trio.testing import wait_all_tasks_blocked

from glyphoxa_trio.config import NpcConfig
from glyphoxa_trio.config.voices import Engine, FillerConfig, S2SConfig
from glyphoxa_trio.npc import (
    FanOutDone,
    FellBack,
    Filler,
    ModelFailed,
    Sentence,
    TextDelta,
    ToolFinished,
    ToolsShown,
    TurnDone,
    TurnEnd,
)
from glyphoxa_trio.npc.events import Speech
from glyphoxa_trio.npc.s2s.talk import STILL_WORKING
from glyphoxa_trio.providers.s2s import (
    Cancel,
    Capabilities,
    Command,
    GoingAway,
    HandleIssued,
    InteractionEnded,
    Interrupted,
    Respond,
    ResponseEnd,
    ResponseEnded,
    ResponseStarted,
    Schedule,
    SendResult,
    SendText,
    Spoken,
    TranscriptLine,
)
from glyphoxa_trio.tools.definition import Tool, ToolDefinition
from glyphoxa_trio.tools.outcome import Status, ToolResult
from glyphoxa_trio.tools.tier import DEFAULT_LIMITS, Tier

from ..support import Ran, Script, Table, ask, call, open_table
from .support import ANSWERS, ASKS, Links, ScriptedLink, live, lost


class Model:
    """Answers one round after another: words and calls, as soon as it is asked. Asked
    to say something meanwhile, it does."""

    def __init__(self, *rounds: Any) -> None:
        self.rounds = list(rounds)
        self.count = 0
        self.owed = 0
        self.waits = 0

    def __call__(self, link: ScriptedLink, command: Command) -> None:
        asks = link.capabilities.asks_for_responses
        silent = False
        if STILL_WORKING in str(command):
            self.waits += 1
            link.speak(f"w{self.waits}", "Wait. ")
            return
        if isinstance(command, SendResult):
            self.owed -= 1
            silent = command.schedule is Schedule.SILENT
        wanted = (
            isinstance(command, Respond)
            if asks
            else (isinstance(command, SendText) and command.reply)
            or (isinstance(command, SendResult) and not self.owed and not silent)
        )
        if wanted and self.rounds:
            words, calls = self.rounds.pop(0)
            self.count += 1
            self.owed = len(calls)
            link.speak(f"r{self.count}", *words, calls=calls)


@asynccontextmanager
async def open_voice(
    capabilities: Capabilities, model: Any, *tools: Any, **options: Any
) -> AsyncIterator[tuple[Table, Links]]:
    links = Links(capabilities, on_send=model)
    async with open_table([], *tools, live=live(links), npc=BOB, **options) as table:
        yield table, links
    assert links.faults == []


BOB = NpcConfig(
    name="Bob",
    engine=Engine.S2S,
    budget_tier=Tier.DEEP,
    fallback=("Hm?", "What was that?"),
)
BOTH = pytest.mark.parametrize("wire", [ASKS, ANSWERS], ids=["asks", "answers"])


@BOTH
@pytest.mark.parametrize("wanted", [False, True])
async def test_fillers_are_told_of_only_if_they_are_wanted(
    wire: Capabilities, wanted: bool, autojump_clock: trio.testing.MockClock
) -> None:  # A19
    model = Model((["One moment."], [call("look")]), (["A door."], []))
    how = S2SConfig(filler=wanted, route=False)
    look, config = Ran().tool("look", 2.0), FillerConfig()
    async with open_voice(wire, model, look, s2s=how, filler=config) as (table, _):
        heard = await ask(table.npc, "What is there?", tier=Tier.DEEP)
    said = [(at, e.round) for at, e in heard.events if isinstance(e, Filler)]
    assert said == ([(0.7, 0)] if wanted else [])
    meanwhile = "" if wanted else "Wait. "
    assert heard.done.text == f"One moment. {meanwhile}A door."


async def test_a_turn_that_goes_through_the_text_model_has_its_fillers(
    autojump_clock: trio.testing.MockClock,
) -> None:  # A19
    script: Script = [[call("look")], ["A door."]]
    look, config = Ran().tool("look", 2.0), FillerConfig()
    links = Links(ASKS, on_send=Model())
    async with open_table(
        script, look, live=live(links), npc=BOB, filler=config
    ) as table:
        heard = await ask(table.npc, "What is there?", tier=Tier.DEEP)
    assert heard.when(Filler) == [0.7]
    assert heard.done.text == "A door."


@BOTH
async def test_a_text_turn_speaks_and_uses_a_tool(
    wire: Capabilities, autojump_clock: trio.testing.MockClock
) -> None:  # G33, G36
    ran = Ran()
    model = Model((["One moment."], [call("look")]), (["A door. ", "A tree."], []))
    async with open_voice(wire, model, ran.tool("look", 0.2)) as (table, links):
        heard = await ask(table.npc, "What is there?")
    assert heard.only(ToolsShown).shown == ("look",)
    assert [e.text for e in heard.of(TextDelta)] == [
        "One moment.",
        "A door. ",
        "A tree.",
    ]
    assert [e.text for e in heard.of(Sentence)] == ["One moment.", "A door.", "A tree."]
    assert [e.seconds for e in heard.of(Speech)] == [0.1, 0.1, 0.1]
    assert heard.only(ToolFinished).outcome.status is Status.OK
    assert heard.only(FanOutDone).elapsed == 0.2
    assert heard.done.end is TurnEnd.COMPLETED
    assert heard.done.text == "One moment. A door. A tree."
    assert heard.done.timings.tools == 0.2
    (link,) = links.opened
    (result,) = link.all(SendResult)
    assert json.loads(result.output)["message"] == "look is done"
    assert [spec.spec.name for spec in link.setup.tools] == ["look"]


@BOTH
async def test_calls_of_one_response_cost_the_slowest_and_are_answered_as_they_end(
    wire: Capabilities, autojump_clock: trio.testing.MockClock
) -> None:  # G26
    ran = Ran()
    model = Model(([], [call("slow"), call("quick")]), (["Both."], []))
    tools = ran.tool("slow", 0.4), ran.tool("quick", 0.1)
    async with open_voice(wire, model, *tools) as (table, links):
        heard = await ask(table.npc)
        sent = [(at, c.name) for at, c in links.last.sent if isinstance(c, SendResult)]
    assert [name for _, name in sent] == ["quick", "slow"]
    assert sent[1][0] - sent[0][0] == pytest.approx(0.3)
    assert [o.call.name for o in heard.done.outcomes] == ["slow", "quick"]  # as called
    assert heard.only(FanOutDone).elapsed == pytest.approx(0.4)


@BOTH
async def test_the_ceiling_holds_and_the_model_is_told(
    wire: Capabilities, autojump_clock: trio.testing.MockClock
) -> None:  # G16
    ran = Ran()
    model = Model(([], [call("look")]), (["A door."], []))
    tool = ran.tool("look", 9.0, estimated_duration=0.1)
    async with open_voice(wire, model, tool) as (table, links):
        heard = await ask(table.npc, tier=None)
        held = wire is ANSWERS  # it is declared as a tool that is waited for
        assert heard.done.timings.tools == (1.0 if held else 4.0)
        assert heard.done.outcomes[0].status is Status.PENDING
        answers = links.last.all(SendResult)
        assert [json.loads(x.output)["status"] for x in answers] == ["pending"] * held
        await trio.sleep_until(9.0)
        await wait_all_tasks_blocked()
        # It is told when it is there, and has a reply of its own.
        assert not ran.cancelled
        assert table.events.all(TurnDone)[-1].text == "A door."


@BOTH
async def test_leaving_a_turn_stops_the_model_and_answers_its_calls(
    wire: Capabilities, autojump_clock: trio.testing.MockClock
) -> None:  # field problem 18
    ran = Ran()
    model = Model(([], [call("look")]), (["Later."], []))
    async with open_voice(wire, model, ran.tool("look", 1.0)) as (table, links):
        left = await ask(table.npc, leave_at=0.5)
        assert left.turn is not None
        (result,) = links.last.all(SendResult)
        assert json.loads(result.output)["status"] == "cancelled"
        assert ran.cancelled == [("look", 0.5)]
        await wait_all_tasks_blocked()
        heard = await ask(table.npc, "And now?")
    assert heard.done.end is TurnEnd.COMPLETED


async def test_what_a_model_says_to_a_turn_that_was_left_is_not_heard(
    autojump_clock: trio.testing.MockClock,
) -> None:
    links = Links(ANSWERS)
    async with open_table([], live=live(links), npc=BOB) as table:
        await ask(table.npc, "Hello", leave_at=0.5)
        links.last.push(ResponseStarted("late"), Spoken("late", "i", "Too late."))
        await wait_all_tasks_blocked()
        assert table.events.all(TurnDone)[-1].turn == 1
        heard = []
        async with trio.open_nursery() as nursery:

            async def listen() -> None:
                heard.append(await ask(table.npc, "You there?"))

            nursery.start_soon(listen)
            await wait_all_tasks_blocked()
            links.last.push(
                Spoken("late", "i", "Much too late."),
                Interrupted(),
                ResponseEnded(response="late", end=ResponseEnd.CANCELLED),
                InteractionEnded(),
            )
            links.last.speak("r2", "Yes.")
    assert heard[0].done.text == "Yes."


async def test_a_response_that_is_not_wanted_any_more_is_cancelled(
    autojump_clock: trio.testing.MockClock,
) -> None:
    links = Links(ASKS)
    async with open_table([], live=live(links), npc=BOB) as table:
        await ask(table.npc, "Hello", leave_at=0.5)
        assert [at for at, c in links.last.sent if isinstance(c, Cancel)] == [0.5]


@BOTH
async def test_a_result_outlives_its_socket_and_is_told_as_text(
    wire: Capabilities, autojump_clock: trio.testing.MockClock
) -> None:  # field problem 6
    ran = Ran()
    model = Model(([], [call("look")]), (["A door."], []))
    async with open_voice(wire, model, ran.tool("look", 1.0)) as (table, links):
        async with trio.open_nursery() as nursery:

            async def cut() -> None:
                await trio.sleep(0.3)
                links.last.push(lost())

            nursery.start_soon(cut)
            heard = await ask(table.npc, "What is there?")
    assert heard.done.end is TurnEnd.COMPLETED
    assert heard.done.text == "A door."
    first, second = links.opened
    assert not first.all(SendResult)
    assert not second.all(SendResult)
    texts = [c.line.text for c in second.all(SendText)]
    assert any("Result of the earlier call of look" in text for text in texts)
    assert ran.began == [("look", 0.0)]


@BOTH
async def test_a_model_that_cannot_be_reached_fails_the_turn_and_not_the_session(
    wire: Capabilities, autojump_clock: trio.testing.MockClock
) -> None:
    model = Model((["Here I am."], []))
    async with open_voice(wire, model) as (table, links):
        links.refusals.append(lost(1008, retryable=False))
        heard = await ask(table.npc)
        assert heard.done.end is TurnEnd.FAILED
        assert heard.of(ModelFailed)
        assert heard.of(FellBack)
        again = await ask(table.npc)
    assert again.done.text == "Here I am."


async def test_a_model_that_says_nothing_is_waited_for_so_long(
    autojump_clock: trio.testing.MockClock,
) -> None:  # D0
    async with open_voice(ASKS, None) as (table, _):
        heard = await ask(table.npc)
    assert heard.done.end is TurnEnd.FAILED
    assert heard.done.timings.model == 5.0


async def test_when_no_socket_can_be_had_nothing_is_tried_until_somebody_speaks(
    autojump_clock: trio.testing.MockClock,
) -> None:
    ran = Ran()
    model = Model(([], [call("look")]), (["Back again."], []))
    async with open_voice(ASKS, model, ran.tool("look", 1.0)) as (table, links):
        async with trio.open_nursery() as nursery:

            async def cut() -> None:
                await trio.sleep(0.3)
                links.refusals.append(lost(1008, retryable=False))
                links.last.push(lost())

            nursery.start_soon(cut)
            heard = await ask(table.npc, "What is there?")
        assert heard.done.end is TurnEnd.FAILED
        await trio.sleep(300.0)
        assert len(links.tried) == 2
        again = await ask(table.npc, "Are you there?")
    assert again.done.text == "Back again."


async def test_attempts_to_connect_are_ever_further_apart_and_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_voice(ASKS, None) as (table, links):
        links.refusals.extend(lost() for _ in range(9))
        heard = await ask(table.npc, "Hello")
        assert links.tried == [0.0, 0.5, 1.5, 3.5]
        assert heard.done.end is TurnEnd.FAILED
        assert heard.done.timings.total == 3.5


async def test_a_notice_to_leave_is_followed_when_nobody_speaks(
    autojump_clock: trio.testing.MockClock,
) -> None:  # field problem 17; goAway
    ran = Ran()
    model = Model(([], [call("look")]), (["A door."], []), (["Still here."], []))
    async with open_voice(ANSWERS, model, ran.tool("look", 1.0)) as (table, links):
        async with trio.open_nursery() as nursery:

            async def notice() -> None:
                await trio.sleep(0.3)
                links.last.push(HandleIssued("h1"), GoingAway(50.0))

            nursery.start_soon(notice)
            heard = await ask(table.npc, "What is there?")
        assert heard.done.text == "A door."
        await wait_all_tasks_blocked()
        assert links.tried == [0.0, 1.0]  # the tool had its result, on its own socket
        assert links.opened[0].all(SendResult)
        assert links.opened[1].setup.handle == "h1"
        again = await ask(table.npc, "Hello?")
        assert again.done.text == "Still here."


async def test_a_socket_is_replaced_at_its_age_with_what_was_said(
    autojump_clock: trio.testing.MockClock,
) -> None:  # field problem 17; rotation at 55 minutes
    model = Model((["Good day."], []), (["Still here."], []))
    links = Links(ASKS, on_send=model)
    conversation = live(links, rotate=3300.0, idle=7200.0)
    async with open_table([], live=conversation, npc=BOB) as table:
        await ask(table.npc, "Hello")
        await trio.sleep(3400.0)
        assert links.tried == [0.0, 3300.0]
        assert links.opened[0].closed
        assert links.last.setup.history == (
            TranscriptLine("user", "Hello"),
            TranscriptLine("assistant", "Good day."),
        )
        again = await ask(table.npc, "Hello?")
        assert again.done.text == "Still here."


async def test_an_internal_error_after_a_result_is_answered_with_less(
    autojump_clock: trio.testing.MockClock,
) -> None:  # A20; field problem 12
    async def long(*_: object) -> ToolResult:
        return ToolResult(text=("word " * 2000,))

    def die(link: ScriptedLink, command: Command) -> None:
        match command:
            case SendText(reply=True) if len(links.opened) == 1:
                link.speak("r1", calls=[call("read")])
            case SendResult():
                link.push(HandleIssued("h"), lost(1011))
            case SendText(reply=True):
                link.speak("r2", "It is long.")
            case _:
                pass

    tool = Tool(
        definition=ToolDefinition(
            name="read",
            group="test",
            read_only=True,
            estimated_duration=0.01,
            parameters={"type": "object"},
        ),
        handler=long,
    )
    links = Links(ANSWERS, on_send=die)
    async with open_table([], tool, live=live(links), npc=BOB) as table:
        heard = await ask(table.npc, "Read it")
    assert heard.done.text == "It is long."
    first, second = links.opened
    assert len(first.all(SendResult)[0].output) > 1000
    (told,) = [c for c in second.all(SendText) if "earlier call" in c.line.text]
    assert len(told.line.text) < 400
    assert not second.all(SendResult)


async def test_parallel_results_are_spoken_of_once(
    autojump_clock: trio.testing.MockClock,
) -> None:  # G36: SILENT but for the last
    ran = Ran()
    model = Model(([], [call("slow"), call("quick")]), (["Both."], []))
    tools = ran.tool("slow", 0.4), ran.tool("quick", 0.1)
    async with open_voice(ANSWERS, model, *tools) as (table, links):
        heard = await ask(table.npc)
        results = links.last.all(SendResult)
    assert heard.done.text == "Both."
    assert [(r.name, r.schedule) for r in results] == [
        ("quick", Schedule.SILENT),
        ("slow", Schedule.WHEN_IDLE),
    ]


async def test_a_handle_that_is_not_taken_any_more_is_replaced_by_what_was_said(
    autojump_clock: trio.testing.MockClock,
) -> None:  # field problem 20
    model = Model((["Good day."], []), (["Still here."], []))
    links = Links(ANSWERS, on_send=model)
    conversation = live(links, idle=30.0)
    async with open_table([], live=conversation, npc=BOB) as table:
        await ask(table.npc, "Hello")
        links.last.push(HandleIssued("old"))
        await trio.sleep(40.0)  # the socket rests
        links.refusals.append(lost(1008, retryable=False))
        heard = await ask(table.npc, "Hello?")
    assert heard.done.text == "Still here."
    assert links.last.setup.handle is None
    assert links.last.setup.history[0] == TranscriptLine("user", "Hello")


@BOTH
@pytest.mark.parametrize("schedule", [Schedule.SILENT, Schedule.INTERRUPT])
async def test_a_tool_says_whether_its_result_is_spoken_of(
    wire: Capabilities, schedule: Schedule, autojump_clock: trio.testing.MockClock
) -> None:  # G36; field problem 19
    ran = Ran()
    model = Model((["I note it. "], [call("note")]), (["Noted!"], []))
    async with open_voice(wire, model, ran.tool("note", 0.1, schedule=schedule)) as (
        table,
        links,
    ):
        heard = await ask(table.npc, "Note it")
        (result,) = links.last.all(SendResult)
    silent = schedule is Schedule.SILENT
    assert heard.done.end is TurnEnd.COMPLETED
    assert heard.done.text == ("I note it." if silent else "I note it. Noted!")
    assert result.schedule is schedule
    assert not heard.of(FellBack)


@BOTH
@pytest.mark.parametrize("tier", [Tier.FAST, Tier.STANDARD])
async def test_an_estimate_that_is_the_ceiling_runs_on_a_real_clock(
    wire: Capabilities, tier: Tier
) -> None:
    # Found: every such call was skipped, "needs 500 ms, 500 ms left".
    exact = Ran().tool("exact", 0.0, estimated_duration=DEFAULT_LIMITS.ceiling(tier))
    model = Model(([], [call("exact")]), (["Done."], []))
    async with open_voice(wire, model, exact, s2s=S2SConfig(route=False)) as (table, _):
        heard = await ask(table.npc, "What is there?", tier=tier)
    assert [x.status for x in heard.done.outcomes] == [Status.OK]


@BOTH
async def test_a_model_that_says_nothing_to_a_late_result_is_no_failure(
    wire: Capabilities, autojump_clock: trio.testing.MockClock
) -> None:  # D23d: nobody has asked it anything
    ran = Ran()
    model = Model((["One moment. "], [call("look")]))
    async with open_voice(wire, model, ran.tool("look", 20.0)) as (table, links):
        heard = await ask(table.npc)
        assert heard.done.text.startswith("One moment.")
        await trio.sleep(40.0)
        report = table.events.all(TurnDone)[-1]
        assert (report.turn, report.end, report.text) == (2, TurnEnd.COMPLETED, "")
        assert not table.events.all(FellBack)
        (answer,) = links.last.all(SendResult)
        assert json.loads(answer.output)["message"] == "look is done"


async def test_a_late_result_waits_for_a_turn_of_somebody_else(
    autojump_clock: trio.testing.MockClock,
) -> None:  # D23d, D23b: it takes its turn, and interrupts nobody
    ran = Ran()
    links = Links(ASKS, on_send=Model(([], [call("look")]), (["A door."], [])))
    script: Script = [[3.0, "It is ", 3.0, "a trap."]]
    tools = ran.tool("look", 20.0), ran.tool("study", 3.0)
    async with open_table(script, *tools, live=live(links), npc=BOB) as table:
        await ask(table.npc, "Look there")
        text = "Think carefully, investigate it"  # through the text model
        heard = await ask(table.npc, text, after=17.0, speaker="Ann")
        assert heard.done.text == "It is a trap."
        assert heard.done.end is TurnEnd.COMPLETED
        await trio.sleep(5.0)
        assert table.events.all(TurnDone)[-1].text == "A door."
