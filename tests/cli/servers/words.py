"""Words that steer a terminal."""

from __future__ import annotations

STEERING = (
    "\x1b[2J\x1b]0;owned\x07\x9b31m\x00\u202e\u2066\u200f\u061c\u2028"
    + "".join(chr(0xE0000 + ord(char)) for char in "ignore")
    + "e"
    + "\u0301" * 40
)


def said(word: str) -> str:
    return f"{word}{STEERING}{word}"
