"""A runtime to test NPCs in: a real host, a real session, and a scripted model.

A reply of the model is a list of steps: a number is a pause in seconds, text a
piece of the answer, a `ToolCall` a call, an exception is raised, `HANG` is
silence for ever. `Finished` follows by itself, unless it is one of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from math import inf
from typing import Any, Final

import attrs

import trio
from trio.testing import wait_all_tasks_blocked

from glyphoxa_trio.actors import Inbox, Ref, StableRef, Topic, lone_errors, spawn
from glyphoxa_trio.config import NpcConfig, TurnConfig
from glyphoxa_trio.config.voices import Engine, FillerConfig
from glyphoxa_trio.host import ToolHost, open_host
from glyphoxa_trio.npc import Approver, Npc, NpcSession, Turn, TurnDone, TurnEvent
from glyphoxa_trio.npc.identity import NpcId
from glyphoxa_trio.npc.s2s import RealtimeConversation
from glyphoxa_trio.npc.selection import SelectionRules
from glyphoxa_trio.npc.selector import Selector
from glyphoxa_trio.npc.session import open_session
from glyphoxa_trio.npc.session.messages import SessionMessages
from glyphoxa_trio.npc.turn.memory import NpcMemory
from glyphoxa_trio.npc.turn.settings import Links, Services, SessionSettings
from glyphoxa_trio.providers.llm import (
    CallReady,
    Finished,
    LLMEvent,
    LLMRequest,
    Message,
    Switched,
    TextChunk,
    Waiting,
    Working,
)
from glyphoxa_trio.tools.definition import (
    CallContext,
    Tool,
    ToolDefinition,
    ToolError,
)
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.outcome import ToolCall, ToolResult
from glyphoxa_trio.tools.tier import Tier

HANG: Final = inf
NOBODY: Any = None
Step = float | str | ToolCall | Working | Waiting | Switched | Finished | Exception
Reply = Sequence[Step]
Script = Sequence[Reply] | Callable[[LLMRequest], Reply]


@attrs.define(eq=False)
class ScriptedLLM:
    """Plays one reply per request, in order; a request too many is a bug.

    ``asked`` are the times of the requests, ``open`` counts the rounds that are going
    on, ``hang_up`` is how many seconds the end of one takes, whoever cancels it if it
    is ``deaf``.
    """

    script: Script
    hang_up: float = 0.0
    deaf: bool = True
    requests: list[LLMRequest] = attrs.field(factory=list)
    asked: list[float] = attrs.field(factory=list)
    open: int = 0

    @property
    def label(self) -> str:
        return "scripted"

    @asynccontextmanager
    async def stream(
        self, request: LLMRequest
    ) -> AsyncIterator[AsyncIterator[LLMEvent]]:
        self.requests.append(request)
        self.asked.append(trio.current_time())
        if callable(self.script):
            reply = self.script(request)
        else:
            reply = self.script[len(self.requests) - 1]
        self.open += 1
        try:
            yield _Played(iter(reply))
        finally:
            try:
                with trio.CancelScope(shield=self.deaf):
                    await trio.sleep(self.hang_up)
            finally:
                self.open -= 1

    def told(self, round_: int = -1) -> list[tuple[str, str]]:
        """The roles and contents of one request, without the opening prompt."""
        messages = self.requests[round_].messages[1:]
        return [(message.role, message.content) for message in messages]

    def shown(self) -> list[list[str]]:
        """The names of the tools, for each request."""
        return [[spec.name for spec in request.tools] for request in self.requests]


@attrs.define(eq=False)
class _Played:
    _steps: Iterator[Step]
    _over: bool = False

    def __aiter__(self) -> _Played:
        return self

    async def __anext__(self) -> LLMEvent:
        await trio.lowlevel.checkpoint()
        for step in self._steps:
            match step:
                case str():
                    return TextChunk(step)
                case ToolCall():
                    return CallReady(step)
                case Working() | Switched() | Waiting():
                    return step
                case Finished():
                    self._over = True
                    return step
                case Exception():
                    raise step
                case seconds:
                    await trio.sleep(seconds)
        if self._over:
            raise StopAsyncIteration
        self._over = True
        return Finished()


def call(name: str, arguments: str = "{}", *, id: str = "") -> ToolCall:  # noqa: A002
    """A call as a model writes it; its id is ``id``, or made of its name."""
    return ToolCall(id or f"call_{name}", name, arguments)


@attrs.define
class Ran:
    """When the tools ran: (name, virtual time)."""

    began: list[tuple[str, float]] = attrs.field(factory=list)
    ended: list[tuple[str, float]] = attrs.field(factory=list)
    cancelled: list[tuple[str, float]] = attrs.field(factory=list)

    def tool(
        self,
        name: str,
        seconds: float = 0.0,
        *,
        error: Exception | None = None,
        **definition: Any,
    ) -> Tool:
        """A read-only tool that takes so long, and says so in its declaration."""

        async def handler(arguments: Any, context: CallContext) -> ToolResult:
            self.began.append((name, trio.current_time()))
            try:
                await trio.sleep(seconds)
            except trio.Cancelled:
                self.cancelled.append((name, trio.current_time()))
                raise
            self.ended.append((name, trio.current_time()))
            if error is not None:
                raise error
            return ToolResult(text=(f"{name} is done",))

        estimate = min(max(seconds, 0.001), 10.0)
        fields: dict[str, Any] = {
            "group": "test",
            "estimated_duration": estimate,
            "read_only": True,
            "parameters": {"type": "object"},
        }
        definition_ = ToolDefinition(name=name, **(fields | definition))
        return Tool(definition=definition_, handler=handler)


def no(text: str = "the well is dry") -> ToolError:
    return ToolError(text)


@attrs.define(eq=False)
class Chronicle(Topic[TurnEvent]):
    """A topic that keeps what was published, with its virtual time."""

    kept: list[tuple[float, TurnEvent]] = attrs.field(factory=list)
    on_publish: Callable[[TurnEvent], None] | None = None

    def publish(self, event: TurnEvent) -> None:
        self.kept.append((trio.current_time(), event))
        if self.on_publish is not None:
            self.on_publish(event)
        super().publish(event)

    def of(self, turn: int) -> list[TurnEvent]:
        return [event for _, event in self.kept if event.turn == turn]

    def all(self, kind: type[Any]) -> list[Any]:
        return [event for _, event in self.kept if isinstance(event, kind)]


@attrs.define(eq=False, kw_only=True)
class Table:
    npc: Npc
    llm: ScriptedLLM
    fast: ScriptedLLM
    host: ToolHost
    session: NpcSession
    ref: Ref[Any]
    # What a session gets that begins now, or is configured again.
    links: Links
    events: Chronicle
    ran: Ran
    # Cancelled, it is the end of the session, as when a runtime is closed.
    scope: trio.CancelScope

    async def reload(self, **changes: Any) -> Npc:
        """Have the NPC be configured otherwise, as a reload does."""
        settings = attrs.evolve(self.session.settings, **changes)
        return await self.npc.become(settings)


@asynccontextmanager
async def open_table(
    script: Script,
    *tools: Tool,
    ran: Ran | None = None,
    tier: Tier = Tier.DEEP,
    npc: NpcConfig | None = None,
    turn: TurnConfig | None = None,
    grant: Grant | None = None,
    selector: Callable[[Any], Any] | None = None,
    approver: Approver | None = None,
    rules: SelectionRules | None = None,
    fast: Script | None = None,
    llm: ScriptedLLM | None = None,
    live: RealtimeConversation | None = None,
    call_id: str = "session",
    **more: Any,
) -> AsyncIterator[Table]:
    """One NPC named Bob, by default with every tool, a DEEP ceiling, and no fillers.

    Args:
      fast: what the fast model of a sentence cascade says; None is no cascade.
      llm: plays the script, if it is not an ordinary one.
      more: of `SessionSettings` or `Services`.
    """
    config = npc or NpcConfig(
        name="Bob",
        budget_tier=tier,
        fallback=("Hm?", "What was that?"),
        engine=Engine.CASCADED if fast is None else Engine.SENTENCE_CASCADE,
    )
    granted = grant or Grant(npc="Bob", tools=("*",), approver=approver is not None)
    llm, events = llm or ScriptedLLM(script), Chronicle()
    opening = ScriptedLLM(fast or [])
    of_settings = {x.name for x in attrs.fields(SessionSettings)} & more.keys()
    more.setdefault("filler", FillerConfig(enabled=False))
    settings = SessionSettings(
        npc=config,
        turn=turn or TurnConfig(),
        grant=granted,
        **{name: more.pop(name) for name in {"filler", *of_settings}},
    )
    table: Table

    def links(settings: SessionSettings, _: NpcId) -> Links:
        speaks = settings.npc.engine is Engine.S2S
        return table.links if speaks else attrs.evolve(table.links, live=None)

    with lone_errors():
        async with open_host() as host, trio.open_nursery() as nursery:
            host.register(*tools)
            actor: Any = selector or Selector(rules or SelectionRules()).run
            services = Services(
                host=host,
                links=links,
                selector=spawn(nursery, actor, name="selector"),
                events=events,
                approver=approver,
                **more,
            )
            table = Table(
                npc=NOBODY,
                llm=llm,
                fast=opening,
                host=host,
                session=NOBODY,
                ref=NOBODY,
                links=Links(llm=llm, fast=opening, live=live),
                events=events,
                ran=ran or Ran(),
                scope=nursery.cancel_scope,
            )
            memory = NpcMemory(settings, call_id)

            async def body(inbox: Inbox[SessionMessages]) -> None:
                async with open_session(memory, services) as table.session:
                    await table.session.read(inbox)

            table.ref = spawn(nursery, body, name="bob")
            table.npc = Npc(
                config, granted, StableRef("bob", table.ref), services.handover
            )
            await wait_all_tasks_blocked()  # it has begun
            try:
                yield table
            finally:
                nursery.cancel_scope.cancel()


@attrs.define(eq=False)
class Heard:
    """What one listener heard of one turn, with virtual times."""

    events: list[tuple[float, TurnEvent]] = attrs.field(factory=list)
    turn: Turn | None = None
    error: Exception | None = None

    @property
    def done(self) -> TurnDone:
        assert self.turn is not None
        assert self.turn.done is not None
        return self.turn.done

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for _, event in self.events if isinstance(event, kind)]

    def when(self, kind: type[Any]) -> list[float]:
        return [at for at, event in self.events if isinstance(event, kind)]

    def only(self, kind: type[Any]) -> Any:
        (event,) = self.of(kind)
        return event

    def kinds(self) -> list[str]:
        return [type(event).__name__ for _, event in self.events]


async def ask(
    npc: Npc,
    text: str = "Hello",
    *,
    speaker: str = "player",
    tier: Tier | None = None,
    after: float = 0.0,
    pace: float = 0.0,
    leave_at: float = inf,
    heard: Heard | None = None,
) -> Heard:
    """Say something and listen to the end, ``pace`` seconds for every event.

    The block is left at ``leave_at`` seconds of the clock.
    """
    heard = Heard() if heard is None else heard
    if after:
        await trio.sleep(after)
    with trio.CancelScope(deadline=leave_at):
        async with npc.say(text, speaker=speaker, tier=tier) as heard.turn:
            async for event in heard.turn:
                heard.events.append((trio.current_time(), event))
                if pace:
                    await trio.sleep(pace)
    return heard


def protocol_faults(messages: Sequence[Message]) -> list[str]:
    """What a strict model server would refuse in a conversation."""
    faults: list[str] = []
    owed: list[str] = []
    for at, message in enumerate(messages):
        if owed:
            if message.role != "tool" or message.call_id != owed.pop(0):
                faults.append(f"{at}: calls are not answered in order")
                owed = []
        elif message.role == "tool":
            faults.append(f"{at}: an answer to nothing")
        if message.role == "assistant":
            owed = [call.id for call in message.calls]
            if not message.calls and not message.content:
                faults.append(f"{at}: an assistant who says nothing")
    return [*faults, *(["calls without an answer"] if owed else [])]
