"""What a server says by itself over HTTP, and how much of it the SDK gets to read.

Every message that the SDK reads is validated, and a request of the server is answered
by a request of ours: a hundred times the work of reading it here. So what nobody of us
would hear, word of progress or of its state, ends here, and the rest counts for more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from . import bounds
from .framing import decode

# What somebody of us listens to.
_HEARD: Final = frozenset(
    {
        "notifications/cancelled",
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
    }
)


def lines_of(
    data: bytes, *, answers: Callable[[Any], bool], is_reply: bool
) -> int | None:
    """As how many lines a small message counts; None if nobody needs to read it.

    Args:
      data: of an event.
      answers: whether an id is that of a request of ours.
      is_reply: it came in the stream that answers a request, so what is no
        notification may be meant for that one.
    """
    message = decode(data)
    if message is None:
        return bounds.LINES_OF_AN_EVENT if is_reply else None
    if "method" not in message:
        wanted = is_reply or answers(message.get("id"))
        return bounds.LINES_OF_AN_EVENT if wanted else None
    if "id" in message:
        return bounds.LINES_OF_A_REQUEST
    method = message["method"]
    is_heard = isinstance(method, str) and method in _HEARD
    return bounds.LINES_OF_AN_EVENT if is_heard else None
