"""The command's start and end: Python's collector is kept out of both."""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator

import pytest

from glyphoxa_trio import cli


@pytest.fixture(autouse=True)
def collector() -> Generator[None]:
    before = gc.get_threshold()
    try:
        yield
    finally:
        gc.set_threshold(*before)


@pytest.fixture(autouse=True)
def without_soxr(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests of this process may have imported it."""
    monkeypatch.delitem(sys.modules, "soxr", raising=False)


@pytest.mark.parametrize("status", [0, 3])
def test_a_start_is_hardly_walked_and_the_rest_is_not_at_the_end(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []

    def run(words: list[str]) -> int:
        seen.append((words, gc.get_threshold()))
        return status

    monkeypatch.setattr(sys, "argv", ["glyphoxa", "check", "npcs.yaml"])
    monkeypatch.setattr(cli, "_run", run)
    monkeypatch.setattr(gc, "freeze", lambda: seen.append("frozen"))
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == status
    assert seen == [(["check", "npcs.yaml"], cli.STARTING), "frozen"]


def test_what_soxr_has_made_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(sys, "argv", ["glyphoxa", "talk"])
    monkeypatch.setattr(cli, "_run", lambda words: 0)
    monkeypatch.setattr(gc, "freeze", lambda: seen.append("frozen"))
    monkeypatch.setitem(sys.modules, "soxr", sys)
    with pytest.raises(SystemExit):
        cli.main()
    assert seen == []


def test_what_ends_with_an_exception_is_not_walked_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[str] = []

    def run(words: list[str]) -> int:
        raise LookupError(*words)

    monkeypatch.setattr(sys, "argv", ["glyphoxa", "play"])
    monkeypatch.setattr(cli, "_run", run)
    monkeypatch.setattr(gc, "freeze", lambda: seen.append("frozen"))
    with pytest.raises(LookupError, match="play"):
        cli.main()
    assert seen == ["frozen"]
