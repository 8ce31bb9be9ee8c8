"""The options of `espeak-ng`, and the text as it is spoken. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from glyphoxa_trio.providers.speech import VoiceStyle
from glyphoxa_trio.providers.wording import replaced

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
