"""A server whose tools answer with too much. No SDK: it writes what it likes.

The argument ``what`` of its only tool says how; its arguments how it lists.
"""

from __future__ import annotations

import json
import sys
from typing import Any

OBJECT = {"type": "object"}
SHAPES: dict[str, Any] = {
    "text": lambda: {"content": [{"type": "text", "text": "á" * 2_000_000}]},
    "blocks": lambda: {"content": [{"type": "text", "text": "x"}] * 60_000},
    "image": lambda: {
        "content": [{"type": "image", "mimeType": "image/png", "data": "QUJD" * 10**6}]
    },
    "tree": lambda: {
        "content": [],
        "structuredContent": {"rows": [[i, {"n": i}] for i in range(40_000)]},
    },
    "twice": lambda: {
        "content": [{"type": "text", "text": json.dumps({"rows": ["x" * 99] * 1000})}],
        "structuredContent": {"rows": ["x" * 99] * 1000},
    },
    "bomb": lambda: {"content": [], "structuredContent": {"x": [[]] * 1_000_000}},
    "huge": lambda: {"content": [{"type": "text", "text": "x" * (17 * 2**20)}]},
}


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": OBJECT, **more}


def many() -> list[Any]:
    wide: dict[str, Any] = {f"{i}": {} for i in range(5_500)}
    long = {"a": {"type": "string", "description": "x" * 70_000}}
    return [
        *(tool(f"t{i}", description="words " * 50) for i in range(900)),
        tool("wide", inputSchema=OBJECT | {"properties": wide}),
        tool("long", inputSchema=OBJECT | {"properties": long}),
    ]


def say(message: dict[str, Any], *, tail: bool = False) -> None:
    head = {"jsonrpc": "2.0", "id": message.pop("id", None)}
    whole = message | head if tail else head | message
    line = json.dumps(whole, ensure_ascii=False).encode() + b"\n"
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def result_of(method: str, params: dict[str, Any]) -> Any:
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}, "resources": {}},
                "serverInfo": {"name": "large", "version": "1"},
            }
        case "tools/list" if "schema" in sys.argv:
            rows = {"properties": {"rows": {"type": sys.argv[-1]}}}
            return {"tools": [tool("grow", outputSchema=OBJECT | rows)]}
        case "tools/list":
            return {"tools": [tool("grow"), *(many() if "many" in sys.argv else [])]}
        case "tools/call":
            return SHAPES[params["arguments"]["what"]]()
        case "resources/read":
            return {"contents": [{"uri": params["uri"], "text": "y" * (15 * 2**20)}]}
        case "resources/list":
            entries = [{"uri": f"a:{i}", "name": "n" * 300} for i in range(5_000)]
            return {"resources": entries}
        case "resources/templates/list":
            return {"resourceTemplates": []}
    return {}


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        params = request.get("params") or {}
        result = result_of(request["method"], params)
        if "asks" in sys.argv and request["method"] == "tools/call":
            say({"method": "x/y", "id": request["id"], "params": {"x": "x" * 100_000}})
            say({"method": "notifications/x", "params": {"x": "x" * 100_000}})
        arguments = params.get("arguments") or {}
        say({"id": request["id"], "result": result}, tail=bool(arguments.get("tail")))


if __name__ == "__main__":
    main()
