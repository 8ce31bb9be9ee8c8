"""A model server that calls three tools when it is spoken to, and then says a
sentence. Writes its address to stdout.

    python -m benchmarks.servers.scripted_model TOOL
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import trio

from glyphoxa_trio.testing.model_server import (
    CallTools,
    Reply,
    SayText,
    open_model_server,
)


def answer(body: Mapping[str, Any]) -> Reply:
    if body["messages"][-1]["role"] == "user":
        return CallTools([(sys.argv[1], {"text": f"page {n}"}) for n in range(3)])
    return SayText("A silver piece, and look after your horse.")


async def serve() -> None:
    async with open_model_server(answer) as server:
        print(server.base_url, flush=True)
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(serve)
