"""Eleven servers that other people wrote, at pinned versions, and what a newcomer has
lying beside them.

What they are told is what their own pages tell a user to write: no hint, no latency,
no probe of ours. Each is asked through ``tee``, so that everything that it was ever
asked can be read afterwards.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from ..peers.support import EARLIER, MODULES, NODE, entry
from .support import environment

Call = tuple[str, Mapping[str, Any]]
"""A tool's key, ``server.tool``, and its arguments."""

_LONG_AGO: Final = 1_600_000_000


@attrs.frozen
class Stranger:
    """A server: its command, where ``{mine}`` is the newcomer's folder, its tools, and
    which of them say that they only read and are of a closed world."""

    command: tuple[str, ...]
    tools: tuple[str, ...]
    reads: tuple[str, ...] = ()
    env: Mapping[str, str] = attrs.field(factory=dict)


def _node(
    package: str, *words: str, tools: str, reads: str = "", **env: str
) -> Stranger:
    command = (str(NODE), entry(package), *words)
    return Stranger(command, tuple(tools.split()), tuple(reads.split()), env)


def _python(
    folder: Path, program: str, *words: str, tools: str, reads: str = ""
) -> Any:
    command = (str(folder / program), *words)
    return Stranger(command, tuple(tools.split()), tuple(reads.split()))


_OURS: Final = Path(sys.executable).parent
_EARLIER: Final = EARLIER.parent
_VAULT: Final = MODULES / "mcp-obsidian" / "dist" / "index.js"

STRANGERS: Final[Mapping[str, Stranger]] = {
    "files": _node(
        "server-filesystem",
        "{mine}/notes",
        tools="read_file read_text_file read_media_file read_multiple_files write_file"
        " edit_file create_directory list_directory list_directory_with_sizes"
        " directory_tree move_file search_files get_file_info list_allowed_directories",
        reads="read_file read_text_file read_media_file read_multiple_files"
        " list_directory list_directory_with_sizes directory_tree search_files"
        " get_file_info list_allowed_directories",
    ),
    "memory": _node(
        "server-memory",
        tools="create_entities create_relations add_observations delete_entities"
        " delete_observations delete_relations read_graph search_nodes open_nodes",
        reads="read_graph search_nodes open_nodes",
        MEMORY_FILE_PATH="{mine}/memory.jsonl",
    ),
    "everything": _node(
        "server-everything",
        tools="echo get-annotated-message get-env get-resource-links"
        " get-resource-reference get-structured-content get-sum get-tiny-image"
        " gzip-file-as-resource toggle-simulated-logging toggle-subscriber-updates"
        " trigger-long-running-operation",
        reads="echo get-annotated-message get-env get-resource-links"
        " get-resource-reference get-structured-content get-sum get-tiny-image"
        " trigger-long-running-operation",
    ),
    "thinking": _node(
        "server-sequential-thinking",
        tools="sequentialthinking",
        reads="sequentialthinking",
    ),
    "vault": Stranger(
        (str(NODE), str(_VAULT), "{mine}/vault"), ("read_notes", "search_notes")
    ),
    "git": _python(
        _OURS,
        "mcp-server-git",
        "--repository",
        "{mine}/repo",
        tools="git_status git_diff_unstaged git_diff_staged git_diff git_commit git_add"
        " git_reset git_log git_create_branch git_checkout git_show git_branch",
        reads="git_status git_diff_unstaged git_diff_staged git_diff git_log git_show"
        " git_branch",
    ),
    "time": _python(
        _OURS,
        "mcp-server-time",
        "--local-timezone",
        "Europe/Berlin",
        tools="get_current_time convert_time",
        reads="get_current_time convert_time",
    ),
    "fetch": _python(
        _EARLIER, "mcp-server-fetch", "--allow-private-ips", tools="fetch"
    ),
    "sqlite": _python(
        _EARLIER,
        "mcp-server-sqlite",
        "--db-path",
        "{mine}/ledger.db",
        tools="read_query write_query create_table list_tables describe_table"
        " append_insight",
    ),
    "calculator": _python(_EARLIER, "mcp-server-calculator", tools="calculate"),
    "bones": _python(_EARLIER, "mcp-dice", tools="roll_dice"),
}

ALL: Final = tuple(
    f"{name}.{tool}" for name, stranger in STRANGERS.items() for tool in stranger.tools
)
"""Every tool by its key, as the operator writes it into an NPC's ``tools``."""

READING: Final = frozenset(
    f"{name}.{tool}" for name, stranger in STRANGERS.items() for tool in stranger.reads
)
"""What may be called unasked, where it is granted and approved."""


def exposed(key: str) -> str:
    """The name by which a model knows a tool."""
    return "mcp__" + key.replace(".", "__", 1)


@attrs.frozen
class Home:
    """A newcomer's own things, and beside them what belongs to nobody."""

    base: Path

    @property
    def mine(self) -> Path:
        return self.base / "mine"

    @property
    def table(self) -> Path:
        return self.mine / "table.yaml"

    @property
    def env(self) -> dict[str, str]:
        return environment(self.base / "home")

    def command(self, name: str) -> list[str]:
        """How the server is started, with a ``tee`` before it."""
        words = [word.format(mine=self.mine) for word in STRANGERS[name].command]
        return ["sh", "-c", 'tee -a "$0" | exec "$@"', str(self._asked(name)), *words]

    def server(self, name: str) -> dict[str, Any]:
        """The entry of a configuration."""
        env = STRANGERS[name].env.items()
        spec = {"name": name, "command": self.command(name)}
        return spec | {"env": {k: v.format(mine=self.mine) for k, v in env}}

    def calls(self) -> Counter[str]:
        """Every call that any server was ever sent: tool and arguments."""
        found: Counter[str] = Counter()
        for name in STRANGERS:
            if not self._asked(name).exists():
                continue
            for line in self._asked(name).read_text().splitlines():
                message = json.loads(line)
                if message.get("method") == "tools/call":
                    params = message["params"]
                    call = (f"{name}.{params['name']}", params.get("arguments") or {})
                    found[said(call)] += 1
        return found

    def _asked(self, name: str) -> Path:
        return self.base / f"asked-{name}"


def said(call: Call) -> str:
    """A call as a text that can be compared, and read."""
    tool, arguments = call
    return f"{tool} {json.dumps(arguments, sort_keys=True)}"


def furnish(home: Home) -> None:
    """Things that a careless probe would change: each has a file named ``a``, too."""
    mine = home.mine
    for folder in ("notes/deep", "vault", "repo"):
        (mine / folder).mkdir(parents=True)
    for file in ("a", "notes/a", "notes/rumours.md", "vault/a.md", "notes/deep/cellar"):
        (mine / file).write_text(f"precious: {file}\n")
    known = {"type": "entity", "name": "a", "entityType": "a", "observations": ["a"]}
    (mine / "memory.jsonl").write_text(json.dumps(known))
    with sqlite3.connect(mine / "ledger.db") as ledger:
        ledger.execute("create table tabs (patron text, copper integer)")
        ledger.execute("insert into tabs values ('a', 3)")
    ledger.close()
    _repository(mine / "repo")


def _repository(folder: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)

    git("init", "--initial-branch", "main")
    git("config", "user.name", "A Newcomer")
    git("config", "user.email", "newcomer@tavern.example")
    for name in ("a", "staged", "new"):
        (folder / name).write_text(f"{name}\n")
        # So old that nobody has to look into it to see that it has not changed:
        # `git status` writes down what it found out.
        os.utime(folder / name, (_LONG_AGO, _LONG_AGO))
    git("add", "a")
    git("commit", "-m", "The beginning")
    git("add", "staged")  # which a reset would take back
    git("status")
