"""Virtual time is exact, and the order of tasks is the seed's."""

from __future__ import annotations

import trio

from glyphoxa_trio.simulation import virtual


async def _order(tasks: int) -> list[int]:
    """In which order so many tasks of one tick got their turn."""
    came: list[int] = []

    async def come(number: int) -> None:
        await trio.lowlevel.checkpoint()
        came.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(tasks):
            nursery.start_soon(come, number)
    return came


def test_the_same_seed_is_the_same_order() -> None:
    assert virtual.run(_order, 9, seed=1) == virtual.run(_order, 9, seed=1)


def test_seeds_see_different_orders() -> None:
    assert len({tuple(virtual.run(_order, 9, seed=n)) for n in range(20)}) > 1


def test_time_passes_at_once_and_exactly() -> None:
    async def sleep() -> float:
        await trio.sleep(3600.5)
        return trio.current_time()

    assert virtual.run(sleep) == 3600.5


def test_what_runs_after_it_is_shuffled_as_ever() -> None:
    kernel = trio._core._run
    before = kernel._r.getstate(), kernel._ALLOW_DETERMINISTIC_SCHEDULING
    virtual.run(_order, 9, seed=5)
    assert before == (kernel._r.getstate(), kernel._ALLOW_DETERMINISTIC_SCHEDULING)
