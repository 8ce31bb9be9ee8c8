"""Requests that no client should send, for hypothesis to draw."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

MODERN = "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}

# What clients send: method and parameters.
SENT: list[tuple[str, dict[str, Any]]] = [
    (
        "initialize",
        {
            "protocolVersion": "2025-06-18",
            "capabilities": {"roots": {"listChanged": True}},
            "clientInfo": {"name": "fuzz", "version": "1"},
        },
    ),
    ("initialized", {}),
    ("notifications/initialized", {}),
    ("notifications/cancelled", {"requestId": 7, "reason": "never mind"}),
    ("notifications/progress", {"progressToken": 1, "progress": 0.5}),
    ("ping", {}),
    ("tools/list", {}),
    ("tools/call", {"name": "echo", "arguments": {"word": "well met"}}),
    ("tools/call", {"name": "sleep", "arguments": {"seconds": 0.5}}),
    ("tools/call", {"name": "write_note", "arguments": {"name": "a", "text": "b"}}),
    ("tools/call", {"name": "wait", "_meta": {"progressToken": "p"}}),
    ("resources/list", {"cursor": None}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "note://dragon"}),
    ("resources/subscribe", {"uri": "note://dragon"}),
    ("resources/unsubscribe", {"uri": "note://dragon"}),
    (
        "completion/complete",
        {
            "ref": {"type": "ref/resource", "uri": "note://{name}"},
            "argument": {"name": "name", "value": "d"},
        },
    ),
    ("logging/setLevel", {"level": "debug"}),
    ("server/discover", {}),
    (
        "subscriptions/listen",
        {
            "notifications": {
                "resourcesListChanged": True,
                "resourceSubscriptions": ["note://a"],
            }
        },
    ),
    ("no/such/method", {"what": [1, 2, {"three": 4}]}),
]

ODD: list[Any] = [
    None, True, False, 0, -1, 1.5, 1e308, 10**30, -(2**63), "", "\x00", "\ud800",
    "\u202e", "é" * 50, "x" * 5000, [], {}, [[]], {"": {}}, [None] * 50, "note://",
    float("nan"), float("inf"), {"__proto__": 1}, "%s%n{0}", "../../etc/passwd",
]  # fmt: skip

VALUES: dict[str, list[str | None]] = {
    "accept": [
        *("*/*", "application/json", "text/event-stream", "text/html", "", ";;;,,,"),
        "application/json, text/event-stream",
    ],
    "content-type": [
        *("application/json", "text/plain", "application/json;charset=utf-16", ""),
        *("multipart/form-data; boundary=x", "APPLICATION/JSON", None),
    ],
    "content-length": ["0", "5", "99999999999999999999", "-1", "x", "1e3", "٣"],
    "content-encoding": ["gzip", "identity", "br, gzip", ""],
    "cookie": [
        *("mcp_session=x", "mcp_session=", "mcp_session", '"', "a=b; ; =;;,", "\xff"),
        *('mcp_session="\\"', "mcp_session=$S", "x=" + "y" * 3000),
    ],
    "mcp-session-id": ["", "x", "$S", "$OTHER", "\xff\xfe", " $S ", "0" * 3000, None],
    "mcp-protocol-version": [
        *("2024-11-05", "2025-06-18", MODERN, "2099-01-01", "", "x" * 500, None),
    ],
    "mcp-method": ["tools/call", "ping", "x"],
    "mcp-name": ["echo", "note://a", "=?base64?4pyT?=", "=?base64?!!?="],
    "mcp-param-word": ["a", "\xff"],
    "last-event-id": ["1", "2", "0", "-5", "x", "9" * 40, ""],
    "host": ["localhost", "evil.example", "", "[::1]:1", "a b", None],
    "origin": ["null", "http://localhost", "https://evil.example", "\xff"],
    "authorization": ["Bearer x", "Basic eA==", ""],
    "transfer-encoding": ["chunked"],
    "x-odd": ["\x7f", "a" * 17_000],
}


def replace_somewhere(tree: Any, path: int, odd: Any) -> Any:
    """The tree with one of its nodes, counted through, replaced."""
    count = 0

    def walk(node: Any) -> Any:
        nonlocal count
        count += 1
        if count == path:
            return odd
        if isinstance(node, dict):
            return {key: walk(value) for key, value in node.items()}
        if isinstance(node, list):
            return [walk(value) for value in node]
        return node

    return walk(tree)


@st.composite
def messages(
    draw: Callable[..., Any], method: str, params: dict[str, Any], *, modern: bool
) -> bytes:
    """A body: sometimes a good message, often one with something wrong in it."""
    if modern:
        params = {**params, "_meta": ENVELOPE}
    message: Any = {"jsonrpc": "2.0", "method": method, "params": params}
    if not method.startswith(("notifications", "initialized")) or draw(st.booleans()):
        message["id"] = draw(st.one_of(st.integers(1, 9), st.sampled_from(["a", "1"])))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2]))):
        how = draw(st.sampled_from(["replace", "drop", "add", "answer", "batch"]))
        if not isinstance(message, dict):
            continue
        if how == "replace":
            odd = draw(st.sampled_from(ODD))
            message = replace_somewhere(message, draw(st.integers(1, 14)), odd)
        elif how == "drop" and message:
            del message[draw(st.sampled_from(sorted(message)))]
        elif how == "add":
            message[draw(st.sampled_from(["id", "result", "error", "x"]))] = draw(
                st.sampled_from(ODD)
            )
        elif how == "answer":
            message = {"jsonrpc": "2.0", "id": 1, "result": {}}
        else:
            message = [message] * draw(st.integers(0, 3))
    body = json.dumps(message).encode()
    match draw(st.sampled_from([""] * 15 + ["cut", "noise", "deep", "wrap", "utf-16"])):
        case "cut":
            body = body[: draw(st.integers(0, len(body)))]
        case "noise":
            at = draw(st.integers(0, len(body)))
            body = body[:at] + draw(st.binary(max_size=8)) + body[at:]
        case "deep":
            opening = draw(
                st.sampled_from([b"[", b'{"a":', b'{"jsonrpc":"2.0","id":['])
            )
            body = opening * draw(st.sampled_from([900, 1100, 200_000]))
        case "wrap":
            depth = draw(st.sampled_from([50, 500, 2000]))
            body = body.replace(b'"params": {', b'"params": {"x": ' + b"[" * depth
                                + b"]" * depth + b", ", 1)  # fmt: skip
        case "utf-16":
            body = body.decode().encode("utf-16")
    return body


@st.composite
def requests(draw: Callable[..., Any]) -> dict[str, Any]:
    """A request, its headers with $S where the session's id goes."""
    modern = draw(st.sampled_from([False, False, True]))
    method = draw(st.sampled_from(["POST"] * 20 + ["GET", "GET", "DELETE", "PUT"]))
    headers: dict[str, str | None] = {
        "accept": draw(st.sampled_from(["*/*", "application/json, text/event-stream"])),
        "mcp-session-id": None
        if modern
        else draw(st.sampled_from(["$S"] * 9 + [None])),
        "mcp-protocol-version": MODERN if modern else None,
    }
    called, params = draw(st.sampled_from(SENT))
    if modern:
        named = params.get("name") or params.get("uri")
        headers |= {"mcp-method": called, "mcp-name": named}
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        name = draw(st.sampled_from(sorted(VALUES)))
        headers[name] = draw(st.sampled_from(VALUES[name]))
    body = draw(messages(called, params, modern=modern)) if method != "GET" else b""
    if draw(st.sampled_from([False] * 30 + [True])):
        body = b" " * 1_200_000
    return {
        "method": method,
        "path": draw(st.sampled_from(["/mcp"] * 20 + ["/mcp/health", "/", "/mcp/%00"])),
        "headers": headers,
        "body": body,
        "pieces": draw(st.sampled_from([1, 1, 1, 3])),
        "cut": draw(st.sampled_from([False] * 9 + [True])),  # leaves in the middle
        "twice": draw(st.sampled_from([None] * 20 + sorted(VALUES))),
        # Seconds; most longer than any tool may take.
        "stays": draw(st.sampled_from([0.0, 0.1, 1.0] + [70.0] * 7)),
    }
