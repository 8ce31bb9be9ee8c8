"""Tutorials, read and done: files that are written, commands that are run, and what
the page shows of their output."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal

import attrs

ROOT: Final = Path(__file__).parents[2]
TUTORIALS: Final = ROOT / "docs" / "tutorials"

_BLOCK: Final = re.compile(
    r"^(?P<indent> *)```(?P<language>\w+)(?P<options>[^\n]*)\n"
    r"(?P<text>.*?)^(?P=indent)```",
    re.MULTILINE | re.DOTALL,
)
_TITLE: Final = re.compile(r'title="([^"]+)"')
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")


@attrs.frozen
class Step:
    """One thing that a reader does, or sees.

    ``file``: write ``text`` under ``name``. ``run``: type ``text``. ``shown``: what the
    commands before have printed.
    """

    kind: Literal["file", "run", "shown"]
    text: str
    name: str = ""


def steps(page: Path) -> list[Step]:
    """Everything that a tutorial has its reader do, in order."""
    found: list[Step] = []
    for block in _BLOCK.finditer(page.read_text()):
        text = re.sub(rf"(?m)^{block['indent']}", "", block["text"])
        title = _TITLE.search(block["options"])
        if block["language"] == "sh":
            found.append(Step("run", text))
        elif title:
            found.append(Step("file", text, title[1]))
        elif block["language"] == "text":
            found.append(Step("shown", text))
    return found


def differences(shown: str, printed: str) -> list[str]:
    """Lines that are only shown (-) or only printed (+), in their order.

    A number stands for any number, ms for seconds, too, … within a line for anything,
    and … alone for any lines.
    """
    rest = [" ".join(x.split()) for x in printed.splitlines() if x.strip()]
    found: list[str] = []
    left_out = False
    for line in filter(str.strip, shown.splitlines()):
        if line.strip() == "…":
            left_out = True
            continue
        pattern = re.compile(_pattern(" ".join(line.split())))
        at = next((n for n, x in enumerate(rest) if pattern.fullmatch(x)), None)
        if at is None:
            found.append(f"- {line}")
            continue
        found.extend(f"+ {x}" for x in rest[:at] if not left_out)
        rest, left_out = rest[at + 1 :], False
    found.extend(f"+ {x}" for x in rest if not left_out)
    return found


def _pattern(line: str) -> str:
    parts = [
        _NUMBER.sub(lambda _: r"\d+(?:\.\d+)?", re.escape(part).replace(r"\.", "."))
        for part in line.split("…")
    ]
    return re.sub(r"\\ ms\b", r"\\ m?s", ".*".join(parts))
