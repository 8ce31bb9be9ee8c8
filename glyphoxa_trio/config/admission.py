"""Which servers of a ``.mcp.json`` become servers of a configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import attrs

from .model import Config
from .shared import LeftOut, SharedServer

Approve = Callable[[SharedServer], bool]


def admitted(
    config: Config, approve: bool | Approve, *, remedy: str
) -> tuple[Config, tuple[str, ...]]:
    """The configuration with those of its shared servers that are approved.

    Args:
      remedy: what a person can do about the others, for the warnings.

    Returns the configuration, and a warning for each server that is left out.
    """
    shared = config.mcp.shared
    if not shared:
        return config, ()
    asked = {
        x.name: approve if isinstance(approve, bool) else approve(x) for x in shared
    }
    left = tuple(
        LeftOut(name=x.name, why=f"it is not agreed to yet: {remedy}")
        for x in shared
        if not asked[x.name]
    )
    sources: Mapping[str, Path] = {x.name: x.source for x in shared}
    mcp = attrs.evolve(
        config.mcp,
        servers=(*config.mcp.servers, *(x.spec for x in shared if asked[x.name])),
        from_mcp_json={
            **config.mcp.from_mcp_json,
            **{x.name: x.below for x in shared if asked[x.name]},
        },
        shared=(),
        left_out=(*config.mcp.left_out, *left),
    )
    warnings = tuple(
        f"{x.name!r} is left out: {x.why} @ {sources[str(x.name)].name}" for x in left
    )
    return attrs.evolve(config, mcp=mcp), warnings
