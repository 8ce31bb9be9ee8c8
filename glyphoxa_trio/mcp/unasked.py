"""Unsolicited messages over HTTP, and how many of them the SDK gets to read.

Every message that the SDK reads is validated, and a request of the server is answered
by a request of ours: a hundred times the work of reading it here. So messages that we
do not use, about progress or the server's state, are dropped here, and the others count
for more against the rate limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from . import bounds

# The notifications that we use.
_HEARD: Final = frozenset(
    {
        "notifications/cancelled",
        "notifications/subscriptions/acknowledged",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/tools/list_changed",
    }
)


def lines_of(
    message: Mapping[str, Any], *, answers: Callable[[Any], bool], is_reply: bool
) -> int | None:
    """Return as how many lines a small message counts; None if it may be dropped.

    Args:
      answers: returns whether an id is that of a request of ours.
      is_reply: the message came in the stream that answers a request, so anything but a
        notification may be meant for that one.
    """
    if "method" not in message:
        wanted = is_reply or answers(message.get("id"))
        return bounds.LINES_OF_AN_EVENT if wanted else None
    if "id" in message:
        return bounds.LINES_OF_A_REQUEST
    return bounds.LINES_OF_AN_EVENT if message["method"] in _HEARD else None


def misshapen(message: Mapping[str, Any]) -> str | None:
    """Return why a message is not valid JSON-RPC; None if it is.

    The SDK would report the same, and log the whole message some dozen times.
    """
    if isinstance(message.get("id"), dict | list):
        return "its id is not valid"
    if "method" in message:
        params = message.get("params")
        fine = isinstance(message["method"], str) and isinstance(params, dict | None)
        return None if fine else "its method or its params are not valid"
    if (error := message.get("error")) is not None:
        fine = isinstance(error, dict) and type(error.get("code")) is int
        fine = fine and isinstance(error.get("message"), str)
        return None if fine else "its error has no code or no message"
    fine = isinstance(message.get("result"), dict)
    return None if fine else "it is neither a result nor an error"
