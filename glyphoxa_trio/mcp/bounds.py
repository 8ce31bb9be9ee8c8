"""Limits on the size of what a server sends, for both transports. All limits are here.

Whatever is parsed on the event loop delays everything else, so it must be small: 64 KiB
of JSON with 10,000 nodes are parsed in 0.3 ms. The nodes cannot be counted before
parsing, but a text has at most one more than it has commas and opening brackets, and
counting those is fast. A larger answer to a request of ours goes to a worker process,
which returns a condensed form of it. An answer beyond the second limit is not parsed at
all.
"""

from __future__ import annotations

from typing import Final

# Parsed on the event loop.
LOOP_BYTES: Final = 64 * 2**10
LOOP_NODES: Final = 10_000
# Parsed at all: an answer to a request of ours.
MOST_BYTES: Final = 16 * 2**20
MOST_NODES: Final = 200_000
# Bytes dropped of a line beyond that, before the connection is closed.
MOST_DROPPED: Final = 16 * 2**20

# Unsolicited messages of a server, a second and in a burst, before its output is read
# more slowly.
LINES_A_SECOND: Final = 1_000.0
LINES_AT_ONCE: Final = 200.0
BYTES_A_SECOND: Final = float(4 * 2**20)
BYTES_AT_ONCE: Final = float(16 * 2**20)

# Over HTTP an event counts as so many lines, because the SDK parses it; a request of
# the server counts as more, because its answer takes a request of ours and perhaps a
# connection.
LINES_OF_AN_EVENT: Final = 5
LINES_OF_A_REQUEST: Final = 100

# Received before one response over HTTP.
MOST_INTERIM: Final = 16  # responses like "100 Continue"
MOST_REDIRECTS: Final = 5

# A list of tools or resources.
MOST_TOOLS: Final = 1_000
MOST_PAGES: Final = 200
MOST_ENTRIES: Final = 2_000  # of a page of resources
ENTRY_BYTES: Final = 64 * 2**10  # of one tool, with its schemas
ENTRY_NODES: Final = 5_000
LIST_BYTES: Final = 4 * 2**20  # of everything that is kept of a page

# Kept of a large answer: more than a model reads of it.
KEPT_TEXT: Final = 24 * 2**10  # bytes of its texts
# Bytes of its structured data, and so at most half as many nodes.
KEPT_DATA: Final = 20_000

# The worker processes that read large answers.
WORKERS: Final = 2
WORKER_MEMORY: Final = 512 * 2**20
WORKER_PATIENCE: Final = 10.0  # seconds that a worker may take for one answer

RECONNECT: Final = 250  # milliseconds at least, whatever an event stream asks for
CODINGS: Final = ("", "identity", "gzip", "x-gzip", "deflate")  # at most one of these


def nodes_of(text: bytes | bytearray | memoryview) -> int:
    """Return an upper bound of the number of nodes in a JSON text."""
    data = bytes(text) if isinstance(text, memoryview) else text
    return 1 + data.count(b",") + data.count(b"[") + data.count(b"{")


def is_small(text: bytes | bytearray) -> bool:
    """Return whether a text may be parsed on the event loop."""
    if len(text) <= LOOP_NODES:
        return True  # each node takes at least a byte
    return len(text) <= LOOP_BYTES and nodes_of(text) <= LOOP_NODES


def beyond(size: int, nodes: int) -> str | None:
    """Return in words which limit an answer exceeds; None if it may be parsed."""
    if size > MOST_BYTES:
        return f"it has more than {MOST_BYTES >> 20} MB"
    if nodes > MOST_NODES:
        return f"it has more than {MOST_NODES} values"
    return None
