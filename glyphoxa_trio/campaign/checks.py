"""Checks of the values that clients send: texts, enumerated words, ids."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, TypeVar

from .errors import InvalidArgument
from .model import CampaignRecord

E = TypeVar("E", bound=StrEnum)

MOST_NAME: Final = 200  # characters
MOST_TEXT: Final = 8_000
MOST_KEY: Final = 200
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def name(place: str, text: str) -> str:
    """Return a name without surrounding space.

    Raises:
      InvalidArgument: if it is empty or too long.
    """
    trimmed = bounded(place, text, MOST_NAME).strip()
    if not trimmed:
        raise InvalidArgument(f"{place} must not be empty")
    return trimmed


def bounded(place: str, text: str, most: int = MOST_TEXT) -> str:
    """Return the text; raise `InvalidArgument` if it is too long or not Unicode."""
    if len(text) > most:
        raise InvalidArgument(f"{place} has more than {most} characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(f"{place} holds half of a surrogate pair") from None
    return text


def word(place: str, text: str, words: type[E]) -> E:
    """Return the enumerated word that the text names, in any case.

    Raises:
      InvalidArgument: if it names none; the message lists them.
    """
    try:
        return words(text.strip().upper())
    except ValueError:
        known = ", ".join(words)
        raise InvalidArgument(f"{place} must be one of {known}") from None


def identifier(kind: type[CampaignRecord], text: str) -> str:
    """Return a text that has the form of an id; the store knows whether it is one.

    Raises:
      InvalidArgument: if it has not.
    """
    return shaped(f"{kind.WORD}_id", text)


def shaped(place: str, text: str) -> str:
    """Return the text; raise `InvalidArgument` if it has not the form of an id."""
    if not text.strip():
        raise InvalidArgument(f"{place} must not be empty")
    if not _ID.fullmatch(text):
        raise InvalidArgument(f"{place} is malformed: letters, digits, _ and - only")
    return text


def key(text: str) -> str:
    """Return an idempotency key. Raises `InvalidArgument`."""
    if not text.strip():
        raise InvalidArgument("idempotency_key must not be empty")
    return bounded("idempotency_key", text, MOST_KEY)
