"""What the model of one round is shown and told: decided here, and nowhere else.

A turn and a speculation of it go the same way, so that the two can be compared.
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

# To the model that only opens, and to the one that goes on. No word of tools or time:
# neither concerns a character.
OPENING: Final = (
    "Now say only the first sentence of your answer, a short one that fits whatever"
    " follows. Promise nothing, and state nothing that you would have to look up."
)
CONTINUING: Final = (
    "Your answer to what was said last has begun: your last message is its beginning,"
    " and was said aloud. Go on right behind its last word, and do not say it again."
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
    """Ask the gate what this round's model may see. The next round of ``shelf``."""
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
    """What the model is told. In the ``last`` round it has to answer in words.

    Args:
      opened: the answer has an opener, which was said for it.
    """
    notices = filter(None, (view.summary, CONTINUING if opened else ""))
    return LLMRequest(
        messages=conversation.prompt(exchange, notice="\n\n".join(notices)),
        tools=specs_of(view.shown),
        tools_forbidden=last or not view.shown,
    )


def opening_request(conversation: Conversation, exchange: Exchange) -> LLMRequest:
    """What a fast model is told that only opens: what was said, nothing of tools."""
    told = conversation.prompt(exchange, notice=OPENING)
    return LLMRequest(messages=tuple(_words(told)), tools_forbidden=True)


def only_opens(request: LLMRequest) -> bool:
    """Whether this is the request of a fast model, for those who play models."""
    first, *_ = request.messages
    return first.role == "system" and first.content.endswith(OPENING)


def _words(messages: Iterable[Message]) -> list[Message]:
    """Without calls and their answers; what was said around them is one message."""
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
    return tuple(
        ToolSpec(
            name=listing.exposed,
            description=listing.definition.description,
            parameters=listing.definition.parameters,
        )
        for listing in shown
    )
