"""Files, processes and networks are used in named places, and nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from .importing import dotted, imports
from .repository import Finding, Module, Repository

# Folders, and files with the reason where it is not plain.
DOORS: Final = (
    "providers/",
    "storage/",
    "mcp/",
    "memory/",
    "discord/voice_channel.py",  # ends the library's wait for a socket
    "cluster/aio.py",  # TLS of its connection
    "nats/handshake.py",
    "nats/link.py",
    "builtin/",
    "certificates.py",
    "config/",
    "cli/",
    "devices/files.py",
    "control/",
    "testing/",
    "process.py",
    "worker.py",
    "actors/threads.py",  # what the kernel says of this process's own threads
    "campaign/tools/transfer.py",  # a tool that writes a folder, and reads one
    "observability/exposition.py",
    "observability/logs.py",
    "observability/recording/format.py",
    "observability/recording/lines.py",
    "observability/sending.py",
    "runtime/watching.py",  # whether a file of the configuration has changed
    "servers/atis/config_file.py",
    "servers/atis/feed.py",
    "servers/http/",
    "servers/pipes.py",
    "servers/tools_file.py",
    "service/connections.py",
    "service/gateway.py",
    "service/options.py",
    "service/pages.py",  # files of this package
    "simulation/pictures.py",
    "simulation/survey.py",  # asks real servers what they offer
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Methods that go outside if what they are called on is a path.
_OF_PATHS: Final = _words(
    """open read_text read_bytes write_text write_bytes mkdir rmdir unlink touch iterdir
    glob rglob exists is_file is_dir stat rename replace chmod symlink_to"""
)
_MODULES: Final = _words(
    """socket ssl subprocess shutil tempfile urllib.request http.client httpx2 h11
    trio_websocket mcp apsw sqlite3 fcntl termios pty"""
)
_FUNCTIONS: Final = _words(
    """open os.open os.listdir os.remove os.rename os.replace os.makedirs os.mkdir
    os.unlink os.kill os.stat os.scandir os.fork os.system os.popen os.execv
    trio.open_process trio.run_process trio.lowlevel.open_process trio.open_file
    trio.open_tcp_stream trio.open_tcp_listeners trio.serve_tcp trio.open_unix_socket
    trio.open_ssl_over_tcp_stream trio.Path"""
)


def world_is_used_where_it_may_be(repository: Repository) -> Iterator[Finding]:
    used: set[str] = set()
    for module in repository.modules.values():
        behind = {door for door in DOORS if module.place.startswith(door)}
        if behind and behind <= used:
            continue
        for line, what in _outside(repository, module):
            used |= behind
            if not behind:
                text = (
                    f"{what} is I/O in a place without any; call what does it from a"
                    " module in DOORS of tests/lint/outside.py"
                )
                yield module.wrong(line, text)
    for door in sorted({*DOORS} - used):
        text = f"there is no I/O in {door} any more; take it out of DOORS"
        yield Finding("tests/lint/outside.py", 1, text)


def _outside(repository: Repository, module: Module) -> Iterator[tuple[int, str]]:
    """Yield the lines that use files, processes or networks, and what they call."""
    for found in imports(repository, module):
        if found.module.split(".")[0] in _MODULES or found.module in _MODULES:
            yield found.line, f"import {found.module}"
    for node in module.nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=attr) as func):
                if dotted(func) in _FUNCTIONS or (
                    attr in _OF_PATHS and _is_path(value)
                ):
                    yield node.lineno, f"{ast.unparse(func)}()"
            case ast.Call(func=ast.Name(id=name)) if name in _FUNCTIONS:
                yield node.lineno, f"{name}()"


def _is_path(owner: ast.expr) -> bool:
    """Whether a method's owner is a path, as far as its name tells."""
    said = ast.unparse(owner)
    last = said.rpartition(".")[2]
    named = any(word in last for word in ("path", "folder", "file", "directory"))
    return said.startswith(("Path(", "trio.Path(")) or (named and last.islower())
