"""JSON-RPC messages, one a line, as clients write them. No I/O, no tasks, no clock.

Input from a client is not trusted: `read` never raises, and for a line that is no
message it finds the id under which an error can be sent. The parser is that of the
standard library, since importing another one takes as long as all the rest of a server.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

import attrs

from .lines import HEAD, LONGEST_LINE, Overlong
from .request import INVALID_PARAMS

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600

LONGEST_BATCH: Final = 100  # messages

_LONGEST_INTEGER: Final = 18  # digits of an id, in a line that is not valid JSON
_ID: Final = re.compile(rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\\x00-\x1f]{0,200}")\s*[,}]')

Id = int | str


class NotSendable(ValueError):
    """A value that cannot be written as JSON."""


@attrs.frozen
class RpcCall:
    """A request; its answer carries the same ``id``."""

    id: Id
    method: str
    params: Mapping[str, Any]


@attrs.frozen
class Notice:
    """A notification; it gets no answer."""

    method: str
    params: Mapping[str, Any]


@attrs.frozen
class RpcReply:
    """The answer to a request of ours; ``error`` is None if there is a result."""

    id: Id
    result: Mapping[str, Any]
    error: Mapping[str, Any] | None


@attrs.frozen
class Malformed:
    """Input that is no message, with the error to answer; ``id`` is None if unknown."""

    id: Id | None
    code: int
    message: str


@attrs.frozen
class Ignored:
    """Input that must not be answered, because it looks like an answer."""


@attrs.frozen
class RpcBatch:
    """Several messages in one line, which one version of the protocol allows."""

    messages: tuple[Message, ...]


Message = RpcCall | Notice | RpcReply | Malformed | Ignored


def read(line: bytes | Overlong) -> Message | RpcBatch:
    """Parse a line. Never raises, whatever the line holds."""
    if isinstance(line, Overlong):
        told = _id_in_head(line.head)
        wrong = f"a line has at most {LONGEST_LINE} bytes"
        return Malformed(told, INVALID_REQUEST, wrong)
    try:
        text = line.decode()
        value = _STRICT.decode(text)
        if "\\u" in text:  # half of a surrogate pair is only found by encoding it again
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        return Malformed(_id_in(line), PARSE_ERROR, f"Parse error: {_why(error)}")
    if type(value) is not list:
        return _message(value)
    if not value:
        return Malformed(None, INVALID_REQUEST, "an empty batch")
    if len(value) > LONGEST_BATCH:
        wrong = f"a batch has at most {LONGEST_BATCH} messages"
        return Malformed(None, INVALID_REQUEST, wrong)
    return RpcBatch(tuple(map(_message, value)))


def write(message: Mapping[str, Any]) -> bytes:
    """Return one message as one line of JSON, with its newline.

    Raises:
      NotSendable: for a value that JSON does not have: a NaN, half of a surrogate
        pair, an object of an unknown class.
    """
    try:
        return _WRITER.encode(message).encode() + b"\n"
    except (ValueError, TypeError, RecursionError) as error:
        raise NotSendable(str(error)) from error


def same_id(ident: object) -> Id | None:
    """Return the other spelling of an id: some clients write "7" for 7."""
    if type(ident) is int:
        return str(ident) if abs(ident) < 10**_LONGEST_INTEGER else None
    if type(ident) is not str:
        return None
    digits = ident.removeprefix("-")
    if len(digits) <= _LONGEST_INTEGER and digits.isascii() and digits.isdigit():
        return int(ident)
    return None


def _message(value: object) -> Message:
    if type(value) is not dict:
        return Malformed(None, INVALID_REQUEST, "a message is an object")
    known = _is_id(value.get("id"))
    ident = value["id"] if known else None
    if "method" not in value:
        if not {"result", "error"} & value.keys():
            return Malformed(ident, INVALID_REQUEST, "a message has a method")
        return _reply(value, ident)
    if value.get("jsonrpc") != "2.0":
        return Malformed(ident, INVALID_REQUEST, 'jsonrpc must be "2.0"')
    method = value["method"]
    if type(method) is not str:
        return Malformed(ident, INVALID_REQUEST, "method must be a string")
    params = value.get("params")
    if params is None:
        params = {}
    if "id" not in value:
        return Notice(method, params) if type(params) is dict else Ignored()
    if not known:
        return Malformed(None, INVALID_REQUEST, "id must be a string or an integer")
    if type(params) is not dict:
        return Malformed(ident, INVALID_PARAMS, "params must be an object")
    return RpcCall(ident, method, params)  # type: ignore[arg-type]  # it is known


def _reply(value: dict[str, Any], ident: Id | None) -> Message:
    """Parse a message without a method.

    It is never answered, even if it is malformed: two sides that answered each other's
    answers would never stop.
    """
    result, error = value.get("result"), value.get("error")
    if ident is None or value.get("jsonrpc") != "2.0":
        return Ignored()
    if type(error) is dict:
        return RpcReply(ident, {}, error)
    if type(result) is dict:
        return RpcReply(ident, result, None)
    wrong = {"code": INVALID_REQUEST, "message": "the answer is not an object"}
    return RpcReply(ident, {}, wrong)


def _is_id(value: object) -> bool:
    return type(value) is int or type(value) is str


def _id_in(line: bytes) -> Id | None:
    """Find the id in a line that is not quite JSON; None if there is none."""
    try:
        text = line.decode(errors="replace")
        value = json.loads(text, strict=False, parse_int=_integer)
        if type(value) is dict and "method" in value and _is_id(value.get("id")):
            ident: Id = value["id"]
            if type(ident) is str:
                ident.encode()
            return ident
    except (ValueError, RecursionError):
        return _id_in_head(line[:HEAD])
    return None


def _id_in_head(head: bytes) -> Id | None:
    """Find an id among the first members of a message, before anything nested."""
    head = head.lstrip()
    if not head.startswith(b"{"):
        return None
    flat = re.split(rb"[{\[]", head[1:], maxsplit=1)[0]
    if b'"method"' not in flat:
        return None
    found = _ID.search(flat)
    if found is None:
        return None
    try:
        ident: Id = json.loads(found[1])
    except ValueError:  # not UTF-8
        return None
    return ident


def _integer(digits: str) -> int | None:
    """Parse an integer that may be an id; Python refuses to read very long ones."""
    return int(digits) if len(digits) <= _LONGEST_INTEGER else None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise ValueError("a number in it is too large")
    return value


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _why(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8"
    if isinstance(error, UnicodeEncodeError):
        return "a string holds half of a surrogate pair"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos}"
    return str(error)[:200]


_STRICT: Final = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)
_WRITER: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain
)
