"""SIGINT during protected calls: delayed, and never lost."""

from __future__ import annotations

import signal
from collections.abc import Generator
from types import FrameType

import pytest

from glyphoxa_trio.aio.interrupts import Interrupts


@pytest.fixture
def told() -> Generator[list[str]]:
    """A handler of somebody's own, and what it was told."""
    found: list[str] = []
    before = signal.signal(signal.SIGINT, lambda *_: found.append("told"))
    yield found
    signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_what_is_spared_is_not_interrupted_and_the_rest_is(told: list[str]) -> None:
    interrupts = Interrupts()
    interrupts.install()
    interrupt()
    assert told == ["told"]

    def spared() -> None:
        interrupts.spare(interrupt)  # also within another one
        interrupt()
        assert told == ["told"]

    interrupts.spare(spared)
    assert told == ["told", "told"]  # once, however often
    interrupts.remove()


def test_the_handler_is_put_back(told: list[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    interrupts = Interrupts()
    interrupts.install()
    assert signal.getsignal(signal.SIGINT) is not before
    interrupts.remove()
    assert signal.getsignal(signal.SIGINT) is before
    interrupts.remove()
    assert signal.getsignal(signal.SIGINT) is before


def test_who_came_later_stays_and_may_hand_on(told: list[str]) -> None:
    interrupts = Interrupts()
    interrupts.install()
    ours = signal.getsignal(signal.SIGINT)

    def later(number: int, frame: FrameType | None) -> None:
        told.append("later")
        assert callable(ours)
        ours(number, frame)

    signal.signal(signal.SIGINT, later)
    interrupts.remove()
    assert signal.getsignal(signal.SIGINT) is later
    interrupt()
    assert told == ["later", "told"]


def test_a_program_that_ignores_it_goes_on_to(told: list[str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    interrupts = Interrupts()
    interrupts.install()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    interrupts.spare(interrupt)
    interrupts.remove()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_an_error_of_what_is_spared_comes_out(told: list[str]) -> None:
    def fail() -> None:
        interrupt()
        raise ZeroDivisionError

    interrupts = Interrupts()
    interrupts.install()
    with pytest.raises(ZeroDivisionError):
        interrupts.spare(fail)
    interrupts.spare(lambda: None)  # what was put off is not lost
    assert told == ["told"]
    interrupts.remove()
