"""The conversation in docs/gateway.md is what a client and the service say, and the
schema beside it is that of their messages."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from glyphoxa_trio.npc import TurnEvent
from glyphoxa_trio.npc.event_json import plain_event
from glyphoxa_trio.providers.llm import LLMRequest
from glyphoxa_trio.service.schema import protocol_schema

from ..cli.test_render import EVENTS
from ..npc.support import HANG
from .support import RawClient, raw_client, serving

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = protocol_schema()
IN_SCHEMA = jsonschema.Draft202012Validator(SCHEMA)


def recorded() -> list[tuple[str, dict[str, Any]]]:
    """The lines of the page: who says it, and what."""
    text = (DOCS / "gateway.md").read_text()
    (block,) = re.findall(r"```jsonl\n(.*?)```", text, re.DOTALL)
    return [(line[0], json.loads(line[2:])) for line in block.splitlines()]


def answer(request: LLMRequest) -> list[Any]:
    last = request.messages[-1].content
    if last.startswith("Tell"):
        return ["Long ago, ", "there was a dragon.\n", HANG]
    return ["Ale, ", "stranger? ", "Two coins."]


def timeless(value: Any) -> Any:
    """A message without what differs between two runs."""
    if isinstance(value, dict):
        return {
            name: 0 if name.endswith("_ms") or name == "version" else timeless(item)
            for name, item in value.items()
        }
    return [timeless(x) for x in value] if isinstance(value, list) else value


async def replayed(client: RawClient, say: dict[str, Any], until: Any) -> list[Any]:
    """Send a line, and read the answers up to the last one of them."""
    await client.send(**say)
    told: list[Any] = []
    events: list[Any] = []
    while until not in (told[-1:] or [None]) and until not in events:
        message = await client.receive()
        assert isinstance(message, dict)
        IN_SCHEMA.validate(message)
        if message["type"] == "events":
            events += timeless(message["events"])
        else:
            told.append(timeless(message))
    return [*told, *events]


def flat(messages: list[dict[str, Any]]) -> list[Any]:
    """What several messages say: first those that are no events, then the events."""
    told = [timeless(x) for x in messages if x["type"] != "events"]
    both = [x["events"] for x in messages if x["type"] == "events"]
    return [*told, *(timeless(event) for events in both for event in events)]


async def test_the_conversation_of_the_page_is_replayed() -> None:
    lines = recorded()
    async with serving(answer) as served, raw_client(served, hello=False) as client:
        place = 0
        while place < len(lines):
            who, say = lines[place]
            assert who == ">"
            IN_SCHEMA.validate(say)
            end = place + 1
            while end < len(lines) and lines[end][0] == "<":
                end += 1
            expected = flat([message for _, message in lines[place + 1 : end]])
            if not expected:
                await client.send(**say)
            else:
                assert await replayed(client, say, expected[-1]) == expected
            place = end


def test_the_schema_of_the_docs_is_that_of_the_messages() -> None:
    kept = json.loads((DOCS / "gateway.schema.json").read_text())
    assert kept == SCHEMA, "write there what GET /api/gateway.schema.json answers"
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_every_event_is_in_the_schema(event: TurnEvent) -> None:
    told = plain_event(event)
    if "pcm" in told:
        told["bytes"] = len(told.pop("pcm"))
    sent = {"id": "a", "n": 1, **told}
    message = {"type": "events", "events": [sent]}
    IN_SCHEMA.validate(message)
    del sent["npc"]
    with pytest.raises(jsonschema.ValidationError):
        IN_SCHEMA.validate(message)


def test_every_message_and_code_is_on_the_page() -> None:
    text = (DOCS / "gateway.md").read_text()
    kinds = {
        x["properties"]["type"]["const"]
        for x in SCHEMA["$defs"].values()
        if "const" in x.get("properties", {}).get("type", {})
    }
    missing = {kind for kind in kinds if f"`{kind}`" not in text}
    assert not missing
