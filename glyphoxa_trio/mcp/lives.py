"""How often a server is started again: soon, then less soon, then once a minute.

On exit, not on the next call; uptime forgives (D17, A42).
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Final

import attrs

import trio

from glyphoxa_trio.actors import Backoff, OnEvent, supervise
from glyphoxa_trio.config import RestartConfig
from glyphoxa_trio.errors import RestartsExhausted

SLOW_RETRY: Final = 60.0  # seconds between attempts once a server has failed


async def keep_alive(
    life: Callable[[], Awaitable[None]],
    restart: RestartConfig,
    *,
    name: str,
    served: Callable[[], bool],
    on_failed: Callable[[], None],
    on_event: OnEvent | None = None,
    rng: random.Random | None = None,
) -> None:
    """Run one life after the other until one returns.

    When restarts are switched off, the first life that raises is the last.

    Args:
      served: whether the life that has just ended was of any use. A slow attempt
        that was earns quick restarts again.
      on_failed: called whenever the quick restarts, or a slow attempt, are over.
    """
    often = Backoff(
        first=restart.backoff,
        max_restarts=restart.max_restarts,
        period=restart.period,
    )
    once = attrs.evolve(often, max_restarts=0)
    policy = often if restart.enabled else once
    while True:
        try:
            return await supervise(life, policy, name=name, on_event=on_event, rng=rng)
        except RestartsExhausted:
            pass
        if policy is once and served() and restart.enabled:
            policy = often
            await trio.sleep(often.delay(1, rng))
            continue
        on_failed()
        if not restart.enabled:
            return None
        policy = once
        await trio.sleep(SLOW_RETRY)
