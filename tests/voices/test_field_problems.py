"""What goes wrong in the field between a program and a speech-to-speech model, each
problem from end to end: `docs/voices.md` has the list, and the tests of the others.

Virtual time: real session, provider and wire at the strict fake of the vendor, which
must find no fault. Times are exact where they are asserted.
"""

from __future__ import annotations

import json
import math
import re
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.config import TurnConfig
from glyphoxa_trio.npc import TextDelta, ToolFinished, TurnDone, TurnEnd
from glyphoxa_trio.npc.events import Speech
from glyphoxa_trio.npc.s2s.talk import STILL_WORKING
from glyphoxa_trio.testing.gemini_server import GoAway, TurnComplete
from glyphoxa_trio.testing.realtime_server import (
    Close,
    Drop,
    Error,
    Expire,
    FailResponse,
    HangResponse,
    ModelTurn,
    On,
    PauseResponse,
    Reply,
    Speak,
    SpokenCallTools,
    UserSpeaks,
)
from glyphoxa_trio.tools.definition import CallContext, Tool, ToolDefinition
from glyphoxa_trio.tools.outcome import Status, ToolResult
from glyphoxa_trio.tools.tier import Tier

from ..npc.support import Heard, Ran, ask
from .support import (
    BOB,
    EACH,
    EVERY,
    EVERY_GEMINI,
    GEMINI_25,
    GEMINI_31,
    GEMINI_38,
    OPENAI,
    THINKING,
    Server,
    live_of,
    open_talk,
    sent_by,
)

# Cannot be told when to speak of a result, so it does of each.
EVERY_BUT_THINKING = pytest.mark.parametrize(
    "model", [OPENAI, GEMINI_25, GEMINI_31, GEMINI_38]
)
LOOK = SpokenCallTools([("look", {})])
WRITE = SpokenCallTools([("write", {})])


def test_every_test_in_the_list_is_there() -> None:
    root = Path(__file__).parents[2]
    page = (root / "docs/voices.md").read_text(encoding="utf-8")
    listed = page.split("## Field problems")[1].split("\n## ")[0]
    rows = [row for row in listed.splitlines() if row.startswith("| ")][2:]
    numbers = [row.split("|")[1].strip() for row in rows]
    assert [x for x in numbers if x != "-"] == [str(n) for n in range(1, 21)]
    for row in rows:
        named = re.findall(r"`(\w+/[\w/]+\.py)::(test_\w+)`", row)
        assert named, row
        for path, name in named:
            source = (root / "tests" / path).read_text(encoding="utf-8")
            assert f"def {name}(" in source, name


def after_tools(*first: Any, then: Any = "A door.") -> Callable[[ModelTurn], Reply]:
    """These steps at first, and those words once there is any result."""

    def script(turn: ModelTurn) -> Reply:
        told = any(
            "earlier call" in x.text or "Result of" in x.text for x in turn.lines
        )
        if turn.outputs or told:
            return Speak(then)
        if STILL_WORKING in f"{turn.user} {turn.request}":
            return Speak("Wait.", ms=1200)
        return list(first)

    return script


def results_of(server: Server) -> list[tuple[str, Any]]:
    """Every answer to a call that clients gave: its id, and what it says."""
    if isinstance(server.sessions[0].wire.received[0].get("setup"), dict):
        return [
            (answer["id"], answer["response"])
            for message in sent_by(server, "toolResponse")
            for answer in message["toolResponse"]["functionResponses"]
        ]
    return [
        (message["item"]["call_id"], json.loads(message["item"]["output"]))
        for message in sent_by(server, "function_call_output")
    ]


def noise(ms: int, rate: int) -> bytes:
    wave = (int(9000 * math.sin(i * 0.3)) for i in range(rate * ms // 1000))
    return array("h", wave).tobytes()


def vowel(ms: int, rate: int) -> bytes:
    """Somebody says Ah, as far as a detector of speech can tell."""

    def at(time: float) -> int:
        return int(3000 * sum(math.sin(820 * n * time) / n for n in range(1, 12)))

    return array("h", (at(i / rate) for i in range(rate * ms // 1000))).tobytes()


# 1: conversation_already_has_active_response


async def test_a_response_of_the_server_that_crosses_ours_costs_neither(
    autojump_clock: MockClock,
) -> None:  # 1
    said = []

    def script(turn: ModelTurn) -> Reply:
        said.append(turn.user)
        return Speak(f"You said {turn.user}.", ms=400, paced=True)

    # Somebody is heard in the moment in which the words are sent.
    trap = On("message", UserSpeaks("Wait", ms=0))
    async with open_talk(OPENAI, script, traps=[trap]) as (table, server):
        heard = await ask(table.npc, "Hello")
        await trio.sleep(15)
        refused = [
            message
            for message in server.sessions[0].wire.sent
            if message["type"] == "error"
        ]
        assert [x["error"]["code"] for x in refused] == [
            "conversation_already_has_active_response"
        ]
        assert heard.done.end is TurnEnd.INTERRUPTED
        ended = table.events.all(TurnDone)
        assert [x.text for x in ended] == ["", "You said Wait."]
        again = await ask(table.npc, "And now?")
    assert again.done.text == "You said And now?."
    assert said == ["Wait", "And now?"]


async def test_tools_that_end_apart_ask_for_one_response(
    autojump_clock: MockClock,
) -> None:  # 1, 2
    ran = Ran()
    both = SpokenCallTools([("look", {}), ("read", {})])
    tools = ran.tool("look", 0.1), ran.tool("read", 0.4)
    async with open_talk(OPENAI, after_tools(both), *tools) as (table, server):
        heard = await ask(table.npc)
        assert heard.done.text == "A door."
        assert len(sent_by(server, "response.create")) == 2  # the words, the results
        assert len(results_of(server)) == 2
        assert not server.warnings


# 3, 5, 18, 19: what a tool is for nobody any more


@EVERY
async def test_a_result_that_comes_after_the_user_went_on_is_not_spoken_of(
    model: str, autojump_clock: MockClock
) -> None:  # 3, 18, 19; interruption while a tool with side effects runs
    ran = Ran()

    def script(turn: ModelTurn) -> Reply:
        if turn.user == "Write it down":
            # Without the words first, one that thinks might be thinking aloud.
            late = False if model == THINKING else None
            return [WRITE, UserSpeaks("Never mind", ms=100, after=0.2, late=late)]
        return Speak("As you wish.", ms=40)

    write = ran.tool("write", 1.0, read_only=False)
    async with open_talk(model, script, write) as (table, server):
        heard = await ask(table.npc, "Write it down")
        assert heard.done.end is TurnEnd.INTERRUPTED
        await trio.sleep(30)
        # What changes something is not cancelled half-way, and nobody is told twice.
        assert [name for name, _ in ran.ended] == ["write"]
        assert ran.cancelled == []
        # The one that takes no schedule says a word to any result.
        again = ["As you wish."] * (model == THINKING)
        ended = [x.text for x in table.events.all(TurnDone)]
        assert ended == ["", "As you wish.", *again]
        assert len(results_of(server)) <= 1
        assert not live_of(table).statistics().owed
        last = await ask(table.npc, "And now?")
        assert last.done.text == "As you wish."
        assert not server.warnings


@EVERY
async def test_a_call_that_the_listener_leaves_does_not_mute_the_model(
    model: str, autojump_clock: MockClock
) -> None:  # 5, 18
    ran = Ran()

    def script(turn: ModelTurn) -> Reply:
        if turn.user == "Look":
            return Speak("Well.", ms=40) if turn.outputs else LOOK
        return Speak("Here I am.", ms=40)

    async with open_talk(model, script, ran.tool("look", 3.0)) as (table, server):
        leave_at = trio.current_time() + 0.5
        await ask(table.npc, "Look", tier=Tier.DEEP, leave_at=leave_at)
        again = await ask(table.npc, "Are you there?")
        assert again.done.end is TurnEnd.COMPLETED
        assert again.done.text == "Here I am."
        assert [name for name, _ in ran.cancelled] == ["look"]
        assert not live_of(table).statistics().owed
        assert not server.warnings


# 4: a call of what was discarded


@pytest.mark.parametrize("cut", [False, True], ids=["whole", "cut"])
async def test_a_call_of_a_discarded_response_changes_nothing(
    cut: bool, autojump_clock: MockClock
) -> None:  # 4
    ran = Ran()
    call = SpokenCallTools([("write", {"text": "a long one"})], open=cut)

    def script(turn: ModelTurn) -> Reply:
        if turn.user == "Write it":
            return [
                call,
                PauseResponse(0.2),
                UserSpeaks("Do not!", ms=100),
                HangResponse(),
            ]
        return Speak("I do not.", ms=40)

    write = ran.tool("write", 0.1, read_only=False)
    async with open_talk(OPENAI, script, write) as (table, server):
        heard = await ask(table.npc, "Write it")
        assert heard.done.end is TurnEnd.INTERRUPTED
        await trio.sleep(5)
        assert ran.began == []
        assert table.events.all(TurnDone)[-1].text == "I do not."
        assert not server.warnings


# 6: results over sockets


@EVERY_GEMINI
@pytest.mark.parametrize("seconds", [1.5, 2.5])
async def test_a_tool_that_finishes_during_a_rotation_or_after_it_is_told_of(
    model: str, seconds: float, autojump_clock: MockClock
) -> None:  # 6, 17, a tool that finishes during a rotation
    ran = Ran()
    script = after_tools(GoAway(6.0), LOOK)
    # The new socket is being opened at 1.0 s, and there at 2.0 s.
    tool = ran.tool("look", seconds)
    async with open_talk(model, script, tool, opens_after=1.0) as (table, server):
        heard = await ask(table.npc, "Look", tier=Tier.DEEP)
        await trio.sleep(5.0)  # one that may not stay owed is told of later
        assert len(server.sessions) == 2
        interim = model == GEMINI_31 and seconds > 1.5
        assert len(results_of(server)) == (seconds < 2.0 or interim)
        assert live_of(table).statistics().failures == 0
        assert table.events.all(TurnDone)[-1].text.endswith("A door.")
    assert heard.done.end is TurnEnd.COMPLETED
    assert len(ran.ended) == 1


@EVERY
@pytest.mark.parametrize("end", [Drop(), Close(1011), Close(1001)], ids=str)
async def test_a_socket_that_ends_while_a_tool_runs_loses_nothing(
    model: str, end: Any, autojump_clock: MockClock
) -> None:  # 6
    ran = Ran()

    word = "toolCall" if model != OPENAI else "response.done"
    trap = On(word, end, sent=True, socket=0)
    tool = ran.tool("look", 2.0)
    script = after_tools(LOOK)
    async with open_talk(model, script, tool, traps=[trap]) as (table, server):
        heard = await ask(table.npc, "Look", tier=Tier.DEEP)
        await trio.sleep(5.0)
        assert len(server.sessions) == 2
    assert heard.done.end is TurnEnd.COMPLETED
    assert heard.done.text == "A door."
    assert len(ran.ended) >= 1


# 7: input while there is no socket


@EACH
async def test_what_is_said_while_there_is_no_socket_is_kept_and_counted(
    model: str, autojump_clock: MockClock
) -> None:  # 7
    async with open_talk(model, [Speak("Yes.")], opens_after=5.0) as (table, server):
        live = live_of(table)
        rate = live.capabilities.input_rate
        pieces = [bytes([n, 0]) * (rate // 10) for n in range(1, 41)]  # of 0.1 s
        for piece in pieces:
            live.hear(piece)
            await trio.sleep(0.1)
        await trio.sleep(3.0)
        assert server.sessions[0].hearing.audio == b"".join(pieces[-20:])
        assert live.statistics().audio_dropped == 20


# 8: another tier


@EVERY
async def test_another_tier_has_other_tools_in_mid_session(
    model: str, autojump_clock: MockClock
) -> None:  # 8
    ran = Ran()
    shown: list[tuple[str, ...]] = []

    def script(turn: ModelTurn) -> Reply:
        shown.append(turn.tools)
        return Speak(f"Answer {len(shown)}.", ms=40)

    tools = ran.tool("look", 0.1), ran.tool("study", 3.0)
    npc = attrs.evolve(BOB, budget_tier=Tier.STANDARD)
    async with open_talk(model, script, *tools, npc=npc) as (table, _):
        for seconds in (None, 60.0, None):
            if seconds is not None:
                await table.npc.elevate(Tier.DEEP, seconds=seconds)
            heard = await ask(table.npc, "And now?")
            assert heard.done.end is TurnEnd.COMPLETED
            await trio.sleep(5.0)  # a socket that has to be replaced for it is
    assert "study" not in shown[0]
    assert "look" in shown[0]
    assert "study" in shown[1]
    assert shown[1] == shown[2]


# 9: run twice


@EVERY_GEMINI
async def test_a_call_in_two_wire_forms_is_run_once(
    model: str, autojump_clock: MockClock
) -> None:  # 9
    ran = Ran()
    twice = SpokenCallTools([("write", {"n": 1})], twice=True)
    write = ran.tool("write", 0.3, read_only=False)
    async with open_talk(model, after_tools(twice), write) as (table, server):
        heard = await ask(table.npc)
        assert heard.done.text == "A door."
        assert len(ran.began) == 1
        assert len(results_of(server)) == 1


@EVERY_BUT_THINKING
async def test_a_call_that_the_model_repeats_has_an_answer_for_each_id(
    model: str, autojump_clock: MockClock
) -> None:  # 9
    ran = Ran()
    same = SpokenCallTools([("look", {"at": "door"}), ("look", {"at": "door"})])
    tool = ran.tool("look", 0.3)
    async with open_talk(model, after_tools(same), tool) as (table, server):
        heard = await ask(table.npc)
        assert heard.done.text == "A door."
        ids = [id_ for id_, _ in results_of(server)]
    assert len(ids) == len(set(ids)) == 2


# 10, 11: somebody barges in


async def test_a_barge_in_truncates_no_more_than_there_was_and_cancels_nothing(
    autojump_clock: MockClock,
) -> None:  # 10, 11
    def script(turn: ModelTurn) -> Reply:
        if turn.number == 0:
            return [
                Speak("A long, long story.", ms=4000, upto_ms=400),
                UserSpeaks("Stop it", ms=100, after=0.6),
                HangResponse(),
            ]
        return Speak("As you wish.", ms=40)

    async with open_talk(OPENAI, script) as (table, server):
        async with table.npc.voice(speaker="Ann", rate=24_000) as voice:
            voice.played(0)

            async def tell() -> None:
                async with table.npc.say("Tell me", speaker="Ann") as turn:
                    async for event in turn:
                        if isinstance(event, Speech):
                            turn.played(60_000)  # more than there is

            async with trio.open_nursery() as nursery:
                nursery.start_soon(tell)
                async for event in voice:
                    if isinstance(event, TurnDone):
                        assert event.text == "As you wish."
                        break
        for message in sent_by(server, "conversation.item.truncate"):
            assert message["audio_end_ms"] <= 400
        assert sent_by(server, "response.cancel") == []
        wrong = [x for x in server.sessions[0].wire.sent if x["type"] == "error"]
        assert wrong == []


# 12: 1011 after a result, and results that are too large


def long_winded(size: int) -> Tool:
    async def handler(arguments: Any, context: CallContext) -> ToolResult:
        rows = [{"name": f"row {i}", "text": "x" * 80} for i in range(size // 100)]
        return ToolResult(structured={"rows": rows})

    definition = ToolDefinition(
        name="look",
        group="test",
        estimated_duration=0.1,
        read_only=True,
        parameters={"type": "object"},
    )
    return Tool(definition=definition, handler=handler)


@EVERY
async def test_a_result_that_is_too_large_is_cut_to_the_models_cap(
    model: str, autojump_clock: MockClock
) -> None:  # 12, oversized results
    script = after_tools(LOOK)
    async with open_talk(model, script, long_winded(400_000)) as (table, server):
        heard = await ask(table.npc)
        assert heard.done.text == "A door."
        ((_, output),) = results_of(server)
        cap = live_of(table).capabilities.max_result
        told = output.get("output", output)  # Gemini's envelope is not counted
        text = json.dumps(told, separators=(",", ":"), ensure_ascii=False)
        assert cap // 2 < len(text.encode()) <= cap
        assert told["truncated"] is True
        assert len(server.sessions) == 1


@EVERY
@pytest.mark.parametrize("code", [1011, 1006])
async def test_a_service_that_breaks_at_a_result_is_told_it_in_short(
    model: str, code: int, autojump_clock: MockClock
) -> None:  # 12
    word = "function_call_output" if model == OPENAI else "toolResponse"
    end = Drop() if code == 1006 else Close(1011)
    asked: list[ModelTurn] = []

    def script(turn: ModelTurn) -> Reply:
        asked.append(turn)
        if turn.socket == 0:
            return LOOK
        return Speak("A door.")

    trap = On(word, end, socket=0)
    async with open_talk(model, script, long_winded(3_000), traps=[trap]) as (
        table,
        server,
    ):
        heard = await ask(table.npc, "Look")
        assert heard.done.end is TurnEnd.COMPLETED, heard.done
        assert heard.done.text == "A door."
        await trio.sleep(30)
        assert len(server.sessions) == 2
        assert len(results_of(server)) == 1  # never the same payload twice


# 13: dead air


@pytest.mark.parametrize("model", [OPENAI, GEMINI_25, GEMINI_38, THINKING])
async def test_a_model_is_heard_while_a_slow_tool_runs(
    model: str, autojump_clock: MockClock
) -> None:  # 13
    ran = Ran()
    study = SpokenCallTools([("study", {})])
    words = Speak("Let me see.", ms=40)
    # OpenAI speaks before it calls, Gemini beside a call that it does not wait for.
    first = [words, study] if model == OPENAI else [study, words]
    async with open_talk(model, after_tools(*first), ran.tool("study", 3.0)) as (
        table,
        _,
    ):
        heard = await ask(table.npc, tier=Tier.DEEP)
        # And once more, after a second of silence.
        assert heard.done.text == "Let me see. Wait. A door."
        assert min(heard.when(TextDelta)) < heard.when(ToolFinished)[0] - 2.5


# 14: the end of a turn that is not the end


@pytest.mark.parametrize("model", [GEMINI_38, THINKING])
async def test_a_turn_that_ends_before_a_call_is_not_the_end(
    model: str, autojump_clock: MockClock
) -> None:  # 14
    ran = Ran()
    first = [Speak("One moment.", ms=40), TurnComplete(), PauseResponse(0.5), LOOK]
    async with open_talk(model, after_tools(*first), ran.tool("look", 0.3)) as (
        table,
        _,
    ):
        heard = await ask(table.npc)
    assert heard.done.text == "One moment. A door."
    assert len(ran.ended) == 1


# 15: tools that cannot be forbidden


@EVERY
async def test_a_model_that_calls_for_ever_is_refused_and_the_turn_ends(
    model: str, autojump_clock: MockClock
) -> None:  # 15
    ran = Ran()

    def script(turn: ModelTurn) -> Reply:
        if turn.user == "Loop":
            return LOOK if len(turn.outputs) < 4 else Speak("Enough.", ms=40)
        return Speak("Here.", ms=40)

    limits = {"turn": TurnConfig(max_rounds=2)}
    async with open_talk(model, script, ran.tool("look", 0.1), table=limits) as (
        table,
        _,
    ):
        heard = await ask(table.npc, "Loop")
        assert heard.done.end is not TurnEnd.INTERRUPTED
        assert len(ran.began) == 2
        again = await ask(table.npc, "And now?")
        assert again.done.text == "Here."


# 16: all calls of a message


@EVERY_BUT_THINKING
async def test_each_of_several_calls_is_run_and_answered(
    model: str, autojump_clock: MockClock
) -> None:  # 16
    ran = Ran()
    names = ["look", "read", "listen"]
    tools = [ran.tool(name, 0.1 * i) for i, name in enumerate(names, 1)]
    calls = SpokenCallTools([(name, {}) for name in names])
    async with open_talk(model, after_tools(calls), *tools) as (table, server):
        heard = await ask(table.npc)
        assert heard.done.text == "A door."
        assert [x.status for x in heard.done.outcomes] == [Status.OK] * 3
        assert len(results_of(server)) == 3


# 17: the age of a session


@EVERY
async def test_a_session_is_replaced_before_it_expires(
    model: str, autojump_clock: MockClock
) -> None:  # 17, expiry
    lifetime = 3600.0 if model == OPENAI else 600.0
    asked: list[ModelTurn] = []

    def script(turn: ModelTurn) -> Reply:
        asked.append(turn)
        return Speak(f"Answer {len(asked)}.", ms=40)

    async with open_talk(model, script, settings={"idle": 1e6}, lifetime=lifetime) as (
        table,
        server,
    ):
        await ask(table.npc, "My name is Ann")
        await trio.sleep(lifetime + 60)
        assert server.sessions[0].wire.code == 1000  # by us, and in time
        heard = await ask(table.npc, "Who am I?")
        assert heard.done.text == "Answer 2."
        assert live_of(table).statistics().failures == 0
    assert "My name is Ann" in " ".join(x.text for x in asked[1].lines)


@EVERY
async def test_a_session_that_expires_in_the_middle_of_a_line_is_gone_on_with(
    model: str, autojump_clock: MockClock
) -> None:  # 17, expiry
    def script(turn: ModelTurn) -> Reply:
        if turn.socket == 0:
            return [PauseResponse(0.2), Expire(), HangResponse()]
        return Speak("As I said.", ms=40)

    async with open_talk(model, script) as (table, _):
        heard = await ask(table.npc)
    assert heard.done.end is TurnEnd.COMPLETED
    assert heard.done.text == "As I said."


@EVERY_GEMINI
async def test_a_notice_to_leave_is_followed_between_two_lines(
    model: str, autojump_clock: MockClock
) -> None:  # 17, goAway
    asked: list[ModelTurn] = []

    def script(turn: ModelTurn) -> Reply:
        asked.append(turn)
        line = Speak(f"Answer {len(asked)}.", ms=400, paced=True)
        return [GoAway(50.0), line] if len(asked) == 1 else line

    async with open_talk(model, script) as (table, server):
        heard = await ask(table.npc, "My name is Ann")
        assert heard.done.text == "Answer 1."
        await trio.sleep(1.0)
        assert len(server.sessions) == 2
        again = await ask(table.npc, "Who am I?")
        assert again.done.text == "Answer 2."
        assert live_of(table).statistics().failures == 0
    assert "My name is Ann" in " ".join(x.text for x in asked[1].lines)


# 20: history


@EVERY
async def test_a_new_socket_without_a_handle_is_told_what_was_said(
    model: str, autojump_clock: MockClock
) -> None:  # 20
    asked: list[ModelTurn] = []

    def script(turn: ModelTurn) -> Reply:
        asked.append(turn)
        return Speak(f"Answer {len(asked)}.", ms=40)

    # Before there is a handle: it comes after the end of the turn.
    word = "response.done" if model == OPENAI else "serverContent.turnComplete"
    trap = On(word, Drop(), sent=True, socket=0)
    async with open_talk(model, script, traps=[trap]) as (table, server):
        await ask(table.npc, "My name is Ann")
        await trio.sleep(5.0)
        heard = await ask(table.npc, "Who am I?")
        assert len(server.sessions) == 2
        assert heard.done.text == "Answer 2."
    told = " ".join([x.text for x in asked[1].lines] + [asked[1].instructions])
    assert "My name is Ann" in told
    assert "Answer 1." in told


# Close codes, quotas, players, microphones


@EVERY
@pytest.mark.parametrize("code", [1007, 1008])
async def test_a_socket_closed_for_good_fails_one_turn_and_not_the_next(
    model: str, code: int, autojump_clock: MockClock
) -> None:  # 1007, 1008
    def script(turn: ModelTurn) -> Reply:
        if turn.socket == 0:
            return [
                Close(code, "Request contains an invalid argument."),
                HangResponse(),
            ]
        return Speak("Here I am.", ms=40)

    async with open_talk(model, script) as (table, server):
        heard = await ask(table.npc)
        assert heard.done.end is TurnEnd.FAILED
        assert heard.done.text == "Hm?"
        await trio.sleep(30)
        assert len(server.sessions) == 1  # nothing is tried again by itself
        again = await ask(table.npc)
        assert again.done.text == "Here I am."


@pytest.mark.parametrize(
    "steps",
    [
        [FailResponse("rate_limit_exceeded", type="tokens")],
        [Error("insufficient_quota", type="insufficient_quota"), HangResponse()],
    ],
    ids=["rate", "quota"],
)
async def test_a_quota_in_mid_session_fails_one_turn_in_character(
    steps: Any, autojump_clock: MockClock
) -> None:  # vendor 429 and quota in mid-session
    def script(turn: ModelTurn) -> Reply:
        return steps if turn.number == 1 else Speak(f"Answer {turn.number}.", ms=40)

    async with open_talk(OPENAI, script) as (table, _):
        ended = [(await ask(table.npc, f"Line {n}")).done for n in range(3)]
    assert [x.end for x in ended] == [
        TurnEnd.COMPLETED,
        TurnEnd.FAILED,
        TurnEnd.COMPLETED,
    ]
    assert ended[1].text == "Hm?"
    assert ended[2].text == "Answer 2."


@EVERY
async def test_two_players_at_one_npc_are_answered_one_after_the_other(
    model: str, autojump_clock: MockClock
) -> None:  # two players at one NPC
    ran = Ran()

    def script(turn: ModelTurn) -> Reply:
        if turn.user.endswith("Ann") and not turn.outputs:
            return LOOK
        return Speak(f"{turn.user}, yes.", ms=40)

    heard: dict[str, Heard] = {}
    async with open_talk(model, script, ran.tool("look", 0.4)) as (table, server):

        async def say(who: str, after: float) -> None:
            heard[who] = await ask(table.npc, f"I am {who}", speaker=who, after=after)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, "Ann", 0.0)
            nursery.start_soon(say, "Ben", 0.1)
        assert heard["Ann"].done.text == "I am Ann, yes."
        assert heard["Ben"].done.text == "I am Ben, yes."
        assert not server.warnings


@EACH
async def test_an_open_microphone_of_silence_goes_idle_and_loses_no_word(
    model: str, autojump_clock: MockClock
) -> None:  # a silent microphone
    script = [Speak("Yes?", ms=40)]
    async with open_talk(model, script, settings={"idle": 10.0}) as (table, server):
        live = live_of(table)
        rate = live.capabilities.input_rate
        size = rate // 50 * 2
        async with table.npc.voice(speaker="Ann", rate=rate) as voice:
            closed = []
            for number in range(1500):  # half a minute of frames, and not one missing
                voice.hear(bytes([number % 2]) * size)
                await trio.sleep(0.02)
                if not live.statistics().connected:
                    closed.append(trio.current_time())
            assert len(server.sessions) == 1
            assert closed[0] == pytest.approx(10.0, abs=1.5)
            assert live.statistics().audio_dropped == 0  # nothing that matters
            loud = vowel(600, rate)
            for at in range(0, len(loud), size):
                voice.hear(loud[at : at + size])
                await trio.sleep(0.02)
            for _ in range(60):
                voice.hear(bytes(size))
                await trio.sleep(0.02)
            async for event in voice:
                if isinstance(event, TurnDone):
                    assert event.text == "Yes?"
                    break
        assert len(server.sessions) == 2
        heard = server.sessions[1].hearing.audio
        assert loud in heard  # from its first sample on, and what was before it
        assert heard.index(loud) >= rate
        assert live.statistics().audio_dropped == 0


@EACH
async def test_a_silent_microphone_costs_a_socket_and_no_turn(
    model: str, autojump_clock: MockClock
) -> None:  # a silent microphone
    async with open_talk(model, [Speak("Yes?", ms=40)], settings={"idle": 60.0}) as (
        table,
        server,
    ):
        live = live_of(table)
        rate = live.capabilities.input_rate
        async with table.npc.voice(speaker="Ann", rate=rate) as voice:
            for _ in range(100):
                voice.hear(bytes(rate // 10))
                await trio.sleep(0.05)
            assert len(server.sessions) == 1
            await trio.sleep(90.0)
            assert not live.statistics().connected
            assert table.events.all(TurnDone) == []
            loud = vowel(400, rate)
            for at in range(0, len(loud), rate // 50 * 2):
                voice.hear(loud[at : at + rate // 50 * 2])
            for _ in range(40):
                voice.hear(bytes(rate // 50 * 2))
            async for event in voice:
                if isinstance(event, TurnDone):
                    assert event.text == "Yes?"
                    break
            assert len(server.sessions) == 2
