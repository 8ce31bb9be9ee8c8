"""The tool host: catalogue, calls and measurements behind one object.

    async with open_host() as host:
        host.register(*dice.tools())
        await host.calibrate(within=10)
        outcome = await host.execute("dice.roll", {"expression": "2d6+3"})

It is independent of MCP: a remote tool is a `Tool` whose handler asks an actor.
"""

from __future__ import annotations

import json
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import (
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
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
from glyphoxa_trio.tools.arguments import InvalidArguments, canonical
from glyphoxa_trio.tools.cache import CacheKey
from glyphoxa_trio.tools.definition import Tool, ToolUnavailable
from glyphoxa_trio.tools.estimate import Estimate
from glyphoxa_trio.tools.fingerprint import fingerprint
from glyphoxa_trio.tools.gate import (
    EVERYTHING,
    Availability,
    Candidate,
    Grant,
    Reason,
    Refusal,
)
from glyphoxa_trio.tools.hedging import NO_HEDGING, HedgingRules
from glyphoxa_trio.tools.history import ToolPlace
from glyphoxa_trio.tools.isolated import IsolatedHandler
from glyphoxa_trio.tools.naming import NamingStyle
from glyphoxa_trio.tools.outcome import Outcome, ToolCall
from glyphoxa_trio.tools.recommendation import Evidence
from glyphoxa_trio.tools.schema import BadSchema
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
    MeasuredElsewhere,
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
from .calls_for_others import CallForOthers, call_for_others, may_be_shared
from .catalogue import Catalogue, CatalogueEntry, Snapshot
from .elsewhere import CallSharer
from .executor import Caller, Executor, ExecutorStatistics
from .hedging import Hedging
from .history import HistoryStatistics, SampleHistory
from .measurements import CalibratorSettings, Measurements
from .pauses import TurnQuestions
from .speculative_calls import SpeculativeCalls
from .stalls import Stalls, ToolStalled

# The longest wait for the calibrator to answer from memory, seconds.
_PATIENCE = 2.0


@attrs.frozen
class BreakerOpened:
    """The tool has failed repeatedly, and is not called for a while."""

    key: str


@attrs.frozen
class GroupWritten:
    """A call has ended that may have changed what the group's other tools read."""

    group: str


# Each call that reached its tool is a `Sampled`, and each write a `GroupWritten`. There
# are many: tap those, or subscribe to `only` the others, which would else be pushed out
# of a subscription.
HostEvent = (
    Probed | Sampled | SupervisionEvent | ToolStalled | BreakerOpened | GroupWritten
)


@attrs.frozen
class UnlistedGrant:
    """A name or pattern in an NPC's grant that may mean tools of a server that has not
    listed its tools yet: it ``starts`` for the first time, or cannot be reached."""

    pattern: str
    server: str
    starts: bool

    @property
    def refusal(self) -> Refusal:
        """The reason why no such tool is shown."""
        why = "is starting" if self.starts else "cannot be reached"
        return Refusal(
            reason=Reason.UNAVAILABLE,
            text=f"{self.pattern} cannot be used yet: the server {self.server!r} {why}",
            remedy="it can be used when its server has started",
        )


def _all_listed(npc: str) -> Sequence[UnlistedGrant]:
    return ()


@attrs.frozen(kw_only=True)
class HostStatistics:
    """Counts of a host since it opened, and the load of its parts."""

    executor: ExecutorStatistics
    shared_tasks: SharedTaskStatistics
    calibrator: MailboxStatistics
    tools: int
    history: HistoryStatistics | None = None


@attrs.define(eq=False)
class ToolHost:
    """The host, made by `open_host`; usable inside its block, from any task.

    The owner of turns sets ``quiet``, which waits until none runs: handlers on the
    event loop are probed then only. The owner of servers sets ``unlisted``, which
    returns what an NPC is granted of servers whose tools are not known yet.
    """

    settings: CalibratorSettings
    events: Topic[HostEvent]
    approvals: Approvals
    _catalogue: Catalogue
    _executor: Executor
    _attempts: Attempts
    _tasks: SharedTasks
    _calibrator: Ref[Calibrator]
    granted: Callable[[], Iterable[Grant]] = tuple
    _history: SampleHistory | None = None
    quiet: Callable[[], Awaitable[None]] | None = None
    unlisted: Callable[[str], Sequence[UnlistedGrant]] = _all_listed
    # Servers whose first start a turn has waited for in vain.
    _too_slow: set[str] = attrs.field(factory=set, init=False)

    # The catalogue of tools.

    @property
    def snapshot(self) -> Snapshot:
        """The tools at this moment; it is immutable, so it may be kept."""
        return self._catalogue.current

    async def changed(self) -> None:
        """Wait for the next change of the tools, or of those that may be used."""
        await self._catalogue.changed.changed()

    async def wait_listed(self, npc: str, *, until: float) -> None:
        """Wait for the tools that an NPC is granted of servers that start for the first
        time, until the time ``until`` on trio's clock at the latest.

        A server that is not ready by then is not waited for again, however long it
        takes. Cancellation returns at once.
        """

        def starting() -> set[str]:
            return {x.server for x in self.unlisted(npc) if x.starts} - self._too_slow

        with trio.move_on_at(until) as waiting:
            while starting():
                await self.changed()
        if waiting.cancelled_caught:
            self._too_slow |= starting()

    def register(self, *tools: Tool) -> None:
        """Add built-in tools, at any time; all of them or, on an error, none.

        A server's tool of the same name is left out from then on.

        Raises:
          NameCollision, BadName, BadSchema: the message names the tool.
        """
        before = self._catalogue.current.by_key
        self._catalogue.register(tools)
        self._forget_gone(before)
        for tool in tools:  # its code may have changed
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
        """Set a server's tools; None leaves them and sets only the availability.

        Args:
          ready_at: when the server will answer, on trio's clock, if it is starting.
          fingerprints: by key, of the definitions as the server gave them; for missing
            ones the fingerprint of the tool's own definition is used.

        Raises:
          NameCollision, BadName, BadSchema: as `register`, with nothing changed.
        """
        if availability is not Availability.RESTARTING:
            self._too_slow.discard(group)
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
        # No checkpoint before this, so that no task sees a changed tool as approved.
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
        """Note that a server has started again: measurements of its earlier life no
        longer hide its tools. Five good calls of each remain as a first guess."""
        self._attempts.begin_life(group)
        keys = tuple(
            x.key for x in self.snapshot.listings if x.definition.group == group
        )
        self._calibrator.tell(LifeBegan(keys))

    def leave_session(self, tenant: str, session: str) -> None:
        """Drop a session's own connections when it has ended or was set aside."""
        self._attempts.leave_session((tenant, session))

    def _forget_gone(self, before: Mapping[str, CatalogueEntry]) -> None:
        """Drop the state of tools that can no longer be called."""
        for key in before.keys() - self._catalogue.current.by_key.keys():
            self._attempts.forget(key)

    def deregister(self, name: str) -> tuple[str, ...]:
        """Remove a group or server, or one tool by its key; return the removed keys.

        A call in flight finishes or reaches its deadline; the next one is refused.
        """
        before = self._catalogue.current.by_key
        gone = self._catalogue.deregister(name)
        for key in gone:
            self._attempts.forget(key)
        self._calibrator.tell(Forget(gone))
        self.approvals.withdraw(gone)
        self.review()
        # Tools that were left out because of the same name are available again.
        back = self._catalogue.current.by_key.keys() - before.keys()
        self._calibrator.tell(Reckon(tuple(sorted(back))))
        return gone

    # Approvals by the operator.

    def approve(self, name: str, *, seen: str | None = None) -> bool:
        """Accept a tool as its server describes it now, and hold it back no longer.

        Args:
          seen: the fingerprint that the person saw (`Approvals.fingerprint`).

        Returns:
          True if it was held back.

        Raises:
          UnknownTool: if there is none of that name; the message has the nearest.
          ChangedAgain: if it has changed since the person looked at it.
        """
        listing = self.snapshot.find(name)
        if not listing.definition.external:
            return False
        held = self.approvals.approve(listing.key, seen=seen)
        self._catalogue.changed.set()
        return held

    def review(self) -> None:
        """Recompute which tools are held back, after a change of the configuration or
        of the servers' tools."""
        self.approvals.review(self.snapshot.listings)
        self._catalogue.changed.set()

    # Tools that may be shown, and the reasons against others.

    def tools(
        self,
        tier: Tier = Tier.DEEP,
        *,
        grant: Grant = EVERYTHING,
        remaining: float | None = None,
        whose: Whose = NOBODYS,
    ) -> tuple[CatalogueEntry, ...]:
        """Return the tools that fit ``tier`` and the rest of its budget (seconds), for
        a session, given by tenant and id."""
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
        """Return every tool, with the reason why it is hidden, if it is."""
        left = self.settings.limits.ceiling(tier) if remaining is None else remaining
        return self._executor.explain(grant, tier=tier, remaining=left, whose=whose)

    def candidates(self) -> list[tuple[CatalogueEntry, Candidate]]:
        """Return every tool as the gate sees it now, for `tools.usability.judge`.

        It does not count as a turn, unlike `explain` with the grant of an NPC.
        """
        return self._executor.candidates()

    # Calls.

    def pause(
        self, group: str, turn: TurnQuestions, most: float
    ) -> AbstractContextManager[trio.CancelScope]:
        """Charge a turn that waits for a server for no time within the block, in which
        a person is asked something by that server; see `Pauses.pause`."""
        return self._attempts.pauses.pause(group, turn, most)

    def turns_waiting(self, group: str) -> list[TurnQuestions]:
        """Return the turns in which a call of that server is waited for."""
        return self._attempts.pauses.turns(group)

    async def execute(
        self,
        name: str,
        arguments: Mapping[str, Any] | str = "{}",
        *,
        tier: Tier = Tier.DEEP,
        grant: Grant = EVERYTHING,
    ) -> Outcome:
        """Run one call within the ceiling of ``tier``; return its outcome.

        Cancelling it cancels the call, by the tool's policy.

        Raises:
          TypeError, ValueError: if the arguments cannot be written as JSON.
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
        """Return a holder for calls that start before their turn; see `Executor`."""
        return self._executor.ahead(caller, remaining=remaining, until=until)

    # Measurements.

    async def calibrate(
        self,
        *,
        within: float,
        keys: Iterable[str] | None = None,
        unsafe: bool = False,
        harmless_only: bool = False,
    ) -> tuple[Probed, ...]:
        """Probe tools, five times each, at the caller's request.

        Args:
          within: seconds. Samples taken by then are kept.
          keys: the tools to probe, whatever they do. None is all tools that only read
            local data, and those with configured arguments to probe with.
          unsafe: with ``keys`` None, also tools that may write or reach beyond this
            machine.
          harmless_only: of ``keys``, probe only those that None would include.

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
        """Probe tools without a request: of ``keys`` those that the grants of
        ``granted`` consent to (`tools.consent`) and that have too few samples.

        Raises:
          DeadlineExceeded: as `calibrate`.
        """
        request = Calibrate(keys=tuple(keys), word=Word.NOBODY)
        return await self._calibrator.ask(request, within=within)

    def disregard(self, since: float, until: float) -> None:
        """Discard measurements that overlap with that time (trio's clock), in which
        this process kept all tools waiting."""
        self._calibrator.tell(Disregard(since, until))

    # What other processes with the same tools have found out.

    def learn(self, samples: Mapping[ToolPlace, Sequence[Sample]]) -> None:
        """Estimate tools by calls of other processes, as long as this one has made few.

        They are not stored, say nothing of health, and are not counted as its own. Only
        samples of tools that run in the same place here are used.

        Args:
          samples: those with a latency; their ``at`` is on trio's clock.
        """
        known = tuple(
            (place.key, sample)
            for place, found in samples.items()
            if self.runs(place)
            for sample in found
        )
        if known:
            self._calibrator.tell(MeasuredElsewhere(known))

    def runs(self, place: ToolPlace) -> bool:
        """Return True if there is such a tool, on that server and in that place."""
        listing = self.snapshot.by_key.get(place.key)
        return listing is not None and self.settings.place(listing.definition) == place

    def suspect(self, key: str) -> None:
        """Open the breaker of a tool at its next failure, since it failed elsewhere.

        It holds for the length of the breaker's pause. An unknown tool is ignored.
        """
        listing = self.snapshot.by_key.get(key)
        if listing is not None:
            self._attempts.suspect(listing)

    def written(self, group: str | None) -> None:
        """Drop the cached results of a group, since another process wrote to it; with
        None those of all groups. No `GroupWritten` follows."""
        self._attempts.written(group)

    @contextmanager
    def sharing_calls(self, sharer: CallSharer) -> Generator[None]:
        """Ask ``sharer``, inside the block, before a call is made here whose result
        would be cached. It is not asked for calls of tools on trial."""
        self._attempts.share_with(sharer)
        try:
            yield
        finally:
            self._attempts.share_with(None)

    def call_for_others(
        self, place: ToolPlace, arguments: str, *, tenant: str, within: float
    ) -> CallForOthers:
        """Begin a call that another process would make else, and asks for.

        It is shared with those of this process: if its result is cached here, or it is
        in flight, the tool is not called again.

        Args:
          arguments: JSON.
          tenant: the owner of the session that it is for; tenants share nothing.
          within: seconds after which the call is of no use any more.

        Raises:
          ToolUnavailable: the tool is not the same here, cannot be called now, or its
            calls cannot be shared (`may_be_shared`).
        """
        listing = self.snapshot.by_key.get(place.key)
        if listing is None or self.settings.place(listing.definition) != place:
            raise ToolUnavailable("there is no such tool here")
        if not may_be_shared(listing) or self._attempts.seat(listing) is not None:
            raise ToolUnavailable("its calls are not shared")
        if (no := self._executor.refusal(listing, within)) is not None:
            raise ToolUnavailable(no.text)
        try:
            parsed = listing.schema.parse(arguments)
        except (InvalidArguments, BadSchema) as error:
            raise ToolUnavailable(str(error)) from None
        key = CacheKey(tool=listing.key, arguments=canonical(parsed), scope=tenant)
        seconds = min(within, listing.definition.own_limit)
        return call_for_others(
            self._attempts, listing, parsed, key, tenant=tenant, seconds=seconds
        )

    async def report(self) -> dict[str, Estimate]:
        """Return the exact estimate of every tool, by key."""
        return await self._calibrator.ask(ReportEstimates(), within=_PATIENCE)

    async def evidence(self) -> dict[str, Evidence]:
        """Return the tier by each ``tier_by``, by key; only of tools that have been
        called often enough to tell."""
        return await self._calibrator.ask(Examine(), within=_PATIENCE)

    def statistics(self) -> HostStatistics:
        return HostStatistics(
            executor=self._executor.statistics(),
            shared_tasks=self._tasks.statistics(),
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
    """Open a tool host for as long as the block lasts.

    Leaving the block cancels the calls in flight. A handler that shields itself from
    cancellation delays the end until it is done: trio cannot stop it by force.

    Args:
      approvals: the operator's approvals, and their store; without it no tool is held
        back for having changed.
      history: the store of measurements across runs; without it they are lost.
      hedging: the servers that may answer for each other when one is slow.
      stand_in: returns the tool to call in place of each tool, for rehearsals.
      granted: returns the grants of the NPCs now. Other tools are probed on request
        only.
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
            tasks = SharedTasks(nursery, lingering_limit=lingering_limit)
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
                tasks,
                observe,
                health_anew,
                lag,
                trial_began,
                said_nothing,
                stalls,
                lambda key: events.publish(BreakerOpened(key)),
                lambda group: events.publish(GroupWritten(group)),
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
                    lambda: host.quiet,
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

            host = ToolHost(
                chosen,
                events,
                approvals,
                catalogue,
                executor,
                attempts,
                tasks,
                ref,
                granted,
                history,
            )

            async def reckon_anew() -> None:
                # A hidden tool is not called, so that its measurements have expired
                # would not be noticed otherwise.
                while True:
                    await trio.sleep(chosen.expiry / 24)
                    ref.tell(Reckon(tuple(catalogue.current.by_key)))

            nursery.start_soon(reckon_anew)
            if keeper is not None:
                nursery.start_soon(keeper.run)
            if history is not None:
                nursery.start_soon(history.run)
            try:
                yield host
            finally:
                events.close()
                nursery.cancel_scope.cancel("the host is closed")
                tasks.close()
                for listing in catalogue.current.listings:
                    if isinstance(listing.tool.handler, IsolatedHandler):
                        await listing.tool.handler.aclose()
                if keeper is not None:
                    await keeper.close()
                if history is not None:
                    await history.close()
