"""Questions of servers to a person: asked outside of the tool clock, or refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock

from glyphoxa_trio import Config, Outcome, Tier, open_runtime
from glyphoxa_trio.config import CalibrationConfig, McpConfig, ServerSpec
from glyphoxa_trio.errors import DeadlineExceeded
from glyphoxa_trio.host import Caller, CallsOfTurn
from glyphoxa_trio.host.pauses import Pauses, TurnQuestions
from glyphoxa_trio.mcp.questions import (
    Answer,
    AnswerWrong,
    QuestionRefused,
    ServerQuestion,
    asked,
    question_of,
)
from glyphoxa_trio.runtime.questions import ServerQuestions
from glyphoxa_trio.tools.definition import CallContext
from glyphoxa_trio.tools.gate import EVERYTHING
from glyphoxa_trio.tools.outcome import Status, ToolCall

from ..mcp.odd import OddServer, OddTable, Wrong, odd_table, tool
from ..mcp.support import SERVERS

FORM = {
    "type": "object",
    "properties": {
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "amount": {"type": "integer", "default": 1},
    },
    "required": ["colour"],
}
LIST = {"tools/list": {"tools": [tool(), tool("other")]}}


def asking(schema: Any = FORM, message: Any = "Which colour?", **more: Any) -> Any:
    """A call that asks, and says what it was answered."""

    async def call(params: Any, server: OddServer) -> dict[str, Any]:
        form = {"message": message, "requestedSchema": schema, **more}
        answer = await server.ask("elicitation/create", form)
        said = answer.get("error", {}).get("message") or str(answer.get("result"))
        return {"content": [{"type": "text", "text": said}]}

    return {**LIST, "tools/call": call}


def person(answer: Answer | None, *, after: float = 0.0, seen: Any = None) -> Any:
    async def answers(question: ServerQuestion) -> Answer | None:
        if seen is not None:
            seen.append(question)
        await trio.sleep(after)
        return answer

    return {"runtime_options": {"answers": answers, "approval_timeout": 60.0}}


RED_AFTER_20 = person({"colour": "red"}, after=20.0)


def beside(other: Callable[[], Awaitable[object]]) -> Any:
    """A tool that asks, and ``other`` that takes its time; both only read."""
    asks = asking()["tools/call"]

    async def call(params: Any, server: OddServer) -> Any:
        if params["name"] == "ask":
            return await asks(params, server)
        await other()
        return {"content": [{"type": "text", "text": "done"}]}

    reads = [
        tool(name, annotations={"readOnlyHint": True}) for name in ("ask", "other")
    ]
    return {"tools/list": {"tools": reads}, "tools/call": call}


async def called(table: OddTable) -> Outcome:
    return await table.runtime.host.execute("odd.ask", tier=Tier.FAST)


async def test_a_person_takes_longer_than_any_tool_may(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    seen: list[ServerQuestion] = []
    answers = person({"colour": "red", "amount": 2}, after=50.0, seen=seen)
    async with odd_table(monkeypatch, asking(), timeout=2.0, **answers) as table:
        begun = trio.current_time()
        outcome = await called(table)
        assert outcome.status is Status.OK, outcome
        assert "{'colour': 'red', 'amount': 2}" in outcome.message
        assert trio.current_time() - begun == pytest.approx(50.0)
        (question,) = seen
        assert (question.server, question.text) == ("odd", "Which colour?")
        assert question.fields[0].choices == ("red", "blue")
        # The tool is not slower for it.
        for _ in range(5):
            assert (await called(table)).ok
        await trio.sleep(1)
        estimate = (await table.runtime.host.report())["odd.ask"]
        assert estimate.samples >= 5
        assert estimate.tier is Tier.FAST
        assert estimate.seconds < 0.5


async def test_the_time_of_the_tool_itself_still_counts(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    inner = asking()["tools/call"]

    async def slow(params: Any, server: OddServer) -> Any:
        await trio.sleep(0.2)
        result = await inner(params, server)
        await trio.sleep(100)
        return result

    reads = tool(annotations={"readOnlyHint": True})
    script = {"tools/list": {"tools": [reads]}, "tools/call": slow}
    answers = person({"colour": "red"}, after=20.0)
    async with odd_table(monkeypatch, script, **answers) as table:
        begun = trio.current_time()
        ceiling = table.runtime.host.settings.limits.ceiling(Tier.FAST)
        outcome = await called(table)
        assert outcome.status is Status.TIMEOUT
        assert trio.current_time() - begun == pytest.approx(20.0 + ceiling)


@pytest.mark.parametrize(
    ("takes", "lasts"),
    [(2.0, 10.0), (25.0, 60.0), (100.0, 60.0)],
    ids=["at most five questions", "at most a minute", "not again who did not answer"],
)
async def test_a_server_that_asks_for_ever_meets_its_limit(
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: MockClock,
    takes: float,
    lasts: float,
) -> None:
    async def for_ever(params: Any, server: OddServer) -> Any:
        while True:
            form = {"message": "And now?", "requestedSchema": FORM}
            await server.ask("elicitation/create", form)
            await trio.sleep(0.01)

    reads = tool(annotations={"readOnlyHint": True})
    script = {"tools/list": {"tools": [reads]}, "tools/call": for_ever}
    answers = person({"colour": "red"}, after=takes)
    async with odd_table(monkeypatch, script, **answers) as table:
        begun = trio.current_time()
        ceiling = table.runtime.host.settings.limits.ceiling(Tier.FAST)
        outcome = await called(table)
        assert outcome.status is Status.TIMEOUT
        assert trio.current_time() - begun == pytest.approx(lasts + ceiling)


async def test_calls_of_one_response_wait_together_and_the_turn_is_told(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    answers = person({"colour": "red"}, after=20.0)
    async with odd_table(monkeypatch, asking(), **answers) as table:
        paused: list[float] = []
        caller = Caller(grant=EVERYTHING, on_paused=paused.append)
        calls = [ToolCall(name, f"odd.{name}") for name in ("ask", "other")]
        now = trio.current_time()
        outcomes = await table.runtime.host.fan_out(calls, caller, deadline=now + 0.5)
        assert [x.status for x in outcomes] == [Status.OK, Status.OK], outcomes
        assert trio.current_time() - now == pytest.approx(40.0)  # one after the other
        assert paused == [pytest.approx(40.0)]


async def test_no_server_asks_on_and_on_in_the_rounds_of_one_turn(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    seen: list[ServerQuestion] = []
    answers = person({"colour": "red"}, after=25.0, seen=seen)
    async with odd_table(monkeypatch, asking(), **answers) as table:
        host, turn = table.runtime.host, CallsOfTurn()
        begun, said = trio.current_time(), list[str]()
        for number in range(8):
            caller = Caller(grant=EVERYTHING, questions=turn.questions)
            calls = [ToolCall(str(number), "odd.ask")]
            until = trio.current_time() + 0.5
            (outcome,) = await host.fan_out(calls, caller, deadline=until)
            said.append(outcome.message)
        assert len(seen) == 3
        assert trio.current_time() - begun == pytest.approx(60.0)
        assert "nobody answered within 10000 ms" in said[2]
        assert all("any more in this turn" in x for x in said[3:])
        await called(table)  # another turn
        assert len(seen) == 4


@pytest.mark.parametrize("asks", [False, True])
async def test_a_call_past_the_executor_ends_a_second_after_its_limit(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock, asks: bool
) -> None:
    async with odd_table(
        monkeypatch, beside(trio.sleep_forever), timeout=2.0, **RED_AFTER_20
    ) as table:
        host = table.runtime.host
        hangs: Any = host.snapshot.by_key["odd.other"].tool.handler
        async with trio.open_nursery() as nursery:
            if asks:
                nursery.start_soon(called, table)
            begun = trio.current_time()
            with pytest.raises(DeadlineExceeded):
                await hangs({}, CallContext())
            lasted = trio.current_time() - begun
        assert lasted == pytest.approx(23.0 if asks else 3.0)


async def test_a_question_in_one_turn_makes_no_tool_of_another_turn_faster(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    script = beside(partial(trio.sleep, 0.3))
    async with odd_table(monkeypatch, script, **RED_AFTER_20) as table:
        host = table.runtime.host
        async with trio.open_nursery() as nursery:
            nursery.start_soon(called, table)
            await trio.sleep(1)
            for _ in range(20):
                await host.execute("odd.other", tier=Tier.FAST)
        await trio.sleep(1)
        assert (await host.report())["odd.other"].seconds == pytest.approx(0.3, rel=0.2)


async def test_another_table_does_not_wait_for_this_ones_person(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    script = beside(trio.sleep_forever)
    async with odd_table(monkeypatch, script, **RED_AFTER_20) as table:
        host = table.runtime.host
        ends: dict[str, tuple[Status, float]] = {}

        async def turn(name: str, after: float) -> None:
            await trio.sleep(after)
            begun = trio.current_time()
            outcome = await host.execute(f"odd.{name}", tier=Tier.FAST)
            ends[name] = (outcome.status, trio.current_time() - begun)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(turn, "ask", 0)
            nursery.start_soon(turn, "other", 1.0)
        ceiling = host.settings.limits.ceiling(Tier.FAST)
        assert {x: end for x, (end, _) in ends.items()} == {
            "other": Status.TIMEOUT,
            "ask": Status.OK,
        }
        lasted = {x: seconds for x, (_, seconds) in ends.items()}
        assert lasted == pytest.approx({"other": ceiling, "ask": 20.0})


async def test_a_slow_person_takes_no_time_of_another_tables_person(
    autojump_clock: MockClock,
) -> None:
    begun = trio.current_time()
    asked_at: list[tuple[str, float]] = []
    pauses = Pauses()
    host: Any = SimpleNamespace(turns_waiting=pauses.turns, pause=pauses.pause)

    async def slow(question: ServerQuestion) -> Answer | None:
        asked_at.append((question.server, trio.current_time() - begun))
        await trio.sleep(40.0)
        return {}

    questions = ServerQuestions(slow, 60.0, host)

    async def turn(server: str, session: str, after: float) -> None:
        await trio.sleep(after)
        of_turn = TurnQuestions(whose=("", session))
        with pauses.waiting((server,), of_turn, trio.current_time(), lambda _: None):
            with suppress(QuestionRefused):
                await questions.ask(ServerQuestion(server, "Really?"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(turn, "s1", "red", 0.0)
        nursery.start_soon(turn, "s2", "green", 1.0)
        nursery.start_soon(turn, "s3", "red", 2.0)
    assert asked_at == [("s1", 0.0), ("s2", 1.0), ("s3", 40.0)]
    assert questions._open == {}


async def test_a_question_ends_with_its_call(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    answers = person({"colour": "red"}, after=20.0)
    async with odd_table(monkeypatch, asking(), **answers) as table:
        with trio.move_on_after(1.0):
            await called(table)
        begun = trio.current_time()
        assert (await called(table)).status is Status.OK  # its person is free
        assert trio.current_time() - begun == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("script", "answer", "after", "said"),
    [
        (asking(), None, 0, "'decline'"),
        (asking(), {"colour": "red"}, 70, "nobody answered within 60000 ms"),
        (asking(), {"colour": "green"}, 0, "the answer does not fit the form"),
        (
            asking(message="Your password?"),
            {"colour": "red"},
            0,
            "not asked for secrets",
        ),
        (
            asking({"type": "object", "properties": {"api_key": {"type": "string"}}}),
            {"api_key": "x"},
            0,
            "not asked for secrets",
        ),
        (
            asking({"type": "object", "properties": {"x": {"type": "object"}}}),
            {"x": {}},
            0,
            "'x' cannot be shown",
        ),
        (
            asking(mode="map", url="https://a.example", elicitationId="1"),
            {},
            0,
            "in a form, or to open a url",
        ),
    ],
)
async def test_what_is_not_answered_is_refused_in_words(
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: MockClock,
    script: Any,
    answer: Answer | None,
    after: float,
    said: str,
) -> None:
    async with odd_table(monkeypatch, script, **person(answer, after=after)) as table:
        outcome = await called(table)
        assert said in outcome.message


PAGE = "https://a.example/pay?for=ale"


@pytest.mark.parametrize(
    ("answer", "result"),
    [({}, "{'action': 'accept'}"), (None, "{'action': 'decline'}")],
)
async def test_a_person_is_asked_whether_they_open_an_address(
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: MockClock,
    answer: Answer | None,
    result: str,
) -> None:
    seen: list[ServerQuestion] = []
    script = asking(message="Pay here, api key and all.", mode="url", url=PAGE)
    async with odd_table(
        monkeypatch, script, **person(answer, after=20.0, seen=seen)
    ) as table:
        assert (await called(table)).message == result
    (question,) = seen
    assert (question.fields, question.address) == ((), PAGE)
    assert question.text == f"Pay here, api key and all.\n{PAGE}"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({}, "call it again when that is done"),
        (None, "did not want to open what it needs"),
    ],
)
async def test_a_server_may_want_an_address_opened_before_it_answers(
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: MockClock,
    answer: Answer | None,
    said: str,
) -> None:
    seen: list[ServerQuestion] = []
    page = {"message": "Log in.", "url": PAGE, "elicitationId": "1", "mode": "url"}
    needs = Wrong("log in first", -32042, {"elicitations": [page, "odd"]})
    script = {**LIST, "tools/call": needs}
    async with odd_table(monkeypatch, script, **person(answer, seen=seen)) as table:
        outcome = await called(table)
        assert outcome.status is Status.TOOL_ERROR
        assert said in outcome.message
    assert [x.address for x in seen] == [PAGE]


@pytest.mark.parametrize(
    "data", [None, [], {"elicitations": {}}, {"elicitations": [{"url": "ftp://a"}]}]
)
async def test_an_address_that_is_none_opens_nothing(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock, data: Any
) -> None:
    seen: list[ServerQuestion] = []
    script = {**LIST, "tools/call": Wrong("log in first", -32042, data)}
    async with odd_table(monkeypatch, script, **person({}, seen=seen)) as table:
        outcome = await called(table)
        assert outcome.status is Status.TOOL_ERROR
        assert "ValidationError" not in outcome.message
        assert "call it again" not in outcome.message
    assert seen == []


@pytest.mark.parametrize(
    "address",
    [
        None,
        "",
        "ftp://a.example/x",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "http://a.example/pay",
        "https://bank.example@a.example/",
        "https://bänk.example/",
        "https://a.example/\u202eyap",
        "https://a.example/ x",
        "https://[::1/",
        "https://a.example:99999/",
        "https://",
        f"https://a.example/{'x' * 3000}",
    ],
)
def test_an_address_shows_where_it_leads(address: Any) -> None:
    with pytest.raises(QuestionRefused, match="url"):
        asked("odd", {"mode": "url", "message": "Go there.", "url": address})


@given(address=st.text() | st.from_regex(r"https?://[!-~]{0,30}", fullmatch=True))
def test_any_address_is_shown_whole_or_refused(address: str) -> None:
    with suppress(QuestionRefused):
        question = asked("odd", {"mode": "url", "message": "", "url": address})
        assert question.address == question.text == address


NAMED = {
    "type": "object",
    "properties": {
        "size": {
            "title": "Size",
            "oneOf": [{"const": 1, "title": "Small"}, {"const": 12, "title": "Dozen"}],
            "default": 12,
        },
        "old": {"enum": ["r", "b"], "enumNames": ["Red, dark", "Blue"]},
        "many": {
            "type": "array",
            "items": {"anyOf": [{"const": "a", "title": "Ale"}, {"const": "b"}]},
            "minItems": 1,
        },
        "maybe": {"anyOf": [{"type": "integer", "minimum": 2}, {"type": "null"}]},
        "ref": {"$ref": "#/$defs/Kind"},
        "loud": {"type": ["boolean", "null"], "default": False},
        "mail": {"type": "string", "format": "email"},
        "day": {"type": "string", "format": "date"},
        "when": {"format": "date-time"},
        "page": {"type": "string", "format": "uri"},
        "short": {"type": "string", "maxLength": 3, "default": "far too long"},
        "weight": {"type": "number", "exclusiveMaximum": 1},
        "words": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["size", "old", "many", "short"],
    "$defs": {"Kind": {"type": "string", "enum": ["Elf", "Orc"]}},
}
WRONG = "wrong"


@pytest.mark.parametrize(
    ("name", "lines", "value"),
    [
        ("size", ["1", "small", "Small"], 1),
        ("size", ["2", "12", "DOZEN", ""], 12),
        ("size", ["3", "0", "-1", "Smal", "True"], WRONG),
        ("old", ["r", "Red, dark", "1"], "r"),
        ("old", ["", "green", "3"], WRONG),
        ("many", ["a", "Ale", "ale, 1", "1 1"], ["a"]),
        ("many", ["a,b", "Ale; b", "1 2", "1, 2"], ["a", "b"]),
        ("many", ["", ",", "a, c"], WRONG),
        ("maybe", [""], None),
        ("maybe", ["2", "2.0", "+2"], 2),
        ("maybe", ["1", "2.5", "two", "1e400", "nan", "2_0", "9" * 5000], WRONG),
        ("ref", ["elf", "1"], "Elf"),
        ("loud", ["yes", "TRUE", "on"], True),
        ("loud", ["", "no", "n"], False),
        ("loud", ["perhaps"], WRONG),
        ("mail", ["a@b.example"], "a@b.example"),
        ("mail", ["a", "a b@c.d", "@"], WRONG),
        ("day", ["2024-02-29"], "2024-02-29"),
        ("day", ["2023-02-29", "1.2.2023", "20240229"], WRONG),
        ("when", ["2024-02-29T10:00:00Z"], "2024-02-29T10:00:00Z"),
        ("when", ["2024-02-29", "2024-02-29T10:00:00", "2024-02-30T10:00:00Z"], WRONG),
        ("page", ["https://a.example/b"], "https://a.example/b"),
        ("page", ["a.example", "https://a b"], WRONG),
        ("short", ["abc"], "abc"),
        ("short", ["", "abcd"], WRONG),
        ("weight", ["0.5", ".5"], 0.5),
        ("weight", ["1", "0,5"], WRONG),
        ("words", ["one, two"], ["one", "two"]),
    ],
)
def test_a_field_is_read_by_title_number_or_value_and_checked_as_it_is_typed(
    name: str, lines: list[str], value: Any
) -> None:
    question = question_of("odd", "Well?", NAMED)
    (field,) = (x for x in question.fields if x.name == name)
    for line in lines:
        if value == WRONG:
            with pytest.raises(AnswerWrong) as wrong:
                field.read(line)
            assert "$" not in str(wrong.value)
        else:
            read = field.read(line)
            assert (read, type(read)) == (value, type(value)), line


@pytest.mark.parametrize(
    ("asked", "answer", "said"),
    [
        ({"requestedSchema": {"type": "object", "properties": []}}, {}, "'accept'"),
        ({"requestedSchema": []}, {}, "'accept'"),
        ({"requestedSchema": None, "mode": None}, None, "'decline'"),
        ({"requestedSchema": {"properties": {"a": []}}}, {"a": "x"}, "{'a': 'x'}"),
        ({"requestedSchema": NAMED}, {"size": 5}, "size: 5 is not one of 1, 12"),
        ({"requestedSchema": NAMED}, {"sice": 1}, "sice: there is no such field"),
        ({"requestedSchema": "form"}, {}, "its form a JSON schema"),
        ({"message": ["Well?"]}, {}, "its message must be a text"),
        ({"message": None, "requestedSchema": None}, {}, "neither a message nor"),
        ({"requestedSchema": {"properties": ["a"]}}, {}, "a schema for each field"),
        ({"requestedSchema": {"type": "string"}}, {}, "a schema for each field"),
        ({"requestedSchema": {"properties": {"a": {"anyOf": []}}}}, {}, "'accept'"),
        ({"mode": "voice"}, {}, "ask in a form"),
    ],
)
async def test_an_odd_form_is_understood_or_refused_in_words(
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: MockClock,
    asked: Any,
    answer: Any,
    said: str,
) -> None:
    script = asking(**{"message": "Well?"} | asked)
    async with odd_table(monkeypatch, script, **person(answer)) as table:
        outcome = await called(table)
        assert said in outcome.message
        assert "ValidationError" not in outcome.message
        (hello,) = table.server.asked("initialize")
        assert hello["capabilities"]["elicitation"] == {"form": {}, "url": {}}


KEYWORDS = (
    *("type", "properties", "required", "enum", "enumNames", "oneOf", "anyOf"),
    *("allOf", "const", "title", "items", "default", "format", "minimum"),
    *("$ref", "$defs", "description"),
)
SCHEMAS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda x: (
        st.lists(x, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYWORDS) | st.text(max_size=3),
            x | st.sampled_from(["string", "array", "integer", "object", "#/$defs/a"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(SCHEMAS, st.text(max_size=8))
def test_any_form_is_a_question_or_refused(schema: Any, line: str) -> None:
    form = {"properties": {"a": schema}, "$defs": {"a": schema}}
    for each in (form, schema):
        try:
            question = asked("odd", {"message": "Well?", "requestedSchema": each})
        except QuestionRefused:
            continue
        for field in question.fields:
            with suppress(AnswerWrong):
                value = field.read(line)
                if value is not None:
                    alone = attrs.evolve(question, fields=(field,))
                    assert alone.checked({field.name: value}) == {field.name: value}


@pytest.mark.parametrize("part", ["one ", "e\u0301\u0323"])
def test_a_long_question_is_cut_before_it_is_looked_at(part: str) -> None:
    long = part * (4_000_000 // len(part))
    question = asked("odd", {"message": long})  # in milliseconds; accents took hours
    assert len(question.text) < 9000
    with pytest.raises(QuestionRefused, match="cannot be shown"):
        asked("odd", {"requestedSchema": {"properties": {long: {}}}})


@pytest.mark.parametrize("kind", ["string", "integer", "array"])
@pytest.mark.parametrize(
    "key", ["minimum", "maximum", "minLength", "maxItems", "format", "multipleOf"]
)
def test_a_limit_that_is_no_number_is_none(kind: str, key: str) -> None:
    field = {"type": kind, key: "\x1b[2J", "items": {"type": "string", key: "\x1b[2J"}}
    form = {"properties": {"a": field}}
    question = asked("odd", {"message": "Well?", "requestedSchema": form})
    assert "\x1b" not in str(question.fields[0].schema)
    assert question.fields[0].read("12") in ("12", 12, ["12"])


@pytest.mark.parametrize("form", [NAMED["properties"], [], None])
async def test_a_server_of_the_newer_family_asks_in_its_answer(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock, form: Any
) -> None:
    async def call(params: Any, server: OddServer) -> Any:
        if "inputResponses" in params:
            said = f"{params['inputResponses']} {params['requestState']}"
            return {"content": [{"type": "text", "text": said}]}
        schema = {"type": "object", "properties": form} if form is not None else []
        ask = {"message": "Well?", "requestedSchema": schema, "mode": None}
        asks = {"q": {"method": "elicitation/create", "params": ask}}
        more = {"inputRequests": asks, "requestState": "half"}
        return {"resultType": "input_required", **more}

    modern = "2026-07-28"
    hello: dict[str, Any] = {
        "supportedVersions": [modern],
        "capabilities": {"tools": {}},
    }
    hello |= {"ttlMs": 0, "cacheScope": "private"}
    hello |= {"serverInfo": {"name": "odd", "version": "1"}}
    script = {
        "initialize": Wrong("no such method", -32601),
        "server/discover": hello,
        "tools/list": {"tools": [tool()], "ttlMs": 0, "cacheScope": "private"},
        "tools/call": call,
    }
    answers = person({"size": 1} if form else {}, after=20.0)
    async with odd_table(monkeypatch, script, timeout=2.0, **answers) as table:
        begun = trio.current_time()
        outcome = await called(table)
        assert outcome.status is Status.OK, outcome
        assert "'action': 'accept'" in outcome.message
        assert outcome.message.endswith("half")
        assert trio.current_time() - begun == pytest.approx(20.0)
        said, again = table.server.asked("tools/call")
        assert said["arguments"] == again["arguments"]


@pytest.mark.parametrize(
    ("text", "name", "asked"),
    [
        ("Do you open the secret door?", "open", True),
        ("Which token on the map?", "choice", True),
        ("And?", "accessToken", False),
        ("And?", "userPin", False),
        ("Passwort?", "x", False),
        ("pass\u200bword?", "x", False),
    ],
)
def test_a_secret_is_told_from_a_word_of_the_game(
    text: str, name: str, asked: bool
) -> None:
    several = {"type": "array", "items": {"type": "string"}}
    for field in ({"type": "string"}, {"type": "integer"}, several):
        form = {"type": "object", "properties": {name: field}}
        if asked:
            assert question_of("odd", text, form).text == text
        else:
            with pytest.raises(QuestionRefused, match="secrets"):
                question_of("odd", text, form)


async def test_without_a_person_servers_are_told_that_nobody_can_be_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with odd_table(monkeypatch, asking()) as table:
        outcome = await called(table)
        assert "not supported" in outcome.message
        (hello,) = table.server.asked("initialize")
        assert "elicitation" not in hello["capabilities"]


async def test_nobody_is_asked_while_no_tool_is_used(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    seen: list[ServerQuestion] = []
    answers = person({"colour": "red"}, seen=seen)
    async with odd_table(monkeypatch, asking(), **answers) as table:
        form = {"message": "Well?", "requestedSchema": FORM}
        answer = await table.server.ask("elicitation/create", form)
        assert "nobody is asked anything" in answer["error"]["message"]
        assert seen == []


@pytest.mark.border
async def test_a_real_server_asks_and_gets_the_answer() -> None:
    command = ("python", str(SERVERS / "storyteller.py"))
    spec = ServerSpec(name="story", command=command, start_timeout=30)
    config = Config(
        mcp=McpConfig(servers=(spec,), remember=False),
        calibration=CalibrationConfig(at_start=False),
    )
    answers = person({"colour": "green", "amount": 3})["runtime_options"]
    async with open_runtime(config, wait_for_servers=30, **answers) as runtime:
        outcome = await runtime.host.execute("story.buy", {"what": "hats"})
        assert outcome.message == "3 green hats"
