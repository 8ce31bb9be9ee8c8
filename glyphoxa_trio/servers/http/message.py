"""The JSON-RPC message in a request's body: parsed, checked, and completed.

What lenient clients leave out is filled in. No I/O.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import attrs
from mcp.server.streamable_http import GET_STREAM_KEY

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600

# Half of a surrogate pair, escaped: only such text can contain a lone one.
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_LONGEST_ID: Final = 256


class BadMessage(ValueError):
    """The body is no JSON-RPC message; ``code`` is JSON-RPC's."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@attrs.frozen
class HttpMessage:
    """A message that has the form of one.

    ``id`` is None for notifications and answers; ``body`` is the text that is passed
    on.
    """

    method: str
    id: str | None
    body: bytes

    @property
    def opens(self) -> bool:
        return self.method == "initialize" and self.id is not None


def read_message(body: bytes) -> HttpMessage:
    """Return the message in ``body``.

    The client in the campaign server's own documentation sends ``initialize`` without
    capabilities, and a notification that is named ``initialized``: both are rewritten
    here as MCP requires.

    Raises:
      BadMessage: if the body is not one JSON-RPC message; the text says why.
    """
    message = _parse(body)
    if not isinstance(message, dict):
        raise BadMessage(
            INVALID_REQUEST, "the body must be one JSON-RPC message, an object"
        )
    if message.get("jsonrpc") != "2.0":
        raise BadMessage(INVALID_REQUEST, 'jsonrpc must be "2.0"')
    if "method" not in message:
        _check_answer(message)
        return HttpMessage("", None, body)
    method, params = message["method"], message.get("params", {})
    if not isinstance(method, str):
        raise BadMessage(INVALID_REQUEST, "method must be a string")
    if not isinstance(params, dict):
        raise BadMessage(INVALID_REQUEST, "params must be an object")
    number = _id(message) if "id" in message else None
    changed = False
    if method == "initialize" and "capabilities" not in params:
        message["params"] = {**params, "capabilities": {}}
        changed = True
    elif method == "initialized" and number is None:
        message["method"] = method = "notifications/initialized"
        changed = True
    return HttpMessage(
        method, number, json.dumps(message).encode() if changed else body
    )


def _parse(body: bytes) -> Any:
    try:
        parsed = json.loads(body, parse_constant=_no_constant)
        if _SURROGATE.search(body):
            json.dumps(parsed, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:  # UnicodeError is a ValueError
        told = getattr(error, "msg", None) or "not valid JSON"
        if isinstance(error, json.JSONDecodeError):
            told = f"{told}: line {error.lineno} column {error.colno}"
        elif isinstance(error, RecursionError):
            told = "nested too deeply"
        raise BadMessage(PARSE_ERROR, f"Parse error: {told}") from None
    return parsed


def _no_constant(name: str) -> Any:
    raise BadMessage(PARSE_ERROR, f"Parse error: {name} is not JSON")


def _id(message: dict[str, Any]) -> str:
    """Return the request's id as text, which the SDK uses as a key for its streams."""
    number = message["id"]
    if isinstance(number, bool) or not isinstance(number, str | int):
        raise BadMessage(INVALID_REQUEST, "id must be a string or an integer")
    text = str(number)
    # The SDK keeps the stream of the GET among those of the requests, under this key.
    if len(text) > _LONGEST_ID or text == GET_STREAM_KEY:
        raise BadMessage(INVALID_REQUEST, "id is too long, or reserved")
    return text


def _check_answer(message: dict[str, Any]) -> None:
    if ("result" in message) == ("error" in message):
        raise BadMessage(
            INVALID_REQUEST, "a message has a method, or a result, or an error"
        )
    if "id" not in message:
        raise BadMessage(INVALID_REQUEST, "an answer has the id of its request")
    if "result" in message and not isinstance(message["result"], dict):
        raise BadMessage(INVALID_REQUEST, "result must be an object")
    error = message.get("error", {"code": 0, "message": ""})
    if not (
        isinstance(error, dict)
        and isinstance(error.get("code"), int)
        and isinstance(error.get("message"), str)
    ):
        raise BadMessage(INVALID_REQUEST, "error must have a code and a message")
    if message["id"] is not None:
        _id(message)
