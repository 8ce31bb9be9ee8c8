"""The options of `espeak-ng`, and the text as it is spoken. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from glyphoxa_trio.providers.speech import VoiceStyle

DEFAULT_VOICE: Final = "en"
_WORDS_PER_MINUTE: Final = 175  # the program's default
_SLOWEST, _FASTEST = 80, 450  # the limits of the program


def options(voice: VoiceStyle) -> list[str]:
    """Return the options for one sentence, read from stdin, to a WAV on stdout.

    A ``name`` that begins with ``+`` is a variant of the language's voice. A speed
    outside the program's limits becomes the nearest one inside.
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
    """Return the text, with words replaced by their pronunciation.

    A pronunciation may contain phonemes in ``[[…]]``: it comes from the operator. The
    text comes from a model, so such brackets in it are disabled.
    """
    text = "".join(mark if mark.isprintable() else " " for mark in text)
    text = re.sub(r"\[(?=\[)", "[ ", text)
    return replaced(text, pronunciation).encode(errors="replace")


def replaced(text: str, pronunciation: Mapping[str, str]) -> str:
    """Replace whole words, in any case, the longest first; nothing twice."""
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
