"""The Messages request, free of I/O: a round of a conversation as JSON.

What the server refuses a whole request for is not sent: two turns of one role in a
row, a beginning or an end that is not the user's, a text of nothing but space, an id
twice, a tool with a union or an odd key at the root of its schema, results without
tools. System messages stand apart if they come first; later ones are text of the
user's turn, marked as such, and so is who speaks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from glyphoxa_trio.providers.llm import LLMRequest, Message, ToolSpec
from glyphoxa_trio.providers.payloads import is_whole, safe_name

DISPENSABLE: Final = frozenset({"temperature", "tool_choice"})
"""Fields that some models refuse, and a request can do without."""

THOUGHTS: Final = ("thinking", "redacted_thinking")
MAX_TOKENS: Final = 4096  # of an answer, its thoughts included, if nobody says

_OURS: Final = frozenset(
    {"model", "messages", "system", "tools", "tool_choice", "stream", "max_tokens"}
)
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_KEY: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_UNIONS: Final = frozenset({"oneOf", "anyOf", "allOf"})
_BEGIN: Final = "The conversation begins."
_GO_ON: Final = "Go on exactly where you stopped, without saying it again."
_NOTHING: Final = "…"  # what somebody said who said nothing

Block = dict[str, Any]


@attrs.frozen(kw_only=True)
class Options:
    """What to ask of the model beside the conversation, and what it can take.

    Args:
      max_tokens: of one answer; the wire wants it stated.
      tool_choice: the server takes it. Where it does not, words are forced by not
        listing the tools, unless the conversation has calls, which need them.
      extra: further fields of the body, such as ``thinking`` or ``cache_control``.

    Raises:
      ValueError: if ``extra`` names a field that belongs to the request.
    """

    max_tokens: int = MAX_TOKENS
    temperature: float | None = None
    tool_choice: bool = True
    extra: Mapping[str, Any] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        if taken := sorted(_OURS & set(self.extra)):
            raise ValueError(f"extra: {', '.join(taken)} cannot be set here")

    def without(self, fields: frozenset[str]) -> Options:
        """The same, leaving out fields of `DISPENSABLE` that a server refused."""
        return attrs.evolve(
            self,
            temperature=None if "temperature" in fields else self.temperature,
            tool_choice=self.tool_choice and "tool_choice" not in fields,
        )


def request_body(
    request: LLMRequest, model: str, *, options: Options
) -> dict[str, Any]:
    """The body of ``POST /messages``, streaming."""
    system, rest = _opening(request.messages)
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": options.max_tokens,
        "messages": _turns(rest, model),
        "stream": True,
    }
    if system:
        body["system"] = system
    called = {safe_name(call.name): None for x in rest for call in x.calls}
    # Calls in a conversation are refused where no tool is listed at all.
    tools = [_tool(spec) for spec in request.tools or map(_gone, called)]
    if tools and (called or options.tool_choice or not request.tools_forbidden):
        body["tools"] = tools
        if request.tools_forbidden and options.tool_choice:
            body["tool_choice"] = {"type": "none"}
    if options.temperature is not None:
        body["temperature"] = options.temperature
    body |= dict(options.extra)
    if "thinking" in body and _thoughtless(body["messages"]):
        del body["thinking"]  # one that has begun without cannot go on with it
    return body


def _opening(messages: Sequence[Message]) -> tuple[str, Sequence[Message]]:
    """The system prompt, and what comes after it."""
    at = next((i for i, x in enumerate(messages) if x.role != "system"), len(messages))
    return "\n\n".join(x.content for x in messages[:at] if x.content), messages[at:]


def _turns(messages: Iterable[Message], model: str) -> list[dict[str, Any]]:
    """The conversation as turns that alternate, the first and last of them the user's.

    A turn that holds results begins with them, because each call is answered before
    anything else is said.
    """
    turns: list[dict[str, Any]] = []
    for role, blocks in _spoken(messages, model):
        if not turns and role == "assistant":
            turns.append({"role": "user", "content": [_marked(_BEGIN)]})
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    if not turns:
        turns.append({"role": "user", "content": [_marked(_BEGIN)]})
    if turns[-1]["role"] == "assistant":
        turns.append({"role": "user", "content": [_marked(_GO_ON)]})
    return turns


def _spoken(
    messages: Iterable[Message], model: str
) -> Iterator[tuple[str, list[Block]]]:
    """Each message as the blocks of a role; calls have ids that are there once."""
    used: set[str] = set()
    ids: dict[str, str] = {}  # of the calls that are answered next
    for message in messages:
        match message.role:
            case "system":
                yield "user", [_marked(message.content)] if message.content else []
            case "user":
                yield "user", [_said(message)]
            case "tool":
                yield "user", [_result(message, ids)]
            case "assistant":
                for call in message.calls:
                    ids[call.id] = _unique(call.id, used)
                    used.add(ids[call.id])
                opener, blocks = _verbatim(message, model)
                if opener:
                    yield "assistant", _words(opener)
                    yield "user", [_marked(_GO_ON)]
                blocks = blocks or [*_words(message.content), *_calls(message)]
                for block in blocks:
                    if block["type"] == "tool_use":
                        block["id"] = ids[block["id"]]
                yield "assistant", blocks


def _unique(call_id: str, used: set[str]) -> str:
    """The id itself, or one that is the same in each round that tells of this call."""
    if _ID.fullmatch(call_id) and call_id not in used:
        return call_id
    number = len(used)
    while (fresh := f"call_{number}") in used:
        number += 1
    return fresh


def _verbatim(message: Message, model: str) -> tuple[str, list[Block]]:
    """The blocks as the model itself wrote them, if it did and they say the same.

    Before them what was said for it, with which the message begins (D23c).
    """
    if message.verbatim is None or message.verbatim.model != model:
        return "", []
    blocks: list[Block] = json.loads(message.verbatim.content)
    calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    written = "".join(block["text"] for block in blocks if block["type"] == "text")
    opener = _before(written, message.content)
    if opener is None or calls != [call.id for call in message.calls]:
        return "", []
    return opener, blocks


def _before(end: str, text: str) -> str | None:
    """What ``text`` has before ``end``, blanks apart; None if it ends otherwise."""
    whole, last = "".join(text.split()), "".join(end.split())
    if not whole.endswith(last):
        return None
    at, left = 0, len(whole) - len(last)
    while left:
        left -= not text[at].isspace()
        at += 1
    return text[:at]


def _thoughtless(turns: Sequence[dict[str, Any]]) -> bool:
    """Whether results are to be answered of calls that began without thoughts."""
    *_, before, last = ({"content": [{"type": ""}]}, *turns)
    results = any(block["type"] == "tool_result" for block in last["content"])
    return results and before["content"][0]["type"] not in THOUGHTS


def _marked(text: str) -> Block:
    """What nobody at the table has said, in a user's turn."""
    return {"type": "text", "text": f"<system>\n{text}\n</system>"}


def _said(message: Message) -> Block:
    words = message.content if message.content.strip() else _NOTHING
    return {
        "type": "text",
        "text": f"{message.name}: {words}" if message.name else words,
    }


def _words(text: str) -> list[Block]:
    return [{"type": "text", "text": text}] if text.strip() else []


def _calls(message: Message) -> Iterator[Block]:
    for call in message.calls:
        whole = is_whole(call.arguments)
        yield {
            "type": "tool_use",
            "id": call.id,
            "name": safe_name(call.name),
            "input": json.loads(call.arguments) if whole else {},
        }


def _result(message: Message, ids: Mapping[str, str]) -> Block:
    block = {
        "type": "tool_result",
        "tool_use_id": ids.get(message.call_id, message.call_id),
    }
    return block | ({"content": message.content} if message.content.strip() else {})


def _gone(name: str) -> ToolSpec:
    """A tool of which only a call is left."""
    return ToolSpec(name=name, description="Not available.", parameters={})


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "description": spec.description,
        "input_schema": _schema(spec.parameters),
    }


def _schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The schema as the server takes it; arguments are held against the original."""
    schema = {key: x for key, x in parameters.items() if key not in _UNIONS}
    schema["type"] = "object"
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        kept = {key: x for key, x in properties.items() if _KEY.fullmatch(key)}
        if len(kept) < len(properties):
            schema["properties"] = kept
            wanted = schema.get("required") or ()
            schema["required"] = [key for key in wanted if key in kept]
    return schema
