"""Python's collector of garbage: left alone, or held and given back as it was.

Each collection here looks at all that the suite is made of, which takes a second.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import trio
from trio.testing import MockClock

from glyphoxa_trio import Config, ConfigError, open_runtime
from glyphoxa_trio.cli import ask as ask_verb
from glyphoxa_trio.cli.common import Model
from glyphoxa_trio.config import CalibrationConfig, McpConfig, NpcConfig
from glyphoxa_trio.runtime import Collector, collector, wiring
from glyphoxa_trio.runtime.collector import (
    APART,
    LOOK,
    SETTLED,
    CollectorHold,
    collecting,
)

from ..conftest import freeze
from ..npc.support import ScriptedLLM

PLAIN = (700, 10, 10)
CONFIG = Config(
    npcs=(NpcConfig(name="Bo"),),
    mcp=McpConfig(remember=False),
    calibration=CalibrationConfig(at_start=False),
)


@pytest.fixture(scope="module", autouse=True)
def whole_heap() -> Generator[None]:
    gc.unfreeze()  # what the suite is made of
    yield
    freeze()


@pytest.fixture(autouse=True)
def as_python_has_it() -> Generator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*PLAIN)
    assert not gc.get_freeze_count()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def held() -> tuple[tuple[int, int, int], bool]:
    return gc.get_threshold(), gc.get_freeze_count() > 0


class Knot:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.me = self


def knot() -> weakref.ref[Knot]:
    return weakref.ref(Knot())


@pytest.mark.border  # it is Python's real collector, and takes seconds
@pytest.mark.parametrize(
    ("how", "inside"),
    [
        ("leave", (PLAIN, False)),
        ("freeze", (PLAIN, True)),
        ("settle", (SETTLED, True)),
    ],
)
async def test_the_collector_is_held_while_the_runtime_is_open(
    how: Collector, inside: Any, autojump_clock: MockClock
) -> None:
    async with open_runtime(CONFIG, llm=ScriptedLLM([]), collector=how):
        assert held() == inside
    assert held() == (PLAIN, False)


async def test_a_library_touches_nothing(autojump_clock: MockClock) -> None:
    async with open_runtime(CONFIG, llm=ScriptedLLM([])):
        assert held() == (PLAIN, False)


@pytest.mark.border
async def test_full_collections_are_kept_away_before_any_server_starts(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    original = vars(wiring)["open_server_pool"]

    def open_server_pool(*args: Any, **more: Any) -> Any:
        seen.append(gc.get_threshold())
        return original(*args, **more)

    monkeypatch.setattr(wiring, "open_server_pool", open_server_pool)
    async with open_runtime(CONFIG, llm=ScriptedLLM([]), collector="settle"):
        pass
    assert seen == [SETTLED]


@pytest.mark.long
async def test_what_was_frozen_by_somebody_else_stays_theirs(
    autojump_clock: MockClock,
) -> None:
    gc.freeze()
    before = gc.get_freeze_count()
    async with open_runtime(CONFIG, llm=ScriptedLLM([]), collector="settle"):
        # Frozen objects may go by themselves; none of ours has come.
        assert 0 < gc.get_freeze_count() <= before
        assert gc.get_threshold() == SETTLED
    assert 0 < gc.get_freeze_count() <= before


@pytest.mark.parametrize("lives", [(1.0, 2.0), (2.0, 1.0)])
@pytest.mark.long
async def test_of_several_runtimes_the_last_one_puts_it_back(
    lives: tuple[float, float], autojump_clock: MockClock
) -> None:
    async def live(seconds: float) -> None:
        async with open_runtime(CONFIG, llm=ScriptedLLM([]), collector="settle"):
            await trio.sleep(seconds)

    async with trio.open_nursery() as nursery:
        for seconds in lives:
            nursery.start_soon(live, seconds)
        for moment in (0.5, 1.0):
            await trio.sleep(moment)
            assert held() == (SETTLED, True)
    assert held() == (PLAIN, False)


async def test_it_is_put_back_when_opening_fails(autojump_clock: MockClock) -> None:
    wrong = Config(npcs=(NpcConfig(name="Bo", tools=("rol",)),))
    with pytest.raises(ConfigError, match="did you mean roll"):
        async with open_runtime(wrong, collector="settle"):
            raise AssertionError("it was opened")
    assert held() == (PLAIN, False)


@pytest.mark.long
async def test_it_is_put_back_when_the_block_fails(autojump_clock: MockClock) -> None:
    with pytest.raises(KeyError):
        async with open_runtime(CONFIG, llm=ScriptedLLM([]), collector="settle"):
            raise KeyError("mine")
    assert held() == (PLAIN, False)


@pytest.mark.long
async def test_thresholds_that_somebody_set_meanwhile_are_left_to_them(
    autojump_clock: MockClock,
) -> None:
    async with open_runtime(CONFIG, llm=ScriptedLLM([]), collector="settle"):
        gc.set_threshold(900, 9, 9)
    assert gc.get_threshold() == (900, 9, 9)


async def test_another_word_is_refused() -> None:
    with pytest.raises(ValueError, match="one of leave, freeze, settle, got 'off'"):
        async with open_runtime(CONFIG, collector="off"):  # type: ignore[arg-type]
            pass


@pytest.mark.long
async def test_full_collections_come_when_nobody_talks_and_free_what_was_frozen(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    talking = True
    with collecting("settle") as keeper:
        frozen = Knot()
        ref = weakref.ref(frozen)
        keeper.wired()
        del frozen  # garbage now, and in nobody's way
        gc.collect()
        assert ref() is not None
        monkeypatch.setattr(gc, "get_count", lambda: (0, 0, collector.WORTH))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keeper.tend, lambda: not talking)
            await trio.sleep(10 * APART)
            assert ref() is not None
            talking = False
            await trio.sleep(LOOK + 1)
            assert ref() is None
            assert gc.get_freeze_count() > 0
            nursery.cancel_scope.cancel()


@pytest.mark.long
async def test_there_is_no_full_collection_without_garbage_to_look_for(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gc, "get_count", lambda: (0, 0, 0))
    with collecting("settle") as keeper:
        keeper.wired()
        gc.disable()
        try:
            found = knot()
            with trio.move_on_after(100 * APART):
                await keeper.tend(lambda: True)
            assert found() is not None
        finally:
            gc.enable()


@pytest.mark.long
async def test_no_runtime_collects_while_another_one_talks(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gc, "get_count", lambda: (0, 0, collector.WORTH))
    collected: list[float] = []
    process = type(collector._PROCESS)
    monkeypatch.setattr(
        process, "collect", lambda _: collected.append(trio.current_time())
    )
    with collecting("settle") as one, collecting("settle") as other:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.tend, lambda: True)
            nursery.start_soon(other.tend, lambda: trio.current_time() > 100.5)
            await trio.sleep(104)
            assert collected == []
            await trio.sleep(4)
            assert collected == [105.0, 105.0]
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("how", ["leave", "freeze"])
@pytest.mark.long
async def test_a_runtime_that_does_not_collect_is_asked_before_another_does(
    how: Collector, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gc, "get_count", lambda: (0, 0, collector.WORTH))
    collected: list[float] = []
    process = type(collector._PROCESS)
    monkeypatch.setattr(
        process, "collect", lambda _: collected.append(trio.current_time())
    )
    with collecting("settle") as one, collecting(how) as other:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.tend, lambda: True)
            nursery.start_soon(other.tend, lambda: trio.current_time() > 100.5)
            await trio.sleep(104)
            assert collected == []
            await trio.sleep(4)
            assert collected == [105.0]
            nursery.cancel_scope.cancel()
    assert collector._PROCESS.idle == []


@pytest.mark.long
def test_the_command_settles(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "table.yaml"
    path.write_text("npcs: [{name: Bo}]\nmcp: {remember: false}\n")
    seen: list[object] = []
    wired = CollectorHold.wired

    def note(keeper: CollectorHold) -> None:
        wired(keeper)
        seen.append(held())

    monkeypatch.setattr(CollectorHold, "wired", note)
    assert ask_verb.ask(path, "Bo", "hi", Model(), tier=None, as_json=False) == 0
    assert seen == [(SETTLED, True)]
    assert held() == (PLAIN, False)
