"""Calls in both directions and items, in any order of ends: every wait ends, and
every result arrives once at most.

The machine drives the loop by hand. After each step it waits for exactly those tasks
that must have ended by then, so a wait that does not end is seen where it begins.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar

import attrs
import hypothesis.strategies as st
import pytest
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import trio

from glyphoxa_trio.aio import Mode
from glyphoxa_trio.aio.block import Block
from glyphoxa_trio.aio.bridge import LoopBridge
from glyphoxa_trio.aio.iterator_proxy import END, IteratorEnd, IteratorProxy
from glyphoxa_trio.runtime import RuntimeClosed

WAIT = 30.0  # seconds; no wait of a machine that works comes near it


class Broken(Exception):
    """What the work was told to fail with."""


class Crash(Exception):
    """A bug on trio's side."""


@attrs.define(eq=False)
class Work:
    """Something on trio's side that waits to be told how it ends."""

    bridge: LoopBridge
    number: int
    begun: bool = False
    ended: bool = False
    _told: trio.Event = attrs.field(factory=trio.Event)
    _error: Exception | None = None

    async def run(self) -> int:
        self.begun = True
        try:
            await self._told.wait()
            if self._error is not None:
                raise self._error
            return self.number
        finally:
            self.ended = True

    def tell(self, error: Exception | None = None) -> None:
        def tell() -> None:
            self._error = error
            self._told.set()

        self.bridge.run.to_trio(tell)


@attrs.define(eq=False)
class Errand:
    """The same on asyncio's side, for a trio task that asyncio waits for."""

    bridge: LoopBridge
    number: int
    begun: asyncio.Event = attrs.field(factory=asyncio.Event)
    ended: bool = False
    told: asyncio.Future[int] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.told = self.bridge.loop.create_future()

    async def run(self) -> int:
        return await self.bridge.errands.run(self._work)

    async def _work(self) -> int:
        self.begun.set()
        try:
            return await self.told
        finally:
            self.ended = True


@attrs.define(eq=False)
class Waiting:
    """An asyncio task that waits for one of these."""

    work: Work | Errand
    task: asyncio.Task[int]


class Crossings(RuleBasedStateMachine):
    mode: ClassVar[Mode] = "guest"
    waiting = Bundle("waiting")
    errands = Bundle("errands")

    @initialize()
    def begin(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.enter()

    @precondition(lambda self: not self.alive)
    @rule()
    def enter_again(self) -> None:
        self.enter()

    def enter(self) -> None:
        self.numbers = 0
        self.results: list[int] = []
        self.open: list[Waiting] = []
        self.taken: list[int] = []
        self.supply = 0
        self.taking: asyncio.Task[int] | None = None
        self.leave = asyncio.Event()
        self.nursery: trio.Nursery | None = None
        ready = asyncio.Event()

        def opening(_: LoopBridge) -> AbstractAsyncContextManager[trio.Nursery]:
            return trio.open_nursery()

        async def live() -> None:
            block = Block(self.mode, opening, lambda *both: both)
            async with block as (self.bridge, self.nursery):
                self.send, receive = trio.open_memory_channel[int](1000)
                self.items: IteratorProxy[int] = IteratorProxy(self.bridge)

                async def step() -> int | IteratorEnd:
                    return await anext(receive, END)

                self.step: Callable[[], Awaitable[int | IteratorEnd]] = step
                ready.set()
                await self.leave.wait()

        self.block = self.loop.create_task(live())
        self.until(ready.wait())

    def until(self, what: Awaitable[object]) -> None:
        self.loop.run_until_complete(asyncio.wait_for(what, WAIT))

    def settle(self, *tasks: asyncio.Task[Any]) -> None:
        """Each of these has to end now."""
        if tasks:
            done, _ = self.loop.run_until_complete(asyncio.wait(tasks, timeout=WAIT))
            assert done == set(tasks)

    @property
    def alive(self) -> bool:
        return not self.block.done()

    # Calls.

    @precondition(lambda self: self.alive)
    @rule(target=waiting, begin=st.booleans())
    def call(self, *, begin: bool) -> Waiting:
        self.numbers += 1
        work = Work(self.bridge, self.numbers)
        found = Waiting(work, self.loop.create_task(self.ask(work)))
        self.open.append(found)
        if begin:  # else it is still on its way when the next thing happens
            self.until(self.round_trip())
            assert work.begun
        return found

    @precondition(lambda self: self.alive)
    @rule(target=errands, begin=st.booleans())
    def send_on_errand(self, *, begin: bool) -> Waiting:
        self.numbers += 1
        errand = Errand(self.bridge, self.numbers)
        found = Waiting(errand, self.loop.create_task(self.ask(errand)))
        self.open.append(found)
        if begin:
            self.until(errand.begun.wait())
        return found

    async def ask(self, work: Work | Errand) -> int:
        result: int = await self.bridge.ask(work.run)
        self.results.append(result)
        return result

    async def round_trip(self) -> None:
        """There and back twice: what was sent before has begun."""
        for _ in range(2):
            await self.bridge.ask(trio.lowlevel.checkpoint)

    @precondition(lambda self: self.alive)
    @rule(found=consumes(waiting))
    def finish(self, found: Waiting) -> None:
        if found.task.done():
            return
        assert isinstance(found.work, Work)
        found.work.tell()
        self.settle(found.task)
        assert found.task.result() == found.work.number

    @precondition(lambda self: self.alive)
    @rule(found=consumes(waiting))
    def fail(self, found: Waiting) -> None:
        if found.task.done():
            return
        assert isinstance(found.work, Work)
        error = Broken(str(found.work.number))
        found.work.tell(error)
        self.settle(found.task)
        assert found.task.exception() is error

    @precondition(lambda self: self.alive)
    @rule(found=consumes(errands))
    def finish_errand(self, found: Waiting) -> None:
        if found.task.done():
            return
        assert isinstance(found.work, Errand)
        found.work.told.set_result(found.work.number)
        self.settle(found.task)
        assert found.task.result() == found.work.number

    @precondition(lambda self: self.alive)
    @rule(found=consumes(errands))
    def fail_errand(self, found: Waiting) -> None:
        if found.task.done():
            return
        assert isinstance(found.work, Errand)
        error = Broken(str(found.work.number))
        found.work.told.set_exception(error)
        self.settle(found.task)
        assert found.task.exception() is error
        found.work.told.exception()

    # Cancellations, and what comes with them.

    @precondition(lambda self: self.alive)
    @rule(found=st.one_of(consumes(waiting), consumes(errands)), together=st.booleans())
    def cancel(self, found: Waiting, *, together: bool) -> None:
        """Also in the very moment in which the result comes."""
        if found.task.done():
            return
        if together and isinstance(found.work, Work):
            found.work.tell()
        elif together and isinstance(found.work, Errand):
            found.work.told.set_result(found.work.number)
        found.task.cancel()
        self.settle(found.task)
        assert found.task.cancelled() or (
            together and found.task.result() == found.work.number
        )
        # Whoever is cancelled has waited for the end, if there was a beginning.
        match found.work:
            case Work(begun=begun, ended=ended):
                assert ended == begun
            case Errand(begun=event, ended=ended):
                assert ended == event.is_set()

    # Items.

    @precondition(lambda self: self.alive)
    @rule()
    def supply_one(self) -> None:
        self.supply += 1
        number = self.supply
        self.bridge.run.to_trio(lambda: self.send.send_nowait(number))
        if self.taking is not None:
            self.settle(self.taking)
            self.got()

    @precondition(lambda self: self.alive and self.taking is None)
    @rule(wait=st.booleans())
    def take_one(self, *, wait: bool) -> None:
        self.taking = self.loop.create_task(self.items.take(self.step))
        if wait:
            self.until(self.round_trip())
        if self.supply > len(self.taken):
            self.settle(self.taking)
            self.got()

    @precondition(lambda self: self.alive and self.taking is not None)
    @rule(together=st.booleans())
    def cancel_take(self, *, together: bool) -> None:
        assert self.taking is not None
        if together:
            self.supply += 1
            number = self.supply
            self.bridge.run.to_trio(lambda: self.send.send_nowait(number))
        self.taking.cancel()
        self.settle(self.taking)
        self.got()

    def got(self) -> None:
        assert self.taking is not None
        if not self.taking.cancelled():
            self.taken.append(self.taking.result())
        self.taking = None

    # The end.

    @precondition(lambda self: self.alive)
    @rule()
    def leave_it(self) -> None:
        self.leave.set()
        self.end()
        assert self.block.exception() is None

    @precondition(lambda self: self.alive)
    @rule()
    def cancel_the_block(self) -> None:
        self.block.cancel()
        self.end()
        assert self.block.cancelled()

    @precondition(lambda self: self.alive)
    @rule()
    def crash(self) -> None:
        async def bug() -> None:
            raise Crash

        nursery = self.nursery
        assert nursery is not None
        self.bridge.run.to_trio(lambda: nursery.start_soon(bug))
        self.end()
        error = self.block.exception()
        while isinstance(error, ExceptionGroup):
            (error,) = error.exceptions
        assert isinstance(error, Crash)

    def end(self) -> None:
        """It ends, and with it everything that waits."""
        tasks = [found.task for found in self.open if not found.task.done()]
        taking = [] if self.taking is None else [self.taking]
        self.settle(self.block, *tasks, *taking)
        for task in (*tasks, *taking):
            assert isinstance(task.exception(), RuntimeClosed)
        late = self.loop.create_task(self.bridge.ask(trio.lowlevel.checkpoint))
        self.settle(late)
        assert isinstance(late.exception(), RuntimeClosed)

    @invariant()
    def nothing_arrives_twice_or_out_of_order(self) -> None:
        assert len(self.results) == len(set(self.results))
        assert self.taken == list(range(1, len(self.taken) + 1))
        assert len(self.taken) <= self.supply

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        if self.alive:
            self.leave_it()
        assert not asyncio.all_tasks(self.loop)
        self.loop.close()
        names = {thread.name for thread in threading.enumerate()}
        assert "glyphoxa trio" not in names


class Threads(Crossings):
    mode: ClassVar[Mode] = "thread"


@pytest.mark.parametrize("machine", [Crossings, Threads], ids=["guest", "thread"])
def test_whatever_crosses_in_whatever_order(machine: type[Crossings]) -> None:
    run_state_machine_as_test(machine)
