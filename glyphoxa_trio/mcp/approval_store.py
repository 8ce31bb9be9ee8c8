"""The store of tool approvals: which version of each tool the operator approved.

Each server has one small file, beside its cached tool list. The file name contains the
server's identity, because the server ``files`` of one project is not the server
``files`` of another.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import attrs

from glyphoxa_trio.config import ServerSpec

from .status import ServerWarning
from .tool_cache import file_of, write_json


@attrs.define(eq=False)
class ToolApprovals:
    """The host's `ApprovalStore`, in a folder. Loading and saving block on the disk.

    A file that cannot be read as JSON is renamed to ``.broken`` and reported by `tell`.
    The approvals in it are lost: the server's tools are trusted as they are seen next.

    Args:
      folder: where the files are.
      servers: returns the servers of the moment; approvals of other servers are kept.
    """

    folder: Path
    servers: Callable[[], Iterable[ServerSpec]]
    _odd: list[tuple[str, str]] = attrs.field(factory=list, init=False)

    def load(self) -> dict[str, str]:
        """Return fingerprints by key, of all servers. Raises as `load_of`."""
        return self.load_of(self.servers())

    def follow(self, servers: Callable[[], Iterable[ServerSpec]]) -> None:
        """Use ``servers`` from now on to find the servers of the moment."""
        self.servers = servers

    def load_of(self, servers: Iterable[ServerSpec]) -> dict[str, str]:
        """Return fingerprints by key (``server.tool``), of these servers.

        Raises:
          OSError: if a file exists and cannot be read.
        """
        found: dict[str, str] = {}
        for spec in servers:
            path = file_of(self.folder, spec)
            try:
                tools = json.loads(path.read_bytes())
                if not isinstance(tools, dict):
                    raise ValueError("it is not a JSON object")
            except FileNotFoundError:
                continue
            except (ValueError, RecursionError) as error:
                aside = path.with_suffix(".broken")
                path.replace(aside)
                text = f"the approvals of its tools are lost: {error}; see {aside}"
                self._odd.append((spec.name, text))
                continue
            found |= {f"{spec.name}.{tool}": str(tools[tool]) for tool in tools}
        return found

    def tell(self, warn: Callable[[ServerWarning], None]) -> None:
        """Report the files that could not be read since the last call."""
        while self._odd:
            server, text = self._odd.pop(0)
            warn(ServerWarning(server=server, text=text))

    def save(self, approved: Mapping[str, str], /) -> None:
        """Save the approvals: each server's file is written whole or not at all.

        Raises:
          OSError: if a file cannot be written.
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
