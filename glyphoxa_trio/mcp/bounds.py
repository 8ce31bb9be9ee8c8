"""How much a server may say, on either transport. Every bound stands here.

What is read on the loop holds everybody else, so it is small: 64 KiB of JSON and
10,000 nodes are read in 0.3 ms. Nodes are not known before the reading, but a text
has at most one more than it has commas and opening brackets, and counting these is
fast. What is larger and answers a request of ours goes to a worker process, which
gives back what is kept of it; what is larger still is not read at all.
"""

from __future__ import annotations

from typing import Final

# On the loop.
LOOP_BYTES: Final = 64 * 2**10
LOOP_NODES: Final = 10_000
# At all: an answer to a request of ours.
MOST_BYTES: Final = 16 * 2**20
MOST_NODES: Final = 200_000
MOST_DROPPED: Final = 16 * 2**20  # of a line beyond that, before the connection ends

# What a server says unasked, a second and at once, before it is read more slowly.
LINES_A_SECOND: Final = 1_000.0
LINES_AT_ONCE: Final = 200.0
BYTES_A_SECOND: Final = float(4 * 2**20)
BYTES_AT_ONCE: Final = float(16 * 2**20)

# Over HTTP, as how many lines counts what the SDK reads of it, and what has to be
# answered, which takes a request of ours and perhaps a connection.
LINES_OF_AN_EVENT: Final = 5
LINES_OF_A_REQUEST: Final = 100

# Before one answer over HTTP.
MOST_INTERIM: Final = 16  # "100 Continue" and the like
MOST_REDIRECTS: Final = 5

# A list of tools or resources.
MOST_TOOLS: Final = 1_000
MOST_PAGES: Final = 200
MOST_ENTRIES: Final = 2_000  # of a page of resources
ENTRY_BYTES: Final = 64 * 2**10  # of one tool, with its schemas
ENTRY_NODES: Final = 5_000
LIST_BYTES: Final = 4 * 2**20  # of all that is kept of a page

# What is kept of a large answer: more than a model reads of it.
KEPT_TEXT: Final = 24 * 2**10  # bytes of its words
KEPT_DATA: Final = 20_000  # bytes of its data, and so at most half as many nodes

# The worker processes that read large answers.
WORKERS: Final = 2
WORKER_MEMORY: Final = 512 * 2**20
WORKER_PATIENCE: Final = 10.0  # seconds for one answer

RECONNECT: Final = 250  # milliseconds at least, whatever a stream says
CODINGS: Final = ("", "identity", "gzip", "x-gzip", "deflate")  # and one layer


def nodes_of(text: bytes | bytearray | memoryview) -> int:
    """How many nodes a JSON text has at most."""
    data = bytes(text) if isinstance(text, memoryview) else text
    return 1 + data.count(b",") + data.count(b"[") + data.count(b"{")


def is_small(text: bytes | bytearray) -> bool:
    """Whether a text may be parsed on the loop."""
    if len(text) <= LOOP_NODES:
        return True  # each node takes a byte
    return len(text) <= LOOP_BYTES and nodes_of(text) <= LOOP_NODES


def beyond(size: int, nodes: int) -> str | None:
    """Which bound an answer exceeds, in words; None if it may be read."""
    if size > MOST_BYTES:
        return f"it has more than {MOST_BYTES >> 20} MB"
    if nodes > MOST_NODES:
        return f"it has more than {MOST_NODES} values"
    return None
