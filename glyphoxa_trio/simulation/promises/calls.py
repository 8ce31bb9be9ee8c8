"""The turns, rounds and calls that a monitor has seen, as plain records. Seconds."""

from __future__ import annotations

from enum import StrEnum

import attrs

from glyphoxa_trio.npc import (
    ApprovalNeeded,
    ApprovalSettled,
    FanOutDone,
    TierSelected,
    ToolsShown,
    TurnDone,
)
from glyphoxa_trio.tools.arguments import InvalidArguments, canonical, load
from glyphoxa_trio.tools.definition import OnInterrupt, ToolDefinition
from glyphoxa_trio.tools.outcome import Outcome, Status, ToolCall


class Promise(StrEnum):
    """A promise of the runtime, in the words that a report of its breach uses."""

    ON_TIME = "no fan-out returns after its ceiling"
    BUDGET = "the tool time of a turn never exceeds its tier"
    TIER = "a turn's tier is the least of ceiling and selection"
    ONE_OUTCOME = "one outcome for each call, in call order, told once"
    RIGHTS = "nothing is shown or run beyond tier, grant, trust and availability"
    REASONS = "whatever is hidden is hidden for a reason, and the reason is true"
    OWN_SERVERS = "a turn ends on the servers with which it began"
    FRESH = "a cached answer is valid, and for the one who asked"
    SHARED = "the same question is asked once at a time, if its answer may be kept"
    KEPT = "what finished in time is never dropped"
    STOPPED = "a call that is cut is cancelled where it runs"
    ONCE = "a call with side effects runs at most once"
    IN_ORDER = "calls with side effects on one group run in call order"
    LIMITS = "limits are kept, and named truly"
    EFFECTS = "effects are told as they are"
    MODEL = "a model is not waited for beyond its limits"
    FILLER = "at most one filler is said in a fan-out, while calls of it run"
    FLUSH = "an interruption stops what was given out, once, and for good"
    WHOLE = "what a model is told is a whole conversation"
    ENDS = "every utterance ends, and every turn in one TurnDone"
    NOTHING_LEFT = "when the runtime closes nothing is left"
    ASKED = "no tool is called unasked that is not granted and approved"
    TRIALS = "at most two calls at once of a tool of which nothing is known"
    SHOWN_AGAIN = "a tool that is well is shown again within five minutes of talk"


@attrs.frozen
class BrokenPromise:
    """A promise that was not kept: where, when (seconds of the clock), and how."""

    promise: Promise
    where: str
    at: float
    text: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.text} ({self.where}, at {self.at:g} s)"


@attrs.define(eq=False)
class CallSeen:
    """One call that passed the gate, from there to its outcome.

    ``arguments`` are canonical; "" if they are none. ``late`` is its end after an
    interruption that it survived. The checkers beside this file set what they learn.
    """

    npc: str
    call: ToolCall
    tool: str
    began: float
    definition: ToolDefinition | None
    slot: int
    arguments: str = attrs.field(init=False)
    on_trial: bool = False  # nothing was known of its tool's latency
    ahead: bool = False  # it may have been begun before it was asked for
    started_as: int = 0  # of all events; times alone do not tell what came first
    ended_as: int = 0
    ended: float | None = None
    outcome: Outcome | None = None
    interrupted: bool = False
    tie: bool = False  # interrupted in the moment in which its turn's time was up
    late: tuple[float, Outcome] | None = None

    def __attrs_post_init__(self) -> None:
        try:
            self.arguments = canonical(load(self.call.arguments))
        except InvalidArguments:
            self.arguments = ""

    def ends(self, outcome: Outcome, at: float, *, ended_as: int, tie: bool) -> None:
        self.ended, self.outcome, self.ended_as = at, outcome, ended_as
        self.interrupted = outcome.status is Status.CANCELLED
        self.tie = tie

    @property
    def writes(self) -> bool:
        return self.definition is not None and not self.definition.read_only

    @property
    def pending(self) -> bool:
        """True if its outcome says that it continues after its turn's time was up."""
        return self.outcome is not None and self.outcome.status is Status.PENDING

    @property
    def goes_on(self) -> bool:
        """True if it continues after its turn or, by its policy, when interrupted."""
        if self.pending:
            return True
        if not self.interrupted or self.definition is None:
            return False
        policy = self.definition.on_interrupt
        if policy is None:
            return not self.definition.read_only
        return policy is not OnInterrupt.CANCEL

    @property
    def over(self) -> float | None:
        """When the last of it was heard."""
        return self.ended if self.late is None else self.late[0]


@attrs.define(eq=False)
class RoundSeen:
    """One response of the model within a turn, and what became of its calls.

    ``said`` are its calls, if the model was listened to. ``began`` is when its fan-out
    began, as far as is known by now; `CallJudge` sets it.
    """

    index: int
    shown: ToolsShown | None = None
    held_back: frozenset[str] = frozenset()
    said: tuple[ToolCall, ...] | None = None
    began: float | None = None  # the fan-out
    calls: list[CallSeen] = attrs.field(factory=list)
    ends: list[tuple[float, Outcome]] = attrs.field(factory=list)
    fan_out: tuple[float, FanOutDone] | None = None
    fillers: int = 0

    def slot_of(self, call: ToolCall, taken: set[int]) -> int:
        """Return the call's index in the response, or that of the first equal call."""
        said = self.said or ()
        for slot, one in enumerate(said):
            if one is call:
                return slot
        for slot, one in enumerate(said):
            if one == call and slot not in taken:
                return slot
        return len(taken)


@attrs.define(eq=False)
class TurnRecord:
    """One turn, as its events told it."""

    npc: str
    number: int
    selected: TierSelected | None = None
    began: float = 0.0
    rounds: dict[int, RoundSeen] = attrs.field(factory=dict)
    asked: dict[str, tuple[float, ApprovalNeeded]] = attrs.field(factory=dict)
    settled: dict[str, tuple[float, ApprovalSettled]] = attrs.field(factory=dict)
    done: list[tuple[float, TurnDone]] = attrs.field(factory=list)
    gave_out: bool = False
    flushed: float | None = None

    @property
    def where(self) -> str:
        return f"{self.npc}, turn {self.number}"

    def round(self, index: int) -> RoundSeen:
        return self.rounds.setdefault(index, RoundSeen(index))

    def waited(self, done: TurnDone) -> float:
        """The tool time that passed before the first round, for servers that start."""
        first = self.rounds.get(0)
        if self.selected is None or first is None or first.shown is None:
            return 0.0 if self.rounds else done.timings.tools
        return self.selected.budget - first.shown.remaining

    def spent(self, before: int) -> float:
        """The time that earlier rounds cost, on the monitor's clock."""
        return sum(
            done.fan_out[0] - done.began
            for index, done in self.rounds.items()
            if index < before and done.fan_out is not None and done.began is not None
        )
