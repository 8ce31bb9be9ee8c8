"""What models cost: what is charged, and whom it turns away. Times are virtual."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import trio
from trio.testing import MockClock

from glyphoxa_trio.config import NpcConfig, SpeculationConfig
from glyphoxa_trio.config.cost import CostConfig, Price
from glyphoxa_trio.config.voices import Engine
from glyphoxa_trio.npc import (
    Costs,
    Fallback,
    FellBack,
    Sentence,
    Shed,
    SpeculationDone,
    SpeculationEnd,
    Spent,
    TurnDone,
    TurnEnd,
    UsageReported,
)
from glyphoxa_trio.npc.activity import Activity
from glyphoxa_trio.npc.identity import NpcId
from glyphoxa_trio.providers.llm import ErrorKind, Finished, LLMError, LLMRequest, Usage
from glyphoxa_trio.providers.s2s import (
    Command,
    Respond,
    ResponseEnd,
    ResponseEnded,
    ResponseStarted,
    Spoken,
)

from .s2s.support import ASKS, Links, ScriptedLink, live
from .support import Ran, Reply, Table, ask, call, open_table

CHEAP, DEAR = Price(input=1.0, output=2.0), Price(input=10.0, output=20.0, cached=1.0)
PRICES = {"cheap": CHEAP, "dear": DEAR}
MILLION = 1_000_000


def costs(**config: Any) -> tuple[Costs, list[str]]:
    warnings: list[str] = []
    given = CostConfig(**({"prices": PRICES} | config))
    return Costs(given, warnings.append), warnings


def used(
    input_tokens: int, output_tokens: int = 0, *, model: str = "cheap", cached: int = 0
) -> Usage:
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cached_tokens=cached,
        model=model,
    )


def answers(*usages: Usage | None, calls: Sequence[Any] = ()) -> list[Reply]:
    """A reply each, which takes half a second and so many tokens."""
    return [[0.5, "Well.", *calls, Finished(usage=usage)] for usage in usages]


# The sums.

SPEAKS = Price(
    input=4, output=16, cached=1, audio_input=40, audio_output=80, audio_cached=2
)


@pytest.mark.parametrize(
    ("usage", "price", "cost"),
    [
        # 10 read, 4 of them cached; 30 heard, 20 of them cached; 5 written, 7 spoken.
        (
            Usage(
                input_tokens=40,
                cached_tokens=24,
                audio_input_tokens=30,
                audio_cached_tokens=20,
                output_tokens=12,
                audio_output_tokens=7,
            ),
            SPEAKS,
            6 * 4 + 4 * 1 + 10 * 40 + 20 * 2 + 5 * 16 + 7 * 80,
        ),
        # As if it were text, where nobody says what audio costs.
        (
            Usage(input_tokens=40, audio_input_tokens=30, output_tokens=2),
            CHEAP,
            40 * 1 + 2 * 2,
        ),
        # Audio that a cache had is as dear as other audio, unless it has a price.
        (
            Usage(
                input_tokens=9,
                cached_tokens=9,
                audio_input_tokens=9,
                audio_cached_tokens=9,
            ),
            Price(input=1, cached=0.1, audio_input=7),
            9 * 7,
        ),
        # Figures of a server that do not add up: no part is more than its whole.
        (
            Usage(
                input_tokens=5,
                cached_tokens=50,
                audio_input_tokens=500,
                audio_cached_tokens=5000,
                output_tokens=1,
                audio_output_tokens=10,
            ),
            SPEAKS,
            5 * 2 + 1 * 80,
        ),
        # All that a cache had is text, whatever else was heard.
        (
            Usage(input_tokens=10, cached_tokens=6, audio_input_tokens=4),
            SPEAKS,
            6 * 1 + 4 * 40,
        ),
        (Usage(audio_time=90), Price(minute=0.5), 0.75 * MILLION),
    ],
)
def test_audio_has_a_price_of_its_own(usage: Usage, price: Price, cost: float) -> None:
    purse, _ = costs(prices={"m": price})
    event = purse.charge(NpcId("Bob"), 1, attrs.evolve(usage, model="m"))
    assert event.cost == pytest.approx(cost / MILLION)
    for key in ("audio_input_tokens", "audio_output_tokens", "audio_cached_tokens"):
        assert getattr(event, key) == getattr(usage, key)
        assert getattr(purse.statistics().total, key) == getattr(usage, key)
    assert purse.statistics().total.audio_time == usage.audio_time


def test_a_response_costs_its_tokens_at_the_price_of_its_model() -> None:
    purse, _ = costs()
    assert purse.charge(NpcId("Bob"), 3, used(1000, 500)) == UsageReported(
        npc="Bob",
        turn=3,
        model="cheap",
        input_tokens=1000,
        output_tokens=500,
        cost=0.002,
    )
    assert purse.charge(NpcId("Bob"), 4, used(1000, 500, model="dear")).cost == 0.02


def test_input_that_a_cache_had_costs_less_where_that_has_a_price() -> None:
    purse, _ = costs()
    cached = used(MILLION, cached=MILLION // 2)
    assert purse.charge(NpcId("Bob"), 1, cached).cost == 1.0
    assert purse.charge(NpcId("Bob"), 1, attrs.evolve(cached, model="dear")).cost == 5.5
    # A server that counts more of it than there is.
    odd = used(MILLION, cached=3 * MILLION, model="dear")
    assert purse.charge(NpcId("Bob"), 1, odd).cost == 1.0


def test_what_has_no_price_is_counted_and_costs_nothing() -> None:
    purse, warnings = costs()
    event = purse.charge(NpcId("Bob"), 1, used(7, 5, model="mine"))
    assert event.cost is None
    now = purse.statistics()
    assert now.total == Spent(input_tokens=7, output_tokens=5)
    assert now.models == {"mine": now.total}
    assert warnings == []


def test_a_usage_that_names_no_model_is_that_of_whoever_was_asked() -> None:
    purse, _ = costs()
    event = purse.charge(NpcId("Bob"), 1, Usage(input_tokens=MILLION), model="cheap")
    assert (event.model, event.cost) == ("cheap", 1.0)
    assert (
        purse.charge(NpcId("Bob"), 1, used(1, model="dear"), model="x").model == "dear"
    )


def test_without_ceilings_nobody_is_turned_away() -> None:
    purse, warnings = costs()
    purse.charge(NpcId("Bob"), 1, used(MILLION * 1000))
    assert (purse.refusal(NpcId("Bob")), warnings) == ("", [])


def test_the_ceiling_of_one_npc_is_its_own() -> None:
    purse, warnings = costs(per_npc=1.5)
    purse.charge(NpcId("Bob"), 1, used(MILLION))
    assert purse.refusal(NpcId("Bob")) == ""
    purse.charge(NpcId("Bob"), 2, used(MILLION // 2))
    assert purse.refusal(NpcId("Bob")) == "Bob has cost 1.5, and cost.per_npc is 1.5"
    assert purse.refusal(NpcId("Ann")) == ""
    assert purse.statistics().turned_away == 1
    assert warnings == [
        "Bob has cost 1.5, and cost.per_npc is 1.5: turns are turned away"
    ]


def test_the_ceiling_of_all_is_for_everybody() -> None:
    purse, warnings = costs(total=2)
    purse.charge(NpcId("Bob"), 1, used(MILLION))
    assert not purse.exhausted(NpcId("Ann"))
    purse.charge(NpcId("Ann"), 1, used(MILLION))
    assert purse.refusal(NpcId("Joe")) == "models have cost 2, and cost.total is 2"
    assert purse.exhausted(NpcId("Bob"))
    assert len(warnings) == 1


def test_each_ceiling_is_warned_of_once_also_by_turns_that_were_under_way() -> None:
    purse, warnings = costs(per_npc=1, total=3)
    for _ in range(3):
        purse.charge(NpcId("Bob"), 1, used(MILLION))
    purse.charge(NpcId("Ann"), 1, used(MILLION))
    assert [text.partition(" has")[0] for text in warnings] == [
        "Bob",
        "models have cost 3, and cost.total is 3: turns are turned away",
        "Ann",
    ]


def test_a_model_without_a_price_under_a_ceiling_is_warned_of_once() -> None:
    purse, warnings = costs(total=1)
    for _ in range(3):
        purse.charge(NpcId("Bob"), 1, used(MILLION, model="mine"))
    assert warnings == ["cost.prices lacks 'mine': its tokens count towards no ceiling"]


def test_a_model_that_is_free_has_a_price() -> None:
    purse, warnings = costs(prices={"mine": Price()}, total=1)
    assert purse.charge(NpcId("Bob"), 1, used(MILLION, model="mine")).cost == 0
    assert warnings == []


def test_a_ceiling_that_is_raised_counts_at_once_and_may_be_reached_again() -> None:
    purse, warnings = costs(total=1)
    purse.charge(NpcId("Bob"), 1, used(MILLION))
    purse.adopt(CostConfig(prices={"cheap": Price(input=5.0)}, total=4))
    assert purse.refusal(NpcId("Bob")) == ""
    assert purse.charge(NpcId("Bob"), 2, used(MILLION)).cost == 5.0  # and what was, was
    assert purse.refusal(NpcId("Bob")) == "models have cost 6, and cost.total is 4"
    assert len(warnings) == 2


NPCS, MODELS = st.sampled_from(["Ann", "Bob"]), st.sampled_from([*PRICES, "mine"])
TOKENS = st.integers(0, 2 * MILLION)
CEILINGS = st.one_of(st.none(), st.integers(1, 60))


class Accounts(RuleBasedStateMachine):
    """Against a list of everything that was charged, added up anew each time."""

    def __init__(self) -> None:
        super().__init__()
        self.costs, self.warnings = costs()
        self.charged: list[tuple[str, Usage, float]] = []
        self.away = 0

    @rule(per_npc=CEILINGS, total=CEILINGS)
    def reload(self, per_npc: int | None, total: int | None) -> None:
        self.costs.adopt(CostConfig(prices=PRICES, per_npc=per_npc, total=total))

    @rule(npc=NPCS, model=MODELS, given=TOKENS, taken=TOKENS, share=st.integers(0, 2))
    def charge(self, npc: str, model: str, given: int, taken: int, share: int) -> None:
        usage = used(given, taken, model=model, cached=given * share // 2)
        event = self.costs.charge(NpcId(npc), 1, usage)
        if model == "mine":
            assert event.cost is None
        self.charged.append((npc, usage, event.cost or 0.0))

    @rule(npc=NPCS)
    def ask(self, npc: str) -> None:
        config = self.costs.config
        of_one = sum(cost for name, _, cost in self.charged if name == npc)
        of_all = sum(cost for _, _, cost in self.charged)
        full = (config.per_npc is not None and of_one >= config.per_npc) or (
            config.total is not None and of_all >= config.total
        )
        assert self.costs.exhausted(NpcId(npc)) is full
        assert bool(self.costs.refusal(NpcId(npc))) is full
        self.away += full

    @invariant()
    def it_adds_up(self) -> None:
        now = self.costs.statistics()
        assert now.turned_away == self.away
        for parts in (now.npcs, now.models):
            for field in attrs.fields(Spent):
                parts_sum = sum(getattr(part, field.name) for part in parts.values())
                assert parts_sum == pytest.approx(getattr(now.total, field.name))
        assert now.total.input_tokens == sum(u.input_tokens for _, u, _ in self.charged)


TestAccounts = Accounts.TestCase


# Turns.


async def hear(table: Table, text: str = "Hello?", **more: Any) -> TurnDone:
    return (await ask(table.npc, text, **more)).done


async def test_each_round_is_reported_to_the_listener_and_to_everybody(
    autojump_clock: MockClock,
) -> None:
    purse, _ = costs()
    replies: list[Reply] = [
        [call("look"), Finished(usage=used(100, 10))],
        ["A door.", Finished(usage=used(200, 20, model="dear"))],
    ]
    async with open_table(replies, Ran().tool("look", 0.1), costs=purse) as table:
        heard = await ask(table.npc)
        reports = heard.of(UsageReported)
        assert [(event.turn, event.model, event.input_tokens) for event in reports] == [
            (1, "cheap", 100),
            (1, "dear", 200),
        ]
        assert table.events.all(UsageReported) == reports
        cost = reports[0].cost + reports[1].cost
        assert cost == pytest.approx(0.00252)
        spent = Spent(input_tokens=300, output_tokens=30, cost=cost)
        assert purse.statistics().npcs == {"Bob": spent}


async def test_a_model_that_reports_nothing_is_not_charged(
    autojump_clock: MockClock,
) -> None:
    purse, _ = costs(total=1)
    async with open_table(answers(None), costs=purse) as table:
        assert (await ask(table.npc)).of(UsageReported) == []
    assert purse.statistics().npcs == {}


async def test_a_turn_that_crosses_the_ceiling_is_finished_and_the_next_turned_away(
    autojump_clock: MockClock,
) -> None:
    purse, warnings = costs(per_npc=1)
    script: list[Reply] = [
        [call("look"), Finished(usage=used(MILLION))],  # it is reached here already
        ["A door. ", 0.5, "And a key.", Finished(usage=used(MILLION))],
    ]
    async with open_table(script, Ran().tool("look", 0.1), costs=purse) as table:
        first = await hear(table)
        assert (first.end, first.text) == (TurnEnd.COMPLETED, "A door. And a key.")
        heard = await ask(table.npc, "And now?")
        done = heard.done
        assert (done.end, done.text, done.rounds) == (TurnEnd.SHED, "Hm?", 0)
        assert done.timings.total == 0.0
        assert done.error == "Bob has cost 2, and cost.per_npc is 1"
        assert heard.kinds()[:2] == ["Shed", "FellBack"]
        assert heard.only(Shed).reason == done.error
        assert heard.only(FellBack).reason is Fallback.COST_CEILING
        assert [event.text for event in heard.of(Sentence)] == ["Hm?"]
        assert len(table.llm.requests) == 2
        assert table.session.services.activity.running == 0
    assert len(warnings) == 1
    assert purse.statistics().turned_away == 1


async def test_the_machine_is_not_asked_about_a_turn_that_money_turns_away(
    autojump_clock: MockClock,
) -> None:
    @attrs.define
    class Doorkeeper:
        busy: bool = False
        asked: int = 0

        def refusal(self, running: int) -> str:
            self.asked += 1
            return ""

    purse, _ = costs(total=1)
    door = Doorkeeper()
    activity = Activity(door)
    script = answers(used(MILLION))
    async with open_table(script, costs=purse, activity=activity) as table:
        await hear(table)
        assert (await hear(table)).end is TurnEnd.SHED
    assert door.asked == 1


async def test_whoever_waits_behind_the_turn_that_crosses_it_is_turned_away_then(
    autojump_clock: MockClock,
) -> None:
    purse, _ = costs(total=1)
    async with open_table(answers(used(MILLION)), costs=purse) as table:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hear, table)
            heard = await ask(table.npc, "And me?", speaker="Ann", after=0.25)
        assert heard.done.end is TurnEnd.SHED
        assert heard.kinds()[0] == "Queued"
        assert trio.current_time() == 0.5


async def test_a_reload_that_raises_the_ceiling_lets_them_speak_again(
    autojump_clock: MockClock,
) -> None:
    purse, _ = costs(total=1)
    script = answers(used(MILLION), used(MILLION))
    async with open_table(script, costs=purse) as table:
        await hear(table)
        assert (await hear(table)).end is TurnEnd.SHED
        purse.adopt(CostConfig(prices=PRICES, total=3))
        assert (await hear(table)).end is TurnEnd.COMPLETED


async def test_an_answer_that_is_interrupted_tells_nobody_what_it_took(
    autojump_clock: MockClock,
) -> None:
    purse, _ = costs()
    script = answers(used(MILLION), used(MILLION))
    async with open_table(script, costs=purse) as table:
        await ask(table.npc, leave_at=0.25)
        assert (await ask(table.npc)).done.end is TurnEnd.COMPLETED
        assert purse.statistics().total.cost == 1.0
        (report,) = table.events.all(UsageReported)
        assert report.turn == 2


# What was begun on a partial transcript.

ON = SpeculationConfig(enabled=True, min_words=2, after=0.125, expires=4.0)


async def test_a_speculation_that_a_turn_adopts_is_charged_to_it_once(
    autojump_clock: MockClock,
) -> None:
    purse, _ = costs()
    async with open_table(answers(used(MILLION)), costs=purse, speculation=ON) as table:
        await table.npc.hearing("what is this")
        heard = await ask(table.npc, "What is this?", after=2.0)
        (done,) = table.events.all(SpeculationDone)
        assert done.end is SpeculationEnd.ADOPTED
        assert [event.turn for event in table.events.all(UsageReported)] == [1]
        assert [event.turn for event in heard.of(UsageReported)] == [1]
    assert purse.statistics().total.cost == 1.0


async def test_one_that_ended_for_nothing_is_paid_all_the_same(
    autojump_clock: MockClock,
) -> None:
    purse, _ = costs()
    script = answers(used(MILLION), used(MILLION))
    async with open_table(script, costs=purse, speculation=ON) as table:
        await table.npc.hearing("what is this")
        heard = await ask(table.npc, "No, wait.", after=2.0)
        assert [event.turn for event in table.events.all(UsageReported)] == [0, 1]
        assert [event.turn for event in heard.of(UsageReported)] == [1]
    assert purse.statistics().total.cost == 2.0


async def test_nothing_is_begun_ahead_for_a_turn_that_would_be_turned_away(
    autojump_clock: MockClock,
) -> None:
    purse, _ = costs(total=1)
    async with open_table(answers(used(MILLION)), costs=purse, speculation=ON) as table:
        await hear(table)
        await table.npc.hearing("what is this")
        await trio.sleep(2)
        assert len(table.llm.requests) == 1


async def test_a_failure_after_an_answer_does_not_take_its_report_back(
    autojump_clock: MockClock,
) -> None:
    purse, _ = costs()

    def script(request: LLMRequest) -> Reply:
        if request.messages[-1].role == "tool":
            return [LLMError(ErrorKind.OVERLOADED, "it is")]
        return [call("look"), Finished(usage=used(MILLION))]

    async with open_table(script, Ran().tool("look", 0.1), costs=purse) as table:
        heard = await ask(table.npc)
        assert heard.done.end is TurnEnd.FAILED
        assert len(heard.of(UsageReported)) == 1


# A model that speaks for itself.


async def test_what_a_speech_to_speech_model_takes_is_charged_like_any_other(
    autojump_clock: MockClock,
) -> None:
    def answer(link: ScriptedLink, command: Command) -> None:
        if isinstance(command, Respond):
            name = "dear" if links.charged else ""  # else it is that of the provider
            links.charged = True
            usage = Usage(output_tokens=MILLION, model=name)
            link.push(ResponseStarted("r"), Spoken("r", "i", "Well."))
            end = ResponseEnd.COMPLETED
            link.push(ResponseEnded(response="r", end=end, usage=usage))

    @attrs.define(eq=False)
    class Charging(Links):
        charged: bool = False

    links = Charging(ASKS, on_send=answer)
    purse, _ = costs(prices={**PRICES, "scripted": Price(output=0.5)}, per_npc=20)
    bob = NpcConfig(name="Bob", engine=Engine.S2S, fallback=("Hm?",))
    async with open_table([], npc=bob, live=live(links), costs=purse) as table:
        first = await ask(table.npc)
        assert (first.only(UsageReported).model, first.done.text) == (
            "scripted",
            "Well.",
        )
        second = await ask(table.npc)
        assert second.only(UsageReported).cost == 20.0
        third = await ask(table.npc)
        assert third.done.end is TurnEnd.SHED
        assert third.only(FellBack).reason is Fallback.COST_CEILING
        assert len(links.last.all(Respond)) == 2
    assert purse.statistics().models["scripted"].cost == 0.5
