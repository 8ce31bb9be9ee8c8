"""Hedging as an operator has it: configured, two real servers, and what they log. D12.

No time is judged: what is late here is late by hundreds of what the p95 is.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

import trio

from glyphoxa_trio import Config, ConfigError, Runtime, open_runtime
from glyphoxa_trio.config import (
    CalibrationConfig,
    McpConfig,
    NpcConfig,
    ServerSpec,
    load_text,
)
from glyphoxa_trio.control.status import status_of
from glyphoxa_trio.runtime.plans import plan, strangers
from glyphoxa_trio.tools.hedging import HedgingRules
from glyphoxa_trio.tools.outcome import Outcome

from .test_runtime import PATIENT

TWIN = Path(__file__).parent / "servers" / "twin.py"
LIMIT = 30.0
RULES = HedgingRules(enabled=True, replicas=(("north", "south"),), extra_calls=1.0)


def config(**more: Any) -> Config:
    servers = tuple(
        ServerSpec(name=name, command=("python", str(TWIN), name))
        for name in ("north", "south")
    )
    fields: dict[str, Any] = {
        "npcs": (NpcConfig(name="Bo", tools=("north.look", "south.look")),),
        "mcp": McpConfig(servers=servers),
        "tiers": PATIENT,
        "calibration": CalibrationConfig(at_start=False),
        "hedging": RULES,
    }
    return Config(**(fields | more))


@attrs.define
class Lines:
    """What servers write, and a wait for it."""

    seen: list[tuple[str, str]] = attrs.field(factory=list)
    _news: trio.Event = attrs.field(factory=trio.Event)

    def add(self, server: str, line: str) -> None:
        self.seen.append((server, line))
        self._news.set()
        self._news = trio.Event()

    def of(self, server: str, what: str) -> list[str]:
        """The ids of the requests that a server said this of."""
        lines = [line.split() for name, line in self.seen if name == server]
        return [ident for said, ident in lines if said == what]

    async def until(self, server: str, what: str, count: int) -> list[str]:
        while len(found := self.of(server, what)) < count:
            await self._news.wait()
        return found


@asynccontextmanager
async def running(
    chosen: Config, lines: Lines | None = None
) -> AsyncGenerator[Runtime]:
    told = None if lines is None else lines.add
    with trio.fail_after(LIMIT):
        async with open_runtime(
            chosen, wait_for_servers=LIMIT, on_server_line=told
        ) as runtime:
            assert await runtime.wait_ready(within=LIMIT)
            yield runtime


async def look(runtime: Runtime, **arguments: Any) -> Outcome:
    grant = runtime.npc("Bo").grant
    return await runtime.host.execute("north.look", arguments, grant=grant)


@pytest.mark.border
async def test_the_one_that_loses_is_cancelled_at_its_server() -> None:
    # Row 14 of the wishes: the server's own log shows the cancellation.
    lines = Lines()
    async with running(config(), lines) as runtime:
        for _ in range(RULES.min_samples):
            end = await look(runtime)
            assert (end.message, end.answered_by) == ("north", None)
        await runtime.host.report()  # what was told before has been recorded

        end = await look(runtime, never=["north"])
        assert (end.status, end.message) == ("ok", "south")
        assert (end.tool, end.answered_by) == ("north.look", "south.look")
        (cancelled,) = await lines.until("north", "cancelled", 1)
        assert cancelled == lines.of("north", "asked")[-1]

        end = await look(runtime, late=["north"], never=["south"])
        assert (end.message, end.answered_by) == ("north", None)
        asked = await lines.until("south", "asked", 2)
        assert await lines.until("south", "cancelled", 1) == asked[1:]

        figures = runtime.host.statistics().executor.hedging
        assert (figures.started, figures.won, figures.lost) == (2, 1, 1)
        assert figures.wasted > 0
        shown = status_of(runtime)["hedging"]
        assert (shown["started"], shown["won"]) == (2, 1)
        assert shown["wasted_ms"] > 0


@pytest.mark.border
async def test_without_a_word_in_the_configuration_nobody_else_is_asked() -> None:
    lines = Lines()
    async with running(config(hedging=HedgingRules()), lines) as runtime:
        for _ in range(RULES.min_samples):
            await look(runtime)
        end = await look(runtime, late=["north"])
    assert (end.message, end.answered_by) == ("north", None)
    assert lines.of("south", "asked") == []


# The configuration


def test_the_configuration_is_read() -> None:
    text = """
hedging:
  enabled: true
  replicas: [[north, south], [east, west, middle]]
  extra_calls: 0.1
  min_samples: 40
"""
    assert load_text(text, source=Path("table.yaml")).hedging == HedgingRules(
        enabled=True,
        replicas=(("north", "south"), ("east", "west", "middle")),
        extra_calls=0.1,
        min_samples=40,
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{enabled: true}", "replicas names no servers, line 1 @ table.yaml.hedging"),
        ("{extra_calls: 2}", "at most 1, line 1 @ table.yaml.hedging.extra_calls"),
        (
            "{extra_call: 0.1}",
            "did you mean 'extra_calls'?, line 1 @ table.yaml.hedging",
        ),
        ("{replicas: [[north]]}", "got [north], line 1 @ table.yaml.hedging.replicas"),
        (
            "{replicas: [north]}",
            "expected a list, got text, line 1 @ table.yaml.hedging.replicas[0]",
        ),
    ],
)
def test_what_is_wrong_with_it_names_the_place(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_text(f"hedging: {text}", source=Path("table.yaml"))
    assert problem in str(caught.value)


async def test_who_answers_for_another_has_to_be_a_server() -> None:
    wrong = attrs.evolve(RULES, replicas=(("north", "sout"),))
    assert strangers(config(hedging=wrong)) == [
        "no server 'sout', did you mean 'south'? @ hedging.replicas[0]"
    ]
    assert strangers(config()) == []
    with pytest.raises(ConfigError, match="no server 'sout'"):
        async with open_runtime(config(hedging=wrong)):
            pass


def test_another_rule_counts_from_the_next_start() -> None:
    # A44: and the one that counts may name a server that has been taken away.
    new = attrs.evolve(config(), hedging=HedgingRules(), mcp=McpConfig())
    made = plan(config(), new)
    assert made.at_next_start == (
        "hedging.enabled",
        "hedging.replicas",
        "hedging.extra_calls",
    )
    assert made.config.hedging == RULES
    assert made.problems == ()
    assert plan(config(), config()).at_next_start == ()
