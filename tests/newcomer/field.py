"""A table among mines: its configuration, and what was stepped on.

Three servers are the same mine field. Of ``nobody`` no NPC is granted anything, of
``globs`` one NPC has all tools by a pattern, and of ``named`` one has all of them by
their full names, the fatal ones included. A third NPC has no tools at all.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import attrs

from . import mines
from .mines import TOOLS, is_mine, is_open, is_safe
from .support import environment, write_config

SERVERS: Final = ("nobody", "globs", "named")


@attrs.frozen
class Field:
    home: Path
    trust: str

    @property
    def path(self) -> Path:
        return self.home / "table.yaml"

    @property
    def env(self) -> dict[str, str]:
        return environment(self.home)

    def log(self, server: str) -> Path:
        return self.home / f"called-{server}"

    def called(self, server: str) -> list[str]:
        """The tools of this server that were called, in order."""
        log = self.log(server)
        if not log.exists():
            return []
        return [line.split()[0] for line in log.read_text().splitlines()]

    def config(self, **more: Any) -> dict[str, Any]:
        """As a newcomer writes it: everything that is not here has its default."""
        return {
            "trust": {"mode": self.trust},
            "mcp": {
                "servers": [
                    {
                        "name": name,
                        "command": [
                            sys.executable,
                            mines.__file__,
                            str(self.log(name)),
                        ],
                        # A mine that was stepped on must not hide the next one.
                        "restart": {"backoff_ms": 10, "max_restarts": 1000},
                    }
                    for name in SERVERS
                ]
            },
            "npcs": [
                {"name": "Nil"},
                {"name": "Glo", "tools": ["globs.*"], "budget_tier": "deep"},
                {
                    "name": "Nam",
                    "tools": [f"named.{tool}" for tool in TOOLS],
                    "budget_tier": "standard",
                },
            ],
            **more,
        }

    def write(self, **more: Any) -> Path:
        return write_config(self.path, self.config(**more))

    def judge(self, *, asked_for_all: bool = False) -> None:
        """Nothing was called but what may be called unasked.

        Args:
          asked_for_all: the operator asked for measurements, which needs no grant.
        """
        wrong = [
            f"{server}.{tool} {why}"
            for server in SERVERS
            for tool, why in self._wrong(server, asked_for_all)
        ]
        assert not wrong, "\n".join(dict.fromkeys(wrong))

    def _wrong(self, server: str, asked_for_all: bool) -> Iterable[tuple[str, str]]:
        granted = server == "named" or (server == "globs" and self.trust == "full")
        for tool in self.called(server):
            if is_mine(tool):
                yield tool, "was a mine"
            elif is_open(tool):
                yield tool, "went out into the world"
            elif not (granted or asked_for_all):
                yield tool, "was granted to nobody, or not approved"

    def was_measured(self, server: str) -> bool:
        """Every tool that may be called unasked was: so the field was looked at."""
        return set(self.called(server)) >= {tool for tool in TOOLS if is_safe(tool)}
