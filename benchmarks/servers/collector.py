"""A collector of spans that drops what it gets. Writes its address to stdout."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, HTTPServer


class Drop(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


if __name__ == "__main__":
    server = HTTPServer(("127.0.0.1", 0), Drop)
    print(f"http://127.0.0.1:{server.server_port}/v1/traces", flush=True)
    server.serve_forever()
