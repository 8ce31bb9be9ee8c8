"""The files that an NPC may not read or write in its folder, and the folder's limits.

Names are judged alone, without the disk: a file that some program reads as code or
settings would do what the NPC wrote as soon as that program runs. They are compared as
a file system might: without case, in one normal form, and without dots and spaces at
the end.

Bytes and files are counted on the disk, under a lock, before each write.
"""

from __future__ import annotations

import os
import stat
import threading
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

from glyphoxa_trio.tools.definition import ToolError

QUOTA: Final = 64 * 1024 * 1024  # bytes of all files together
MOST_FILES: Final = 1000  # files and folders

# Any name that begins with a dot is refused: .env, .git, .vscode, .mcp.json, .bashrc.
_NAMES: Final = frozenset(
    {
        *("node_modules", "__pycache__", "site-packages", "dist-packages"),
        *("makefile", "gnumakefile", "dockerfile", "containerfile", "vagrantfile"),
        *("jenkinsfile", "procfile", "rakefile", "gemfile", "justfile", "brewfile"),
        *("package.json", "package-lock.json", "tsconfig.json", "deno.json"),
        *("composer.json", "devcontainer.json", "claude_desktop_config.json"),
        *("mcp.json", "requirements.txt", "constraints.txt", "cmakelists.txt"),
        *("docker-compose.yml", "docker-compose.yaml", "compose.yml", "compose.yaml"),
        *("claude.md", "agents.md", "gemini.md"),  # read as instructions by assistants
        *("crontab", "authorized_keys", "known_hosts", "go.mod"),
    }
)
_SUFFIXES: Final = frozenset(
    {
        *("py", "pyc", "pyd", "pyi", "pyw", "pyx", "pth", "ipynb", "egg", "whl"),
        *("sh", "bash", "zsh", "fish", "ksh", "csh", "ps1", "psm1", "bat", "cmd"),
        *("js", "mjs", "cjs", "ts", "mts", "cts", "jsx", "tsx", "wasm", "node"),
        *("rb", "pl", "pm", "php", "lua", "tcl", "awk", "r", "jl", "groovy"),
        *("so", "dylib", "dll", "exe", "com", "msi", "scr", "jar", "class", "vbs"),
        *("c", "h", "cc", "cpp", "hpp", "rs", "go", "java", "kt", "swift", "mk"),
        *("toml", "cfg", "ini", "conf", "properties", "env", "plist", "reg", "lock"),
        *("desktop", "service", "timer", "socket", "lnk", "command", "app", "url"),
        *("gradle", "cmake", "bazel", "nix", "tf", "code-workspace", "vim", "el"),
    }
)


class ToolResourceExhausted(ToolError):
    """There is no room for the file."""

    code = "ResourceExhausted"


def protected(names: Sequence[str]) -> str | None:
    """Return why a path of these names may not be read or written; None if it may."""
    for name in names:
        if any(unicodedata.category(char) in ("Cc", "Cf") for char in name):
            return "a name in it has a character that cannot be seen"
        plain = unicodedata.normalize("NFKC", name).casefold().rstrip(". ")
        if not plain or plain.startswith("."):
            return "names that begin with a dot are for programs and their settings"
        suffix = plain.rpartition(".")[2] if "." in plain else ""
        if plain in _NAMES or suffix in _SUFFIXES or plain.startswith("dockerfile."):
            return "programs read a file of that name as code or settings"
    return None


@attrs.define(eq=False)
class Quota:
    """The limits of a folder.

    Args:
      most_bytes: of all its files together; most_files: of files and folders in it.
      keys: the settings that raise these two, named in a refusal.
    """

    root: Path
    most_bytes: int = QUOTA
    most_files: int = MOST_FILES
    keys: tuple[str, str] = ("files.quota_mb", "files.max_files")
    writing: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    def check(self, names: Sequence[str], size: int) -> None:
        """Check that a file can be written.

        Hold ``writing`` until the write is done; else two writes could use the same
        remaining space.

        Raises:
          ResourceExhausted: if a file of ``size`` bytes at ``names`` exceeds a limit.
        """
        used, count = self._used()
        old, missing = self._there(names)
        over = count + missing > self.most_files
        if over and (missing or size > old):  # otherwise not all files were counted
            raise ToolResourceExhausted(
                f"ResourceExhausted: the folder may hold {self.most_files} files and"
                f" folders ({self.keys[1]})"
            )
        if size > old and used - old + size > self.most_bytes:
            raise ToolResourceExhausted(
                f"ResourceExhausted: the folder may hold {self.most_bytes} bytes,"
                f" {used} are taken ({self.keys[0]})"
            )

    def _used(self) -> tuple[int, int]:
        """Count bytes and entries, no further than the limit of entries."""
        used = count = 0
        folders = [os.fspath(self.root)]
        while folders and count <= self.most_files:
            with suppress(OSError), os.scandir(folders.pop()) as entries:
                for entry in entries:
                    count += 1
                    if count > self.most_files:
                        break
                    with suppress(OSError):
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(entry.path)
                        else:
                            used += entry.stat(follow_symlinks=False).st_size
        return used, count

    def _there(self, names: Sequence[str]) -> tuple[int, int]:
        """Return the size of the existing file, and how many names are missing."""
        path = self.root
        for at, name in enumerate(names):
            path = path / name
            try:
                found = path.lstat()
            except OSError:
                return 0, len(names) - at
        return (found.st_size if stat.S_ISREG(found.st_mode) else 0), 0
