"""The vendor's own client, at a server of ours: a program, run by a test.

It asks, answers each call with its arguments, asks again, and prints what it has seen
as a line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import anthropic
from anthropic.types import MessageParam, ToolParam, ToolResultBlockParam

ROLL: ToolParam = {
    "name": "roll",
    "description": "Roll dice.",
    "input_schema": {"type": "object", "properties": {"n": {"type": "integer"}}},
}


async def main(base_url: str, api_key: str) -> dict[str, Any]:
    seen: dict[str, Any] = {"rounds": []}
    asked: list[MessageParam] = [{"role": "user", "content": "hello"}]
    async with anthropic.AsyncAnthropic(
        base_url=base_url, api_key=api_key, max_retries=0, timeout=20
    ) as client:
        while True:
            async with client.messages.stream(
                model="scripted", max_tokens=500, messages=asked, tools=[ROLL]
            ) as stream:
                text = [piece async for piece in stream.text_stream]
                message = await stream.get_final_message()
            content = [block.model_dump(exclude_none=True) for block in message.content]
            seen["rounds"].append(
                {
                    "text": text,
                    "content": content,
                    "stop_reason": message.stop_reason,
                    "output_tokens": message.usage.output_tokens,
                }
            )
            calls = [block for block in message.content if block.type == "tool_use"]
            if not calls:
                break
            results: list[ToolResultBlockParam] = [
                {
                    "type": "tool_result",
                    "tool_use_id": call.id,
                    "content": json.dumps(call.input),
                }
                for call in calls
            ]
            asked += [
                {"role": "assistant", "content": message.content},
                {"role": "user", "content": results},
            ]
        try:
            await client.messages.create(
                model="scripted",
                max_tokens=1,
                messages=asked,
                tools=[ROLL],
                stream=True,
            )
        except anthropic.APIStatusError as error:
            seen["error"] = [type(error).__name__, error.status_code, error.message]
    return seen


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))  # noqa: T201
