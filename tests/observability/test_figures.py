"""What is counted of events, against the dumbest way of counting; all of it pure."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from glyphoxa_trio.npc import (
    Fallback,
    FanOutDone,
    FellBack,
    Filler,
    ModelFailed,
    ModelSwitched,
    Sentence,
    TextDelta,
    TierSelected,
    Timings,
    ToolFinished,
    TurnDone,
    TurnEnd,
    UsageReported,
)
from glyphoxa_trio.observability.figures import (
    COUNTED,
    OTHER,
    UNKNOWN,
    Figures,
    Histogram,
    ToolNames,
)
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.tools.outcome import Limit, Outcome, Status, ToolCall
from glyphoxa_trio.tools.tier import Tier, TierLimits
from glyphoxa_trio.tools.window import LatencyWindow, Sample, SampleKind


def outcome(status: Status = Status.OK, elapsed: float = 0.1, **more: Any) -> Outcome:
    more.setdefault("tool", "dice.roll")
    return Outcome(call=ToolCall("1", "roll"), status=status, elapsed=elapsed, **more)


def sample(
    seconds: float, kind: SampleKind = SampleKind.OK, *, probe: bool = False
) -> Sample:
    return Sample(kind=kind, seconds=seconds, at=0.0, probe=probe)


def finished(end: Outcome) -> ToolFinished:
    return ToolFinished(npc="Bo", turn=1, outcome=end, round=0)


def begun(npc: str = "Bo", turn: int = 1, tier: Tier = Tier.FAST) -> TierSelected:
    return TierSelected(
        npc=npc,
        turn=turn,
        tier=tier,
        selected=tier,
        ceiling=tier,
        reason="",
        budget=0.5,
        speaker="Yrsa",
        text="hello",
    )


def sentence(npc: str = "Bo", turn: int = 1) -> Sentence:
    return Sentence(npc=npc, turn=turn, text="Well.", round=0)


def done(
    end: TurnEnd = TurnEnd.COMPLETED,
    tier: Tier | None = Tier.FAST,
    tools: float = 0.0,
    outcomes: tuple[Outcome, ...] = (),
    turn: int = 1,
) -> TurnDone:
    return TurnDone(
        npc="Bo",
        turn=turn,
        end=end,
        text="",
        outcomes=outcomes,
        timings=Timings(model=0.0, tools=tools, total=tools),
        rounds=1,
        tier=tier,
    )


# ----------------------------------------------------------------- distributions


@given(
    st.lists(st.floats(0, 20) | st.sampled_from([0.5, 1.0, 1.5]), max_size=60),
    st.lists(st.floats(0, 20), min_size=1, max_size=8, unique=True),
)
def test_a_bucket_holds_what_is_at_most_its_bound(
    values: list[float], bounds: list[float]
) -> None:
    histogram = Histogram(tuple(sorted(bounds)))
    for value in values:
        histogram.add(value)
    below = 0
    for bound, count in zip(histogram.bounds, histogram.counts, strict=False):
        below += count
        assert below == sum(value <= bound for value in values)
    assert sum(histogram.counts) == len(values)
    assert histogram.total == sum(values)


def test_a_copy_stays_what_it_was() -> None:
    histogram = Histogram((1.0,))
    histogram.add(0.5)
    copied = histogram.copy()
    histogram.add(2.0)
    assert (copied.counts, copied.total) == ([1, 0], 0.5)


def test_the_limits_of_tiers_and_badges_are_bounds() -> None:  # A47
    figures = Figures(TierLimits(fast_threshold=0.3, deep_ceiling=7.0))
    figures.sample("dice.roll", sample(0.1))
    bounds = figures.latency["dice", "roll"].bounds
    assert {0.05, 0.2, 1.0} <= set(bounds)  # badges
    assert {0.5, 1.5, 4.0} <= set(bounds)  # tiers as they come
    assert {0.3, 7.0} <= set(bounds)  # and as they were configured
    assert list(bounds) == sorted(bounds)
    assert math.inf not in bounds


# ---------------------------------------------------------------------- labels


class Names(RuleBasedStateMachine):
    """Any keys in any order: bounded, stable, and fair between servers."""

    def __init__(self) -> None:
        super().__init__()
        self.names = ToolNames(most=6, of_one=3)
        self.given: dict[str, tuple[str, str]] = {}
        self.shown: set[tuple[str, str]] = set()

    @rule(
        server=st.sampled_from(["a", "b", "c", "d"]), tool=st.text("xyz.", max_size=2)
    )
    def look(self, server: str, tool: str) -> None:
        key = f"{server}.{tool}"
        labels = self.names.of(key)
        self.shown.add(labels)
        if key in self.given:
            assert labels == self.given[key]
            return
        mine = [one for one in self.given.values() if one[0] == server]
        if len(self.given) < 6 and len(mine) < 3:
            assert labels == (server, tool)
            self.given[key] = labels
        else:
            assert labels == ((server if mine else OTHER), OTHER)

    @invariant()
    def it_is_bounded(self) -> None:
        # So many tools, an `other` for each server that has one, and one for the rest.
        assert len(self.shown - {(s, OTHER) for s in ("a", "b", "c", "d")}) <= 7


TestNames = Names.TestCase


def test_a_server_that_renames_its_tools_for_ever_takes_nobodys_place() -> None:
    figures = Figures()
    for number in range(5_000):
        figures.take(finished(outcome(tool=f"liar.tool_{number}")), 0.0)
        figures.sample(f"liar.tool_{number}", sample(0.1))
    figures.take(finished(outcome(tool="dice.roll")), 0.0)
    figures.sample("dice.roll", sample(0.1))
    assert len(figures.calls) == len(figures.latency) == 128 + 1 + 1
    assert figures.calls["liar", OTHER, Status.OK] == 5_000 - 128
    assert figures.calls["dice", "roll", Status.OK] == 1


def test_servers_without_end_end_up_under_other() -> None:
    figures = Figures()
    for number in range(5_000):
        figures.take(finished(outcome(tool=f"server_{number}.tool")), 0.0)
        figures.sample(f"server_{number}.tool", sample(0.1))
    assert len(figures.calls) == len(figures.health) == 1024 + 1
    assert figures.calls[OTHER, OTHER, Status.OK] == 5_000 - 1024


def test_a_name_that_names_no_tool_is_no_label() -> None:
    figures = Figures()
    for number in range(100):
        invented = ToolCall("1", f"tell_{number}_my_secret")
        denied = attrs.evolve(outcome(Status.DENIED, tool=None), call=invented)
        figures.take(finished(denied), 0.0)
    assert figures.calls == {(UNKNOWN, UNKNOWN, Status.DENIED): 100}


# ---------------------------------------------------------------- what samples say

SAMPLES = st.builds(
    sample,
    st.floats(0, 20) | st.sampled_from([0.05, 0.5, 4.0]),
    st.sampled_from(SampleKind),
    probe=st.booleans(),
)


@given(st.lists(st.tuples(st.sampled_from(["a.x", "a.y", "b.x"]), SAMPLES)))
def test_samples_say_what_they_say_to_a_window(
    samples: list[tuple[str, Sample]],
) -> None:
    # A47, D7: the window of a tool, as long as it keeps them all
    figures = Figures()
    for key, one in samples:
        figures.sample(key, one)
    for key in {key for key, _ in samples}:
        window = LatencyWindow(size=len(samples))
        for _, one in (pair for pair in samples if pair[0] == key):
            window.record(one)
        server, tool = key.split(".")
        histogram = figures.latency.get((server, tool), Histogram((0.0,)))
        assert sum(histogram.counts) == window.latency_count(0.0)
        health = figures.health[server, tool]
        expected = window.health_samples(0.0)
        assert health.calls == len(expected)
        assert health.failures == sum(one.kind.is_failure for one in expected)
    assert figures.calls == {}


def test_only_what_has_a_latency_is_in_the_histogram() -> None:  # A47
    figures = Figures()
    for kind in SampleKind:
        figures.sample("dice.roll", sample(0.5, kind))
    histogram = figures.latency["dice", "roll"]
    within = histogram.bounds.index(0.5)
    # `ok` and `timeout` took half a second; what was cut then took longer than that.
    assert histogram.counts[within] == 2
    assert histogram.counts[within + 1] == 1
    assert sum(histogram.counts) == 3
    health = figures.health["dice", "roll"]
    assert (health.calls, health.failures) == (4, 2)  # a cut call says nothing of it


def test_a_probe_says_how_long_a_tool_takes_and_nothing_of_its_health() -> None:  # A47
    figures = Figures()
    for kind in SampleKind:
        figures.sample("dice.roll", sample(0.5, kind, probe=True))
    assert sum(figures.latency["dice", "roll"].counts) == 3
    assert not figures.health


def test_a_call_is_counted_once_and_is_no_sample() -> None:  # A46
    figures = Figures()
    for status in Status:
        figures.take(finished(outcome(status)), 0.0)
    assert figures.calls == {("dice", "roll", status): 1 for status in Status}
    assert not figures.latency
    assert not figures.health


# ----------------------------------------------------------------------- turns


def test_turns_are_counted_by_end_and_tier() -> None:
    figures = Figures()
    figures.take(done(), 0.0)
    figures.take(done(TurnEnd.INTERRUPTED, Tier.DEEP), 0.0)
    figures.take(done(TurnEnd.FAILED, None), 0.0)
    assert figures.turns == {
        ("completed", "fast"): 1,
        ("interrupted", "deep"): 1,
        ("failed", "none"): 1,
    }


def test_tool_time_is_a_share_of_the_turns_own_budget() -> None:
    figures = Figures(TierLimits(standard_ceiling=2.0))
    figures.take(done(tier=Tier.STANDARD, tools=1.0, outcomes=(outcome(),)), 0.0)
    figures.take(done(tier=Tier.STANDARD), 0.0)  # without calls: no share at all
    figures.take(done(tier=None, outcomes=(outcome(),)), 0.0)
    histogram = figures.tool_time[Tier.STANDARD]
    assert (histogram.total, sum(histogram.counts)) == (0.5, 1)
    assert not sum(figures.tool_time[Tier.FAST].counts)


def test_a_fan_out_has_met_its_ceiling_if_the_turn_cut_a_call() -> None:
    figures = Figures()

    def fanned_out(*outcomes: Outcome) -> FanOutDone:
        return FanOutDone(
            npc="Bo",
            turn=1,
            round=0,
            tier=Tier.FAST,
            shown=1,
            budget=0.5,
            elapsed=0.5,
            outcomes=outcomes,
        )

    figures.take(fanned_out(outcome()), 0.0)
    figures.take(fanned_out(outcome(Status.TIMEOUT, limit=Limit.TOOL)), 0.0)
    assert not figures.fan_outs_cut
    cut = outcome(Status.TIMEOUT, limit=Limit.TURN)
    figures.take(fanned_out(outcome(), cut, cut), 0.0)
    assert (figures.fan_outs[Tier.FAST], figures.fan_outs_cut[Tier.FAST]) == (3, 1)


def test_the_first_sentence_counts_from_its_own_turn() -> None:
    figures = Figures()
    figures.take(begun("Bo"), 10.0)
    figures.take(begun("Ysolde", tier=Tier.DEEP), 11.0)
    figures.take(sentence("Ysolde"), 11.25)
    figures.take(sentence("Bo"), 11.5)
    figures.take(sentence("Bo"), 12.0)  # the second one
    assert figures.first_sentence[Tier.FAST].total == 1.5
    assert figures.first_sentence[Tier.DEEP].total == 0.25
    assert sum(figures.first_sentence[Tier.FAST].counts) == 1


def test_turns_whose_end_is_never_told_are_forgotten() -> None:
    figures = Figures()
    for turn in range(3_000):
        figures.take(begun(turn=turn), 0.0)
    assert len(figures._silent) == 1_000
    figures.take(sentence(turn=0), 5.0)  # forgotten
    figures.take(sentence(turn=2_999), 5.0)
    assert figures.first_sentence[Tier.FAST].total == 5.0


def test_a_turn_that_said_nothing_is_not_remembered() -> None:
    figures = Figures()
    figures.take(begun(), 0.0)
    figures.take(done(TurnEnd.INTERRUPTED), 1.0)
    assert not figures._silent
    assert not sum(figures.first_sentence[Tier.FAST].counts)


def test_what_went_wrong_is_counted_by_its_kind() -> None:
    figures = Figures()
    failed = ModelFailed(npc="Bo", turn=1, kind=ErrorKind.OVERLOADED, detail="sk-77")
    figures.take(failed, 0.0)
    figures.take(FellBack(npc="Bo", turn=1, reason=Fallback.MODEL_FAILED), 0.0)
    figures.take(Filler(npc="Bo", turn=1, text="Hm.", round=0), 0.0)
    assert figures.fillers == 1
    assert figures.models.failures == {"overloaded": 1}
    assert figures.fallbacks == {"model_failed": 1}


def test_tokens_and_cost_are_added_up_by_model() -> None:
    figures = Figures()
    used = UsageReported(
        npc="Bo", turn=1, model="a", input_tokens=100, output_tokens=7, cached_tokens=60
    )
    figures.take(used, 0.0)
    figures.take(attrs.evolve(used, cost=0.5), 0.0)
    figures.take(attrs.evolve(used, cost=0.25, model="b"), 0.0)
    assert figures.models.tokens["a", "input"] == 80
    assert figures.models.tokens["a", "cached"] == 120
    assert figures.models.tokens["a", "output"] == 14
    assert figures.models.tokens["b", "output"] == 7
    assert figures.models.cost == {("a",): 0.5, ("b",): 0.25}


def test_what_was_heard_and_spoken_is_counted_apart_from_text() -> None:
    figures = Figures()
    used = UsageReported(
        npc="Bo",
        turn=1,
        model="a",
        input_tokens=100,
        cached_tokens=60,
        audio_input_tokens=70,
        audio_cached_tokens=50,
        output_tokens=30,
        audio_output_tokens=25,
    )
    figures.take(used, 0.0)
    figures.take(attrs.evolve(used, model="w", audio_time=1.5), 0.0)
    assert {
        kind: n for (model, kind), n in figures.models.tokens.items() if model == "a"
    } == {
        "input": 20,
        "cached": 10,
        "output": 5,
        "audio_input": 20,
        "audio_cached": 50,
        "audio_output": 25,
    }
    assert figures.models.seconds == {("w",): 1.5}


def test_a_switch_names_both_models_and_no_reason() -> None:
    figures = Figures()
    switched = ModelSwitched(npc="Bo", turn=1, model="b", instead_of="a", reason="sk-7")
    figures.take(switched, 0.0)
    figures.take(switched, 0.0)
    assert figures.models.switches == {("b", "a"): 2}


def test_models_without_end_end_up_under_other() -> None:
    figures = Figures()
    for number in range(1_000):
        used = UsageReported(
            npc="Bo", turn=1, model=f"m{number}", input_tokens=1, output_tokens=0
        )
        figures.take(used, 0.0)
    assert len({model for model, _ in figures.models.tokens}) == 65
    assert figures.models.tokens[OTHER, "input"] == 936


def test_pieces_of_text_cost_one_look() -> None:
    assert TextDelta not in COUNTED
    figures = Figures()
    figures.take(TextDelta(npc="Bo", turn=1, text="Well"), 0.0)
    figures.take("anything", 0.0)
    assert Counter(figures.turns) == Counter()
