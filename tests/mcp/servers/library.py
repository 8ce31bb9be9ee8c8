"""A server with resources in plain Python, one JSON object a line.

    python library.py [HABIT...]

It says on stderr which method it is asked for; its habits are in `HABITS`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

HABITS = {
    "modern": "knows only the protocol family of 2026-07-28",
    "bare": "has resources and no tools at all",
    "own": "has a tool of its own that is called read_resource",
    "untemplated": "does not know resources/templates/list",
    "circular": "its list of resources has no last page",
    "asks": "wants to know more before it reads",
    "old": "offers no resources any more",
}
SHELF = 120  # books, ten on a page

habits = set(sys.argv[1:])
assert habits <= set(HABITS), habits - set(HABITS)


class Unknown(Exception):
    pass


def book(number: int) -> dict[str, Any]:
    return {
        "uri": f"book://{number}",
        "name": f"Volume {number}" if number != 77 else "The Herbal",
        "description": "A long tale. " * 50,
        "mimeType": "text/plain",
    }


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize" and "modern" not in habits:
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities(),
            "serverInfo": {"name": "library", "version": "1"},
        }
    if method == "server/discover" and "modern" in habits:
        return {
            "supportedVersions": ["2026-07-28"],
            "capabilities": capabilities(),
            "ttlMs": 0,
            "cacheScope": "public",
        }
    if method == "tools/list" and "bare" not in habits:
        names = ["lend", *(["read_resource"] if "own" in habits else [])]
        return page(
            tools=[{"name": x, "inputSchema": {"type": "object"}} for x in names]
        )
    if method == "tools/call":
        link = {"type": "resource_link", "uri": "book://77", "name": "The Herbal"}
        said = {"type": "text", "text": f"{params['name']}: here"}
        return {"content": [said, link]}
    if method == "resources/list":
        at = int(params.get("cursor", 0))
        found = page(resources=[book(n) for n in range(at, at + 10)])
        if "circular" in habits:
            return found | {"nextCursor": "0"}
        return found | ({"nextCursor": str(at + 10)} if at + 10 < SHELF else {})
    if method == "resources/templates/list" and "untemplated" not in habits:
        shape = {"uriTemplate": "book://{number}/{page}", "name": "One page"}
        return page(resourceTemplates=[shape])
    if method == "resources/read":
        return read(params["uri"])
    raise Unknown


def read(uri: str) -> dict[str, Any]:
    if "asks" in habits:
        return {"resultType": "input_required", "requestState": "x"}
    parts = {
        "book://77": [{"uri": uri, "mimeType": "text/plain", "text": "Mugwort."}],
        "book://map": [{"uri": uri, "mimeType": "image/png", "blob": "QUFB" * 1000}],
        "book://empty": [],
        "book://long": [{"uri": uri, "text": "word " * 20_000}],
        "book://two": [{"uri": uri, "text": "One."}, {"uri": uri, "text": "Two."}],
    }
    if uri not in parts:
        raise KeyError(uri)
    return page(contents=parts[uri])


def capabilities() -> dict[str, Any]:
    offered: dict[str, Any] = {} if "bare" in habits else {"tools": {}}
    return offered if "old" in habits else offered | {"resources": {}}


def page(**entries: Any) -> dict[str, Any]:
    return entries | (
        {"ttlMs": 0, "cacheScope": "public"} if "modern" in habits else {}
    )


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, params = message["method"], message.get("params", {})
    sys.stderr.write(f"asked {method}\n")
    sys.stderr.flush()
    reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
    try:
        result = answer(method, params)
        if "modern" in habits:
            result.setdefault("resultType", "complete")
        reply["result"] = result
    except Unknown:
        reply["error"] = {"code": -32601, "message": f"no such method: {method}"}
    except KeyError as error:
        text = f"Resource not found: {error.args[0]}"
        reply["error"] = {"code": -32002, "message": text}
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()
