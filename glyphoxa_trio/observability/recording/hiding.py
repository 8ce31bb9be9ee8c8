"""Lines of a recording without secrets: plain data, cleaned wherever text stands.

A recording must have exactly what was said, so nothing is cut or tidied here; a secret
becomes ``[secret]``, also where it is written inside JSON inside a text, or comes from
a model in pieces. A value that stands openly in the name of an NPC or server is none.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Mapping
from enum import Enum, IntEnum
from hashlib import sha256
from itertools import accumulate
from typing import Any, Final

import attrs

from glyphoxa_trio.config import Config
from glyphoxa_trio.config.secrecy import secrets_in
from glyphoxa_trio.secret import HIDDEN, Mask, Secret

_LONGEST_SOUND: Final = 16 * 1024 * 1024  # bytes of one piece


@attrs.frozen
class AsJson:
    """Foreign data, as text: it may have changed by the time it is written."""

    text: str


@attrs.frozen
class Later:
    """A value that is made when the line is written, with what hides secrets."""

    value: Callable[[Hiding], Any]


class Sound(bytes):
    """Audio out of a recording: silence that is as long, and is told as it was."""

    told: str

    @classmethod
    def of(cls, told: str) -> Sound:
        """Raises `ValueError` if that is no text of audio."""
        length, words, _ = str(told).partition(" bytes, ")
        if not words or not 0 <= int(length) <= _LONGEST_SOUND:
            raise ValueError(f"{told!r} is no audio")
        sound = cls(int(length))
        sound.told = told
        return sound

    @staticmethod
    def text_of(audio: bytes) -> str:
        if isinstance(audio, Sound):
            return audio.told
        return f"{len(audio)} bytes, {sha256(audio).hexdigest()[:16]}"


@attrs.frozen
class Hiding:
    """Replaces the secrets of a configuration."""

    mask: Mask = attrs.field(factory=Mask)

    @classmethod
    def of(cls, *configs: Config) -> Hiding:
        """Return what hides the secrets of these configurations, however written."""
        names = [npc.name for config in configs for npc in config.npcs]
        names += [spec.name for config in configs for spec in config.mcp.servers]
        secrets = secrets_in(configs)
        return cls(Mask.of(x for x in secrets if not any(x in name for name in names)))

    def text(self, text: str) -> str:
        return self.mask.text(text)

    def plain(self, value: Any) -> Any:
        """The value as JSON can say it, without secrets. Seconds stay seconds."""
        match value:
            case None | bool() | Secret():
                return HIDDEN if isinstance(value, Secret) else value
            case IntEnum():
                return str(value)
            case Enum():
                return value.value
            case int() | float():
                return value
            case str():
                return self.text(value)
            case bytes():  # audio: that it was the same is all one wants to know
                return Sound.text_of(value)
            case AsJson():
                return self.plain(json.loads(value.text))
            case Later():
                return value.value(self)
            case Mapping():
                return {self.text(str(k)): self.plain(x) for k, x in value.items()}
            case list() | tuple():
                return [self.plain(item) for item in value]
            case set() | frozenset():
                return sorted(self.plain(item) for item in value)
            case _ if attrs.has(type(value)):
                return {
                    field.name: self.plain(item)
                    for field in attrs.fields(type(value))
                    if (item := getattr(value, field.name)) is not None
                }
        return self.text(str(value))

    def held_from(self, text: str) -> int:
        """Return the position in ``text`` at which the start of a secret may stand."""
        forms = self.mask.forms
        longest = max(map(len, forms), default=0)
        for at in range(max(0, len(text) - longest), len(text)):
            rest = text[at:]
            if any(len(x) > len(rest) and x.startswith(rest) for x in forms):
                return at
        return len(text)


def in_pieces(
    pieces: list[str], hiding: Hiding, *, over: bool
) -> tuple[list[str], list[str]]:
    """Consecutive pieces of one text: those that can be told, cleaned, and the rest.

    A secret across pieces is hidden in the one it begins in and missing in the
    others, so there are as many pieces after as before.

    Args:
      over: no piece follows: what looks like the beginning of a secret is none.
    """
    text = "".join(pieces)
    spans = hiding.mask.spans(text)
    until = len(text) if over else hiding.held_from(text)
    ends = list(accumulate(map(len, pieces)))
    count = bisect_right(ends, until)
    # The text that is given and the text that is held must not share a secret.
    while count and any(begin < ends[count - 1] < end for begin, end in spans):
        count -= 1
    begins = [0, *ends]
    told = [_without(text, begins[at], ends[at], spans) for at in range(count)]
    return told, pieces[count:]


def _without(text: str, begin: int, end: int, spans: list[tuple[int, int]]) -> str:
    shown: list[str] = []
    at = begin
    for first, last in spans:
        if last <= begin or first >= end:
            continue
        shown.append(text[at : max(at, first)])
        if first >= begin:
            shown.append(HIDDEN)
        at = min(last, end)
    return "".join([*shown, text[at:end]])
