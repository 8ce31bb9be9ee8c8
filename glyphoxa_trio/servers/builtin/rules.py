"""``glyphoxa serve rules``: looking up rules."""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from glyphoxa_trio.builtin import rules
from glyphoxa_trio.builtin.rules.datasets import DatasetError
from glyphoxa_trio.servers.definition import ServerDefinition


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dataset",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="rules beside ours: a JSON file in 5e-database's layout or in ours; may "
        "be given again",
    )


@asynccontextmanager
async def open_offer(options: argparse.Namespace) -> AsyncGenerator[ServerDefinition]:
    try:
        tools = tuple(rules.tools(options.dataset))
    except DatasetError as error:
        raise ValueError(f"--dataset: {error}") from None
    yield ServerDefinition(name="rules", title="Rules", tools=tools)
