"""Outputs for records: any structlog logger, or one of the two that are made here.

An embedder who has configured structlog has chosen the output already; the two
functions are for the others, and change no configuration of structlog.
structlog is imported when an output is asked for, not before.
"""

from __future__ import annotations

from typing import Any, Protocol, TextIO, cast


class LogOutput(Protocol):
    """The target of a log: a structlog logger, or an object like one.

    It is called in a worker thread, one record at a time. It may be slow, block
    or raise: that costs records, and delays no turn.
    """

    def debug(self, event: str, **fields: Any) -> Any: ...
    def info(self, event: str, **fields: Any) -> Any: ...
    def warning(self, event: str, **fields: Any) -> Any: ...
    def error(self, event: str, **fields: Any) -> Any: ...


def configured() -> LogOutput:
    """The logger ``glyphoxa_trio`` of whatever structlog configuration there is."""
    import structlog

    return cast("LogOutput", structlog.get_logger("glyphoxa_trio"))


def json_lines(file: TextIO) -> LogOutput:
    """One JSON object a line; each is flushed. The file stays the caller's."""
    from structlog.processors import JSONRenderer

    return _to(file, JSONRenderer())


def key_values(file: TextIO) -> LogOutput:
    """``level=info event=tool_call tool=roll …``: for people, and for ``grep``."""
    from structlog.processors import LogfmtRenderer

    return _to(file, LogfmtRenderer(key_order=["at", "level", "event"]))


def _to(file: TextIO, render: Any) -> LogOutput:
    import structlog
    from structlog.processors import add_log_level

    logger = structlog.wrap_logger(
        structlog.WriteLogger(file),
        processors=[add_log_level, render],
        wrapper_class=structlog.make_filtering_bound_logger(0),
        context_class=dict,
        cache_logger_on_first_use=False,
    )
    return cast("LogOutput", logger)
