"""What is promised of a runtime, watched from outside while it runs.

    monitor = Monitor(config, scenery)
    async with open_runtime(config, world=monitor.world(), llm=...) as runtime:
        with monitor.watching(runtime):
            ...
    monitor.closed(runtime)
    assert monitor.broken == []

It hears every event in the moment it is published, knows what was granted because
whoever changes that tells it too, and has the journal of what really ran. It asks
nothing of the rooms that it judges: each rule is said once more, in the plainest
way, in the files beside this one (`gate`, `turn`,
`journal`, with `rights` for who may do what).

Without a scenery, as on real time, what ran is not judged. Above 300 lines, because
whatever is told and heard of a runtime comes together here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import attrs

import trio

from glyphoxa_trio.config import Config
from glyphoxa_trio.host import Listing
from glyphoxa_trio.mcp import ServerState
from glyphoxa_trio.npc import (
    ApprovalNeeded,
    ApprovalSettled,
    FanOutDone,
    Filler,
    Flush,
    LateResult,
    Queued,
    SpeculationDone,
    TierSelected,
    ToolFinished,
    ToolsShown,
    ToolStarted,
    TurnDone,
    TurnEnd,
    TurnEvent,
)
from glyphoxa_trio.npc.events import GIVEN_OUT
from glyphoxa_trio.providers.llm import Message
from glyphoxa_trio.runtime import Runtime, World
from glyphoxa_trio.simulation.promises.calls import (
    Broken,
    CallSeen,
    Promise,
    RoundSeen,
    TurnSeen,
)
from glyphoxa_trio.simulation.promises.gate import Doorkeeper
from glyphoxa_trio.simulation.promises.journal import Journal, stale, still_running
from glyphoxa_trio.simulation.promises.liveness import Watch, Well
from glyphoxa_trio.simulation.promises.rights import Ledger
from glyphoxa_trio.simulation.promises.scenery import Performance, Scenery
from glyphoxa_trio.simulation.promises.turn import judged, judged_late
from glyphoxa_trio.tools.definition import Tool, ToolDefinition
from glyphoxa_trio.tools.outcome import Limit, Status, ToolCall
from glyphoxa_trio.tools.tier import Tier

__all__ = ["Broken", "Monitor", "Promise"]

# Floats are exact on virtual time, but sums of them are not quite.
EXACT: Final = 1e-6
# What a whole runtime may take to close (T8), seconds.
CLOSING: Final = 2.0
_MOST: Final = 100


@attrs.define(eq=False)
class Monitor:
    """Watches one runtime. What it found is in ``broken``, the first hundred.

    Args:
      config: what the runtime is opened with.
      scenery: what plays its servers and tools; None if they are real.
      asked: an approver, or whoever reads `ApprovalNeeded`, is there.
      slack: how much later than a limit is in time, seconds.
      keep: put every event, with its time, into ``events``, and the tools of each
        showing into ``listings``, by exposed name.
      remembered: what earlier runs measured of calls that went well, newest last, by
        the tool's origin and key.
      well: by key, since when a tool answers every call, and within how many seconds;
        None if it does not, or if that is not known.
    """

    config: Config
    scenery: Scenery | None = None
    asked: bool = False
    slack: float = EXACT
    keep: bool = False
    remembered: Mapping[tuple[str, str], tuple[float, ...]] = attrs.field(factory=dict)
    well: Callable[[str], Well | None] = lambda key: None
    events: list[tuple[float, TurnEvent]] = attrs.field(factory=list, init=False)
    listings: dict[str, Listing] = attrs.field(factory=dict, init=False)
    broken: list[Broken] = attrs.field(factory=list, init=False)
    ledger: Ledger = attrs.field(init=False)
    turns_done: int = attrs.field(default=0, init=False)
    worst: dict[tuple[str, Tier], TurnDone] = attrs.field(factory=dict, init=False)
    _runtime: Runtime = attrs.field(init=False)
    _door: Doorkeeper = attrs.field(init=False)
    _turns: dict[tuple[str, int], TurnSeen] = attrs.field(factory=dict, init=False)
    _calls: list[CallSeen] = attrs.field(factory=list, init=False)
    _going_on: list[CallSeen] = attrs.field(factory=list, init=False)
    _first: dict[str, ToolDefinition] = attrs.field(factory=dict, init=False)
    _definitions: dict[str, list[ToolDefinition]] = attrs.field(
        factory=dict, init=False
    )
    _said: dict[tuple[str, str], dict[int, tuple[ToolCall, ...]]] = attrs.field(
        factory=dict, init=False
    )
    _words: dict[tuple[str, str], Tier | None] = attrs.field(factory=dict, init=False)
    _moments: set[float] = attrs.field(factory=set, init=False)
    _runs: dict[str, list[Performance]] = attrs.field(factory=dict, init=False)
    _heard: int = attrs.field(default=0, init=False)
    _closing: float = attrs.field(default=math.inf, init=False)
    _read: int = attrs.field(default=0, init=False)
    _stirred: float = attrs.field(default=0.0, init=False)
    _told_first: list[tuple[float, LateResult]] = attrs.field(factory=list, init=False)
    _exposed: dict[str, str] = attrs.field(factory=dict, init=False)
    _hidden: set[str] = attrs.field(factory=set, init=False)

    def __attrs_post_init__(self) -> None:
        self.ledger = Ledger(self.asked)

    # What it is told by whoever plays.

    def world(self) -> World:
        """The scenery's world, with an eye on every tool that is published."""
        world = World() if self.scenery is None else self.scenery.world()
        played = world.stand_in

        def stand_in(tool: Tool) -> Tool:
            self._first.setdefault(tool.key, tool.definition)
            self._definitions.setdefault(tool.key, []).append(tool.definition)
            return tool if played is None else played(tool)

        return attrs.evolve(world, stand_in=stand_in)

    def says(self, npc: str, text: str, override: Tier | None) -> None:
        """Somebody says this, in words that nobody else says to that NPC."""
        self._words[npc, text] = override

    def answered(
        self, npc: str, text: str, round_: int, calls: Sequence[ToolCall]
    ) -> None:
        """The model has ended its response in that round of the answer to it."""
        self._said.setdefault((npc, text), {})[round_] = tuple(calls)

    def asked_of_model(self, npc: str, messages: Sequence[Message]) -> None:
        for fault in conversation_faults(messages):
            self._no(Promise.WHOLE, npc, fault)

    def disturbed(self) -> None:
        """Somebody does something to a server or an NPC in this moment."""
        self._moments.add(trio.current_time())

    def closes(self) -> None:
        """The runtime's block is left in this moment."""
        self.disturbed()
        self._closing = trio.current_time()

    def reloads(self, config: Config) -> None:
        self.disturbed()
        self._door.steady = False
        self.ledger.accepted(trio.current_time(), config)

    def stirred(self, *, until: float | None = None) -> None:
        """Something is done to servers or tools: how well they were before does not
        count. ``until`` is when that is over, by default now."""
        self._stirred = trio.current_time() if until is None else until

    def elevates(self, npc: str, tier: Tier, seconds: float) -> None:
        now = trio.current_time()
        self.ledger.elevated(npc, now, now + seconds, tier)

    def tools_change(self) -> None:
        """A server offers something else from now on."""
        self.disturbed()
        self._door.steady = False

    # What it hears.

    @contextmanager
    def watching(self, runtime: Runtime) -> Generator[None]:
        """Judge what happens inside the block."""
        self._runtime = runtime
        self.ledger.accepted(trio.current_time(), runtime.config)
        self._door = Doorkeeper(
            ledger=self.ledger,
            limits=runtime.host.settings.limits,
            slack=self.slack,
            report=self._report,
            snapshot=lambda: runtime.host.snapshot,
            failed=self._failed,
            first=self._first,
            runs=None if self.scenery is None else self._runs,
            lives=self._lives,
            remembered=self.remembered,
            watch=Watch(
                limits=runtime.host.settings.limits,
                report=self._report,
                well=self._well_now,
            ),
        )
        with runtime.events.tap(self._hear):
            yield
            self.ended()

    @property
    def _probed(self) -> bool:
        """Whether tools may be called to measure them."""
        return any(config.calibration.at_start for config in self.ledger.configs)

    @property
    def _ahead(self) -> bool:
        """Whether tools may be called that nobody asked for, to save time (D12)."""
        return any(
            config.speculation.enabled or config.hedging.enabled
            for config in self.ledger.configs
        )

    def _told_how_long(self, round_: RoundSeen, at: float, took: float) -> None:
        """A fan-out has ended. Its first calls may all have waited for a seat, of which
        there is no event: then only the runtime knows when it began."""
        keys = {end.tool for _, end in round_.ends}
        if round_.began is not None and any(map(self._may_be_tried, keys)):
            round_.began = min(round_.began, at - took)

    def _may_be_tried(self, key: str | None) -> bool:
        """Whether calls of the tool may have waited for a seat: nobody has said how
        long it takes, or it was hidden and is on its way back."""
        listing = self._runtime.host.snapshot.by_key.get(key or "")
        return listing is not None and (
            listing.definition.estimated_duration is None
            or listing.exposed in self._hidden
        )

    def _note_names(self) -> None:
        for listing in self._runtime.host.snapshot.listings:
            self._exposed[listing.key] = listing.exposed

    def _lives(self, server: str) -> Sequence[float]:
        return () if self.scenery is None else self.scenery.server(server).lives

    def _well_now(self, key: str) -> Well | None:
        well = self.well(key)
        if well is None or trio.current_time() < self._stirred:
            return None
        return attrs.evolve(well, since=max(well.since, self._stirred))

    def _failed(self) -> set[str]:
        return {
            row.name
            for row in self._runtime.servers()
            if row.state in (ServerState.FAILED, ServerState.STOPPED)
        }

    def _hear(self, event: TurnEvent) -> None:
        at = trio.current_time()
        self._read_journal()
        self._heard += 1
        if self.keep:
            self.events.append((at, event))
            self.listings.update(self._runtime.host.snapshot.by_exposed)
        place = (event.npc, event.turn)
        if isinstance(event, SpeculationDone):
            return  # of a turn that may never be
        if isinstance(event, LateResult):
            self._late(event, at)
            return
        turn = self._turns.get(place)
        if turn is None:
            turn = self._turns[place] = TurnSeen(event.npc, event.turn)
        if turn.flushed is not None and not isinstance(event, TurnDone):
            said = f"{type(event).__name__} follows its flush"
            self._no(Promise.FLUSH, turn.where, said)
        turn.gave_out |= isinstance(event, GIVEN_OUT)
        match event:
            case Queued():
                pass
            case Flush():
                turn.flushed = at
            case Filler():
                self._filled(turn, event)
            case TierSelected():
                self._selected(turn, event, at)
            case ToolsShown():
                round_ = turn.round(event.round)
                round_.shown = event
                self._note_names()
                self._hidden.update(name for name, _ in event.hidden)
                self._door.shown(turn, event, at)
            case ApprovalNeeded():
                turn.asked[event.question] = (at, event)
            case ApprovalSettled():
                if event.question in turn.settled:
                    self._no(Promise.ENDS, turn.where, "a question is settled twice")
                turn.settled[event.question] = (at, event)
            case ToolStarted():
                self._started(turn, event, at)
            case ToolFinished():
                self._finished(turn, event, at)
            case FanOutDone():
                round_ = turn.round(event.round)
                round_.fan_out = (at, event)
                self._told_how_long(round_, at, event.elapsed)
            case TurnDone():
                self._done(turn, event, at)

    def _selected(self, turn: TurnSeen, event: TierSelected, at: float) -> None:
        if turn.selected is not None:
            self._no(Promise.ENDS, turn.where, "it begins twice")
        turn.selected, turn.began = event, at
        if event.tier is not min(event.ceiling, event.selected):
            self._no(Promise.TIER, turn.where, f"it is {event.tier}")
        ceilings = self.ledger.ceilings(turn.npc, at)
        if ceilings and event.ceiling not in ceilings:
            self._no(Promise.TIER, turn.where, f"its ceiling is {event.ceiling}")
        override = self._words.get((turn.npc, event.text))
        if override is not None and event.selected is not override:
            self._no(Promise.TIER, turn.where, f"{override} was chosen for it")

    def _started(self, turn: TurnSeen, event: ToolStarted, at: float) -> None:
        round_ = turn.round(event.round)
        self._listen(turn, event.round)
        if round_.began is None:
            round_.began = at
        listing = self._runtime.host.snapshot.by_key.get(event.tool)
        call = CallSeen(
            turn.npc,
            event.call,
            event.tool,
            at,
            None if listing is None else listing.definition,
            round_.slot_of(event.call, {x.slot for x in round_.calls}),
        )
        call.started_as = self._heard
        if (known := call.definition) is not None:
            call.ahead = self._ahead and known.read_only
        round_.calls.append(call)
        self._calls.append(call)
        self._door.started(turn, round_, call, event)
        if any(
            x.pending
            and x.late is None
            and (x.npc, x.tool, x.arguments) == (call.npc, call.tool, call.arguments)
            for x in self._going_on
        ):
            text = f"{call.tool} was called again while it was still working"
            self._no(Promise.ONCE, turn.where, text)
        self._door.seen(event.tool).flying += 1

    def _finished(self, turn: TurnSeen, event: ToolFinished, at: float) -> None:
        round_ = turn.round(event.round)
        self._listen(turn, event.round)
        end = event.outcome
        if round_.began is None:
            round_.began = at
            if end.status is Status.SKIPPED and end.limit is Limit.TURN:
                # It waited for a seat all this time, and no other call began.
                budget = 0.0 if turn.selected is None else turn.selected.budget
                round_.began = at - (budget - turn.spent(event.round))
        round_.ends.append((at, end))
        if end.cached and end.tool is not None and not self._ahead:
            listing = self._runtime.host.snapshot.by_key.get(end.tool)
            definition = None if listing is None else listing.definition
            hit = CallSeen(turn.npc, end.call, end.tool, at, definition, 0)
            if why := stale(hit, self._calls):
                self._no(Promise.FRESH, turn.where, f"{end.tool}: {why}")
        waiting = [x for x in round_.calls if x.outcome is None and x.call == end.call]
        mine = [x for x in waiting if x.call is end.call]
        if not mine and not any(x is end.call for x in round_.said or ()):
            mine = waiting  # of its like, where calls are only told of
        if mine:
            call = mine[0]
            call.ended, call.outcome, call.ended_as = at, end, self._heard
            call.interrupted = end.status is Status.CANCELLED
            if turn.selected is not None and round_.began is not None:
                left = turn.selected.budget - turn.spent(event.round)
                call.tie = abs(at - round_.began - left) <= self.slack
            seen = self._door.seen(call.tool)
            seen.ended.append(call)
            if not call.goes_on:
                seen.flying -= 1
                return
            self._going_on.append(call)
            # Its late result may come before this event, if both are in one moment: it
            # reached its own limit when the turn was interrupted.
            for when, late in tuple(self._told_first):
                if when == at and late.outcome.call == call.call:
                    self._told_first.remove((when, late))
                    self._late(late, at)
                    return

    def _filled(self, turn: TurnSeen, event: Filler) -> None:
        round_ = turn.round(event.round)
        round_.fillers += 1
        if round_.fillers > 1:
            self._no(Promise.FILLER, turn.where, "it is the second one")
        self._listen(turn, event.round)
        if round_.fan_out is not None or (
            round_.said is not None and len(round_.ends) >= len(round_.said)
        ):
            self._no(Promise.FILLER, turn.where, "nothing is waited for any more")

    def _late(self, event: LateResult, at: float) -> None:
        for call in self._going_on:
            if call.call == event.outcome.call:
                self._going_on.remove(call)
                call.late = (at, event.outcome)
                if text := judged_late(call, at, event.outcome, self.slack):
                    where = f"{event.npc}, turn {event.turn}"
                    self._no(Promise.LIMITS, where, f"{call.tool} {text}")
                seen = self._door.seen(call.tool)
                seen.flying -= 1
                seen.ended.append(call)
                return
        self._told_first.append((at, event))

    def _done(self, turn: TurnSeen, event: TurnDone, at: float) -> None:
        turn.done.append((at, event))
        if event.end is TurnEnd.INTERRUPTED:
            self._moments.add(at)
        if len(turn.done) > 1:
            self._no(Promise.ENDS, turn.where, "it ends twice")
            return
        self.turns_done += 1
        if event.tier is not None and turn.selected is not None:
            place = (turn.npc, turn.selected.tier)
            worst = self.worst.get(place)
            if worst is None or event.timings.tools > worst.timings.tools:
                self.worst[place] = event
        for index in turn.rounds:
            self._listen(turn, index)
        last = max(turn.rounds, default=None)
        if last is not None and (round_ := turn.rounds[last]).fan_out is None:
            took = event.timings.tools - turn.spent(last)  # it was interrupted
            self._told_how_long(round_, at, took)
        began = turn.began
        limits = [config.turn for config in self.ledger.in_force(began)]
        for fault in judged(
            turn, self._door.limits, limits or [self.config.turn], self.slack
        ):
            self._report(fault)
        turn.rounds.clear()

    def _listen(self, turn: TurnSeen, index: int) -> None:
        """What the model said in that round, if it told."""
        if turn.selected is not None:
            said = self._said.get((turn.npc, turn.selected.text), {})
            turn.round(index).said = said.get(index)

    def _read_journal(self) -> None:
        if self.scenery is None:
            return
        for run in self.scenery.journal[self._read :]:
            self._runs.setdefault(run.key, []).append(run)
        self._read = len(self.scenery.journal)

    # The end.

    def ended(self) -> None:
        """Nobody says anything any more, and there was time for all of it to end."""
        self._read_journal()
        self._note_names()
        for turn in self._turns.values():
            if not turn.done:
                self._no(Promise.ENDS, turn.where, "it has no end")

    def quiet(self, runtime: Runtime) -> None:
        """All that was said is answered, and every limit is long over."""
        flights = runtime.host.statistics().flights
        if flights.flying:
            self._no(Promise.NOTHING_LEFT, "host", f"{flights.flying} still fly")
        if runtime.turns_running:
            self._no(Promise.ENDS, "runtime", f"{runtime.turns_running} turns run")
        for _, event in self._told_first:
            where = f"{event.npc}, turn {event.turn}"
            self._no(Promise.ONE_OUTCOME, where, "a late result without a call")
        for call in self._going_on:
            if not call.tie:
                text = "it went on and was not heard of again"
                self._no(Promise.ENDS, call.tool, text)
        self._going_on.clear()

    def closed(self, runtime: Runtime, *, took: float = 0.0) -> None:
        """The runtime's block was left, which took so many seconds."""
        if took > CLOSING + self.slack:
            self._no(Promise.NOTHING_LEFT, "runtime", f"closing took {took:g} s")
        flights = runtime.host.statistics().flights
        if flights.flying or flights.lingering:
            self._no(Promise.NOTHING_LEFT, "host", f"{flights.flying} calls still fly")
        if runtime.turns_running:
            self._no(Promise.NOTHING_LEFT, "runtime", "a turn still runs")
        if self.scenery is None:
            return
        self._read_journal()
        if running := still_running(self.scenery.journal):
            self._no(Promise.NOTHING_LEFT, "servers", f"{', '.join(running)} still run")
        journal = Journal(
            calls=self._calls,
            runs=self.scenery.journal,
            definitions=self._definitions,
            probed=self._probed,
            ledger=self.ledger,
            exposed=self._exposed,
            remembered=frozenset(key for _, key in self.remembered),
            moments=self._moments,
            steady=self._door.steady and not self._ahead,
            ahead=self._ahead,
            closing=self._closing,
            slack=self.slack,
        )
        for fault in journal.broken():
            self._report(fault)

    def fail(self, promise: Promise, where: str, text: str) -> None:
        """Something else that was promised and not kept."""
        self._no(promise, where, text)

    def _no(self, promise: Promise, where: str, text: str) -> None:
        self._report(Broken(promise, where, trio.current_time(), text))

    def _report(self, fault: Broken) -> None:
        if len(self.broken) < _MOST:
            self.broken.append(fault)


def conversation_faults(messages: Sequence[Message]) -> list[str]:
    """What a strict model server would refuse in a conversation."""
    faults: list[str] = []
    owed: list[str] = []
    for at, message in enumerate(messages):
        if owed:
            if message.role != "tool" or message.call_id != owed.pop(0):
                faults.append(f"message {at}: calls are not answered in their order")
                owed = []
        elif message.role == "tool":
            faults.append(f"message {at}: an answer to nothing")
        if message.role == "assistant":
            owed = [call.id for call in message.calls]
            if not message.calls and not message.content:
                faults.append(f"message {at}: somebody says nothing")
    return [*faults, *(["calls are left without an answer"] if owed else [])]
