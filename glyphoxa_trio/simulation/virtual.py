"""Virtual time: hours in seconds, and the same run again and again.

    done = virtual.run(main, seed=7)

Time passes only when every task waits for it, and then at once: code costs none.
Nothing real may be waited for inside (no process, no socket, no thread), or the
clock jumps ahead of it.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

import trio
from trio.testing import MockClock

T = TypeVar("T")


def run(
    main: Callable[..., Awaitable[T]],
    *args: Any,
    seed: int = 0,
    clock: trio.abc.Clock | None = None,
) -> T:
    """`trio.run` on virtual time from 0; the same ``seed`` is the same run.

    Chance of one's own belongs into a `random.Random` made of the seed. ``clock`` is
    another virtual clock than trio's.
    """
    with _the_same_order(seed):
        virtual = MockClock(autojump_threshold=0) if clock is None else clock
        return trio.run(main, *args, clock=virtual)


@contextmanager
def _the_same_order(seed: int) -> Generator[None]:
    """Let trio shuffle the tasks of a tick in an order that the seed decides.

    It shuffles so that no program relies on an order. There is no public way to choose
    one; this is what Hypothesis and pytest-trio do, and
    tests/simulation/test_virtual.py fails if the way is gone.
    """
    kernel: Any = trio._core._run
    before = kernel._ALLOW_DETERMINISTIC_SCHEDULING
    shuffle = kernel._r.getstate()
    kernel._ALLOW_DETERMINISTIC_SCHEDULING = True
    kernel._r.setstate(random.Random(seed).getstate())
    try:
        yield
    finally:
        kernel._ALLOW_DETERMINISTIC_SCHEDULING = before
        kernel._r.setstate(shuffle)
