"""JSON-RPC by hand, one object a line, for every server of this family.

Standard library only, and as little of it as possible, so that a server starts in some
40 ms. `serve` is a well-behaved server; a behaviour replaces parts of it.

Its tools are ``echo`` (reads; returns its arguments), ``write`` (has side effects;
notes its argument ``id`` in the journal, if there is one, and then takes ``ms``), and
``bad`` (for behaviours that are about calls; reads, unless it is to count as one that
writes).
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Message = dict[str, Any]

STDIN, STDOUT, STDERR = 0, 1, 2
METHOD_NOT_FOUND = -32601

_journal: str = ""

_writing = threading.Lock()


def tool(name: str, *, read_only: bool = True, **more: Any) -> Message:
    """Return a tool as in `tools/list`, declared as fast.

    So a fast turn may call it.
    """
    return {
        "name": name,
        "description": f"The tool {name}.",
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": read_only},
        "_meta": {"glyphoxa/estimated_duration_ms": 1},
        **more,
    }


TOOLS: list[Message] = [tool("echo"), tool("write", read_only=False), tool("bad")]


def bad_writes() -> None:
    """List ``bad`` as a tool with side effects from now on."""
    TOOLS[-1] = tool("bad", read_only=False)


def keep_journal(file: str) -> None:
    """Set the file in which ``write`` notes its calls; none, if empty."""
    global _journal
    _journal = file


def raw(data: bytes, *, to: int = STDOUT) -> None:
    """Write bytes as they are, all of them, however long the reader takes."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(to, rest) :]


def send(message: Message) -> None:
    """Write one message on a line of its own; from any thread."""
    line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
    with _writing:
        raw(line)


def say(text: str) -> None:
    """Write a line to stderr."""
    raw(text.encode() + b"\n", to=STDERR)


def messages() -> Iterator[Message]:
    """Yield the messages of the client, until it closes our stdin."""
    for line in sys.stdin.buffer:
        if line.strip():
            yield json.loads(line)


def text(said: str) -> Message:
    """Return the result of a call that worked."""
    return {"content": [{"type": "text", "text": said}]}


def answer(message: Message, tools: Sequence[Message] = TOOLS) -> Message | None:
    """Return the answer of a good server; None for a message that wants none."""
    if "method" not in message or "id" not in message:
        return None
    params = message.get("params") or {}
    result: Message
    match message["method"]:
        case "initialize":
            result = {
                "protocolVersion": params.get("protocolVersion"),
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "hostile", "version": "1"},
            }
        case "ping":
            result = {}
        case "tools/list":
            result = {"tools": list(tools)}
        case "tools/call":
            result = call(params.get("name"), params.get("arguments") or {})
        case method:
            error = {"code": METHOD_NOT_FOUND, "message": f"no such method: {method}"}
            return {"id": message["id"], "error": error}
    return {"id": message["id"], "result": result}


def call(name: Any, arguments: Message) -> Message:
    """Run a tool as a good server does."""
    if name == "write":
        note(str(arguments.get("id", "")))
        time.sleep(arguments.get("ms", 0) / 1000)
    return text(json.dumps(arguments))


def note(entry: str) -> None:
    """Append a line to the journal, whole or not at all, even if killed."""
    if not _journal:
        return
    handle = os.open(_journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, entry.encode() + b"\n")
    finally:
        os.close(handle)


def reply(message: Message) -> None:
    """Answer as a good server does."""
    good = answer(message)
    if good is not None:
        send(good)


Act = Callable[[Message], object]


def serve(
    instead: Mapping[str, Act] | None = None,
    *,
    bad: Act | None = None,
    otherwise: Act = reply,
) -> None:
    """Answer correctly until stdin ends, except for the methods in ``instead``.

    Args:
      bad: called in place of answering a call of the tool ``bad``.
      otherwise: called for every other message.
    """
    for message in messages():
        method = str(message.get("method"))
        if bad is not None and is_bad(message):
            bad(message)
        elif instead is not None and method in instead:
            instead[method](message)
        else:
            otherwise(message)


def serve_between(
    work: Callable[[], object], *, otherwise: Act = reply, since: str = "tools/list"
) -> None:
    """Answer until stdin ends; from the first ``since`` on, call ``work`` all the time.

    It uses one thread, so that no answer is interrupted by the output of ``work``.
    """
    begun, unfinished = False, b""
    while True:
        if not begun or select.select([STDIN], [], [], 0)[0]:
            data = os.read(STDIN, 2**16)
            if not data:
                return
            *lines, unfinished = (unfinished + data).split(b"\n")
            for message in map(json.loads, filter(bytes.strip, lines)):
                otherwise(message)
                begun = begun or message.get("method") == since
        if begun:
            work()


def is_bad(message: Message) -> bool:
    """Return whether a message calls the tool ``bad``."""
    params = message.get("params") or {}
    return message.get("method") == "tools/call" and params.get("name") == "bad"


def ignore(_: Message) -> None:
    """Do not answer at all."""


def sleep_for_ever() -> None:
    """Do nothing more, for ten minutes, and then exit."""
    time.sleep(600)
    os._exit(0)


def meanwhile(work: Callable[[], None]) -> None:
    """Do ``work`` in a thread that does not keep the server alive."""
    threading.Thread(target=work, daemon=True).start()
