"""``glyphoxa serve duality``."""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from glyphoxa_trio.builtin import duality
from glyphoxa_trio.servers.offer import Offer


def add_options(parser: argparse.ArgumentParser) -> None:
    """None."""


@asynccontextmanager
async def open_offer(options: argparse.Namespace) -> AsyncGenerator[Offer]:
    yield Offer(name="duality", title="Duality dice", tools=tuple(duality.tools()))
