"""A model server for the pages' tests: what it answers is decided by what it is told.

``use NAME {...}`` calls the tool whose name ends with NAME; ``story`` never ends soon;
``repeat all`` repeats what the NPC knows of the moment as well; anything else is
repeated. Prints its address, and serves until it is killed.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import Any

import trio

from glyphoxa_trio.testing.model_server import (
    CallTools,
    Pause,
    Reply,
    SayText,
    open_model_server,
)


def answer(request: Mapping[str, Any]) -> Reply:
    messages = request["messages"]
    said = [x for x in messages if x["role"] == "user"][-1]["content"]
    if not isinstance(said, str):
        said = " ".join(part.get("text", "") for part in said)
    whole, said = said, said.rpartition("\n\n")[2]  # before it, what the NPC knows
    if "repeat all" in said:
        return [SayText(" ".join(whole.split()))]
    if messages[-1]["role"] == "tool":
        return [SayText(f"It told me this: {str(messages[-1]['content'])[:80]}.")]
    if found := re.search(r"use (\w+) ?(\{.*\})?", said):
        names = [x["function"]["name"] for x in request.get("tools", ())]
        matching = [x for x in names if x.endswith(found[1])]
        if matching:
            return [CallTools([(matching[0], json.loads(found[2] or "{}"))])]
        return [SayText(f"I know no {found[1]}.")]
    if "story" in said:
        steps: list[Any] = []
        for number in range(60):
            steps += [SayText(f"Sentence number {number} of the tale. "), Pause(0.25)]
        return steps
    return [SayText(f"You said: {said[-60:]}. "), SayText("So it is.")]


async def main() -> None:
    async with open_model_server(answer) as server:
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main)
