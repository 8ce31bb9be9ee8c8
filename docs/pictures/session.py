"""The picture of a session: `glyphoxa demo` on a terminal, with its two MCP servers.

    python docs/pictures/session.py [FILE]

The command runs on a pseudo-terminal, in a home of its own, and lines are typed as a
player would. An emulator keeps the screen, and rich draws it.
"""

from __future__ import annotations

import itertools
import os
import re
import select
import subprocess
import sys
import tempfile
import termios
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import attrs
import pyte
from rich.console import Console
from rich.style import Style
from rich.text import Text

FILE: Final = Path(__file__).with_suffix(".svg")
COMMAND: Final = Path(sys.executable).with_name("glyphoxa")
TYPED: Final = (
    "roll 2d6+3 for me",
    "open a tab for Aria",
    "@Greymantle ask the oracle: is the well cursed?",
)
COLUMNS, LINES = 100, 60
PATIENCE: Final = 60.0  # seconds; only what hangs takes as long
# Becomes the owner of the terminal, then the command.
_LOGIN: Final = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
_SGR: Final = re.compile(r"\x1b\[([0-9;]*)m")
_FONT_FACE: Final = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
# Only these are needed; the rest might choose a model, or a home.
_KEPT: Final = ("PATH", "LANG", "LC_ALL", "VIRTUAL_ENV")


class Screen(pyte.Screen):
    """A screen that answers what the program asks the terminal."""

    keys: int

    def write_process_input(self, data: str) -> None:
        os.write(self.keys, data.encode())


@attrs.define
class Terminal:
    """The command, its keys and its screen."""

    process: subprocess.Popen[bytes]
    keys: int
    screen: Screen
    stream: pyte.ByteStream
    home: Path
    printed: bytes = b""

    def read(self, patience: float) -> bool:
        """Take in what was printed; False if nothing was, or at the end."""
        if not select.select([self.keys], [], [], patience)[0]:
            return False
        try:
            printed = os.read(self.keys, 65536)
        except OSError:  # the other end is closed
            return False
        self.printed += printed
        return bool(printed)

    def show(self) -> None:
        """Put on the screen what was printed, with the home as ~."""
        whole = self.printed.replace(str(self.home).encode(), b"~")
        self.printed = b""
        self.stream.feed(_brightened(whole))

    def prompted(self, below: int) -> int:
        """Wait for a prompt under line ``below``; returns the line that it is in."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            while self.read(0.1):
                pass
            self.show()
            line = self.screen.cursor.y
            if line > below and self.screen.display[line].rstrip().endswith(">"):
                return line
            if self.process.poll() is not None:
                break
        raise SystemExit("no prompt came:\n" + "\n".join(self.screen.display))


def _brightened(printed: bytes) -> bytes:
    """Return it with faint text as grey: the emulator knows no faint text."""

    def grey(match: re.Match[str]) -> str:
        codes = match[1].split(";")
        faint = "2" in codes and "38" not in codes and "48" not in codes
        return (
            f"\x1b[{';'.join('90' if x == '2' else x for x in codes)}m"
            if faint
            else match[0]
        )

    return _SGR.sub(grey, printed.decode(errors="replace")).encode()


def recorded(home: Path) -> Screen:
    """Play the session, and return the screen at its end."""
    keys, tty = os.openpty()
    termios.tcsetwinsize(tty, (LINES, COLUMNS))
    process = subprocess.Popen(
        [sys.executable, "-c", _LOGIN, str(COMMAND), "demo"],
        stdin=tty,
        stdout=tty,
        stderr=tty,
        start_new_session=True,
        cwd=home,
        env={name: os.environ[name] for name in _KEPT if name in os.environ}
        | {"HOME": str(home), "TERM": "xterm-256color"},
    )
    os.close(tty)
    screen = Screen(COLUMNS, LINES)
    screen.keys = keys
    terminal = Terminal(process, keys, screen, pyte.ByteStream(screen), home)
    try:
        line = terminal.prompted(-1)
        for typed in TYPED:
            os.write(keys, f"{typed}\r".encode())
            line = terminal.prompted(line)
        os.write(keys, b"\x04")  # the end
        process.wait(PATIENCE)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(keys)
    return screen


def lines(screen: Screen) -> list[Text]:
    """Return the screen as styled text, from its first line to its last answer."""
    shown = [Text("$ glyphoxa demo", style="bold")]
    for row in range(LINES):
        text = Text()
        chars: list[Any] = [screen.buffer[row][column] for column in range(COLUMNS)]
        for style, run in itertools.groupby(chars, _style):
            text.append("".join(char.data for char in run), style)
        text.rstrip()
        shown.append(text)
    while not shown[-1].plain or shown[-1].plain.endswith(">"):
        shown.pop()
    return shown


def _style(char: Any) -> Style:
    def colour(name: str) -> str | None:
        if name == "default":
            return None
        if re.fullmatch(r"[0-9a-f]{6}", name):
            return f"#{name}"
        plain = name.replace("bright", "").replace("brown", "yellow")
        return f"bright_{plain}" if name.startswith("bright") else plain

    return Style(
        color=colour(char.fg),
        bgcolor=colour(char.bg),
        bold=char.bold,
        italic=char.italics,
    )


def drawn(shown: list[Text]) -> str:
    """Return the lines as SVG, with the reader's own fonts."""
    width = max(text.cell_len for text in shown) + 1
    with open(os.devnull, "w") as nowhere:
        console = Console(
            record=True,
            width=width,
            file=nowhere,
            force_terminal=True,
            legacy_windows=False,
        )
        for text in shown:
            console.print(text, soft_wrap=True)
        svg = console.export_svg(title="glyphoxa demo", unique_id="session")
    return _FONT_FACE.sub("", svg)


def read(svg: str) -> list[str]:
    """Return the lines of text of such a picture."""
    rows: dict[float, list[tuple[float, str]]] = {}
    for element in _texts(ET.fromstring(svg)):
        if "clip-path" in element.attrib:  # the title has none
            row = rows.setdefault(float(element.attrib["y"]), [])
            row.append((float(element.attrib["x"]), "".join(element.itertext())))
    return [
        " ".join("".join(part for _, part in sorted(row)).split())
        for _, row in sorted(rows.items())
    ]


def _texts(tree: ET.Element) -> Iterator[ET.Element]:
    return tree.iter("{http://www.w3.org/2000/svg}text")


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    with tempfile.TemporaryDirectory() as home:
        target.write_text(drawn(lines(recorded(Path(home)))))
    print(target)


if __name__ == "__main__":
    main()
