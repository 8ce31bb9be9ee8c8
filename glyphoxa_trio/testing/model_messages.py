"""A scripted reply as events of Anthropic's Messages, and that server's refusals.

It is as strict as the vendor's documentation says, because one tool or one text that
the vendor does not accept makes a whole request fail.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from .model_chat import pieces_of
from .model_steps import Fail, Think

_REASONS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
_ERRORS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_ID: Final = re.compile(r"[A-Za-z0-9_-]+")
_KEY: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_VERSIONS: Final = ("2023-06-01", "2026-10-21")


@attrs.define(eq=False)
class MessageEvents:
    """The events of one reply, the ``number``th of its server."""

    _model: str
    _request: Mapping[str, Any]
    _number: int
    _begun: bool = attrs.field(default=False, init=False)
    _blocks: int = attrs.field(default=0, init=False)
    _open: str = attrs.field(default="", init=False)  # the kind of the last block
    _calls: int = attrs.field(default=0, init=False)
    _pieces: int = attrs.field(default=0, init=False)

    def text(self, piece: str) -> str:
        said = ""
        if self._open != "text":
            said = self._start({"type": "text", "text": ""})
        return said + self._delta({"type": "text_delta", "text": piece})

    def think(self, step: Think) -> Iterator[str]:
        if not step.pieces:
            block = {"type": "redacted_thinking", "data": step.signature}
            yield self._start(block) + self._stop()
            return
        yield self._start({"type": "thinking", "thinking": "", "signature": ""})
        for piece in step.pieces:
            yield self._delta({"type": "thinking_delta", "thinking": piece})
        signed = {"type": "signature_delta", "signature": step.signature}
        yield self._delta(signed) + self._stop()

    def call(
        self, name: str, arguments: str, *, given_id: str | None, fragments: int
    ) -> Iterator[str]:
        good_id = f"toolu_{self._number}_{self._calls}"
        self._calls += 1
        block = {"type": "tool_use", "name": name, "input": {}}
        block["id"] = good_id if given_id is None else given_id
        yield self._start(block)
        for piece in pieces_of(arguments, fragments or 1):
            yield self._delta({"type": "input_json_delta", "partial_json": piece})
        yield self._stop()

    def finish_as_usual(self) -> str:
        return self.finish("tool_calls" if self._calls else "stop", done=True)

    def finish(self, reason: str | None, *, done: bool) -> str:
        said = self._head() + self._stop()
        if reason is not None:
            ended = {
                "stop_reason": _REASONS.get(reason, reason),
                "stop_sequence": None,
            }
            usage = {"output_tokens": self._pieces}
            said += _event("message_delta", delta=ended, usage=usage)
        return said + (_event("message_stop") if done else "")

    def failure(self, step: Fail) -> Any:
        if not isinstance(step.body, dict) or "type" in step.body:
            return step.body
        return error_body(step.status, **step.body.get("error", {}))

    def _head(self) -> str:
        if self._begun:
            return ""
        self._begun = True
        prompt = len(json.dumps(self._request["messages"])) // 4
        message: dict[str, Any] = {
            "id": f"msg_{self._number}",
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": prompt, "output_tokens": 1},
        }
        return _event("message_start", message=message) + _event("ping")

    def _start(self, block: dict[str, Any]) -> str:
        said = self._head() + self._stop()
        self._open = block["type"]
        said += _event("content_block_start", index=self._blocks, content_block=block)
        self._blocks += 1
        return said

    def _delta(self, delta: dict[str, Any]) -> str:
        self._pieces += 1
        return _event("content_block_delta", index=self._blocks - 1, delta=delta)

    def _stop(self) -> str:
        if not self._open:
            return ""
        self._open = ""
        return _event("content_block_stop", index=self._blocks - 1)


def _event(kind: str, **fields: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n"


def error_body(status: int, *, message: str = "", **more: Any) -> dict[str, Any]:
    """Return an error as this server words it."""
    kind = _ERRORS.get(status, "api_error" if status >= 500 else _ERRORS[400])
    error = {"type": kind, "message": message} | more
    return {"type": "error", "error": error, "request_id": "req_scripted"}


def refusal(headers: Mapping[str, str], body: Mapping[str, Any]) -> str:
    """Return why the server answers 400 to a request; "" if it does not."""
    if headers.get("anthropic-version") not in _VERSIONS:
        return "anthropic-version: header is required"
    return next(_faults(body), "")


def _faults(body: Mapping[str, Any]) -> Iterator[str]:
    if type(body.get("max_tokens")) is not int or body["max_tokens"] < 1:
        yield "max_tokens: Field required"
    if not isinstance(body.get("system", ""), str | list):
        yield "system: Input should be a valid string or array"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "messages: at least one message is required"
        return
    yield from _tool_faults(body)
    if messages[0].get("role") != "user":
        yield 'messages: first message must use the "user" role'
    if messages[-1].get("role") != "user":
        yield "This model does not support assistant message prefill."
    owed: list[str] = []
    seen: set[str] = set()
    for at, message in enumerate(messages):
        if message.get("role") not in ("user", "assistant"):
            yield f"messages.{at}.role: Unexpected role"
        content = message.get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        if not content:
            yield f"messages.{at}: all messages must have non-empty content"
            return
        yield from _block_faults(at, message["role"], content, owed, seen)
        owed = [x["id"] for x in content if x["type"] == "tool_use"]
    if owed:
        yield f"`tool_use` ids were found without `tool_result` blocks: {owed}"
    yield from _thinking_faults(body, messages)


def _tool_faults(body: Mapping[str, Any]) -> Iterator[str]:
    names = [tool.get("name", "") for tool in body.get("tools") or ()]
    if len({*names}) < len(names):
        yield "tools: Tool names must be unique."
    for at, tool in enumerate(body.get("tools") or ()):
        if not _NAME.fullmatch(names[at]):
            yield f"tools.{at}.custom.name: String should match pattern"
        schema = tool.get("input_schema")
        if not isinstance(schema, dict) or schema.get("type") != "object":
            yield f"tools.{at}.custom.input_schema.type: Field required"
            return
        if {"oneOf", "allOf", "anyOf"} & schema.keys():
            yield (
                f"tools.{at}.custom.input_schema: input_schema does not support"
                " oneOf, allOf, or anyOf at the top level"
            )
        if not all(map(_KEY.fullmatch, schema.get("properties") or ())):
            yield (
                f"tools.{at}.custom.input_schema.properties: Property keys should"
                f" match pattern '^{_KEY.pattern}$'"
            )
    choice = body.get("tool_choice")
    if choice is not None and not names:
        yield "tool_choice: may only be specified while providing tools"
    called = any(
        block.get("type") in ("tool_use", "tool_result")
        for message in body["messages"]
        if isinstance(message.get("content"), list)
        for block in message["content"]
    )
    if called and not names:
        yield "Requests with `tool_use` or `tool_result` blocks must define tools"


def _block_faults(
    at: int, role: str, content: list[Any], owed: list[str], seen: set[str]
) -> Iterator[str]:
    answered = [x.get("tool_use_id") for x in content if x["type"] == "tool_result"]
    if sorted(answered) != sorted(owed):
        yield (
            f"messages.{at}: `tool_use` ids without their `tool_result` blocks in the"
            f" next message, or the reverse: {owed}, {answered}"
        )
    kinds = [block["type"] for block in content]
    if kinds[: len(answered)] != ["tool_result"] * len(answered):
        yield (
            f"messages.{at}: Did not find {len(answered)} `tool_result` block(s) at"
            " the beginning of this message"
        )
    for block in content:
        match block["type"]:
            case "text" if not block.get("text", "").strip():
                yield "messages: text content blocks must contain non-whitespace text"
            case "tool_use":
                if role != "assistant" or not isinstance(block.get("input"), dict):
                    yield f"messages.{at}: `tool_use` with an input, by the assistant"
                if not _ID.fullmatch(block["id"]) or not _NAME.fullmatch(block["name"]):
                    yield f"messages.{at}.tool_use.id: String should match pattern"
                if block["id"] in seen:
                    yield f"messages.{at}: `tool_use` ids must be unique"
                seen.add(block["id"])
            case "thinking" if not block.get("signature"):
                yield f"messages.{at}: Invalid `signature` in `thinking` block"


def _thinking_faults(
    body: Mapping[str, Any], messages: list[dict[str, Any]]
) -> Iterator[str]:
    """Check that, in manual mode, a turn that goes on began with thinking."""
    if (body.get("thinking") or {}).get("type") != "enabled":
        return
    if "temperature" in body:
        yield "`temperature` may only be set to 1 when thinking is enabled"
    last = messages[-1]["content"]
    if isinstance(last, list) and any(x["type"] == "tool_result" for x in last):
        first = messages[-2]["content"][0]["type"]
        if first not in ("thinking", "redacted_thinking"):
            yield (
                f"messages.{len(messages) - 2}.content.0.type: Expected `thinking` or"
                f" `redacted_thinking`, but found `{first}`."
            )
