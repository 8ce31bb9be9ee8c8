"""A server of notes, for the tests: tools that change what can be read.

``python -m tests.servers.http.notes --transport http`` serves it as the command does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs

import trio

from glyphoxa_trio import tool
from glyphoxa_trio.actors import Topic
from glyphoxa_trio.servers.definition import (
    Changed,
    Content,
    Resource,
    ResourceError,
    ResourcePage,
    ResourceTemplate,
    ServerDefinition,
)
from glyphoxa_trio.servers.request import ASKED, ClientRequest
from glyphoxa_trio.tools.definition import Tool


@attrs.define(eq=False)
class Notes:
    """Notes by name, and who asked: `Resources`."""

    notes: dict[str, str] = attrs.field(factory=dict)
    changes: Topic[Changed] = attrs.field(factory=Topic)
    callers: list[str] = attrs.field(factory=list)
    gone: list[str] = attrs.field(factory=list)
    begun: int = 0
    finished: int = 0
    asked: trio.Event = attrs.field(factory=trio.Event)
    released: trio.Event = attrs.field(factory=trio.Event)

    @property
    def templates(self) -> Sequence[ResourceTemplate]:
        return [ResourceTemplate(uri="note://{name}", name="note", mime="text/plain")]

    async def page(self, after: str | None) -> ResourcePage:
        if after is not None:
            raise ResourceError("InvalidArgument", "no such place")
        names = sorted(self.notes)
        return ResourcePage(
            [Resource(uri=f"note://{name}", name=name) for name in names]
        )

    async def read(self, uri: str, session: str) -> Sequence[Content]:
        self.callers.append(session)
        self.asked.set()
        name = uri.removeprefix("note://")
        if name not in self.notes:
            raise ResourceError("NotFound", f"no note {name[:50]!r}")
        return [Content(uri=uri, data=self.notes[name], mime="text/plain")]

    def write(self, name: str, text: str) -> None:
        new = name not in self.notes
        self.notes[name] = text
        self.changes.publish(Changed(f"note://{name}"))
        if new:
            self.changes.publish(Changed(None))

    def offer(self) -> ServerDefinition:
        return ServerDefinition(
            name="notes",
            title="Notes",
            instructions="Write it down.",
            tools=tuple(self._tools()),
            resources=self,
            methods={"completion/complete": self._complete},
            capabilities={"completions": {}},
            ended=self.gone.append,
        )

    async def _complete(self, request: ClientRequest) -> Mapping[str, Any]:
        await request.channel.notify(
            "notifications/message", {"level": "info", "data": "looking"}
        )
        return {"completion": {"values": sorted(self.notes)[:100]}}

    def _tools(self) -> Sequence[Tool]:
        @tool(group="notes", max_duration_ms=500, read_only=False)
        async def write_note(name: str, text: str) -> str:
            """Write a note down."""
            self.write(name, text)
            return "written"

        @tool(group="notes", estimated_duration_ms=5, max_duration_ms=500)
        async def echo(word: str) -> dict[str, str]:
            """Say it again."""
            return {"said": word}

        @tool(group="notes", max_duration_ms=60_000)
        async def wait(file: str = "") -> str:
            """Wait until the test lets go, or until a file is there."""
            self.begun += 1
            if file:
                await trio.Path(f"{file}.begun").touch()
                while not await trio.Path(file).exists():  # noqa: ASYNC110
                    await trio.sleep(0.01)
            else:
                await self.released.wait()
            self.finished += 1
            return "let go"

        @tool(group="notes", max_duration_ms=60_000)
        async def sleep(seconds: float) -> str:
            """Take some time."""
            await trio.sleep(seconds)
            return "slept"

        @tool(group="notes", max_duration_ms=60_000)
        async def confer(question: str) -> dict[str, Any]:
            """Ask whoever calls."""
            asked = ASKED.get()
            await asked.progress(1, 2, "asking")
            said = await asked.channel.request(
                "elicitation/create",
                {
                    "mode": "form",
                    "message": question,
                    "requestedSchema": {"type": "object", "properties": {}},
                },
            )
            return dict(said)

        return [write_note, echo, wait, sleep, confer]


class _Served:
    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--slow-start", type=float, default=0.0)

    @asynccontextmanager
    async def open_offer(
        self, options: argparse.Namespace
    ) -> AsyncGenerator[ServerDefinition]:
        await trio.sleep(options.slow_start)
        yield Notes().offer()


if __name__ == "__main__":
    from glyphoxa_trio.servers.program.command import run

    sys.exit(run(_Served(), sys.argv[1:], prog="notes", what="notes, for a test"))
