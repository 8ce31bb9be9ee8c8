"""Which record each event makes, field by field. No runtime, no clock."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from glyphoxa_trio.actors import Failed, GaveUp, Restarting, Started
from glyphoxa_trio.host import Probed
from glyphoxa_trio.mcp import ServerState, ServerStatus, ServerWarning
from glyphoxa_trio.npc import (
    ApprovalSettled,
    Decision,
    EngineSwitched,
    Fallback,
    FellBack,
    Filler,
    Flush,
    LateResult,
    ModelSwitched,
    Sentence,
    SpeculationDone,
    SpeculationEnd,
    Speech,
    TextDelta,
    TierSelected,
    Timings,
    ToolFinished,
    Transcript,
    TurnDone,
    TurnEnd,
    TurnEvent,
    UsageReported,
)
from glyphoxa_trio.observability.records import (
    Level,
    LogRecord,
    ServerRecords,
    TurnRecords,
    host_record,
)
from glyphoxa_trio.tools.outcome import Effect, Limit, Outcome, Status, ToolCall
from glyphoxa_trio.tools.tier import Tier

from ..traced import TRACER, recorded

ARGUMENTS = '{"patron": "Zebulon"}'
CALL = ToolCall("call_1", "mcp__ledger__add", ARGUMENTS)
EXPOSED = {"ledger.add": "mcp__ledger__add"}


def records(*, texts: bool = False) -> TurnRecords:
    return TurnRecords(lambda: "offline", EXPOSED.get, lambda _: "conv", texts)


def selected(turn: int = 7) -> TierSelected:
    return TierSelected(
        npc="Bo",
        turn=turn,
        tier=Tier.STANDARD,
        selected=Tier.DEEP,
        ceiling=Tier.STANDARD,
        reason="asked",
        budget=1.5,
        speaker="Ann",
        text="I am Zebulon",
    )


def finished(outcome: Outcome, turn: int = 7) -> ToolFinished:
    return ToolFinished(npc="Bo", turn=turn, outcome=outcome, round=1)


def call_record(outcome: Outcome, *, texts: bool = False) -> LogRecord:
    turns = records(texts=texts)
    assert turns.of(selected()) is None
    record = turns.of(finished(outcome))
    assert record is not None
    return record


OK: dict[str, Any] = {
    "tool_call_id": "call_1",
    "call_id": "conv",
    "context_name": "Bo",
    "provider_name": "offline",
    "session": "default",
    "server": "ledger",
    "tool": "add",
    "exposed_name": "mcp__ledger__add",
    "status": "ok",
    "limit": None,
    "effect": "done",
    "duration_ms": 13,
    "tier": "standard",
    "turn": 7,
    "round": 1,
    "cached": False,
    "shared": False,
}


def test_a_call_has_all_its_fields_and_no_words() -> None:
    # A50
    outcome = Outcome(
        call=CALL,
        tool="ledger.add",
        status=Status.OK,
        effect=Effect.DONE,
        message="Zebulon owes 3",
        data={"patron": "Zebulon"},
        elapsed=0.0126,
    )
    assert call_record(outcome) == LogRecord(Level.INFO, "tool_call", OK)
    with_texts = call_record(outcome, texts=True)
    assert with_texts.fields == {
        **OK,
        "arguments": ARGUMENTS,
        "message": "Zebulon owes 3",
    }


@pytest.mark.parametrize("status", Status)
def test_success_and_every_way_to_fail_are_told_apart(status: Status) -> None:
    # A50: timeout vs success
    outcome = Outcome(call=CALL, tool="ledger.add", status=status)
    record = call_record(outcome)
    assert record.fields["status"] == status.value
    assert record.level is {
        Status.TIMEOUT: Level.WARNING,
        Status.UNAVAILABLE: Level.WARNING,
        Status.CRASHED: Level.ERROR,
    }.get(status, Level.INFO)


def test_a_call_that_another_server_answered_says_which() -> None:
    outcome = Outcome(
        call=CALL, tool="ledger.add", status=Status.OK, answered_by="ledger-2.add"
    )
    fields = call_record(outcome).fields
    assert (fields["server"], fields["answered_by"]) == ("ledger", "ledger-2.add")


@pytest.mark.parametrize("limit", Limit)
def test_a_timeout_says_whose(limit: Limit) -> None:
    outcome = Outcome(
        call=CALL,
        tool="ledger.add",
        status=Status.TIMEOUT,
        limit=limit,
        effect=Effect.UNKNOWN,
        elapsed=0.5,
    )
    assert call_record(outcome).fields == {
        **OK,
        "status": "timeout",
        "limit": limit.value,
        "effect": "unknown",
        "duration_ms": 500,
    }


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("serch", "serch"),
        ("tell Zebulon that I know", "[not a name]"),
        ("\x1b[2J", "[not a name]"),
        ("x" * 65, "[not a name]"),
        ("", "[not a name]"),
    ],
)
def test_a_name_that_a_model_invented_is_shown_if_it_is_one(
    name: str, shown: str
) -> None:
    outcome = Outcome(call=ToolCall(name, name), tool=None, status=Status.DENIED)
    fields = call_record(outcome).fields
    assert (fields["tool_call_id"], fields["exposed_name"]) == (shown, shown)
    assert (fields["server"], fields["tool"]) == (None, None)


def test_a_tool_that_has_gone_meanwhile_keeps_the_name_it_was_called_by() -> None:
    outcome = Outcome(
        call=ToolCall("1", "mcp__gone__tool"), tool="gone.a.tool", status=Status.OK
    )
    fields = call_record(outcome).fields
    assert fields["exposed_name"] == "mcp__gone__tool"
    assert (fields["server"], fields["tool"]) == ("gone", "a.tool")


def test_a_call_that_outlives_its_turn_has_a_record_of_its_own() -> None:
    turns = records()
    turns.of(selected())
    outcome = Outcome(call=CALL, tool="ledger.add", status=Status.OK, elapsed=2.0)
    turns.of(done())
    late = turns.of(LateResult(npc="Bo", turn=7, outcome=outcome, speak=False))
    assert late is not None
    expected = {**OK, "effect": "none", "duration_ms": 2000}
    del expected["round"]
    assert (late.event, late.fields) == ("late_tool_call", expected)


def done(**more: Any) -> TurnDone:
    return TurnDone(
        **{
            "npc": "Bo",
            "turn": 7,
            "end": TurnEnd.COMPLETED,
            "text": "Zebulon owes 3.",
            "outcomes": (
                Outcome(call=CALL, tool="ledger.add", status=Status.OK),
                Outcome(call=CALL, tool="ledger.add", status=Status.TIMEOUT),
            ),
            "timings": Timings(model=0.2, tools=0.513, total=0.75, first_text=0.1),
            "rounds": 2,
            "tier": Tier.STANDARD,
            **more,
        }
    )


DONE: dict[str, Any] = {
    "call_id": "conv",
    "context_name": "Bo",
    "provider_name": "offline",
    "session": "default",
    "turn": 7,
    "tier": "standard",
    "status": "completed",
    "error": None,
    "fallback": None,
    "rounds": 2,
    "calls": 2,
    "calls_ok": 1,
    "duration_ms": 750,
    "model_ms": 200,
    "tools_ms": 513,
    "first_text_ms": 100,
}


def test_a_turn_has_one_record_with_where_its_time_went() -> None:
    turns = records()
    seen = [
        turns.of(event)
        for event in (
            selected(),
            TextDelta(npc="Bo", turn=7, text="Zebulon owes 3."),
            Sentence(npc="Bo", turn=7, text="Zebulon owes 3.", round=1),
            done(),
        )
    ]
    assert seen == [None, None, None, LogRecord(Level.INFO, "turn", DONE)]


def test_a_turn_with_texts_says_who_said_what() -> None:
    turns = records(texts=True)
    turns.of(selected())
    record = turns.of(done())
    assert record is not None
    assert record.fields == {
        **DONE,
        "speaker": "Ann",
        "said": "I am Zebulon",
        "answer": "Zebulon owes 3.",
        "detail": "",
    }


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        ("unreachable: nobody answers Zebulon", "unreachable"),
        ("KeyError: 'Zebulon'", "KeyError"),
        ("Zebulon did it", "[not a name]"),
    ],
)
def test_a_failed_turn_says_the_kind_and_keeps_the_words(
    error: str, shown: str
) -> None:
    turns = records()
    turns.of(selected())
    turns.of(FellBack(npc="Bo", turn=7, reason=Fallback.MODEL_FAILED))
    record = turns.of(done(end=TurnEnd.FAILED, error=error, tier=None))
    expected = {**DONE, "status": "failed", "error": shown, "fallback": "model_failed"}
    assert record == LogRecord(Level.WARNING, "turn", expected)


def test_a_turn_that_never_began_has_a_record() -> None:
    nothing = Timings(model=0.0, tools=0.0, total=0.0)
    record = records().of(
        done(end=TurnEnd.INTERRUPTED, timings=nothing, tier=None, outcomes=(), rounds=0)
    )
    assert record is not None
    assert record.fields["tier"] is None
    assert record.fields["first_text_ms"] is None


def test_what_a_response_took_is_a_record() -> None:
    used = UsageReported(npc="Bo", turn=0, model="m", input_tokens=7, output_tokens=5)
    fields = {
        "call_id": "conv",
        "context_name": "Bo",
        "session": "default",
        "turn": None,  # it was begun ahead, for nobody
        "model": "m",
        "input_tokens": 7,
        "output_tokens": 5,
        "cached_tokens": 0,
        "cost": None,
    }
    assert records().of(used) == LogRecord(Level.INFO, "usage", fields)
    priced = records().of(attrs.evolve(used, turn=7, cost=0.5))
    assert priced is not None
    assert (priced.fields["turn"], priced.fields["cost"]) == (7, 0.5)


def test_a_switch_of_models_says_the_kind_of_its_reason_and_keeps_the_words() -> None:
    event = ModelSwitched(
        npc="Bo", turn=7, model="b", instead_of="a", reason="overloaded: Zebulon"
    )
    fields = {
        "call_id": "conv",
        "context_name": "Bo",
        "session": "default",
        "turn": 7,
        "model": "b",
        "instead_of": "a",
        "reason": "overloaded",
    }
    assert records().of(event) == LogRecord(Level.WARNING, "model_switched", fields)


def test_a_turn_that_goes_another_way_says_which_and_not_why() -> None:
    event = EngineSwitched(
        npc="Bo", turn=7, engine="cascaded", instead_of="s2s", reason="Zebulon asked"
    )
    fields = {
        "call_id": "conv",
        "context_name": "Bo",
        "session": "default",
        "turn": 7,
        "engine": "cascaded",
        "instead_of": "s2s",
    }
    assert records().of(event) == LogRecord(Level.INFO, "engine_switched", fields)


def test_what_a_player_was_understood_to_say_is_what_was_said() -> None:
    for texts in (True, False):
        turns = records(texts=texts)
        turns.of(selected())
        for text, final in (("I am", False), ("I am Ann", True), ("and", False)):
            heard = Transcript(npc="Bo", turn=7, speaker="Ann", text=text, final=final)
            assert turns.of(heard) is None
        record = turns.of(done())
        assert record is not None
        assert record.fields.get("said") == ("I am Ann" if texts else None)


def test_what_is_only_for_listeners_has_no_record() -> None:
    turns = records(texts=True)
    of: dict[str, Any] = {"npc": "Bo", "turn": 7}
    events: list[TurnEvent] = [
        Filler(**of, text="Hm.", round=0),
        Speech(**of, pcm=b"\0\0", rate=16000),
        Flush(**of, reason="interrupted"),
    ]
    for event in events:
        assert turns.of(event) is None


@pytest.mark.parametrize("decision", Decision)
def test_an_approval_says_what_became_of_it(decision: Decision) -> None:
    event = ApprovalSettled(
        npc="Bo",
        turn=7,
        question="Zebulon?",
        call=CALL,
        tool="ledger.add",
        decision=decision,
    )
    fields = {
        "tool_call_id": "call_1",
        "call_id": "conv",
        "context_name": "Bo",
        "session": "default",
        "server": "ledger",
        "tool": "add",
        "decision": decision.value,
        "turn": 7,
    }
    assert records().of(event) == LogRecord(Level.INFO, "approval", fields)


@pytest.mark.parametrize(
    ("end", "turn", "reason"),
    [(SpeculationEnd.ADOPTED, 7, ""), (SpeculationEnd.DISCARDED, 0, "another tier")],
)
def test_a_speculation_says_what_it_was_good_for(
    end: SpeculationEnd, turn: int, reason: str
) -> None:
    event = SpeculationDone(
        npc="Bo",
        turn=turn,
        end=end,
        reason=reason,
        head_start=0.25,
        calls=3,
        calls_used=2,
        wasted=0.125,
    )
    fields = {
        "call_id": "conv",
        "context_name": "Bo",
        "session": "default",
        "turn": turn or None,
        "status": end.value,
        "reason": reason or None,
        "head_start_ms": 250,
        "calls": 3,
        "calls_used": 2,
        "wasted_ms": 125,
    }
    assert records().of(event) == LogRecord(Level.INFO, "speculation", fields)


def test_what_is_remembered_of_turns_is_bounded() -> None:
    turns = records()
    for number in range(5_000):
        turns.of(selected(number))
    assert len(turns._turns) == 1_000
    outcome = Outcome(call=CALL, tool="ledger.add", status=Status.OK)
    tiers = []
    for number in (3_999, 4_000, 4_999):
        record = turns.of(finished(outcome, turn=number))
        assert record is not None
        tiers.append(record.fields["tier"])
    assert tiers[0] is None
    assert tiers[2] == "standard"


def status(**more: Any) -> ServerStatus:
    return ServerStatus(
        **{
            "name": "seer",
            "transport": "stdio",
            "state": ServerState.READY,
            "tools": ("whisper", "ponder"),
            "restarts": 1,
            "since": 3.0,
            "last_error": "was ended by SIGKILL",
            "pid": 42,
            **more,
        }
    )


def test_a_servers_status_is_told_when_it_changes() -> None:
    servers = ServerRecords()
    first = servers.of(status(state=ServerState.STARTING, pid=None, tools=()))
    assert first is not None
    assert first.fields["previous"] is None
    assert servers.of(status()) == LogRecord(
        Level.INFO,
        "server_state",
        {
            "server": "seer",
            "transport": "stdio",
            "state": "ready",
            "previous": "starting",
            "tools": 2,
            "restarts": 1,
            "last_error": "was ended by SIGKILL",
            "pid": 42,
        },
    )
    assert servers.of(status()) is None
    assert servers.of(status(tools=("whisper",))) is not None
    assert servers.of(status(tools=("ponder",))) is not None  # as many, but others
    for state, level in {
        ServerState.RESTARTING: Level.WARNING,
        ServerState.FAILED: Level.ERROR,
        ServerState.STOPPED: Level.INFO,
    }.items():
        record = servers.of(status(state=state))
        assert record is not None
        assert record.level is level
    again = servers.of(status())
    assert again is not None  # a new server of the same name
    assert again.fields["previous"] is None


def test_a_warning_keeps_the_servers_last_words_apart() -> None:
    warning = ServerWarning(server="seer", text="exited\n  cracked\n  flooded")
    assert ServerRecords().of(warning) == LogRecord(
        Level.WARNING,
        "server_warning",
        {"server": "seer", "text": "exited", "lines": ["cracked", "flooded"]},
    )
    quiet = ServerRecords(lines=False).of(warning)
    assert quiet is not None
    assert quiet.fields == {"server": "seer", "text": "exited"}


def test_a_line_of_a_server_is_a_record_unless_it_is_not_wanted() -> None:
    # A41
    assert ServerRecords().line("seer", "cracked") == LogRecord(
        Level.INFO, "server_line", {"server": "seer", "line": "cracked"}
    )
    assert ServerRecords(lines=False).line("seer", "cracked") is None


def test_lives_of_servers_and_of_our_own_actors_are_told_apart() -> None:
    servers = ServerRecords()
    error = RuntimeError("Zebulon")
    expected: list[tuple[Any, Level, str, dict[str, Any]]] = [
        (Started(name="x", life=2), Level.INFO, "started", {"life": 2}),
        (
            Failed(name="x", life=2, error=error, uptime=1.5),
            Level.WARNING,
            "failed",
            {"life": 2, "uptime_ms": 1500, "error": "RuntimeError"},
        ),
        (
            Restarting(name="x", delay=0.25, failures=1),
            Level.INFO,
            "restarting",
            {"delay_ms": 250, "failures": 1},
        ),
        (GaveUp(name="x", failures=6), Level.ERROR, "gave_up", {"failures": 6}),
    ]
    for event, level, name, fields in expected:
        detail = {"detail": "Zebulon"} if isinstance(event, Failed) else {}
        assert servers.of(event) == LogRecord(
            level, f"server_{name}", {"server": "x", **fields, **detail}
        )
        assert host_record(event) == LogRecord(
            level, f"actor_{name}", {"actor": "x", **fields}
        )


def test_that_our_own_actors_begin_is_no_news() -> None:
    assert host_record(Started(name="calibrator", life=1)) is None


def test_a_probe_says_how_far_it_came() -> None:
    event = Probed(key="seer.whisper", samples=2, done=1, total=3, note="Zebulon")
    fields = {"server": "seer", "tool": "whisper", "samples": 2, "complete": False}
    assert host_record(event) == LogRecord(Level.DEBUG, "probe", fields)
    with_texts = host_record(event, texts=True)
    assert with_texts is not None
    assert with_texts.fields["note"] == "Zebulon"
    assert host_record(object()) is None


# --------------------------------------------------------- whose record it is  # A50


def test_a_record_names_its_tenant_if_there_is_one() -> None:
    event = attrs.evolve(
        finished(Outcome(call=CALL, tool="ledger.add", status=Status.OK)),
        session="table 7",
        tenant="inn",
    )
    record = records().of(event)
    assert record is not None
    assert (record.fields["session"], record.fields["tenant"]) == (
        "inn/table 7",
        "inn",
    )


def test_the_records_of_a_turn_name_its_trace() -> None:
    outcome = Outcome(call=CALL, tool="ledger.add", status=Status.OK)
    turns = records()
    with recorded(), TRACER.start_as_current_span("turn") as span:
        turns.note(selected(7))
    turns.note(selected(8))  # which is not traced
    seen, unseen = (turns.of(finished(outcome, turn)) for turn in (7, 8))
    assert seen is not None
    assert unseen is not None
    context = span.get_span_context()
    assert seen.fields["trace_id"] == f"{context.trace_id:032x}"
    assert seen.fields["span_id"] == f"{context.span_id:016x}"
    assert "trace_id" not in unseen.fields
