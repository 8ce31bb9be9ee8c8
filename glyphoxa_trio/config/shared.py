"""The servers that a configuration takes from a ``.mcp.json`` once somebody agrees.

The file belongs to other programs, too, and may have come with a repository that
somebody else wrote. So its servers are kept apart (`SharedServer`) until they are
admitted, and an entry that cannot be used is left out (`LeftOut`) without the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from .servers import ServerSpec

if TYPE_CHECKING:
    from .model import Config


@attrs.frozen(kw_only=True)
class SharedServer:
    """A sound entry of a ``.mcp.json`` that nobody has agreed to yet.

    Args:
      source: the file.
      digest: changes when the entry does.
      target: what it starts or reaches, for people: no secrets in it.
      below: the key of the file that it stands below.
    """

    spec: ServerSpec
    source: Path
    digest: str
    target: str
    below: str = "mcpServers"

    @property
    def name(self) -> str:
        return self.spec.name


@attrs.frozen(kw_only=True)
class LeftOut:
    """A server that some file has and that is not started, and why.

    Args:
      name: None stands for all servers of a file that cannot be read.
      switched_off: it is left out on purpose: a grant that names it is no error.
    """

    name: str | None
    why: str
    switched_off: bool = False


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
        LeftOut(name=x.name, why=f"nobody has agreed to start it: {remedy}")
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
