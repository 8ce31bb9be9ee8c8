"""Filters for the SDK's log lines about bad messages.

A server could cause a thousand such lines a second. Most are a traceback with a part of
the message, on the stderr of a program that has set up no logging, and take longer to
write than the message takes to read. Messages that are of no use are noted elsewhere,
within limits.
"""

from __future__ import annotations

import logging
from typing import Final

_SAID: Final = {
    "client": ("Failed to validate notification",),
    "mcp.client.streamable_http": (
        "Error parsing",
        "Redirect to ",
        "Unexpected content type",
        "Unknown SSE event",
    ),
}


def hush_the_sdk() -> None:
    """Add the filters to the SDK's loggers; calling it again changes nothing."""
    for name in _SAID:
        logger = logging.getLogger(name)
        if _is_wanted not in logger.filters:
            logger.addFilter(_is_wanted)


def _is_wanted(record: logging.LogRecord) -> bool:
    """Return whether a record should be logged."""
    return not str(record.msg).startswith(_SAID.get(record.name, ()))
