"""What is told to others of the tools here: when, to whom, and what never is (G39).

Times are virtual where a test is about when; the file and the socket are real.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from glyphoxa_trio import ConfigError, Runtime, open_runtime
from glyphoxa_trio.config import NpcConfig, TelemetryConfig, load_text
from glyphoxa_trio.mcp import ServerWarning
from glyphoxa_trio.observability import (
    Score,
    Telemetry,
    open_telemetry,
    places,
    ranked,
    scores_of,
    telemetry,
)
from glyphoxa_trio.observability.figures import Figures
from glyphoxa_trio.observability.telemetry import MOST_TOOLS, written
from glyphoxa_trio.testing.http_server import (
    NoAnswer,
    ReceivedRequest,
    Reply,
    StatusReply,
    open_http_server,
)
from glyphoxa_trio.tools.definition import ConnectionLost
from glyphoxa_trio.tools.outcome import ToolResult
from glyphoxa_trio.tools.tier import Tier, badge, tag
from glyphoxa_trio.tools.window import Sample, SampleKind

from ..npc.support import Ran, ScriptedLLM, call
from ..npc.support import Reply as Said
from .support import LIMIT
from .test_metrics import SECRET, config, say


def score(tool: str = "dice.roll", p50: float = 0.01, **more: Any) -> Score:
    fields: dict[str, Any] = {
        "category": tool.partition(".")[2],
        "transport": "stdio",
        "tier": Tier.FAST,
        "p99": 2 * p50,
        "samples": 9,
    }
    return Score(tool=tool, p50=p50, **(fields | more))


@attrs.define(eq=False)
class Told:
    """Who is told in place of a disk or a network: what, and when."""

    reports: list[tuple[float, Any]] = attrs.field(factory=list)
    takes: float = 0.0
    fault: Exception | None = None

    async def send(self, config: TelemetryConfig, report: str) -> None:
        await trio.sleep(self.takes)
        if self.fault is not None:
            raise self.fault
        self.reports.append((trio.current_time(), json.loads(report)))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    found = Told()
    monkeypatch.setattr(telemetry, "_send", found.send)
    return found


@asynccontextmanager
async def table(
    chosen: TelemetryConfig, *replies: Any, ran: Ran | None = None, **options: Any
) -> AsyncGenerator[tuple[Runtime, Telemetry]]:
    """A tool that was called once, in 0.1 s, before the telemetry is opened."""
    tools = ((ran or Ran()).tool("toss", 0.1),)
    llm = ScriptedLLM([[call("toss")], ["Well."], *replies])
    asked = config(telemetry=chosen)
    async with open_runtime(asked, tools=tools, llm=llm) as runtime:
        await say(runtime)
        async with open_telemetry(runtime, **options) as opened:
            yield runtime, opened


ON = TelemetryConfig(enabled=True, file=Path("unused"), interval=10.0)


# ---------------------------------------------------------------- badges and ranks


@pytest.mark.parametrize(
    ("p50", "tier", "is_a", "fits"),
    [
        # Seed 001: a dice roller of 15 ms, an image generator of 3200.
        (0.015, Tier.FAST, "Lightning", "FAST compatible"),
        (0.05, Tier.FAST, "Fast", "FAST compatible"),
        (0.2, Tier.FAST, "Standard", "FAST compatible"),
        (0.8, Tier.STANDARD, "Standard", "STANDARD compatible"),
        (1.0, Tier.STANDARD, "Slow", "STANDARD compatible"),
        (3.2, Tier.DEEP, "Slow", "DEEP only"),
    ],
)
def test_a_badge_says_how_fast_and_a_tag_where_it_fits(
    p50: float, tier: Tier, is_a: str, fits: str
) -> None:
    # G39
    assert (badge(p50), tag(tier)) == (is_a, fits)
    one = score(p50=p50, tier=tier)
    assert (one.badge, one.tag) == (is_a, fits)


@given(
    st.lists(
        st.builds(
            score,
            st.tuples(st.sampled_from("abc"), st.sampled_from("xy")).map(".".join),
            st.sampled_from([0.01, 0.02, 0.5]),
        ),
        unique_by=lambda x: x.tool,
    )
)
def test_within_a_category_the_faster_median_comes_first(scores: list[Score]) -> None:
    # G39
    categories = ranked(scores)
    assert list(categories) == sorted({one.category for one in scores})
    assert sorted(x.tool for found in categories.values() for x in found) == sorted(
        one.tool for one in scores
    )
    for category, found in categories.items():
        assert {one.category for one in found} == {category}
        assert [x.p50 for x in found] == sorted(x.p50 for x in found)


@pytest.mark.parametrize(
    ("tools", "ranks"),
    [((), []), (("a.x",), [None]), (("a.x", "b.y", "c.z"), [1, 2, 3])],
)
def test_the_only_one_of_its_kind_has_no_rank(
    tools: tuple[str, ...], ranks: list[int | None]
) -> None:
    # G39
    scores = [score(tool, category="luck") for tool in tools]
    assert [rank for rank, _ in places(scores)] == ranks


async def test_tools_of_one_kind_are_ranked_whatever_they_are_called(
    autojump_clock: MockClock,
) -> None:
    # G39: only what was measured has a rank
    ran = Ran()
    tools = (
        ran.tool("spin", 0.3, group="slow", category="Luck"),
        ran.tool("toss", 0.03, group="quick", category="luck"),
        ran.tool("never", 0.1, category="luck"),
    )
    async with open_runtime(config(), tools=tools, llm=ScriptedLLM([])) as runtime:
        assert await scores_of(runtime) == ()
        for key in ("slow.spin", "quick.toss", "quick.toss"):
            await runtime.host.execute(key)
        categories = ranked(await scores_of(runtime))
        assert list(categories) == ["luck"]
        first, second = categories["luck"]
        assert (first.tool, first.samples, first.transport) == (
            "quick.toss",
            2,
            "in-process",
        )
        assert first.p50 == pytest.approx(0.03)
        assert (second.tool, second.tag) == ("slow.spin", "FAST compatible")


# ------------------------------------------------------------------------- when


async def test_nothing_is_told_unless_somebody_wants_it(
    told: Told, autojump_clock: MockClock
) -> None:
    # G39: opt in
    assert TelemetryConfig().enabled is False
    silent = TelemetryConfig(file=Path("unused"), url="https://scores.example/")
    async with table(silent) as (runtime, opened):
        await trio.sleep(100)
        await opened.tell()
        assert runtime.events._taps == []  # nobody even counts
    assert told.reports == []


async def test_it_is_told_every_interval_and_at_the_end(
    told: Told, autojump_clock: MockClock
) -> None:
    async with table(ON, warn=_unwanted) as (runtime, _):
        began = trio.current_time()
        await trio.sleep(25)
        assert [at - began for at, _ in told.reports] == [10, 20]
    assert [at - began for at, _ in told.reports] == [10, 20, 25]
    assert not runtime.warnings
    (tool,) = told.reports[0][1]["tools"]
    assert tool == {
        "tool": "test.toss",
        "transport": "in-process",
        "badge": "Fast",
        "p50_ms": 100.0,
        "p99_ms": 100.0,
        "samples": 1,
        "failures": None,  # no call since it was opened
    }


async def test_the_share_of_failures_is_told(
    told: Told, autojump_clock: MockClock
) -> None:
    ran = Ran()
    limited = ran.tool(
        "limited", 60.0, estimated_duration=0.1, max_duration=0.2, idempotent=True
    )
    fine = ran.tool("fine", 0.1)
    replies: list[Said] = [
        [call("limited"), call("fine")],
        ["Well."],
        [call("fine")],
        ["So."],
    ]
    llm = ScriptedLLM(replies)
    asked = config(telemetry=ON)
    async with open_runtime(asked, tools=(limited, fine), llm=llm) as runtime:
        async with open_telemetry(runtime, warn=_unwanted):
            await say(runtime)
            await say(runtime)
    ((_, report),) = told.reports
    shares = {tool["tool"]: tool["failures"] for tool in report["tools"]}
    assert shares == {"test.limited": 1.0, "test.fine": 0.0}


async def test_a_server_that_is_lost_is_a_failure_and_a_probe_is_nothing(
    told: Told, autojump_clock: MockClock
) -> None:
    # G39: whoever called, and however quick the probes are
    lost = False

    async def handler(_: Any, __: Any) -> ToolResult:
        await trio.sleep(0.1)
        if lost:
            raise ConnectionLost("it died")
        return ToolResult()

    ran = Ran()
    shaky = attrs.evolve(ran.tool("shaky"), handler=handler)
    tools = (shaky, ran.tool("probed", 0.1))
    asked = config(telemetry=ON)
    async with open_runtime(asked, tools=tools, llm=ScriptedLLM([])) as runtime:
        async with open_telemetry(runtime, warn=_unwanted):
            await runtime.calibrate(within=60)
            for dies in (False, False, True):
                lost = dies
                await runtime.host.execute("test.shaky")
    ((_, report),) = told.reports
    shares = {
        tool["tool"]: (tool["samples"], tool["failures"])
        for tool in report["tools"]
        if tool["tool"].startswith("test.")
    }
    assert shares == {"test.shaky": (7, 0.3333), "test.probed": (5, None)}


async def test_without_a_figure_there_is_nothing_to_tell(
    told: Told, autojump_clock: MockClock
) -> None:
    asked = config(telemetry=ON)
    async with open_runtime(asked, llm=ScriptedLLM([])) as runtime:
        async with open_telemetry(runtime, warn=_unwanted):
            await trio.sleep(40)
    assert told.reports == []


async def test_switched_off_in_a_reload_it_stops_at_once(
    told: Told, autojump_clock: MockClock
) -> None:
    async with table(ON, warn=_unwanted) as (runtime, _):
        await trio.sleep(15)
        off = attrs.evolve(runtime.config, telemetry=TelemetryConfig())
        await runtime.reload(off)
        await trio.sleep(100)
    assert len(told.reports) == 1


async def test_whoever_is_cancelled_tells_the_last_figures_too(
    told: Told, autojump_clock: MockClock
) -> None:
    with trio.CancelScope() as scope:
        async with table(ON, warn=_unwanted) as (runtime, _):
            for _ in range(4):
                await runtime.host.execute("toss")
            await wait_all_tasks_blocked()
            scope.cancel()  # which ends the calibrator, too
            await trio.sleep_forever()
    ((_, report),) = told.reports
    assert [tool["samples"] for tool in report["tools"]] == [5]


async def test_the_end_waits_two_seconds_for_somebody_who_does_not_answer(
    told: Told, autojump_clock: MockClock
) -> None:
    warnings: list[ServerWarning] = []
    async with table(ON, warn=warnings.append):
        told.takes = 1e4
        began = trio.current_time()
    assert trio.current_time() - began == telemetry.CLOSING == 2.0
    assert ["took longer than 2 s" in one.text for one in warnings] == [True]


async def test_failures_are_one_warning_until_it_works_again(
    told: Told, autojump_clock: MockClock
) -> None:
    async with table(ON) as (runtime, _):
        told.fault = OSError("disk full")
        await trio.sleep(101)
        (warning,) = runtime.warnings
        assert (warning.server, warning.text) == (
            "telemetry",
            "the figures of tools could not be told: disk full",
        )
        told.fault = None
        await trio.sleep(10)
        told.fault = OSError("disk full again")
        await trio.sleep(20)
        assert [one.text[-5:] for one in runtime.warnings] == [" full", "again"]


async def test_somebody_who_never_answers_does_not_stop_it(
    told: Told, autojump_clock: MockClock
) -> None:
    async with table(ON) as (runtime, _):
        told.takes = 1e4
        await trio.sleep(62)  # the third attempt began at 60, and has 15 seconds
        assert len(runtime.warnings) == 1
        told.takes = 0.0
        await trio.sleep(26)
        assert len(told.reports) == 1


# ------------------------------------------------------------------- what, and what not


async def test_nothing_is_told_but_figures(
    told: Told, autojump_clock: MockClock
) -> None:
    # G39, A39: the report is searched for all that was said and configured
    secretive = TelemetryConfig(
        enabled=True, url=f"https://bob:{SECRET}@scores.example/x?key=zzz-77"
    )
    ran = Ran()
    arguments = '{"who": "Zebulon", "key": "77-secret"}'
    asked = attrs.evolve(
        config(
            NpcConfig(
                name="Greymantle",
                tools=("*",),
                budget_tier=Tier.DEEP,
                secret_knowledge=("The ring is forged.",),
            ),
            telemetry=secretive,
        )
    )
    llm = ScriptedLLM([[call("toss", arguments)], ["Well, Zebulon."]])
    tools = (ran.tool("toss", 0.1, description="Tosses for Zebulon."),)
    async with open_runtime(asked, tools=tools, llm=llm) as runtime:
        async with open_telemetry(runtime, warn=_unwanted) as opened:
            async with runtime.npc("Greymantle").say("I am Zebulon") as turn:
                await turn.finish()
            text = await opened.report()
    assert json.loads(text) == told.reports[0][1]
    assert set(json.loads(text)) == {"format", "program", "tools"}
    for word in (
        *("Zebulon", "Greymantle", "77-secret", "toss is done", "forged"),
        *(SECRET, "bob", "scores.example", "zzz-77", "Tosses"),
    ):
        assert word not in text, word


def test_a_report_has_a_bound() -> None:
    many = [score(f"s.tool_{n:05}", samples=n) for n in range(3_000)]
    long = score("s." + "x" * 10_000, samples=9_999)
    report = json.loads(written([*many, long], Figures()))
    assert len(report["tools"]) == MOST_TOOLS
    # Those that were measured most often.
    assert min(tool["samples"] for tool in report["tools"]) == 3_000 - MOST_TOOLS + 1
    assert max(len(tool["tool"]) for tool in report["tools"]) == 200


def test_what_is_counted_together_is_no_share_of_a_single_tool() -> None:
    figures = Figures()
    figures.names.most = 1
    lost = Sample(kind=SampleKind.FAILED, seconds=0.1, at=0.0)
    figures.sample("a.x", lost)
    figures.sample("b.y", lost)  # has no place: it is `other`
    report = json.loads(written([score("a.x"), score("b.y")], figures))
    assert [tool["failures"] for tool in report["tools"]] == [1.0, None]


# ----------------------------------------------------------------------- to whom


async def test_a_file_is_the_newest_report_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.json"
    path.write_text("something old, and much longer than a report would ever be" * 99)
    with trio.fail_after(LIMIT):
        chosen = TelemetryConfig(enabled=True, file=path)
        async with table(chosen, warn=_unwanted) as (_, opened):
            await opened.tell()
            assert path.read_text() == await opened.report()
            path.unlink()
    assert json.loads(path.read_text())["tools"][0]["tool"] == "test.toss"
    assert os.listdir(tmp_path) == ["telemetry.json"]


async def test_a_folder_that_is_not_there_is_a_warning(tmp_path: Path) -> None:
    chosen = TelemetryConfig(enabled=True, file=tmp_path / "not" / "there.json")
    with trio.fail_after(LIMIT):
        async with table(chosen) as (runtime, opened):
            await opened.tell()
            (warning,) = runtime.warnings
    assert "No such file" in warning.text


async def test_what_is_no_file_is_neither_read_nor_replaced(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)  # as a device would be
    chosen = TelemetryConfig(enabled=True, file=path)
    with trio.fail_after(LIMIT):
        async with table(chosen) as (runtime, opened):
            await opened.tell()
            (warning,) = runtime.warnings
    assert warning.text.endswith("cannot be written: it is no file @ pipe")
    assert path.is_fifo()


async def test_a_name_that_no_network_knows_is_told_with_its_address() -> None:
    warnings: list[ServerWarning] = []
    chosen = TelemetryConfig(enabled=True, url=f"https://a..b/x?key={SECRET}")
    with trio.fail_after(LIMIT):
        async with table(chosen, warn=warnings.append):
            pass
    (warning,) = warnings
    assert warning.text.endswith("could not be told: https://a..b/x: UnicodeError")


async def test_an_address_is_posted_to(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with trio.fail_after(LIMIT):
        async with open_http_server(lambda _: StatusReply(202)) as server:
            url = f"{server.origin}/v1/tools?key={SECRET}"
            chosen = TelemetryConfig(enabled=True, url=url)
            async with table(chosen, warn=_unwanted) as (_, opened):
                await opened.tell()
                expected = await opened.report()
    first, second = server.requests  # the second one is the end's
    assert (first.method, first.path, first.query) == (
        "POST",
        "/v1/tools",
        f"key={SECRET}",
    )
    assert first.headers["content-type"] == "application/json"
    assert first.body.decode() == expected == second.body.decode()
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (StatusReply(503, body=f"no: {SECRET}".encode()), "HTTP 503"),
        (StatusReply(302, {"Location": "https://evil.example/"}), "HTTP 302"),
        (NoAnswer(), "took longer than"),
    ],
    ids=["503", "302", "silence"],
)
async def test_somebody_who_does_not_take_it_is_a_warning_without_secrets(
    reply: Reply, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(reply, NoAnswer):
        monkeypatch.setattr(telemetry, "CLOSING", 0.3)

    def answer(_: ReceivedRequest) -> Reply:
        return reply

    warnings: list[ServerWarning] = []
    with trio.fail_after(LIMIT):
        async with open_http_server(answer) as server:
            chosen = TelemetryConfig(enabled=True, url=f"{server.origin}/?key={SECRET}")
            async with table(chosen, warn=warnings.append):
                pass
    (warning,) = warnings
    assert why in warning.text
    assert SECRET not in warning.text
    assert len(server.requests) == 1


async def test_nobody_there_is_a_warning_and_the_file_is_written_all_the_same(
    tmp_path: Path,
) -> None:
    async with open_http_server(lambda _: StatusReply()) as server:
        gone = server.origin
    warnings: list[ServerWarning] = []
    path = tmp_path / "telemetry.json"
    chosen = TelemetryConfig(enabled=True, url=f"{gone}/?key={SECRET}", file=path)
    with trio.fail_after(LIMIT):
        async with table(chosen, warn=warnings.append):
            pass
    (warning,) = warnings
    assert warning.text.endswith(f"{gone}/: ConnectError")
    assert path.exists()


# ------------------------------------------------------------------- configuration


def test_a_configuration_says_who_is_told(tmp_path: Path) -> None:
    text = """
telemetry:
  enabled: true
  file: told.json
  url: https://scores.example/v1
  interval_hours: 2
"""
    found = load_text(text, source=tmp_path / "table.yaml").telemetry
    assert found == TelemetryConfig(
        enabled=True,
        file=tmp_path / "told.json",
        url="https://scores.example/v1",
        interval=7200.0,
    )


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("enabled: true", "neither file nor url"),
        ("url: http://scores.example/", "must start with https://"),
        ("url: scores.example", "must be an address"),
        ("interval_hours: 0", "must be more than 0"),
        ("interval_ms: 10", "unknown key 'interval_ms'"),
        ("enabled: yes please", "expected true or false"),
    ],
)
def test_what_cannot_be_meant_is_an_error_with_its_place(
    lines: str, problem: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=problem) as error:
        load_text(f"telemetry:\n  {lines}\n", source=tmp_path / "table.yaml")
    assert "table.yaml.telemetry" in str(error.value)


def _unwanted(warning: ServerWarning) -> None:
    raise AssertionError(warning)
