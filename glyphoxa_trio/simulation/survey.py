"""The survey of a configuration's servers, made before it is rehearsed.

Each is started once, for real, and asked for its tools; one that cannot be reached
is known from an earlier run, or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

import trio

from glyphoxa_trio.config import Config, ServerSpec
from glyphoxa_trio.config.secrecy import mask_of
from glyphoxa_trio.config.state import state_folder
from glyphoxa_trio.errors import GlyphoxaError
from glyphoxa_trio.mcp.opening import open_session
from glyphoxa_trio.mcp.process import LastLines
from glyphoxa_trio.mcp.tool_cache import ToolCache
from glyphoxa_trio.mcp.transport import ConnectionFailed
from glyphoxa_trio.runtime.assembly import measurements_of
from glyphoxa_trio.runtime.plans import servers_of

from .latency import Latency


@attrs.frozen(kw_only=True)
class Survey:
    """The tools that each server lists, as plain MCP objects, and the absent servers.

    ``absent`` says why, by name; those that were known all the same are in
    ``offers``, too.
    """

    offers: Mapping[str, tuple[Mapping[str, Any], ...]]
    absent: Mapping[str, str] = attrs.field(factory=dict)


async def survey(config: Config, *, online: bool = True) -> Survey:
    """Ask every server for its tools, all at once; in real time.

    Takes as long as the slowest start (`ServerSpec.start_timeout`), and up to two
    seconds for the servers to end; cancelled, they end as well.

    Args:
      online: False starts nothing: only what earlier runs know counts.
    """
    offers: dict[str, tuple[Mapping[str, Any], ...]] = {}
    absent: dict[str, str] = {}
    folder = state_folder(config) if config.mcp.remember else None
    known = None if folder is None else ToolCache(folder / "catalogues")

    async def one(spec: ServerSpec) -> None:
        why = "it was not asked"
        try:
            if online:
                offers[spec.name] = await _ask(spec)
                return
        except GlyphoxaError as error:
            why = str(error)
        absent[spec.name] = why
        if known is not None:
            remembered = await trio.to_thread.run_sync(
                known.load, spec, abandon_on_cancel=True
            )
            if remembered is not None:
                offers[spec.name] = remembered.tools

    async with trio.open_nursery() as nursery:
        for spec in servers_of(config):
            nursery.start_soon(one, spec)
    return Survey(offers=offers, absent=absent)


async def _ask(spec: ServerSpec) -> tuple[Mapping[str, Any], ...]:
    stderr = LastLines(mask_of(spec))
    async with open_session(spec, on_tools_changed=_ignore, stderr=stderr) as session:
        with trio.move_on_after(spec.start_timeout):
            return (await session.list_tools()).tools
    raise ConnectionFailed("it did not list its tools in time")


def measured(config: Config) -> dict[tuple[str, str], Latency]:
    """Return the measurements of this installation, by environment and tool; blocks.

    Raises:
      StorageError: if there is a file of measurements that cannot be read.
    """
    path = measurements_of(config)
    if path is None or not path.exists():
        return {}
    from glyphoxa_trio.storage.measurements import read_latencies

    known = {
        where: Latency.measured(found.ended, found.cut)
        for where, found in read_latencies(path).items()
    }
    return {where: latency for where, latency in known.items() if latency is not None}


def _ignore() -> None:
    """Ignore that a server changed its tools: it is asked only once."""
