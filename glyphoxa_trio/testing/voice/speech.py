"""A `Speak` on the wire: words and audio, message by message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .steps import Speak, silence

BYTES_PER_MS: Final = 48  # of PCM16 at 24 kHz


def messages(step: Speak) -> Iterator[tuple[str, bytes]]:
    """Yield the words and the audio of each message: text runs a little ahead of sound.

    Without any audio there is one message with all words.
    """
    pcm = silence(step.ms) if step.audio is None else step.audio
    size = step.chunk_ms * BYTES_PER_MS
    chunks = [pcm[i : i + size] for i in range(0, len(pcm), size)] or [b""]
    left = len(pcm) if step.upto_ms is None else step.upto_ms * BYTES_PER_MS
    words = words_of(step.text)
    said = 0
    for number, chunk in enumerate(chunks, 1):
        if step.upto_ms is not None and left <= 0:
            return
        until = -(-len(words) * number // len(chunks))
        yield "".join(words[said:until]), chunk[:left]
        said = until
        left -= size


def words_of(text: str) -> list[str]:
    """Return the words of a text, each but the first with the space before it."""
    first, *rest = text.split(" ")
    return [first, *(f" {word}" for word in rest)] if text else []
