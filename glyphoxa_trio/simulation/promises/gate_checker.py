"""The judge of the gate: each showing and each start, at its moment.

It stands where the events are published, so it sees the catalogue, the servers and
the configurations as they are just then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import attrs

from glyphoxa_trio.host import CatalogueEntry
from glyphoxa_trio.host.catalogue import Snapshot
from glyphoxa_trio.npc import Decision, ToolsShown, ToolStarted
from glyphoxa_trio.simulation.promises.calls import (
    BrokenPromise,
    CallSeen,
    Promise,
    RoundSeen,
    TurnRecord,
)
from glyphoxa_trio.simulation.promises.fake_world import Ending, Performance
from glyphoxa_trio.simulation.promises.liveness import Watch
from glyphoxa_trio.simulation.promises.rights import (
    GrantLedger,
    Speed,
    Took,
    is_down,
    too_slow,
)
from glyphoxa_trio.tools.definition import ToolDefinition
from glyphoxa_trio.tools.estimate import Unknown
from glyphoxa_trio.tools.gate import Reason
from glyphoxa_trio.tools.outcome import Limit, Status, ToolCall
from glyphoxa_trio.tools.tier import Tier, TierLimits

_SEARCH: Final = "catalogue.tool_search"
_IN_A_ROW: Final = 5  # so many failures open a breaker
_UNMEASURED: Final = 5  # fewer calls than this measure nothing
_PAUSE: Final = 10.0  # for so many seconds
_STRAYS: Final = 2  # so many calls of a tool may ignore their cancellation
_GRACE: Final = 0.1  # after so many seconds
_SAY_NOTHING: Final = {
    Status.TOOL_ERROR,
    Status.CRASHED,
    Status.UNAVAILABLE,
    Status.CANCELLED,
}


@attrs.define(eq=False)
class ToolRecord:
    """The results of one tool's calls, in the order in which they ended."""

    ended: list[CallSeen] = attrs.field(factory=list)
    flying: int = 0

    def takes_off(self) -> None:
        self.flying += 1

    def lands(self) -> None:
        self.flying -= 1

    def took(
        self, before: float, runs: Iterable[Performance], lives: Iterable[float]
    ) -> Iterable[Took]:
        """The tool's calls in the present life of its server, as they ran. The time
        that a call waited before it was sent does not count."""
        ran = list(runs)
        born = max((x for x in lives if x <= before), default=0.0)
        answers = [x.over for x in ran if x.over is not None and x.over >= born]
        first_over = min(answers, default=math.inf)
        begins: dict[str, list[float]] = {}
        for run in ran:
            begins.setdefault(run.arguments, []).append(run.began)
        for call in {id(x): x for x in self.ended}.values():
            at, end = (call.ended, call.outcome) if call.late is None else call.late
            if end is None or at is None or at >= before or call.ahead:
                continue
            if call.began < born:
                continue
            mine = [x for x in begins.get(call.arguments, ()) if call.began <= x <= at]
            if not mine:
                continue
            if end.ok or end.status is Status.TIMEOUT:
                yield Took(
                    at - max(mine),
                    at,
                    cut=end.limit is Limit.TURN,
                    first=max(mine) <= first_over,
                )

    def silent(self) -> int:
        """Calls that say nothing of how long the tool takes."""
        return sum(
            x.outcome is not None
            and x.late is None
            and x.outcome.status in _SAY_NOTHING
            for x in {id(x): x for x in self.ended}.values()
        )

    def broke_down_at(self) -> float | None:
        """When the fifth failure in a row ended, or a later trial."""
        row: list[CallSeen] = []
        for call in self.ended:
            end = call.outcome
            own = end is not None and (
                end.status is Status.CRASHED
                or (end.status is Status.TIMEOUT and end.limit is not Limit.TURN)
            )
            row = [*row, call] if own and call.ended is not None else []
        if len(row) < _IN_A_ROW:
            return None
        opened = row[_IN_A_ROW - 1].ended
        assert opened is not None
        for call in row[_IN_A_ROW:]:
            if call.began >= opened and call.ended is not None:  # the trial
                opened = call.ended
        return opened


@attrs.define(eq=False, kw_only=True)
class GateChecker:
    """Looks at each showing and each start of a call.

    Args:
      report: told of each broken promise.
      snapshot, failed, held: the catalogue, the servers that have failed, now.
      first: by key, the tool as its server described it first.
      runs: by key, every run of a tool so far; None if that cannot be seen.
      lives: when the sessions with a server were opened, by its name.
      remembered: what earlier runs measured, by origin and key of a tool.
      watch: looks for tools that are absent for too long.
      steady: False once tools may have been taken away and come back.
    """

    ledger: GrantLedger
    limits: TierLimits
    slack: float
    report: Callable[[BrokenPromise], None]
    snapshot: Callable[[], Snapshot]
    failed: Callable[[], set[str]]
    first: dict[str, ToolDefinition]
    runs: dict[str, list[Performance]] | None
    lives: Callable[[str], Sequence[float]]
    remembered: Mapping[tuple[str, str], tuple[float, ...]]
    watch: Watch
    tools: dict[str, ToolRecord] = attrs.field(factory=dict)
    steady: bool = True

    def tools_change(self) -> None:
        """Tools may be taken away, and come back, from now on."""
        self.steady = False

    def seen(self, key: str) -> ToolRecord:
        return self.tools.setdefault(key, ToolRecord())

    def shown(self, turn: TurnRecord, event: ToolsShown, at: float) -> None:
        """The list of a round, before its model reads it."""

        def no(promise: Promise, text: str) -> None:
            self.report(
                BrokenPromise(promise, f"{turn.where}, round {event.round}", at, text)
            )

        if turn.selected is None:
            no(Promise.ENDS, "tools are shown in a turn that has not begun")
            return
        tier = self.ledger.highest(turn.npc, turn.began, turn.selected.tier, at)
        least = self.ledger.lowest(turn.npc, turn.began, turn.selected.tier, at)
        listings = self.snapshot().listings
        usable = (*event.shown, *event.deferred)
        for name in usable:
            found = [x for x in listings if x.exposed == name]
            if name == "tool_search" and not found:
                continue
            if len(found) != 1:
                no(Promise.RIGHTS, f"{name} is shown and names {len(found)} tools")
                continue
            why = self.why_not(turn, found[0], tier, at, asked=True)
            if why is None and found[0].estimate.seconds > event.remaining:
                why = f"it needs longer than the {event.remaining:g} s that are left"
            if why is not None:
                no(Promise.RIGHTS, f"{name} is shown, and {why}")
            if not self.ledger.of_its_time(found[0], turn.began, at):
                no(Promise.OWN_SERVERS, f"{name} is of a server that came later")
        if tier is least is turn.selected.tier:
            self.watch.shown(turn, event, at, listings, self.ledger.in_force(at)[-1])
        if len(set(usable)) != len(usable):
            no(Promise.RIGHTS, "a tool is shown twice")
        hidden = dict(event.hidden)
        for listing in listings:
            if listing.exposed in usable or listing.exposed in hidden:
                continue
            if self._surely_granted(turn, listing, at):
                no(Promise.REASONS, f"{listing.key} is neither shown nor hidden")
        for name, refusal in event.hidden:
            for listing in [x for x in listings if x.exposed == name]:
                if self._untrue(listing, refusal.reason, least, turn, event.remaining):
                    said = f"{listing.key} is hidden as {refusal.reason}"
                    no(Promise.REASONS, f"{said}, which is not so")

    def started(
        self, turn: TurnRecord, round_: RoundSeen, call: CallSeen, event: ToolStarted
    ) -> None:
        """A call that passed the gate."""

        def no(promise: Promise, text: str) -> None:
            where = f"{turn.where}, round {event.round}"
            self.report(
                BrokenPromise(promise, where, call.began, f"{call.tool} {text}")
            )

        at = call.began
        if turn.selected is None or round_.shown is None:
            no(Promise.RIGHTS, "runs before its turn has begun")
            return
        if round_.shown.forbidden and round_.shown.shown:
            no(Promise.RIGHTS, "runs in a round that was to answer in words")
        self._in_order(round_, call, no)
        if event.tool == _SEARCH:
            if "tool_search" not in round_.shown.shown:
                no(Promise.RIGHTS, "runs and was not shown")
            return
        listing = self.snapshot().by_key.get(event.tool)
        if listing is None or event.call.name not in (listing.exposed, listing.key):
            no(Promise.RIGHTS, f"runs for a call of {event.call.name!r}")
            return
        tier = self.ledger.highest(turn.npc, turn.began, turn.selected.tier, at)
        approved = self._approved(turn, round_, event.call)
        why = self.why_not(turn, listing, tier, at, asked=approved)
        if why is not None:
            no(Promise.RIGHTS, f"runs, and {why}")
        if listing.exposed in round_.shown.deferred:
            no(Promise.RIGHTS, "runs, and its schema was not loaded")
        began = at if round_.began is None else round_.began
        left = turn.selected.budget - turn.spent(round_.index) - (at - began)
        if listing.estimate.seconds > left + self.slack:
            no(Promise.RIGHTS, f"runs, and needs longer than the {left:g} s left")
        if call.slot >= self.ledger.most_calls(turn.began):
            no(Promise.RIGHTS, "runs, and it is a call too many")
        call.on_trial = self.on_trial(listing)

    def why_not(
        self,
        turn: TurnRecord,
        listing: CatalogueEntry,
        tier: Tier,
        at: float,
        *,
        asked: bool,
    ) -> str | None:
        """Why the NPC may not use it, by the plainest reading; None if it may."""
        npc, began = turn.npc, turn.began
        if not self.ledger.covered(npc, listing, began, at):
            return "it was not granted"
        full = self.ledger.trusts_fully(npc, began, at)
        if not full and self._has_changed(listing):
            return "it has changed since it was approved"
        trusted = self.ledger.trusted(npc, listing, began, at)
        if not trusted and not (asked and self.ledger.asked and tier > Tier.FAST):
            return "it is not approved"
        if is_down(listing, self.failed()):
            return "its server is down"
        if not self.ledger.served(listing, at):
            return "its server was taken away, or does not serve it any more"
        if broken := self._broken_down(listing, at):
            return broken
        if listing.estimate.tier > tier:
            return f"it is {listing.estimate.tier} in a {tier} turn"
        if self.runs is None:
            return None  # its real latency cannot be seen
        runs = self.runs.get(listing.key, ())
        if listing.definition.cacheable and len(runs) >= _IN_A_ROW:
            return None  # who of several callers measured is not to be seen
        seen = self.seen(listing.key)
        known = Speed(
            runs=len(runs),
            took=tuple(seen.took(at, runs, self._lives(listing))),
            remembered=self._remembered(listing),
            silent=seen.silent() if len(runs) >= _IN_A_ROW else 0,
        )
        unknown = self.ledger.configs[-1].calibration.unknown
        return too_slow(listing, tier, self.limits, at, known, unknown)

    def on_trial(self, listing: CatalogueEntry) -> bool:
        """True if certainly nothing is known of the tool's latency."""
        if self.runs is None or listing.definition.estimated_duration is not None:
            return False
        return (
            all(x.calibration.unknown is Unknown.TRIAL for x in self.ledger.configs)
            and len(self.runs.get(listing.key, ())) < _UNMEASURED
            and not self._remembered(listing)
        )

    def _remembered(self, listing: CatalogueEntry) -> tuple[float, ...]:
        return self.remembered.get((listing.definition.origin, listing.key), ())

    def _lives(self, listing: CatalogueEntry) -> Sequence[float]:
        external, group = listing.definition.external, listing.definition.group
        return self.lives(group) if external else ()

    def _has_changed(self, listing: CatalogueEntry) -> bool:
        first = self.first.get(listing.key)
        now = listing.definition
        return (
            first is not None
            and now.external
            and (first.description, first.parameters)
            != (now.description, now.parameters)
            and self.ledger.approves(listing)
        )

    def _approved(self, turn: TurnRecord, round_: RoundSeen, call: ToolCall) -> bool:
        """True if this very call was approved."""
        ids = [x.id for x in round_.said or (call,)]
        return ids.count(call.id) == 1 and any(
            x.decision is Decision.APPROVED and x.call == call
            for _, x in turn.settled.values()
        )

    def _surely_granted(
        self, turn: TurnRecord, listing: CatalogueEntry, at: float
    ) -> bool:
        """Whatever is read, the NPC was granted it; deferral hides nothing."""
        in_question = [
            *self.ledger.as_configured(turn.npc, turn.began),
            *self.ledger.as_configured(turn.npc, at),
        ]
        return all(
            any(x in (listing.key, "*.*") for x in npc.tools) for npc in in_question
        )

    def _untrue(
        self,
        listing: CatalogueEntry,
        reason: Reason,
        tier: Tier,
        turn: TurnRecord,
        left: float,
    ) -> bool:
        match reason:
            case Reason.OVER_TIER:
                return listing.estimate.tier <= tier
            case Reason.OVER_BUDGET:
                return listing.estimate.seconds <= left
            case Reason.NEEDS_APPROVAL | Reason.NOT_TRUSTED:
                return not listing.definition.external
            case Reason.CHANGED:
                first = self.first.get(listing.key)
                return first is not None and first == listing.definition
        return False

    def _in_order(
        self, round_: RoundSeen, call: CallSeen, no: Callable[[Promise, str], None]
    ) -> None:
        if not call.writes:
            return
        group = call.tool.partition(".")[0]
        for other in round_.calls:
            same = other.writes and other.tool.partition(".")[0] == group
            if same and other.slot < call.slot and other.outcome is None:
                no(Promise.IN_ORDER, f"begins before {other.tool} has ended")

    def _broken_down(self, listing: CatalogueEntry, at: float) -> str | None:
        """Five failures in a row, or calls that do not stop: its breaker is open."""
        if listing.definition.cacheable:
            return None  # who of several callers measured is not to be seen
        seen = self.seen(listing.key)
        since = seen.broke_down_at()
        # A call that answered in the moment in which its limit was reached ended as a
        # timeout, and the tool was well all the same.
        answered = {
            x.over for x in (self.runs or {}).get(listing.key, ()) if x.complete
        }
        unseen = any(
            x.ahead
            or (
                x.ended in answered
                and x.outcome is not None
                and x.outcome.status is Status.TIMEOUT
            )
            for x in seen.ended
        )
        if (
            self.steady
            and not unseen
            and since is not None
            and since < at < since + _PAUSE
        ):
            return f"it failed five times in a row, {at - since:g} s ago"
        strays = [
            run
            for run in (self.runs or {}).get(listing.key, ())
            if run.over is None
            and run.act.ending is Ending.STUBBORN
            and any(
                x.began == run.began
                and x.arguments == run.arguments
                and x.ended is not None
                and not x.goes_on
                and x.ended + _GRACE < at - self.slack
                for x in seen.ended
            )
        ]
        if not listing.definition.external and len(strays) >= _STRAYS:
            return f"{len(strays)} calls of it do not stop"
        return None
