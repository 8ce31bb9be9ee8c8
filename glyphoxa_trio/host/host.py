"""The tool host: everything about tools, behind one object (G1).

    async with open_host() as host:
        host.register(*dice.tools())
        await host.calibrate(within=10)
        outcome = await host.execute("dice.roll", {"expression": "2d6+3"})

It knows nothing of MCP: a remote tool is a `Tool` whose handler asks an actor.
Above 300 lines, because it is the one door, and opening it wires every room.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import attrs

import trio

from glyphoxa_trio.actors import (
    Backoff,
    Inbox,
    MailboxStatistics,
    Ref,
    SharedTasks,
    SharedTaskStatistics,
    SupervisionEvent,
    Topic,
    lone_errors,
    loop_lag,
    spawn,
    watchdog,
)
from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.estimate import Estimate
from glyphoxa_trio.tools.fingerprint import fingerprint
from glyphoxa_trio.tools.gate import (
    EVERYTHING,
    Availability,
    Candidate,
    Grant,
    Refusal,
)
from glyphoxa_trio.tools.hedging import NO_HEDGING, HedgingRules
from glyphoxa_trio.tools.isolated import IsolatedHandler
from glyphoxa_trio.tools.naming import NamingStyle
from glyphoxa_trio.tools.outcome import Outcome, ToolCall
from glyphoxa_trio.tools.recommendation import Evidence
from glyphoxa_trio.tools.tier import Tier
from glyphoxa_trio.tools.window import Sample

from .approvals import ApprovalKeeper, Approvals
from .attempts import NOBODYS, Attempts, Whose
from .calibrator import (
    Calibrate,
    Calibrator,
    Disregard,
    Examine,
    Forget,
    HealthAnew,
    LifeBegan,
    Missed,
    Observe,
    Probed,
    Reckon,
    ReportEstimates,
    Sampled,
    TrialBegan,
    TrialSaidNothing,
    Word,
)
from .catalogue import Catalogue, CatalogueEntry, Snapshot
from .executor import Caller, Executor, ExecutorStatistics
from .hedging import Hedging
from .history import HistoryStatistics, SampleHistory
from .measurements import CalibratorSettings, Measurements
from .speculative_calls import SpeculativeCalls
from .stalls import Stalls, ToolStalled

# Each call that reached its tool is a `Sampled`: tap those, or subscribe to `only` the
# others, which they would push out of a subscription.
HostEvent = Probed | Sampled | SupervisionEvent | ToolStalled

# How long anybody waits for the calibrator to answer from memory, seconds.
_PATIENCE = 2.0


@attrs.frozen(kw_only=True)
class HostStatistics:
    """What a host has done so far, and the load of its parts."""

    executor: ExecutorStatistics
    flights: SharedTaskStatistics
    calibrator: MailboxStatistics
    tools: int
    history: HistoryStatistics | None = None


@attrs.define(eq=False)
class ToolHost:
    """Made by `open_host`; usable inside its block, from any task of the run."""

    settings: CalibratorSettings
    events: Topic[HostEvent]
    approvals: Approvals
    _catalogue: Catalogue
    _executor: Executor
    _attempts: Attempts
    _flights: SharedTasks
    _calibrator: Ref[Calibrator]
    granted: Callable[[], Iterable[Grant]] = tuple
    _history: SampleHistory | None = None

    # The catalogue.

    @property
    def snapshot(self) -> Snapshot:
        """The tools at this moment; immutable, so it may be kept."""
        return self._catalogue.current

    async def changed(self) -> None:
        """Wait until there are other tools, or others may be used, the next time."""
        await self._catalogue.changed.changed()

    def register(self, *tools: Tool) -> None:
        """Add built-in tools, at any time; all of them or, on an error, none.

        A server's tool of the same name is left out from then on.

        Raises:
          NameCollision, BadName, BadSchema: naming the tool.
        """
        before = self._catalogue.current.by_key
        self._catalogue.register(tools)
        self._forget_gone(before)
        for tool in tools:  # its code may be another one
            self._attempts.stalls.forget(tool.key)
        self._calibrator.tell(Reckon(tuple(tool.key for tool in tools)))

    def publish(
        self,
        group: str,
        availability: Availability,
        tools: Iterable[Tool] | None,
        *,
        fingerprints: Mapping[str, str] | None = None,
        ready_at: float | None = None,
    ) -> None:
        """A server's tools, as they are now; None leaves them and moves only the
        availability. Raises as `register`, with nothing changed.

        Args:
          ready_at: when the server will answer, on trio's clock, if it is starting.
          fingerprints: by key, of the definitions as the server gave them; those
            of the tools' own definitions stand in for what is not given.
        """
        if tools is None:
            self._catalogue.set_availability(group, availability, ready_at)
            return
        offered = list(tools)
        prints = {
            tool.key: (fingerprints or {}).get(tool.key) or fingerprint(tool.definition)
            for tool in offered
            if tool.definition.external
        }
        before = self._catalogue.current.by_key
        self._catalogue.replace(group, offered, availability, ready_at)
        # No checkpoint before this: nobody sees a changed tool that is not held.
        self.approvals.offer(group, prints)
        self.review()
        after = self._catalogue.current.by_key
        self._forget_gone(before)
        changed = [
            key
            for key, listing in after.items()
            if key in before and before[key].definition != listing.definition
        ]
        for key in changed:
            self._attempts.forget(key)
        self._calibrator.tell(Reckon(tuple(after)))

    def begin_life(self, group: str) -> None:
        """A server has started again: what was measured in its earlier life hides none
        of its tools. Five calls of each that went well remain as a first guess."""
        self._attempts.begin_life(group)
        keys = tuple(
            x.key for x in self.snapshot.listings if x.definition.group == group
        )
        self._calibrator.tell(LifeBegan(keys))

    def leave_session(self, tenant: str, session: str) -> None:
        """A session has ended, or was set aside, and so have connections of its own."""
        self._attempts.leave_session((tenant, session))

    def _forget_gone(self, before: Mapping[str, CatalogueEntry]) -> None:
        """Forget what was kept of tools that cannot be called any more."""
        for key in before.keys() - self._catalogue.current.by_key.keys():
            self._attempts.forget(key)

    def deregister(self, name: str) -> tuple[str, ...]:
        """Remove a group or server, or one tool by its key; returns what went.

        A call in the air finishes or meets its deadline; the next one is refused.
        """
        before = self._catalogue.current.by_key
        gone = self._catalogue.deregister(name)
        for key in gone:
            self._attempts.forget(key)
        self._calibrator.tell(Forget(gone))
        self.approvals.withdraw(gone)
        self.review()
        # Tools that were left out because of the same name are back now.
        back = self._catalogue.current.by_key.keys() - before.keys()
        self._calibrator.tell(Reckon(tuple(sorted(back))))
        return gone

    # What the operator approved.

    def approve(self, name: str, *, seen: str | None = None) -> bool:
        """Accept a tool as its server describes it now, and hold it back no more.

        Args:
          seen: the fingerprint that was looked at (`Approvals.fingerprint`).

        Returns whether it was held back.

        Raises:
          UnknownTool: with the nearest names.
          ChangedAgain: if it is not the one any more that was looked at.
        """
        listing = self.snapshot.find(name)
        if not listing.definition.external:
            return False
        held = self.approvals.approve(listing.key, seen=seen)
        self._catalogue.changed.set()
        return held

    def review(self) -> None:
        """Decide anew what is held back: what the configuration approves has
        changed, or what servers offer."""
        self.approvals.review(self.snapshot.listings)
        self._catalogue.changed.set()

    # What may be shown, and why not.

    def tools(
        self,
        tier: Tier = Tier.DEEP,
        *,
        grant: Grant = EVERYTHING,
        remaining: float | None = None,
        whose: Whose = NOBODYS,
    ) -> tuple[CatalogueEntry, ...]:
        """The tools that fit ``tier`` and what remains of its budget (seconds), for a
        session, by tenant and id."""
        left = self.settings.limits.ceiling(tier) if remaining is None else remaining
        return self._executor.visible(grant, tier=tier, remaining=left, whose=whose)

    def explain(
        self,
        tier: Tier = Tier.DEEP,
        *,
        grant: Grant = EVERYTHING,
        remaining: float | None = None,
        whose: Whose = NOBODYS,
    ) -> list[tuple[CatalogueEntry, Refusal | None]]:
        """Every tool with the reason why it is hidden, if it is."""
        left = self.settings.limits.ceiling(tier) if remaining is None else remaining
        return self._executor.explain(grant, tier=tier, remaining=left, whose=whose)

    def candidates(self) -> list[tuple[CatalogueEntry, Candidate]]:
        """Every tool as the gate would look at it now, for `tools.usability.judge`.

        It does not count as a turn, unlike `explain` with the grant of an NPC.
        """
        return self._executor.candidates()

    # What may run.

    async def execute(
        self,
        name: str,
        arguments: Mapping[str, Any] | str = "{}",
        *,
        tier: Tier = Tier.DEEP,
        grant: Grant = EVERYTHING,
    ) -> Outcome:
        """Run one call inside the ceiling of ``tier``; always an outcome.

        Cancelling it cancels the call, by the tool's policy.

        Raises:
          TypeError, ValueError: for arguments that cannot be written as JSON.
        """
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        call = ToolCall("call", name, text)
        ceiling = self.settings.limits.ceiling(tier)
        caller = Caller(grant=grant, tier=tier)
        (end,) = await self._executor.fan_out(
            [call], caller, deadline=trio.current_time() + ceiling, remaining=ceiling
        )
        return end

    async def fan_out(
        self,
        calls: Sequence[ToolCall],
        caller: Caller,
        *,
        deadline: float,
        remaining: float | None = None,
    ) -> list[Outcome]:
        """Run calls in parallel; see `Executor.fan_out`."""
        return await self._executor.fan_out(
            calls, caller, deadline=deadline, remaining=remaining
        )

    def ahead(
        self, caller: Caller, *, remaining: float, until: float
    ) -> SpeculativeCalls:
        """For calls that are begun before their turn; see `Executor.ahead`."""
        return self._executor.ahead(caller, remaining=remaining, until=until)

    # What was measured.

    async def calibrate(
        self,
        *,
        within: float,
        keys: Iterable[str] | None = None,
        unsafe: bool = False,
        harmless_only: bool = False,
    ) -> tuple[Probed, ...]:
        """Probe tools, five times each, because the caller wants it.

        Args:
          within: seconds. What was measured by then is kept.
          keys: the tools to probe, whatever they do. None is all tools that only read
            what is here, and those with configured arguments to probe with.
          unsafe: with ``keys`` None, also tools that may write or reach beyond this
            machine.
          harmless_only: of ``keys`` only those that None would mean, too.

        A tool that changes or goes meanwhile is not called any more; `Probed.note` says
        so, and also if a named tool is held back.

        Raises:
          DeadlineExceeded: if some probes were not done.
        """
        chosen = None if keys is None else tuple(keys)
        named = unsafe if chosen is None else not harmless_only
        word = Word.NAMED if named else Word.UNNAMED
        return await self._calibrator.ask(
            Calibrate(keys=chosen, word=word), within=within
        )

    async def measure(
        self, keys: Iterable[str], *, within: float
    ) -> tuple[Probed, ...]:
        """Probe tools although nobody asked for it: of ``keys`` those that the grants
        of ``granted`` consent to (`tools.consent`) and that have not been measured
        enough.

        Raises as `calibrate`.
        """
        request = Calibrate(keys=tuple(keys), word=Word.NOBODY)
        return await self._calibrator.ask(request, within=within)

    def disregard(self, since: float, until: float) -> None:
        """What was measured between these moments, whole or in part, says nothing of
        tools: something of ours kept all of them waiting."""
        self._calibrator.tell(Disregard(since, until))

    async def report(self) -> dict[str, Estimate]:
        """The exact estimate of every tool, by key."""
        return await self._calibrator.ask(ReportEstimates(), within=_PATIENCE)

    async def evidence(self) -> dict[str, Evidence]:
        """What each ``tier_by`` makes of the tools, by key; of those only that have
        been called often enough to tell (G40)."""
        return await self._calibrator.ask(Examine(), within=_PATIENCE)

    def statistics(self) -> HostStatistics:
        return HostStatistics(
            executor=self._executor.statistics(),
            flights=self._flights.statistics(),
            calibrator=self._calibrator.statistics(),
            tools=len(self.snapshot.listings),
            history=None if self._history is None else self._history.statistics(),
        )


@asynccontextmanager
async def open_host(
    *,
    settings: CalibratorSettings | None = None,
    naming: NamingStyle = NamingStyle.DOUBLE,
    lingering_limit: int = 2,
    approvals: Approvals | None = None,
    history: SampleHistory | None = None,
    hedging: HedgingRules = NO_HEDGING,
    stand_in: Callable[[Tool], Tool] | None = None,
    granted: Callable[[], Iterable[Grant]] = tuple,
) -> AsyncGenerator[ToolHost]:
    """A tool host for as long as the block lasts.

    Leaving it cancels what is in the air. A handler that shields itself holds
    the end up until it is done: trio can stop nobody by force.

    Args:
      approvals: what the operator approved, and where that is kept; without it
        no tool is held back for having changed.
      history: where measurements outlive the run; without it they do not.
      hedging: which servers are asked as well when another is slow.
      stand_in: what is called in place of each tool, for rehearsals.
      granted: what the NPCs are granted now. No other tool is probed unasked.
    """
    chosen = settings or CalibratorSettings()
    measurements = Measurements(chosen, history)
    if history is not None:  # before any tool is estimated
        measurements.recall(await history.load(chosen.expiry))
    catalogue = Catalogue(measurements.reckon, naming, stand_in)
    events: Topic[HostEvent] = Topic()
    approvals = approvals or Approvals()
    keeper = ApprovalKeeper(approvals, approvals.store) if approvals.store else None
    if keeper is not None:
        await keeper.load()
    with lone_errors(), loop_lag() as lag, ExitStack() as stack:
        async with trio.open_nursery() as nursery:
            flights = SharedTasks(nursery, lingering_limit=lingering_limit)
            ref: Ref[Calibrator]

            def observe(key: str, sample: Sample) -> None:
                ref.tell(Observe(key, sample))  # a full mailbox drops and counts

            def health_anew(key: str) -> None:
                ref.tell(HealthAnew(key))

            def trial_began(key: str) -> None:
                ref.tell(TrialBegan(key))

            def said_nothing(key: str) -> None:
                ref.tell(TrialSaidNothing(key))

            def missed(keys: tuple[str, ...], seconds: float) -> None:
                stalls.wait(keys, seconds)
                ref.tell(Missed(keys, seconds))

            watching = None if lag.virtual else stack.enter_context(watchdog())
            stalls = Stalls(watching, events.publish)
            attempts = Attempts(
                flights,
                observe,
                health_anew,
                lag,
                trial_began,
                said_nothing,
                stalls,
            )
            hedger = Hedging(hedging, nursery, catalogue, attempts, measurements.window)
            executor = Executor(
                nursery,
                catalogue,
                attempts,
                approvals,
                hedger if hedging.enabled else None,
                missed,
            )

            async def calibrate(inbox: Inbox[Calibrator]) -> None:
                calibrator = Calibrator(
                    measurements,
                    catalogue,
                    attempts.probe,
                    events.publish,
                    lambda: approvals.held,
                    lambda: approvals.agreed,
                    granted,
                )
                await calibrator.run(inbox)

            ref = spawn(
                nursery,
                calibrate,
                name="calibrator",
                capacity=1024,
                restart=Backoff(first=0.05, ceiling=5.0),
                on_event=events.publish,
            )

            async def reckon_anew() -> None:
                # Nobody calls a tool that is hidden, so nobody else would notice
                # that what was measured of it has expired (D7).
                while True:
                    await trio.sleep(chosen.expiry / 24)
                    ref.tell(Reckon(tuple(catalogue.current.by_key)))

            nursery.start_soon(reckon_anew)
            if keeper is not None:
                nursery.start_soon(keeper.run)
            if history is not None:
                nursery.start_soon(history.run)
            try:
                yield ToolHost(
                    chosen,
                    events,
                    approvals,
                    catalogue,
                    executor,
                    attempts,
                    flights,
                    ref,
                    granted,
                    history,
                )
            finally:
                events.close()
                nursery.cancel_scope.cancel("the host is closed")
                flights.close()
                for listing in catalogue.current.listings:
                    if isinstance(listing.tool.handler, IsolatedHandler):
                        await listing.tool.handler.aclose()
                if keeper is not None:
                    await keeper.close()
                if history is not None:
                    await history.close()
