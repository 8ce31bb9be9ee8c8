"""The MCP form of our tools, resources and answers. No I/O.

Latencies are written into ``_meta``, so that another runtime knows a tool's tier
before it has called it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, Final

from glyphoxa_trio.tools.definition import Tool
from glyphoxa_trio.tools.outcome import Media, ToolResult
from glyphoxa_trio.tools.tier import Tier

from .definition import Content, Resource, ResourceTemplate

PREFIX: Final = "glyphoxa/"
# Seconds that a remote caller may need beyond a tool's own limit, which the server
# keeps: without them, a limit of 20 ms would be over before the network has carried the
# answer.
ON_THE_WAY: Final = 1.0  # seconds

# making an encoder takes as long as using it once
_TEXT: Final = json.JSONEncoder(ensure_ascii=False)


def tool_entry(tool: Tool, output: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a tool as an entry of the answer to ``tools/list``.

    Args:
      output: the schema of its structured answers.
    """
    definition = tool.definition
    schema = dict(definition.parameters)
    if definition.examples:
        schema["examples"] = [dict(example) for example in definition.examples]
    annotations: dict[str, Any] = {
        "readOnlyHint": definition.read_only,
        "idempotentHint": definition.idempotent,
        "openWorldHint": definition.open_world,
    }
    if not definition.read_only:
        annotations["destructiveHint"] = definition.destructive
    entry: dict[str, Any] = {
        "name": definition.name,
        "description": definition.description,
        "inputSchema": schema,
        "annotations": annotations,
    }
    if definition.title:
        entry["title"] = definition.title
    if output is not None:
        entry["outputSchema"] = output
    meta: dict[str, Any] = {}
    if definition.estimated_duration is not None:
        meta["estimated_duration_ms"] = round(definition.estimated_duration * 1000, 3)
    if definition.max_duration is not None:
        limit = definition.max_duration + ON_THE_WAY
        meta["max_duration_ms"] = round(limit * 1000, 3)
    if definition.idempotent:
        meta["idempotent"] = True
    if definition.cacheable:
        meta["cacheable_seconds"] = definition.cacheable
    if definition.min_tier is not Tier.FAST:
        meta["min_tier"] = definition.min_tier.value
    if definition.category:
        meta["category"] = definition.category
    if meta:
        entry["_meta"] = {PREFIX + key: value for key, value in meta.items()}
    return entry


def answer(result: ToolResult) -> dict[str, Any]:
    """Return a result as a CallToolResult.

    Structured data is written into a text block as well, for clients that read nothing
    else.
    """
    content: list[dict[str, Any]] = [
        {"type": "text", "text": text} for text in result.text
    ]
    content += [_media(item) for item in result.media]
    written: dict[str, Any] = {"content": content}
    if result.structured is not None:
        if not result.text:
            said = _TEXT.encode(result.structured)
            content.insert(0, {"type": "text", "text": said})
        if isinstance(result.structured, Mapping):
            written["structuredContent"] = result.structured
        else:
            written["structuredContent"] = {"result": result.structured}
    if result.is_error:
        written["isError"] = True
    return written


def refused(message: str, code: str | None) -> dict[str, Any]:
    """Return a CallToolResult for a refusal; the code is for programs."""
    written: dict[str, Any] = {
        "content": [{"type": "text", "text": message}],
        "isError": True,
    }
    if code is not None:
        written["structuredContent"] = {"error": {"code": code, "message": message}}
    return written


def too_late() -> dict[str, Any]:
    """Return a CallToolResult for a call that was cut off at its limit."""
    return refused("the time for this call is over", "DeadlineExceeded")


def _media(item: Media) -> dict[str, Any]:
    return {
        "type": item.mime.partition("/")[0],
        "data": base64.b64encode(item.data).decode(),
        "mimeType": item.mime,
    }


def resource_entry(resource: Resource | ResourceTemplate) -> dict[str, Any]:
    """Return a resource or template as an entry of its list."""
    template = isinstance(resource, ResourceTemplate)
    entry = {
        "uriTemplate" if template else "uri": resource.uri,
        "name": resource.name,
        "mimeType": resource.mime,
    }
    if resource.title:
        entry["title"] = resource.title
    if resource.description:
        entry["description"] = resource.description
    return entry


def content_entry(content: Content) -> dict[str, Any]:
    entry: dict[str, Any] = {"uri": content.uri, "mimeType": content.mime}
    if isinstance(content.data, str):
        entry["text"] = content.data
    else:
        entry["blob"] = base64.b64encode(content.data).decode()
    return entry
