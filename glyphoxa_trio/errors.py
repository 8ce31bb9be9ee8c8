"""The errors that the kernel raises on purpose, and the base class of all others.

A `GlyphoxaError` raised while answering a request is an answer: it is raised in the
caller, and the actor lives on. Any other exception is a bug: it crashes the actor, and
its supervisor decides about a restart. Errors that belong to one room are defined in
that room and derive from the base class here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from glyphoxa_trio.renamed import renamed


class GlyphoxaError(Exception):
    """Base of every error raised on purpose by this package."""


class ActorGone(GlyphoxaError):
    """The actor stopped, or crashed on this very request, before it answered.

    If it crashed, ``__cause__`` is the exception.
    """


class MessageNotUnderstood(GlyphoxaError):
    """The actor does not know this message, and has done nothing with it."""


class DeadlineExceeded(GlyphoxaError, trio.TooSlowError):
    """The answer did not arrive within the time that the caller allowed."""


class RestartsExhausted(GlyphoxaError):
    """A supervised child failed too often; ``__cause__`` is its last failure."""


class TooManyFlights(GlyphoxaError):
    """Earlier work under this key ignored its cancellation and still runs."""


def said(error: BaseException, most: int = 500) -> str:
    """Return the type and text of a foreign error, in at most ``most`` characters.

    Never raises, although a foreign ``__str__`` may.
    """
    name = type(error).__name__
    try:
        return f"{name}: {error}"[:most]
    except KeyboardInterrupt:
        raise
    except BaseException:  # foreign code again
        return f"{name}, whose text cannot be read"


def words(error: BaseException, most: int = 2**14) -> str:
    """Return the error's text; if it has none that can be read, as `said`."""
    try:
        return str(error)[:most]
    except KeyboardInterrupt:
        raise
    except BaseException:  # foreign code again
        return said(error)


if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, NotUnderstood="MessageNotUnderstood")
