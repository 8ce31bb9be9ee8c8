"""Every error the kernel raises on purpose, and the base of all the others.

A `GlyphoxaError` raised while answering a call is an answer: it reaches the
asker and the actor lives on. Any other exception is a bug: it crashes the
actor, and its supervisor decides what comes next. Errors that belong to one
room live in that room and derive from the base here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from glyphoxa_trio.renamed import renamed


class GlyphoxaError(Exception):
    """Base of every error raised on purpose by this package."""


class ActorGone(GlyphoxaError):
    """The actor stopped, or crashed on this very request, before it answered.

    If it crashed, ``__cause__`` is what it crashed with.
    """


class MessageNotUnderstood(GlyphoxaError):
    """The actor does not know this message; nothing else has become of it."""


class DeadlineExceeded(GlyphoxaError, trio.TooSlowError):
    """The answer did not arrive within the asker's patience."""


class RestartsExhausted(GlyphoxaError):
    """A supervised child failed too often; ``__cause__`` is its last failure."""


class TooManyFlights(GlyphoxaError):
    """Earlier work under this key ignored its cancellation and still runs."""


def said(error: BaseException, most: int = 500) -> str:
    """What an error of foreign code says, with its type; at most ``most`` characters.

    Never raises: not every error can be printed.
    """
    name = type(error).__name__
    try:
        return f"{name}: {error}"[:most]
    except KeyboardInterrupt:
        raise
    except BaseException:  # foreign code again
        return f"{name}, which cannot say what is wrong"


def words(error: BaseException, most: int = 2**14) -> str:
    """As `said`, without the type where there are words."""
    try:
        return str(error)[:most]
    except KeyboardInterrupt:
        raise
    except BaseException:  # foreign code again
        return said(error)


if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, NotUnderstood="MessageNotUnderstood")
