"""Build the request of the Messages API, without I/O: a conversation as JSON.

The conversation is shaped by `shaping`, and tools are written by `schemas`. Results
without tools, for which the server refuses a whole request, are described in words.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from glyphoxa_trio.providers.abilities import Abilities
from glyphoxa_trio.providers.llm import LLMRequest, Message, ToolSpec
from glyphoxa_trio.providers.opaque import OpaqueFields
from glyphoxa_trio.providers.payloads import safe_name
from glyphoxa_trio.providers.schemas.forms import SchemaForm, tool_in
from glyphoxa_trio.providers.shaping import Own, Part, Result, ShapedCall, Text, shape
from glyphoxa_trio.tools.arguments import as_object

DISPENSABLE: Final = frozenset({"temperature", "tool_choice"})
"""Fields that some models refuse, and that a request can do without."""

THOUGHTS: Final = ("thinking", "redacted_thinking")
MAX_TOKENS: Final = 4096  # of an answer, its thoughts included, unless configured

_OURS: Final = frozenset(
    {"model", "messages", "system", "tools", "tool_choice", "stream", "max_tokens"}
)
# One object, of which the form is made once.
_NONE: Final[Mapping[str, Any]] = {}
Block = dict[str, Any]


@attrs.frozen(kw_only=True)
class RequestOptions(Abilities):
    """The options of a request, and the abilities of the model.

    Args:
      max_tokens: of one answer; the API requires it.
      temperature: of the sampling; None leaves it to the model.
      extra: further fields of the body, such as ``thinking`` or ``cache_control``.

    Raises:
      ValueError: if ``extra`` names a field that belongs to the request.
    """

    max_tokens: int = MAX_TOKENS
    temperature: float | None = None
    extra: Mapping[str, Any] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        if taken := sorted(_OURS & set(self.extra)):
            raise ValueError(f"extra: {', '.join(taken)} cannot be set here")

    def without(self, fields: frozenset[str]) -> RequestOptions:
        """Return the options without fields of `DISPENSABLE` that a server refused."""
        return attrs.evolve(
            self,
            temperature=None if "temperature" in fields else self.temperature,
            tool_choice=self.tool_choice and "tool_choice" not in fields,
        )


def request_body(
    request: LLMRequest, model: str, *, options: RequestOptions, writer: str = ""
) -> dict[str, Any]:
    """Return the body of ``POST /messages``, with streaming.

    Args:
      writer: the label of the model, which gets what it wrote for itself; by default
        ``model``.
    """
    kept = options.tools and options.tool_messages
    writer = writer or model
    shaped = shape(
        request.messages,
        tool_messages=kept,
        short_ids=options.short_ids,
        verbatim=lambda message: _verbatim(message, writer, options.refused_back),
        opaque=lambda message: _words_only(message, options, writer),
    )
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": options.max_tokens,
        "messages": [
            {"role": turn.role, "content": [x for y in turn.parts for x in _block(y)]}
            for turn in shaped.turns
        ],
        "stream": True,
    }
    if shaped.system:
        body["system"] = shaped.system
    called = {
        safe_name(call.name): None for x in request.messages * kept for call in x.calls
    }
    # A conversation with calls is refused if no tool is listed at all.
    offered = request.tools if options.tools else ()
    tools = [_tool(spec) for spec in offered or map(_gone, called)]
    if tools and (called or options.tool_choice or not request.tools_forbidden):
        body["tools"] = tools
        if request.tools_forbidden and options.tool_choice:
            body["tool_choice"] = {"type": "none"}
    if options.temperature is not None:
        body["temperature"] = options.temperature
    body |= dict(options.extra)
    if "thinking" in body and _thoughtless(body["messages"]):
        # A turn that began without thoughts cannot continue with them.
        del body["thinking"]
    return body


def _block(part: Part) -> Iterator[Block]:
    """Yield the content blocks of a part."""
    match part:
        case Text():
            yield {"type": "text", "text": str(part)}
        case ShapedCall(call):
            yield {
                "type": "tool_use",
                "id": call.id,
                "name": safe_name(call.name),
                "input": as_object(call.arguments),
            }
        case Result(call, content):
            block = {"type": "tool_result", "tool_use_id": call.id}
            yield block | ({"content": content} if content.strip() else {})
        case Own(blocks):
            yield from blocks


def _verbatim(
    message: Message, writer: str, refused: frozenset[str]
) -> tuple[str, list[Block]]:
    """Return the blocks as this model wrote them, if they still match the message.

    Of a past turn only what was heard is told: the rest of its text is left out. The
    first value is the text before them: what the host said for the NPC before the model
    answered.
    """
    blocks = [x for x in _own(message, writer) if x["type"] not in refused]
    calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    written = "".join(block["text"] for block in blocks if block["type"] == "text")
    opener = _before(written, message.content)
    if opener is None and message.verbatim is not None and message.verbatim.lasting:
        heard = [{"type": "text", "text": message.content}] * bool(message.content)
        thoughts = [block for block in blocks if block["type"] in THOUGHTS]
        used = [block for block in blocks if block["type"] == "tool_use"]
        opener, blocks = "", [*thoughts, *heard, *used]
    if opener is None or calls != [call.id for call in message.calls]:
        return "", []
    return opener, blocks


def _own(message: Message, writer: str) -> list[Block]:
    """Return the blocks that this model wants back, if it wrote the message."""
    if message.verbatim is None or message.verbatim.model != writer:
        return []
    blocks = json.loads(message.verbatim.content)
    return blocks if isinstance(blocks, list) else []  # otherwise of another API


def _words_only(
    message: Message, options: RequestOptions, writer: str
) -> OpaqueFields | None:
    """Return None if the model accepts these calls only in words.

    It wants its own thoughts back with them, and they are not known.
    """
    needed = options.thoughts_back and not _own(message, writer)
    return None if needed else OpaqueFields()


def _before(end: str, text: str) -> str | None:
    """Return what ``text`` has before ``end``, ignoring blanks.

    Returns None if it ends otherwise.
    """
    whole, last = "".join(text.split()), "".join(end.split())
    if not whole.endswith(last):
        return None
    at, left = 0, len(whole) - len(last)
    while left:
        left -= not text[at].isspace()
        at += 1
    return text[:at]


def _thoughtless(turns: Sequence[dict[str, Any]]) -> bool:
    """Return whether the last turn answers calls that began without thoughts."""
    *_, before, last = ({"content": [{"type": ""}]}, *turns)
    results = any(block["type"] == "tool_result" for block in last["content"])
    return results and before["content"][0]["type"] not in THOUGHTS


def _gone(name: str) -> ToolSpec:
    """Return a tool that is no longer offered, but was called."""
    return ToolSpec(name=name, description="Not available.", parameters=_NONE)


def _tool(spec: ToolSpec) -> dict[str, Any]:
    """Return a tool as the API wants it."""
    taken = tool_in(SchemaForm.PLAIN, spec)
    return {
        "name": taken.name,
        "description": taken.description,
        "input_schema": taken.parameters,
    }
