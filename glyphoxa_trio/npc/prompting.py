"""The requests to models: the visible tools and the messages of one round.

A turn and its speculation use the same functions, so that their requests can be
compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from glyphoxa_trio.host import (
    CatalogueEntry,
    LoadedTools,
    ToolHost,
    VisibleTools,
    showing,
)
from glyphoxa_trio.host.search import Permitted
from glyphoxa_trio.npc.conversation import Conversation, Exchange
from glyphoxa_trio.providers.llm import LLMRequest, Message, ToolSpec
from glyphoxa_trio.tools.gate import Grant
from glyphoxa_trio.tools.tier import Tier

# To the model that only begins, and to the one that continues. Tools and time are not
# mentioned: neither concerns a character.
OPENING: Final = (
    "Now say only the first sentence of your answer, a short one that fits whatever"
    " follows. Promise nothing, and state nothing that you would have to look up."
)
CONTINUING: Final = (
    "Your answer to what was said last has begun: your last message is its beginning,"
    " and was said aloud. Continue right after its last word, and do not repeat it."
)


def visible_tools(
    host: ToolHost,
    shelf: LoadedTools,
    *,
    tier: Tier,
    grant: Grant,
    remaining: float,
    threshold: int,
    permitted: Permitted,
) -> VisibleTools:
    """Return the tools that the model may see. Counts as a round of ``shelf``."""
    return showing(
        host.explain(tier, grant=grant, remaining=remaining),
        shelf,
        threshold=threshold,
        permitted=permitted,
    )


def request_of(
    conversation: Conversation,
    exchange: Exchange,
    view: VisibleTools,
    *,
    last: bool,
    opened: bool = False,
) -> LLMRequest:
    """Return the request of a round; in the ``last`` one, tools are forbidden.

    Args:
      conversation: the history.
      exchange: the current turn.
      view: the visible tools.
      last: whether this is the last round.
      opened: whether the answer has an opener, which was said before.
    """
    notices = filter(None, (view.summary, CONTINUING if opened else ""))
    return LLMRequest(
        messages=conversation.prompt(exchange, notice="\n\n".join(notices)),
        tools=specs_of(view.shown),
        tools_forbidden=last or not view.shown,
    )


def opening_request(conversation: Conversation, exchange: Exchange) -> LLMRequest:
    """Return the request to a fast model: what was said, without tools."""
    told = conversation.prompt(exchange, notice=OPENING)
    return LLMRequest(messages=tuple(_words(told)), tools_forbidden=True)


def only_opens(request: LLMRequest) -> bool:
    """Return True if this is the request to a fast model. For simulated models."""
    first, *_ = request.messages
    return first.role == "system" and first.content.endswith(OPENING)


def _words(messages: Iterable[Message]) -> list[Message]:
    """Return the messages without calls and answers, joining the words around."""
    said: list[Message] = []
    for message in messages:
        ours = message.role == "assistant"
        if message.role == "tool" or (ours and not message.content):
            continue
        if ours and said and said[-1].role == "assistant":
            content = f"{said[-1].content} {message.content}"
            said[-1] = attrs.evolve(said[-1], content=content)
        else:
            said.append(attrs.evolve(message, calls=()))
    return said


def specs_of(shown: Sequence[CatalogueEntry]) -> tuple[ToolSpec, ...]:
    """Return the tools in the form in which a model is told of them."""
    return tuple(
        ToolSpec(
            name=listing.exposed,
            description=listing.definition.description,
            parameters=listing.definition.parameters,
        )
        for listing in shown
    )
