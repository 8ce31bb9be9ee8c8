"""The spans of turns: below whose they are, what they say, and that each one ends."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any

import attrs
from hypothesis import event, given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio.config import TurnConfig
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.npc import TurnDone
from glyphoxa_trio.providers.llm import ErrorKind, LLMError
from glyphoxa_trio.tools.definition import CallContext, OnInterrupt
from glyphoxa_trio.tools.outcome import ToolResult

from ..traced import TRACER, Spans, about, recorded, spans_to
from .support import HANG, Ran, Reply, Table, call, no, open_table


async def say(table: Table, text: str = "Look!", speaker: str = "Ann") -> TurnDone:
    async with table.npc.say(text, speaker=speaker) as turn:
        return await turn.finish()


async def test_a_turn_is_below_the_span_that_is_current_where_it_is_asked_for(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    script: list[Reply] = [[call("look"), call("sulk")], ["A door."]]
    tools = ran.tool("look", 0.5), ran.tool("sulk", error=no())
    with recorded() as spans:
        with TRACER.start_as_current_span("opening"):
            async with open_table(script, *tools, ran=ran) as table:
                with TRACER.start_as_current_span("command"):
                    await say(table)
        assert not spans.open
    turn, command = spans.one("invoke_agent Bob"), spans.one("command")
    assert spans.above(turn) is command
    assert about(turn, "glyphoxa.end") == "completed"
    assert about(turn, "gen_ai.conversation.id") == "default"
    below = [x for x in spans.all if spans.above(x) is turn]
    assert [x.name for x in below] == [
        "chat scripted",
        "execute_tool look",
        "execute_tool sulk",
        "chat scripted",
    ]
    _, look, sulk, _ = below
    assert about(look, "glyphoxa.status") == "ok"
    assert about(look, "gen_ai.tool.call.id") == "call_look"
    assert look.status.is_ok
    assert about(sulk, "error.type") == "tool_error"
    assert not sulk.status.is_ok


async def test_without_a_span_of_the_speaker_a_turn_is_a_trace_of_its_own(
    autojump_clock: MockClock,
) -> None:
    with recorded() as spans:
        with TRACER.start_as_current_span("opening"):
            opened = open_table([["Hello."]])
            table = await opened.__aenter__()
        await say(table)
        await opened.__aexit__(None, None, None)
    assert spans.one("invoke_agent").parent is None


async def test_the_code_of_a_tool_is_within_its_call(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    look = ran.tool("look")
    inner = look.handler

    async def handler(arguments: Any, context: CallContext) -> ToolResult:
        with TRACER.start_as_current_span("query"):
            found: ToolResult = await inner(arguments, context)  # type: ignore[misc]
            return found

    with recorded() as spans:
        script: list[Reply] = [[call("look")], ["Yes."]]
        async with open_table(script, attrs.evolve(look, handler=handler)) as table:
            await say(table)
    assert spans.above(spans.one("query")) is spans.one("execute_tool look")


async def test_a_call_that_outlives_its_turn_ends_with_its_own_end(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    slow = ran.tool(
        "dig", 3.0, on_interrupt=OnInterrupt.FINISH_AND_SPEAK, estimated_duration=0.1
    )
    with recorded() as spans:
        async with open_table([[call("dig")], ["Done."]], slow, ran=ran) as table:
            with trio.move_on_after(1):
                await say(table)
            dig = spans.one("execute_tool dig")
            assert dig.end_time is None
            assert spans.one("invoke_agent").end_time is not None
            await trio.sleep(5)
            assert dig.end_time is not None
    assert about(dig, "glyphoxa.outlives_turn") == "interruption"
    assert about(dig, "glyphoxa.status") == "ok"


async def test_a_cached_result_says_so_and_a_shared_one_names_the_first_call(
    autojump_clock: MockClock,
) -> None:
    ran = Ran()
    look = ran.tool("look", 0.25, cacheable=60.0)
    script: list[Reply] = [
        [call("look"), call("look", id="other")],
        ["Twice."],
        [call("look")],
        ["Once more."],
    ]
    with recorded() as spans:
        async with open_table(script, look, ran=ran) as table:
            await say(table)
            await say(table)
    first, shared, cached = spans.named("execute_tool look")
    assert about(shared, "glyphoxa.shared") is True
    assert [x.context for x in shared.links] == [first.context]
    assert about(cached, "glyphoxa.cached") is True
    assert (first.links, cached.links) == ((), ())
    assert len(ran.began) == 1


async def test_what_a_model_makes_up_and_a_failure_says_is_not_recorded(
    autojump_clock: MockClock,
) -> None:
    script: list[Reply] = [
        [call("my secret is", id="and so is\nthis")],
        [LLMError(ErrorKind.OVERLOADED, "of the secret")],
    ]
    with recorded() as spans:
        async with open_table(script) as table:
            await say(table, "a secret")
    made_up, failed = spans.one("execute_tool"), spans.named("chat")[1]
    assert about(made_up, "glyphoxa.reason") == "unknown"
    assert about(failed, "error.type") == "overloaded"
    assert about(spans.one("invoke_agent"), "error.type") == "overloaded"
    assert not any("secret" in x.to_json() for x in spans.all)


class Broken(Spans):
    """A processor that does not work."""

    def on_start(self, *_: object) -> None:
        raise RuntimeError("no room")


async def test_a_processor_that_fails_ends_no_turn(
    autojump_clock: MockClock,
) -> None:
    with spans_to(Broken()):
        async with open_table([["Hello."]]) as table:
            assert (await say(table)).text == "Hello."


# ------------------------------------------------------------------ whatever happens

SCRIPTS: dict[str, Sequence[Reply]] = {
    "hello": [["Hello."]],
    "look": [[0.25, call("look")], ["A door."]],
    "everything": [
        [call("look"), call("dig"), call("nothing"), call("sulk"), call("look", "?")],
        [0.25, call("look", id="x"), call("read"), call("read", id="y")],
        ["All of it."],
    ],
    "dig": [[call("dig")], [call("dig")], ["Deep."]],
    "fail": [["One. ", call("look"), 0.25, LLMError(ErrorKind.UNREACHABLE, "no")]],
    "bug": [[call("look"), 0.125, RuntimeError("a bug of the link")]],
    "silence": [[HANG]],
}
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("say"), st.sampled_from(sorted(SCRIPTS)), st.sampled_from("AB")
        ),
        st.tuples(st.just("wait"), st.sampled_from([0.0, 0.125, 0.5, 4.0])),
        st.tuples(st.just("interrupt")),
        st.tuples(st.just("leave")),
    ),
    max_size=12,
)


@given(STEPS, st.sampled_from(["wait", "close"]))
def test_each_span_ends_once_and_is_below_its_own_turn(
    steps: list[tuple[object, ...]], end: str
) -> None:
    trio.run(partial(_play, steps, end), clock=MockClock(autojump_threshold=0))


async def _play(steps: list[tuple[object, ...]], end: str) -> None:
    ran = Ran()
    tools = (
        ran.tool("look", 0.25),
        ran.tool("read", 0.5, cacheable=1.0),
        ran.tool("sulk", error=no()),
        ran.tool(
            "dig",
            2.0,
            read_only=False,
            on_interrupt=OnInterrupt.FINISH_SILENTLY,
            estimated_duration=0.1,
        ),
    )
    scopes: list[trio.CancelScope] = []

    def script(request: object) -> Reply:
        messages = request.messages  # type: ignore[attr-defined]
        said = max(at for at, x in enumerate(messages) if x.role == "user")
        words = messages[said].content.rsplit(":", 1)[-1].strip()
        rounds = SCRIPTS[next(x for x in SCRIPTS if x in words)]
        done = sum(x.role == "assistant" for x in messages[said:])
        return rounds[min(done, len(rounds) - 1)]

    with recorded() as spans:

        async def speak(text: str, speaker: str, scope: trio.CancelScope) -> None:
            with scope, TRACER.start_as_current_span(f"command {text}"):
                # The session may have ended, or too many wait.
                with suppress(GlyphoxaError):
                    await say(table, text, speaker)

        config = TurnConfig(first_token=3.0, queue=2)
        async with trio.open_nursery() as nursery:
            async with open_table(script, *tools, ran=ran, turn=config) as table:
                for step in steps:
                    match step:
                        case ("say", str() as text, str() as speaker):
                            scopes.append(trio.CancelScope())
                            nursery.start_soon(speak, text, speaker, scopes[-1])
                        case ("wait", float() as seconds):
                            await trio.sleep(seconds)
                        case ("interrupt",):
                            await table.npc.interrupt()
                        case ("leave",) if scopes:
                            scopes.pop().cancel()
                    await wait_all_tasks_blocked()
                if end == "wait":
                    await trio.sleep(60)
                else:
                    table.scope.cancel()
            nursery.cancel_scope.deadline = trio.current_time() + 60
    assert not spans.open, [x.name for x in spans.all if x.end_time is None]
    turns = spans.named("invoke_agent")
    event(f"{len(turns)} turns")
    for span in spans.all:
        above = spans.above(span)
        kind = span.name.split()[0]
        match kind:
            case "command":
                assert above is None
            case "invoke_agent":
                assert above is not None
                assert above.name.startswith("command")
            case _:
                assert kind in ("chat", "execute_tool")
                assert above in turns
                # A call may go on after its turn, and begins in it.
                assert (above.start_time or 0) <= (span.start_time or inf)
                assert (span.start_time or inf) <= (above.end_time or 0)
                assert span.context.trace_id == above.context.trace_id
    # One span a turn: none is said twice, and none has none.
    assert len({x.parent.span_id for x in turns if x.parent}) == len(turns)
