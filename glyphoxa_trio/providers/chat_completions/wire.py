"""Build the request of the chat completions API, without I/O: a conversation as JSON.

The conversation is shaped by `shaping`, and tools are written by `schemas`, so that
strict servers accept them. Answers are read by `assembler`, errors by `failures`. A
malformed name or argument of an earlier answer must not make every later request fail,
so names and arguments are sent back in a form that servers accept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import attrs

from glyphoxa_trio.providers.abilities import Abilities
from glyphoxa_trio.providers.llm import LLMRequest, Message, ToolSpec
from glyphoxa_trio.providers.opaque import OpaqueFields, numbers_calls, opaque_fields
from glyphoxa_trio.providers.payloads import safe_name
from glyphoxa_trio.providers.schemas.forms import SchemaForm, tool_in
from glyphoxa_trio.providers.shaping import NOTHING, ShapedTurn, Text, shape
from glyphoxa_trio.tools.arguments import text_of
from glyphoxa_trio.tools.outcome import ToolCall

DISPENSABLE: Final = frozenset({"tool_choice", "stream_options", "parallel_tool_calls"})
"""Fields that some servers refuse, and that a request can do without."""

UNSIGNED: Final[Mapping[str, Any]] = {
    "extra_content": {
        "google": {"thought_signature": "skip_thought_signature_validator"}
    }
}
"""A call that Gemini 3 has not written itself, as Google's documentation wants it."""

NO_THOUGHTS: Final = OpaqueFields(message={"reasoning_content": ""})
"""An answer without thoughts, as DeepSeek takes it if it wants thoughts back."""

_OURS: Final = frozenset({"model", "messages", "tools", "stream", "n"}) | DISPENSABLE


@attrs.frozen(kw_only=True)
class RequestOptions(Abilities):
    """The options of a request, and the abilities of the model.

    Args:
      temperature: of the sampling; None leaves it to the model.
      max_tokens: of one answer; None sets no limit.
      max_tokens_field: its name; older and local servers know only ``max_tokens``.
      stream_options: True if the server takes it; without it there is no `Usage`.
      parallel_tool_calls: None leaves it to the server.
      name_field: True if the server takes ``name`` in a user's message. Most refuse it,
        so otherwise the speaker is named in the text.
      schemas: the form of tools that the server takes.
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
    schemas: SchemaForm = SchemaForm.PLAIN
    extra: Mapping[str, Any] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        if taken := sorted(_OURS & set(self.extra)):
            raise ValueError(f"extra: {', '.join(taken)} cannot be set here")

    def without(self, fields: frozenset[str]) -> RequestOptions:
        """Return the options without fields of `DISPENSABLE` that a server refused."""
        parallel = self.parallel_tool_calls
        return attrs.evolve(
            self,
            tool_choice=self.tool_choice and "tool_choice" not in fields,
            stream_options=self.stream_options and "stream_options" not in fields,
            parallel_tool_calls=None if "parallel_tool_calls" in fields else parallel,
        )


def request_body(
    request: LLMRequest, model: str, *, options: RequestOptions, writer: str = ""
) -> dict[str, Any]:
    """Return the body of ``POST /chat/completions``.

    Args:
      writer: the label of the model, which gets what it wrote for itself; by default
        ``model``.
    """
    body: dict[str, Any] = {
        "model": model,
        "messages": list(_messages(request.messages, options, writer or model, model)),
        "stream": True,
    }
    forced = request.tools_forbidden and not options.tool_choice
    if request.tools and options.tools and not forced:
        body["tools"] = [_tool(spec, options.schemas) for spec in request.tools]
        if request.tools_forbidden:
            body["tool_choice"] = "none"
        else:
            if options.tool_choice:  # one server takes a missing field as "none"
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


def _tool(spec: ToolSpec, form: SchemaForm) -> dict[str, Any]:
    """Return a tool as the API wants it."""
    taken = tool_in(form, spec)
    function: dict[str, Any] = {"name": taken.name, "description": taken.description}
    if taken.parameters:
        function["parameters"] = taken.parameters
    return {"type": "function", "function": function}


def _messages(
    messages: Sequence[Message], options: RequestOptions, writer: str, model: str
) -> Iterator[dict[str, Any]]:
    """Yield the messages of a conversation."""
    shaped = shape(
        messages,
        tool_messages=options.tools and options.tool_messages,
        short_ids=options.short_ids,
        numbered_ids=numbers_calls(model) and not options.short_ids,
        opaque=lambda message: _opaque(message, options, writer),
    )
    # Without a system role the prompt is put before the first words.
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
            # Some servers require an assistant message between a result and a user's.
            empty = NO_THOUGHTS.message if options.thoughts_back else {}
            yield {**empty, "role": "assistant", "content": NOTHING}
        if turn.texts:
            yield _said(turn.texts, before, name_field=options.name_field)
            before = []


def _said(
    texts: Sequence[Text], before: Sequence[str], *, name_field: bool
) -> dict[str, Any]:
    """Return a user message of one or several texts."""
    if name_field and len(texts) == 1 and not before and texts[0].name:
        name = safe_name(texts[0].name)
        return {"role": "user", "content": texts[0].text, "name": name}
    return {"role": "user", "content": "\n\n".join([*before, *map(str, texts)])}


def _answer(
    turn: ShapedTurn, results: Mapping[str, str], *, one_call: bool
) -> Iterator[dict[str, Any]]:
    """Yield the assistant's words, its calls, and their results."""
    text = turn.extras.written + "\n\n".join(map(str, turn.texts))
    calls = turn.calls
    if not calls:
        yield {**turn.extras.message, "role": "assistant", "content": text}
        return
    extras = turn.extras
    parts = [{"type": "text", "text": text}] * bool(text.strip())
    content: str | list[Any] = [*extras.parts, *parts] if extras.parts else text
    fields = extras.message
    for row in [[call] for call in calls] if one_call else [calls]:
        yield {
            **fields,
            "role": "assistant",
            "content": content,  # "" and not null, which some servers answer with 500
            "tool_calls": [_call(part.call, part.fields) for part in row],
        }
        content, fields = "", {}
        for part in row:
            yield {
                "role": "tool",
                "tool_call_id": part.call.id,
                "content": results.get(part.call.id, ""),
            }


def _opaque(
    message: Message, options: RequestOptions, writer: str
) -> OpaqueFields | None:
    """Return what the model wants back with its answer.

    Returns None if it accepts these calls only in words, because its own thoughts,
    which it wants back with them, are not known: a saved history has none, and another
    model's are of no use to it.
    """
    fields = opaque_fields(message, writer).without(options.refused_back)
    if not message.calls:
        if options.thoughts_back and not fields.thinks:
            return attrs.evolve(fields, message=NO_THOUGHTS.message)
        return fields
    if options.thoughts_back and not fields.thinks:
        return None
    if options.signed_calls and not any(fields.calls.values()):
        first = message.calls[0].id
        return attrs.evolve(fields, calls={**fields.calls, first: UNSIGNED})
    return fields


def _call(call: ToolCall, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call as the API wants it."""
    # Servers answer 400 or 500 to a history with a broken name or broken JSON. The
    # result of the call says what was wrong.
    return {
        **fields,
        "id": call.id,
        "type": "function",
        "function": {
            **fields.get("function", {}),
            "name": safe_name(call.name),
            "arguments": text_of(call.arguments),
        },
    }
