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

from .status import ServerWarning
from .tool_cache import file_of, write_json


@attrs.define(eq=False)
class ToolApprovals:
    """The host's `ApprovalStore` in a folder. Loading and saving block on the disk.

    A file that cannot be understood is set aside, and told of: what was approved
    of that server is taken as it is seen next.

    Args:
      servers: the servers of this moment; what is approved of others stays.
    """

    folder: Path
    servers: Callable[[], Iterable[ServerSpec]]
    _odd: list[tuple[str, str]] = attrs.field(factory=list, init=False)

    def load(self) -> dict[str, str]:
        """Fingerprints by key, of all servers. Raises as `load_of`."""
        return self.load_of(self.servers())

    def follow(self, servers: Callable[[], Iterable[ServerSpec]]) -> None:
        """These are the servers of each moment from now on."""
        self.servers = servers

    def load_of(self, servers: Iterable[ServerSpec]) -> dict[str, str]:
        """Fingerprints by key, of these servers.

        Raises:
          OSError: if a file is there and cannot be read.
        """
        found: dict[str, str] = {}
        for spec in servers:
            path = file_of(self.folder, spec)
            try:
                tools = json.loads(path.read_bytes())
                if not isinstance(tools, dict):
                    raise ValueError("it is no object")
            except FileNotFoundError:
                continue
            except (ValueError, RecursionError) as error:
                aside = path.with_suffix(".broken")
                path.replace(aside)
                text = f"what was approved is lost: {error}; see {aside}"
                self._odd.append((spec.name, text))
                continue
            found |= {f"{spec.name}.{tool}": str(tools[tool]) for tool in tools}
        return found

    def tell(self, warn: Callable[[ServerWarning], None]) -> None:
        """What was odd since this was asked last."""
        while self._odd:
            server, text = self._odd.pop(0)
            warn(ServerWarning(server=server, text=text))

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
