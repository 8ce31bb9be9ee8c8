"""Simulations: exact where nothing is left to chance, and the same for one seed."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import attrs
import pytest

from glyphoxa_trio.config import (
    CalibrationConfig,
    Config,
    ConfigError,
    McpConfig,
    NpcConfig,
    ServerSpec,
    load_as,
)
from glyphoxa_trio.config.voices import Engine
from glyphoxa_trio.simulation.latency import Latency, LatencyOrigin, Part, Stated
from glyphoxa_trio.simulation.pictures import NoPictures, draw
from glyphoxa_trio.simulation.script import ModelPace, Rehearsal, ScriptLine
from glyphoxa_trio.simulation.seen import Simulated, Spread
from glyphoxa_trio.simulation.simulate import simulate
from glyphoxa_trio.tools.estimate import TierBy
from glyphoxa_trio.tools.tier import DEFAULT_LIMITS, Tier

CONSULT = {
    "name": "consult",
    "inputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
    "_meta": {"estimated_duration_ms": 250},
}
OFFERS = {"oracle": (CONSULT,)}
PACE = ModelPace(first_token=Stated(exactly=0.25), word=Stated(exactly=0.0))


def config(tier: Tier = Tier.FAST, *, at_start: bool = False) -> Config:
    return Config(
        npcs=(NpcConfig(name="Ysolde", tools=("oracle.consult",), budget_tier=tier),),
        mcp=McpConfig(
            servers=(ServerSpec(name="oracle", command=("nobody-starts-this",)),)
        ),
        calibration=CalibrationConfig(at_start=at_start),
    )


def rehearsal(
    calls: tuple[tuple[str, ...], ...] | None,
    *,
    turns: int = 1,
    consult: Stated | None = None,
) -> Rehearsal:
    return Rehearsal(
        model=PACE,
        latencies={} if consult is None else {"oracle.consult": consult},
        script=(ScriptLine(npc="Ysolde", say="Hm.", calls=calls),),
        turns=turns,
    )


def test_a_turn_takes_the_model_and_the_slowest_tool_and_the_model_again() -> None:
    script = rehearsal((("oracle.consult", "oracle.consult"),))
    (turn,) = simulate(config(), script, offers=OFFERS).turns
    assert turn.tools == 0.25
    assert turn.first_sentence == turn.total == 0.25 + 0.25 + 0.25
    assert turn.calls == ("ok", "ok")
    assert not turn.at_ceiling


def test_a_fast_model_opens_at_its_own_pace() -> None:
    opening = ModelPace(first_token=Stated(exactly=0.125), word=Stated(exactly=0.0))
    script = attrs.evolve(rehearsal((("oracle.consult",),)), fast_model=opening)
    cascade = config()
    npcs = tuple(
        attrs.evolve(npc, engine=Engine.SENTENCE_CASCADE) for npc in cascade.npcs
    )
    cascade = attrs.evolve(cascade, npcs=npcs)
    (turn,) = simulate(cascade, script, offers=OFFERS).turns
    assert turn.first_sentence == 0.125
    assert turn.total == 0.125 + 0.25 + 0.25 + 0.25


def test_what_is_said_at_once_was_said() -> None:
    at_once = ModelPace(first_token=Stated(exactly=0.0), word=Stated(exactly=0.0))
    script = attrs.evolve(rehearsal(()), model=at_once)
    done = simulate(config(), script, offers=OFFERS)
    assert done.first_sentence == Spread(p50=0.0, p95=0.0, p99=0.0)


def test_a_call_beyond_the_ceiling_is_cut_there() -> None:
    script = rehearsal((("oracle.consult",),), consult=Stated(exactly=3.0))
    (turn,) = simulate(config(), script, offers=OFFERS).turns
    assert turn.at_ceiling
    assert turn.tools == 0.5
    assert turn.calls == ("timeout",)


BIMODAL = Stated(mixture=(Part(share=0.7, taking=0.2), Part(share=0.3, taking=3.0)))


def at_ceiling(tier_by: TierBy) -> float | None:  # G40
    script = rehearsal((("oracle.consult",),), turns=400, consult=BIMODAL)
    done = simulate(config(at_start=True), script, offers=OFFERS, tier_by=tier_by)
    return done.at_ceiling(Tier.FAST)


def test_what_tier_by_does_to_a_tool_of_two_speeds_shows() -> None:
    by_median, by_tail = at_ceiling(TierBy.P50), at_ceiling(TierBy.P95)
    assert by_median is not None
    assert by_tail is not None
    assert by_median > 0.2
    assert by_tail < 0.02


def test_the_same_seed_gives_the_same_figures() -> None:
    script = rehearsal(None, turns=50, consult=BIMODAL)
    one, two, other = (
        simulate(config(), script, offers=OFFERS, seed=seed) for seed in (1, 1, 2)
    )
    assert one == two
    assert one.turns != other.turns


def test_what_was_stated_goes_before_what_was_measured_and_that_before_declared() -> (
    None
):
    def known(*, measured: bool, stated: bool) -> LatencyOrigin:
        script = rehearsal((), consult=BIMODAL if stated else None)
        latencies = {
            ("local", "oracle.consult"): Latency((0.1,), LatencyOrigin.MEASURED)
        }
        done = simulate(
            config(), script, offers=OFFERS, measured=latencies if measured else None
        )
        return next(x.known for x in done.tools if x.key == "oracle.consult")

    assert known(measured=True, stated=True) is LatencyOrigin.STATED
    assert known(measured=True, stated=False) is LatencyOrigin.MEASURED
    assert known(measured=False, stated=False) is LatencyOrigin.DECLARED


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (rehearsal((("oracle.consul",),)), r"oracle.consul.*script\[0\].calls"),
        (Rehearsal(latencies={"oracle.x": BIMODAL}), r"oracle\.x.*latencies"),
        (Rehearsal(script=(ScriptLine(npc="Nobody", say="Hm."),)), r"script\[0\].npc"),
    ],
)
def test_a_script_that_does_not_fit_is_named(wrong: Rehearsal, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        simulate(config(), wrong, offers=OFFERS)


def test_without_a_script_everybody_is_spoken_to() -> None:
    done = simulate(config(Tier.DEEP), Rehearsal(turns=30), offers=OFFERS)
    assert {turn.tier for turn in done.turns} == set(Tier)
    assert all(turn.first_sentence is not None for turn in done.turns)


def test_a_file_is_read_with_every_problem_at_its_place(tmp_path: Path) -> None:
    file = tmp_path / "talk.yaml"
    file.write_text(
        "latencies:\n  oracle.consult: { p50_ms: 200 }\n"
        "script:\n  - { npc: Ysolde, says: Hm. }\nturns: 0\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_as(file, Rehearsal)
    problems = "\n".join(caught.value.problems)
    assert "belong together @ talk.yaml.latencies['oracle.consult']" in problems
    assert "did you mean 'say'? @ talk.yaml.script[0]" in problems
    assert "@ talk.yaml.turns" in problems


def test_the_example_of_the_documentation_is_one() -> None:
    script = load_as("config/simulation.yaml", Rehearsal)
    assert script.latencies["oracle.consult"].latency().percentile(50) == 0.2


@pytest.fixture(scope="module")
def done() -> Simulated:
    return simulate(config(), rehearsal(None, turns=20), offers=OFFERS)


@pytest.mark.border
def test_pictures_are_drawn_and_are_the_same_again(
    done: Simulated, tmp_path: Path
) -> None:
    first = draw([done], tmp_path / "one", limits=DEFAULT_LIMITS)
    second = draw([done], tmp_path / "two", limits=DEFAULT_LIMITS)
    for one, two in zip(first, second, strict=True):
        assert ET.parse(one).getroot().tag.endswith("svg")
        assert one.read_bytes() == two.read_bytes()


@pytest.mark.border
def test_a_name_is_no_formula_and_steers_nothing(tmp_path: Path) -> None:
    names = ("x$$y^$$", "$\\frac$", "\x1b[2J", "<b>&--")
    offers = {"oracle": tuple(CONSULT | {"name": name} for name in names)}
    anybody = attrs.evolve(config(), npcs=(NpcConfig(name="Ysolde"),))
    done = simulate(anybody, rehearsal(()), offers=offers)
    assert {f"oracle.{name}" for name in names} <= {tool.key for tool in done.tools}
    for path in draw([done], tmp_path, limits=DEFAULT_LIMITS):
        assert ET.parse(path).getroot().tag.endswith("svg")


def test_without_the_library_pictures_say_what_is_missing(
    done: Simulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(NoPictures, match="pip install"):
        draw([done], tmp_path, limits=DEFAULT_LIMITS)
