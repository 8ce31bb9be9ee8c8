"""The errors of a memory store, by what the caller can do about them."""

from __future__ import annotations

from glyphoxa_trio.errors import GlyphoxaError


class MemoryUnavailable(GlyphoxaError):
    """The store cannot be read or written now, but perhaps later: nothing was changed.

    The disk is full, another program holds the file, the database restarts.
    """


class MemoryUnusable(GlyphoxaError):
    """The store is damaged, of another program or of a newer version.

    It was left as it is, and trying again is of no use.
    """


class HeldElsewhere(GlyphoxaError):
    """Another process has this session open; the message says which.

    ``holder``: the id of that process. ``epoch``: that of its claim.
    """

    def __init__(self, session: str, holder: str, where: str, epoch: int) -> None:
        super().__init__(f"the session {session} is open in {where}")
        self.holder, self.epoch = holder, epoch


class Fenced(GlyphoxaError):
    """Another process has taken over this session since: nothing was written."""


class QueryRefused(GlyphoxaError):
    """A search that cannot be carried out; the message tells a model why."""


class KnowledgeRefused(GlyphoxaError):
    """An entity, relationship or fact that no store keeps.

    The message names the field and what to do.
    """


class UnknownItem(GlyphoxaError):
    """There is no such entity, fact, evening or session, or the viewer may not see it.

    Both cases have the same message, so that it betrays nothing.
    """


def unknown_entity(name: str) -> UnknownItem:
    return UnknownItem(f"there is no entity {name[:200]!r}")


def unknown_fact(id_: int) -> UnknownItem:
    return UnknownItem(f"there is no fact {id_}")


def unknown_line(session: str, n: int) -> UnknownItem:
    return UnknownItem(f"there is no line {n} in the session {session[:200]!r}")
