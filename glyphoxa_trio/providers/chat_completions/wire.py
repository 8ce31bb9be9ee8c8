"""The chat-completions request, free of I/O: a round of a conversation as JSON.

What comes back is `assembler`'s, what goes wrong `failures`'. What a model once
said oddly must not poison every later request, so names and arguments go back
in a form that servers take.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs

from glyphoxa_trio.providers.llm import LLMRequest, Message, ToolSpec
from glyphoxa_trio.providers.payloads import is_whole, safe_name

DISPENSABLE: Final = frozenset({"tool_choice", "stream_options", "parallel_tool_calls"})
"""Fields that some servers refuse, and a request can do without."""

_OURS: Final = frozenset({"model", "messages", "tools", "stream", "n"}) | DISPENSABLE


@attrs.frozen(kw_only=True)
class Options:
    """What to ask of the model beside the conversation, and what it can take.

    Args:
      max_tokens_field: older and local servers know only ``max_tokens``.
      tool_choice: the server takes it. Where it does not, words are forced by
        not listing the tools at all.
      stream_options: the server takes it; without it there is no `Usage`.
      parallel_tool_calls: None says nothing and leaves it to the server.
      extra: further fields of the body, such as ``seed`` or ``reasoning_effort``.

    Raises:
      ValueError: if ``extra`` names a field that belongs to the request.
    """

    temperature: float | None = None
    max_tokens: int | None = None
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = (
        "max_completion_tokens"
    )
    tool_choice: bool = True
    stream_options: bool = True
    parallel_tool_calls: bool | None = None
    extra: Mapping[str, Any] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        if taken := sorted(_OURS & set(self.extra)):
            raise ValueError(f"extra: {', '.join(taken)} cannot be set here")

    def without(self, fields: frozenset[str]) -> Options:
        """The same, leaving out fields of `DISPENSABLE` that a server refused."""
        parallel = self.parallel_tool_calls
        return attrs.evolve(
            self,
            tool_choice=self.tool_choice and "tool_choice" not in fields,
            stream_options=self.stream_options and "stream_options" not in fields,
            parallel_tool_calls=None if "parallel_tool_calls" in fields else parallel,
        )


def request_body(
    request: LLMRequest, model: str, *, options: Options
) -> dict[str, Any]:
    """The body of ``POST /chat/completions``, streaming."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [_message(message) for message in request.messages],
        "stream": True,
    }
    if options.stream_options:
        body["stream_options"] = {"include_usage": True}
    if request.tools and (options.tool_choice or not request.tools_forbidden):
        body["tools"] = [_tool(spec) for spec in request.tools]
        if request.tools_forbidden:
            body["tool_choice"] = "none"
        elif options.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = options.parallel_tool_calls
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


def _message(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        return {
            "role": "tool",
            "tool_call_id": message.call_id,
            "content": message.content,
        }
    wire: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.name and message.role == "user":
        wire["name"] = safe_name(message.name)
    if message.calls:
        wire["content"] = message.content or None
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                # Servers answer 400 or 500 to a history that holds a broken
                # name or broken JSON; its tool message says what was wrong.
                "function": {
                    "name": safe_name(call.name),
                    "arguments": call.arguments if is_whole(call.arguments) else "{}",
                },
            }
            for call in message.calls
        ]
    return wire
