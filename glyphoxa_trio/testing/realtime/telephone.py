"""G.711 on a fake's wire. All its audio is PCM16 at 24 kHz, three times as fast, so
samples are said three times, or one of three is taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glyphoxa_trio.providers.g711 import Law, decoded, encoded


def law_of(form: Mapping[str, Any]) -> Law | None:
    """That of a session's format; None for PCM."""
    name = str(form["type"]).removeprefix("audio/")
    return Law(name) if name in [*Law] else None


def from_telephone(data: bytes, law: Law) -> bytes:
    pcm = decoded(data, law)
    return b"".join(3 * pcm[i : i + 2] for i in range(0, len(pcm), 2))


def to_telephone(pcm: bytes, law: Law) -> bytes:
    return encoded(b"".join(pcm[i : i + 2] for i in range(0, len(pcm), 6)), law)
