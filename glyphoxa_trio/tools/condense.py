"""The condensing of a server's large answer, which runs in a worker process.

The answer is parsed, checked and cut there, because a tree of a hundred thousand nodes
is expensive for the process that holds it, not least for its garbage collector. The
reply is small. The module is in this package, not with the servers, so that the process
starts fast.
"""

from __future__ import annotations

import codecs
import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from glyphoxa_trio.secret import Mask

from .characters import harmless
from .repair import repaired_answer, repaired_contents, repaired_page, texts_of_blobs
from .speech import JsonTextWriter, container

TRUNCATED: Final = "glyphoxa/truncated"  # in `_meta`: parts were cut off
COMPLAINT: Final = "glyphoxa/complaint"  # in `_meta`: what was wrong with the rest

LISTS: Final = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
_SAID: Final = 300  # characters of an error's text
_FIELD: Final = 500  # characters of a URI or a name
_CUT: Final = "…"
_MOST_LINKS: Final = 50


def condense(task: bytes) -> bytes:
    """Condense a message; the task is an order, as a line of JSON, and the message.

    The order has ``method``, ``id``, the ``mask``'s pattern, the ``schema`` that the
    structured content must fit, whether the message is an ``event`` of a stream, and
    the bounds. The reply is a line of JSON, an object with one of ``result``,
    ``error``, ``unusable`` (the reason) and ``unasked``; each line after it is an entry
    of the list that the result is.
    """
    order, _, line = task.partition(b"\n")
    wanted = json.loads(order)
    if wanted.get("event"):
        line = data_of(line)
    return b"\n".join(
        json.dumps(each, separators=(",", ":"), ensure_ascii=False).encode()
        for each in _reply(wanted, line)
    )


def data_of(event: bytes | bytearray) -> bytes:
    """Return the data of a server-sent event, without byte order marks."""
    event = event.removeprefix(codecs.BOM_UTF8)
    lines = event.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    data = [line[5:].removeprefix(b" ") for line in lines if line[:5] == b"data:"]
    return b"\n".join(data).removeprefix(codecs.BOM_UTF8)


def _reply(order: Mapping[str, Any], line: bytes) -> Iterator[Any]:
    from pydantic_core import from_json, to_json

    try:
        message = from_json(line, allow_inf_nan=False)
        if b"Infinity" in to_json(message):
            json.dumps(message, allow_nan=False)  # 1e999 parses, but as infinity
    except ValueError as error:
        yield {"unusable": str(error)[:_SAID]}
        return
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        yield {"unusable": "it is not a JSON-RPC message"}
        return
    if "method" in message or str(message.get("id")) != str(order["id"]):
        yield {"unasked": True}
        return
    mask = Mask(order.get("mask", "")).data
    if message.get("error") is not None:
        yield {"error": _error(mask(message["error"]))}
        return
    result = message.get("result")
    if not isinstance(result, dict):
        yield {"unusable": "it is neither a result nor an error"}
        return
    method = order["method"]
    if method in LISTS:
        yield from _page(order, LISTS[method], result, mask)
    elif method == "resources/read":
        result = texts_of_blobs(repaired_contents(result, ""))
        yield {"result": _resource(order, mask(result))}
    elif method == "tools/call":
        yield _answer(order, texts_of_blobs(repaired_answer(result)), mask)
    else:
        yield {"unusable": f"it has more than {order['loop_bytes'] >> 10} KiB"}


def _error(error: Any) -> dict[str, Any]:
    if not isinstance(error, dict) or type(error.get("code")) is not int:
        return {"code": 0, "message": "its error has no code"}
    return {"code": error["code"], "message": str(error.get("message"))[:_SAID]}


# ------------------------------------------------------------------ one answer


def _answer(
    order: Mapping[str, Any], result: dict[str, Any], mask: Callable[[Any], Any]
) -> dict[str, Any]:
    schema = order.get("schema")
    if schema is not None and not result.get("isError"):
        wrong = _problem(schema, result)
        if wrong is not None:
            shown = _result(order, mask(unstructured(result)))
            meta = shown.setdefault("_meta", {})
            said = f"the tool's answer is not what it promised: {mask(wrong)}"
            meta[COMPLAINT] = said[:_SAID]
            return {"result": shown}
    return {"result": _result(order, mask(result))}


def unstructured(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result without its structured content."""
    return {k: v for k, v in result.items() if k != "structuredContent"}


def _problem(schema: Any, result: Mapping[str, Any]) -> str | None:
    from .output import OutputSchema  # imported only if needed: it takes a while

    output = OutputSchema(schema)
    if output.wrong is not None:
        return None
    return output.problem_in(result)


def _result(order: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a CallToolResult with the same meaning, short enough for a model."""
    content = result.get("content")
    found = content if isinstance(content, list) else []
    blocks = [block for block in found if isinstance(block, Mapping)]
    structured = result.get("structuredContent")
    keep = _Keep(order["text"], order["data"])
    kept: dict[str, Any] = {"content": [x for b in blocks for x in keep(b, structured)]}
    if structured is not None:
        kept["structuredContent"] = json.loads(keep.data(structured))
    for key in ("isError", "resultType"):
        if isinstance(result.get(key), bool | str):
            kept[key] = result[key]
    if keep.truncated:
        kept["_meta"] = {TRUNCATED: True}
    return kept


class _Keep:
    """The blocks that are kept, until the room, in bytes of JSON, is used up."""

    def __init__(self, text: int, data: int) -> None:
        self.truncated = False
        self._text = text
        self._each = data
        self._all = data
        self._links = 0

    def __call__(self, block: Mapping[str, Any], structured: Any) -> Iterator[Any]:
        if self._text <= 2 or (self._links >= _MOST_LINKS and _is_link(block)):
            self.truncated = True
            return
        if _is_link(block):
            self._links += 1
            link = {k: _short(block.get(k)) for k in ("uri", "name", "title")}
            link = {k: v for k, v in link.items() if v}
            self._text -= len(json.dumps(link)) + 30
            yield {"type": "resource_link", **link}
            return
        text = text_of(block)
        value = container(text)
        if value is not None:
            if structured is not None and _same(value, structured):
                return  # servers repeat structured content as text, for old clients
            text = self.data(value, room=self._all)
            self._all -= len(text)
            if self._all <= 2:
                self._text = 0
        else:
            writer = JsonTextWriter(1)
            quoted = writer.write(text, self._text) or '""'
            self.truncated = self.truncated or writer.truncated
            self._text -= len(quoted.encode())
            text = json.loads(quoted)
        self._text -= 30
        yield {"type": "text", "text": text}

    def data(self, value: Any, room: int | None = None) -> str:
        writer = JsonTextWriter(64)
        text = writer.write(value, self._each if room is None else room) or "null"
        self.truncated = self.truncated or writer.truncated
        return text


def _is_link(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "resource_link"


def _same(value: Any, other: Any) -> bool:
    try:
        return bool(value == other)
    except RecursionError:
        return False


def _short(value: Any, most: int = _FIELD) -> Any:
    if isinstance(value, str):
        return value if len(value) <= most else value[:most] + _CUT
    return value if isinstance(value, int | float) else None


def text_of(block: Mapping[str, Any]) -> str:
    """Return a block of an answer as text; for other media a placeholder."""
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text", ""))
    if kind in ("image", "audio"):
        return f"[{kind}: {_label(block.get('mimeType'))}, {_size(block, 'data')}]"
    if kind == "resource_link":
        title = _label(block.get("title") or block.get("name"))
        return f"[link: {title}, {_label(block.get('uri'), 2000)}]"
    resource = block.get("resource")
    if kind == "resource" and isinstance(resource, Mapping):
        if isinstance(resource.get("text"), str):
            return str(resource["text"])
        mime = _label(resource.get("mimeType"))
        return f"[resource: {mime}, {_size(resource, 'blob')}]"
    return f"[{_label(kind)}]"


def _label(value: object, longest: int = 200) -> str:
    """Return a server's word for a placeholder of ours: one line, limited."""
    words = " ".join(harmless(str(value or "unknown")).split())
    return words if len(words) <= longest else f"{words[: longest - 1]}…"


def _size(holder: Mapping[str, Any], key: str) -> str:
    """Return the size of base64 data, without decoding it."""
    data = str(holder.get(key, ""))
    size = math.floor(len(data.rstrip("=")) * 3 / 4)
    return f"{size} B" if size < 1000 else f"{round(size / 1000)} kB"


def _resource(order: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a resource's contents as texts; other media as placeholders."""
    contents = result.get("contents")
    parts = contents if isinstance(contents, list) else []
    keep = _Keep(order["text"], order["data"])
    kept: list[dict[str, Any]] = []
    for part in parts:
        if not isinstance(part, Mapping):
            continue
        uri = _short(part.get("uri")) or ""
        block = {"type": "resource", "resource": part}
        kept += [{"uri": uri, "text": said["text"]} for said in keep(block, None)]
    whole: dict[str, Any] = {"contents": kept}
    return whole | ({"_meta": {TRUNCATED: True}} if keep.truncated else {})


# ---------------------------------------------------------------------- a list


def _page(
    order: Mapping[str, Any],
    key: str,
    result: Mapping[str, Any],
    mask: Callable[[Any], Any],
) -> Iterator[Any]:
    """Yield a page without its entries, then the entries that fit the bounds."""
    offered = repaired_page(key, dict(result)).get(key)
    entries = offered if isinstance(offered, list) else []
    left_out: list[str] = []
    kept: list[Any] = []
    room = order["list_bytes"]
    for entry in entries[: order["entries"] + 1]:
        if key not in ("tools", "prompts") and isinstance(entry, Mapping):
            entry = {name: _short(value) for name, value in entry.items()}
        text = json.dumps(entry, separators=(",", ":"), ensure_ascii=False)
        why = None
        if len(text) > order["entry_bytes"]:
            why = f"it has more than {order['entry_bytes'] >> 10} KiB"
        elif _nodes(text) > order["entry_nodes"]:
            why = f"it has more than {order['entry_nodes']} values"
        elif len(text) > room:
            why = f"the list has more than {order['list_bytes'] >> 20} MB"
        if why is None:
            room -= len(text)
            kept.append(mask(entry))
        else:
            name = entry.get("name") if isinstance(entry, Mapping) else None
            left_out.append(f"{mask(str(name))[:64]!r} is left out: {why}")
    cursor = _short(result.get("nextCursor"), 10_000)
    page: dict[str, Any] = {key: []}
    if cursor is not None:
        page["nextCursor"] = cursor
    for more in ("ttlMs", "cacheScope", "resultType"):
        if isinstance(result.get(more), int | str):
            page[more] = _short(result[more])
    yield {"result": page, "left_out": left_out[:20], "uncounted": len(left_out[20:])}
    yield from kept


def _nodes(text: str) -> int:
    return 1 + text.count(",") + text.count("[") + text.count("{")
