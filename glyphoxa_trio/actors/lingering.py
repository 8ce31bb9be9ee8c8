"""Lingering tasks: those that were cancelled and have not stopped yet, counted."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import attrs

import trio


@attrs.define(eq=False)
class LingeringTasks:
    """The cancelled tasks that have not stopped, with the times of cancelling."""

    by_key: dict[Hashable, dict[int, float]] = attrs.field(factory=dict)
    _on_stopped: Callable[[Hashable], None] | None = None

    def when_stopped(self, told: Callable[[Hashable], None]) -> None:
        self._on_stopped = told

    def add(self, key: Hashable, task: object) -> None:
        self.by_key.setdefault(key, {})[id(task)] = trio.current_time()

    def discard(self, key: Hashable, task: object) -> None:
        tasks = self.by_key.get(key)
        if tasks is not None and tasks.pop(id(task), None) is not None:
            if not tasks:
                del self.by_key[key]
            if self._on_stopped is not None:
                self._on_stopped(key)

    def count(self, key: Hashable, grace: float) -> int:
        tasks = self.by_key.get(key)
        if not tasks:
            return 0
        now = trio.current_time()
        return sum(since + grace <= now for since in tasks.values())


@attrs.define(eq=False)
class ThreadToken:
    """The limiter of one thread, which trio releases when the thread has ended.

    If the thread was abandoned, that is later than the end of its shared task, so the
    token distinguishes a lingering thread from a finished one.
    """

    _own: trio.CapacityLimiter
    _seats: trio.CapacityLimiter
    _lingering: LingeringTasks
    _key: Hashable
    taken: bool = attrs.field(default=False, init=False)

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        await self._own.acquire_on_behalf_of(borrower)
        try:
            await self._seats.acquire_on_behalf_of(borrower)
        except BaseException:
            self._own.release_on_behalf_of(borrower)
            raise
        self.taken = True

    def release_on_behalf_of(self, borrower: object) -> None:
        self._seats.release_on_behalf_of(borrower)
        self._own.release_on_behalf_of(borrower)
        self.taken = False
        self._lingering.discard(self._key, self)
