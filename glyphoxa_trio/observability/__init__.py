"""What a runtime does, for those who watch it: structured logs.

Subscribes to the events of the other rooms; none of them knows of this one.
"""

from .logs import EventLog, log_events, open_log, open_log_file
from .outputs import Output, json_lines, key_values
from .writer import LogStatistics

__all__ = [
    "EventLog",
    "LogStatistics",
    "Output",
    "json_lines",
    "key_values",
    "log_events",
    "open_log",
    "open_log_file",
]
