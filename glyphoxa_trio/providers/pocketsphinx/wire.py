"""The protocol between a recognizer and its worker process. No I/O.

The worker gets packets: a length of four bytes, and so many bytes of audio; a packet
without audio ends an utterance. It sends lines of JSON, each with one key: ``ready``,
``partial`` or ``final``.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable
from typing import Any, Final

LENGTH: Final = struct.Struct("<I")
END: Final = LENGTH.pack(0)

_WORD: Final = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")


def packet(pcm: bytes) -> bytes:
    """Return a packet of audio."""
    return LENGTH.pack(len(pcm)) + pcm


def line(**said: Any) -> bytes:
    """Return a line of JSON."""
    return json.dumps(said).encode() + b"\n"


def words_of(phrase: str) -> list[str]:
    """Return the words of a phrase, as a dictionary has them."""
    return [word.lower().replace("\u2019", "'") for word in _WORD.findall(phrase)]


def grammar(phrases: Iterable[str]) -> str:
    """Return a JSGF grammar that accepts any one of these phrases.

    Raises:
      ValueError: if none of them has a word.
    """
    spoken = dict.fromkeys(" ".join(words_of(phrase)) for phrase in phrases)
    said = " | ".join(phrase for phrase in spoken if phrase)
    if not said:
        raise ValueError("no phrase has a word in it")
    return f"#JSGF V1.0; grammar phrases; public <phrase> = {said};"
