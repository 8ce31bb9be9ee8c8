"""The section ``mcp`` of a configuration: servers, and how their tools are named."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs

from glyphoxa_trio.tools.naming import NamingStyle
from glyphoxa_trio.tools.search import DEFER_THRESHOLD

from .fields import LIVE, NEXT_START, not_negative
from .servers import McpDefaults, ServerSpec
from .shared import LeftOut, SharedServer


@attrs.frozen(kw_only=True)
class McpConfig:
    """The servers that bring other people's tools.

    Args:
      defer_threshold: with more external tools than this, a model is shown a
        summary and ``tool_search`` in place of all of them.
      remember: keep each server's last list of tools, and which were approved,
        for the next run, in ``state_dir``; None is the user's own state folder.
      servers: the servers that are started.
      from_mcp_json: which of them a ``.mcp.json`` has, each with the key that it
        stands below there.
      shared: servers of a ``.mcp.json`` that are not agreed to yet (`admitted`).
      left_out: servers that some file has and that are not started.
    """

    enabled: bool = attrs.field(default=True, metadata=LIVE)
    naming: NamingStyle = attrs.field(default=NamingStyle.DOUBLE, metadata=NEXT_START)
    defer_threshold: int = attrs.field(
        default=DEFER_THRESHOLD, validator=not_negative, metadata=LIVE
    )
    remember: bool = attrs.field(default=True, metadata=NEXT_START)
    state_dir: Path | None = attrs.field(default=None, metadata=NEXT_START)
    defaults: McpDefaults = attrs.field(default=McpDefaults(), metadata=LIVE)
    servers: tuple[ServerSpec, ...] = attrs.field(default=(), metadata=LIVE)
    from_mcp_json: Mapping[str, str] = attrs.field(factory=dict, metadata=LIVE)
    shared: tuple[SharedServer, ...] = attrs.field(default=(), metadata=LIVE)
    left_out: tuple[LeftOut, ...] = attrs.field(default=(), metadata=LIVE)
