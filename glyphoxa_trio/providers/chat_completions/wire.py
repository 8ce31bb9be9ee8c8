"""The chat-completions request, free of I/O: a round of a conversation as JSON.

The conversation has the shape of `shaping`, which strict servers take. What comes
back is `assembler`'s, what goes wrong `failures`'. What a model once said oddly must
not poison every later request, so names and arguments go back in a form that servers
take.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import attrs

from glyphoxa_trio.providers.abilities import Abilities
from glyphoxa_trio.providers.llm import LLMRequest, Message, ToolSpec
from glyphoxa_trio.providers.payloads import is_whole, safe_name
from glyphoxa_trio.providers.shaping import NOTHING, ShapedTurn, Text, shape
from glyphoxa_trio.tools.outcome import ToolCall

DISPENSABLE: Final = frozenset({"tool_choice", "stream_options", "parallel_tool_calls"})
"""Fields that some servers refuse, and a request can do without."""

_OURS: Final = frozenset({"model", "messages", "tools", "stream", "n"}) | DISPENSABLE


@attrs.frozen(kw_only=True)
class RequestOptions(Abilities):
    """What to ask of the model beside the conversation, and what it can take.

    Args:
      max_tokens_field: older and local servers know only ``max_tokens``.
      stream_options: the server takes it; without it there is no `Usage`.
      parallel_tool_calls: None says nothing and leaves it to the server.
      name_field: the server takes ``name`` in a user's message. Most refuse it, so
        who speaks is part of the text without it.
      extra: further fields of the body, such as ``seed`` or ``reasoning_effort``.

    Raises:
      ValueError: if ``extra`` names a field that belongs to the request.
    """

    temperature: float | None = None
    max_tokens: int | None = None
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = (
        "max_completion_tokens"
    )
    stream_options: bool = True
    parallel_tool_calls: bool | None = None
    name_field: bool = False
    extra: Mapping[str, Any] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        if taken := sorted(_OURS & set(self.extra)):
            raise ValueError(f"extra: {', '.join(taken)} cannot be set here")

    def without(self, fields: frozenset[str]) -> RequestOptions:
        """The same, leaving out fields of `DISPENSABLE` that a server refused."""
        parallel = self.parallel_tool_calls
        return attrs.evolve(
            self,
            tool_choice=self.tool_choice and "tool_choice" not in fields,
            stream_options=self.stream_options and "stream_options" not in fields,
            parallel_tool_calls=None if "parallel_tool_calls" in fields else parallel,
        )


def request_body(
    request: LLMRequest, model: str, *, options: RequestOptions
) -> dict[str, Any]:
    """The body of ``POST /chat/completions``."""
    body: dict[str, Any] = {
        "model": model,
        "messages": list(_messages(request.messages, options)),
        "stream": True,
    }
    forced = request.tools_forbidden and not options.tool_choice
    if request.tools and options.tools and not forced:
        body["tools"] = [_tool(spec) for spec in request.tools]
        if request.tools_forbidden:
            body["tool_choice"] = "none"
        else:
            if options.tool_choice:  # for one server, nothing said is "none"
                body["tool_choice"] = "auto"
            if options.parallel_tool_calls is not None:
                body["parallel_tool_calls"] = options.parallel_tool_calls
        body["stream"] = options.streams_calls
    if options.stream_options and body["stream"]:
        body["stream_options"] = {"include_usage": True}
    if options.temperature is not None:
        body["temperature"] = options.temperature
    if options.max_tokens is not None:
        body[options.max_tokens_field] = options.max_tokens
    return body | dict(options.extra)


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": spec.name,
            "description": spec.description,
            "parameters": spec.parameters,
        },
    }


def _messages(
    messages: Sequence[Message], options: RequestOptions
) -> Iterator[dict[str, Any]]:
    shaped = shape(
        messages,
        tool_messages=options.tools and options.tool_messages,
        short_ids=options.short_ids,
    )
    # Without a role of its own the prompt stands before the first words.
    before = [] if options.system_role else [shaped.system] * bool(shaped.system)
    if shaped.system and options.system_role:
        yield {"role": "system", "content": shaped.system}
    results: dict[str, str] = {}
    turns = shaped.turns
    for at, turn in enumerate(turns):
        if turn.role == "assistant":
            following = turns[at + 1].results if at + 1 < len(turns) else []
            results = {x.call.id: x.content for x in following}
            yield from _answer(turn, results, one_call=options.one_call)
            continue
        if turn.texts and turn.results:
            # Some servers want the assistant's words between a result and a user's.
            yield {"role": "assistant", "content": NOTHING}
        if turn.texts:
            yield _said(turn.texts, before, name_field=options.name_field)
            before = []


def _said(
    texts: Sequence[Text], before: Sequence[str], *, name_field: bool
) -> dict[str, Any]:
    if name_field and len(texts) == 1 and not before and texts[0].name:
        name = safe_name(texts[0].name)
        return {"role": "user", "content": texts[0].text, "name": name}
    return {"role": "user", "content": "\n\n".join([*before, *map(str, texts)])}


def _answer(
    turn: ShapedTurn, results: Mapping[str, str], *, one_call: bool
) -> Iterator[dict[str, Any]]:
    """What the assistant said, its calls, and what they came to."""
    content = "\n\n".join(map(str, turn.texts))
    calls = turn.calls
    if not calls:
        yield {"role": "assistant", "content": content}
        return
    for row in [[call] for call in calls] if one_call else [calls]:
        yield {
            "role": "assistant",
            "content": content,  # "" and not null, which some servers answer with 500
            "tool_calls": [_call(call) for call in row],
        }
        content = ""
        for call in row:
            yield {
                "role": "tool",
                "tool_call_id": call.id,
                "content": results.get(call.id, ""),
            }


def _call(call: ToolCall) -> dict[str, Any]:
    # Servers answer 400 or 500 to a history that holds a broken name or broken
    # JSON; its tool message says what was wrong.
    return {
        "id": call.id,
        "type": "function",
        "function": {
            "name": safe_name(call.name),
            "arguments": call.arguments if is_whole(call.arguments) else "{}",
        },
    }
