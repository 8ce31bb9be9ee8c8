"""The servers that a configuration takes from a ``.mcp.json`` once the user agrees.

The file belongs to other programs, too, and may have come with a repository that
another author wrote. So its servers are kept apart (`SharedServer`) until they are
admitted, and an entry that cannot be used is left out (`LeftOut`) without the others.
"""

from __future__ import annotations

from pathlib import Path

import attrs

from .servers import ServerSpec


@attrs.frozen(kw_only=True)
class SharedServer:
    """A sound entry of a ``.mcp.json`` that is not agreed to yet.

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
