"""A model server for two frameworks at once: three sentences, word by word.

    python -m benchmarks.servers.ponderer

Whoever names a tool that is offered has it called. Writes its address to stdout.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trio

from glyphoxa_trio.testing.model_server import (
    CallTools,
    Reply,
    SayText,
    open_model_server,
)

SENTENCES = "One is one. Two words are here. Three comes last."


def answer(body: Mapping[str, Any]) -> Reply:
    last = body["messages"][-1]
    words = str(last["content"]).split() if last["role"] == "user" else []
    for tool in body.get("tools", ()):
        name = tool["function"]["name"]
        if name.split("__")[-1] in words:
            return CallTools([(name, {})])
    return SayText(SENTENCES, every=0.005)


async def serve() -> None:
    async with open_model_server(answer) as server:
        print(server.base_url, flush=True)
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(serve)
