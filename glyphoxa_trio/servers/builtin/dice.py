"""``glyphoxa serve dice``: dice rolls and random tables."""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from glyphoxa_trio.builtin import dice
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.servers.definition import ServerDefinition


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tables",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="more random tables: a YAML, TOML or JSON file with a list of lines under "
        "each name; may be given again",
    )


@asynccontextmanager
async def open_offer(options: argparse.Namespace) -> AsyncGenerator[ServerDefinition]:
    tables = {
        name: lines for path in options.tables for name, lines in _read(path).items()
    }
    tools = tuple(dice.tools(tables=tables))
    yield ServerDefinition(name="dice", title="Dice", tools=tools)


def _read(path: Path) -> Mapping[str, tuple[str, ...]]:
    # Imported only here: reading a configuration needs more than the rest of this
    # server.
    from glyphoxa_trio.config import load_as
    from glyphoxa_trio.config.fields import Text

    kind: Any = Mapping[str, tuple[Text, ...]]
    try:
        tables: Mapping[str, tuple[str, ...]] = load_as(path, kind)
    except GlyphoxaError as error:
        raise ValueError(f"--tables {path}: {error}") from None
    return tables
