"""A model server whose answers have no end, as fast as the pipe takes them.

    python torrent.py        prints its port

The name of the model says how: ``flood`` of words, ``unbroken`` text without a blank
or a stop, ``chunks`` of 64 KiB, ``thoughts`` that are not shown, ``arguments`` of a
call, ``comments`` that only keep the connection open, ``drip`` a word every 10 ms.
"""

from __future__ import annotations

import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

BLOCK = 64


def event(delta: dict[str, Any]) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return f"data: {json.dumps({'choices': [choice]})}\n\n".encode()


ARGUMENTS = {"index": 0, "id": "c", "function": {"name": "roll", "arguments": " "}}
KINDS = {
    "flood": event({"content": "well, then. "}),
    "unbroken": event({"content": "andso"}),
    "chunks": event({"content": "So be it. " * 6_500}),
    "thoughts": event({"reasoning_content": "hm "}),
    "arguments": event({"tool_calls": [ARGUMENTS]}),
    "comments": b": still here\n\n",
    "drip": event({"content": "well. "}),
}


class Torrent(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        piece = KINDS[asked["model"]]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        slow = asked["model"] == "drip"
        block = piece if slow or len(piece) > 1000 else piece * BLOCK
        try:
            while True:
                self.wfile.write(block)
                if slow:
                    time.sleep(0.01)
        except OSError:  # the client has left
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Torrent)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()
