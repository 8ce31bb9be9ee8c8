"""The recording of a session, which can be played again (docs/recording.md).

    async with open_recording(Path("table.jsonl")) as recording:
        async with open_runtime(config, environment=recording.environment()) as runtime:
            ...

A recording has the input of a runtime: what players say and when they stop listening,
what models answer, what tools return, what servers offer and what was measured; and, to
compare with, every event that the runtime published. Inside `SteppingClock`
a replay comes to the same events with the same times; without it, to about the same.

`Recorder` makes the lines and gives them to a function; `open_recording` writes them to
a file, in a thread, so that no turn ever waits for a disk.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

import trio

from glyphoxa_trio.actors import lone_errors
from glyphoxa_trio.observability.outputs import LogOutput
from glyphoxa_trio.observability.recording.lines import (
    MOST_BYTES,
    LineOutput,
    RecordingFile,
)
from glyphoxa_trio.observability.recording.recorder import Recorder, recorder_of
from glyphoxa_trio.observability.records import Level, LogRecord
from glyphoxa_trio.observability.stepping import SteppingClock
from glyphoxa_trio.observability.writer import LogWriter
from glyphoxa_trio.runtime.environment import REAL, Environment
from glyphoxa_trio.units import many

if TYPE_CHECKING:
    pass

__all__ = ["Recorder", "Recording", "open_recording", "recorder_of"]

CAPACITY: Final = 20_000  # lines that may wait for the disk
CLOSING: Final = 2.0  # seconds for the last of them, at the end


@attrs.define(eq=False)
class Recording:
    """Made by `open_recording`: a recorder whose lines go into a file."""

    path: Path
    _recorder: Recorder
    _lines: LineOutput
    _writer: LogWriter

    def environment(self, real: Environment = REAL) -> Environment:
        """For `open_runtime`, and for one runtime only."""
        return self._recorder.environment(real)

    @property
    def failure(self) -> str:
        """Why the file is not whole; empty as long as it is."""
        statistics = self._writer.statistics()
        if self._lines.failure:
            return self._lines.failure
        missing = statistics.failed + statistics.lost + self._recorder.failed
        return f"{many(missing, 'line is', 'lines are')} missing" if missing else ""


@asynccontextmanager
async def open_recording(
    path: Path, *, most_bytes: int = MOST_BYTES, capacity: int = CAPACITY
) -> AsyncGenerator[Recording]:
    """A recording that is written for as long as the block lasts.

    The block goes around a runtime's. Until its end the file is beside ``path``, with
    ``.part`` at its end. Leaving takes at most two seconds, cancelled or not.

    Args:
      most_bytes: beyond it the recording ends, and says so.
      capacity: lines that may wait for the disk; beyond it, likewise.

    Raises:
      OSError: if the file cannot be made.
    """
    file = RecordingFile(path)
    opened = await trio.to_thread.run_sync(file.open, abandon_on_cancel=True)
    lines = LineOutput(opened, most_bytes=most_bytes)
    writer = LogWriter(cast("LogOutput", lines), capacity)

    def take(kind: str, fields: Mapping[str, Any]) -> None:
        writer.put(LogRecord(Level.INFO, kind, fields))

    recorder = Recorder(take, lines.hide)
    clock = trio.lowlevel.current_clock()
    if isinstance(clock, SteppingClock):
        clock.when_lost(
            lambda at, seconds: take(
                "inexact",
                {"at": at, "why": f"always something to do for {seconds:.3f} s"},
            )
        )
    done = trio.Event()
    with lone_errors():
        async with trio.open_nursery() as nursery:
            writing = trio.CancelScope(shield=True)

            async def write() -> None:
                with writing:
                    await writer.run()
                done.set()

            nursery.start_soon(write)
            try:
                yield Recording(path, recorder, lines, writer)
            finally:
                recorder.end()
                at = trio.current_time()
                writer.finish()
                with trio.move_on_after(CLOSING, shield=True):
                    await done.wait()
                    with suppress(OSError):
                        await trio.to_thread.run_sync(
                            partial(_finish, lines, file, at), abandon_on_cancel=True
                        )
                writing.cancel()


def _finish(lines: LineOutput, file: RecordingFile, at: float) -> None:
    try:
        lines.end(at, "closed")
        file.close()
    except OSError as error:
        lines.fail(error)
        raise
