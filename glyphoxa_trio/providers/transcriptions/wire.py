"""The request to a transcription server, and the meaning of its response. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from glyphoxa_trio.providers.failures import excerpt, status_error
from glyphoxa_trio.providers.llm import ErrorKind
from glyphoxa_trio.providers.speech import SpeechError
from glyphoxa_trio.providers.wav import wav
from glyphoxa_trio.secret import Secret

MAX_ANSWER: Final = 64 * 1024  # bytes; an utterance of half a minute has a thousand


def fields(model: str, *, language: str | None, prompt: str) -> dict[str, str]:
    """Return the form beside the file.

    Servers know only the first part of a language tag, such as ``en``.
    """
    form = {"model": model, "response_format": "json"}
    if language:
        form["language"] = language.partition("-")[0].lower()
    if prompt:
        form["prompt"] = prompt
    return form


def file(pcm: bytes, rate: int) -> tuple[str, bytes, str]:
    """Return the file of an utterance: name, contents and type."""
    return "utterance.wav", wav(pcm, rate), "audio/wav"


def text_of(
    status: int, headers: Mapping[str, str], body: bytes, secret: Secret | None
) -> str:
    """Return the words of a response.

    Raises:
      SpeechError: if it has none.
    """
    answer = body.decode("utf-8", "replace")
    if status != 200:
        error = status_error(status, headers, answer, secret)
        raise SpeechError(error.detail, error.kind)
    try:
        text = json.loads(answer)["text"] if len(body) <= MAX_ANSWER else None
    except (ValueError, LookupError, TypeError, RecursionError):
        text = None
    if not isinstance(text, str):
        words = f"not a transcript: {excerpt(answer, secret)}"
        raise SpeechError(words, ErrorKind.MALFORMED)
    return text.strip()
