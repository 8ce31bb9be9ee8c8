"""Between a tool host and a speech-to-speech conversation (G35).

The model sees the tools of a tier as native functions; its calls run through the
host's one gate, and each is answered once. An NPC has one, and so has an embedder
without NPCs (`standing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import attrs

import trio

from glyphoxa_trio.host import (
    Caller,
    Listing,
    Shelf,
    Showing,
    ToolHost,
)
from glyphoxa_trio.npc.prompting import specs_of, view_of
from glyphoxa_trio.providers.s2s import (
    Calling,
    Capabilities,
    S2STool,
    Schedule,
)
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.outcome import Outcome, Status, ToolCall
from glyphoxa_trio.tools.search import DEFER_THRESHOLD
from glyphoxa_trio.tools.speech import outcome_text
from glyphoxa_trio.tools.tier import Tier

from .live import Live

TOOL_TIMEOUT = 30.0


@attrs.define(eq=False, kw_only=True)
class Bridge:
    """The tools of one conversation.

    Args:
      tool_timeout: seconds that no call exceeds, whatever its tool, its server and
        its turn say.
      defer_threshold: so many external tools are shown in full.
      whose: tenant and session.
    """

    host: ToolHost
    live: Live
    grant: Grant
    tier: Tier = Tier.FAST
    tool_timeout: float = TOOL_TIMEOUT
    shelf: Shelf = attrs.field(factory=Shelf)
    defer_threshold: int = DEFER_THRESHOLD
    whose: tuple[str, str] = ("", "")
    _showing: Showing = attrs.field(factory=lambda: Showing(shown=()), init=False)
    _revision: int = attrs.field(default=0, init=False)
    _declared: list[S2STool] = attrs.field(factory=list, init=False)
    # What the model certainly knows of, while it may not know of the rest yet.
    _known: Tier | None = attrs.field(default=None, init=False)

    def become(
        self,
        grant: Grant,
        *,
        tool_timeout: float | None = None,
        defer_threshold: int | None = None,
    ) -> None:
        """Go by these from the next `show` on; None changes nothing."""
        self.grant = grant
        if tool_timeout is not None:
            self.tool_timeout = tool_timeout
        if defer_threshold is not None:
            self.defer_threshold = defer_threshold

    def show(self, tier: Tier, *, remaining: float | None = None) -> Showing:
        """Declare the tools of this tier; what a call may do changes with it.

        Downwards at once. Upwards once the model has been told (D23a).
        """
        if remaining is None:
            remaining = self.host.settings.limits.ceiling(tier)
        before = self.effective
        self.tier = tier
        self._showing = self._view(tier, remaining)
        declared = declarations(self._showing.shown, self.live.capabilities)
        # A socket of its own is too much for fewer tools: the gate refuses the others.
        known = all(tool in self._declared for tool in declared)
        if self.live.capabilities.live_tools or not known:
            self._declared = declared
            self._revision = self.live.set_tools(declared)
            self._known = min(before, tier)
        return self._showing

    def _view(self, tier: Tier, remaining: float) -> Showing:
        return view_of(
            self.host,
            self.shelf,
            tier=tier,
            grant=self.grant,
            remaining=remaining,
            threshold=self.defer_threshold,
            permitted=partial(self._permitted, tier),
        )

    def _permitted(self, tier: Tier, left: float) -> tuple[Listing, ...]:
        return self.host.tools(tier, grant=self.grant, remaining=left, whose=self.whose)

    def refresh(self, *, remaining: float) -> None:
        """Declare what was loaded meanwhile; what is there stays as it is."""
        if self.live.capabilities.live_tools:
            shown = {listing.key for listing in self._showing.shown}
            before, self._showing = self._showing, self._view(self.tier, remaining)
            if {listing.key for listing in self._showing.shown} <= shown:
                self._showing = before
            else:
                declared = declarations(self._showing.shown, self.live.capabilities)
                self._revision = self.live.set_tools(declared)

    @property
    def effective(self) -> Tier:
        """The slowest tier that a call may have now."""
        if self._known is None or self.live.is_in_force(self._revision):
            return self.tier
        return self._known

    @property
    def showing(self) -> Showing:
        return self._showing

    async def update_tier(self, tier: Tier, *, within: float = 5.0) -> bool:
        """Declare another tier's tools in the middle of a conversation.

        Returns whether the model has been told of them; if not, it will be, and until
        then calls are held to the lower of both tiers.
        """
        self.show(tier)
        with trio.move_on_after(within):
            await self.told()
        return self.live.is_in_force(self._revision)

    async def told(self) -> None:
        """Return once the model knows of the tools. Has no end of its own."""
        await self.live.tools_in_force(self._revision)

    async def run(
        self,
        calls: Sequence[ToolCall],
        caller: Caller,
        *,
        deadline: float,
        remaining: float,
    ) -> list[Outcome]:
        """Run the calls of one response and answer each as soon as it has ended.

        ``deadline`` and ``remaining`` are as in `ToolHost.fan_out`.

        Cancelling it is an interruption: what runs is treated by its policy, and every
        call is answered all the same, silently.
        """
        told, missing = caller.on_outcome, len(calls)

        def ended(slot: int, outcome: Outcome) -> None:
            nonlocal missing
            missing -= 1
            # Spoken of once, with the last of them, where the model can be told so.
            self.answer(outcome, quietly=missing > 0)
            if told is not None:
                told(slot, outcome)

        limit = trio.current_time() + self.tool_timeout
        return await self.host.fan_out(
            calls,
            attrs.evolve(caller, on_outcome=ended),
            deadline=min(deadline, limit),
            remaining=min(remaining, self.tool_timeout),
        )

    def schedule_of(self, call: ToolCall) -> Schedule:
        """What the model is to do with the answer, as the tool's definition has it."""
        listing = self.host.snapshot.by_exposed.get(call.name)
        return Schedule.WHEN_IDLE if listing is None else listing.definition.schedule

    def answer(self, outcome: Outcome, *, quietly: bool = False) -> None:
        """Tell the model what became of a call, within what its wire can carry.

        ``quietly``: it is not to speak of it now.
        """
        capabilities = self.live.capabilities
        interrupted = outcome.status is Status.CANCELLED
        schedule = self.schedule_of(outcome.call)
        if interrupted or (quietly and Schedule.SILENT in capabilities.scheduling):
            schedule = Schedule.SILENT
        self.live.answer(
            outcome.call,
            outcome_text(
                outcome,
                cap=capabilities.max_result,
                max_depth=capabilities.result_depth,
            ),
            is_error=not outcome.ok,
            schedule=schedule,
            wanted=not interrupted,
        )


def declarations(shown: Sequence[Listing], capabilities: Capabilities) -> list[S2STool]:
    """Tools as a speech-to-speech model is told of them.

    It goes on speaking while a slow one runs, where it can; a quick one is waited for.
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
