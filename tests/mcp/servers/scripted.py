"""A server that says to each method what its command line tells it to say.

    python scripted.py '{"METHOD": MESSAGE or [MESSAGE, ...], ...}'

``initialize`` has an answer of its own unless it is told another. In a message
``"$id"`` becomes the id of the request, ``"$listen"`` that of the last
``subscriptions/listen``; a message without an id and a method is given both.
"""

from __future__ import annotations

import json
import sys
from typing import Any

script: dict[str, Any] = {
    "initialize": {
        "result": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "scripted", "version": "1"},
        }
    },
    **json.loads(sys.argv[1]),
}
listening = "nobody"

for line in sys.stdin:
    heard = json.loads(line)
    ident, method = heard.get("id"), heard["method"]
    if method == "subscriptions/listen":
        listening = ident
    says = script.get(method)
    if says is None and ident is not None:
        says = {"error": {"code": -32601, "message": f"no such method: {method}"}}
    for message in says if isinstance(says, list) else [says] if says else []:
        whole = {"jsonrpc": "2.0", **({} if "method" in message else {"id": ident})}
        text = json.dumps({**whole, **message})
        text = text.replace('"$id"', json.dumps(ident))
        sys.stdout.write(text.replace('"$listen"', json.dumps(listening)) + "\n")
    sys.stdout.flush()
