"""Fit a conversation into a model's context, counted in estimated tokens. No I/O.

The past is shortened until the rest fits: first the results of old calls are replaced
by a mark, the oldest first; then the oldest exchanges are removed. The system prompt
and the current turn stay, and so does the last exchange where the tools leave no room
at all. A cut removes a quarter of the budget instead of one line, so that the prefix
stays the same for some turns and caches remain valid.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import ceil
from typing import Final

import attrs

from .llm import LLMRequest, Message

BYTES_A_TOKEN: Final = 3  # of UTF-8; English has four, and Chinese three
EACH: Final = 8  # tokens for a message's role and separators
ANSWER: Final = 1024  # tokens kept free for the answer, unless configured
MARK: Final = "(This answer is no longer kept.)"


def estimate(messages: Sequence[Message]) -> int:
    """Estimate the tokens of these messages, rather too many than too few."""
    return sum(map(_size, messages))


def fitted(
    request: LLMRequest, context_tokens: int | None, *, answer: int | None = None
) -> LLMRequest:
    """Return the request with as much of the past as the model takes.

    Args:
      context_tokens: the size of the model's context; None leaves the request
        unchanged.
      answer: tokens that are kept free for the answer.
    """
    if context_tokens is None:
        return request
    budget = room(request, context_tokens, answer=answer)
    if estimate(request.messages) <= budget:
        return request
    return attrs.evolve(request, messages=_less(request.messages, budget))


def room(request: LLMRequest, context_tokens: int, *, answer: int | None = None) -> int:
    """Return the tokens left for messages, beside the tools and the answer.

    The result is below one if the tools alone take too many.
    """
    # The answer may be allowed more than the context has; half of it is for the
    # request.
    free = min(answer or min(ANSWER, context_tokens // 4), context_tokens // 2)
    return context_tokens - free - size_of_tools(request)


def size_of_tools(request: LLMRequest) -> int:
    """Estimate the tokens of the tools in a request."""
    return sum(
        _tokens(json.dumps(dict(x.parameters), default=dict))
        + _tokens(x.name + x.description)
        + EACH
        for x in request.tools
    )


def _less(messages: Sequence[Message], budget: int) -> tuple[Message, ...]:
    """Shorten the past of ``messages`` to ``budget`` tokens."""
    begin = 1 if messages and messages[0].role == "system" else 0
    users = (i for i, x in enumerate(messages) if x.role == "user")
    now = max(users, default=len(messages))  # the current turn
    # Facts for the turn, in a message of their own before it, belong to it.
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
                break  # a model with too many tools still hears what was said last
            wanted -= estimate(past[:end])
            del past[:end]
    return (*opening, *past, *turn)


def _first_exchange(past: Sequence[Message]) -> int:
    """Return where the second exchange begins: with the first words after an answer."""
    answered = False
    for at, message in enumerate(past):
        spoken = message.role in ("user", "system")
        if answered and spoken:
            return at
        answered = answered or not spoken
    return len(past)


def _steps(tokens: int, step: int) -> int:
    """Round up to a multiple of ``step``."""
    return ceil(tokens / step) * step


def _marked(message: Message) -> Message:
    """Return a result without its content."""
    return attrs.evolve(message, content=MARK)


def _size(message: Message) -> int:
    calls = sum(_tokens(x.name + x.arguments) + EACH for x in message.calls)
    own = _tokens(message.verbatim.content) if message.verbatim is not None else 0
    return EACH + _tokens(message.name + message.content) + calls + own


def _tokens(text: str) -> int:
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return -(-size // BYTES_A_TOKEN)
