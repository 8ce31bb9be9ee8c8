"""The wishes of a site to robots (RFC 9309). Pure.

This is a parser of our own, since the standard library's knows no wildcards, and
matching them by regular expressions lets a site block us for ever with a line of
asterisks.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

import attrs

MAX_BYTES: Final = 512 * 1024  # the rest is not read; the RFC asks for 500 KiB
MAX_RULES: Final = 5000
_LINE: Final = re.compile(r"\s*([A-Za-z-]+)\s*:\s*([^#]*)")
_TOKEN: Final = re.compile(r"[A-Za-z_-]+")
_ESCAPED: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_PLAIN: Final = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
)


@attrs.frozen
class Robots:
    """The rules for one robot: each a pattern, and whether it allows."""

    rules: tuple[tuple[str, bool], ...] = ()

    @classmethod
    def parse(cls, text: str, robot: str) -> Robots:
        """Return the rules for ``robot``, or those for all if it is not named."""
        ours: list[tuple[str, bool]] = []
        everybodys: list[tuple[str, bool]] = []
        named = in_rules = False
        current: set[str] = set()
        for line in re.split(r"\r\n|\r|\n", text.removeprefix("\ufeff")):
            found = _LINE.match(line)
            if found is None:
                continue
            field, value = found[1].lower(), found[2].strip()
            if field == "user-agent":
                if in_rules:
                    current, in_rules = set(), False
                current.add(value if value == "*" else product(value).lower())
                named = named or robot.lower() in current
            elif field in ("allow", "disallow"):
                in_rules = True
                if not value:
                    continue
                rule = (_normal(value), field == "allow")
                if robot.lower() in current and len(ours) < MAX_RULES:
                    ours.append(rule)
                if "*" in current and len(everybodys) < MAX_RULES:
                    everybodys.append(rule)
        return cls(tuple(ours if named else everybodys))

    def allow(self, target: str) -> bool:
        """Return whether the robot may request a path and query.

        The longest rule that fits decides, and of two equally long ones the one that
        allows.
        """
        target = _normal(target)
        if target == "/robots.txt":
            return True
        best = (-1, True)
        for pattern, allows in self.rules:
            if (len(pattern), allows) > best and fits(pattern, target):
                best = (len(pattern), allows)
        return best[1]


EVERYTHING: Final = Robots()
NOTHING: Final = Robots((("/", False),))


def product(agent: str) -> str:
    """Return the part of a ``User-Agent`` by which a site names a robot."""
    found = _TOKEN.match(agent)
    return found[0] if found else ""


def fits(pattern: str, target: str) -> bool:
    """Return whether a target matches a pattern.

    ``*`` stands for anything, and ``$`` at the end for the end of the target. Each
    piece is searched for once, so the time is linear.
    """
    end = pattern.endswith("$")
    first, *pieces = pattern.removesuffix("$").split("*")
    if not target.startswith(first):
        return False
    at = len(first)
    if end and not pieces:
        return at == len(target)
    last = pieces.pop() if end else ""
    for piece in pieces:
        found = target.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return not end or (target.endswith(last) and len(target) - len(last) >= at)


def _normal(text: str) -> str:
    """Normalise a path, so that two ways of escaping it become equal."""

    def unescape(found: re.Match[str]) -> str:
        mark = chr(int(found[1], 16))
        return mark if mark in _PLAIN else found[0].upper()

    return _ESCAPED.sub(unescape, quote(text, safe="%/:?#[]@!$&'()*+,;=-._~|^`{}\"<>"))
