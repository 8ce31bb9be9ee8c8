"""A configuration is looked at before it goes live: what it can reach, what it
breaks, and an example of each error that a replay shows."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import attrs
import pytest

from glyphoxa_trio import Config
from glyphoxa_trio.config import (
    NO_GROUPS,
    CalibrationConfig,
    McpConfig,
    NpcConfig,
    ServerSpec,
    ToolOverride,
    TrustConfig,
    TurnConfig,
)
from glyphoxa_trio.simulation.latency import Latency
from glyphoxa_trio.simulation.latency import LatencyOrigin as How
from glyphoxa_trio.simulation.plans import RehearsalPlan, rehearse
from glyphoxa_trio.simulation.promises.monitor import BrokenPromise, Promise
from glyphoxa_trio.simulation.verify import scenarios, verify
from glyphoxa_trio.simulation.verify.verdict import (
    Finding,
    Severity,
    Verdict,
    VerifyInputs,
)
from glyphoxa_trio.tools.estimate import Unknown
from glyphoxa_trio.tools.gate import TrustMode
from glyphoxa_trio.tools.history import Measured, ToolPlace
from glyphoxa_trio.tools.outcome import Limit, Status
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.tools.window import SampleKind

from ..cli.support import COMMAND, environment

ROOT = Path(__file__).parents[2]


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """The real command; it computes, so a busy machine may take a while."""
    return subprocess.run(
        [COMMAND, *words],
        capture_output=True,
        text=True,
        timeout=100,
        env=environment(),
        check=False,
    )


def tool(name: str, **meta: Any) -> dict[str, Any]:
    return {
        "name": name,
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
        "_meta": meta,
    }


CONSULT = tool("consult", estimated_duration_ms=250)


def table(
    *tools: str, tier: Tier = Tier.STANDARD, server: Any = None, **more: Any
) -> Config:
    spec = ServerSpec(name="oracle", command=("nobody-starts-this",), **(server or {}))
    return Config(
        npcs=(NpcConfig(name="Bo", tools=tools, budget_tier=tier),),
        mcp=McpConfig(servers=(spec,)),
        builtin=NO_GROUPS,
        calibration=CalibrationConfig(at_start=False),
        **more,
    )


FULL: Any = {"trust": TrustConfig(mode=TrustMode.FULL)}


def known(*tools: dict[str, Any], **more: Any) -> VerifyInputs:
    return VerifyInputs(offers={"oracle": tools or (CONSULT,)}, **more)


def look(config: Config, what: VerifyInputs | None = None, **more: Any) -> Verdict:
    return verify(config, what or known(), **{"evenings": 0, **more})


def the_finding(verdict: Verdict) -> Finding:
    (finding,) = verdict.findings
    return finding


def test_a_good_configuration_has_nothing_to_be_said_of_it() -> None:
    verdict = look(table("oracle.consult"), evenings=20)
    assert verdict.findings == ()
    assert verdict.evenings >= 20
    assert [(x.npc, x.tier) for x in verdict.reaches] == [
        ("Bo", Tier.FAST),
        ("Bo", Tier.STANDARD),
    ]
    for reach in verdict.reaches:
        (called,) = reach.called
        assert (called.key, called.status, called.took) == (
            "oracle.consult",
            Status.OK,
            0.25,
        )
        assert reach.worst_tools <= reach.ceiling
        assert reach.worst_model <= reach.model_limit


def test_a_grant_by_the_names_that_models_see_is_as_good_as_one_by_keys() -> None:
    by_name = table("mcp__oracle__peek", "mcp__oracle__plain")
    by_name = attrs.evolve(by_name, calibration=CalibrationConfig())
    peek, plain = tool("peek"), tool("plain")
    for one in (peek, plain):  # so that it is measured at the start
        one["annotations"]["openWorldHint"] = False
    assert not look(by_name, known(peek, plain), evenings=60).errors


def test_a_tool_above_its_npcs_ceiling_is_an_error_with_an_example() -> None:
    deep = tool("consult", estimated_duration_ms=250, min_tier="deep")
    finding = the_finding(look(table("oracle.consult"), known(deep)))
    assert finding.severity is Severity.ERROR
    assert finding.what == "can reach nothing"
    # In the words of the runtime, which a test follows.
    assert finding.remedy == (
        "raise Bo's budget_tier to deep, or set min_tier to standard under"
        " mcp.servers[oracle].tools[consult]"
    )
    assert finding.example is not None
    monitor = rehearse(finding.example)
    assert monitor.broken == []
    assert monitor.turns_done == 1


def test_the_same_by_a_pattern_is_a_warning() -> None:  # it does not ask for this one
    deep = tool("vision", estimated_duration_ms=250, min_tier="deep")
    finding = the_finding(look(table("oracle", "oracle.consult"), known(CONSULT, deep)))
    assert (finding.severity, finding.tool) == (Severity.WARNING, "oracle.vision")


@pytest.mark.parametrize("tier", Tier)
def test_a_tool_of_which_nothing_is_known_is_on_trial_and_says_so(tier: Tier) -> None:
    verdict = look(table("oracle.consult", tier=tier), known(tool("consult")))
    assert [[x.key for x in reach.called] for reach in verdict.reaches] == [
        ["oracle.consult"] for _ in range(tier + 1)
    ]
    finding = the_finding(verdict)
    assert finding.what == "its latency is unknown"
    assert "on trial in every turn, and rehearsed as if they took 50 ms" in finding.text


def test_one_warning_is_said_of_many_unknown_tools() -> None:
    many = known(*(tool(f"t{n}") for n in range(12)))
    finding = the_finding(look(table("*.*", **FULL), many))
    assert "oracle.t0, oracle.t1, oracle.t10" in finding.text
    assert "and 7 more" in finding.text


def test_without_trials_an_unknown_tool_is_out_of_reach() -> None:
    deep = CalibrationConfig(at_start=False, unknown=Unknown.DEEP)
    config = attrs.evolve(table("oracle.consult"), calibration=deep)
    finding = the_finding(look(config, known(tool("consult"))))
    assert (finding.severity, finding.what) == (Severity.WARNING, "can reach nothing")
    assert "or set calibration.unknown to trial" in finding.remedy


def test_one_remedy_is_said_of_many_tools() -> None:
    deep = known(*(tool(f"t{n}", min_tier="deep") for n in range(12)))
    finding = the_finding(look(table("*.*", **FULL), deep))
    assert "Bo, granted oracle.t0, oracle.t1, oracle.t10" in finding.text
    assert "to standard under mcp.servers[oracle].tools[TOOL]" in finding.remedy


def test_who_can_reach_nothing_comes_first() -> None:
    config = table("oracle.gone")
    config = attrs.evolve(
        config, npcs=(*config.npcs, NpcConfig(name="Ada", tools=("oracle.consult",)))
    )
    verdict = look(config, known(CONSULT))
    first, *_ = verdict.findings
    assert (first.what, first.npc) == ("can reach nothing", "Bo")
    assert "Ada" not in {x.npc for x in verdict.findings}


def test_tools_behind_the_search_are_reached_by_it() -> None:
    tools = [tool(f"t{n}", estimated_duration_ms=100) for n in range(20)]
    verdict = look(table("*.*", **FULL), known(*tools))
    assert verdict.findings == ()
    for reach in verdict.reaches:
        assert {(x.status, x.searched) for x in reach.called} == {(Status.OK, True)}
        assert len(reach.called) == 20


def test_a_tool_that_is_slower_than_it_says_is_always_cut() -> None:
    slow = {"oracle.consult": Latency((3.0,), How.STATED)}
    finding = the_finding(look(table("oracle.consult"), known(stated=slow)))
    assert (finding.severity, finding.what) == (
        Severity.ERROR,
        "shown and always cut",
    )
    assert "it declares 250 ms" in finding.remedy


def test_one_that_is_cut_only_in_fast_turns_is_a_warning() -> None:
    slow = {"oracle.consult": Latency((1.0,), How.STATED)}
    finding = the_finding(look(table("oracle.consult"), known(stated=slow)))
    assert finding.severity is Severity.WARNING
    assert "in fast turns" in finding.text


@pytest.mark.parametrize(
    ("server", "limit", "key"),
    [
        ({"timeout": 0.125}, Limit.SERVER, "timeout_ms"),
        (
            {"tools": {"consult": ToolOverride(max_duration=0.125)}},
            Limit.TOOL,
            "max_duration_ms",
        ),
    ],
)
def test_a_limit_below_what_a_tool_takes(server: Any, limit: Limit, key: str) -> None:
    verdict = look(table("oracle.consult", server=server))
    assert [x.called[0].limit for x in verdict.reaches] == [limit, limit]
    finding = the_finding(verdict)
    assert finding.severity is Severity.ERROR
    assert f"raise {key}" in finding.remedy or key in finding.remedy


def test_what_is_measured_counts_before_what_is_declared() -> None:
    from glyphoxa_trio.mcp.metadata import describe

    config = table("oracle.consult")
    (spec,) = config.mcp.servers
    (definition,) = describe(spec, [CONSULT]).definitions
    place = ToolPlace("local", definition.origin, definition.key)
    measured = tuple(
        Measured(place, SampleKind.OK, 1.0, when=-60.0 - n) for n in range(10)
    )
    verdict = look(config, known(measured=measured))
    fast, standard = verdict.reaches
    assert fast.called == ()
    assert [x.usual.known for x in standard.called] == [How.MEASURED]
    assert "took about 1000 ms" in fast.hidden["oracle.consult"].remedy
    assert verdict.findings == ()


def measured(config: Config, tool: Any, *samples: tuple[SampleKind, float]) -> Any:
    """What earlier runs have measured, by the minute, newest last."""
    from glyphoxa_trio.mcp.metadata import describe

    (spec,) = config.mcp.servers
    (definition,) = describe(spec, [tool]).definitions
    place = ToolPlace("local", definition.origin, definition.key)
    return tuple(
        Measured(place, kind, seconds, when=60.0 * (n - len(samples)))
        for n, (kind, seconds) in enumerate(samples)
    )


OK, CENSORED = SampleKind.OK, SampleKind.CENSORED


def test_one_that_declares_nothing_and_was_measured_is_no_false_alarm() -> None:
    config, plain = table("oracle.consult", tier=Tier.DEEP), tool("consult")
    for seconds in (0.01, 0.8, 2.5):
        found = measured(config, plain, *[(OK, seconds)] * 6)
        verdict = look(config, known(plain, measured=found), evenings=15)
        assert verdict.findings == ()
        (called,) = verdict.reaches[-1].called
        assert called.usual.known is How.MEASURED
        assert called.took == pytest.approx(seconds)


def test_what_is_known_is_what_a_runtime_would_know_that_starts_now() -> None:
    # Calls that were cut say nothing of the next life of a server; five of the calls
    # that went well are believed.
    config = table("oracle.consult")
    samples = [(OK, 0.1)] * 10 + [(OK, 0.8)] * 5 + [(CENSORED, 4.0)] * 30
    verdict = look(config, known(measured=measured(config, CONSULT, *samples)))
    fast, standard = verdict.reaches
    assert fast.called == ()
    (called,) = standard.called
    assert called.usual.known is How.MEASURED
    assert called.took == pytest.approx(0.8)


@pytest.mark.long
def test_the_same_seed_is_the_same_verdict() -> None:
    first, second = (look(table("oracle.consult"), evenings=25) for _ in range(2))
    assert (first.evenings, first.turns) == (second.evenings, second.turns)
    assert first == second
    assert look(table("oracle.consult"), evenings=25, seed=1).turns != first.turns


def test_all_that_is_done_is_counted() -> None:
    told: list[tuple[int, int]] = []
    verdict = look(
        table("oracle.consult"),
        evenings=10,
        tell=lambda done, total: told.append((done, total)),
    )
    assert verdict.evenings == 10
    assert told == [(n, 12) for n in range(1, 13)]


def test_a_second_speed_beyond_every_limit_is_a_warning() -> None:
    two = {"oracle.consult": Latency((0.25,) * 7 + (3.0,) * 3, How.STATED)}
    finding = the_finding(look(table("oracle.consult"), known(stated=two)))
    assert finding.what == "cut again and again"
    assert finding.text.startswith("30%")


def test_a_name_that_nobody_offers() -> None:
    finding = the_finding(look(table("oracle.consult", "oracle.gone")))
    assert (finding.severity, finding.tool) == (Severity.ERROR, "oracle.gone")


def test_a_server_that_was_not_there_is_told() -> None:
    absent = {"oracle": "no such file"}
    verdict = look(table("oracle.consult"), VerifyInputs(absent=absent))
    assert "a server was not there" in {x.what for x in verdict.findings}
    assert verdict.errors == ()


def test_an_approval_without_anybody_to_ask() -> None:
    verdict = look(table("oracle.*"))
    assert the_finding(verdict).what == "can reach nothing"
    answered = look(table("oracle.*"), known(approver=True))
    assert answered.findings == ()
    assert [len(reach.called) for reach in answered.reaches] == [0, 1]


def test_limits_of_a_model_that_come_too_late() -> None:
    config = table("oracle.consult", turn=TurnConfig(silence=40.0))
    assert "turn.silence_ms" in the_finding(look(config)).text


@attrs.frozen
class _Fake:
    broken: list[BrokenPromise]
    turns_done: int = 0
    worst: dict[Any, Any] = attrs.field(factory=dict)


def test_a_broken_promise_is_shrunk_to_the_shortest_evening(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fragile(plan: RehearsalPlan) -> Any:
        calls = sum(
            len(reply) for said in plan.utterances for reply in said.replies[:-1]
        )
        fault = BrokenPromise(Promise.ON_TIME, "Bo", 1.0, "it is made to")
        return _Fake([fault] if calls >= 2 else [])

    monkeypatch.setattr(scenarios, "rehearse", fragile)
    verdict = look(table("oracle.consult"), evenings=200)
    (error,) = verdict.errors
    assert error.what == "a broken promise"
    assert error.example is not None
    (said,) = error.example.utterances
    assert sum(len(reply) for reply in said.replies[:-1]) == 2
    assert error.example.events == ()


def test_a_runtime_that_dies_is_a_broken_promise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def dies(plan: RehearsalPlan) -> Any:
        raise RuntimeError("oh")

    monkeypatch.setattr(scenarios, "rehearse", dies)
    (error,) = look(table("oracle.consult"), evenings=5).errors
    assert "RuntimeError" in error.text


def test_when_the_time_is_up_it_says_so() -> None:
    verdict = look(table("oracle.consult"), evenings=1000, seconds=0.0)
    assert not verdict.complete
    assert verdict.evenings == 0


# ------------------------------------------------------------ the command itself


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wrong")
    oracle = ROOT / "config" / "servers" / "oracle.py"
    data = {
        "mcp": {
            "remember": False,
            "servers": [
                {
                    "name": "oracle",
                    "command": ["python", str(oracle)],
                    "env": {"ORACLE_DELAY": "0.01"},
                    "tools": {"vision": {"min_tier": "deep"}},
                }
            ],
        },
        "npcs": [{"name": "Bo", "budget_tier": "standard", "tools": ["oracle.vision"]}],
        "calibration": {"at_start": False},
    }
    (folder / "wrong.json").write_text(json.dumps(data))
    return folder


@pytest.mark.long
def test_a_wrong_configuration_fails_with_an_example_that_replay_shows(
    wrong: Path,
) -> None:
    checked = run("verify", wrong / "wrong.json", "--evenings", "5", "--save", wrong)
    assert checked.returncode == 1, checked.stdout + checked.stderr
    assert checked.stdout.startswith("error: can reach nothing: Bo, granted oracle.v")
    (example,) = wrong.glob("verify-*.jsonl")
    assert f"glyphoxa replay {example}" in checked.stdout
    replayed = run("replay", example)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert "oracle.vision skipped" in replayed.stdout


@pytest.mark.long
def test_it_says_the_same_twice_and_leaves_nothing_behind(
    wrong: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(wrong))
    said = [run("verify", wrong / "wrong.json", "--evenings", "8") for _ in range(2)]
    first, second = (x.stdout.partition("  example: ") for x in said)
    assert first[0] == second[0]
    assert first[2].splitlines()[1:] == second[2].splitlines()[1:]
    assert list(tmp_path.iterdir()) == []
    path = Path(first[2].splitlines()[0].removeprefix("glyphoxa replay "))
    assert path.exists()
    assert [x.suffix for x in path.parent.iterdir()] == [".jsonl"]


@pytest.mark.long
def test_the_verdict_as_json(wrong: Path, tmp_path: Path) -> None:
    checked = run(
        "verify",
        wrong / "wrong.json",
        *("--json", "--evenings", "5", "--save", tmp_path),
    )
    verdict = json.loads(checked.stdout)
    assert (checked.returncode, verdict["passed"]) == (1, False)
    (error,) = [x for x in verdict["findings"] if x["severity"] == "error"]
    assert error["tool"] == "oracle.vision"
    assert Path(error["example"]).exists()
    fast, standard = verdict["npcs"]
    assert (fast["tools"], standard["tools"]) == ([], [])
    assert standard["worst_turn"]["ceiling_ms"] == 1500
    assert standard["hidden"][0]["reason"] == "over_tier"


@pytest.mark.long
def test_the_tavern_keeps_its_promises() -> None:
    checked = run("verify", ROOT / "config" / "tavern.yaml", "--evenings", "10")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "0 errors" in checked.stdout
