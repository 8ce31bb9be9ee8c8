"""The round loop: what the model is shown, what runs, and what it costs."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

import pytest

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.config import NpcConfig, TurnConfig
from glyphoxa_trio.npc import (
    ApprovalRequest,
    Fallback,
    FanOutDone,
    FellBack,
    LateResult,
    ModelFailed,
    Sentence,
    TierSelected,
    ToolFinished,
    ToolsShown,
    ToolStarted,
    TurnDone,
    TurnEnd,
)
from glyphoxa_trio.npc.model_timeout import FAREWELL
from glyphoxa_trio.providers.llm import ErrorKind, LLMError, Working
from glyphoxa_trio.tools.definition import OnInterrupt, Tool
from glyphoxa_trio.tools.gate import Grant, Reason
from glyphoxa_trio.tools.outcome import Effect, Limit, Status
from glyphoxa_trio.tools.tier import DEFAULT_LIMITS, Tier

from .support import (
    HANG,
    Heard,
    Ran,
    Reply,
    Table,
    ask,
    call,
    no,
    open_table,
    protocol_faults,
)

FAST, STANDARD, DEEP = Tier
DONE, CUT, FAILED, *_ = TurnEnd
SLOWLY = "think carefully"  # DEEP, where the ceiling allows it


def statuses(heard: Heard) -> list[tuple[str, Status]]:
    return [(o.call.name, o.status) for o in heard.done.outcomes]


# What a model is shown.


def tools_of_all_tiers(ran: Ran) -> list[Tool]:
    return [
        ran.tool("quick", 0.25),
        ran.tool("middling", 1.0),
        ran.tool("slow", 3.0),
        ran.tool("unknown", estimated_duration=None),
    ]


@pytest.mark.parametrize(
    ("ceiling", "text", "names"),
    [
        # A tool of unknown latency is tried in every tier (D1a).
        (FAST, "hi", ["quick", "unknown"]),
        # A FAST NPC never sees more, whatever is said.
        (FAST, SLOWLY, ["quick", "unknown"]),
        (STANDARD, SLOWLY, ["quick", "unknown", "middling"]),
        (DEEP, "remember?", ["quick", "unknown", "middling"]),
        (DEEP, SLOWLY, ["quick", "unknown", "middling", "slow"]),
    ],
)
async def test_a_model_is_shown_exactly_what_the_gate_lets_through(
    autojump_clock: MockClock, ceiling: Tier, text: str, names: list[str]
) -> None:
    # G17, G31, D5
    tools = tools_of_all_tiers(Ran())
    async with open_table([["Yes."]], *tools, tier=ceiling) as table:
        heard = await ask(table.npc, text)
        tier = heard.only(TierSelected).tier
        (request,) = table.llm.requests
        gate = table.host.tools(tier, grant=table.npc.grant)
    assert table.llm.shown() == [names]
    assert [spec.name for spec in request.tools] == [x.exposed for x in gate]
    assert [spec.parameters for spec in request.tools] == [
        x.definition.parameters for x in gate
    ]
    assert not request.tools_forbidden
    shown = heard.only(ToolsShown)
    assert (list(shown.shown), shown.forbidden) == (names, False)
    assert {name for name, _ in shown.hidden} == {
        "quick",
        "middling",
        "slow",
        "unknown",
    } - set(names)
    assert {refusal.reason for _, refusal in shown.hidden} <= {Reason.OVER_TIER}


async def test_what_is_not_granted_is_neither_shown_nor_listed_as_hidden(
    autojump_clock: MockClock,
) -> None:
    # G31: the whitelist
    tools = tools_of_all_tiers(Ran())
    grant = Grant(npc="Bob", tools=("test.quick", "test.slow"))
    async with open_table([["Yes."]], *tools, grant=grant) as table:
        shown = (await ask(table.npc)).only(ToolsShown)
    assert shown.shown == ("quick",)
    assert [name for name, _ in shown.hidden] == ["slow"]


async def test_no_word_about_budgets_in_any_prompt(autojump_clock: MockClock) -> None:
    # G17: what is told first, and after a tool has answered
    npc = NpcConfig(name="Bob", budget_tier=STANDARD, personality="Warm.")
    ran = Ran()
    tools = tools_of_all_tiers(ran)
    script: list[Reply] = [[call("quick")], ["Yes."]]
    async with open_table(script, *tools, npc=npc) as table:
        await ask(table.npc, "How are you?")
        words = " ".join(
            f"{message.content} {message.name}"
            for request in table.llm.requests
            for message in request.messages
        )
    assert "quick is done" in words
    assert not re.search(
        r"\b(\d+ ?ms|budget|tier|latency|deadline|timeout|standard|deep)\b",
        words,
        re.IGNORECASE,
    )


# What calls cost.


async def test_parallel_calls_cost_the_maximum(autojump_clock: MockClock) -> None:
    # G16, G26, D3
    ran = Ran()
    tools = [ran.tool("a", 0.25), ran.tool("b", 1.0), ran.tool("c", 0.5)]
    script: list[Reply] = [[0.5, call("a"), call("b"), call("c")], [0.25, "Yes."]]
    async with open_table(script, *tools) as table:
        heard = await ask(table.npc, SLOWLY)
    done = heard.only(FanOutDone)
    assert (done.budget, done.elapsed, done.shown, done.round) == (4, 1, 3, 0)
    assert [outcome.call.name for outcome in done.outcomes] == ["a", "b", "c"]
    assert heard.when(ToolStarted) == [0.5] * 3
    assert [
        (at, e.outcome.call.name)
        for at, e in heard.events
        if isinstance(e, ToolFinished)
    ] == [
        (0.75, "a"),
        (1.0, "c"),
        (1.5, "b"),
    ]
    timings = heard.done.timings
    assert (timings.tools, timings.model, timings.total) == (1, 0.75, 1.75)
    assert table.llm.told() == [
        ("user", SLOWLY),
        ("assistant", ""),
        ("tool", '{"message":"a is done"}'),
        ("tool", '{"message":"b is done"}'),
        ("tool", '{"message":"c is done"}'),
    ]


async def test_rounds_add_up_and_the_next_one_shows_what_still_fits(
    autojump_clock: MockClock,
) -> None:
    # D3, D4, G26: 4 s of a DEEP turn, while the model takes its own time
    ran = Ran()
    tools = [ran.tool("quick", 0.5), ran.tool("middling", 1.0), ran.tool("slow", 2.0)]
    script: list[Reply] = [
        [1.0, call("slow")],
        [1.0, call("middling")],
        [1.0, call("quick")],
        [1.0, call("quick", '{"again": 1}')],
        [1.0, "That is all."],
    ]
    async with open_table(script, *tools, turn=TurnConfig(max_rounds=9)) as table:
        heard = await ask(table.npc, SLOWLY)
    assert table.llm.shown() == [
        ["quick", "middling", "slow"],
        ["quick", "middling", "slow"],  # exactly two seconds are left
        ["quick", "middling"],
        ["quick"],
        [],
    ]
    forbidden = [request.tools_forbidden for request in table.llm.requests]
    assert forbidden == [False] * 4 + [True]
    assert [event.remaining for event in heard.of(ToolsShown)] == [4, 2, 1, 0.5, 0]
    assert [event.forbidden for event in heard.of(ToolsShown)] == forbidden
    assert [event.elapsed for event in heard.of(FanOutDone)] == [2, 1, 0.5, 0.5]
    assert heard.done.timings.tools == DEFAULT_LIMITS.ceiling(DEEP) == 4
    assert heard.done.timings.model == 5
    assert (heard.done.rounds, heard.done.end) == (5, DONE)


async def test_a_call_is_cut_when_the_turns_time_is_up(
    autojump_clock: MockClock,
) -> None:
    # D3: half a second of a FAST turn, for a tool that promised a quarter
    ran = Ran()
    tools = [ran.tool("liar", 9.0, estimated_duration=0.25), ran.tool("good", 0.25)]
    script: list[Reply] = [[call("liar"), call("good")], ["Never mind."]]
    async with open_table(script, *tools, tier=FAST) as table:
        heard = await ask(table.npc)
    liar, good = heard.done.outcomes
    assert (liar.status, liar.limit, good.status) == (
        Status.TIMEOUT,
        Limit.TURN,
        Status.OK,
    )
    assert heard.when(FanOutDone) == [0.5]
    assert ran.cancelled == [("liar", 0.5)]
    assert (heard.done.timings.tools, heard.done.end) == (0.5, DONE)
    assert "the turn's tool time was reached" in table.llm.told()[2][1]


async def test_a_slow_listener_stops_no_tool_and_is_no_slow_model(
    autojump_clock: MockClock,
) -> None:
    # D0, D3: seven seconds for each event, longer than the model may be silent
    ran = Ran()
    pieces: Reply = ["word "] * 200
    script: list[Reply] = [
        [0.5, *pieces, call("a")],
        [0.5, *pieces, "end."],
    ]
    async with open_table(script, ran.tool("a", 0.25)) as table:
        heard = await ask(table.npc, SLOWLY, pace=7.0)
    assert heard.of(ModelFailed) == []
    assert heard.only(FanOutDone).elapsed == 0.25
    assert ran.ended[0][1] - ran.began[0][1] == 0.25
    timings = heard.done.timings
    assert (timings.tools, timings.model) == (0.25, 1)
    assert timings.total > 2000
    assert heard.done.end is DONE


async def test_a_listener_who_is_behind_when_the_model_fails_is_not_charged_to_it(
    autojump_clock: MockClock,
) -> None:
    # D0
    lost = LLMError(ErrorKind.INTERRUPTED, "lost")
    async with open_table([[0.5, *["word "] * 100, lost]]) as table:
        heard = await ask(table.npc, pace=1.0)
    assert heard.done.timings.model == 0.5
    assert heard.done.timings.total > 30


# When it has to end.


async def test_a_model_that_never_stops_calling_is_forbidden_to(
    autojump_clock: MockClock,
) -> None:
    # D4: four rounds of tools, one in words, and a line of the NPC's own
    ran = Ran()
    async with open_table(lambda _: [call("a")], ran.tool("a", 0.125)) as table:
        heard = await ask(table.npc, SLOWLY)
    assert [r.tools_forbidden for r in table.llm.requests] == [False] * 4 + [True]
    # The tools stay listed, so that the calls before keep their meaning.
    assert table.llm.shown() == [["a"]] * 5
    assert len(ran.began) == 4
    assert statuses(heard) == [("a", Status.OK)] * 4 + [("a", Status.SKIPPED)]
    assert heard.only(FellBack).reason is Fallback.ROUNDS_EXHAUSTED
    assert (heard.done.text, heard.done.end) == ("Hm?", DONE)
    assert heard.kinds()[-4:] == ["FellBack", "TextDelta", "Sentence", "TurnDone"]


async def test_silence_in_the_forbidden_round_is_an_empty_answer(
    autojump_clock: MockClock,
) -> None:
    # D12b
    tool = Ran().tool("a", 0.125)
    script: list[Reply] = [[call("a")], []]
    async with open_table(script, tool, turn=TurnConfig(max_rounds=1)) as table:
        heard = await ask(table.npc)
    assert heard.only(FellBack).reason is Fallback.EMPTY_ANSWER


async def test_an_answer_in_the_forbidden_round_is_an_answer(
    autojump_clock: MockClock,
) -> None:
    script: list[Reply] = [[call("a")], [call("a")], ["So be it."]]
    tool = Ran().tool("a", 0.125)
    async with open_table(script, tool, turn=TurnConfig(max_rounds=2)) as table:
        heard = await ask(table.npc, SLOWLY)
    assert (heard.of(FellBack), heard.done.text) == ([], "So be it.")


async def test_the_seventeenth_call_is_skipped(autojump_clock: MockClock) -> None:
    # D4
    ran = Ran()
    many = [call("a", f'{{"n": {n}}}', id=f"{n}") for n in range(17)]
    async with open_table([many, ["Yes."]], ran.tool("a", 0.125)) as table:
        heard = await ask(table.npc)
        counted = table.host.statistics().executor.refusals
    assert len(ran.began) == 16
    assert statuses(heard) == [("a", Status.OK)] * 16 + [("a", Status.SKIPPED)]
    assert counted == {Reason.TOO_MANY: 1}
    assert "no more calls" in table.llm.told()[-1][1]


# What may not run.


async def test_a_call_of_what_was_not_shown_is_refused_counted_and_explained(
    autojump_clock: MockClock,
) -> None:
    # D5: hidden by its tier, not granted, hallucinated, gone meanwhile
    ran = Ran()
    tools = [
        ran.tool("quick", 0.25),
        ran.tool("slow", 3.0),
        ran.tool("secret", 0.25, group="vault"),
        ran.tool("stale", 0.25, group="passing"),
    ]
    calls = [
        call(name) for name in ("slow", "secret", "vault.secret", "qiuck", "stale")
    ]
    script: list[Reply] = [[1.0, *calls], ["Never mind."]]
    grant = Grant(npc="Bob", tools=("test", "passing"))
    async with open_table(script, *tools, grant=grant) as table:

        async def deregister() -> None:
            await trio.sleep(0.5)
            table.host.deregister("passing")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(deregister)
            heard = await ask(table.npc, "remember?")
        counted = table.host.statistics().executor.refusals
    assert table.llm.shown()[0] == ["stale", "quick"]
    assert ran.began == []
    assert statuses(heard) == [
        ("slow", Status.SKIPPED),
        ("secret", Status.DENIED),
        ("vault.secret", Status.DENIED),
        ("qiuck", Status.DENIED),
        ("stale", Status.DENIED),
    ]
    assert counted == {Reason.OVER_TIER: 1, Reason.NOT_GRANTED: 2, Reason.UNKNOWN: 2}
    answers = [text for role, text in table.llm.told() if role == "tool"]
    assert "too slow for a standard answer" in answers[0]
    assert "secret is not available to you" in answers[1]
    assert "did you mean quick?" in answers[3]
    assert all('"status":' in text for text in answers)
    assert heard.of(ToolStarted) == []
    assert len(heard.of(ToolFinished)) == 5
    assert heard.done.timings.tools == 0


async def test_a_call_that_fits_no_more_is_refused_at_once(
    autojump_clock: MockClock,
) -> None:
    # D4: it was shown in the round before, and is called again
    ran = Ran()
    script: list[Reply] = [[call("a")], [call("a", '{"n": 2}')], ["Enough."]]
    async with open_table(script, ran.tool("a", 1.0)) as table:
        heard = await ask(table.npc, "remember?")
    assert table.llm.shown() == [["a"], [], []]
    assert statuses(heard) == [("a", Status.OK), ("a", Status.SKIPPED)]
    answer = table.llm.told()[-1][1]
    assert "needs about 1000 ms, 500 ms left" in answer


async def test_broken_arguments_come_back_to_the_model(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    script: list[Reply] = [[call("a", '{"x": ')], [call("a", id="2")], ["Yes."]]
    async with open_table(script, ran.tool("a", 0.125)) as table:
        heard = await ask(table.npc)
    assert statuses(heard) == [("a", Status.INVALID_ARGUMENTS), ("a", Status.OK)]
    assistant, answer = table.llm.requests[1].messages[2:]
    told = json.loads(assistant.calls[0].arguments)
    assert told == {"invalid_arguments": '{"x": '}
    assert "not valid JSON" in answer.content
    assert len(ran.began) == 1


async def test_a_call_whose_effect_is_unknown_is_not_made_again_in_this_turn(
    autojump_clock: MockClock,
) -> None:
    # D6
    ran = Ran()
    pay = ran.tool(
        "pay", HANG, estimated_duration=0.25, max_duration=0.5, read_only=False
    )
    script: list[Reply] = [
        [call("pay", '{"gold": 5}')],
        [call("pay", '{ "gold": 5.0 }', id="2"), call("pay", '{"gold": 6}', id="3")],
        ["I do not know."],
        [call("pay", '{"gold": 5}')],
        ["Again."],
    ]
    async with open_table(script, pay) as table:
        heard = await ask(table.npc, SLOWLY)
        await ask(table.npc, tier=DEEP)  # a new turn may
    first, again, other = heard.done.outcomes
    assert (first.status, first.effect, first.limit) == (
        Status.TIMEOUT,
        Effect.UNKNOWN,
        Limit.TOOL,
    )
    assert (again.status, again.effect) == (Status.DENIED, Effect.NONE)
    assert (other.status, other.effect) == (Status.TIMEOUT, Effect.UNKNOWN)
    assert len(ran.began) == 3


# The model's own limits.


@pytest.mark.parametrize(
    ("reply", "kind", "at", "said"),
    [
        ([HANG], ErrorKind.FIRST_TOKEN, 5, ""),
        ([5.5, "late"], ErrorKind.FIRST_TOKEN, 5, ""),
        ([4.5, "Well. I", HANG], ErrorKind.SILENCE, 9.5, "Well. I"),
        ([1.0, "Well. ", 5.5, "I"], ErrorKind.SILENCE, 6, "Well."),
        (["la ", 4.0] * 20, ErrorKind.TURN, 30, "la la la la la la la la"),
        ([call("a"), HANG], ErrorKind.SILENCE, 5, ""),
    ],
    ids=["nothing", "too late", "quiet", "a long pause", "endless", "call, then quiet"],
)
async def test_each_limit_of_the_model_ends_its_turn_on_time(
    autojump_clock: MockClock, reply: Reply, kind: ErrorKind, at: float, said: str
) -> None:
    # D0: first token 5 s, silence 5 s, whole turn 30 s
    ran = Ran()
    async with open_table([reply, ["Yes."]], ran.tool("a", 0.125)) as table:
        heard = await ask(table.npc)
        assert trio.current_time() == at
        assert table.llm.open == 0
        failed = heard.only(ModelFailed)
        assert (failed.kind, heard.when(ModelFailed)) == (kind, [at])
        assert (heard.done.end, heard.done.timings.model) == (FAILED, at)
        assert heard.done.error.startswith(f"{kind}: ")
        assert ran.began == []  # a call of an answer that failed never runs
        fell_back = heard.of(FellBack)
        assert [event.reason for event in fell_back] == (
            [] if said else [Fallback.MODEL_FAILED]
        )
        assert heard.done.text == (said or "Hm?")
        assert (await ask(table.npc)).done.end is DONE


async def test_the_models_time_adds_up_over_rounds_and_tools_are_not_on_it(
    autojump_clock: MockClock,
) -> None:
    # D0
    ran = Ran()
    script: list[Reply] = [[4.0, call("a")], [4.0, call("a", id="2")], [4.0, "Yes."]]
    config = TurnConfig(model_total=10.0)
    async with open_table(script, ran.tool("a", 2.0), turn=config) as table:
        heard = await ask(table.npc, SLOWLY)
    # 4 + 2 + 4 + 2, and then only 2 s are left of ten.
    assert heard.when(ModelFailed) == [14]
    assert heard.only(ModelFailed).kind is ErrorKind.TURN
    assert (heard.done.timings.model, heard.done.timings.tools) == (10, 4)


@pytest.mark.parametrize("kind", [ErrorKind.UNREACHABLE, ErrorKind.RATE_LIMITED])
async def test_what_the_provider_fails_with_is_told_and_survived(
    autojump_clock: MockClock, kind: ErrorKind
) -> None:
    script: list[Reply] = [[1.0, LLMError(kind, "so it is")], ["Yes."]]
    async with open_table(script) as table:
        heard = await ask(table.npc)
        failed = heard.only(ModelFailed)
        assert (failed.kind, failed.detail) == (kind, "so it is")
        assert (heard.done.end, heard.done.error) == (FAILED, f"{kind}: so it is")
        assert (await ask(table.npc)).done.end is DONE


# Nothing to say.


@pytest.mark.parametrize(
    ("script", "reason", "text"),
    [
        ([[0.5]], Fallback.EMPTY_ANSWER, "Hm?"),
        ([["  \n "]], Fallback.EMPTY_ANSWER, "Hm?"),
        ([[call("good")], []], Fallback.EMPTY_ANSWER, "Hm?"),
        ([[call("bad")], []], Fallback.TOOLS_FAILED, "Hm?"),
        ([[call("bad"), call("good")], []], Fallback.EMPTY_ANSWER, "Hm?"),
        ([["Let me see. ", call("bad")], []], Fallback.TOOLS_FAILED, "Let me see. Hm?"),
        ([[LLMError(ErrorKind.OVERLOADED, "")]], Fallback.MODEL_FAILED, "Hm?"),
        # Having announced something is not having said it.
        (
            [["Let me see. ", call("good")], [LLMError(ErrorKind.OVERLOADED, "")]],
            Fallback.MODEL_FAILED,
            "Let me see. Hm?",
        ),
    ],
)
async def test_an_npc_with_nothing_to_say_says_a_line_of_its_own(
    autojump_clock: MockClock, script: list[Reply], reason: Fallback, text: str
) -> None:
    # D12b
    ran = Ran()
    tools = [ran.tool("good", 0.125), ran.tool("bad", 0.125, error=no())]
    async with open_table(script, *tools) as table:
        heard = await ask(table.npc)
        assert heard.only(FellBack).reason is reason
        assert heard.done.text == text
        assert heard.of(Sentence)[-1].text == "Hm?"
        assert heard.turn is not None
        assert heard.turn.delivered == text


async def test_the_lines_take_turns(autojump_clock: MockClock) -> None:
    # D12b: the NPC's own, or else the configuration's
    async with open_table(lambda _: []) as table:
        lines = [(await ask(table.npc)).done.text for _ in range(3)]
    assert lines == ["Hm?", "What was that?", "Hm?"]
    config = TurnConfig(fallback=("Eh?",))
    plain = NpcConfig(name="Bob")
    async with open_table(lambda _: [], npc=plain, turn=config) as table:
        assert (await ask(table.npc)).done.text == "Eh?"


# Interrupted while tools run.


async def test_what_becomes_of_running_calls_is_their_policy(
    autojump_clock: MockClock,
) -> None:
    # D12a
    ran = Ran()
    tools = [
        ran.tool("read", 2.0),
        ran.tool("write", 2.0, read_only=False, group="w"),
        ran.tool(
            "sing",
            3.0,
            read_only=False,
            group="s",
            on_interrupt=OnInterrupt.FINISH_AND_SPEAK,
        ),
        ran.tool(
            "strike",
            2.0,
            read_only=False,
            group="x",
            on_interrupt=OnInterrupt.CANCEL,
        ),
        ran.tool("done", 0.25),
    ]
    names = ["read", "write", "sing", "strike", "done"]
    script: list[Reply] = [[call(name) for name in names], ["Yes."], ["Indeed."]]
    async with open_table(script, *tools) as table:
        first = Heard()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(ask, table.npc, SLOWLY, heard=first))
            await ask(table.npc, "stop", after=1)
        assert first.done.end is CUT
        assert first.when(TurnDone) == [1]
        assert [(o.call.name, o.status, o.effect) for o in first.done.outcomes] == [
            ("read", Status.CANCELLED, Effect.NONE),
            ("write", Status.CANCELLED, Effect.UNKNOWN),
            ("sing", Status.CANCELLED, Effect.UNKNOWN),
            ("strike", Status.CANCELLED, Effect.UNKNOWN),
            ("done", Status.OK, Effect.NONE),
        ]
        assert len(first.of(ToolStarted)) == len(first.of(ToolFinished)) == 5
        assert sorted(ran.cancelled) == [("read", 1), ("strike", 1)]
        assert protocol_faults(table.llm.requests[1].messages) == []
        await trio.sleep(10)
        assert ran.ended == [("done", 0.25), ("write", 2), ("sing", 3)]
        late = table.events.all(LateResult)
        assert [(e.turn, e.outcome.call.name, e.speak, e.outcome.ok) for e in late] == [
            (1, "write", False, True),
            (1, "sing", True, True),
        ]
        await ask(table.npc, "well?")
        news = [text for role, text in table.llm.told() if role == "system"]
        (told,) = news
        assert told.splitlines()[1:] == [
            'write: {"message":"write is done"}',
            'sing: {"message":"sing is done"}',
        ]


async def test_what_goes_on_still_has_its_own_limit(autojump_clock: MockClock) -> None:
    # D12a: min(tool, server)
    ran = Ran()
    tool = ran.tool(
        "write", HANG, read_only=False, estimated_duration=1.0, max_duration=2.0
    )
    async with open_table([[call("write")]], tool) as table:
        await ask(table.npc, SLOWLY, leave_at=0.5)
        await trio.sleep(10)
        (late,) = table.events.all(LateResult)
    assert (late.outcome.status, late.outcome.effect) == (
        Status.TIMEOUT,
        Effect.UNKNOWN,
    )
    assert ran.cancelled == [("write", 2)]


# Somebody must say yes.


def foreign(ran: Ran, name: str, seconds: float = 0.25, **more: Any) -> Tool:
    return ran.tool(name, seconds, group="world", external=True, **more)


GLOB = Grant(npc="Bob", tools=("*",), approver=True)


@pytest.mark.parametrize(
    ("answer", "status", "took"),
    [
        ("yes", Status.OK, 2),
        ("no", Status.DENIED, 2),
        ("raises", Status.DENIED, 2),
        ("hangs", Status.DENIED, 30),
    ],
)
async def test_a_foreign_tool_runs_only_after_a_yes_on_nobodys_clock(
    autojump_clock: MockClock, answer: str, status: Status, took: float
) -> None:
    # D13a, D3: an approval takes its own time, 30 s at most
    asked: list[ApprovalRequest] = []

    async def approver(request: ApprovalRequest) -> bool:
        asked.append(request)
        await trio.sleep(HANG if answer == "hangs" else 2.0)
        if answer == "raises":
            raise ValueError("the approver has a bug")
        return answer == "yes"

    ran = Ran()
    made = call("mcp__world__tell", '{"a": 1}')
    script: list[Reply] = [[1.0, made, call("own")], ["Yes."]]
    tools = [foreign(ran, "tell"), ran.tool("own", 0.125)]
    async with open_table(script, *tools, grant=GLOB, approver=approver) as table:
        heard = await ask(table.npc, SLOWLY)
    assert [(x.npc, x.call, x.tool) for x in asked] == [("Bob", made, "world.tell")]
    assert asked[0].definition is not None
    assert asked[0].definition.key == "world.tell"
    assert statuses(heard)[0][1] is status
    assert statuses(heard)[1] == ("own", Status.OK)
    assert heard.when(ToolStarted)[0] == 1 + took
    timings = heard.done.timings
    assert timings.tools == (0.25 if status is Status.OK else 0.125)
    assert timings.model == 1
    if status is Status.DENIED:
        assert "was not approved" in table.llm.told()[2][1]


async def test_only_what_could_then_run_is_asked_about(
    autojump_clock: MockClock,
) -> None:
    # D13a: not our own tools, not the trusted, not what the gate refuses anyway
    asked: list[str] = []

    async def approver(request: ApprovalRequest) -> bool:
        asked.append(request.tool)
        return True

    ran = Ran()
    tools = [
        ran.tool("own", 0.25),
        foreign(ran, "trusted"),
        foreign(ran, "named"),
        foreign(ran, "tell"),
        foreign(ran, "slow", 3.0),
        foreign(ran, "secret", expose_as="secret"),
    ]
    names = ["own", "mcp__world__trusted", "mcp__world__named", "mcp__world__tell"]
    names += ["mcp__world__slow", "secret", "mcp__world__nothing", "world.tell"]
    grant = Grant(
        npc="Bob",
        tools=("own", "mcp__*", "world.named"),
        allow_tools=("world.trusted",),
        approver=True,
    )
    script: list[Reply] = [[call(name) for name in names], ["Yes."]]
    async with open_table(script, *tools, grant=grant, approver=approver) as table:
        heard = await ask(table.npc, "remember?")  # STANDARD: one tool is too slow
    assert asked == ["world.tell"]
    assert {name for name, status in statuses(heard) if status is Status.OK} == {
        "own",
        "mcp__world__trusted",
        "mcp__world__named",
        "mcp__world__tell",
    }


async def test_nobody_is_asked_in_a_fast_turn_nor_for_what_will_not_run(
    autojump_clock: MockClock,
) -> None:
    # D13a, D4: a hidden tool stays hidden, and the last round runs nothing
    asked: list[str] = []

    async def approver(request: ApprovalRequest) -> bool:
        asked.append(request.call.id)
        return True

    ran = Ran()
    tell = "mcp__world__tell"
    many = [call(tell, f'{{"n": {n}}}', id=f"{n}") for n in range(17)]
    script: list[Reply] = [
        [call(tell, id="fast")],
        ["Yes."],
        many,
        [call(tell, id="last")],
    ]
    async with open_table(
        script,
        foreign(ran, "tell"),
        grant=GLOB,
        approver=approver,
        turn=TurnConfig(max_rounds=1),
    ) as table:
        fast = await ask(table.npc, tier=FAST)
        assert fast.only(TierSelected).tier is FAST
        assert table.llm.shown()[0] == []
        assert statuses(fast) == [(tell, Status.DENIED)]
        assert asked == []
        await ask(table.npc, SLOWLY)
    assert sorted(asked, key=int) == [f"{n}" for n in range(16)]
    assert len(ran.began) == 16


async def test_two_approvals_are_asked_for_at_once_and_one_yes_is_kept(
    autojump_clock: MockClock,
) -> None:
    # D13a: one answers, the other never does, and its own time ends it
    async def approver(request: ApprovalRequest) -> bool:
        await trio.sleep(HANG if request.call.id == "b" else 1.0)
        return True

    ran = Ran()
    tell = "mcp__world__tell"
    calls = [call(tell, '{"n": 1}', id="a"), call(tell, '{"n": 2}', id="b")]
    async with open_table(
        [calls, ["Yes."]],
        foreign(ran, "tell"),
        grant=GLOB,
        approver=approver,
        approval_timeout=3.0,
    ) as table:
        heard = await ask(table.npc, SLOWLY)
    assert [status for _, status in statuses(heard)] == [Status.OK, Status.DENIED]
    assert ran.began == [("tell", 3)]


async def test_an_interruption_ends_the_wait_for_an_approval(
    autojump_clock: MockClock,
) -> None:
    waiting: list[str] = []

    async def approver(request: ApprovalRequest) -> bool:
        try:
            await trio.sleep_forever()
        finally:
            waiting.append("cancelled")
        return True

    ran = Ran()
    script: list[Reply] = [[call("mcp__world__tell")], ["Yes."]]
    async with open_table(
        script, foreign(ran, "tell"), grant=GLOB, approver=approver
    ) as table:
        await ask(table.npc, SLOWLY, leave_at=2)
        await wait_all_tasks_blocked()  # the approver runs beside the turn
        assert (trio.current_time(), waiting) == (2, ["cancelled"])
        await ask(table.npc)
        # A call that never ran has its outcome, which the model is told.
        assert table.llm.told() == [
            ("user", SLOWLY),
            ("assistant", ""),
            ("tool", '{"status":"cancelled","message":"interrupted"}'),
            ("user", "Hello"),
        ]
        assert ran.began == []


# Rounds with words and calls.


async def test_words_beside_calls_are_said_and_remembered_in_their_round(
    autojump_clock: MockClock,
) -> None:
    script: list[Reply] = [
        ["Let me see. One mo", "ment", call("a")],
        ["It is open."],
        ["Yes."],
    ]
    async with open_table(script, Ran().tool("a", 0.25)) as table:
        heard = await ask(table.npc, "Is it open?")
        await ask(table.npc, "Sure?")
    assert [(event.round, event.text) for event in heard.of(Sentence)] == [
        (0, "Let me see."),
        (0, "One moment"),
        (1, "It is open."),
    ]
    assert heard.kinds().index("ToolStarted") > heard.kinds().index("Sentence")
    assert heard.done.text == "Let me see. One moment It is open."
    assert table.llm.told() == [
        ("user", "Is it open?"),
        ("assistant", "Let me see. One moment"),
        ("tool", '{"message":"a is done"}'),
        ("assistant", "It is open."),
        ("user", "Sure?"),
    ]


async def test_what_was_written_before_a_failure_is_heard(
    autojump_clock: MockClock,
) -> None:
    # D0: the stream dies in the middle of the second sentence.
    script: list[Reply] = [
        ["The key is. Un", "der the", LLMError(ErrorKind.INTERRUPTED, "lost")]
    ]
    async with open_table(script) as table:
        heard = await ask(table.npc)
    assert [event.text for event in heard.of(Sentence)] == ["The key is.", "Under the"]
    kinds = heard.kinds()
    assert kinds.index("ModelFailed") > len(kinds) - 3
    assert heard.of(FellBack) == []
    assert heard.done.end is FAILED


async def test_everybody_hears_the_same_on_the_topic(autojump_clock: MockClock) -> None:
    # Subscribers see what the listener sees, in the same order.
    ran = Ran()
    script: list[Reply] = [["Hm. ", call("a"), call("nothing")], ["Yes. It is."]]

    def same(table: Table, heard: Heard) -> bool:
        return table.events.kept == heard.events

    async with open_table(script, ran.tool("a", 0.25)) as table:
        heard = await ask(table.npc)
        assert same(table, heard)


@pytest.mark.parametrize("tier", [FAST, STANDARD])
async def test_an_estimate_that_is_the_ceiling_runs_on_a_real_clock(tier: Tier) -> None:
    # Found: what a turn takes to begin a call made it "needs 500 ms, 500 ms left".
    exact = Ran().tool("exact", 0.0, estimated_duration=DEFAULT_LIMITS.ceiling(tier))
    script: list[Reply] = [[call("exact")], ["Done."]]
    async with open_table(script, exact, tier=tier) as table:
        heard = await ask(table.npc)
    assert statuses(heard) == [("exact", Status.OK)]


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (["word " * 4_000], ErrorKind.TOO_LONG),
        (["Well.", LLMError(ErrorKind.MALFORMED, "no JSON")], ErrorKind.MALFORMED),
    ],
)
async def test_hanging_up_has_an_end_and_the_first_error_counts(
    reply: Reply, kind: ErrorKind, autojump_clock: MockClock
) -> None:
    async with open_table([reply]) as table:
        table.llm.hang_up, table.llm.deaf = 3600.0, False
        heard = await ask(table.npc)
        assert table.llm.open == 0
    assert [x.kind for x in heard.of(ModelFailed)] == [kind]
    assert heard.done.timings.total == FAREWELL


async def test_words_before_a_call_are_spoken_while_the_call_is_written(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    writes: Reply = ["Let me look. ", Working(calls=True), 0.5, call("a")]
    async with open_table([writes, ["Done."]], ran.tool("a", 0.125)) as table:
        heard = await ask(table.npc)
    spoken = [(at, e.text) for at, e in heard.events if isinstance(e, Sentence)]
    assert spoken == [(0.0, "Let me look."), (0.625, "Done.")]
