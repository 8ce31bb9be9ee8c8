"""The records of a machine that is asked for too much."""

from __future__ import annotations

from glyphoxa_trio.runtime import OverloadBegan, OverloadEnded, OverloadEvent
from glyphoxa_trio.units import milliseconds

from .records import Level, LogRecord


def overload_record(event: OverloadEvent) -> LogRecord:
    """Turns begin or cease to be turned away."""
    match event:
        case OverloadBegan(running=running, lag=lag, limit=limit):
            fields = {"running": running, "limit": limit, "lag_ms": milliseconds(lag)}
            return LogRecord(Level.WARNING, "overload", fields)
        case OverloadEnded(shed=shed, seconds=seconds):
            fields = {"shed": shed, "duration_ms": milliseconds(seconds)}
            return LogRecord(Level.INFO, "overload_ended", fields)
