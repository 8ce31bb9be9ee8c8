"""The parts that the tools share: how they are made, and the campaign they work on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Any, Final

import attrs

from glyphoxa_trio.tools.definition import CallContext, Tool, ToolDefinition
from glyphoxa_trio.tools.outcome import ToolResult

from .. import checks
from ..campaigns import Campaigns
from ..context import Contexts
from ..errors import InvalidArgument

Arguments = Mapping[str, Any]
Answer = Mapping[str, Any]
Work = Callable[[Arguments, CallContext], Awaitable[Answer]]
Schema = dict[str, Any]

# Seconds: typical on an SSD, and the limit, which is longer than another program may
# lock the file.
READ: Final = (0.002, 2.0)
WRITE: Final = (0.003, 5.0)
LONG: Final = (0.02, 10.0)

# An id that no record has: a tool that is probed with it does nothing.
NOBODY: Final = "a" * 26


@attrs.frozen(eq=False)
class ClientState:
    """All campaigns, and the context of each client."""

    campaigns: Campaigns
    contexts: Contexts

    def campaign_id(self, arguments: Arguments, call: CallContext) -> str:
        """Return the argument ``campaign_id``, else that of the client's context.

        Raises:
          InvalidArgument: if there is neither.
        """
        given: str | None = arguments.get("campaign_id")
        if given is not None:
            return given
        context = self.contexts.of(call.session)
        if context is None:
            raise InvalidArgument(
                "campaign_id is missing: give it, or choose a campaign by set_context"
            )
        return context.campaign_id

    def of_context(self, name: str, campaign_id: str, call: CallContext) -> str | None:
        """Return an id of the client's context, if that is about this campaign."""
        context = self.contexts.of(call.session)
        if context is None or context.campaign_id != campaign_id:
            return None
        found: str | None = getattr(context, name)
        return found


def made(
    name: str,
    title: str,
    description: str,
    work: Work,
    properties: Mapping[str, Schema],
    *,
    required: tuple[str, ...] = (),
    limits: tuple[float, float] = WRITE,
    says: str | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    destructive: bool = False,
    example: Mapping[str, Any] | None = None,
) -> Tool:
    """Return a tool.

    A tool that writes and is idempotent needs an example that does nothing, since it
    may be probed.
    """

    async def handler(arguments: Arguments, call: CallContext) -> ToolResult:
        return ToolResult(structured=dict(await work(arguments, call)))

    typical, longest = limits
    return Tool(
        definition=ToolDefinition(
            name=name,
            group="campaign",
            title=title,
            description=description,
            parameters={
                "type": "object",
                "properties": dict(properties),
                "required": list(required),
                "additionalProperties": False,
            },
            estimated_duration=typical,
            max_duration=longest,
            read_only=read_only,
            idempotent=idempotent or read_only,
            destructive=destructive,
            examples=() if example is None else (example,),
            speech_template=says,
        ),
        handler=handler,
    )


def text(description: str, most: int = checks.MOST_TEXT, least: int = 0) -> Schema:
    schema: Schema = {"type": "string", "maxLength": most, "description": description}
    return schema | {"minLength": least} if least else schema


def name(description: str) -> Schema:
    return text(description, checks.MOST_NAME, 1)


def optional(schema: Schema) -> Schema:
    """Allow null in a schema, since strict models send it for an absent argument."""
    if "anyOf" in schema:
        return schema | {"anyOf": [*schema["anyOf"], {"type": "null"}]}
    return schema | {"type": [schema["type"], "null"]}


def words(description: str, known: type[StrEnum]) -> Schema:
    """Return the schema of an enumerated word; the rules accept it in any case."""
    return {
        "anyOf": [
            {"type": "string", "enum": list(map(str, known))},
            {"type": "string", "maxLength": 40},
        ],
        "description": description,
    }


def identity(of: str) -> Schema:
    return {"type": "string", "maxLength": 64, "description": of}


CAMPAIGN: Final = optional(
    identity("Id of the campaign; left out, the one chosen by set_context.")
)
KEY: Final = optional(
    text(
        "Any text of yours, the same again when you repeat a call whose answer was"
        " lost: then nothing is created twice. Good for 24 hours.",
        checks.MOST_KEY,
    )
)
