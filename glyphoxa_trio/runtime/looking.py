"""The report on a tool that an operator reads before approving it. Pure, in plain
words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from glyphoxa_trio.config import discreet
from glyphoxa_trio.config.servers import ServerSpec, without_secrets
from glyphoxa_trio.tools.characters import visible

from .runtime import Runtime


def looked_at(runtime: Runtime, tool: str) -> dict[str, Any]:
    """Return a tool as it is now, and its changes since it was approved, as plain data.

    ``fingerprint`` is the value that `Approvals.approve` takes as ``seen``;
    ``difference`` are lines that begin with ``-`` and ``+``; ``server`` is the command
    that it starts or the address that it reaches, with its secrets hidden.

    Raises:
      UnknownTool: if there is no such tool.
    """
    host = runtime.host
    listing = host.snapshot.find(tool)
    definition = listing.definition
    servers = {spec.name: spec for spec in runtime.config.mcp.servers}
    server = servers.get(definition.group)
    return {
        "tool": listing.key,
        "description": definition.description,
        "parameters": definition.parameters,
        "stated": host.approvals.stated(listing.key),
        "difference": host.approvals.difference(listing.key),
        "server": "" if server is None else _behind(server),
        "held": listing.key in host.approvals.held,
        "waits": listing.key in {one.key for one in runtime.unapproved()},
        "fingerprint": host.approvals.fingerprint(listing.key),
    }


def _behind(server: ServerSpec) -> str:
    if server.url is not None:
        return without_secrets(server.url)
    return discreet.command(server.command)


def looked_lines(found: Mapping[str, Any]) -> list[str]:
    """Return the report of `looked_at` as lines in which no character is hidden."""
    description = str(found["description"] or "(no description)").split("\n")
    schema = json.dumps(found["parameters"], ensure_ascii=False, indent=2)
    lines = [
        f"{found['tool']}:",
        *(f"  {line}" for line in description),
        *(f"  {line}" for line in schema.split("\n")),
    ]
    lines += [f"  {line}" for line in found.get("stated", ())]
    if found.get("server"):
        lines.append(f"  its server {found['tool'].partition('.')[0]} is:")
        lines += [f"    {line}" for line in str(found["server"]).split("\n")]
    if found.get("difference"):
        lines.append("what has changed since it was approved:")
        lines += [f"  {line}" for line in found["difference"]]
    return [visible(line) for line in lines]
