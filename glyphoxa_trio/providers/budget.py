"""How much of a conversation a model takes, in tokens that are estimated. Pure.

What is told of the past becomes less until the rest fits: first the results of old
calls become a mark, the oldest first; then the oldest exchanges go. The system prompt
and what belongs to the turn that goes on stay, and the last exchange where the tools
leave no room at all. A cut takes a quarter of the budget
away, not a line, so that the prefix stays the same for some turns and caches hold.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import ceil
from typing import Final

import attrs

from .llm import LLMRequest, Message

BYTES_A_TOKEN: Final = 3  # of UTF-8; English has four, and Chinese three
EACH: Final = 8  # tokens around a message: its role and marks
ANSWER: Final = 1024  # tokens kept free for the answer, if nobody says how many
MARK: Final = "(This answer is no longer kept.)"


def estimate(messages: Sequence[Message]) -> int:
    """Tokens of these messages, rather too many than too few."""
    return sum(map(_size, messages))


def fitted(
    request: LLMRequest, context_tokens: int | None, *, answer: int | None = None
) -> LLMRequest:
    """The request with as much of the past as the model takes beside the rest.

    Args:
      context_tokens: what the model takes in all; None leaves the request alone.
      answer: tokens that the answer may have, which are kept free.
    """
    if context_tokens is None:
        return request
    budget = room(request, context_tokens, answer=answer)
    if estimate(request.messages) <= budget:
        return request
    return attrs.evolve(request, messages=_less(request.messages, budget))


def room(request: LLMRequest, context_tokens: int, *, answer: int | None = None) -> int:
    """Tokens for what is said, beside the tools and the answer; below one if the tools
    alone are too many."""
    # An answer may be allowed more than a model has; half of it is for the question.
    free = min(answer or min(ANSWER, context_tokens // 4), context_tokens // 2)
    return context_tokens - free - size_of_tools(request)


def size_of_tools(request: LLMRequest) -> int:
    """Tokens of the tools that a request shows."""
    return sum(
        _tokens(json.dumps(dict(x.parameters), default=dict))
        + _tokens(x.name + x.description)
        + EACH
        for x in request.tools
    )


def _less(messages: Sequence[Message], budget: int) -> tuple[Message, ...]:
    begin = 1 if messages and messages[0].role == "system" else 0
    users = (i for i, x in enumerate(messages) if x.role == "user")
    now = max(users, default=len(messages))  # the turn that goes on
    # What is known beside it, said before it in a message of its own, belongs to it.
    while now > begin and messages[now - 1].role in ("user", "system"):
        now -= 1
    opening, past, turn = messages[:begin], list(messages[begin:now]), messages[now:]
    step = max(budget // 4, 1)
    wanted = _steps(estimate(messages) - budget, step)
    for at, message in enumerate(past):
        saved = _size(message) - _size(_marked(message))
        if wanted > 0 and message.role == "tool" and saved > 0:
            past[at] = _marked(message)
            wanted -= saved
    left = estimate(opening) + estimate(past) + estimate(turn) - budget
    if left > 0:
        wanted = _steps(left, step)
        while past and wanted > 0:
            end = _first_exchange(past)
            if budget < 1 and end == len(past):
                break  # who is shown too many tools still hears what was said last
            wanted -= estimate(past[:end])
            del past[:end]
    return (*opening, *past, *turn)


def _first_exchange(past: Sequence[Message]) -> int:
    """Where the second exchange begins: with what is said after an answer."""
    answered = False
    for at, message in enumerate(past):
        spoken = message.role in ("user", "system")
        if answered and spoken:
            return at
        answered = answered or not spoken
    return len(past)


def _steps(tokens: int, step: int) -> int:
    return ceil(tokens / step) * step


def _marked(message: Message) -> Message:
    return attrs.evolve(message, content=MARK)


def _size(message: Message) -> int:
    calls = sum(_tokens(x.name + x.arguments) + EACH for x in message.calls)
    return EACH + _tokens(message.name + message.content) + calls


def _tokens(text: str) -> int:
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return -(-size // BYTES_A_TOKEN)
