"""The tools ``roll`` and ``roll_table``."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Annotated, Any

from glyphoxa_trio.tools.decorate import tool
from glyphoxa_trio.tools.definition import Tool, ToolError

from .expression import parse, roll


def tools(
    rng: random.Random | None = None,
    tables: Mapping[str, Sequence[str]] | None = None,
) -> list[Tool]:
    """Return ``roll`` and ``roll_table``.

    Args:
      rng: the source of randomness; the operating system's by default.
      tables: more tables by name, or replacements of those that come with the package.

    Raises:
      ValueError: for a table without entries.
    """
    chance = random.SystemRandom() if rng is None else rng
    entries = {name: tuple(table) for name, table in _shipped().items()}
    for name, table in (tables or {}).items():
        entries[name] = tuple(table)
        if isinstance(table, str) or not entries[name]:
            raise ValueError(f"random table {name!r} needs a list of entries")

    # Coroutines, though they never wait: a thread would take longer than the roll.
    @tool(
        name="roll",
        group="dice",
        category="dice",
        title="Roll dice",
        estimated_duration_ms=5,
        max_duration_ms=20,
        read_only=True,
        examples=({"expression": "1d20+5"},),
        speech_template="{expression} comes to {total}.",
    )
    async def roll_dice(
        expression: Annotated[
            str,
            "For example 2d6+3, 1d20adv+5 (advantage; dis for disadvantage), "
            "4d6kh3 (keep the highest three; kl for the lowest), d%.",
        ],
    ) -> dict[str, Any]:
        """Roll dice: the individual dice that count, the modifier and the total."""
        rolled = roll(parse(expression), chance)
        result: dict[str, Any] = {
            "expression": expression,
            "rolls": list(rolled.rolls),
            "total": rolled.total,
            "modifier": rolled.modifier,
        }
        return result | ({"dropped": list(rolled.dropped)} if rolled.dropped else {})

    @tool(
        group="dice",
        category="dice",
        title="Roll on a table",
        description="Roll on a random table and get the entry that comes up. "
        f"Tables: {', '.join(entries)}.",
        parameters={
            "type": "object",
            "properties": {"table_name": {"type": "string", "enum": list(entries)}},
            "required": ["table_name"],
            "additionalProperties": False,
        },
        estimated_duration_ms=5,
        max_duration_ms=20,
        read_only=True,
        speech_field="result",
    )
    async def roll_table(table_name: str) -> dict[str, Any]:
        if table_name not in entries:
            raise ToolError(f"no table {table_name!r}; there are {', '.join(entries)}")
        table = entries[table_name]
        number = chance.randint(1, len(table))
        return {"table": table_name, "roll": number, "result": table[number - 1]}

    return [roll_dice, roll_table]


def _shipped() -> dict[str, list[str]]:
    data = resources.files("glyphoxa_trio.builtin") / "data" / "tables.json"
    tables: dict[str, list[str]] = json.loads(data.read_text("utf-8"))
    return tables
