"""The MCP servers for operators: how they are, and edits of the ``.mcp.json``.

Edits are those of `glyphoxa mcp add`: a reload of the runtime makes them count.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import attrs
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

import trio

from glyphoxa_trio.config.server_entries import (
    ChangedMeanwhile,
    ListedServer,
    ServerFile,
    new_entry,
    plain_secrets,
)
from glyphoxa_trio.control.status import status_of
from glyphoxa_trio.runtime import Runtime

from . import protocol as p
from .endpoints import ServiceEndpoint, ServiceRequest, json_response
from .refusal import Refused
from .rights import Right

Words = Annotated[list[p.Text], Field(max_length=200)]
Pairs = Annotated[dict[p.Name, p.Text | None], Field(max_length=100)]


class ServerBody(BaseModel):
    """A server for the ``.mcp.json``: a command with its words, or a URL.

    ``revision``: that of the list which the editor has read. In a change, what is left
    out stays as it is, and null takes a variable or a header out.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    revision: p.Text
    command: Words | None = None
    url: p.Text | None = None
    env: Pairs = Field(default_factory=dict)
    headers: Pairs = Field(default_factory=dict)


class NewServerBody(ServerBody):
    """A server with its name."""

    name: p.Name


class RevisionQuery(BaseModel):
    """The revision of the list that the editor has read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    revision: p.Text


@attrs.frozen(eq=False)
class ServerEditing:
    """The answers about servers.

    Args:
      file: what is edited; None if the runtime was not opened with a file.
    """

    _runtime: Runtime
    _file: ServerFile | None

    def endpoints(self) -> list[ServiceEndpoint]:
        """Return the endpoints."""
        return [
            ServiceEndpoint(
                method="GET",
                path="/api/servers",
                right=Right.READ,
                summary="The configured servers, their state, and the revision.",
                handler=self._servers,
            ),
            ServiceEndpoint(
                method="POST",
                path="/api/servers",
                right=Right.OPERATE,
                summary="Add a server to the .mcp.json; a reload starts it.",
                handler=self._add,
                body=NewServerBody,
            ),
            ServiceEndpoint(
                method="PATCH",
                path="/api/servers/{server}",
                right=Right.OPERATE,
                summary="Change a server of the .mcp.json.",
                handler=self._change,
                body=ServerBody,
            ),
            ServiceEndpoint(
                method="DELETE",
                path="/api/servers/{server}",
                right=Right.OPERATE,
                summary="Take a server out of the .mcp.json.",
                handler=self._remove,
                query=RevisionQuery,
            ),
        ]

    async def _servers(self, asked: ServiceRequest) -> Response:
        states = {row["name"]: row for row in status_of(self._runtime)["servers"]}
        listed: list[ListedServer] = []
        revision = ""
        if (file := self._file) is not None:
            # First, so that a list which is newer than its revision is not edited.
            revision = await trio.to_thread.run_sync(file.revision)
            listed = await trio.to_thread.run_sync(file.servers)
        names = dict.fromkeys([*(x.name for x in listed), *states])
        found = {x.name: x for x in listed}
        return json_response(
            {
                "servers": [
                    {
                        **_server_row(name, found.get(name), states.get(name), file),
                        "stderr": self._runtime.server_lines(name),
                    }
                    for name in names
                ],
                "revision": revision,
                "editable": file is not None,
            }
        )

    async def _add(self, asked: ServiceRequest) -> Response:
        body: NewServerBody = await asked.body(NewServerBody)
        entry = new_entry(
            body.name,
            command=body.command or (),
            url=body.url,
            env=_without_none(body.env),
            headers=_without_none(body.headers),
        )
        file = self._editable()
        edit = partial(file.add, body.name, entry, revision=body.revision)
        await self._edit(edit)
        return json_response(
            {"server": body.name, "plain_secrets": plain_secrets(entry)}
        )

    async def _change(self, asked: ServiceRequest) -> Response:
        body: ServerBody = await asked.body(ServerBody)
        changes: dict[str, Any] = {"env": body.env, "headers": body.headers}
        if body.command:
            changes |= {"command": body.command[0], "args": list(body.command[1:])}
            changes |= {"url": None, "type": None, "headers": body.headers or None}
        if body.url is not None:
            changes |= {"type": "http", "url": body.url, "env": body.env or None}
            changes |= {"command": None, "args": None}
        name, file = asked.path["server"], self._editable()
        await self._edit(partial(file.change, name, changes, revision=body.revision))
        return json_response({"server": name})

    async def _remove(self, asked: ServiceRequest) -> Response:
        wanted: RevisionQuery = asked.asked(RevisionQuery)
        name, file = asked.path["server"], self._editable()
        await self._edit(partial(file.remove, name, revision=wanted.revision))
        return json_response({"server": name})

    def _editable(self) -> ServerFile:
        if self._file is None:
            raise Refused("refused", "this service has no file to edit servers in")
        return self._file

    async def _edit(self, edit: Callable[[], None]) -> None:
        try:
            await trio.to_thread.run_sync(edit)
        except ChangedMeanwhile as error:
            raise Refused("changed", str(error)) from None
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise Refused("refused", f"the agreement to start it: {why}") from None


def _without_none(pairs: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in pairs.items() if value is not None}


def _server_row(
    name: str,
    listed: ListedServer | None,
    state: dict[str, Any] | None,
    file: ServerFile | None,
) -> dict[str, Any]:
    """Return a server as its file has it and as it runs."""
    row: dict[str, Any] = {"name": name}
    if state is not None:
        row |= state
    if listed is not None:
        row["target"] = listed.target
        row["source"] = listed.source.name
        row["editable"] = file is not None and listed.source == file.path
        if state is None:
            row |= {"transport": listed.transport, "state": listed.state, "tools": []}
    return row
