"""A runtime and its log: what is written, what is not, and what a log never costs.

Real servers, real threads, real time; where an output is slow, it is slow until
the test lets it go. No wait has a length of its own but `LIMIT`.
"""

from __future__ import annotations

import io
import json
import threading
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio import TurnDone, tool
from glyphoxa_trio.config import LlmConfig, McpConfig, NpcConfig, ToolOverride
from glyphoxa_trio.host import Probed, Sampled
from glyphoxa_trio.mcp import ServerState, ServerStatus, ServerWarning, open_server_pool
from glyphoxa_trio.npc import TurnEnd, TurnEvent
from glyphoxa_trio.npc.identity import DEFAULT_SESSION, SessionKey
from glyphoxa_trio.observability import (
    LogStatistics,
    json_lines,
    log_events,
    logs,
    open_log,
    open_log_file,
)
from glyphoxa_trio.secret import Secret
from glyphoxa_trio.tools.window import Sample, SampleKind

from ..mcp.support import Watcher, plain
from ..traced import recorded
from .support import LIMIT, Kept, config, opened, say, seer


@pytest.fixture(autouse=True)
def _no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that does not end by itself is a test that does not end in time."""
    monkeypatch.setattr(logs, "CLOSING", LIMIT)


# ------------------------------------------------------------------ what it says


async def test_a_turn_with_a_tool_is_two_records() -> None:
    # A50
    kept = Kept()
    async with opened(config("dice")) as runtime, log_events(runtime, kept):
        done = await say(runtime, "Roll 1d4! My name is Zebulon.")
    (outcome,) = done.outcomes
    call, turn = kept.lines
    assert call == (
        "info",
        "tool_call",
        {
            "call_id": runtime.call_id(DEFAULT_SESSION.npc("Bo")),
            "tool_call_id": outcome.call.id,
            "context_name": "Bo",
            "provider_name": "offline",
            "session": "default",
            "server": "dice",
            "tool": "roll",
            "exposed_name": "roll",
            "status": "ok",
            "limit": None,
            "effect": "none",
            "duration_ms": round(outcome.elapsed * 1000),
            "tier": "fast",
            "turn": 1,
            "round": 0,
            "cached": False,
            "shared": False,
        },
    )
    assert turn[:2] == ("info", "turn")
    assert (turn[2]["status"], turn[2]["calls"], turn[2]["calls_ok"]) == (
        "completed",
        1,
        1,
    )
    assert turn[2]["duration_ms"] == round(done.timings.total * 1000)
    assert [datetime.fromisoformat(at).tzinfo is not None for at in kept.times] == [
        True,
        True,
    ]


async def test_every_line_of_a_turn_names_its_conversation() -> None:
    # A50: those of two sessions and of a tenant, as their templates have it
    kept = Kept()
    chosen = config(npcs=(NpcConfig(name="Bo", tools=("dice",), greeting="{call_id}"),))
    said: dict[tuple[str, str | None], str] = {}
    async with opened(chosen) as runtime, log_events(runtime, kept):
        for name, tenant, given in [("a", "", ""), ("b", "inn", ""), ("c", "", "7")]:
            variables = {"call_id": given}  # "" is not given
            session = runtime.session(name, tenant=tenant, variables=variables)
            async with session.npc("Bo").greet() as turn:
                greeted = await turn.finish()
            async with session.npc("Bo").say("Roll 1d4!", speaker="Ann") as turn:
                await turn.finish()
            said[str(SessionKey(name, tenant)), tenant or None] = greeted.text
            await session.end()
    assert len(set(said.values())) == 3
    assert kept.of("tool_call")
    for _, event, fields in kept.lines:
        told = said[fields["session"], fields.get("tenant")]
        assert (event, fields["call_id"]) == (event, told)


async def test_the_records_of_a_turn_name_its_span() -> None:  # A50
    kept = Kept()
    with recorded() as spans:
        async with opened(config("dice")) as runtime, log_events(runtime, kept):
            await say(runtime, "Roll 1d4!")
    context = spans.one("invoke_agent Bo").context
    assert context is not None
    for _, _, fields in kept.lines:
        assert fields["trace_id"] == f"{context.trace_id:032x}"
        assert fields["span_id"] == f"{context.span_id:016x}"


@pytest.mark.border
async def test_success_and_timeout_and_death_at_a_real_server() -> None:
    # A50, A41
    kept = Kept()
    patient = {"ponder": ToolOverride(max_duration=0.05)}
    chosen = config(
        "seer.whisper",
        "seer.ponder",
        "seer.vanish",
        mcp=McpConfig(servers=(seer(tools=patient),)),
    )
    async with open_log(kept) as log:
        async with opened(chosen, on_warning=log.server_event) as runtime:
            log.follow(runtime)
            for word in ("whisper", "ponder", "vanish"):
                await say(runtime, word)

    facts = [
        tuple(
            fields[key]
            for key in (
                "server",
                "tool",
                "exposed_name",
                "status",
                "limit",
                "effect",
                "turn",
            )
        )
        for fields in kept.of("tool_call")
    ]
    assert facts == [
        ("seer", "whisper", "mcp__seer__whisper", "ok", None, "none", 1),
        ("seer", "ponder", "mcp__seer__ponder", "timeout", "tool", "none", 2),
        ("seer", "vanish", "mcp__seer__vanish", "unavailable", None, "unknown", 3),
    ]
    assert kept.of("tool_call")[1]["duration_ms"] >= 50
    assert [level for level, event, _ in kept.lines if event == "tool_call"] == [
        "info",
        "warning",
        "warning",
    ]
    ready, *_ = kept.of("server_state")
    assert (ready["server"], ready["state"], ready["tools"]) == ("seer", "ready", 4)
    (warning,) = kept.of("server_warning")
    assert warning == {"server": "seer", "text": "was ended by SIGKILL"}


@pytest.mark.border
async def test_a_fleet_tells_a_log_what_its_servers_do_and_say() -> None:
    # A41, A50
    kept, watcher = Kept(), Watcher()
    with trio.fail_after(LIMIT):
        async with open_log(kept) as log:
            async with open_server_pool(
                [plain()],
                publish=watcher.publish,
                warn=log.server_event,
                log=log.server_line,
                on_event=log.server_event,
            ) as fleet:
                assert await fleet.wait_ready(LIMIT)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_hang, watcher)
                    await kept.until(lambda: bool(kept.of("server_line")))
                    nursery.cancel_scope.cancel()
                for status in fleet.status():
                    log.server_event(status)
    assert kept.of("server_started") == [{"server": "plain", "life": 1}]
    line = kept.of("server_line")[0]
    assert line["server"] == "plain"
    assert line["line"].startswith("hanging ")
    assert kept.of("server_state")[0]["pid"] > 0


async def _hang(watcher: Watcher) -> None:
    await watcher.call("plain", "hang")


async def test_a_log_around_its_runtime_has_the_end_of_everything() -> None:
    kept, running = Kept(), trio.Event()

    @tool(estimated_duration_ms=10, read_only=True)
    async def daydream() -> None:
        """For ever."""
        running.set()
        await trio.sleep_forever()

    async with open_log(kept) as log, trio.open_nursery() as nursery:
        async with opened(config("custom.*"), tools=[daydream]) as runtime:
            log.follow(runtime)
            nursery.start_soon(say, runtime, "daydream")
            await running.wait()  # and leave the runtime in the middle of the turn
    (call,), (turn,) = kept.of("tool_call"), kept.of("turn")
    assert (call["tool"], call["status"]) == ("daydream", "cancelled")
    assert turn["status"] == "interrupted"
    assert log.statistics() == LogStatistics(
        written=len(kept.lines), waiting=0, lost=0, failed=0
    )


async def test_whoever_leaves_at_once_loses_no_record() -> None:
    kept = Kept()
    async with opened(config("dice")) as runtime:
        async with log_events(runtime, kept):
            await say(runtime, "roll 1d4")
    assert [event for _, event, _ in kept.lines] == ["tool_call", "turn"]


async def test_whoever_is_cancelled_loses_no_record_either() -> None:
    kept = Kept(gate=threading.Event())
    assert kept.gate is not None
    async with opened(config("dice")) as runtime:
        with trio.CancelScope() as scope:
            async with log_events(runtime, kept) as log:
                log.server_line("x", "first")
                await trio.to_thread.run_sync(partial(kept.entered.wait, LIMIT))
                await say(runtime, "roll 1d4")
                scope.cancel()  # with two records still to be written
                kept.gate.set()
                await trio.sleep_forever()
    assert [event for _, event, _ in kept.lines] == ["server_line", "tool_call", "turn"]


async def test_a_flood_of_samples_takes_no_probe_out_of_the_log() -> None:
    kept = Kept()
    sampled = Sampled("dice.roll", Sample(kind=SampleKind.OK, seconds=0.1, at=0.0))
    async with opened(config("dice")) as runtime:
        async with log_events(runtime, kept) as log:
            events = runtime.host.events
            events.publish(Probed(key="dice.roll", samples=5, done=1, total=1))
            for _ in range(5_000):
                events.publish(sampled)
    assert len(kept.of("probe")) == 1
    assert kept.of("records_lost") == []
    assert log.statistics().lost == 0


async def test_a_runtime_that_has_ended_is_let_go_of() -> None:
    with trio.fail_after(LIMIT):
        async with open_log(Kept()) as log:
            async with opened(config("dice")) as runtime:
                log.follow(runtime)
            await wait_all_tasks_blocked()
            assert runtime.events._subscriptions == []
            assert runtime.host.events._subscriptions == []


async def test_a_file_takes_one_run_after_the_other(tmp_path: Path) -> None:
    path = tmp_path / "table.log"
    for number in range(2):
        async with open_log_file(path, config=config(llm=LlmConfig())) as log:
            log.server_line("x", str(number))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(x["event"], x["level"], x["line"]) for x in lines] == [
        ("server_line", "info", "0"),
        ("server_line", "info", "1"),
    ]
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(IsADirectoryError):
        async with open_log_file(tmp_path):
            pytest.fail("opened")


async def test_an_error_inside_leaves_as_it_is() -> None:
    with pytest.raises(KeyError):
        async with open_log(Kept()):
            raise KeyError


async def test_several_logs_and_several_runtimes_do_not_disturb_each_other() -> None:
    one, both = Kept(), Kept()
    async with opened(config("dice")) as first, opened(config("dice")) as second:
        async with log_events(first, one), open_log(both) as log:
            log.follow(first)
            log.follow(second)
            await say(first, "roll 1d4")
            await say(second, "roll 1d4")
    assert len(one.of("turn")) == 1
    assert len(both.of("turn")) == 2


async def test_somebody_elses_model_is_called_what_it_calls_itself() -> None:
    @attrs.frozen
    class Parrot:
        label: str = "parrot"

        def stream(self, request: object) -> Any:
            raise RuntimeError("Zebulon")

    kept = Kept()
    async with opened(config(), llm=Parrot()) as runtime, log_events(runtime, kept):
        await say(runtime, "hello")
    (turn,) = kept.of("turn")
    assert (turn["provider_name"], turn["status"]) == ("parrot", "failed")
    assert turn["error"] == "RuntimeError"


# ------------------------------------------------------------- what it never says

KEY, TOKEN, PEPPER = "sk-model-key-77", "bearer-token-88", "pepper-of-env-99"


@pytest.mark.border
async def test_nothing_secret_and_nobodys_words_are_written() -> None:
    # A39: everything that is written is searched
    file = io.StringIO()
    chosen = config(
        "dice",
        "plain.*",
        llm=LlmConfig(api_key=Secret(KEY)),
        npcs=(
            NpcConfig(
                name="Bo", tools=("dice", "plain.echo"), personality="Knows Yrsa."
            ),
        ),
        mcp=McpConfig(
            servers=(
                plain("tells", env={"PEPPER_KEY": Secret(PEPPER)}, allow=("echo",)),
            )
        ),
    )
    with trio.fail_after(LIMIT):
        async with open_log(json_lines(file), config=chosen) as log:
            async with opened(chosen, on_warning=log.server_event) as runtime:
                log.follow(runtime)
                done = await say(runtime, "I am Zebulon: roll 17d4 for me")
                await say(runtime, "echo Zebulon")
                # What others say, through every door there is.
                log.server_line("plain", f"got {PEPPER} and {KEY}")
                text = f"no {PEPPER}\n  said {KEY}"
                log.server_event(ServerWarning(server="plain", text=text))
                log.server_event(_status(last_error=f"HTTP 401 for {KEY}"))
    written = file.getvalue()
    assert len([json.loads(line) for line in written.splitlines()]) >= 7
    assert "17d4" in done.text or done.outcomes  # something was said, and asked
    assert '"line": "got [secret] and [secret]"' in written
    for word in (KEY, PEPPER, "Zebulon", "17d4", "Yrsa", done.text):
        assert word not in written, word


async def test_with_texts_the_words_are_there_and_the_secrets_are_not() -> None:
    kept = Kept()
    chosen = config("dice", llm=LlmConfig(api_key=Secret(KEY)))
    async with opened(chosen) as runtime, log_events(runtime, kept, texts=True):
        done = await say(runtime, f"My key is {KEY}. Roll 17d4!")
    (call,), (turn,) = kept.of("tool_call"), kept.of("turn")
    assert "17d4" in call["arguments"]
    assert call["message"] == done.outcomes[0].message
    assert turn["said"] == "My key is [secret]. Roll 17d4!"
    assert turn["answer"] == done.text


async def test_secrets_are_hidden_before_there_is_a_runtime() -> None:
    kept = Kept()
    chosen = config(llm=LlmConfig(api_key=Secret(KEY)))
    async with open_log(kept, config=chosen) as log:
        log.server_line("x", f"so it is {KEY}")
    assert kept.of("server_line") == [{"server": "x", "line": "so it is [secret]"}]


async def test_the_secrets_of_a_new_configuration_are_hidden_too() -> None:
    kept = Kept()
    async with opened(config("dice")) as runtime, log_events(runtime, kept) as log:
        log.server_line("x", TOKEN)
        llm = attrs.evolve(runtime.config.llm, api_key=Secret(TOKEN))
        before = runtime.config
        runtime._source.serve(attrs.evolve(runtime.config, llm=llm))
        log.server_line("x", TOKEN)
        runtime._source.serve(before)
        log.server_line("x", TOKEN)  # whoever knew it is still there
    said = [fields["line"] for fields in kept.of("server_line")]
    assert said == [TOKEN, "[secret]", "[secret]"]


async def test_the_lines_of_servers_can_be_left_out() -> None:
    kept = Kept()
    async with open_log(kept, server_lines=False) as log:
        log.server_line("x", "a line")
        log.server_event(ServerWarning(server="x", text="exited\n  a line"))
    assert kept.lines == [
        ("warning", "server_warning", {"server": "x", "text": "exited"})
    ]


# ------------------------------------------------------------ what it never costs


async def test_turns_do_not_wait_for_an_output_that_blocks() -> None:
    kept = Kept(gate=threading.Event())
    async with opened(config("dice")) as runtime:
        async with log_events(runtime, kept) as log:
            log.server_line("x", "first")
            await trio.to_thread.run_sync(partial(kept.entered.wait, LIMIT))
            for _ in range(3):  # while the only line so far is stuck
                assert (await say(runtime, "roll 1d4")).end is TurnEnd.COMPLETED
            assert kept.lines == []
            assert kept.gate is not None
            kept.gate.set()
    assert [event for _, event, _ in kept.lines] == [
        "server_line",
        *["tool_call", "turn"] * 3,
    ]


async def test_what_has_no_room_is_counted_where_the_gap_is() -> None:
    kept = Kept(gate=threading.Event())
    assert kept.gate is not None
    with trio.fail_after(LIMIT):
        async with open_log(kept, capacity=2) as log:
            log.server_line("x", "0")
            await trio.to_thread.run_sync(partial(kept.entered.wait, LIMIT))
            for number in range(1, 6):
                log.server_line("x", str(number))
            assert log.statistics() == LogStatistics(
                written=0, waiting=2, lost=3, failed=0
            )
            kept.gate.set()
            await kept.until(lambda: len(kept.lines) == 4)
            log.server_line("x", "6")
    told = [fields.get("line", fields) for _, _, fields in kept.lines]
    assert told == ["0", "1", "2", {"count": 3}, "6"]
    assert kept.lines[3][:2] == ("warning", "records_lost")
    assert log.statistics() == LogStatistics(written=5, waiting=0, lost=3, failed=0)


@pytest.mark.parametrize("cancelled", [False, True], ids=["", "cancelled"])
async def test_an_output_that_is_stuck_holds_the_end_up_for_a_second(
    cancelled: bool, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    kept = Kept(gate=threading.Event())
    assert kept.gate is not None
    try:
        with trio.CancelScope() as scope:
            async with open_log(kept) as log:
                log.server_line("x", "0")
                await trio.to_thread.run_sync(partial(kept.entered.wait, LIMIT))
                log.server_line("x", "1")
                began = trio.current_time()
                if cancelled:
                    scope.cancel()
                    await trio.sleep_forever()
        assert trio.current_time() - began == logs.CLOSING == 1.0
        assert log.statistics().waiting == 1
    finally:
        kept.gate.set()


@pytest.mark.parametrize("fault", [OSError("disk full"), SystemExit(3)], ids=repr)
async def test_an_output_that_raises_costs_that_record_only(
    fault: BaseException,
) -> None:
    kept = Kept(faults={"tool_call": fault})
    async with opened(config("dice")) as runtime, log_events(runtime, kept) as log:
        done = await say(runtime, "roll 1d4")
    assert done.end is TurnEnd.COMPLETED
    assert [event for _, event, _ in kept.lines] == ["turn"]
    assert log.statistics() == LogStatistics(written=1, waiting=0, lost=0, failed=1)


async def test_an_event_that_makes_no_sense_ends_nothing() -> None:
    kept = Kept()
    async with opened(config("dice")) as runtime, log_events(runtime, kept) as log:
        broken: Any = TurnDone.__new__(TurnDone)  # without any field
        runtime.events.publish(broken)
        log.server_event(ServerStatus.__new__(ServerStatus))
        runtime.events.publish(TurnEvent(npc="Bo", turn=0))  # of no interest
        await say(runtime, "roll 1d4")
    assert [event for _, event, _ in kept.lines] == ["tool_call", "turn"]
    assert log.statistics().failed == 2


async def test_a_reader_that_is_overrun_counts_what_it_missed() -> None:
    kept = Kept()
    async with opened(config("dice")) as runtime, log_events(runtime, kept) as log:
        for _ in range(2_000):  # without a pause, so nobody can read
            runtime.events.publish(TurnEvent(npc="Bo", turn=0))
        await say(runtime, "roll 1d4")
    assert log.statistics().lost >= 2_000 - 1_024
    assert len(kept.of("turn")) == 1
    assert len(kept.of("records_lost")) >= 1


async def test_after_its_end_a_log_takes_nothing_and_says_nothing() -> None:
    kept = Kept()
    async with opened(config("dice")) as runtime:
        async with log_events(runtime, kept) as log:
            pass
        log.server_line("x", "late")
        log.follow(runtime)
        await say(runtime, "roll 1d4")
    assert kept.lines == []
    assert runtime.events._subscriptions == []
    assert log.statistics() == LogStatistics(written=0, waiting=0, lost=0, failed=0)


async def test_following_what_has_ended_ends_too() -> None:
    async with opened(config("dice")) as runtime:
        pass
    with trio.fail_after(LIMIT):
        async with open_log(Kept()) as log:
            log.follow(runtime)


def _status(**more: Any) -> ServerStatus:
    return ServerStatus(
        **{
            "name": "plain",
            "transport": "stdio",
            "state": ServerState.FAILED,
            "tools": (),
            "restarts": 0,
            "since": 0.0,
            "last_error": None,
            "pid": None,
            **more,
        }
    )
