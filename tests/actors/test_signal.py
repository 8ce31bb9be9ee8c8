"""`Signal` against a flag and a list of the waiters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import trio
from trio.testing import (
    assert_checkpoints,
    assert_no_checkpoints,
    wait_all_tasks_blocked,
)

from glyphoxa_trio.actors import Signal


async def test_all_who_wait_see_each_change(autojump_clock: trio.abc.Clock) -> None:
    signal = Signal()
    seen: list[tuple[int, float]] = []

    async def watch(number: int) -> None:
        for _ in range(2):
            await signal.changed()
            seen.append((number, trio.current_time()))

    begun = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, 1)
        nursery.start_soon(watch, 2)
        for _ in range(2):
            await trio.sleep(1)
            signal.set()
    assert sorted((n, at - begun) for n, at in seen) == [(1, 1), (1, 2), (2, 1), (2, 2)]


async def test_what_holds_already_is_not_waited_for() -> None:
    signal = Signal()
    with assert_no_checkpoints():
        await signal.until(lambda: True)


async def test_what_was_set_is_remembered_for_one_taker() -> None:
    signal = Signal()
    signal.set()
    signal.set()
    with assert_checkpoints():
        await signal.take()
    with trio.move_on_after(0) as limit:
        await signal.take()
    assert limit.cancelled_caught


async def test_a_taker_that_is_cancelled_takes_nothing() -> None:
    signal = Signal()
    signal.set()
    with trio.CancelScope() as scope:
        scope.cancel()
        await signal.take()
    assert signal.is_set
    with trio.fail_after(60):
        await signal.take()


@given(
    st.lists(
        st.one_of(st.sampled_from(["set", "take", "changed"]), st.integers(0, 6)),
        max_size=20,
    )
)
def test_it_is_a_flag_and_a_list_of_who_waits(steps: list[str | int]) -> None:
    """A number waits until that many `set` there were."""

    async def main() -> None:
        signal = Signal()
        sets = 0
        done: list[tuple[str, int | None]] = []
        flag = False  # the model
        waits: list[tuple[str, int | None]] = []
        async with trio.open_nursery() as nursery:

            async def wait_for(at_least: int) -> None:
                await signal.until(lambda: sets >= at_least)
                done.append(("until", at_least))

            async def changed() -> None:
                await signal.changed()
                done.append(("changed", None))

            for step in steps:
                expected: list[tuple[str, int | None]] = []
                match step:
                    case "set":
                        sets, flag = sets + 1, True
                        signal.set()
                        expected = [x for x in waits if x[1] is None or x[1] <= sets]
                        waits = [x for x in waits if x not in expected]
                    case "take":
                        async with trio.open_nursery() as taking:
                            taking.start_soon(signal.take)
                            await wait_all_tasks_blocked()
                            assert len(taking.child_tasks) == (0 if flag else 1)
                            taking.cancel_scope.cancel()
                        flag = False
                    case "changed":
                        waits.append(("changed", None))
                        nursery.start_soon(changed)
                    case number:
                        assert isinstance(number, int)
                        mine = ("until", number)
                        (expected if number <= sets else waits).append(mine)
                        nursery.start_soon(wait_for, number)
                await wait_all_tasks_blocked()
                assert sorted(map(str, done)) == sorted(map(str, expected))
                done.clear()
                assert signal.is_set is flag
            nursery.cancel_scope.cancel()

    trio.run(main)
