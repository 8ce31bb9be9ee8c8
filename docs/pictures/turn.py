"""The picture of a turn: three calls at once, and one that does not end in time.

    python docs/pictures/turn.py [FILE]

The turn is a real one of the runtime, with the default limits, in virtual time: what is
drawn is when its events came. The model and the tools are made up, so that the same
turn comes every time and the picture is the same to the byte.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

import attrs

import trio

from glyphoxa_trio import Config, Outcome, Tier, Tool, open_runtime, tool
from glyphoxa_trio.config import BuiltinConfig, DiceConfig, NpcConfig, RulesConfig
from glyphoxa_trio.npc import FanOutDone, Sentence, ToolStarted, TurnDone, TurnEvent
from glyphoxa_trio.providers.llm import (
    CallReady,
    Finished,
    FinishReason,
    LLMEvent,
    LLMRequest,
    TextChunk,
)
from glyphoxa_trio.simulation import virtual
from glyphoxa_trio.tools.outcome import ToolCall

FILE: Final = Path(__file__).with_suffix(".svg")
SAID: Final = (
    "A tab for Aria, please. How many casks are left, and will the bridge hold?"
)
ANSWER: Final = (
    "Your tab is open, and nine casks are left.",
    " The oracle keeps silent tonight.",
)
# Seconds until the model asks for its calls, until it has read their outcomes, and
# for each sentence.
DECIDES, READS, SPEAKS = 0.25, 0.2, 0.12


def tools() -> list[Tool]:
    """Return what the NPC can call; each takes as long as its first line says."""

    @tool(group="ledger", estimated_duration_ms=40)
    async def open_tab(patron: str) -> str:
        """Open a tab for a patron."""
        await trio.sleep(0.06)
        return f"{patron} has a tab."

    @tool(group="cellar", estimated_duration_ms=250, read_only=True)
    async def count_casks() -> str:
        """Count the casks in the cellar."""
        await trio.sleep(0.29)
        return "Nine casks."

    @tool(group="oracle", estimated_duration_ms=400, read_only=True)
    async def consult(question: str) -> str:
        """Ask the oracle. Today it is slow."""
        await trio.sleep(3)
        return f"{question} Yes."

    return [open_tab, count_casks, consult]


class Model:
    """A model that asks for three calls, and then says what came of them."""

    label = "a script"

    @asynccontextmanager
    async def stream(
        self, request: LLMRequest
    ) -> AsyncIterator[AsyncIterator[LLMEvent]]:
        """Answer one round."""
        asked = any(message.role == "tool" for message in request.messages)
        yield self._speaks() if asked else self._calls(request)

    async def _calls(self, request: LLMRequest) -> AsyncIterator[LLMEvent]:
        await trio.sleep(DECIDES)
        arguments = {
            "open_tab": {"patron": "Aria"},
            "count_casks": {},
            "consult": {"question": "Will the bridge hold?"},
        }
        for number, (name, values) in enumerate(arguments.items(), 1):
            (shown,) = (x.name for x in request.tools if x.name.endswith(name))
            yield CallReady(ToolCall(f"call-{number}", shown, json.dumps(values)))
        yield Finished(reason=FinishReason.TOOL_CALLS)

    async def _speaks(self) -> AsyncIterator[LLMEvent]:
        await trio.sleep(READS)
        for sentence in ANSWER:
            yield TextChunk(sentence)
            await trio.sleep(SPEAKS)
        yield Finished()


@attrs.frozen
class Seen:
    """An event, and when it came: seconds from the beginning of the turn."""

    at: float
    event: TurnEvent


async def played() -> list[Seen]:
    """Play the turn, and return its events."""
    none = BuiltinConfig(
        dice=DiceConfig(enabled=False), rules=RulesConfig(enabled=False)
    )
    bartok = NpcConfig(
        name="Bartok", tools=("ledger.*", "cellar.*", "oracle.*"), budget_tier=Tier.FAST
    )
    config = Config(npcs=(bartok,), builtin=none)
    async with open_runtime(config, tools=tools(), llm=Model()) as runtime:
        began = trio.current_time()
        async with runtime.npc("Bartok").say(SAID) as turn:
            return [Seen(trio.current_time() - began, event) async for event in turn]


# Drawing

WIDTH, LEFT, RIGHT, TOP, ROW = 860, 190, 40, 96, 34
INK, GREY, PALE = "#1f2933", "#6b7784", "#e4e8ec"
MODEL, KEPT, CUT, LIMIT = "#8aa0b8", "#2a8f7b", "#b8621b", "#c0392b"


@attrs.define
class Drawing:
    """The elements of the picture, on a scale of seconds."""

    seconds: float
    parts: list[str] = attrs.field(factory=list)

    def x(self, at: float) -> float:
        return LEFT + at / self.seconds * (WIDTH - LEFT - RIGHT)

    def text(
        self, x: float, y: float, words: str, colour: str = INK, style: str = ""
    ) -> None:
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" {style}>'
            f"{escape(words)}</text>"
        )

    def line(self, at: float, top: float, end: float, colour: str, dash: str) -> None:
        self.parts.append(
            f'<line x1="{self.x(at):.1f}" x2="{self.x(at):.1f}" y1="{top}" y2="{end}"'
            f' stroke="{colour}" stroke-width="1.5" stroke-dasharray="{dash}"/>'
        )

    def bar(self, row: float, begin: float, end: float, colour: str, name: str) -> None:
        y = TOP + row * ROW
        width = max(2.0, self.x(end) - self.x(begin))
        self.parts.append(
            f'<rect x="{self.x(begin):.1f}" y="{y}" width="{width:.1f}" height="20"'
            f' rx="3" fill="{colour}"/>'
        )
        self.text(LEFT - 14, y + 15, name, style='text-anchor="end"')


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


def facts(seen: list[Seen]) -> str:
    """Return what the picture shows, in words."""
    (fan_out,) = (x.event for x in seen if isinstance(x.event, FanOutDone))
    calls = "; ".join(
        f"{x.tool} {x.status} after {milliseconds(x.elapsed)}" for x in fan_out.outcomes
    )
    return (
        f"A {fan_out.tier.name} turn. {len(fan_out.outcomes)} calls start together,"
        f" with {milliseconds(fan_out.budget)} for all: {calls}. The fan-out took"
        f" {milliseconds(fan_out.elapsed)}."
    )


def drawn(seen: list[Seen]) -> str:
    """Return the picture as SVG."""
    began = min(x.at for x in seen if isinstance(x.event, ToolStarted))
    (fan_out,) = (x for x in seen if isinstance(x.event, FanOutDone))
    (done,) = (x for x in seen if isinstance(x.event, TurnDone))
    first = min(x.at for x in seen if isinstance(x.event, Sentence))
    assert isinstance(fan_out.event, FanOutDone)
    assert isinstance(done.event, TurnDone)
    ceiling = began + fan_out.event.budget
    outcomes = fan_out.event.outcomes
    picture = Drawing(done.at * 1.02)
    rows = len(outcomes) + 2
    bottom = TOP + rows * ROW
    height = bottom + 96

    bold = 'font-weight="600" font-size="15"'
    picture.text(24, 34, f"Player: “{SAID}”", style=bold)
    picture.text(
        24,
        56,
        f"Tier {fan_out.event.tier.name}: all tools of the turn together have"
        f" {milliseconds(fan_out.event.budget)}. (A turn of the runtime in virtual"
        " time, with a made-up model.)",
        GREY,
    )
    # Where the tools may run.
    x, end = picture.x(began), picture.x(ceiling)
    picture.parts.append(
        f'<rect x="{x:.1f}" y="{TOP - 8}" width="{end - x:.1f}"'
        f' height="{bottom - TOP + 4}" fill="#f3f6f8"/>'
    )
    picture.bar(0, 0, began, MODEL, "model")
    picture.text(picture.x(0) + 8, TOP + 15, "asks for 3 calls", "#fff")
    for row, outcome in enumerate(outcomes, 1):
        _call(picture, row, began, outcome)
    after = len(outcomes) + 1
    picture.bar(after, fan_out.at, done.at, MODEL, "model")
    picture.text(picture.x(fan_out.at) + 8, TOP + after * ROW + 15, "answers", "#fff")
    picture.line(ceiling, TOP - 16, bottom, LIMIT, "5 3")
    picture.text(
        picture.x(ceiling) + 6,
        TOP - 10,
        f"ceiling {milliseconds(fan_out.event.budget)}",
        LIMIT,
        'font-weight="600"',
    )
    picture.line(first, TOP + after * ROW - 6, bottom, INK, "2 2")
    picture.text(picture.x(first) + 6, TOP + after * ROW - 6, "first sentence", INK)
    _axis(picture, bottom)
    picture.text(24, bottom + 58, f"Bartok: “{done.event.text}”", style=bold)
    picture.text(
        24,
        bottom + 80,
        "What finished is kept, the rest is cancelled, and the model reads an outcome"
        " for every call.",
        GREY,
    )
    body = "\n".join(picture.parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
        f' width="{WIDTH}" height="{height}" role="img" font-size="13"'
        ' font-family="system-ui, -apple-system, Segoe UI, Roboto, DejaVu Sans,'
        f' sans-serif">\n<title>A turn of glyphoxa_trio</title>\n'
        f"<desc>{escape(facts(seen))}</desc>\n"
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#fff"'
        f' stroke="{PALE}"/>\n'
        f"{body}\n</svg>\n"
    )


def _call(picture: Drawing, row: int, began: float, outcome: Outcome) -> None:
    end = began + outcome.elapsed
    picture.bar(row, began, end, KEPT if outcome.ok else CUT, outcome.tool or "?")
    verdict = "kept" if outcome.ok else f"{outcome.status}: cancelled"
    inside = not outcome.ok
    picture.text(
        picture.x(began) + 8 if inside else picture.x(end) + 8,
        TOP + row * ROW + 15,
        verdict if inside else f"{milliseconds(outcome.elapsed)}, {verdict}",
        "#fff" if inside else GREY,
    )


def _axis(picture: Drawing, bottom: float) -> None:
    picture.parts.append(
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"'
        f' stroke="{GREY}"/>'
    )
    for tick in range(0, int(picture.seconds * 1000) + 1, 200):
        x = picture.x(tick / 1000)
        picture.parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 5}"'
            f' stroke="{GREY}"/>'
        )
        words = f"{tick} ms" if tick else "0"
        picture.text(x, bottom + 20, words, GREY, 'text-anchor="middle" font-size="12"')


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    target.write_text(drawn(virtual.run(played)))
    print(target)


if __name__ == "__main__":
    main()
