"""What the SDK logs of each bad message, a server could say a thousand times a second.

Most are a traceback with a piece of the message in it, on the stderr of a program that
has set up no logging, and take longer to write down than the message to read. What a
server says that is of no use is noted elsewhere, with a bound.
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
    """Let no message of a server become a line of a log; once is enough."""
    for name in _SAID:
        logger = logging.getLogger(name)
        if _is_wanted not in logger.filters:
            logger.addFilter(_is_wanted)


def _is_wanted(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(_SAID.get(record.name, ()))
