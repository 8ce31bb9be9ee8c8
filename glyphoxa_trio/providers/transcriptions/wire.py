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
# After one of these errors the next utterance would fail as well.
_FOR_EVER: Final = frozenset({ErrorKind.AUTHENTICATION, ErrorKind.NOT_FOUND})


class Hopeless(SpeechError):
    """The server cannot recognize anything: a key, model or address is wrong."""


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
      Hopeless: if every later request would fail as well.
      SpeechError: for this utterance.
    """
    answer = body.decode("utf-8", "replace")
    if status != 200:
        error = status_error(status, headers, answer, secret)
        failure = Hopeless if error.kind in _FOR_EVER else SpeechError
        raise failure(error.detail)
    try:
        text = json.loads(answer)["text"] if len(body) <= MAX_ANSWER else None
    except (ValueError, LookupError, TypeError, RecursionError):
        text = None
    if not isinstance(text, str):
        raise SpeechError(f"not a transcript: {excerpt(answer, secret)}")
    return text.strip()
