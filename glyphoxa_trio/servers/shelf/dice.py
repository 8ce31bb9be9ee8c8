"""``glyphoxa serve dice``."""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from glyphoxa_trio.builtin import dice
from glyphoxa_trio.servers.offer import Offer


def add_options(parser: argparse.ArgumentParser) -> None:
    """None: the tables are those shipped."""


@asynccontextmanager
async def open_offer(options: argparse.Namespace) -> AsyncGenerator[Offer]:
    yield Offer(name="dice", title="Dice", tools=tuple(dice.tools()))
