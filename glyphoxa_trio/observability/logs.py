"""Structured logs of a runtime: a record for each tool call, turn and change.

    async with open_log(json_lines(file)) as log:
        async with open_runtime(config, on_warning=log.server_event) as runtime:
            log.follow(runtime)
            ...

Around the runtime, as here, the log has its first warning and its last turn;
`log_events` is the short form, inside it. The records are made where the events
are and written in a worker thread, so that a turn never waits for its log.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TextIO, get_args

import attrs

import trio

from glyphoxa_trio.actors import Subscription, SupervisionEvent, Topic, lone_errors
from glyphoxa_trio.config import Config
from glyphoxa_trio.host import Probed, ToolStalled
from glyphoxa_trio.providers.naming import provider_of
from glyphoxa_trio.runtime import Runtime

from .load import overload_record
from .outputs import LogOutput, configured, json_lines
from .records import LogRecord, ServerEvent, ServerRecords, TurnRecords, host_record
from .redaction import Redaction
from .writer import LogStatistics, LogWriter, now

CLOSING: Final = 1.0  # seconds for what waits to be written, at the end
CAPACITY: Final = 10_000  # records that may wait for the output
_GENERATIONS: Final = 8  # of a configuration, whose secrets are still hidden
_BEHIND: Final = 1024  # events that a reader may be behind; it only ever computes
_OF_HOST: Final = (
    Probed,
    ToolStalled,
    *get_args(SupervisionEvent),
)  # and not each sample


@attrs.define(eq=False)
class EventLog:
    """Made by `open_log`. None of its methods blocks or raises, so each may be
    handed to a runtime or a fleet as it is."""

    _writer: LogWriter
    _nursery: trio.Nursery
    _texts: bool
    _servers: ServerRecords
    _configs: list[Callable[[], Config]]
    _redaction: Redaction = attrs.field(factory=Redaction, init=False)
    _redacted: tuple[Config, ...] = attrs.field(default=(), init=False)
    _before: deque[Config] = attrs.field(
        factory=lambda: deque(maxlen=_GENERATIONS), init=False
    )
    _watching: set[ExitStack] = attrs.field(factory=set, init=False)
    _scopes: set[trio.CancelScope] = attrs.field(factory=set, init=False)
    _over: bool = attrs.field(default=False, init=False)
    _ended: trio.Event = attrs.field(factory=trio.Event, init=False)

    # The sources of records.

    def follow(self, runtime: Runtime) -> None:
        """Log the turns and calls of ``runtime`` until it, or the log, ends.

        Its configuration's secrets are hidden from now on.
        """
        self._configs.append(lambda: runtime.config)

        def exposed(key: str) -> str | None:
            listing = runtime.host.snapshot.by_key.get(key)
            return None if listing is None else listing.exposed

        def provider() -> str:
            return provider_of(runtime.llm)  # a reload may replace it

        turns = TurnRecords(provider, exposed, runtime.call_id, self._texts)
        # In the turn's own task, where its span is the current one.
        self._watch(runtime.events, turns.of, tap=turns.note)
        of_host = partial(host_record, texts=self._texts)
        self._watch(runtime.host.events, of_host, only=_OF_HOST)
        self._watch(runtime.overload_events, overload_record)
        for status in runtime.servers():
            self.server_event(status)

    def server_event(self, event: ServerEvent) -> None:
        """Log a warning, a status, a life or a restart of a server."""
        self._take(self._servers.of, event)

    def server_line(self, server: str, line: str) -> None:
        """Log a line that a server wrote to stderr."""
        self._take(partial(self._servers.line, server), line)

    def statistics(self) -> LogStatistics:
        return self._writer.statistics()

    # From event to record.

    def _watch(
        self,
        topic: Topic[Any],
        record_of: Callable[[Any], LogRecord | None],
        only: type[Any] | tuple[type[Any], ...] = object,
        tap: Callable[[Any], None] | None = None,
    ) -> None:
        if self._over:
            return
        watching = ExitStack()
        if tap is not None:
            watching.enter_context(topic.tap(tap))
        subscription = watching.enter_context(
            topic.subscribe(capacity=_BEHIND, only=only)
        )
        self._watching.add(watching)
        self._start(partial(self._relay, watching, subscription, record_of))

    async def _relay(
        self,
        watching: ExitStack,
        subscription: Subscription[Any],
        record_of: Callable[[Any], LogRecord | None],
    ) -> None:
        """Read a topic until it is closed, or `_end` leaves it."""
        missed = 0
        try:
            async for event in subscription:
                self._writer.lose(subscription.missed - missed)
                missed = subscription.missed
                self._take(record_of, event)
        finally:
            watching.close()
            self._watching.discard(watching)
            if self._over and not self._watching:
                self._writer.finish()

    def _take(self, record_of: Callable[[Any], LogRecord | None], event: Any) -> None:
        try:
            record = record_of(event)
            if record is not None:
                fields = {"at": now(), **self._clean(record)}
                self._writer.put(attrs.evolve(record, fields=fields))
        except Exception:  # whatever is wrong here must not end a turn
            self._writer.fail()

    def _clean(self, record: LogRecord) -> dict[str, Any]:
        configs = tuple(config() for config in self._configs)
        if not _same(configs, self._redacted):
            # After a reload the servers of before go on for a while.
            self._before.extend(self._redacted)
            self._redacted = configs
            self._redaction = Redaction.of(*configs, *self._before)
        return {key: self._redaction.clean(x) for key, x in record.fields.items()}

    # Start and end.

    def _start(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run ``work`` beyond a cancellation of the caller, up to `_end`."""
        scope = trio.CancelScope(shield=True)
        self._scopes.add(scope)

        async def run() -> None:
            with scope:
                await work()
            self._scopes.discard(scope)
            if not self._scopes:
                self._ended.set()

        self._nursery.start_soon(run)

    async def _end(self) -> None:
        """Write what has happened so far, for at most `CLOSING` seconds."""
        self._over = True
        for watching in list(self._watching):
            watching.close()  # its relay reads what waits there, and ends
        if not self._watching:
            self._writer.finish()
        with trio.move_on_after(CLOSING, shield=True):
            await self._ended.wait()
        for scope in self._scopes:
            scope.cancel()


@asynccontextmanager
async def open_log(
    output: LogOutput | None = None,
    *,
    config: Config | None = None,
    texts: bool = False,
    server_lines: bool = True,
    capacity: int = CAPACITY,
) -> AsyncGenerator[EventLog]:
    """Open a log that is written for as long as the block lasts.

    Leaving writes the remaining records, for at most one second, cancelled or not.

    Args:
      output: `json_lines`, `key_values`, or a structlog logger; None is the logger
        ``glyphoxa_trio`` of the structlog configuration in force.
      config: its secrets are hidden from the first record on, those of a runtime
        from when it is followed.
      texts: also log what players say, models ask and tools answer.
      server_lines: also log what servers write to stderr, which is theirs to
        answer for.
      capacity: records that may wait for the output; what comes on top is dropped
        and counted, in a record ``records_lost``.
    """
    if output is None:  # the import is not for the loop to wait for
        output = await trio.to_thread.run_sync(configured)
    configs = [] if config is None else [lambda: config]
    writer, servers = LogWriter(output, capacity), ServerRecords(lines=server_lines)
    with lone_errors():
        async with trio.open_nursery() as nursery:
            log = EventLog(writer, nursery, texts, servers, configs)
            log._start(writer.run)
            try:
                yield log
            finally:
                await log._end()


@asynccontextmanager
async def log_events(
    runtime: Runtime,
    output: LogOutput | None = None,
    *,
    texts: bool = False,
    capacity: int = CAPACITY,
) -> AsyncGenerator[EventLog]:
    """Log what ``runtime`` does inside the block: `open_log`, and `follow` it."""
    async with open_log(
        output, config=runtime.config, texts=texts, capacity=capacity
    ) as log:
        log.follow(runtime)
        yield log


@asynccontextmanager
async def open_log_file(
    path: Path, *, config: Config | None = None, texts: bool = False
) -> AsyncGenerator[EventLog]:
    """`open_log` as lines of JSON at the end of a file; a new one is its owner's only.

    Raises:
      OSError: if it cannot be opened.
    """
    file = await trio.to_thread.run_sync(_append_to, path, abandon_on_cancel=True)
    try:
        output = await trio.to_thread.run_sync(json_lines, file)
        async with open_log(output, config=config, texts=texts) as log:
            yield log
    finally:  # a disk that is stuck does not hold up the end either
        with trio.move_on_after(CLOSING, shield=True):
            with suppress(OSError):
                await trio.to_thread.run_sync(file.close, abandon_on_cancel=True)


def _append_to(path: Path) -> TextIO:
    flags = os.O_APPEND | os.O_CREAT | os.O_WRONLY
    return os.fdopen(os.open(path, flags, 0o600), "a", encoding="utf-8")


def _same(left: Sequence[object], right: Sequence[object]) -> bool:
    return len(left) == len(right) and all(
        one is other for one, other in zip(left, right, strict=True)
    )
