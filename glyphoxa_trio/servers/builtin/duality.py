"""``glyphoxa serve duality``: the Duality dice of Daggerheart."""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from glyphoxa_trio.builtin import duality
from glyphoxa_trio.servers.definition import ServerDefinition


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add no options."""


@asynccontextmanager
async def open_offer(options: argparse.Namespace) -> AsyncGenerator[ServerDefinition]:
    yield ServerDefinition(
        name="duality", title="Duality dice", tools=tuple(duality.tools())
    )
