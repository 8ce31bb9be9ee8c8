"""A block of asyncio code with a trio run beside its loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import TracebackType
from typing import Generic, TypeVar

import attrs

from glyphoxa_trio.errors import GlyphoxaError

from .bridge import LoopBridge, Mode
from .call import outlast
from .context_proxy import ContextProxy, worse

T = TypeVar("T")
U = TypeVar("U")


class NotOnAsyncio(GlyphoxaError):
    """A function that needs asyncio was called where asyncio does not run."""


def _needs_asyncio() -> None:
    """Raise `NotOnAsyncio` if the caller runs on trio, or on no event loop at all."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise NotOnAsyncio(
            "aio.open_runtime runs on asyncio: start with asyncio.run(main), or use"
            " glyphoxa_trio.open_runtime from trio (docs/asyncio.md)"
        ) from None


@attrs.define(eq=False)
class Block(Generic[T, U]):
    """A trio context manager in a run of its own; see `ContextProxy`.

    Args:
      open: makes the context manager, on trio's side.
      hand_out: makes the value of the block from the value of trio's context manager.
    """

    _mode: Mode
    _open: Callable[[LoopBridge], AbstractAsyncContextManager[T]]
    _hand_out: Callable[[LoopBridge, T], U]
    _bridge: LoopBridge = attrs.field(init=False)
    _held: ContextProxy[T] | None = attrs.field(default=None, init=False)

    async def __aenter__(self) -> U:
        _needs_asyncio()
        self._bridge = bridge = LoopBridge.begin(self._mode)
        try:
            if cancelled := await outlast(bridge.ready):
                raise cancelled
            held = ContextProxy(
                bridge, partial(self._open, bridge), bridge.lose_patience
            )
            resource = await held.__aenter__()
            self._held = held
            return self._hand_out(bridge, resource)
        except BaseException as error:
            await self.__aexit__(type(error), error, None)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the block, and wait until the run has ended; a cancellation does not
        stop that.

        Raises:
          BaseException: the error that trio's side failed with;
            `asyncio.CancelledError`, at the end, if this task was cancelled meanwhile.
        """
        if isinstance(error, GeneratorExit):  # closed: no await is possible
            self._bridge.end_without_loop()
            return
        try:
            worst, cancelled = await self._leave(error)
        except GeneratorExit:
            self._bridge.end_without_loop()
            raise
        if cancelled is not None:
            raise cancelled from worst
        if worst is not None and worst is not error:
            raise worst

    async def _leave(
        self, error: BaseException | None
    ) -> tuple[BaseException | None, asyncio.CancelledError | None]:
        """Leave the context manager and end the run.

        Returns the error to raise, and the cancellation to raise instead, if there was
        one.
        """
        worst, cancelled = error, None
        try:
            if self._held is not None:
                kind = None if error is None else type(error)
                await self._held.__aexit__(kind, error, None)
        except asyncio.CancelledError as again:
            cancelled, worst = again, again.__cause__
        except GeneratorExit:
            raise
        except BaseException as raised:
            worst = raised
        cancelled = await self._bridge.close() or cancelled
        return worse(worst, self._bridge.failure), cancelled
