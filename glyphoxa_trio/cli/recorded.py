"""``--record``: the session, written down for ``glyphoxa replay``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.runtime.environment import REAL, Environment


class RecordingFailed(GlyphoxaError):
    """The file cannot be written."""


def clock_for(path: Path | None) -> trio.abc.Clock | None:
    """The clock to run on: one that a replay can follow exactly, if there is any."""
    if path is None:
        return None
    from glyphoxa_trio.observability.stepping import SteppingClock

    return SteppingClock()


@asynccontextmanager
async def open_record(
    path: Path | None, warn: Callable[[str], None]
) -> AsyncGenerator[Environment]:
    """The world for `open_runtime`, recorded into ``path`` if that is given.

    Args:
      warn: told at the end if the recording is not whole.

    Raises:
      RecordingFailed: if the file cannot be made.
    """
    if path is None:
        yield REAL
        return
    from glyphoxa_trio.observability.recording.recording import open_recording

    opened = open_recording(path)
    try:
        recording = await opened.__aenter__()
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise RecordingFailed(f"cannot write {path}: {why}") from None
    try:
        yield recording.environment()
    finally:
        await opened.__aexit__(None, None, None)
        if recording.failure:
            warn(f"the recording is not whole: {recording.failure}")
