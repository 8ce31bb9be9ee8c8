"""What a server says by itself over HTTP, and how much of it the SDK gets to read.

Every message that the SDK reads is validated, and a request of the server is answered
by a request of ours: a hundred times the work of reading it here. So what nobody of us
would hear, word of progress or of its state, ends here, and the rest counts for more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from . import bounds

# What somebody of us listens to.
_HEARD: Final = frozenset(
    {
        "notifications/cancelled",
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
    }
)


def lines_of(
    message: Mapping[str, Any], *, answers: Callable[[Any], bool], is_reply: bool
) -> int | None:
    """As how many lines a small message counts; None if nobody needs to read it.

    Args:
      answers: whether an id is that of a request of ours.
      is_reply: it came in the stream that answers a request, so what is no
        notification may be meant for that one.
    """
    if "method" not in message:
        wanted = is_reply or answers(message.get("id"))
        return bounds.LINES_OF_AN_EVENT if wanted else None
    if "id" in message:
        return bounds.LINES_OF_A_REQUEST
    return bounds.LINES_OF_AN_EVENT if message["method"] in _HEARD else None


def misshapen(message: Mapping[str, Any]) -> str | None:
    """Why no message of JSON-RPC looks like this; None if it is one.

    The SDK would say so, too, and write down all of it, some dozen times.
    """
    if isinstance(message.get("id"), dict | list):
        return "its id is none"
    if "method" in message:
        params = message.get("params")
        fine = isinstance(message["method"], str) and isinstance(params, dict | None)
        return None if fine else "its method or its params are none"
    if (error := message.get("error")) is not None:
        fine = isinstance(error, dict) and type(error.get("code")) is int
        fine = fine and isinstance(error.get("message"), str)
        return None if fine else "its error has no code or no message"
    fine = isinstance(message.get("result"), dict)
    return None if fine else "it is neither a result nor an error"
