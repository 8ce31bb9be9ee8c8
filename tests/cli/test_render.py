"""What people and programs read of events and tools. Pure: nothing runs."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from glyphoxa_trio.cli.render import (
    COLUMNS,
    fan_out_line,
    on_screen,
    tool_row,
    why_lines,
)
from glyphoxa_trio.control.tools_view import hidden_because
from glyphoxa_trio.host import CatalogueEntry
from glyphoxa_trio.npc import (
    ApprovalNeeded,
    ApprovalSettled,
    ContextAdded,
    Decision,
    EngineSwitched,
    Fallback,
    FanOutDone,
    FellBack,
    Filler,
    Flush,
    Hold,
    LateResult,
    ModelFailed,
    ModelSwitched,
    Queued,
    Resume,
    Scripted,
    Sentence,
    Shed,
    SpeculationDone,
    SpeculationEnd,
    Speech,
    TextDelta,
    TierSelected,
    Timings,
    ToolFinished,
    ToolsShown,
    ToolStarted,
    Transcript,
    TurnDone,
    TurnEnd,
    TurnEvent,
    TurnKept,
    UsageReported,
)
from glyphoxa_trio.npc.event_json import event_json
from glyphoxa_trio.npc.events import HearingFailed, SpeechFailed
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.tools.definition import Tool, ToolDefinition
from glyphoxa_trio.tools.estimate import Estimate, EstimateSource
from glyphoxa_trio.tools.gate import Availability, Reason, Refusal
from glyphoxa_trio.tools.outcome import Effect, Limit, Outcome, Status, ToolCall
from glyphoxa_trio.tools.schema import ArgumentSchema
from glyphoxa_trio.tools.tier import Tier

CALL = ToolCall("c1", "roll", '{"expression": "2d6"}')
OF: dict[str, Any] = {"npc": "Bo", "turn": 1}


def outcome(status: Status = Status.OK, **more: Any) -> Outcome:
    return Outcome(
        **{"call": CALL, "tool": "dice.roll", "status": status, "elapsed": 0.12, **more}
    )


def fan_out(*outcomes: Outcome, **more: Any) -> FanOutDone:
    fields: dict[str, Any] = {
        "round": 0,
        "tier": Tier.FAST,
        "shown": 3,
        "budget": 0.5,
        "elapsed": 0.2,
    }
    return FanOutDone(**OF, **{**fields, **more}, outcomes=outcomes)


# ------------------------------------------------------------ one quiet line


def test_a_fan_out_is_one_line_of_tier_tools_calls_and_cost() -> None:
    line = fan_out_line(fan_out(outcome(), outcome(tool="memory.ask", elapsed=0.2)))
    assert line == (
        "fast · 3 tools shown · dice.roll 120 ms, memory.ask 200 ms · 200 ms of 500 ms"
    )


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (outcome(), "dice.roll 120 ms"),
        (outcome(elapsed=0.0004), "dice.roll 0.4 ms"),
        (outcome(cached=True), "dice.roll cached"),
        (
            outcome(Status.TIMEOUT, limit=Limit.TURN, elapsed=0.5),
            "dice.roll cut after 500 ms by the turn's limit",
        ),
        (
            outcome(Status.TIMEOUT, limit=Limit.SERVER, effect=Effect.UNKNOWN),
            "dice.roll cut after 120 ms by the server's limit, effect unknown",
        ),
        (outcome(Status.TOOL_ERROR), "dice.roll tool error after 120 ms"),
        (
            outcome(Status.CRASHED, effect=Effect.UNKNOWN),
            "dice.roll crashed after 120 ms, effect unknown",
        ),
        (
            outcome(Status.INVALID_ARGUMENTS),
            "dice.roll invalid arguments after 120 ms",
        ),
        (outcome(Status.CANCELLED), "dice.roll cancelled after 120 ms"),
        (
            outcome(Status.SKIPPED, message="needs about 800 ms, 120 ms left"),
            "dice.roll skipped: needs about 800 ms, 120 ms left",
        ),
        (outcome(Status.DENIED, message="no"), "dice.roll denied: no"),
        (
            outcome(Status.UNAVAILABLE, message="it is down"),
            "dice.roll unavailable: it is down",
        ),
    ],
    ids=lambda value: str(getattr(value, "status", "")),
)
def test_every_way_to_end_has_its_words(end: Outcome, text: str) -> None:
    assert f" · {text} · " in fan_out_line(fan_out(end))


def test_every_status_has_words() -> None:
    for status in Status:
        assert fan_out_line(fan_out(outcome(status))).count("\n") == 0


def test_a_call_of_nothing_is_named_as_the_model_named_it() -> None:
    no = outcome(Status.DENIED, tool=None, message="there is no tool 'roll'")
    assert "roll denied: there is no tool 'roll'" in fan_out_line(fan_out(no))


def test_somebody_elses_words_stay_one_line_and_short() -> None:
    name = attrs.evolve(CALL, name="n\n" * 500)
    message = "it said:\n" + "x" * 10_000
    line = fan_out_line(
        fan_out(outcome(Status.UNAVAILABLE, tool=None, call=name, message=message))
    )
    assert "\n" not in line
    assert len(line) < 500
    assert "it said: xxx" in line


def test_nothing_that_steers_a_terminal_gets_to_it() -> None:
    assert on_screen("a\x1b]0;owned\x07b\x9bc\rd\x00\x7f") == "a]0;ownedbcd"


def test_plain_words_get_to_the_screen_as_they_are() -> None:
    words = "Zwei\tBier\nund 10\u202fkm, \N{COOKING}\N{VARIATION SELECTOR-16} [b]"
    assert on_screen(words) == words


# ------------------------------------------------------------------ /why

SELECTED = TierSelected(
    **OF,
    tier=Tier.FAST,
    selected=Tier.DEEP,
    ceiling=Tier.FAST,
    reason="a word",
    budget=0.5,
    speaker="player",
    text="think",
)
NO = Refusal(reason=Reason.OVER_TIER, text="too slow", remedy="calibrate it")
SHOWN = ToolsShown(
    **OF, round=0, shown=("roll", "recall"), hidden=(("vision", NO),), remaining=0.5
)
DONE = TurnDone(
    **OF,
    end=TurnEnd.COMPLETED,
    text="Six.",
    outcomes=(outcome(),),
    timings=Timings(model=0.3, tools=0.12, total=0.45, first_text=0.31),
    rounds=2,
    tier=Tier.FAST,
    kept=True,
)


def test_why_says_what_was_decided_and_on_what_grounds() -> None:
    assert why_lines([SELECTED, SHOWN, fan_out(outcome(message="6")), DONE]) == [
        "deep because of a word, held to fast by the NPC's ceiling: 500 ms for tools",
        "round 1: 500 ms left, shown roll, recall",
        "  hidden vision: too slow (calibrate it)",
        "round 1: ran fast · 3 tools shown · dice.roll 120 ms · 200 ms of 500 ms",
        '  dice.roll({"expression": "2d6"}): 6',
        "completed: model 300 ms, tools 120 ms, all 450 ms",
    ]


def test_why_says_when_the_model_was_asked_for_words() -> None:
    asked = attrs.evolve(SHOWN, shown=(), hidden=(), forbidden=True, round=4)
    assert why_lines([asked]) == [
        "round 5: 500 ms left, shown no tools (asked to answer in words)"
    ]


def test_why_says_how_many_tools_have_to_be_loaded_first() -> None:
    many = attrs.evolve(SHOWN, deferred=("mcp__many__a", "mcp__many__b"))
    first, *others = why_lines([SHOWN])
    assert why_lines([many]) == [
        first,
        "  2 more are told of in a line each, and loaded with tool_search",
        *others,
    ]


def test_why_says_that_a_turn_was_turned_away() -> None:
    end = attrs.evolve(
        DONE, end=TurnEnd.SHED, timings=Timings(model=0.0, tools=0.0, total=0.0)
    )
    events = [
        Shed(
            **OF,
            reason="8 turns run, and overload.max_turns allows 8",
            speaker="A",
            text="?",
        ),
        FellBack(**OF, reason=Fallback.OVERLOADED),
        end,
    ]
    assert why_lines(events) == [
        "turned away: 8 turns run, and overload.max_turns allows 8",
        "a fallback line was said: overloaded",
        "shed: model 0 ms, tools 0 ms, all 0 ms",
    ]


def test_why_says_what_failed_and_what_was_said_instead() -> None:
    events = [
        ModelFailed(**OF, kind=ErrorKind.SILENCE, detail="the model went silent"),
        FellBack(**OF, reason=Fallback.MODEL_FAILED),
    ]
    assert why_lines(events) == [
        "the model failed: silence: the model went silent",
        "a fallback line was said: model_failed",
    ]


def test_why_says_which_model_answered_and_what_it_took() -> None:
    priced = UsageReported(**OF, model="b", input_tokens=70, output_tokens=5, cost=0.02)
    events = [
        ModelSwitched(**OF, model="b", instead_of="a", reason="overloaded: HTTP 529"),
        priced,
        attrs.evolve(priced, model="c", cost=None),
    ]
    assert why_lines(events) == [
        "b answers instead of a: overloaded: HTTP 529",
        "b: 70 tokens in, 5 out, costs 0.02",
        "c: 70 tokens in, 5 out",
    ]


def test_why_without_a_turn_is_nothing() -> None:
    assert why_lines([]) == []


# ---------------------------------------------------------- the table of tools


def listing(**more: Any) -> CatalogueEntry:
    definition = ToolDefinition(name="roll", group="dice", **more)
    return CatalogueEntry(
        tool=Tool(definition=definition, handler=lambda *_: pytest.fail("called")),
        exposed="roll",
        estimate=estimate(),
        schema=ArgumentSchema(definition.parameters),
    )


def estimate(**more: Any) -> Estimate:
    fields: dict[str, Any] = {
        "seconds": 0.03,
        "tier": Tier.FAST,
        "tier_by_number": Tier.FAST,
        "source": EstimateSource.MEASURED,
        "samples": 5,
        "p50": 0.03,
        "p99": 0.2,
        "degraded": None,
    }
    return Estimate(**{**fields, **more})


def row(tool: CatalogueEntry, about: Estimate) -> dict[str, str]:
    return dict(zip(COLUMNS, tool_row(tool, about), strict=True))


def test_a_measured_tool_has_every_cell() -> None:
    cells = row(listing(estimated_duration=0.05), estimate())
    assert cells["tool"] == "dice.roll"
    assert cells["exposed as"] == "roll"
    assert cells["declared"] == "50 ms"
    assert (cells["p50"], cells["p99"]) == ("30 ms", "200 ms")
    assert (cells["tier"], cells["health"]) == ("fast", "good")


def test_a_tool_of_which_nothing_is_known_has_empty_cells() -> None:
    cells = row(listing(), estimate(source=EstimateSource.UNKNOWN, p50=None, p99=None))
    dash = "\N{EN DASH}"
    assert (cells["declared"], cells["p50"], cells["p99"]) == (dash, dash, dash)


def test_few_samples_are_said_to_be_few() -> None:
    cells = row(listing(), estimate(source=EstimateSource.DECLARED, samples=2))
    assert cells["p50"] == "30 ms (n=2)"


def test_health_says_what_is_wrong() -> None:
    sick = row(listing(), estimate(degraded="4 of 10 calls failed"))
    assert sick["health"] == "degraded: 4 of 10 calls failed"
    down = attrs.evolve(listing(), availability=Availability.DOWN)
    assert row(down, estimate())["health"] == "down"


def test_a_hidden_tool_says_why_and_what_would_change_it() -> None:
    assert hidden_because(NO) == "too slow; calibrate it"
    assert hidden_because(attrs.evolve(NO, remedy="")) == "too slow"
    assert hidden_because(None) == ""


# -------------------------------------------------------------------- JSON

EVENTS: list[TurnEvent] = [
    SELECTED,
    SHOWN,
    TextDelta(**OF, text='"Six"\n\x1b[2J'),
    Sentence(**OF, text="Six.", round=1),
    Filler(**OF, text="Hm.", round=0),
    Speech(**OF, pcm=bytes([0, 1, 254, 255]), rate=16_000),
    Flush(**OF, reason="interrupted"),
    SpeechFailed(**OF, text="Six.", detail="no voice"),
    HearingFailed(**OF, speaker="Ann", detail="deaf"),
    Scripted(**OF, speaker="DM", text="Six."),
    ContextAdded(**OF, lines=("It rains.",), missed=(("hook", "late"),)),
    Transcript(**OF, speaker="Ann", text="Roll", final=False),
    EngineSwitched(**OF, engine="cascaded", instead_of="s2s", reason="slow tools"),
    ApprovalNeeded(
        **OF,
        question="q1",
        call=CALL,
        tool="world.burn",
        arguments='{"what": "\x1b[2J"}',
        expires=20.0,
    ),
    ApprovalSettled(
        **OF, question="q1", call=CALL, tool="world.burn", decision=Decision.EXPIRED
    ),
    ToolStarted(**OF, call=CALL, tool="dice.roll", round=0),
    ToolFinished(
        **OF,
        outcome=outcome(Status.TIMEOUT, limit=Limit.TURN, data={"a": [1]}),
        round=0,
    ),
    fan_out(outcome(), outcome(effect=Effect.DONE, data=("x", 2.5))),
    ModelFailed(**OF, kind=ErrorKind.UNREACHABLE, detail="nobody"),
    ModelSwitched(**OF, model="b", instead_of="a", reason="overloaded: HTTP 529"),
    UsageReported(**OF, model="b", input_tokens=7, output_tokens=5, cost=0.0125),
    Shed(**OF, reason="8 turns run", speaker="Ann", text="Hello?"),
    FellBack(**OF, reason=Fallback.MODEL_FAILED),
    Hold(**OF),
    Resume(**OF),
    LateResult(**OF, outcome=outcome(), speak=True),
    Queued(**OF, position=2),
    TurnKept(**OF, kept=False, error="too many turns wait to be written"),
    SpeculationDone(
        **OF,
        end=SpeculationEnd.ADOPTED,
        reason="",
        head_start=0.25,
        calls=2,
        calls_used=1,
        wasted=0.125,
    ),
    DONE,
]


def test_every_kind_of_event_is_tried() -> None:
    assert {type(event) for event in EVENTS} == set(TurnEvent.__subclasses__())


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_is_one_line_of_json_with_every_field(event: TurnEvent) -> None:
    line = event_json(event)
    assert "\n" not in line
    assert "\x1b" not in line
    data = json.loads(line)
    assert data.pop("event") == type(event).__name__
    for field in attrs.fields(type(event)):
        if field.name not in ("session", "tenant"):  # said of all but the default
            assert field.name in data or f"{field.name}_ms" in data, field.name
    elsewhere = attrs.evolve(event, session="table-42", tenant="guild")
    told = json.loads(event_json(elsewhere))
    assert told == {**json.loads(line), "session": "table-42", "tenant": "guild"}


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_every_time_is_whole_milliseconds_and_says_so(event: TurnEvent) -> None:
    seconds = {"budget", "elapsed", "expires", "remaining", "model", "tools"}
    seconds |= {"total"}

    def check(value: Any) -> None:
        match value:
            case dict():
                assert not any(
                    type(value.get(name)) in (int, float) for name in seconds
                )
                for name, inner in value.items():
                    if name.endswith("_ms"):
                        assert type(inner) is int, name
                    elif name == "cost":  # money is not time
                        assert type(inner) is float
                    elif name != "data":  # a tool's own numbers are its own
                        assert type(inner) is not float, name
                        check(inner)
            case list():
                for inner in value:
                    check(inner)

    check(json.loads(event_json(event)))


def test_times_and_names_come_through_exactly() -> None:
    data = json.loads(event_json(DONE))
    assert data["timings"] == {
        "model_ms": 300,
        "tools_ms": 120,
        "total_ms": 450,
        "first_text_ms": 310,
        "head_start_ms": 0,
    }
    assert (data["end"], data["tier"]) == ("completed", "fast")
    assert data["outcomes"][0]["status"] == "ok"
    assert data["outcomes"][0]["elapsed_ms"] == 120


def test_what_a_tool_answered_is_not_renamed() -> None:
    tool_says = {"elapsed": 1.5, "total": 7, "tools": ["hammer"]}
    event = ToolFinished(**OF, outcome=outcome(data=tool_says), round=0)
    assert json.loads(event_json(event))["outcome"]["data"] == tool_says
