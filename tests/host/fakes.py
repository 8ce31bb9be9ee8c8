"""Tools that do as they are told, on trio's clock, and write down when they ran."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import Enum
from math import inf
from typing import Any

import attrs

import trio

from glyphoxa_trio.host import Caller, ToolHost
from glyphoxa_trio.tools.definition import (
    CallContext,
    ConnectionLost,
    Tool,
    ToolDefinition,
    ToolError,
    ToolUnavailable,
)
from glyphoxa_trio.tools.gate import EVERYTHING, Grant
from glyphoxa_trio.tools.outcome import Outcome, ToolCall, ToolResult
from glyphoxa_trio.tools.tier import Tier


class Bug(Exception):
    """What a handler dies of."""


class Does(Enum):
    """How a fake ends after its seconds."""

    ANSWER = "answers with its own name"
    SAY_NO = "says no"
    CRASH = "raises something of its own"
    BE_AWAY = "was never reached"
    LOSE = "loses the answer"
    SHIELD = "answers, but does not stop when it is cancelled"
    HANG = "never ends"


@attrs.define
class Log:
    """What ran, as ``name`` at virtual time, and how it ended."""

    began: list[tuple[str, float]] = attrs.field(factory=list)
    ended: list[tuple[str, float]] = attrs.field(factory=list)
    cancelled: list[tuple[str, float]] = attrs.field(factory=list)

    def names(self) -> list[str]:
        return [name for name, _ in self.began]


def fake(
    name: str,
    seconds: float = 0.0,
    does: Does = Does.ANSWER,
    *,
    log: Log | None = None,
    **definition: Any,
) -> Tool:
    """A tool of the group ``fake`` that is declared to take 10 ms."""

    async def handler(_: Mapping[str, Any], __: CallContext) -> ToolResult:
        return await perform(name, seconds, does, log or Log())

    fields: dict[str, Any] = {"group": "fake", "estimated_duration": 0.01}
    fields |= definition
    return Tool(definition=ToolDefinition(name=name, **fields), handler=handler)


async def perform(name: str, seconds: float, does: Does, log: Log) -> ToolResult:
    """What the handler of a fake does."""
    log.began.append((name, trio.current_time()))
    try:
        with trio.CancelScope(shield=does is Does.SHIELD):
            if seconds or does is Does.HANG:
                await trio.sleep(inf if does is Does.HANG else seconds)
    except trio.Cancelled:
        log.cancelled.append((name, trio.current_time()))
        raise
    log.ended.append((name, trio.current_time()))
    return answer(name, does)


def answer(name: str, does: Does) -> ToolResult:
    match does:
        case Does.SAY_NO:
            raise ToolError(f"{name} says no")
        case Does.CRASH:
            raise Bug(f"{name} is broken")
        case Does.BE_AWAY:
            raise ToolUnavailable(f"{name} is away")
        case Does.LOSE:
            raise ConnectionLost(f"{name} is lost")
    return ToolResult(text=(name,))


def call(name: str, call_id: str = "", **arguments: Any) -> ToolCall:
    return ToolCall(call_id or name, name, json.dumps(arguments))


async def fan_out(
    host: ToolHost,
    *calls: ToolCall | str,
    within: float = 0.5,
    grant: Grant = EVERYTHING,
    tier: Tier = Tier.DEEP,
    **caller: Any,
) -> list[Outcome]:
    """Calls by name or in full, run by the operator unless said otherwise."""
    return await host.fan_out(
        [call(one) if isinstance(one, str) else one for one in calls],
        Caller(grant=grant, tier=tier, **caller),
        deadline=trio.current_time() + within,
    )


def messages(outcomes: Iterable[Outcome]) -> list[str]:
    return [outcome.message for outcome in outcomes]


def statuses(outcomes: Iterable[Outcome]) -> list[str]:
    return [str(outcome.status) for outcome in outcomes]
