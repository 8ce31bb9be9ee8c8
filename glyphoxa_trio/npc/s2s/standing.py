"""A bridge to the tools without an NPC, for an embedder's own conversation.

    async with open_bridge(host, live, tier=Tier.FAST, grant=grant) as bridge:
        async for event in bridge:      # what the model says, as it says it
            ...
        await bridge.update_tier(Tier.DEEP)

Leaving the block removes the tools; the conversation and the host stay open.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager

import attrs

import trio

from glyphoxa_trio.actors import Signal, Stream
from glyphoxa_trio.host import Caller, RunsCalls, ToolHost
from glyphoxa_trio.npc.clock import Clock
from glyphoxa_trio.providers.llm import LLMError
from glyphoxa_trio.providers.s2s import Complaint, Event, TranscriptLine
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.outcome import Outcome, ToolCall
from glyphoxa_trio.tools.tier import Tier

from .bridge import TOOL_TIMEOUT, ToolBridge
from .interaction import Interaction
from .realtime_conversation import RealtimeConversation
from .response_loop import ResponseLoop
from .shell import ConversationOwner


@attrs.frozen(eq=False)
class _Calls:
    """The calls of one response, without an NPC."""

    _bridge: ToolBridge
    _clock: Clock
    _calls: Sequence[ToolCall]
    _last: bool

    async def run(self, fan_out: RunsCalls) -> list[Outcome]:
        bridge, clock = self._bridge, self._clock
        caller = Caller(
            grant=bridge.grant,
            tier=bridge.effective,
            still=lambda: (bridge.grant, bridge.effective),
            showing=bridge.showing,
            pending=bridge.pending,
        )
        if self._last:
            caller = attrs.evolve(caller, max_calls=0)
        now = trio.current_time()
        remaining, deadline = clock.remaining(now), clock.start(now)
        try:
            return await fan_out(
                self._calls, caller, deadline=deadline, remaining=remaining
            )
        finally:
            clock.stop(trio.current_time())

    async def tell(self) -> None:
        """Report nothing: the listener gets only the wire's events."""


@attrs.define(eq=False)
class _Standing:
    """Runs a bridge's interactions one after another, each with a tool clock."""

    bridge: ToolBridge
    stream: Stream[Event]
    _next: Interaction | None = attrs.field(default=None, init=False)
    _arrived: Signal = attrs.field(factory=Signal, init=False)

    def begin(self, interaction: Interaction) -> None:
        if self._next is not None:
            self.bridge.live.end(self._next)  # overtaken before it was started
        self._next = interaction
        self._arrived.set()

    async def run(self) -> None:
        while True:
            while (interaction := self._next) is None:
                await self._arrived.changed()
            self._next = None
            await self._follow(interaction)

    async def _follow(self, interaction: Interaction) -> None:
        bridge, live = self.bridge, self.bridge.live
        clock = Clock(bridge.host.settings.limits.ceiling(bridge.tier))
        rounds = ResponseLoop(
            bridge=bridge,
            interaction=interaction,
            hear=self.stream.send,
            round_of=lambda _, calls, last: _Calls(bridge, clock, calls, last),
        )
        try:
            await rounds.run()
        except LLMError as error:
            self.stream.post(
                Complaint(kind=error.kind, code=error.kind, detail=error.detail)
            )
        finally:
            if not rounds.finished:
                live.interrupt({}, of=interaction)
            live.end(interaction)


@attrs.define(eq=False)
class StandingBridge:
    """The bridge that an embedder holds: iterate over it for the wire's events.

    The calls of the model are run and answered meanwhile.
    """

    bridge: ToolBridge
    _standing: _Standing

    async def update_tier(self, tier: Tier, *, within: float = 5.0) -> bool:
        """Declare another tier's tools; see `ToolBridge.update_tier`."""
        return await self.bridge.update_tier(tier, within=within)

    def say(self, text: str) -> None:
        """Say something in text. The response that is going on is interrupted."""
        self._standing.begin(self.bridge.live.begin())
        self.bridge.live.say(TranscriptLine("user", text))

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._standing.stream


@asynccontextmanager
async def open_bridge(
    host: ToolHost,
    live: RealtimeConversation,
    *,
    grant: Grant,
    tier: Tier = Tier.FAST,
    tool_timeout: float = TOOL_TIMEOUT,
) -> AsyncGenerator[StandingBridge]:
    """Declare the tools of ``tier`` on ``live`` and run the model's calls in the block.

    Leaving the block removes the tools, cancels running calls, and answers later ones
    with an error. The conversation and the host stay open.

    Raises:
      ValueError: the conversation has a bridge already.
    """
    if live.owned:
        raise ValueError("this conversation has a bridge already")
    bridge = ToolBridge(
        host=host, live=live, grant=grant, tier=tier, tool_timeout=tool_timeout
    )
    standing = _Standing(bridge, Stream())
    live.belong_to(ConversationOwner(spoken=standing.begin, settled=bridge.settled))
    bridge.show(tier)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(standing.run)
            try:
                yield StandingBridge(bridge, standing)
            finally:
                nursery.cancel_scope.cancel("the bridge was closed")
    finally:
        standing.stream.end()
        live.belong_to(None)
        live.set_tools(())
