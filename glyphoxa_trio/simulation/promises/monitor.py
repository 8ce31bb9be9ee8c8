"""The monitor of a runtime's promises, which watches it from outside.

    monitor = Monitor(config, scenery)
    environment = monitor.environment()
    async with open_runtime(config, environment=environment, llm=...) as runtime:
        with monitor.watching(runtime):
            ...
    monitor.closed(runtime)
    assert monitor.broken == []

It hears every event in the moment it is published, knows what was granted because
the code that changes it tells the monitor too, and has the journal of what really ran.
It asks nothing of the rooms that it judges: each rule is written a second time, as
simply as possible, in the files beside this one.

Without a scenery, as on real time, what ran is not judged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import attrs

import trio

from glyphoxa_trio.config import Config
from glyphoxa_trio.host import CatalogueEntry
from glyphoxa_trio.mcp import ServerState
from glyphoxa_trio.npc import (
    ApprovalNeeded,
    ApprovalSettled,
    Flush,
    LateResult,
    Queued,
    SpeculationDone,
    TierSelected,
    ToolsShown,
    TurnDone,
    TurnEnd,
    TurnEvent,
)
from glyphoxa_trio.npc.events import GIVEN_OUT
from glyphoxa_trio.providers.llm import Message
from glyphoxa_trio.runtime import Environment, Runtime
from glyphoxa_trio.simulation.promises.call_judge import CallJudge
from glyphoxa_trio.simulation.promises.calls import (
    BrokenPromise,
    Promise,
    TurnRecord,
)
from glyphoxa_trio.simulation.promises.fake_world import FakeWorld, Performance
from glyphoxa_trio.simulation.promises.gate_checker import GateChecker
from glyphoxa_trio.simulation.promises.journal import PromiseJournal, still_running
from glyphoxa_trio.simulation.promises.liveness import Watch, Well
from glyphoxa_trio.simulation.promises.offered import OfferedTools
from glyphoxa_trio.simulation.promises.rights import GrantLedger
from glyphoxa_trio.simulation.promises.said import SpokenOnce, conversation_faults
from glyphoxa_trio.simulation.promises.turn import judged
from glyphoxa_trio.tools.outcome import ToolCall
from glyphoxa_trio.tools.tier import Tier

__all__ = ["BrokenPromise", "Monitor", "Promise"]

# Floats are exact on virtual time, but sums of them are not quite.
EXACT: Final = 1e-6
# A whole runtime may take so long to close, seconds.
CLOSING: Final = 2.0
_MOST: Final = 100


@attrs.define(eq=False)
class Moments:
    """The times at which the runtime was acted on: what ends in the same moment may
    end either way.

    ``stirred``: how well tools were before does not count. ``closing``: when the
    runtime's block was left.
    """

    disturbed: set[float] = attrs.field(factory=set, init=False)
    stirred: float = attrs.field(default=0.0, init=False)
    closing: float = attrs.field(default=math.inf, init=False)


@attrs.define(eq=False)
class Monitor:
    """Watches one runtime. What it found is in ``broken``, the first hundred.

    Args:
      config: what the runtime is opened with.
      scenery: what plays its servers and tools; None if they are real.
      asked: there is an approver, or a reader of `ApprovalNeeded`.
      slack: how much later than a limit is in time, seconds.
      keep: put every event, with its time, into ``events``, and the tools of each
        showing into ``listings``, by exposed name.
      remembered: what earlier runs measured of calls that went well, newest last, by
        the tool's origin and key.
      well: by key, since when a tool answers every call, and within how many seconds;
        None if it does not, or if that is not known.
    """

    config: Config
    scenery: FakeWorld | None = None
    asked: bool = False
    slack: float = EXACT
    keep: bool = False
    remembered: Mapping[tuple[str, str], tuple[float, ...]] = attrs.field(factory=dict)
    well: Callable[[str], Well | None] = lambda key: None
    events: list[tuple[float, TurnEvent]] = attrs.field(factory=list, init=False)
    listings: dict[str, CatalogueEntry] = attrs.field(factory=dict, init=False)
    broken: list[BrokenPromise] = attrs.field(factory=list, init=False)
    ledger: GrantLedger = attrs.field(init=False)
    worst: dict[tuple[str, Tier], TurnDone] = attrs.field(factory=dict, init=False)
    _runtime: Runtime = attrs.field(init=False)
    _door: GateChecker = attrs.field(init=False)
    _turns: dict[tuple[str, int], TurnRecord] = attrs.field(factory=dict, init=False)
    _judge: CallJudge = attrs.field(init=False)
    _said: SpokenOnce = attrs.field(factory=SpokenOnce, init=False)
    _offered: OfferedTools = attrs.field(factory=OfferedTools, init=False)
    _moments: Moments = attrs.field(factory=Moments, init=False)
    _runs: dict[str, list[Performance]] = attrs.field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.ledger = GrantLedger(self.asked)

    # Calls of the one who plays the plan.

    def environment(self) -> Environment:
        """The scenery's world, with an eye on every tool that is published."""
        world = Environment() if self.scenery is None else self.scenery.environment()
        return attrs.evolve(world, stand_in=self._offered.heard(world.stand_in))

    def says(self, npc: str, text: str, override: Tier | None) -> None:
        """Record that a player says this; no other line to that NPC has these words."""
        self._said.by_player(npc, text, override)

    def answered(
        self, npc: str, text: str, round_: int, calls: Sequence[ToolCall]
    ) -> None:
        """The model has ended its response in that round of the answer to it."""
        self._said.by_model(npc, text, round_, calls)

    def asked_of_model(self, npc: str, messages: Sequence[Message]) -> None:
        for fault in conversation_faults(messages):
            self._no(Promise.WHOLE, npc, fault)

    def disturbed(self) -> None:
        """Record that a server or an NPC is acted on in this moment."""
        self._moments.disturbed.add(trio.current_time())

    def closes(self) -> None:
        """The runtime's block is left in this moment."""
        self.disturbed()
        self._moments.closing = trio.current_time()

    def reloads(self, config: Config) -> None:
        self.disturbed()
        self._door.tools_change()
        self.ledger.accepted(trio.current_time(), config)

    def stirred(self, *, until: float | None = None) -> None:
        """Something is done to servers or tools: how well they were before does not
        count. ``until`` is when that is over, by default now."""
        self._moments.stirred = trio.current_time() if until is None else until

    def elevates(self, npc: str, tier: Tier, seconds: float) -> None:
        now = trio.current_time()
        self.ledger.elevated(npc, now, now + seconds, tier)

    def tools_change(self) -> None:
        """A server offers something else from now on."""
        self.disturbed()
        self._door.tools_change()

    @property
    def turns_done(self) -> int:
        return sum(bool(turn.done) for turn in self._turns.values())

    # What it hears.

    @contextmanager
    def watching(self, runtime: Runtime) -> Generator[None]:
        """Judge what happens inside the block."""
        self._runtime = runtime
        self.ledger.accepted(trio.current_time(), runtime.config)
        self._door = GateChecker(
            ledger=self.ledger,
            limits=runtime.host.settings.limits,
            slack=self.slack,
            report=self._report,
            snapshot=lambda: runtime.host.snapshot,
            failed=self._failed,
            first=self._offered.first,
            runs=None if self.scenery is None else self._runs,
            lives=self._lives,
            remembered=self.remembered,
            watch=Watch(
                limits=runtime.host.settings.limits,
                report=self._report,
                well=self._well_now,
            ),
        )
        self._judge = CallJudge(
            door=self._door,
            said=self._said,
            offered=self._offered,
            ahead=lambda: self._ahead,
            snapshot=lambda: runtime.host.snapshot,
            report=self._no,
            slack=self.slack,
        )
        with runtime.events.tap(self._hear):
            yield
            self.ended()

    @property
    def _probed(self) -> bool:
        """True if tools may be called to measure them."""
        return any(config.calibration.at_start for config in self.ledger.configs)

    @property
    def _ahead(self) -> bool:
        """True if tools may be called before the model asks, to save time."""
        return any(
            config.speculation.enabled or config.hedging.enabled
            for config in self.ledger.configs
        )

    def _lives(self, server: str) -> Sequence[float]:
        return () if self.scenery is None else self.scenery.server(server).lives

    def _well_now(self, key: str) -> Well | None:
        well = self.well(key)
        stirred = self._moments.stirred
        if well is None or trio.current_time() < stirred:
            return None
        return attrs.evolve(well, since=max(well.since, stirred))

    def _failed(self) -> set[str]:
        return {
            row.name
            for row in self._runtime.servers()
            if row.state in (ServerState.FAILED, ServerState.STOPPED)
        }

    def _hear(self, event: TurnEvent) -> None:
        at = trio.current_time()
        self._read_journal()
        if self.keep:
            self.events.append((at, event))
            self.listings.update(self._runtime.host.snapshot.by_exposed)
        place = (event.npc, event.turn)
        if isinstance(event, SpeculationDone):
            return  # of a turn that may never be
        if isinstance(event, LateResult):
            self._judge.late(event, at)
            return
        turn = self._turns.get(place)
        if turn is None:
            turn = self._turns[place] = TurnRecord(event.npc, event.turn)
        if turn.flushed is not None and not isinstance(event, TurnDone):
            said = f"{type(event).__name__} follows its flush"
            self._no(Promise.FLUSH, turn.where, said)
        if isinstance(event, GIVEN_OUT):
            turn.gave_out = True
        match event:
            case Queued():
                pass
            case Flush():
                turn.flushed = at
            case TierSelected():
                self._selected(turn, event, at)
            case ToolsShown():
                turn.round(event.round).shown = event
                self._offered.look(self._runtime.host.snapshot)
                self._offered.shown(event)
                self._door.shown(turn, event, at)
            case ApprovalNeeded():
                turn.asked[event.question] = (at, event)
            case ApprovalSettled():
                if event.question in turn.settled:
                    self._no(Promise.ENDS, turn.where, "a question is settled twice")
                turn.settled[event.question] = (at, event)
            case TurnDone():
                self._done(turn, event, at)
            case _:
                self._judge.hear(turn, event, at)

    def _selected(self, turn: TurnRecord, event: TierSelected, at: float) -> None:
        if turn.selected is not None:
            self._no(Promise.ENDS, turn.where, "it begins twice")
        turn.selected, turn.began = event, at
        if event.tier is not min(event.ceiling, event.selected):
            self._no(Promise.TIER, turn.where, f"it is {event.tier}")
        ceilings = self.ledger.ceilings(turn.npc, at)
        if ceilings and event.ceiling not in ceilings:
            self._no(Promise.TIER, turn.where, f"its ceiling is {event.ceiling}")
        override = self._said.override(turn.npc, event.text)
        if override is not None and event.selected is not override:
            self._no(Promise.TIER, turn.where, f"{override} was chosen for it")

    def _done(self, turn: TurnRecord, event: TurnDone, at: float) -> None:
        turn.done.append((at, event))
        if event.end is TurnEnd.INTERRUPTED:
            self._moments.disturbed.add(at)
        if len(turn.done) > 1:
            self._no(Promise.ENDS, turn.where, "it ends twice")
            return
        if event.tier is not None and turn.selected is not None:
            place = (turn.npc, turn.selected.tier)
            worst = self.worst.get(place)
            if worst is None or event.timings.tools > worst.timings.tools:
                self.worst[place] = event
        self._judge.hear(turn, event, at)
        began = turn.began
        limits = [config.turn for config in self.ledger.in_force(began)]
        for fault in judged(
            turn, self._door.limits, limits or [self.config.turn], self.slack
        ):
            self._report(fault)
        turn.rounds.clear()

    def _read_journal(self) -> None:
        if self.scenery is None:
            return
        read = sum(map(len, self._runs.values()))
        for run in self.scenery.journal[read:]:
            self._runs.setdefault(run.key, []).append(run)

    # The end.

    def ended(self) -> None:
        """Judge the end: no more is said, and there was time for all of it to end."""
        self._read_journal()
        self._offered.look(self._runtime.host.snapshot)
        for turn in self._turns.values():
            if not turn.done:
                self._no(Promise.ENDS, turn.where, "it has no end")

    def quiet(self, runtime: Runtime) -> None:
        """All that was said is answered, and every limit is long over."""
        tasks = runtime.host.statistics().shared_tasks
        if tasks.running:
            self._no(Promise.NOTHING_LEFT, "host", f"{tasks.running} still run")
        if runtime.turns_running:
            self._no(Promise.ENDS, "runtime", f"{runtime.turns_running} turns run")
        self._judge.quiet()

    def closed(self, runtime: Runtime, *, took: float = 0.0) -> None:
        """The runtime's block was left, which took so many seconds."""
        if took > CLOSING + self.slack:
            self._no(Promise.NOTHING_LEFT, "runtime", f"closing took {took:g} s")
        tasks = runtime.host.statistics().shared_tasks
        if tasks.running or tasks.lingering:
            self._no(Promise.NOTHING_LEFT, "host", f"{tasks.running} calls still run")
        if runtime.turns_running:
            self._no(Promise.NOTHING_LEFT, "runtime", "a turn still runs")
        if self.scenery is None:
            return
        self._read_journal()
        if running := still_running(self.scenery.journal):
            self._no(Promise.NOTHING_LEFT, "servers", f"{', '.join(running)} still run")
        journal = PromiseJournal(
            calls=self._judge.calls,
            runs=self.scenery.journal,
            definitions=self._offered.definitions,
            probed=self._probed,
            ledger=self.ledger,
            exposed=self._offered.exposed,
            remembered=frozenset(key for _, key in self.remembered),
            moments=self._moments.disturbed,
            steady=self._door.steady and not self._ahead,
            ahead=self._ahead,
            closing=self._moments.closing,
            slack=self.slack,
        )
        for fault in journal.broken():
            self._report(fault)

    def fail(self, promise: Promise, where: str, text: str) -> None:
        """Something else that was promised and not kept."""
        self._no(promise, where, text)

    def _no(self, promise: Promise, where: str, text: str) -> None:
        self._report(BrokenPromise(promise, where, trio.current_time(), text))

    def _report(self, fault: BrokenPromise) -> None:
        if len(self.broken) < _MOST:
            self.broken.append(fault)
