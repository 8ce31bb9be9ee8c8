"""Structured logs, metrics, telemetry and recordings of a runtime.

This package subscribes to the events of the others; none of them imports it.
"""

from typing import TYPE_CHECKING

from glyphoxa_trio.renamed import renamed

from .exposition import open_exposition
from .family import MetricsError
from .logs import EventLog, log_events, open_log, open_log_file
from .metrics import Metrics, open_metrics
from .outputs import LogOutput, json_lines, key_values
from .scores import Score, places, ranked, scores_of
from .telemetry import Telemetry, open_telemetry
from .writer import LogStatistics

__all__ = [
    "EventLog",
    "LogOutput",
    "LogStatistics",
    "Metrics",
    "MetricsError",
    "Score",
    "Telemetry",
    "json_lines",
    "key_values",
    "log_events",
    "open_exposition",
    "open_log",
    "open_log_file",
    "open_metrics",
    "open_telemetry",
    "places",
    "ranked",
    "scores_of",
]

if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, Output="LogOutput")
