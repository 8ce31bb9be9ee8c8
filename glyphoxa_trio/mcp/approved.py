"""Which tools of a server were approved as what, from run to run.

One small file a server, beside its last list: the ``files`` of one project are
not the ``files`` of another.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import attrs

from glyphoxa_trio.config import ServerSpec

from .known import file_of, write_json


@attrs.define(eq=False)
class Approved:
    """The host's `ApprovalStore` in a folder. Both methods block on the disk.

    Args:
      servers: the servers of this moment; what is approved of others stays.
    """

    folder: Path
    servers: Callable[[], Iterable[ServerSpec]]

    def load(self) -> dict[str, str]:
        """Fingerprints by key, of all servers. Raises as `load_of`."""
        return self.load_of(self.servers())

    def load_of(self, servers: Iterable[ServerSpec]) -> dict[str, str]:
        """Fingerprints by key, of these servers.

        Raises:
          OSError, ValueError: if a file is there and cannot be understood.
        """
        found: dict[str, str] = {}
        for spec in servers:
            try:
                text = file_of(self.folder, spec).read_text(encoding="utf-8")
            except FileNotFoundError:
                continue
            tools = json.loads(text)
            if not isinstance(tools, dict):
                raise ValueError(f"the approvals of {spec.name} are no object")
            found |= {f"{spec.name}.{tool}": str(tools[tool]) for tool in tools}
        return found

    def save(self, approved: Mapping[str, str], /) -> None:
        """Keep them, each server's whole or not at all.

        Raises:
          OSError: if that fails.
        """
        for spec in self.servers():
            tools = {
                tool: fingerprint
                for key, fingerprint in approved.items()
                for server, _, tool in (key.partition("."),)
                if server == spec.name
            }
            if tools:
                write_json(file_of(self.folder, spec), tools)
