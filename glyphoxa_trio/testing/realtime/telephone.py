"""G.711 on the wire of a fake.

Its own audio is PCM16 at 24 kHz, three times the rate, so each sample is repeated three
times, or one of three is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glyphoxa_trio.providers.g711 import Law, decoded, encoded


def law_of(form: Mapping[str, Any]) -> Law | None:
    """Return the law of a session's audio format; None for PCM."""
    name = str(form["type"]).removeprefix("audio/")
    return Law(name) if name in [*Law] else None


def from_telephone(data: bytes, law: Law) -> bytes:
    pcm = decoded(data, law)
    return b"".join(3 * pcm[i : i + 2] for i in range(0, len(pcm), 2))


def to_telephone(pcm: bytes, law: Law) -> bytes:
    return encoded(b"".join(pcm[i : i + 2] for i in range(0, len(pcm), 6)), law)
