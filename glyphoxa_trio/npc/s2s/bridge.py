"""The bridge between a tool host and a conversation with a speech-to-speech model.

The model sees the tools of a tier as native functions. Its calls pass the host's only
gate, and each is answered once. Every speech-to-speech NPC has a bridge, and an
embedder without NPCs can have one too (`standing`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

import trio

from glyphoxa_trio.host import (
    Caller,
    CatalogueEntry,
    LoadedTools,
    ToolHost,
    VisibleTools,
    showing,
)
from glyphoxa_trio.npc.prompting import specs_of
from glyphoxa_trio.providers.s2s import (
    Calling,
    Capabilities,
    S2STool,
    Schedule,
)
from glyphoxa_trio.tools.definition import OnInterrupt
from glyphoxa_trio.tools.gate import Grant, Reason
from glyphoxa_trio.tools.outcome import Outcome, Status, ToolCall
from glyphoxa_trio.tools.search import DEFER_THRESHOLD
from glyphoxa_trio.tools.speech import outcome_text
from glyphoxa_trio.tools.tier import Tier

from .realtime_conversation import RealtimeConversation

TOOL_TIMEOUT = 30.0

# How long the user may wait for a call in silence, and a little longer for a tool that
# has usually answered by then. Seconds.
_SILENCE: Final = 1.0
_NEARLY: Final = 1.5
_A_LITTLE: Final = 0.1

# Reasons for which a tool is only temporarily unusable: it stays declared, and the gate
# refuses its calls.
_PASSING: Final = (Reason.UNAVAILABLE, Reason.HOLDS_LOOP, Reason.OVER_TIER)


@attrs.define(eq=False, kw_only=True)
class ToolBridge:
    """The tools of one conversation: all tools of its tier, however slow they are.

    They are declared once, and again when the tier, the grant, the catalogue or the set
    of loaded tools has changed. New measurements of a tool, or its temporary failure,
    are no reason to declare them again.

    Args:
      host: runs the calls.
      live: the conversation.
      grant: the tools that may be used.
      tier: the slowest tier that is declared.
      tool_timeout: the limit of every call in seconds, whatever its tool, its server
        and its turn permit.
      shelf: the loaded tools.
      defer_threshold: how many external tools are declared in full.
      whose: tenant and session.
      pending: as in `Caller`.
    """

    host: ToolHost
    live: RealtimeConversation
    grant: Grant
    tier: Tier = Tier.FAST
    tool_timeout: float = TOOL_TIMEOUT
    shelf: LoadedTools = attrs.field(factory=LoadedTools)
    defer_threshold: int = DEFER_THRESHOLD
    whose: tuple[str, str] = ("", "")
    pending: dict[tuple[str, str], ToolCall] = attrs.field(factory=dict)
    _showing: VisibleTools = attrs.field(
        factory=lambda: VisibleTools(shown=()), init=False
    )
    _revision: int = attrs.field(default=0, init=False)
    _declared: tuple[S2STool, ...] = attrs.field(default=(), init=False)
    _declared_to: Capabilities | None = attrs.field(default=None, init=False)
    # keys of the declared tools
    _told: frozenset[str] = attrs.field(default=frozenset(), init=False)
    # The tier that the model knows for certain, while it may not know the latest one.
    _known: Tier | None = attrs.field(default=None, init=False)

    def become(
        self,
        grant: Grant,
        *,
        tool_timeout: float | None = None,
        defer_threshold: int | None = None,
    ) -> None:
        """Use these settings from the next `show` on; None changes nothing."""
        self.grant = grant
        if tool_timeout is not None:
            self.tool_timeout = tool_timeout
        if defer_threshold is not None:
            self.defer_threshold = defer_threshold

    def show(self, tier: Tier) -> VisibleTools:
        """Declare the tools of this tier, and return the visible tools.

        A call may use the new tier's time at once if that is the faster tier, and
        otherwise once the model has been told of its tools.
        """
        before, revision = self.effective, self._revision
        if tier < self.tier:
            self._told = frozenset()
        self.tier = tier
        self.refresh()
        if self._revision != revision:
            self._known = min(before, tier)
        return self._showing

    def refresh(self) -> None:
        """Declare the tools that may be used now, if they have changed."""
        explained = self.host.explain(
            self.tier, grant=self.grant, remaining=math.inf, whose=self.whose
        )
        self._showing = showing(
            [
                (
                    x,
                    None
                    if no and no.reason in _PASSING and x.key in self._told
                    else no,
                )
                for x, no in explained
            ],
            self.shelf,
            threshold=self.defer_threshold,
            permitted=self._permitted,
        )
        shown, capabilities = self._showing.shown, self.live.capabilities
        self._told = frozenset(listing.key for listing in shown)
        fresh = {x.spec.name: x for x in declarations(shown, capabilities)}
        # Keep what was declared and its order, so that vendors' prompt caches stay
        # valid.
        before = self._declared if self._declared_to == capabilities else ()
        kept = [x for x in before if _is_same(x, fresh.get(x.spec.name))]
        names = {tool.spec.name for tool in kept}
        new = [tool for name, tool in fresh.items() if name not in names]
        declared = (*kept, *new)
        # Removing tools is not worth a new socket: the gate refuses their calls.
        if new or (capabilities.live_tools and declared != self._declared):
            self._declared, self._declared_to = declared, capabilities
            self._revision = self.live.set_tools(declared)

    def stays_owed(self, call: ToolCall) -> bool:
        """Return True if the model keeps talking while this call runs, however long."""
        capabilities = self.live.capabilities
        calling = capabilities.calling[0]
        for tool in self._declared:
            if tool.spec.name == call.name:
                calling = tool.calling
        return calling in capabilities.stays_owed

    def _permitted(self, left: float) -> tuple[CatalogueEntry, ...]:
        return self.host.tools(
            self.tier, grant=self.grant, remaining=math.inf, whose=self.whose
        )

    @property
    def effective(self) -> Tier:
        """The slowest tier that a call may use now."""
        if self._known is None or self.live.is_in_force(self._revision):
            return self.tier
        return self._known

    @property
    def showing(self) -> VisibleTools:
        """The visible tools."""
        return self._showing

    async def update_tier(self, tier: Tier, *, within: float = 5.0) -> bool:
        """Declare another tier's tools during a conversation.

        Return True if the model was told within ``within`` seconds. If not, it will be,
        and until then calls are held to the faster of the two tiers.
        """
        self.show(tier)
        with trio.move_on_after(within):
            await self.told()
        return self.live.is_in_force(self._revision)

    async def told(self) -> None:
        """Wait, without a limit, until the model was told of the tools."""
        await self.live.tools_in_force(self._revision)

    async def run(
        self,
        calls: Sequence[ToolCall],
        caller: Caller,
        *,
        deadline: float,
        remaining: float,
    ) -> list[Outcome]:
        """Run the calls of one response, and answer each as soon as it has ended.

        ``deadline`` and ``remaining`` are as in `ToolHost.fan_out`, except that a call
        that would take longer is not refused: it continues after the turn, for at most
        ``tool_timeout`` seconds, and the model is told the outcome later. A call known
        to take longer is left at once. If the model waits for a call in silence, it
        waits for about a second at most.

        Cancelling `run` is an interruption: running calls are treated by their tool's
        policy, and every call is still answered, silently. A call that continues is
        answered when it has ended.
        """
        now, missing = trio.current_time(), len(calls)
        if silent := [x for x in calls if not self.stays_owed(x)]:
            deadline = min(deadline, now + self.patience(silent))
        left: dict[str, Status] = {}  # the status at the end of the turn, by call id

        def leaves(call: ToolCall, tool: str) -> None:
            left[call.id] = Status.PENDING
            if caller.on_left is not None:
                caller.on_left(call, tool)

        def ended(slot: int, outcome: Outcome) -> None:
            nonlocal missing
            missing -= 1
            if outcome.call.id in left:
                left[outcome.call.id] = outcome.status
                self._leave(outcome)
            else:
                # The model speaks once, after the last result, if the wire permits
                # that.
                self.answer(outcome, quietly=missing > 0)
            if caller.on_outcome is not None:
                caller.on_outcome(slot, outcome)

        def late(outcome: Outcome) -> None:
            if caller.on_late is not None:
                caller.on_late(outcome)
            self._finish(outcome, left[outcome.call.id])

        return await self.host.fan_out(
            calls,
            attrs.evolve(
                caller,
                longest=self.tool_timeout,
                on_outcome=ended,
                on_left=leaves,
                on_late=late,
            ),
            deadline=deadline,
            remaining=remaining,
        )

    def patience(self, calls: Iterable[ToolCall]) -> float:
        """Return how many seconds these calls may be waited for in silence."""
        known = self.host.snapshot.by_exposed
        usual = [known[x.name].estimate.seconds for x in calls if x.name in known]
        nearly = any(_SILENCE <= x <= _NEARLY for x in usual)
        return _NEARLY + _A_LITTLE if nearly else _SILENCE

    def _leave(self, outcome: Outcome) -> None:
        """Leave a call running that its turn no longer waits for."""
        interim = None if self.stays_owed(outcome.call) else self._text(outcome)
        wanted = outcome.status is Status.PENDING
        self.live.leave(outcome.call, interim=interim, wanted=wanted)

    def _finish(self, outcome: Outcome, before: Status) -> None:
        """Give the outcome of a call that ended its turn with the status ``before``."""
        listing = self.host.snapshot.by_key.get(outcome.tool or "")
        definition = None if listing is None else listing.definition
        schedule = self.schedule_of(outcome.call)
        policy = None if definition is None else definition.interruption
        speaks = before is Status.PENDING or policy is OnInterrupt.FINISH_AND_SPEAK
        self.live.finish(
            outcome.call,
            self._text(outcome),
            is_error=not outcome.ok,
            schedule=schedule if speaks else Schedule.SILENT,
            matters=definition is None or definition.side_effects,
        )

    def _text(self, outcome: Outcome) -> str:
        """Return the outcome as text, shortened to what the wire can carry."""
        capabilities = self.live.capabilities
        return outcome_text(
            outcome, cap=capabilities.max_result, max_depth=capabilities.result_depth
        )

    def settled(self, call_id: str) -> None:
        """Forget a pending call that was told: the model may repeat the call."""
        for key in [key for key, x in self.pending.items() if x.id == call_id]:
            del self.pending[key]

    def schedule_of(self, call: ToolCall) -> Schedule:
        """Return what the model should do with the answer, by the tool's definition."""
        listing = self.host.snapshot.by_exposed.get(call.name)
        return Schedule.WHEN_IDLE if listing is None else listing.definition.schedule

    def answer(self, outcome: Outcome, *, quietly: bool = False) -> None:
        """Tell the model the outcome of a call, shortened to what the wire can carry.

        ``quietly``: the model should not speak of it now.
        """
        capabilities = self.live.capabilities
        interrupted = outcome.status is Status.CANCELLED
        schedule = self.schedule_of(outcome.call)
        if interrupted or (quietly and Schedule.SILENT in capabilities.scheduling):
            schedule = Schedule.SILENT
        self.live.answer(
            outcome.call,
            self._text(outcome),
            is_error=not outcome.ok,
            schedule=schedule,
            wanted=not interrupted,
        )


def _is_same(declared: S2STool, fresh: S2STool | None) -> bool:
    return fresh is not None and declared.spec == fresh.spec


def declarations(
    shown: Sequence[CatalogueEntry], capabilities: Capabilities
) -> list[S2STool]:
    """Return the tools in the form in which a speech-to-speech model is told of them.

    Where the wire permits, the model keeps speaking while a slow tool runs and waits
    for a fast one.
    """
    quick, slow = capabilities.calling[0], capabilities.calling[0]
    if Calling.BLOCKING in capabilities.calling:
        quick = Calling.BLOCKING
    if Calling.NON_BLOCKING in capabilities.calling:
        slow = Calling.NON_BLOCKING
    return [
        S2STool(
            spec=spec, calling=quick if listing.estimate.tier is Tier.FAST else slow
        )
        for listing, spec in zip(shown, specs_of(shown), strict=True)
    ]
