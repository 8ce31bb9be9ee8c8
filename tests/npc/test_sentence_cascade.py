"""A fast model opens, the one with tools goes on: what each is told, and when."""

from __future__ import annotations

import attrs
import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio.config import NpcConfig, SpeculationConfig, TurnConfig
from glyphoxa_trio.config.voices import CascadeMode, Engine
from glyphoxa_trio.npc import (
    Fallback,
    FellBack,
    Flush,
    ModelFailed,
    ModelSwitched,
    Sentence,
    SpeculationDone,
    TextDelta,
    ToolsShown,
    ToolStarted,
    TurnEnd,
    UsageReported,
)
from glyphoxa_trio.npc.prompting import CONTINUING, OPENING
from glyphoxa_trio.providers.llm import (
    ErrorKind,
    Finished,
    LLMError,
    Switched,
    Usage,
    Waiting,
    Working,
)
from glyphoxa_trio.tools.gate import Grant

from .support import (
    HANG,
    Heard,
    Ran,
    Reply,
    Script,
    Table,
    ask,
    call,
    open_table,
    protocol_faults,
)

OPENER: Reply = [0.25, "Well", 0.25, ", now. ", "Then", HANG]
NOBODY = Grant(npc="Bob", tools=())  # who may use no tool
SLOWLY = "think carefully"


def bob(mode: CascadeMode = CascadeMode.AUTO) -> NpcConfig:
    engine = Engine.SENTENCE_CASCADE
    return NpcConfig(
        name="Bob", engine=engine, cascade_mode=mode, fallback=("Hm?", "What?")
    )


def spoken(heard: Heard) -> list[tuple[float, str]]:
    return [(at, e.text) for at, e in heard.events if isinstance(e, Sentence)]


def written(heard: Heard) -> str:
    return "".join(event.text for event in heard.of(TextDelta))


# The usual way.


async def test_the_strong_model_is_asked_with_the_piece_that_decides_the_opener(
    autojump_clock: MockClock,
) -> None:
    # G34, D23c
    look = Ran().tool("look", 1.0)
    script: list[Reply] = [[0.5, call("look")], [0.5, "The key is here."]]
    async with open_table(script, look, fast=[OPENER]) as table:
        heard = await ask(table.npc, SLOWLY)
    assert spoken(heard) == [(0.5, "Well, now."), (2.5, "The key is here.")]
    assert (table.fast.asked, table.llm.asked) == ([0], [0.5, 2])
    assert heard.when(ToolStarted) == [1]  # while the opener is being said
    assert heard.done.text == "Well, now. The key is here."
    timings = heard.done.timings
    assert (timings.model, timings.tools, timings.total) == (1.5, 1, 2.5)
    assert timings.first_text == 0.5
    assert heard.kinds() == [
        *("TierSelected", "ToolsShown", "TextDelta", "Sentence"),
        *("ToolStarted", "ToolFinished", "FanOutDone"),
        *("ToolsShown", "TextDelta", "Sentence", "TurnDone"),
    ]


async def test_what_the_two_are_told(autojump_clock: MockClock) -> None:
    # D23c: no tools and a short instruction; the opener as the prefix, and the tools.
    look = Ran().tool("look", 0.25)
    script: list[Reply] = [
        ["Look: ", call("look")],
        ["It is here."],
        ["And so it is."],
    ]
    async with open_table(script, look, fast=[OPENER, ["Aye. No"]]) as table:
        await ask(table.npc, "Where is it?")
        await ask(table.npc, "Is it?")
    fast, again = table.fast.requests
    assert (fast.tools, fast.tools_forbidden) == ((), True)
    assert fast.messages[0].content.endswith(OPENING)
    assert table.fast.told(0) == [("user", "Where is it?")]
    # Of tools it hears nothing, and what was said around them is one message.
    assert table.fast.told(1) == [
        ("user", "Where is it?"),
        ("assistant", "Well, now. Look: It is here."),
        ("user", "Is it?"),
    ]
    assert not any(message.calls for message in again.messages)
    first, second, third = table.llm.requests
    assert table.llm.shown() == [["look"]] * 3
    assert table.llm.told(0) == [("user", "Where is it?"), ("assistant", "Well, now.")]
    # Opener and continuation are one message, with what it calls.
    assert table.llm.told(1) == [
        ("user", "Where is it?"),
        ("assistant", "Well, now. Look:"),
        ("tool", '{"message":"look is done"}'),
    ]
    assert table.llm.told(2)[-4:] == [
        ("tool", '{"message":"look is done"}'),
        ("assistant", "It is here."),
        ("user", "Is it?"),
        ("assistant", "Aye."),
    ]
    for request in (first, second, third):
        assert request.messages[0].content.endswith(CONTINUING)
        assert not protocol_faults(request.messages)


async def test_an_answer_without_tools_is_one_message_in_the_history(
    autojump_clock: MockClock,
) -> None:
    # D23c
    look = Ran().tool("look")
    async with open_table([["It is open."], ["Yes."]], look, fast=[OPENER] * 2) as t:
        await ask(t.npc, "Is it open?")
        await ask(t.npc, "Sure?")
    assert t.llm.told()[:3] == [
        ("user", "Is it open?"),
        ("assistant", "Well, now. It is open."),
        ("user", "Sure?"),
    ]


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (["It is open."], "Well, now. It is open."),
        ([" It is open."], "Well, now. It is open."),
        (["Well, now. ", "It is open."], "Well, now. It is open."),
        (["well,", " now.", "\nIt is", " open."], "Well, now.\nIt is open."),
        (["Well, no."], "Well, now. Well, no."),
        (["Well, now."], "Well, now."),
    ],
)
async def test_the_opener_is_said_once(
    autojump_clock: MockClock, reply: Reply, text: str
) -> None:
    # G34
    async with open_table([reply], Ran().tool("look"), fast=[OPENER]) as table:
        heard = await ask(table.npc)
    assert written(heard) == text
    assert heard.done.text == " ".join(text.split())
    assert heard.done.end is TurnEnd.COMPLETED


async def test_it_is_said_once_also_when_a_tool_has_answered(
    autojump_clock: MockClock,
) -> None:
    script: list[Reply] = [[call("look")], ["Well, now. It is open."]]
    async with open_table(script, Ran().tool("look"), fast=[OPENER]) as table:
        heard = await ask(table.npc)
    assert [text for _, text in spoken(heard)] == ["Well, now.", "It is open."]


async def test_a_long_beginning_is_cut_at_25_words(autojump_clock: MockClock) -> None:
    # D23c
    words: Reply = [step for n in range(1, 60) for step in (0.125, f"w{n} ")]
    script: list[Reply] = [["and so on."]]
    async with open_table(script, Ran().tool("look"), fast=[words]) as table:
        await table.reload(turn=TurnConfig(opener=5.0))
        heard = await ask(table.npc)
    cut = " ".join(f"w{n}" for n in range(1, 26))
    assert spoken(heard) == [(3.125, cut), (3.125, "and so on.")]
    assert table.llm.asked == [3.125]
    assert written(heard) == f"{cut} and so on."


async def test_nobody_waits_for_the_fast_model_to_be_hung_up_on(
    autojump_clock: MockClock,
) -> None:
    async with open_table([[0.5, "Yes."]], Ran().tool("look"), fast=[OPENER]) as table:
        table.fast.hang_up = 7.0
        heard = await ask(table.npc)
    assert table.llm.asked == [0.5]
    assert heard.done.timings.total == 1


# When it opens, and when it is all.


@pytest.mark.parametrize(
    ("mode", "grant", "opens"),
    [
        (CascadeMode.AUTO, None, True),
        (CascadeMode.AUTO, NOBODY, False),
        (CascadeMode.ALWAYS, NOBODY, True),
        (CascadeMode.OFF, None, False),
    ],
)
async def test_when_the_fast_model_opens(
    autojump_clock: MockClock, mode: CascadeMode, grant: Grant | None, opens: bool
) -> None:
    # D23c: auto cascades when at least one tool is visible
    look = Ran().tool("look")
    async with open_table(
        [["Yes."]], look, npc=bob(mode), grant=grant, fast=[OPENER]
    ) as table:
        heard = await ask(table.npc)
    assert len(table.fast.requests) == opens
    assert heard.done.text == ("Well, now. Yes." if opens else "Yes.")
    system = table.llm.requests[0].messages[0].content
    assert (CONTINUING in system) is opens
    assert len(heard.of(ToolsShown)) == 1


@pytest.mark.parametrize(
    ("reply", "grant", "skipped"),
    [
        (["Aye, come in."], NOBODY, True),
        (["Aye, come in."], None, False),  # there are tools, which it has not seen
        (["Aye. Come in."], NOBODY, False),  # it was cut, and had more to say
        (["Aye, come in.\n"], NOBODY, False),
    ],
)
async def test_the_strong_model_is_skipped_only_after_a_whole_answer_without_tools(
    autojump_clock: MockClock, reply: Reply, grant: Grant | None, skipped: bool
) -> None:
    # D23c
    always, look = bob(CascadeMode.ALWAYS), Ran().tool("look")
    script: list[Reply] = [["Sit."], ["Yes."]]
    async with open_table(script, look, npc=always, grant=grant, fast=[reply]) as table:
        heard = await ask(table.npc)
        assert len(table.llm.requests) == (not skipped)
    opener = spoken(heard)[0][1]
    assert heard.done.text == (opener if skipped else f"{opener} Sit.")
    assert heard.done.end is TurnEnd.COMPLETED


# A fast model that is of no use.


@pytest.mark.parametrize(
    ("reply", "at", "kind"),
    [
        ([HANG], 1.0, ErrorKind.FIRST_TOKEN),
        (["Half of a sen", HANG], 1.0, ErrorKind.FIRST_TOKEN),
        ([Working(), HANG], 1.0, ErrorKind.FIRST_TOKEN),
        ([0.25, LLMError(ErrorKind.OVERLOADED, "busy")], 0.25, ErrorKind.OVERLOADED),
        (["We", LLMError(ErrorKind.INTERRUPTED, "lost")], 0.0, ErrorKind.INTERRUPTED),
        ([0.25, ValueError("a bug")], 0.25, ErrorKind.MALFORMED),
    ],
    ids=["silent", "slow", "thinking", "busy", "lost", "bug"],
)
async def test_a_fast_model_that_fails_is_left_out(
    autojump_clock: MockClock, reply: Reply, at: float, kind: ErrorKind
) -> None:
    # D23c: it never breaks a turn, nor delays it beyond its own short limit.
    async with open_table([[0.5, "Yes."]], Ran().tool("look"), fast=[reply]) as table:
        table.fast.hang_up = 7.0
        heard = await ask(table.npc)
    assert table.llm.asked == [at]
    failed = heard.only(ModelFailed)
    assert failed.kind is kind
    assert failed.detail.startswith("the fast model: ")
    # Not a word of it was heard, and the other one is told nothing of it.
    assert written(heard) == heard.done.text == "Yes."
    assert table.llm.told() == [("user", "Hello")]
    assert CONTINUING not in table.llm.requests[0].messages[0].content
    assert (heard.done.end, heard.done.timings.total) == (TurnEnd.COMPLETED, at + 0.5)
    assert not heard.of(FellBack)


async def test_a_fast_model_without_words_is_no_failure(
    autojump_clock: MockClock,
) -> None:
    always = bob(CascadeMode.ALWAYS)
    async with open_table([["Yes."]], npc=always, fast=[[0.25]]) as table:
        heard = await ask(table.npc)
    assert (table.llm.asked, heard.done.text) == ([0.25], "Yes.")
    assert not heard.of(ModelFailed)


async def test_one_that_would_have_to_wait_in_line_is_left_out_and_not_blamed(
    autojump_clock: MockClock,
) -> None:
    waits: Reply = [Waiting("all places at it are taken"), HANG]
    fast: list[Reply] = [waits] * 5 + [[Waiting(), *OPENER]]
    yes: Script = lambda _: ["Yes."]  # noqa: E731
    async with open_table(yes, Ran().tool("look"), fast=fast) as table:
        firsts = []
        for _ in range(6):
            heard = await ask(table.npc)
            assert not heard.of(ModelFailed)
            firsts.append(heard.done.timings.first_text)
        assert table.fast is not None
        assert (len(table.fast.requests), table.fast.open) == (6, 0)
    assert firsts == [0, 0, 0, 0, 0, 0.5]


async def test_one_that_fails_again_and_again_has_a_pause(
    autojump_clock: MockClock,
) -> None:
    # The limit is paid three times, and then once in half a minute.
    silent: Reply = [HANG]
    fast: list[Reply] = [silent] * 4 + [OPENER] * 2
    yes: Script = lambda _: ["Yes."]  # noqa: E731
    async with open_table(yes, Ran().tool("look"), fast=fast) as table:
        firsts = []
        for pause in (0, 0, 0, 0, 26, 5, 31, 0):
            await trio.sleep(pause)
            heard = await ask(table.npc)
            firsts.append(heard.done.timings.first_text)
    assert firsts == [1, 1, 1, 0, 0, 1, 0.5, 0.5]


async def test_a_strong_model_that_fails_after_an_opener_falls_back(
    autojump_clock: MockClock,
) -> None:
    # D12b: an opener alone is no answer; it may have promised one.
    lost = LLMError(ErrorKind.OVERLOADED, "busy")
    async with open_table(
        [[0.5, lost], ["Yes."]], Ran().tool("look"), fast=[OPENER] * 2
    ) as table:
        heard = await ask(table.npc)
        assert heard.done.text == "Well, now. Hm?"
        assert heard.only(FellBack).reason is Fallback.MODEL_FAILED
        assert heard.done.end is TurnEnd.FAILED
        assert (await ask(table.npc)).done.end is TurnEnd.COMPLETED
    assert table.llm.told()[1] == ("assistant", "Well, now. Hm?")


async def test_a_strong_model_with_nothing_to_add_has_answered(
    autojump_clock: MockClock,
) -> None:
    async with open_table([[0.5]], Ran().tool("look"), fast=[OPENER]) as table:
        heard = await ask(table.npc)
    assert (heard.done.text, heard.done.end) == ("Well, now.", TurnEnd.COMPLETED)
    assert not heard.of(FellBack)


# Limits, interruptions, reloads.


async def test_what_both_models_took_is_told(autojump_clock: MockClock) -> None:
    # One that is cut in the middle tells nobody.
    small = Finished(usage=Usage(input_tokens=10, output_tokens=2, model="small"))
    big = Finished(usage=Usage(input_tokens=30, output_tokens=5, model="big"))
    switch = Switched(model="other", instead_of="small", reason="busy")
    fast: list[Reply] = [[switch, "Aye", small], OPENER]
    async with open_table([["Yes.", big]] * 2, Ran().tool("look"), fast=fast) as table:
        first = await ask(table.npc)
        second = await ask(table.npc)
    assert [(e.model, e.input_tokens) for e in first.of(UsageReported)] == [
        ("small", 10),
        ("big", 30),
    ]
    assert [event.model for event in second.of(UsageReported)] == ["big"]
    assert first.only(ModelSwitched).instead_of == "small"
    assert first.done.text == "Aye Yes."


async def test_both_models_spend_the_same_time(autojump_clock: MockClock) -> None:
    # D0
    config = TurnConfig(model_total=1.5)
    look = Ran().tool("look")
    async with open_table([[HANG]], look, turn=config, fast=[OPENER]) as table:
        heard = await ask(table.npc)
    failed = heard.only(ModelFailed)
    assert (failed.kind, heard.when(ModelFailed)) == (ErrorKind.TURN, [1.5])
    assert heard.done.timings.model == 1.5


async def test_the_fast_model_has_no_more_time_than_the_turn(
    autojump_clock: MockClock,
) -> None:
    # D0
    config = TurnConfig(model_total=0.75)
    look = Ran().tool("look")
    async with open_table([[HANG]], look, turn=config, fast=[[HANG]]) as table:
        heard = await ask(table.npc)
    assert [event.kind for event in heard.of(ModelFailed)] == [ErrorKind.TURN] * 2
    assert heard.when(ModelFailed) == [0.75] * 2


async def test_an_interruption_of_the_opener_leaves_nothing(
    autojump_clock: MockClock,
) -> None:
    # D12a
    script: list[Reply] = [["Yes."]]
    async with open_table(script, Ran().tool("look"), fast=[OPENER] * 2) as table:
        table.fast.hang_up = 0.5
        await ask(table.npc, "go", leave_at=0.25)
        assert (trio.current_time(), table.llm.requests) == (0.25, [])
        await ask(table.npc, "and now?")
    assert not table.events.all(Flush)
    assert table.llm.told()[:2] == [("user", "go"), ("user", "and now?")]


@pytest.mark.parametrize("heard_it", [True, False])
async def test_an_interruption_of_the_continuation_keeps_what_was_heard(
    autojump_clock: MockClock, heard_it: bool
) -> None:
    # D12a: the opener counts like any sentence, once the next event is asked for
    script: list[Reply] = [[0.25, "It is op", HANG], ["Yes."]]
    async with open_table(script, Ran().tool("look"), fast=[OPENER] * 2) as table:
        async with table.npc.say("go") as turn:
            async for event in turn:
                if isinstance(event, Sentence) and not heard_it:
                    await trio.sleep(1)
                    break
                if isinstance(event, TextDelta) and event.text.endswith("op"):
                    break
        at = trio.current_time()
        assert [
            flush for flush in table.events.kept if isinstance(flush[1], Flush)
        ] == [(at, Flush(npc="Bob", turn=1, reason="the listener left"))]
        assert (table.llm.open, table.fast.open) == (0, 0)
        await ask(table.npc, "and now?")
    said = [("assistant", "Well, now.")] if heard_it else []
    assert table.llm.told()[:-1] == [("user", "go"), *said, ("user", "and now?")]


async def test_a_bug_in_the_strong_link_ends_the_turn_as_it_is(
    autojump_clock: MockClock,
) -> None:
    look = Ran().tool("look")
    async with open_table([[ZeroDivisionError("oops")]], look, fast=[OPENER]) as table:
        heard = await ask(table.npc)
    assert heard.done.error == "ZeroDivisionError: oops"
    assert heard.done.text == "Well, now."


async def test_it_never_speculates_but_where_it_is_off(
    autojump_clock: MockClock,
) -> None:
    # What would be asked ahead is not what is asked: the opener is not known.
    config = SpeculationConfig(enabled=True)
    for mode, ahead in ((CascadeMode.AUTO, 0), (CascadeMode.OFF, 1)):
        async with open_table(
            lambda _: [0.5, "Yes."],
            Ran().tool("look"),
            npc=bob(mode),
            fast=[OPENER],
            speculation=config,
        ) as table:
            await table.npc.hearing("where is the key")
            await trio.sleep(0.25)
            assert len(table.llm.requests) == ahead
            heard = await ask(table.npc, "Where is the key?")
            assert len(table.events.all(SpeculationDone)) == ahead
            assert heard.done.timings.head_start == pytest.approx(0.1 * ahead)


async def test_a_reload_counts_from_the_next_turn(autojump_clock: MockClock) -> None:
    look = Ran().tool("look")

    async def reload(table: Table) -> None:
        await trio.sleep(0.125)
        npc = attrs.evolve(table.npc.config, engine=Engine.CASCADED)
        await table.reload(npc=npc)

    async with open_table([["Yes."]] * 4, look, fast=[OPENER]) as table:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reload, table)
            first = await ask(table.npc)
        second = await ask(table.npc)
        # Nobody else opens now: its own model does.
        table.links = attrs.evolve(table.links, fast=None)
        await table.reload(npc=bob())
        third = await ask(table.npc)
    assert [x.done.text for x in (first, second)] == ["Well, now. Yes.", "Yes."]
    assert third.done.text == "Yes."
    assert len(table.fast.requests) == 1
    assert [OPENING in r.messages[0].content for r in table.llm.requests] == [
        *(False, False),  # of the first two turns
        *(True, False),
    ]
