"""Single errors leave a block unwrapped, however many nurseries they passed."""

from __future__ import annotations

import pytest

import trio

from glyphoxa_trio.actors import lone_errors


async def test_a_lone_error_leaves_ungrouped() -> None:
    cause = OSError("why")
    with pytest.raises(ValueError, match="mine") as caught:
        with lone_errors():
            async with trio.open_nursery(), trio.open_nursery():
                raise ValueError("mine") from cause
    assert caught.value.__cause__ is cause


async def test_several_errors_stay_a_group() -> None:
    async def fail(error: Exception) -> None:
        raise error

    with pytest.RaisesGroup(ValueError, KeyError):
        with lone_errors():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fail, ValueError())
                nursery.start_soon(fail, KeyError())


async def test_cancellation_passes() -> None:
    with trio.CancelScope() as scope:
        with lone_errors():
            async with trio.open_nursery():
                scope.cancel()
                await trio.sleep_forever()
    assert scope.cancelled_caught
