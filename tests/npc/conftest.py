"""A limit for code whose time must not grow faster than its input."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def five_seconds_of_work() -> Iterator[None]:
    """Fails, instead of hanging, a test that takes more of the processor."""

    def too_much(*_: object) -> None:
        raise AssertionError("five seconds of the processor were not enough")

    before = signal.signal(signal.SIGPROF, too_much)
    signal.setitimer(signal.ITIMER_PROF, 5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
