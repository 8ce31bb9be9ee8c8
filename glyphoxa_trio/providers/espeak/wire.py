"""What `espeak-ng` is told: its options, and the text as it is to be said. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from glyphoxa_trio.providers.speech import VoiceStyle

DEFAULT_VOICE: Final = "en"
_WORDS_PER_MINUTE: Final = 175  # its own usual speed
_SLOWEST, _FASTEST = 80, 450  # what it takes


def options(voice: VoiceStyle) -> list[str]:
    """Options for one sentence, which comes by stdin, to a WAV on stdout.

    A ``name`` that begins with ``+`` is a variant of the language's voice. A speed
    that it cannot do becomes the nearest one that it can.
    """
    language = (voice.language or DEFAULT_VOICE).lower()
    name = voice.name or language
    if name.startswith("+"):
        name = language + name
    speed = round(_WORDS_PER_MINUTE * voice.speed)
    speed = max(_SLOWEST, min(_FASTEST, speed))
    utf8 = "1"
    return ["--stdin", "--stdout", "-b", utf8, "-v", name, "-s", str(speed)]


def said(text: str, pronunciation: Mapping[str, str]) -> bytes:
    """The text with words replaced as they are pronounced.

    A pronunciation may be phonemes in ``[[…]]``, which are the operator's; in the
    text, which is a model's, they are nothing special.
    """
    text = "".join(mark if mark.isprintable() else " " for mark in text)
    text = re.sub(r"\[(?=\[)", "[ ", text)
    return replaced(text, pronunciation).encode(errors="replace")


def replaced(text: str, pronunciation: Mapping[str, str]) -> str:
    """Whole words only, in whatever case, the longest first; nothing is replaced
    twice."""
    known = {word.casefold(): said for word, said in pronunciation.items() if word}
    if not known:
        return text
    longest_first = sorted(known, key=len, reverse=True)
    words = "|".join(re.escape(word) for word in longest_first)
    return re.sub(
        rf"(?<!\w)(?:{words})(?!\w)",
        lambda found: known.get(found[0].casefold(), found[0]),
        text,
        flags=re.IGNORECASE,
    )
