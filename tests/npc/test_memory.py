"""The memory of an NPC from turn to turn, against the simplest model of it."""

from __future__ import annotations

import attrs
from cattrs.preconf.json import make_converter
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
)

from glyphoxa_trio.config import NpcConfig, TurnConfig
from glyphoxa_trio.npc.conversation import Exchange
from glyphoxa_trio.npc.snapshot import NpcSnapshot
from glyphoxa_trio.npc.turn.memory import NpcMemory
from glyphoxa_trio.npc.turn.settings import SessionSettings
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.outcome import Outcome, Status, ToolCall
from glyphoxa_trio.tools.tier import Tier

CONVERTER = make_converter()
NPC = NpcConfig(
    name="Bob", personality="Calls {caller_name}.", greeting="Hail, {caller_name}!"
)
SETTINGS = SessionSettings(
    npc=NPC,
    grant=Grant(npc="Bob"),
    turn=TurnConfig(history=3),
    template_defaults={"caller_name": "you"},
)


def prompt_of(memory: NpcMemory) -> str:
    return memory.conversation.prompt_text


def said_in(memory: NpcMemory) -> list[str]:
    told = memory.conversation.prompt(Exchange("Ann", "now"))
    return [m.content for m in told if m.role == "user"][:-1]


def outcome(number: int) -> Outcome:
    call = ToolCall(id=f"c{number}", name="write", arguments="{}")
    return Outcome(call=call, status=Status.OK, message="done", tool="log.write")


def test_a_greeting_stands_before_everything_until_it_is_said() -> None:
    memory = NpcMemory(SETTINGS)
    assert [m.content for m in memory.conversation.opening[1:]] == ["Hail, you!"]
    assert memory.greet() == "Hail, you!"
    assert memory.catch_up()
    assert memory.conversation.opening[1:] == ()


def test_what_is_told_of_the_scene_counts_until_a_reload_says_otherwise() -> None:
    memory = NpcMemory(attrs.evolve(SETTINGS, scene=("An inn.",)))
    memory.set_scene(("It burns.",))
    for settings, wanted in (
        (attrs.evolve(memory.settings, overheard=3), "- It burns."),
        (attrs.evolve(memory.settings, scene=("A ruin.",)), "- A ruin."),
    ):
        memory.go_over_to(settings)
        assert memory.catch_up()
        assert prompt_of(memory).endswith(wanted)


class MemoryMachine(RuleBasedStateMachine):
    """The model: lists, and settings that count from the moment of `catch_up`."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = NpcMemory(SETTINGS)
        self.settings = self.coming = SETTINGS
        self.past: list[str] = []
        self.beside: list[str] = []
        self.late: list[ToolCall] = []
        self.told: list[ToolCall] = []  # in a turn that runs
        self.pending: list[ToolCall] = []
        self.caller, self.next_caller = "you", "you"
        self.raised: tuple[Tier, int] = (Tier.FAST, 0)
        self.now = self.numbers = self.lines = 0

    @rule()
    def a_turn_is_counted(self) -> None:
        self.numbers += 1
        assert self.memory.number() == self.numbers

    @rule(beside=st.booleans())
    def a_turn_ends(self, beside: bool) -> None:
        text = f"said {len(self.past)}.{len(self.beside)}.{self.now}"
        self.memory.add(Exchange("Ann", text), beside=beside)
        if beside:
            self.beside = [*self.beside, text][-self.settings.turn.history :]
        else:
            self.past += [text, *self.beside]
            self.beside, self.told = [], []

    @rule(told=st.booleans())
    def a_call_goes_on(self, told: bool) -> None:
        made = outcome(len(self.late) + len(self.pending) * 100 + self.now * 10_000)
        key = ("log.write", made.call.id)
        self.memory.pending[key] = made.call
        self.pending.append(made.call)
        if told:
            self.memory.late.append(made)
            self.late.append(made.call)

    @rule()
    def a_turn_tells(self) -> None:
        exchange = Exchange("Ann", "Well?")
        self.memory.tell(exchange, settles=True)
        assert [x.call for x in exchange.late] == self.late
        self.told = self.late
        self.pending = [x for x in self.pending if x not in self.late]
        self.late = []

    @rule(tier=st.sampled_from(Tier), seconds=st.integers(0, 5))
    def elevate(self, tier: Tier, seconds: int) -> None:
        self.memory.elevate(tier, until=self.now + seconds)
        self.raised = tier, self.now + seconds

    @rule()
    def time_passes(self) -> None:
        self.now += 1

    @rule(
        history=st.integers(1, 4), tier=st.sampled_from(Tier), lines=st.integers(1, 3)
    )
    def a_reload_comes(self, history: int, tier: Tier, lines: int) -> None:
        fallback = tuple(f"line {n}" for n in range(lines))
        npc = attrs.evolve(NPC, budget_tier=tier, fallback=fallback)
        self.coming = attrs.evolve(SETTINGS, npc=npc, turn=TurnConfig(history=history))
        self.memory.go_over_to(self.coming)

    @rule(name=st.sampled_from(["Ann", "Bo"]))
    def introduce(self, name: str) -> None:
        self.memory.set_variables({"caller_name": name})
        self.next_caller = name

    @rule()
    def between_turns(self) -> None:
        changed = self.coming is not self.settings or self.next_caller != self.caller
        assert self.memory.catch_up() >= changed
        self.settings, self.caller = self.coming, self.next_caller
        assert not self.memory.catch_up()

    @precondition(lambda self: not self.beside and self.coming is self.settings)
    @rule()
    def it_is_set_aside(self) -> None:
        """Another object goes on with it. Of calls that go on nobody knows more."""
        kept = self.memory.snapshot()
        said = CONVERTER.dumps(kept).encode()
        assert CONVERTER.loads(said, NpcSnapshot) == kept
        self.memory = NpcMemory(self.settings)
        self.memory.restore(kept)
        self.caller = self.next_caller
        self.pending = []
        self.late, self.told = [*self.told, *self.late], []

    @precondition(lambda self: self.settings.npc.fallback)
    @rule()
    def nothing_to_say(self) -> None:
        lines = self.settings.npc.fallback
        assert self.memory.fallback() == lines[self.lines % len(lines)]
        self.lines += 1

    @invariant()
    def it_is_as_the_model_says(self) -> None:
        memory, limit = self.memory, self.settings.turn.history
        assert memory.settings is self.settings
        self.past = self.past[-limit:]
        assert said_in(memory) == self.past
        assert [x.text for x in memory._superseded] == self.beside
        assert prompt_of(memory).count(f"Calls {self.caller}.") == 1
        assert list(memory.pending.values()) == self.pending
        tier, until = self.raised
        own = self.settings.npc.budget_tier
        wanted = max(own, tier) if self.now < until else own
        assert memory.ceiling(self.settings, self.now) is wanted


TestMemory = MemoryMachine.TestCase
