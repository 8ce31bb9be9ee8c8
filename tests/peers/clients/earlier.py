"""The client of the Python SDK's major before ours, on asyncio as it came.

It runs in an environment of its own, where nothing of ours is, and the types that are
checked here are those of another major: hence `Any`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from importlib import import_module
from typing import Any

import anyio
import anyio.lowlevel
import mcp

types: Any = import_module("mcp.types")
WATCHED = "test://watched-resource"


async def main(transport: str, *words: str) -> dict[str, Any]:
    told: asyncio.Queue[str] = asyncio.Queue()

    async def on_message(message: Any) -> None:
        root = getattr(message, "root", None)
        if isinstance(root, types.ResourceUpdatedNotification):
            told.put_nowait(str(root.params.uri))

    async with _open(transport, words) as streams:
        made: Any = mcp.ClientSession
        async with made(
            *streams[:2], sampling_callback=_sample, message_handler=on_message
        ) as session:
            seen = {"version": (await session.initialize()).protocolVersion}
            seen |= await _use(session)
            await session.subscribe_resource(WATCHED)
            await session.call_tool("change_watched_resource")
            seen["told"] = await told.get()
            read = await session.read_resource(WATCHED)
            seen["reread"] = read.contents[0].text
            seen["cancelled"] = await _cancel(session)
            return seen


def _open(transport: str, words: tuple[str, ...]) -> Any:
    if transport == "stdio":
        stdio: Any = import_module("mcp.client.stdio")
        parameters = stdio.StdioServerParameters(command=words[0], args=list(words[1:]))
        return stdio.stdio_client(parameters)
    http: Any = import_module("mcp.client.streamable_http")
    return http.streamable_http_client(words[0])


async def _use(session: Any) -> dict[str, Any]:
    tools = await session.list_tools()
    image = await session.call_tool("test_image_content")
    refused = await session.call_tool("test_error_handling")
    steps: list[float] = []

    async def on_progress(done: float, total: float | None, _: str | None) -> None:
        steps.append(done)

    await session.call_tool("test_tool_with_progress", progress_callback=on_progress)
    asked = await session.call_tool("test_sampling", {"prompt": "Who?"})
    read = await session.read_resource("test://template/7/data")
    prompt = await session.get_prompt(
        "test_prompt_with_arguments", {"arg1": "a", "arg2": "b"}
    )
    return {
        "tools": len(tools.tools),
        "image": image.content[0].mimeType,
        "refused": [refused.isError, refused.content[0].text],
        "progress": steps,
        "asked": asked.content[0].text.removeprefix("LLM response: "),
        "read": json.loads(read.contents[0].text)["id"],
        "resources": len((await session.list_resources()).resources),
        "prompt": prompt.messages[0].content.text,
    }


async def _sample(_: Any, params: Any) -> Any:
    content = types.TextContent(type="text", text="somebody")
    return types.CreateMessageResult(role="assistant", content=content, model="none")


async def _cancel(session: Any) -> str:
    """It has no way of its own to cancel a call: a program says so by itself."""
    async with anyio.create_task_group() as tasks:
        request = session._request_id
        tasks.start_soon(session.call_tool, "linger", {"word": "mine"})
        await anyio.lowlevel.checkpoint()  # it takes its number first
        await session.call_tool("until_begun", {"word": "mine"})
        params = types.CancelledNotificationParams(requestId=request)
        told = types.CancelledNotification(params=params)
        await session.send_notification(types.ClientNotification(told))
        tasks.cancel_scope.cancel()
    ended = await session.call_tool("until_cancelled", {"word": "mine"})
    words: str = ended.content[0].text
    return words


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
