"""The Python SDK's own client, as its documentation has it."""

from __future__ import annotations

import json
import sys
import warnings
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.subscriptions import Subscription
from mcp.shared.exceptions import MCPDeprecationWarning

import trio

WATCHED = "test://watched-resource"


async def main(mode: str, transport: str, *words: str) -> dict[str, Any]:
    server: StdioServerParameters | str = words[0]
    if transport == "stdio":
        server = StdioServerParameters(command=words[0], args=list(words[1:]))
    told, hear = trio.open_memory_channel[str](8)

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            told.send_nowait(message.params.uri)

    client = Client(
        server, mode=mode, sampling_callback=_sample, message_handler=on_message
    )
    # What 2026-07-28 has taken out is what is tried here, in legacy mode.
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(client)
        seen = await _use(client)
        events: Subscription | None = None
        if mode == "legacy":
            await client.session.subscribe_resource(WATCHED)
        else:
            listening = client.listen(resource_subscriptions=[WATCHED])
            events = await stack.enter_async_context(listening)
        await client.call_tool("change_watched_resource")
        if events is None:
            seen["told"] = await hear.receive()
        else:
            event: Any = await anext(events)
            seen["told"] = event.uri
        seen["reread"] = _text((await client.read_resource(WATCHED)).contents[0])
        seen["cancelled"] = await _cancel(client)
        return seen


async def _use(client: Client) -> dict[str, Any]:
    tools = await client.list_tools()
    image = (await client.call_tool("test_image_content")).content[0]
    assert isinstance(image, types.ImageContent)
    refused = await client.call_tool("test_error_handling")
    steps: list[float] = []

    async def on_progress(
        progress: float, total: float | None, message: str | None
    ) -> None:
        steps.append(progress)

    await client.call_tool("test_tool_with_progress", progress_callback=on_progress)
    modern = client.protocol_version not in types.version.HANDSHAKE_PROTOCOL_VERSIONS
    asking = "test_input_required_result_sampling" if modern else "test_sampling"
    asked = await client.call_tool(asking, {} if modern else {"prompt": "Who?"})
    read = await client.read_resource("test://template/7/data")
    prompt = await client.get_prompt(
        "test_prompt_with_arguments", {"arg1": "a", "arg2": "b"}
    )
    return {
        "version": client.protocol_version,
        "tools": len(tools.tools),
        "image": image.mime_type,
        "refused": [refused.is_error, _text(refused.content[0])],
        "progress": steps,
        "asked": _text(asked.content[0]).removeprefix("LLM response: "),
        "read": json.loads(_text(read.contents[0]))["id"],
        "resources": len((await client.list_resources()).resources),
        "prompt": _text(prompt.messages[0].content),
    }


async def _sample(
    context: Any, params: types.CreateMessageRequestParams
) -> types.CreateMessageResult:
    content = types.TextContent(type="text", text="somebody")
    return types.CreateMessageResult(role="assistant", content=content, model="none")


async def _cancel(client: Client) -> str:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "linger", {"word": "mine"})
        await _begun(client)
        nursery.cancel_scope.cancel()
    ended = await client.call_tool("until_cancelled", {"word": "mine"})
    return _text(ended.content[0])


async def _begun(client: Client) -> None:
    await client.call_tool("until_begun", {"word": "mine"})


def _text(content: Any) -> str:
    assert isinstance(content, types.TextContent | types.TextResourceContents)
    return content.text


if __name__ == "__main__":
    print(json.dumps(trio.run(partial(main, *sys.argv[1:]))))
